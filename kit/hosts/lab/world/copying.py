"""Copies of a world: mutable objects are copied, immutable ones are shared.

`copy_of` does the same as `copy.deepcopy` for the objects of a world, a few times as fast. Speed matters because a
large job has tens of thousands of channels, and the lab copies them repeatedly. Objects of other kinds, including the
user's, are reduced as `copy.deepcopy` reduces them, and their parts are copied here.

Arrow data and the protocol's values are immutable, so a copy shares them.
"""

from __future__ import annotations

import copy
import copyreg
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, TypeVar, cast, get_args

import pyarrow as pa

from kit.core.protocol.elements import Element
from kit.core.protocol.messages import CheckpointMetrics, InitializationMetrics
from kit.core.protocol.words import ProtocolMessage
from kit.core.state.handles import InputChannelInfo, KeyGroupRange, ResultSubpartitionInfo
from kit.machines.coordinator.statistics import SubtaskStats, TaskInitialization
from kit.stream.graph.regions import Region, Regions

T = TypeVar("T")
Memo = dict[int, Any]
Copier = Callable[[Any, Memo], Any]

COLUMNS: tuple[type, ...] = (
    pa.Array,
    pa.ChunkedArray,
    pa.RecordBatch,
    pa.Table,
    pa.Buffer,
    pa.Scalar,
    pa.DataType,
    pa.Field,
    pa.Schema,
)
"""The types of Arrow objects that copies share."""

VALUES: tuple[type, ...] = (
    *COLUMNS,
    Enum,
    BaseException,
    ProtocolMessage,
    *get_args(Element),
    SubtaskStats,
    TaskInitialization,
    CheckpointMetrics,
    InitializationMetrics,
    InputChannelInfo,
    ResultSubpartitionInfo,
    KeyGroupRange,
    Region,
    Regions,
)
"""Immutable types; their subclasses are immutable too."""

_ATOMS = (type(None), bool, int, float, complex, str, bytes, type, range, FunctionType, BuiltinFunctionType)


def copy_of(value: T, memo: Memo) -> T:
    """Return a copy that shares no mutable object with the value; `memo` is as for `copy.deepcopy`."""
    kind = type(value)
    copier = _COPIERS.get(kind) or _copier_for(kind)
    if copier is _itself:
        return value
    known = memo.get(id(value))
    return cast(T, copier(value, memo) if known is None else known)


def _itself(value: T, memo: Memo) -> T:
    return value


def _dict(value: dict[Any, Any], memo: Memo) -> dict[Any, Any]:
    if _SHARED.issuperset(map(type, value.values())) and _SHARED.issuperset(map(type, value)):
        made = memo[id(value)] = value.copy()
        return made
    made = memo[id(value)] = {}
    for key, item in value.items():
        made[key if type(key) in _SHARED else copy_of(key, memo)] = _part(item, memo)
    return made


def _list(value: list[Any], memo: Memo) -> list[Any]:
    if _SHARED.issuperset(map(type, value)):
        made = memo[id(value)] = value.copy()
        return made
    made = memo[id(value)] = []
    for item in value:
        made.append(_part(item, memo))
    return made


def _deque(value: deque[Any], memo: Memo) -> deque[Any]:
    made: deque[Any] = deque(maxlen=value.maxlen)
    memo[id(value)] = made
    for item in value:
        made.append(_part(item, memo))
    return made


def _part(item: Any, memo: Memo) -> Any:
    return item if type(item) in _SHARED else copy_of(item, memo)


def _set(value: set[Any], memo: Memo) -> set[Any]:
    made = memo[id(value)] = {copy_of(item, memo) for item in value}
    return made


def _tuple(value: tuple[Any, ...], memo: Memo) -> tuple[Any, ...]:
    if _SHARED.issuperset(map(type, value)):
        return value
    items = [copy_of(item, memo) for item in value]
    if all(map(lambda mine, others: mine is others, value, items)):
        return value
    known = memo.get(id(value))
    if known is None:
        known = memo[id(value)] = type(value)._make(items) if hasattr(value, "_make") else tuple(items)
    return cast(tuple[Any, ...], known)


def _method(value: MethodType, memo: Memo) -> MethodType:
    return MethodType(value.__func__, copy_of(value.__self__, memo))


def _by_itself(value: Any, memo: Memo) -> Any:
    made = memo[id(value)] = value.__deepcopy__(memo)
    return made


def _taken_apart(value: Any, memo: Memo) -> Any:
    """Copy an object by its `pickle` reduction; leave one that cannot be pickled to `copy.deepcopy`."""
    reduce = copyreg.dispatch_table.get(type(value))
    try:
        parts = value.__reduce_ex__(4) if reduce is None else reduce(value)
    except TypeError:
        return copy.deepcopy(value, memo)
    if isinstance(parts, str):
        return value
    memo.setdefault(id(memo), []).append(
        parts
    )  # an object in the memo is keyed by its address, so it must not be freed
    make, arguments, state, items, pairs = (*parts, None, None, None)[:5]
    made = memo[id(value)] = make(*(copy_of(each, memo) for each in arguments))
    if state is not None:
        _set_state(made, copy_of(state, memo))
    for item in items or ():
        made.append(copy_of(item, memo))
    for key, item in pairs or ():
        made[copy_of(key, memo)] = copy_of(item, memo)
    return made


def _set_state(made: Any, state: Any) -> None:
    if hasattr(made, "__setstate__"):
        made.__setstate__(state)
        return
    in_dict, in_slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    if in_dict:
        made.__dict__.update(in_dict)
    for name, item in (in_slots or {}).items():
        setattr(made, name, item)


def _object(slots: tuple[str, ...], *, has_dict: bool) -> Copier:
    """Return a copier for a class of the kit: slot by slot, and its `__dict__`."""

    def copied(value: Any, memo: Memo) -> Any:
        made = memo[id(value)] = object.__new__(type(value))
        for name in slots:
            item = getattr(value, name, _NOTHING)
            if item is not _NOTHING:
                object.__setattr__(made, name, item if type(item) in _SHARED else copy_of(item, memo))
        if has_dict:
            attributes = made.__dict__
            for name, item in value.__dict__.items():
                attributes[name] = item if type(item) in _SHARED else copy_of(item, memo)
        return made

    return copied


def _copier_for(kind: type) -> Copier:
    """Return the copier for a type; it is looked up once."""
    if issubclass(kind, VALUES):
        copier: Copier = _itself
    elif hasattr(kind, "__deepcopy__"):
        copier = _by_itself
    elif issubclass(kind, tuple) and kind.__module__.startswith("kit."):
        copier = _tuple
    elif kind.__module__.startswith("kit.") and _is_plain(kind):
        copier = _object(tuple(slots_of(kind)), has_dict=kind.__dictoffset__ != 0)
    else:
        copier = _taken_apart
    _COPIERS[kind] = copier
    if copier is _itself:
        _SHARED.add(kind)
    return copier


def _is_plain(kind: type) -> bool:
    """Return True if objects of this type consist of their attributes only."""
    return not issubclass(kind, BaseException) and all(
        each.__module__.startswith(("kit.", "typing", "abc")) or each is object for each in kind.__mro__
    )


def slots_of(kind: type) -> Iterator[str]:
    """Yield the names of a class's slots, without those of Python itself."""
    for each in kind.__mro__:
        slots = each.__dict__.get("__slots__", ())
        yield from (name for name in ((slots,) if isinstance(slots, str) else slots) if not name.startswith("__"))


_COPIERS: dict[type, Copier] = {
    **dict.fromkeys(_ATOMS, _itself),
    dict: _dict,
    list: _list,
    deque: _deque,
    set: _set,
    tuple: _tuple,
    MethodType: _method,
}
_SHARED: set[type] = set(_ATOMS)
"""The types seen so far whose objects are shared."""
_NOTHING = object()

"""Copies of a world: what changes is copied, what never does is shared.

`copy_of` does what `copy.deepcopy` does, for the kinds of object that a world is made of and a few times as fast: a
large job has tens of thousands of channels, and the lab copies them again and again. Objects of other kinds, the
user's among them, go through `copy.deepcopy`.

Arrow data and the protocol's values never change, so a copy refers to the same ones. `share_columns` makes
`copy.deepcopy` do so as well.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, TypeVar, cast, get_args

import pyarrow as pa

from kit.coordinator.statistics import SubtaskStats, TaskInitialization
from kit.protocol.elements import Element
from kit.protocol.messages import CheckpointMetrics, InitializationMetrics
from kit.protocol.words import Word
from kit.state.handles import InputChannelInfo, KeyGroupRange, ResultSubpartitionInfo

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
"""The kinds of Arrow object that copies have in common."""

VALUES: tuple[type, ...] = (
    *COLUMNS,
    Enum,
    BaseException,
    Word,
    *get_args(Element),
    SubtaskStats,
    TaskInitialization,
    CheckpointMetrics,
    InitializationMetrics,
    InputChannelInfo,
    ResultSubpartitionInfo,
    KeyGroupRange,
)
"""These, and what is derived from them, never change."""

_ATOMS = (type(None), bool, int, float, complex, str, bytes, type, range, FunctionType, BuiltinFunctionType)


def copy_of(value: T, memo: Memo) -> T:
    """A copy that shares nothing with the value that may change; `memo` as for `copy.deepcopy`."""
    kind = type(value)
    copier = _COPIERS.get(kind) or _copier_for(kind)
    if copier is _itself:
        return value
    known = memo.get(id(value))
    return cast(T, copier(value, memo) if known is None else known)


def share_columns() -> None:
    """Make `copy.deepcopy` keep Arrow objects as they are; its table goes by exact type, hence every one is listed."""
    table: dict[type, object] = copy._deepcopy_dispatch  # type: ignore[attr-defined]
    for kind in COLUMNS:
        table.update(dict.fromkeys((kind, *_below(kind)), _itself))


def _below(kind: type) -> Iterator[type]:
    subclasses: list[type] = kind.__subclasses__()
    for each in subclasses:
        yield each
        yield from _below(each)


def _itself(value: T, memo: Memo) -> T:
    return value


def _dict(value: dict[Any, Any], memo: Memo) -> dict[Any, Any]:
    made: dict[Any, Any] = {}
    memo[id(value)] = made
    for key, item in value.items():
        made[copy_of(key, memo)] = copy_of(item, memo)
    return made


def _list(value: list[Any], memo: Memo) -> list[Any]:
    made: list[Any] = []
    memo[id(value)] = made
    for item in value:
        made.append(copy_of(item, memo))  # noqa: PERF401  (what refers back to the list must find it)
    return made


def _deque(value: deque[Any], memo: Memo) -> deque[Any]:
    made: deque[Any] = deque(maxlen=value.maxlen)
    memo[id(value)] = made
    for item in value:
        made.append(copy_of(item, memo))
    return made


def _set(value: set[Any], memo: Memo) -> set[Any]:
    made = memo[id(value)] = {copy_of(item, memo) for item in value}
    return made


def _tuple(value: tuple[Any, ...], memo: Memo) -> tuple[Any, ...]:
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


def _object(slots: tuple[str, ...]) -> Copier:
    """How to copy the objects of a class of ours: slot by slot, and what is in its dict."""

    def copied(value: Any, memo: Memo) -> Any:
        made = memo[id(value)] = object.__new__(type(value))
        for name in slots:
            if hasattr(value, name):
                object.__setattr__(made, name, copy_of(getattr(value, name), memo))
        for name, item in getattr(value, "__dict__", {}).items():
            made.__dict__[name] = copy_of(item, memo)
        return made

    return copied


def _copier_for(kind: type) -> Copier:
    """What copies objects of this type, looked up once."""
    if issubclass(kind, VALUES):
        copier: Copier = _itself
    elif hasattr(kind, "__deepcopy__"):
        copier = _by_itself
    elif issubclass(kind, tuple) and kind.__module__.startswith("kit."):
        copier = _tuple
    elif kind.__module__.startswith("kit.") and _is_plain(kind):
        copier = _object(tuple(_slots(kind)))
    else:
        copier = copy.deepcopy
    _COPIERS[kind] = copier
    return copier


def _is_plain(kind: type) -> bool:
    """Whether an object is its attributes, and nothing else."""
    return not issubclass(kind, BaseException) and all(
        each.__module__.startswith(("kit.", "typing", "abc")) or each is object for each in kind.__mro__
    )


def _slots(kind: type) -> Iterator[str]:
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

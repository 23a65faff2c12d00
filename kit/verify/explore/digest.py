"""The relevant content of a value, as a comparable value: two machines with equal digests behave equally.

A digest follows a value into its parts, as `kit.hosts.lab.world.copying` does, and omits what only observes or
measures: ids of events, times, statistics (`without_effect` of a class). Immutable objects that all states share (the
job, its graph, the user's functions) are identified by name. Other objects of unknown types are distinguished by their
address. So a digest may distinguish equal states, but never treats different ones as equal.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import is_dataclass
from enum import Enum
from functools import cache, partial
from hashlib import blake2b
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
import pyarrow as pa

from kit.hosts.lab.world.copying import slots_of
from kit.machines.channel.input_channel import InputChannel
from kit.machines.channel.input_gate import InputGates
from kit.machines.coordinator.ledger import COMPLETED
from kit.stream.backend.keys.slot_index import LookupCache
from kit.stream.graph.execution_graph import ExecutionGraph

T = TypeVar("T")
Names = Mapping[int, str]
"""The names of shared objects, by address."""
Traits: TypeAlias = "tuple[Callable[[Any, Walk], None], bool, bool, bool]"

WITHOUT_EFFECT = "without_effect"
"""The name under which a class declares its fields that have no effect on a machine's behaviour; they are omitted."""

UNORDERED = frozenset({"PendingCheckpoint", "OperatorStateBuilder"})
"""Classes whose dictionaries may be filled in any order, because nothing depends on it."""

SEEN_AS: dict[str, dict[str, Callable[[Any], Any]]] = {
    "CheckpointLedger": {
        "ended": lambda ended: {checkpoint_id: how == COMPLETED for checkpoint_id, how in sorted(ended.items())}
    },
}
"""Values of which only a part matters: the reason of an abort is only reported."""

VALUES_OF = ("kit.core.state.", "kit.core.protocol.")
"""The packages whose frozen classes are deeply immutable."""

_ATOM_SET = frozenset({type(None), bool, int, float, complex, str, bytes})


class Digester:
    """A maker of digests; `names` are the names of what all states share.

    With `takes_turns`, tasks have always taken what has arrived, so the turn does not matter.
    """

    def __init__(self, names: Names, *, takes_turns: bool = False) -> None:
        self.names = names
        self.takes_turns = takes_turns
        self.by_address: set[type] = set()
        """Types that are unknown: each object of theirs makes a state of its own."""
        self.traits: dict[type, Traits] = {}
        self._tokens: dict[int, bytes] = {}
        self.values: dict[int, Any] = {}
        """Values that occurred, by address: they never change, so copies may share them."""

    def digest(self, value: object) -> bytes:
        """Return 128 bits that are the same for equal values."""
        return _digest_of(self.parts(value))

    def parts(self, value: object) -> list[Any]:
        """Return everything that a digest includes of a value, in order."""
        walk = Walk(self)
        walk.visit(value)
        return walk.out

    def traits_of(self, kind: type) -> Traits:
        """Return how to walk through objects of this type, and whether they are frozen, values, or containers."""
        plan = _plan_for(kind)
        is_frozen = _is_frozen(cast(Hashable, kind))
        traits = self.traits[kind] = (plan, is_frozen, plan in _OF_VALUES, plan in _OF_CONTAINERS)
        return traits

    def token(self, value: Any) -> bytes | None:
        """Return a token for an immutable value; None for an object that may change."""
        token = self._tokens.get(id(value))
        if token is None:
            kind = type(value)
            walk = Walk(self, within_values=kind.__module__.startswith(VALUES_OF))
            (self.traits.get(kind) or self.traits_of(kind))[0](value, walk)
            if walk.met_objects:
                return None
            token = self._tokens[id(value)] = _digest_of(walk.out)
            self.values[id(value)] = value
        return token


def _digest_of(parts: list[Any]) -> bytes:
    """Return 128 bits of the content of a walk."""
    return blake2b(repr(parts).encode(), digest_size=16).digest()


class Walk:
    """One walk through a value: `out` is the content, in order; repeated objects are referred to by number."""

    __slots__ = ("_kept", "_met", "_within_values", "digester", "met_objects", "out")

    def __init__(self, digester: Digester, *, within_values: bool = False) -> None:
        self.out: list[Any] = []
        self.met_objects = False
        """True if a mutable object was met."""
        self._within_values = within_values
        self._met: dict[int, int] = {}
        self._kept: list[Any] = []
        self.digester = digester

    def keep(self, made: T) -> T:
        """Keep a temporary object to the end of the walk: objects are identified by their address."""
        self._kept.append(made)
        return made

    def visit(self, value: Any) -> None:
        """Add the relevant content of a value."""
        kind = type(value)
        if kind in _ATOM_SET:
            self.out.append(value)
            return
        digester = self.digester
        name = digester.names.get(id(value))
        if name is not None:
            self.out.append(name)
            return
        plan, is_frozen, is_value, is_container = digester.traits.get(kind) or digester.traits_of(kind)
        if is_frozen:
            token = digester.token(value)
            if token is not None:
                self.out.append(token)
                return
            self.met_objects = True
        elif not is_value:
            self.met_objects |= not (self._within_values and is_container)
            met = self._met.get(id(value))
            if met is not None:
                self.out.append(("met", met))
                return
            self._met[id(value)] = len(self._met)
        plan(value, self)


@cache
def _is_frozen(kind: Any) -> bool:
    """Return True if objects of this type are values, so that the identity of a reference makes no difference."""
    own: Any = kind  # a class derived from a dataclass is one, with its settings
    return is_dataclass(kind) and bool(own.__dataclass_params__.frozen)


def _values(value: Any, walk: Walk) -> None:
    walk.out.append(("value", repr(value)))


def _values_of_no_kind(value: object, walk: Walk) -> None:
    walk.out.append("object")


def _tuple(value: tuple[Any, ...], walk: Walk) -> None:
    _items(type(value).__name__, value, walk)


def _sequence(value: Any, walk: Walk) -> None:
    _items(type(value).__name__, value, walk)


def _items(kind: str, items: Collection[Any], walk: Walk) -> None:
    out = walk.out
    out.append((kind, len(items)))
    for item in items:
        if type(item) in _ATOM_SET:
            out.append(item)
        else:
            walk.visit(item)


def _mapping(value: Mapping[Any, Any], walk: Walk) -> None:
    """Add a mapping in order, which may matter to a machine."""
    out = walk.out
    out.append(("dict", len(value)))
    for key, item in value.items():
        if type(key) in _ATOM_SET:
            out.append(key)
        else:
            walk.visit(key)
        if type(item) in _ATOM_SET:
            out.append(item)
        else:
            walk.visit(item)


def _set(value: Any, walk: Walk) -> None:
    _items("set", sorted(value, key=repr), walk)


def _array(value: np.ndarray[Any, Any], walk: Walk) -> None:
    walk.out.append((value.dtype.str, value.shape))
    if value.dtype == object:
        for item in value.ravel():
            walk.visit(item)
    else:
        walk.out.append(value.tobytes())


def _buffer(value: Any, walk: Walk) -> None:
    """Add mutable plain bytes: their type, item format and content."""
    view = memoryview(value)
    walk.out.append((type(value).__name__, view.format, view.tobytes()))


def _arrow(value: Any, walk: Walk) -> None:
    walk.out.append(
        (type(value).__name__, str(value.schema if hasattr(value, "schema") else value.type), repr(value.to_pylist()))
    )


def _by_text(value: Any, walk: Walk) -> None:
    walk.out.append((type(value).__name__, str(value)))


def _method(value: MethodType, walk: Walk) -> None:
    walk.out.append(repr(value.__func__))
    walk.visit(value.__self__)


def _partial(value: partial[Any], walk: Walk) -> None:
    walk.out.append(repr(value.func))
    walk.visit(value.args)
    walk.visit(value.keywords)


def _function(value: FunctionType, walk: Walk) -> None:
    """Add a function: two are equal if their code and closures are."""
    walk.out.append(repr(value.__code__))
    for cell in value.__closure__ or ():
        walk.visit(cell.cell_contents)


def _channel(value: InputChannel, walk: Walk) -> None:
    """Add a channel: its elements have numbers, but only the order of the present ones matters."""
    last = value._last_barrier_number
    numbers = sorted({last, *(item.sequence_number for item in value._queue)})
    rank = {number: place for place, number in enumerate(numbers)}
    walk.out += [value.number, value.blocked, value.credits_granted, value._last_barrier_id, last >= 0, rank[last]]
    walk.out.append(value._queue.priority_count)
    for item in value._queue:
        walk.out.append(rank[item.sequence_number])
        walk.visit(item.element)
    walk.out.append(len(value._held))
    for element, _ in value._held:
        walk.visit(element)
    for part in (value.assembler, value._turns, value._closed_by, value._persister, value._capture):
        walk.visit(part)


def _gates(value: InputGates, walk: Walk) -> None:
    """Add the gates: the turn matters if several channels have an element, or may have before one is taken."""
    turns = value._turns
    several = not walk.digester.takes_turns or len(turns.ready) > 1 or len(turns.prioritized) > 1
    walk.out.append(value._turn % len(value.channels) if several and value.channels else -1)
    for part in (turns, value.channels):
        walk.visit(part)


def _by_address(value: Any, walk: Walk) -> None:
    walk.digester.by_address.add(type(value))
    walk.out.append((type(value).__name__, id(value)))


def _by_itself(value: Any, walk: Walk) -> None:
    """Add what an object says of itself: its state is in another process."""
    walk.out.append(type(value).__name__)
    walk.visit(walk.keep(value.digest_parts()))


def _object(
    kind: str,
    fields: tuple[str, ...],
    unseen: frozenset[str],
    unordered: bool,
    seen_as: dict[str, Callable[[Any], Any]],
) -> Callable[[Any, Walk], None]:
    ordered = not unordered

    def walked(value: Any, walk: Walk) -> None:
        """Add an object slot by slot, and its dict."""
        out = walk.out
        out.append(kind)
        for name in fields:
            if hasattr(value, name):
                walk.visit(getattr(value, name))
        for name, item in getattr(value, "__dict__", {}).items():
            if name in unseen:
                continue
            out.append(name)
            if name in seen_as:
                item = walk.keep(seen_as[name](item))
            if type(item) in _ATOM_SET:
                out.append(item)
            elif ordered or type(item) is not dict:
                walk.visit(item)
            else:
                walk.visit(walk.keep(dict(sorted(item.items()))))

    return walked


_PLANS: dict[type, Callable[[Any, Walk], None]] = {
    tuple: _tuple,
    list: _sequence,
    deque: _sequence,
    dict: _mapping,
    OrderedDict: _mapping,
    set: _set,
    frozenset: _set,
    type: _values,
    range: _values,
    MethodType: _method,
    partial: _partial,
    FunctionType: _function,
    BuiltinFunctionType: _values,
    bytearray: _buffer,
    array: _buffer,
    LookupCache: lambda value, walk: None,  # a cache, which would be filled again
    object: _values_of_no_kind,
    ExecutionGraph: lambda value, walk: walk.out.append(("ExecutionGraph", sorted(value.parallelism.items()))),
    InputChannel: _channel,
    InputGates: _gates,
}


_OF_VALUES = frozenset({_values, _values_of_no_kind, _tuple, _array, _arrow, _by_text, _method, _partial, _function})
"""Plans for immutable values: the identity of a reference makes no difference."""
_OF_CONTAINERS = frozenset({_sequence, _mapping, _set})


def _plan_for(kind: type) -> Callable[[Any, Walk], None]:
    for known in kind.__mro__:
        if known in _PLANS and (known is not object or kind is object):
            return _PLANS[known]
    if hasattr(kind, "digest_parts"):
        return _by_itself
    if issubclass(kind, Enum | pa.DataType | pa.Schema | pa.Field | np.dtype | np.generic):
        return _values
    if issubclass(kind, np.ndarray):
        return _array
    if issubclass(kind, pa.RecordBatch | pa.Table | pa.Array | pa.ChunkedArray):
        return _arrow
    if issubclass(kind, BaseException):
        return _by_text
    if kind.__module__.startswith(("pyarrow", "_", "builtins")) and kind.__module__ != "__main__":
        return _by_address  # implemented in C; a notebook's definitions are in `__main__`
    unseen = frozenset().union(*(vars(each).get(WITHOUT_EFFECT, ()) for each in kind.__mro__))
    unordered = kind.__name__ in UNORDERED
    seen_as = SEEN_AS.get(kind.__name__, {})
    fields = tuple(name for name in slots_of(kind) if name not in unseen)
    return _object(f"{kind.__module__}.{kind.__qualname__}", fields, unseen, unordered, seen_as)

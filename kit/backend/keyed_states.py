"""Keyed states as user functions see them: the state of the current key.

Each object is a view of one table and one namespace; which entry it reads and writes follows the backend's current key.
What is written is checked against the state's Arrow type at once (StateTypeError names state, type and value).
Follows `ValueState`, `ListState`, `MapState`, `ReducingState` and `AggregatingState`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, cast

import numpy as np

from kit.backend.decimals import EXACT
from kit.backend.descriptors import (
    AggregatingStateDescriptor,
    ReducingStateDescriptor,
    StateKind,
    ValueStateDescriptor,
)
from kit.backend.tables import StateTable
from kit.backend.value_types import converter, key_converter


class KeyedState:
    """What all kinds have: a table, a namespace and `clear`."""

    __slots__ = ("_namespace", "_table")

    def __init__(self, table: StateTable, namespace: Any = None) -> None:
        self._table = table
        self._namespace = namespace

    def __repr__(self) -> str:
        namespace = "" if self._namespace is None else f", namespace {self._namespace!r}"
        return f"{type(self).__name__}({self._table.name!r}{namespace})"

    def clear(self) -> None:
        """Remove the entry of the current key."""
        slot = self._slot()
        if slot >= 0:
            self._table.clear(np.array([slot]))

    def _slot(self) -> int:
        return self._table.current_slot(self._namespace, create=False)

    def _slot_to_write(self) -> int:
        return self._table.current_slot(self._namespace, create=True)

    def _read(self) -> Any:
        return self._table.read(self._slot())

    def _write(self, value: Any) -> None:
        converted = self._table.converted(value, self._table.convert)
        self._table.write(self._slot_to_write(), converted)


class ValueState(KeyedState):
    """One value for each key."""

    __slots__ = ()

    def value(self) -> Any:
        """The value of the current key, or the descriptor's default."""
        value = self._read()
        return cast(ValueStateDescriptor, self._table.descriptor).default if value is None else value

    def update(self, value: Any) -> None:
        """Set the value; None removes it."""
        if value is None:
            self.clear()
        else:
            self._write(value)


class ListState(KeyedState):
    """A list for each key."""

    __slots__ = ()

    def get(self) -> list[Any]:
        """A copy of the list; empty when nothing was added."""
        return list(self._read() or ())

    def add(self, value: Any) -> None:
        """Append one element."""
        self.add_all((value,))

    def add_all(self, values: Iterable[Any]) -> None:
        """Append elements, all of them or, when one does not fit, none."""
        elements = self._converted(values)
        if elements:
            self._table.container(self._slot_to_write()).extend(elements)

    def update(self, values: Iterable[Any]) -> None:
        """Replace the list; an empty one removes the entry."""
        elements = self._converted(values)
        self.clear()
        if elements:
            self._table.container(self._slot_to_write()).extend(elements)

    def _converted(self, values: Iterable[Any]) -> list[Any]:
        convert = converter(self._table.stored_type.value_type)
        return [self._table.converted(value, convert) for value in values]


class MapState(KeyedState):
    """A map for each key. A value may be None, a key may not."""

    __slots__ = ()

    def get(self, key: Any) -> Any:
        """The value under `key`, or None."""
        return self._entries().get(key)

    def put(self, key: Any, value: Any) -> None:
        """Set the value under `key`."""
        self.put_all({key: value})

    def put_all(self, entries: Mapping[Any, Any]) -> None:
        """Set many entries, all of them or, when one does not fit, none."""
        table, map_type = self._table, self._table.stored_type
        convert_key, convert_item = key_converter(map_type.key_type), converter(map_type.item_type)
        converted = {
            table.converted(key, convert_key): None if value is None else table.converted(value, convert_item)
            for key, value in entries.items()
        }
        if converted:
            table.container(self._slot_to_write()).update(converted)

    def remove(self, key: Any) -> None:
        """Remove the entry under `key`, if there is one; a map left empty is removed as a whole."""
        if key in self._entries():
            container = self._table.container(self._slot())
            del container[key]
            if not container:
                self.clear()

    def contains(self, key: Any) -> bool:
        """Whether there is an entry under `key`."""
        return key in self._entries()

    def keys(self) -> list[Any]:
        """The keys, in order of insertion."""
        return list(self._entries())

    def values(self) -> list[Any]:
        """The values, in the order of `keys`."""
        return list(self._entries().values())

    def items(self) -> list[tuple[Any, Any]]:
        """The entries, in the order of `keys`."""
        return list(self._entries().items())

    def is_empty(self) -> bool:
        """Whether there are no entries."""
        return not self._entries()

    def _entries(self) -> dict[Any, Any]:
        return self._read() or {}


class ReducingState(KeyedState):
    """One value for each key, into which each added one is folded."""

    __slots__ = ()

    def get(self) -> Any:
        """The folded value, or None when nothing was added."""
        return self._read()

    def add(self, value: Any) -> None:
        """Fold one value in."""
        before = self._read()
        reduce = cast(ReducingStateDescriptor, self._table.descriptor).reduce
        self._write(_folded(reduce, before, value))


class AggregatingState(KeyedState):
    """An accumulator for each key."""

    __slots__ = ()

    def get(self) -> Any:
        """The aggregate's result, or None when nothing was added."""
        accumulator = self._read()
        return None if accumulator is None else self._aggregate().get_result(accumulator)

    def add(self, value: Any) -> None:
        """Add one value to the accumulator."""
        accumulator = self._read()
        aggregate = self._aggregate()
        self._write(aggregate.add(value, aggregate.create_accumulator() if accumulator is None else accumulator))

    def _aggregate(self) -> Any:
        return cast(AggregatingStateDescriptor, self._table.descriptor).aggregate


STATE_CLASSES: dict[StateKind, type[KeyedState]] = {
    StateKind.VALUE: ValueState,
    StateKind.LIST: ListState,
    StateKind.MAP: MapState,
    StateKind.REDUCING: ReducingState,
    StateKind.AGGREGATING: AggregatingState,
}


def _sum(one: Any, other: Any) -> Any:
    return EXACT.add(one, other) if isinstance(one, Decimal) else one + other


def _least(one: Any, other: Any) -> Any:
    """A NaN is larger than any number, and no number is the same as itself but it."""
    return other if one != one else one if other != other else min(one, other)  # noqa: PLR0124


def _greatest(one: Any, other: Any) -> Any:
    return one if one != one else other if other != other else max(one, other)  # noqa: PLR0124


_FOLDS: dict[str, Callable[[Any, Any], Any]] = {"sum": _sum, "min": _least, "max": _greatest}


def _folded(reduce: Any, before: Any, value: Any) -> Any:
    """`value` folded into what there was before (None: nothing)."""
    if isinstance(reduce, Mapping):
        fields = value if isinstance(value, Mapping) else dict(zip(reduce, value, strict=True))
        old = before or {}
        # A field that is only counted need not be given.
        return {
            name: _folded(word, old.get(name), fields.get(name, 1 if word == "count" else None))
            for name, word in reduce.items()
        }
    if reduce == "count":
        return (before or 0) + (value is not None)
    if before is None or value is None:
        return value if before is None else before
    return _FOLDS[reduce](before, value) if isinstance(reduce, str) else reduce(before, value)

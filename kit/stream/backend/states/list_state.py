"""List state: one list per key, to which elements are appended. Follows `ListState`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from kit.stream.backend.states.descriptors import StateKind
from kit.stream.backend.states.tables import KeyedState, Slots, StateTable, Values
from kit.stream.backend.types.value_columns import ContainerColumn
from kit.stream.backend.types.value_types import converter


class ListState(KeyedState):
    """The list of the current key."""

    __slots__ = ()
    _table: ListTable

    def get(self) -> list[Any]:
        """Return a copy of the list; empty if nothing was added."""
        return list(self._read() or ())

    def add(self, value: Any) -> None:
        """Append one element."""
        self.add_all((value,))

    def add_all(self, values: Iterable[Any]) -> None:
        """Append elements: all of them, or none if one does not fit."""
        elements = self._table.elements(values)
        if elements:
            self._table.container(self._slot_to_write()).extend(elements)

    def update(self, values: Iterable[Any]) -> None:
        """Replace the list; an empty one removes the entry."""
        elements = self._table.elements(values)
        self.clear()
        if elements:
            self._table.container(self._slot_to_write()).extend(elements)


class ListTable(StateTable):
    """The lists of all keys, in Python."""

    kind = StateKind.LIST
    view = ListState
    by_value = False
    column: ContainerColumn

    def new_column(self) -> ContainerColumn:
        """Return a column of lists that are changed in place."""
        return ContainerColumn(self.stored_type, list)

    @property
    def added_type(self) -> pa.DataType:
        """The type of an element."""
        return self.stored_type.value_type

    def add(self, slots: Slots, values: Values = None) -> None:
        """Append an element to each row's list, in row order."""
        self.check_slots(slots)
        rows = values.to_pylist() if isinstance(values, (pa.Array, pa.ChunkedArray)) else list(values)
        for slot, element in zip(slots.tolist(), self.elements(rows), strict=True):
            self.container(slot).append(element)

    def merge(self, into: Slots, slots: Slots) -> None:
        """Append the list of each of `slots` to that of `into`, in row order, and remove it."""
        self.check_slots(into)
        for slot, elements in zip(into.tolist(), self.get(slots).to_pylist(), strict=True):
            self.container(slot).extend(elements or ())
        self.clear(slots)

    def container(self, slot: int) -> list[Any]:
        """Return the list of a slot, initially empty, to be changed in place."""
        if self.is_unset(slot):
            self.write(slot, [])
        return self.column.owned(slot)

    def elements(self, values: Iterable[Any]) -> list[Any]:
        """Return elements as their type holds them."""
        convert = converter(self.stored_type.value_type)
        return [self.converted(value, convert) for value in values]

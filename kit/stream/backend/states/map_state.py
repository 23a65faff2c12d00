"""Map state: one map per key. Follows `MapState`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kit.stream.backend.states.descriptors import StateKind
from kit.stream.backend.states.tables import KeyedState, StateTable
from kit.stream.backend.types.value_columns import ContainerColumn, sorted_items
from kit.stream.backend.types.value_types import converter, key_converter


class MapState(KeyedState):
    """The map of the current key. A value may be None, a key may not."""

    __slots__ = ()
    _table: MapTable

    def get(self, key: Any) -> Any:
        """Return the value under `key`, or None."""
        return self._entries().get(key)

    def put(self, key: Any, value: Any) -> None:
        """Set the value under `key`."""
        self.put_all({key: value})

    def put_all(self, entries: Mapping[Any, Any]) -> None:
        """Set many entries: all of them, or none if one does not fit."""
        converted = self._table.entries_of_map(entries)
        if converted:
            self._table.container(self._slot_to_write()).update(converted)

    def remove(self, key: Any) -> None:
        """Remove the entry under `key`, if there is one; an empty map is removed entirely."""
        if key in self._entries():
            container = self._table.container(self._slot())
            del container[key]
            if not container:
                self.clear()

    def contains(self, key: Any) -> bool:
        """Return True if there is an entry under `key`."""
        return key in self._entries()

    def keys(self) -> list[Any]:
        """Return the keys, in order of insertion."""
        return list(self._entries())

    def values(self) -> list[Any]:
        """Return the values, in the order of `keys`."""
        return list(self._entries().values())

    def items(self) -> list[tuple[Any, Any]]:
        """Return the entries, in the order of `keys`."""
        return list(self._entries().items())

    def is_empty(self) -> bool:
        """Return True if there are no entries."""
        return not self._entries()

    def _entries(self) -> dict[Any, Any]:
        return self._read() or {}


class MapTable(StateTable):
    """The maps of all keys, in Python."""

    kind = StateKind.MAP
    view = MapState
    by_value = False
    in_batches = False
    column: ContainerColumn

    def new_column(self) -> ContainerColumn:
        """Return a column of dicts that are changed in place, and stored in the order of their keys."""
        return ContainerColumn(self.stored_type, dict, sorted_items)

    def container(self, slot: int) -> dict[Any, Any]:
        """Return the dict of a slot, initially empty, to be changed in place."""
        if self.is_unset(slot):
            self.write(slot, {})
        return self.column.owned(slot)

    def entries_of_map(self, entries: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return the entries of a map as their types hold them."""
        convert_key, convert_item = key_converter(self.stored_type.key_type), converter(self.stored_type.item_type)
        return {
            self.converted(key, convert_key): None if value is None else self.converted(value, convert_item)
            for key, value in entries.items()
        }

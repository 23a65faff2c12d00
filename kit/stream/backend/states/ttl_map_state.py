"""Map state with TTL: the entry under each key expires by itself. Follows `TtlMapState`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kit.stream.backend.states.map_state import MapState, MapTable
from kit.stream.backend.states.ttl_containers import Timed, TtlContainerState, TtlContainerTable
from kit.stream.backend.types.value_columns import sorted_items

TimedMap = dict[Any, Timed]


class TtlMapState(TtlContainerState, MapState):
    """The map of the current key, without the entries that have expired."""

    __slots__ = ()
    _table: TtlMapTable

    def get(self, key: Any) -> Any:
        """Return the value under `key`, or None."""
        found = self._found(key)
        return None if found is None else found[0]

    def put_all(self, entries: Mapping[Any, Any]) -> None:
        """Set many entries: all of them, or none if one does not fit."""
        self._table.accessed()
        super().put_all(entries)

    def remove(self, key: Any) -> None:
        """Remove the entry under `key`, if there is one; an empty map is removed entirely."""
        self._table.accessed()
        super().remove(key)

    def contains(self, key: Any) -> bool:
        """Return True if there is an entry under `key`: a read of it, as `get` is."""
        return self._found(key) is not None

    def keys(self) -> list[Any]:
        """Return the keys, in order of insertion: a read of all entries."""
        return [key for key, _ in self._seen()]

    def values(self) -> list[Any]:
        """Return the values, in the order of `keys`: a read of all entries."""
        return [value for _, value in self._seen()]

    def items(self) -> list[tuple[Any, Any]]:
        """Return the entries, in the order of `keys`: a read of all entries."""
        return list(self._seen())

    def is_empty(self) -> bool:
        """Return True if there are no entries. As in Flink, expired ones count until they are removed."""
        self._table.accessed()
        return super().is_empty()

    def _found(self, key: Any) -> Timed | None:
        """Return the entry under a key, None if there is none; remove an expired one, or renew it."""
        table = self._table
        table.accessed()
        found = self._entries().get(key)
        if found is None:
            return None
        if found[1] <= table.limit_ms():
            super().remove(key)
            return found if table.returns_expired else None
        if table.renews_on_read:
            table.container(self._slot())[key] = found[0], table.now_ms()
        return found


class TtlMapTable(TtlContainerTable, MapTable):
    """The maps of all keys: under each key the value and the time."""

    view = TtlMapState

    def entries_of_map(self, entries: Mapping[Any, Any]) -> TimedMap:
        """Return the entries of a map as their types hold them, accessed now."""
        return self.timed(super().entries_of_map(entries).items())

    def seen(self, held: TimedMap) -> tuple[list[tuple[Any, Any]], TimedMap | None]:
        """Return the entries that a read of all returns, and the map that it leaves."""
        left = self.unexpired_of(held, self.limit_ms())
        found = [(key, value) for key, (value, _) in (held if self.returns_expired else left or {}).items()]
        if not left:
            return found, None
        return found, self.timed([(key, value) for key, (value, _) in left.items()]) if self.renews_on_read else left

    def timed(self, values: Any, times: list[int] | None = None) -> TimedMap:
        """Return a map of keys and values with their times; without times they are accessed now."""
        entries = list(values)
        times = [self.now_ms()] * len(entries) if times is None else times
        return {key: (value, time) for (key, value), time in zip(entries, times, strict=True)}

    @staticmethod
    def unexpired_of(held: TimedMap, limit_ms: int) -> TimedMap | None:
        """Return the entries accessed after `limit_ms`: the map itself if it is all, None if nothing is left."""
        left = {key: timed for key, timed in held.items() if timed[1] > limit_ms}
        return held if len(left) == len(held) else left or None

    @staticmethod
    def values_of(held: TimedMap) -> list[tuple[Any, Any]]:
        """Return the keys and values of a map, in the order of a checkpoint."""
        return [(key, value) for key, (value, _) in sorted_items(held)]

    @staticmethod
    def times_of(held: TimedMap) -> list[tuple[Any, int]]:
        """Return the keys and times of a map, in the order of a checkpoint."""
        return [(key, access_ms) for key, (_, access_ms) in sorted_items(held)]

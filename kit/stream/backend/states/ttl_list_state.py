"""List state with TTL: each element expires by itself. Follows `TtlListState`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kit.stream.backend.states.list_state import ListState, ListTable
from kit.stream.backend.states.ttl_containers import Timed, TtlContainerState, TtlContainerTable

TimedList = list[Timed]


class TtlListState(TtlContainerState, ListState):
    """The list of the current key, without the elements that have expired."""

    __slots__ = ()
    _table: TtlListTable

    def get(self) -> list[Any]:
        """Return the elements that have not expired; empty if there is none.

        The read removes the list once all elements have expired. With `on_read_and_write` it removes each that has.
        """
        return list(self._seen())

    def add_all(self, values: Iterable[Any]) -> None:
        """Append elements: all of them, or none if one does not fit."""
        self._table.accessed()
        super().add_all(values)

    def update(self, values: Iterable[Any]) -> None:
        """Replace the list; an empty one removes the entry."""
        self._table.accessed()
        super().update(values)


class TtlListTable(TtlContainerTable, ListTable):
    """The lists of all keys: of each element the value and the time."""

    view = TtlListState

    def elements(self, values: Iterable[Any]) -> TimedList:
        """Return elements as their type holds them, accessed now."""
        return self.timed(super().elements(values))

    def seen(self, held: TimedList) -> tuple[list[Any], TimedList | None]:
        """Return the values that a read returns, and the list that it leaves."""
        left = self.unexpired_of(held, self.limit_ms())
        found = self.values_of(held if self.returns_expired else left or [])
        if not left:
            return found, None
        return found, self.timed(self.values_of(left)) if self.renews_on_read else held

    def timed(self, values: list[Any], times: list[int] | None = None) -> TimedList:
        """Return a list of values with their times; without times they are accessed now."""
        return list(zip(values, [self.now_ms()] * len(values) if times is None else times, strict=True))

    @staticmethod
    def unexpired_of(held: TimedList, limit_ms: int) -> TimedList | None:
        """Return the elements accessed after `limit_ms`: the list itself if it is all, None if nothing is left."""
        left = [each for each in held if each[1] > limit_ms]
        return held if len(left) == len(held) else left or None

    @staticmethod
    def values_of(held: TimedList) -> list[Any]:
        """Return the values of a list."""
        return [value for value, _ in held]

    @staticmethod
    def times_of(held: TimedList) -> list[int]:
        """Return the times of a list."""
        return [access_ms for _, access_ms in held]

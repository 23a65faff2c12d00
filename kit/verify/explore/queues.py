"""Values in flight, by number: queues of words in order, bags of work that may end in any order, timers.

Each is an immutable value with a number, and so is each change by a machine's step; `after` returns the number of the
result. Number 0 is empty, and change number 0 changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kit.verify.explore.tables import Column, Function, Ids, Interned
from kit.verify.explore.words import Words

MOST_AT_ONCE = 24
"""The maximum number of one machine's works in progress."""


class Contents:
    """Values of one kind by number, and the changes to them."""

    def __init__(self) -> None:
        self.values: Interned[Any] = Interned()
        self.changes: Interned[Any] = Interned()
        self._after = Function(
            lambda number, change: self.number(self._changed(self.values[number], self.changes[change]))
        )
        self.number(())
        self.changes.number(())

    def after(self, numbers: Ids, changes: Ids) -> Ids:
        """Return the values after changes."""
        return self._after.of(numbers, changes)

    def number(self, value: Any) -> int:
        """Return the number of a value."""
        known = len(self.values)
        number = self.values.number(value)
        if number == known:
            self._add(value)
        return number

    def _add(self, value: Any) -> None:
        """Keep what is known of a new value."""
        raise NotImplementedError

    def _changed(self, value: Any, change: Any) -> Any:
        raise NotImplementedError


class Queues(Contents):
    """Words in order; a change appends some."""

    def __init__(self) -> None:
        self._heads, self._tails = Column(), Column()
        super().__init__()

    def _add(self, value: tuple[int, ...]) -> None:
        self._heads.append(value[0] if value else 0)
        self._tails.append(-1)

    def _changed(self, value: tuple[int, ...], change: tuple[int, ...]) -> tuple[int, ...]:
        return value + change

    def heads(self, numbers: Ids) -> Ids:
        """Return the first word of each, 0 for an empty one."""
        return self._heads.of(numbers)

    def tails(self, numbers: Ids) -> Ids:
        """Return each without its first word."""
        found: Ids = self._tails.of(numbers)
        for number in {*numbers[found < 0].tolist()}:
            self._tails.set(number, self.number(self.values[number][1:]))
        return self._tails.of(numbers)


class Bags(Contents):
    """Work in no order; a change is a sequence of (word, True) to add one and (word, False) to stop what it names.

    `stops` says whether a word stops another.
    """

    def __init__(self, words: Words) -> None:
        self._words = words
        self._members, self._without = Column(width=MOST_AT_ONCE), Column(width=MOST_AT_ONCE)
        super().__init__()

    def _add(self, value: tuple[int, ...]) -> None:
        different = sorted(set(value))
        assert len(different) <= MOST_AT_ONCE, f"more than {MOST_AT_ONCE} works in progress at once"
        padding = [0] * (MOST_AT_ONCE - len(different))
        self._members.append(different + padding)
        self._without.append([-1 for _ in different] + padding)

    def _changed(self, value: tuple[int, ...], change: tuple[tuple[Any, Any], ...]) -> tuple[int, ...]:
        bag = list(value)
        for number, added in change:
            if added:
                bag.append(number)
            else:
                stop = self._words[number]
                bag = [each for each in bag if not stop.stops(self._words[each])]
        return tuple(sorted(bag))

    def member(self, numbers: Ids, place: int) -> Ids:
        """Return the work at a place of each, 0 if there is none."""
        return self._members.of(numbers)[:, place]

    def without(self, numbers: Ids, place: int) -> Ids:
        """Return each without the work at a place."""
        found: Ids = self._without.of(numbers)[:, place]
        for number in {*numbers[found < 0].tolist()}:
            left = list(self.values[number])
            left.remove(int(self._members.of(number)[place]))
            row = self._without.of(number).copy()
            row[place] = self.number(tuple(left))
            self._without.set(number, row)
        return self._without.of(numbers)[:, place]


class Timers(Bags):
    """The timers of one machine, each a word `TimerFired` with its due time in `due`.

    A change is a sequence of (name, due) to set one and (name, None) to cancel it.
    """

    def __init__(self, words: Words, number_of: Callable[[str, int], int]) -> None:
        self._number_of = number_of
        self._name_of: dict[int, str] = {}
        super().__init__(words)

    def _changed(self, value: tuple[int, ...], change: tuple[tuple[Any, Any], ...]) -> tuple[int, ...]:
        timers = {self._name_of[number]: number for number in value}
        for name, due_ms in change:
            timers.pop(name, None)
            if due_ms is not None:
                number = timers[name] = self._number_of(name, due_ms)
                self._name_of[number] = name
        return tuple(sorted(timers.values()))

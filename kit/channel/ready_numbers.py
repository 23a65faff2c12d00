"""Numbers in ascending order, to be asked for by rank: whose turn it may be, kept up to date as it changes.

A list that stays sorted: putting a number in or taking it out moves what is behind it, which for the tens of
thousands of channels of a large job is a few microseconds, and far less than looking at each of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator


class ReadyNumbers:
    """A set of integers that knows the i-th smallest."""

    __slots__ = ("_numbers",)

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        self._numbers = sorted(set(numbers))

    def add(self, number: int) -> None:
        """Put a number in; one that is in stays."""
        numbers = self._numbers
        if not numbers or number > numbers[-1]:
            numbers.append(number)
            return
        at = bisect_left(numbers, number)
        if numbers[at] != number:
            numbers.insert(at, number)

    def discard(self, number: int) -> None:
        """Take a number out, if it is in."""
        at = bisect_left(self._numbers, number)
        if at < len(self._numbers) and self._numbers[at] == number:
            del self._numbers[at]

    def clear(self) -> None:
        """Take all out."""
        self._numbers.clear()

    def next_from(self, number: int) -> int:
        """The smallest that is at least `number`, or else the smallest of all. Raises IndexError when there is none."""
        at = bisect_left(self._numbers, number)
        return self._numbers[at if at < len(self._numbers) else 0]

    def __getitem__(self, rank: int) -> int:
        return self._numbers[rank]

    def __contains__(self, number: int) -> bool:
        at = bisect_left(self._numbers, number)
        return at < len(self._numbers) and self._numbers[at] == number

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[int]:
        return iter(self._numbers)

    def __deepcopy__(self, memo: dict[int, object]) -> ReadyNumbers:
        other = ReadyNumbers()
        other._numbers = self._numbers.copy()
        return other

    def __repr__(self) -> str:
        return f"ReadyNumbers({len(self._numbers)})"

"""Numbers in ascending order, to be asked for by rank: whose turn it may be, kept up to date as it changes.

A list that stays sorted: putting a number in or taking it out moves what is behind it, which for the tens of
thousands of channels of a large job is a few microseconds, and far less than looking at each of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable


class ReadyNumbers(list[int]):
    """A set of integers that knows the i-th smallest.

    It is a list, not only has one: a lab asks for its length and its i-th several times in every step. Change it by
    `add`, `discard` and `clear` only.
    """

    __slots__ = ()

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        super().__init__(sorted(set(numbers)))

    def add(self, number: int) -> None:
        """Put a number in; one that is in stays."""
        if not self or number > self[-1]:
            self.append(number)
            return
        at = bisect_left(self, number)
        if self[at] != number:
            self.insert(at, number)

    def discard(self, number: int) -> None:
        """Take a number out, if it is in."""
        at = bisect_left(self, number)
        if at < len(self) and self[at] == number:
            del self[at]

    def next_from(self, number: int) -> int:
        """The smallest that is at least `number`, or else the smallest of all. Raises IndexError when there is none."""
        at = bisect_left(self, number)
        return self[at if at < len(self) else 0]

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int):
            return False
        at = bisect_left(self, number)
        return at < len(self) and self[at] == number

    def __deepcopy__(self, memo: dict[int, object]) -> ReadyNumbers:
        other = ReadyNumbers()
        other.extend(self)
        return other

    def __repr__(self) -> str:
        return f"ReadyNumbers({len(self)})"

"""Numbers in ascending order, accessible by rank: the candidates for the next turn, updated incrementally.

The list stays sorted. Inserting or removing a number moves those behind it: a few microseconds for the tens of
thousands of channels of a large job, and far less than looking at each of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable


class ReadyNumbers(list[int]):
    """A set of integers with access to the i-th smallest.

    It is a list instead of having one, because a lab asks for its length and its i-th element several times in every
    step. Change it with `add`, `discard` and `clear` only.
    """

    __slots__ = ()

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        super().__init__(sorted(set(numbers)))

    def add(self, number: int) -> None:
        """Add a number, unless it is present."""
        if not self or number > self[-1]:
            self.append(number)
            return
        at = bisect_left(self, number)
        if self[at] != number:
            self.insert(at, number)

    def discard(self, number: int) -> None:
        """Remove a number, if it is present."""
        at = bisect_left(self, number)
        if at < len(self) and self[at] == number:
            del self[at]

    def next_from(self, number: int) -> int:
        """Return the smallest number from `number` on, or else the smallest of all. Raises IndexError if empty."""
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

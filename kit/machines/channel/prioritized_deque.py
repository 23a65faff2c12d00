"""A queue with a priority lane: its elements are taken before all others, and each lane is first in, first out.

Follows Flink's `PrioritizedDeque`. Elements are compared by identity.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Generic, TypeVar

T = TypeVar("T")


class PrioritizedDeque(Generic[T]):
    """Elements in the order in which they will be taken; the first `priority_count` of them have priority."""

    __slots__ = ("_others", "_priority")

    def __init__(self) -> None:
        self._priority: deque[T] = deque()
        self._others: deque[T] = deque()

    @property
    def priority_count(self) -> int:
        """The number of elements that have priority (`getNumPriorityElements`)."""
        return len(self._priority)

    @property
    def others(self) -> deque[T]:
        """The elements without priority, in order; callers must not change it."""
        return self._others

    def add(self, element: T) -> None:
        """Add the element at the end."""
        self._others.append(element)

    def add_priority(self, element: T) -> None:
        """Add the element before all without priority, behind those with it (`addPriorityElement`)."""
        self._priority.append(element)

    def put_back(self, element: T) -> None:
        """Add the element before all without priority, as the rest of one that was taken from there."""
        self._others.appendleft(element)

    def remove_first(self, condition: Callable[[T], bool]) -> T:
        """Remove the first element that meets the condition (`getAndRemove`). Raises LookupError without one."""
        for lane in (self._priority, self._others):
            for position, element in enumerate(lane):
                if condition(element):
                    del lane[position]
                    return element
        raise LookupError(f"no element of {self!r} meets the condition")

    def poll(self) -> T:
        """Take the first element. Raises IndexError if the queue is empty."""
        return (self._priority or self._others).popleft()

    def __iter__(self) -> Iterator[T]:
        return chain(self._priority, self._others)

    def __bool__(self) -> bool:
        return bool(self._others or self._priority)

    def __len__(self) -> int:
        return len(self._priority) + len(self._others)

    def __repr__(self) -> str:
        return f"PrioritizedDeque({len(self._priority)} priority, {len(self._others)} other)"

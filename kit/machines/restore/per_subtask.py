"""The assignment of each new subtask, created on demand.

State assignment for thousands of subtasks would otherwise create hundreds of thousands of small values at once, whose
cost is mostly garbage collection. Everything that may be rejected is checked before. What remains for a subtask is a
selection from the checkpoint's content, which is immutable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar, overload

T = TypeVar("T")


class PerSubtask(Sequence[T]):
    """A sequence of `make(subtask)` for each of `parallelism` subtasks. Equal to a tuple of the same members.

    Nothing is cached: a caller that needs a member twice keeps it. A copy that leaves the process is a tuple.
    """

    __slots__ = ("_make", "_parallelism")

    def __init__(self, parallelism: int, make: Callable[[int], T]) -> None:
        self._parallelism = parallelism
        self._make = make

    def __len__(self) -> int:
        return self._parallelism

    def __iter__(self) -> Iterator[T]:
        return map(self._make, range(self._parallelism))

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        subtasks = range(self._parallelism)[index]
        return self._make(subtasks) if isinstance(subtasks, int) else tuple(map(self._make, subtasks))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, tuple | PerSubtask):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __reduce__(self) -> tuple[type[tuple[T, ...]], tuple[tuple[T, ...]]]:
        return tuple, (tuple(self),)

    def __repr__(self) -> str:
        return f"PerSubtask({self._parallelism} subtasks)"

"""A union list that all subtasks share.

Union state goes to every subtask, so the handles of all old subtasks belong to every new one: the references number old
x new, yet it is one list. `SharedHandles` is one subtask's view of it: first its own handles, then the shared ones,
except for streams that it has a handle of its own for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import overload

from kit.core.state.handles import OperatorStreamStateHandle


class SharedHandles(Sequence[OperatorStreamStateHandle]):
    """A sequence of operator state handles, most of which are shared. Equal to a tuple of the same handles."""

    __slots__ = ("hidden", "own", "shared")

    def __init__(
        self,
        own: tuple[OperatorStreamStateHandle, ...],
        shared: Mapping[int, OperatorStreamStateHandle],
        hidden: tuple[int, ...],
    ) -> None:
        self.own = own
        self.shared = shared
        self.hidden = hidden

    def __iter__(self) -> Iterator[OperatorStreamStateHandle]:
        yield from self.own
        hidden = set(self.hidden)
        for stream, handle in self.shared.items():
            if stream not in hidden:
                yield handle

    def __len__(self) -> int:
        return len(self.own) + len(self.shared) - len(self.hidden)

    @overload
    def __getitem__(self, index: int) -> OperatorStreamStateHandle: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[OperatorStreamStateHandle, ...]: ...
    def __getitem__(self, index: int | slice) -> OperatorStreamStateHandle | tuple[OperatorStreamStateHandle, ...]:
        return tuple(self)[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, tuple | SharedHandles):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"SharedHandles({len(self.own)} own, {len(self) - len(self.own)} shared)"

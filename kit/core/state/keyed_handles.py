"""Handles of keyed state: the range of key groups it covers, and the position of each group.

Source: `KeyGroupRange`, `KeyedStateHandle` and its classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, ClassVar

from kit.core.state.stream_handles import (
    CompositeStateHandle,
    DelegatingStateObject,
    SizedStateObject,
    StateObject,
    StreamStateHandle,
)

NO_OFFSET_SET = -1
"""The offset of a key group without state (`KeyGroupRangeOffsets.NO_OFFSET_SET`)."""


@dataclass(frozen=True, slots=True, repr=False)
class KeyGroupRange:
    """The key groups `start` to `end`, both included. Source: `KeyGroupRange`.

    Raises `ValueError` for a negative start or an end before the start. The empty range is `KeyGroupRange.EMPTY` (0 to
    -1).
    """

    start: int
    end: int

    EMPTY: ClassVar[KeyGroupRange]

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end and (self.start, self.end) != (0, -1):
            raise ValueError(
                f"key group range {self.start} to {self.end}: expected 0 <= start <= end, both included; "
                "use KeyGroupRange.of(start, end) where the range may be empty"
            )

    @classmethod
    def of(cls, start: int, end: int) -> KeyGroupRange:
        """Return the range from `start` to `end`, or `EMPTY` if `end` comes before `start`."""
        return cls(start, end) if start <= end else cls.EMPTY

    def intersect(self, other: KeyGroupRange) -> KeyGroupRange:
        """Return the key groups in both ranges."""
        return KeyGroupRange.of(max(self.start, other.start), min(self.end, other.end))

    def __len__(self) -> int:
        return self.end - self.start + 1

    def __contains__(self, key_group: object) -> bool:
        return isinstance(key_group, int) and self.start <= key_group <= self.end

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start, self.end + 1))

    def __repr__(self) -> str:
        return f"KeyGroupRange({self.start}, {self.end})" if len(self) else "KeyGroupRange.EMPTY"


KeyGroupRange.EMPTY = KeyGroupRange(0, -1)


class KeyedStateHandle(StateObject):
    """State of a keyed operator over a range of key groups. Source: `KeyedStateHandle`.

    `checkpointed_size` is the bytes that this checkpoint itself had to write: less than `state_size` if it reuses
    earlier files.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def key_group_range(self) -> KeyGroupRange:
            """The key groups covered; a field of each class."""

        @property
        def checkpointed_size(self) -> int:
            """Bytes that this checkpoint wrote; a field of each class."""

    def intersection(self, key_group_range: KeyGroupRange) -> KeyedStateHandle | None:
        """Return the handle of this state's key groups in `key_group_range`, or None if they do not overlap.

        State that cannot be cut is returned whole: the reader must then skip the other key groups.
        """
        return self if self.key_group_range.intersect(key_group_range) else None

    def _label(self) -> str:
        return f"{_span(self.key_group_range)}, {self.state_size} B"


@dataclass(frozen=True, slots=True, repr=False)
class KeyGroupsStateHandle(DelegatingStateObject, KeyedStateHandle, StreamStateHandle):
    """One stream that holds key group after key group; `offsets[i]` is where group `key_group_range.start + i` starts.

    `NO_OFFSET_SET` marks a key group without state. `state_handle_id` is None in metadata written before 1.15, which
    has no ids. Source: `KeyGroupsStateHandle` with its `KeyGroupRangeOffsets`.
    """

    key_group_range: KeyGroupRange
    offsets: tuple[int, ...]
    delegate: StreamStateHandle
    state_handle_id: str | None = None

    def __post_init__(self) -> None:
        if len(self.offsets) != len(self.key_group_range):
            found = len(self.offsets)
            raise ValueError(f"{found} offsets for {self.key_group_range!r}: expected one for each key group")

    def offset_of(self, key_group: int) -> int:
        """Return where `key_group` starts in the stream, in bytes. Raises `KeyError` outside the range."""
        if key_group not in self.key_group_range:
            raise KeyError(f"key group {key_group} is not in {self.key_group_range!r}")
        return self.offsets[key_group - self.key_group_range.start]

    def intersection(self, key_group_range: KeyGroupRange) -> KeyGroupsStateHandle | None:
        """Return the same stream and id, with the offsets of the common key groups only, or None without any."""
        common = self.key_group_range.intersect(key_group_range)
        if not common:
            return None
        if common == self.key_group_range:
            return self
        first = common.start - self.key_group_range.start
        return replace(self, key_group_range=common, offsets=self.offsets[first : first + len(common)])

    @property
    def checkpointed_size(self) -> int:
        """The whole stream: it is never shared with another checkpoint."""
        return self.delegate.state_size

    @property
    def path(self) -> str | None:
        """The stream's file."""
        return self.delegate.path

    @property
    def physical_id(self) -> str:
        """The physical id of the stream."""
        return self.delegate.physical_id


@dataclass(frozen=True, slots=True, repr=False)
class KeyGroupsSavepointStateHandle(KeyGroupsStateHandle):
    """Key groups in a canonical savepoint, a format that all backends can read; it never has an id in the metadata.

    Source: `KeyGroupsSavepointStateHandle`, since 1.13.
    """


@dataclass(frozen=True, slots=True, repr=False)
class HandleAndLocalPath(StateObject):
    """A file of an LSM tree and its name there (`000012.sst`).

    Source: `IncrementalKeyedStateHandle.HandleAndLocalPath`.
    """

    local_path: str
    handle: StreamStateHandle

    @property
    def state_size(self) -> int:
        """Size of the file."""
        return self.handle.state_size

    def files(self) -> Iterator[str]:
        """Yield the path of the file, if it is one."""
        return self.handle.files()

    def _label(self) -> str:
        return f"{self.local_path}, {self.handle!r}"


@dataclass(frozen=True, slots=True, repr=False)
class IncrementalRemoteKeyedStateHandle(CompositeStateHandle, KeyedStateHandle):
    """The files of an LSM tree; only those in `shared_state` may also belong to earlier checkpoints.

    It is never cut on a rescale. In metadata written before 1.15, `checkpointed_size` equals `state_size` and
    `state_handle_id` is None, since it has neither. Source: `IncrementalRemoteKeyedStateHandle`.
    """

    backend_identifier: str
    key_group_range: KeyGroupRange
    checkpoint_id: int
    shared_state: tuple[HandleAndLocalPath, ...]
    private_state: tuple[HandleAndLocalPath, ...]
    meta_state: StreamStateHandle
    checkpointed_size: int
    state_handle_id: str | None = None

    def handles(self) -> Iterator[StateObject]:
        """Yield all parts."""
        return chain((self.meta_state,), self.shared_state, self.private_state)

    def _label(self) -> str:
        return (
            f"{_span(self.key_group_range)}, checkpoint {self.checkpoint_id}, "
            f"{len(self.shared_state)} shared + {len(self.private_state)} private files, {self.state_size} B"
        )


@dataclass(frozen=True, slots=True)
class StateChange:
    """One serialized change of the changelog; `key_group` is `META_KEY_GROUP` for a change of metadata.

    Source: `StateChange`.
    """

    key_group: int
    change: bytes

    META_KEY_GROUP: ClassVar[int] = -1


class ChangelogStateHandle(KeyedStateHandle):
    """A part of a changelog. Source: `ChangelogStateHandle`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, repr=False)
class InMemoryChangelogStateHandle(ChangelogStateHandle):
    """The changes from sequence number `from_sequence` up to `to_sequence`, kept in the metadata.

    Source: `InMemoryChangelogStateHandle`.
    """

    key_group_range: KeyGroupRange
    from_sequence: int
    to_sequence: int
    changes: tuple[StateChange, ...]
    state_handle_id: str

    @property
    def state_size(self) -> int:
        """Bytes of all changes."""
        return sum(len(change.change) for change in self.changes)

    @property
    def checkpointed_size(self) -> int:
        """The size of all changes."""
        return self.state_size

    def files(self) -> Iterator[str]:
        """Yield nothing: there is no file."""
        return iter(())

    def _label(self) -> str:
        return f"{_span(self.key_group_range)}, {len(self.changes)} changes, {self.state_size} B"


@dataclass(frozen=True, slots=True, repr=False)
class ChangelogStateHandleStreamImpl(SizedStateObject, ChangelogStateHandle):
    """Changes in several streams, each from an offset on: pairs `(handle, offset)`.

    The streams are shared between subtasks, so the sizes are recorded, not derived. Source:
    `ChangelogStateHandleStreamImpl`.
    """

    key_group_range: KeyGroupRange
    handles_and_offsets: tuple[tuple[StreamStateHandle, int], ...]
    size: int
    checkpointed_size: int
    storage_identifier: str
    state_handle_id: str

    def intersection(self, key_group_range: KeyGroupRange) -> ChangelogStateHandleStreamImpl | None:
        """Return the same streams for fewer key groups, with size 0: the size of each key group's part is unknown."""
        common = self.key_group_range.intersect(key_group_range)
        return replace(self, key_group_range=common, size=0, checkpointed_size=0) if common else None

    def files(self) -> Iterator[str]:
        """Yield the files of all parts."""
        return chain.from_iterable(handle.files() for handle, _ in self.handles_and_offsets)


@dataclass(frozen=True, slots=True, repr=False)
class ChangelogStateBackendHandle(CompositeStateHandle, KeyedStateHandle):
    """A full state (`materialized`) and the changes since (`non_materialized`). Source:
    `ChangelogStateBackendHandleImpl`.

    `checkpoint_id` equals `materialization_id` in metadata of 1.15, which had only the latter.
    """

    materialized: tuple[KeyedStateHandle, ...]
    non_materialized: tuple[ChangelogStateHandle, ...]
    key_group_range: KeyGroupRange
    checkpoint_id: int
    materialization_id: int
    checkpointed_size: int
    state_handle_id: str

    def handles(self) -> Iterator[StateObject]:
        """Yield all parts."""
        return chain(self.materialized, self.non_materialized)

    def intersection(self, key_group_range: KeyGroupRange) -> ChangelogStateBackendHandle | None:
        """Return the parts that overlap, each cut as far as possible."""
        common = self.key_group_range.intersect(key_group_range)
        if not common:
            return None
        base = (part.intersection(key_group_range) for part in self.materialized)
        delta = (part.intersection(key_group_range) for part in self.non_materialized)
        return replace(
            self,
            materialized=tuple(part for part in base if part is not None),
            non_materialized=tuple(part for part in delta if isinstance(part, ChangelogStateHandle)),
            key_group_range=common,
        )


def _span(key_groups: KeyGroupRange) -> str:
    return f"key groups {key_groups.start}-{key_groups.end}" if key_groups else "no key groups"

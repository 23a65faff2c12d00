"""State handles: small values that say where a piece of state lies and how it is laid out.

A handle never opens anything. Four families, by what the state belongs to:

* *stream* handles name bytes: in the handle itself, in a file, or in a segment of a file;
* *keyed* handles give the range of key groups the state covers, and how to find each group in a stream;
* *operator* handles give the offset of every entry of each list state, and how entries are handed out on a rescale;
* *channel* handles give the offsets of the buffers that were in flight on one channel, in one direction.

All are frozen, slotted and compared by value, so they can be shared freely between machines, traces and threads.
Offsets are tuples of `int`, in bytes from the start of the stream: all subtasks of an operator together hold at most
32768 key groups, so one subtask's tuple is short, and a short tuple is quicker to build, hash, compare, slice and pack
than an array. Mappings keep insertion order and take no part in hashes.

Source: the handle classes of `org.apache.flink.runtime.state`; each docstring names its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import chain
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

NO_OFFSET_SET = -1
"""The offset of a key group that wrote nothing (`KeyGroupRangeOffsets.NO_OFFSET_SET`)."""


class StateObject:
    """Anything a checkpoint refers to. Source: `StateObject`."""

    __slots__ = ()

    @property
    def state_size(self) -> int:
        """Size in bytes of the state referred to, shared parts included."""
        raise NotImplementedError

    def files(self) -> Iterator[str]:
        """The path of every file the state lies in, in order; a file may come up more than once."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._label()})"

    def _label(self) -> str:
        return f"{self.state_size} B"


class _Sized(StateObject):
    """A handle that records its size in bytes."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def size(self) -> int: ...

    @property
    def state_size(self) -> int:
        """The recorded `size`."""
        return self.size


class _Delegating(StateObject):
    """A handle whose bytes lie in one stream."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def delegate(self) -> StreamStateHandle: ...

    @property
    def state_size(self) -> int:
        """That of the whole stream."""
        return self.delegate.state_size

    def files(self) -> Iterator[str]:
        """The file of the stream, if there is one."""
        return self.delegate.files()


# --- key groups -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class KeyGroupRange:
    """The key groups `start` to `end`, both included. Source: `KeyGroupRange`.

    Raises `ValueError` for a negative start or an end before the start; no key groups at all is
    `KeyGroupRange.EMPTY` (0 to -1).
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
        """The range from `start` to `end`, or `EMPTY` where `end` comes before `start`."""
        return cls(start, end) if start <= end else cls.EMPTY

    def intersect(self, other: KeyGroupRange) -> KeyGroupRange:
        """The key groups in both ranges."""
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


# --- streams ----------------------------------------------------------------------------------------------------------


class StreamStateHandle(StateObject):
    """Bytes that can be read as one stream. Source: `StreamStateHandle`.

    `path` is the file the bytes lie in, None where the handle holds them itself (`maybeGetPath`).
    """

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def path(self) -> str | None: ...  # noqa: D102

    @property
    def physical_id(self) -> str:
        """What tells this state from any other; the shared state registry's key (`getStreamStateHandleID`)."""
        return self.path or ""

    def files(self) -> Iterator[str]:
        """The file, if there is one."""
        return iter(() if self.path is None else (self.path,))


@dataclass(frozen=True, slots=True, repr=False)
class ByteStreamStateHandle(StreamStateHandle):
    """The bytes themselves, kept in the metadata because they are few. Source: `ByteStreamStateHandle`."""

    handle_name: str
    data: bytes

    @property
    def state_size(self) -> int:
        """Number of bytes."""
        return len(self.data)

    @property
    def path(self) -> None:
        """No file."""

    @property
    def physical_id(self) -> str:
        """The handle's name."""
        return self.handle_name

    def _label(self) -> str:
        return f"{_short(self.handle_name)}, {len(self.data)} B"


@dataclass(frozen=True, slots=True, repr=False)
class FileStateHandle(_Sized, StreamStateHandle):
    """A whole file, by absolute path. Source: `FileStateHandle`."""

    path: str
    size: int

    def _label(self) -> str:
        return f"{_short(self.path)}, {self.size} B"


@dataclass(frozen=True, slots=True, repr=False)
class RelativeFileStateHandle(_Sized, StreamStateHandle):
    """A whole file beside `_metadata`, so that the directory can be moved. `path` is `relative_path` resolved
    against it.

    Source: `RelativeFileStateHandle`, since 1.11.
    """

    relative_path: str
    size: int
    path: str

    def _label(self) -> str:
        return f"{_short(self.relative_path)}, {self.size} B"


class StateScope(IntEnum):
    """Whose the file is: one checkpoint's own, or shared between checkpoints. Source: `CheckpointedStateScope`."""

    EXCLUSIVE = 0
    SHARED = 1


@dataclass(frozen=True, slots=True, repr=False)
class SegmentFileStateHandle(_Sized, StreamStateHandle):
    """`size` bytes from `start_pos` on in a file that several states share.

    Source: `SegmentFileStateHandle`, since 1.20.
    """

    start_pos: int
    size: int
    scope: StateScope
    path: str
    logical_file_id: str

    @property
    def physical_id(self) -> str:
        """The logical file: several share the path."""
        return self.logical_file_id

    def _label(self) -> str:
        return f"{_short(self.path)}, {self.size} B from {self.start_pos}, {self.scope.name}"


@dataclass(frozen=True, slots=True, repr=False)
class EmptySegmentFileStateHandle(StreamStateHandle):
    """No segment: stands in where file merging found nothing to write. Source: `EmptySegmentFileStateHandle`."""

    @property
    def state_size(self) -> int:
        """Nothing."""
        return 0

    @property
    def path(self) -> None:
        """No file."""

    @property
    def physical_id(self) -> str:
        """The same for all, as in Flink."""
        return "DUMMY"


# --- keyed state ------------------------------------------------------------------------------------------------------


class KeyedStateHandle(StateObject):
    """State of a keyed operator over a range of key groups. Source: `KeyedStateHandle`.

    `checkpointed_size`: bytes this checkpoint itself had to write, less than `state_size` where earlier files are
    reused.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def key_group_range(self) -> KeyGroupRange: ...  # noqa: D102

        @property
        def checkpointed_size(self) -> int: ...  # noqa: D102

    def intersection(self, key_group_range: KeyGroupRange) -> KeyedStateHandle | None:
        """The handle that holds this one's key groups that lie in `key_group_range`; None where there are none.

        State that cannot be cut comes back whole: the reader must then skip the key groups it did not ask for.
        """
        return self if self.key_group_range.intersect(key_group_range) else None

    def _label(self) -> str:
        return f"{_span(self.key_group_range)}, {self.state_size} B"


@dataclass(frozen=True, slots=True, repr=False)
class KeyGroupsStateHandle(_Delegating, KeyedStateHandle, StreamStateHandle):
    """One stream that holds key group after key group; `offsets[i]` is where group `key_group_range.start + i`
    starts.

    `NO_OFFSET_SET` marks a key group without state. `state_handle_id` is None in metadata written before 1.15,
    which kept none.
    Source: `KeyGroupsStateHandle` with its `KeyGroupRangeOffsets`.
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
        """Where `key_group` starts in the stream, in bytes; `KeyError` outside the range."""
        if key_group not in self.key_group_range:
            raise KeyError(f"key group {key_group} is not in {self.key_group_range!r}")
        return self.offsets[key_group - self.key_group_range.start]

    def intersection(self, key_group_range: KeyGroupRange) -> KeyGroupsStateHandle | None:
        """The same stream and id, with only the offsets of the key groups in both ranges; None where there are none."""
        common = self.key_group_range.intersect(key_group_range)
        if not common:
            return None
        if common == self.key_group_range:
            return self
        first = common.start - self.key_group_range.start
        return replace(self, key_group_range=common, offsets=self.offsets[first : first + len(common)])

    @property
    def checkpointed_size(self) -> int:
        """All of it: never shared with another checkpoint."""
        return self.delegate.state_size

    @property
    def path(self) -> str | None:
        """The file the stream lies in."""
        return self.delegate.path

    @property
    def physical_id(self) -> str:
        """That of the stream."""
        return self.delegate.physical_id


@dataclass(frozen=True, slots=True, repr=False)
class KeyGroupsSavepointStateHandle(KeyGroupsStateHandle):
    """The same in a canonical savepoint, in the format all backends can read; never has an id in the metadata.

    Source: `KeyGroupsSavepointStateHandle`, since 1.13.
    """


@dataclass(frozen=True, slots=True, repr=False)
class HandleAndLocalPath(StateObject):
    """A file of an LSM tree and the name it had there (`000012.sst`).

    Source: `IncrementalKeyedStateHandle.HandleAndLocalPath`.
    """

    local_path: str
    handle: StreamStateHandle

    @property
    def state_size(self) -> int:
        """Size of the file."""
        return self.handle.state_size

    def files(self) -> Iterator[str]:
        """The file, if it is one."""
        return self.handle.files()

    def _label(self) -> str:
        return f"{self.local_path}, {self.handle!r}"


@dataclass(frozen=True, slots=True, repr=False)
class IncrementalRemoteKeyedStateHandle(KeyedStateHandle):
    """The files of an LSM tree: `shared_state` may belong to earlier checkpoints too, `private_state` and
    `meta_state` do not.

    Never cut on a rescale. `checkpointed_size` equals `state_size` and `state_handle_id` is None in metadata
    written before 1.15,
    which kept neither. Source: `IncrementalRemoteKeyedStateHandle`.
    """

    backend_identifier: str
    key_group_range: KeyGroupRange
    checkpoint_id: int
    shared_state: tuple[HandleAndLocalPath, ...]
    private_state: tuple[HandleAndLocalPath, ...]
    meta_state: StreamStateHandle
    checkpointed_size: int
    state_handle_id: str | None = None

    @property
    def state_size(self) -> int:
        """All parts together."""
        return self.meta_state.state_size + sum(
            part.state_size for part in chain(self.shared_state, self.private_state)
        )

    def files(self) -> Iterator[str]:
        """The files of all parts."""
        yield from self.meta_state.files()
        for part in chain(self.shared_state, self.private_state):
            yield from part.files()

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
    """Changes number `from_sequence` up to `to_sequence`, kept in the metadata.

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
        """All of it."""
        return self.state_size

    def files(self) -> Iterator[str]:
        """No file."""
        return iter(())

    def _label(self) -> str:
        return f"{_span(self.key_group_range)}, {len(self.changes)} changes, {self.state_size} B"


@dataclass(frozen=True, slots=True, repr=False)
class ChangelogStateHandleStreamImpl(_Sized, ChangelogStateHandle):
    """Changes that start at an offset of each of several streams: pairs `(handle, offset)`.

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
        """The same streams for fewer key groups; sizes become 0, since how much belongs to which key group is not
        known.
        """
        common = self.key_group_range.intersect(key_group_range)
        return replace(self, key_group_range=common, size=0, checkpointed_size=0) if common else None

    def files(self) -> Iterator[str]:
        """The files of all parts."""
        for handle, _ in self.handles_and_offsets:
            yield from handle.files()


@dataclass(frozen=True, slots=True, repr=False)
class ChangelogStateBackendHandle(KeyedStateHandle):
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

    @property
    def state_size(self) -> int:
        """All parts together."""
        return sum(part.state_size for part in chain(self.materialized, self.non_materialized))

    def intersection(self, key_group_range: KeyGroupRange) -> ChangelogStateBackendHandle | None:
        """The parts that overlap, each cut as far as it can be."""
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

    def files(self) -> Iterator[str]:
        """The files of all parts."""
        for part in chain(self.materialized, self.non_materialized):
            yield from part.files()


# --- operator state ---------------------------------------------------------------------------------------------------


class OperatorStateMode(IntEnum):
    """How a list state is handed out on a restore: entries dealt round robin, all entries to all, or one copy to all.

    The numbers are those of the metadata. Source: `OperatorStateHandle.Mode`.
    """

    SPLIT_DISTRIBUTE = 0
    UNION = 1
    BROADCAST = 2


@dataclass(frozen=True, slots=True)
class StateMetaInfo:
    """Where each entry of one list state starts, in bytes, and its mode.

    Source: `OperatorStateHandle.StateMetaInfo`.
    """

    offsets: tuple[int, ...]
    mode: OperatorStateMode


@dataclass(frozen=True, slots=True, repr=False)
class OperatorStreamStateHandle(_Delegating):
    """The list states of one operator subtask, all in one stream. Compared without regard to the order of the names.

    Source: `OperatorStreamStateHandle`.
    """

    state_name_to_partition_offsets: Mapping[str, StateMetaInfo] = field(hash=False)
    delegate: StreamStateHandle

    def _label(self) -> str:
        states = self.state_name_to_partition_offsets.items()
        return ", ".join(
            [*(f"{name} {info.mode.name} x{len(info.offsets)}" for name, info in states), f"{self.state_size} B"]
        )


@dataclass(frozen=True, slots=True, repr=False)
class FileMergingOperatorStreamStateHandle(OperatorStreamStateHandle):
    """The same in a segment of a merged file; names the directories that must outlive it.

    Source: `FileMergingOperatorStreamStateHandle`, since 1.20.
    """

    task_owned_dir: str
    shared_dir: str


@dataclass(frozen=True, slots=True, repr=False)
class EmptyFileMergingOperatorStreamStateHandle(FileMergingOperatorStreamStateHandle):
    """No operator state, but the directories must be kept all the same.

    Source: `EmptyFileMergingOperatorStreamStateHandle`.
    """


# --- channel state ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, order=True)
class InputChannelInfo:
    """An input channel of a subtask: which gate, which channel of it. Source: `InputChannelInfo`."""

    gate_idx: int
    input_channel_idx: int


@dataclass(frozen=True, slots=True, order=True)
class ResultSubpartitionInfo:
    """An output channel of a subtask: which result partition, which subpartition of it.

    Source: `ResultSubpartitionInfo`.
    """

    partition_idx: int
    subpartition_idx: int


ChannelInfoT = TypeVar("ChannelInfoT", InputChannelInfo, ResultSubpartitionInfo)


@dataclass(frozen=True, slots=True)
class ChannelStateContent(Generic[ChannelInfoT]):
    """The buffers of one channel inside a merged handle: where each starts, in bytes, and their size together."""

    info: ChannelInfoT
    offsets: tuple[int, ...]
    size: int


@dataclass(frozen=True, slots=True, repr=False)
class InputChannelStateHandle(_Sized, _Delegating):
    """Buffers that had arrived on one input channel. Source: `InputChannelStateHandle`.

    `subtask_index` is the subtask that took the snapshot. `size` is that of this channel's buffers, each with its
    length prefix; the
    delegate may hold other channels too.
    """

    subtask_index: int
    info: InputChannelInfo
    offsets: tuple[int, ...]
    size: int
    delegate: StreamStateHandle

    def _label(self) -> str:
        where = f"gate {self.info.gate_idx} channel {self.info.input_channel_idx}"
        return f"subtask {self.subtask_index}, {where}, {len(self.offsets)} buffers, {self.size} B"


@dataclass(frozen=True, slots=True, repr=False)
class ResultSubpartitionStateHandle(_Sized, _Delegating):
    """Buffers that had not left one result subpartition.

    Fields as in the input handle. Source: `ResultSubpartitionStateHandle`.
    """

    subtask_index: int
    info: ResultSubpartitionInfo
    offsets: tuple[int, ...]
    size: int
    delegate: StreamStateHandle

    def _label(self) -> str:
        where = f"partition {self.info.partition_idx} subpartition {self.info.subpartition_idx}"
        return f"subtask {self.subtask_index}, {where}, {len(self.offsets)} buffers, {self.size} B"


@dataclass(frozen=True, slots=True, repr=False)
class MergedInputChannelStateHandle(_Sized, _Delegating):
    """All input channels of a subtask that lie in one stream. Source: `MergedInputChannelStateHandle`, since 2.1."""

    subtask_index: int
    contents: tuple[ChannelStateContent[InputChannelInfo], ...]
    size: int
    delegate: StreamStateHandle

    def unmerge(self) -> tuple[InputChannelStateHandle, ...]:
        """One handle a channel, in order."""
        return tuple(
            InputChannelStateHandle(self.subtask_index, part.info, part.offsets, part.size, self.delegate)
            for part in self.contents
        )

    def _label(self) -> str:
        return f"subtask {self.subtask_index}, {len(self.contents)} channels, {self.size} B"


@dataclass(frozen=True, slots=True, repr=False)
class MergedResultSubpartitionStateHandle(_Sized, _Delegating):
    """All result subpartitions of a subtask that lie in one stream.

    Source: `MergedResultSubpartitionStateHandle`, since 2.1.
    """

    subtask_index: int
    contents: tuple[ChannelStateContent[ResultSubpartitionInfo], ...]
    size: int
    delegate: StreamStateHandle

    def unmerge(self) -> tuple[ResultSubpartitionStateHandle, ...]:
        """One handle a subpartition, in order."""
        return tuple(
            ResultSubpartitionStateHandle(self.subtask_index, part.info, part.offsets, part.size, self.delegate)
            for part in self.contents
        )

    def _label(self) -> str:
        return f"subtask {self.subtask_index}, {len(self.contents)} subpartitions, {self.size} B"


InputStateHandle = InputChannelStateHandle | MergedInputChannelStateHandle
OutputStateHandle = ResultSubpartitionStateHandle | MergedResultSubpartitionStateHandle


def _short(name: str) -> str:
    """The last part of a path, cut to what tells it apart."""
    last = name.rsplit("/", 1)[-1]
    return last if len(last) <= 16 else last[:8] + "…"


def _span(key_groups: KeyGroupRange) -> str:
    return f"key groups {key_groups.start}-{key_groups.end}" if key_groups else "no key groups"

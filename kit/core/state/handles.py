"""State handles: small values that say where a piece of state is and how it is laid out.

A handle never opens anything. There are four families, by the kind of state:

- *Stream* handles name bytes: in the handle itself, in a file, or in a segment of a file.
- *Keyed* handles give the range of key groups that the state covers, and the position of each group in a stream.
- *Operator* handles give the offset of every entry of each list state, and how entries are redistributed on a rescale.
- *Channel* handles give the offsets of the buffers that were in flight on one channel, in one direction.

All are frozen, slotted and compared by value, so they can be shared freely between machines, traces and threads.
Offsets are tuples of `int`, in bytes from the start of the stream. All subtasks of an operator together hold at most
32768 key groups, so one subtask's tuple is short, and a short tuple is quicker to build, hash, compare, slice and pack
than an array. Mappings keep insertion order and take no part in hashes.

Source: the handle classes of `org.apache.flink.runtime.state`; each docstring names its own.
"""

from kit.core.state.channel_handles import (
    ChannelStateContent,
    InputChannelInfo,
    InputChannelStateHandle,
    InputStateHandle,
    MergedInputChannelStateHandle,
    MergedResultSubpartitionStateHandle,
    OutputStateHandle,
    ResultSubpartitionInfo,
    ResultSubpartitionStateHandle,
)
from kit.core.state.keyed_handles import (
    NO_OFFSET_SET,
    ChangelogStateBackendHandle,
    ChangelogStateHandle,
    ChangelogStateHandleStreamImpl,
    HandleAndLocalPath,
    IncrementalRemoteKeyedStateHandle,
    InMemoryChangelogStateHandle,
    KeyedStateHandle,
    KeyGroupRange,
    KeyGroupsSavepointStateHandle,
    KeyGroupsStateHandle,
    StateChange,
)
from kit.core.state.operator_handles import (
    EmptyFileMergingOperatorStreamStateHandle,
    FileMergingOperatorStreamStateHandle,
    OperatorStateMode,
    OperatorStreamStateHandle,
    StateMetaInfo,
)
from kit.core.state.stream_handles import (
    ByteStreamStateHandle,
    EmptySegmentFileStateHandle,
    FileStateHandle,
    PlaceholderStreamStateHandle,
    RelativeFileStateHandle,
    SegmentFileStateHandle,
    StateObject,
    StateScope,
    StreamStateHandle,
)

__all__ = [
    "NO_OFFSET_SET",
    "ByteStreamStateHandle",
    "ChangelogStateBackendHandle",
    "ChangelogStateHandle",
    "ChangelogStateHandleStreamImpl",
    "ChannelStateContent",
    "EmptyFileMergingOperatorStreamStateHandle",
    "EmptySegmentFileStateHandle",
    "FileMergingOperatorStreamStateHandle",
    "FileStateHandle",
    "HandleAndLocalPath",
    "InMemoryChangelogStateHandle",
    "IncrementalRemoteKeyedStateHandle",
    "InputChannelInfo",
    "InputChannelStateHandle",
    "InputStateHandle",
    "KeyGroupRange",
    "KeyGroupsSavepointStateHandle",
    "KeyGroupsStateHandle",
    "KeyedStateHandle",
    "MergedInputChannelStateHandle",
    "MergedResultSubpartitionStateHandle",
    "OperatorStateMode",
    "OperatorStreamStateHandle",
    "OutputStateHandle",
    "PlaceholderStreamStateHandle",
    "RelativeFileStateHandle",
    "ResultSubpartitionInfo",
    "ResultSubpartitionStateHandle",
    "SegmentFileStateHandle",
    "StateChange",
    "StateMetaInfo",
    "StateObject",
    "StateScope",
    "StreamStateHandle",
]

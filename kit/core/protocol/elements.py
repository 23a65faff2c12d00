"""The contents of a channel: buffers of records, and the events between them.

A channel is a first-in, first-out queue of *elements*. A `Buffer` carries records, and a `RecordFragment` carries a
part of one that is too large for a buffer. Every other element is a marker between records. Only an unaligned barrier
may overtake data.

Follows Flink's `StreamElement`, `CheckpointBarrier`, `CancelCheckpointMarker`, `EndOfData` and `EndOfPartitionEvent`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import pyarrow as pa

from kit.core.arrow_size import size_of
from kit.core.event_time import MAX_WATERMARK_MS, MIN_WATERMARK_MS, event_time_text
from kit.core.protocol.options import CheckpointOptions


@dataclass(frozen=True, eq=False)
class Buffer:
    """Records in columns: one row in a lesson, 64k rows on a cluster."""

    without_effect: ClassVar = frozenset({"size_bytes"})

    batch: pa.RecordBatch

    @property
    def rows(self) -> int:
        """Number of records."""
        return int(self.batch.num_rows)

    @cached_property
    def size_bytes(self) -> int:
        """Bytes that the columns refer to, computed once because Arrow takes longer for it than for most operations."""
        return size_of(self.batch)

    def split(self, rows: int) -> tuple[Buffer, Buffer]:
        """Return a buffer with the first `rows` rows, and one with the others."""
        return Buffer(self.batch.slice(0, rows)), Buffer(self.batch.slice(rows))

    def to_loggable(self) -> dict[str, object]:
        """Return the buffer's description in a trace."""
        return {"type": "Buffer", "batch": {"rows": self.rows, "bytes": self.size_bytes}}

    def __deepcopy__(self, memo: dict[int, object]) -> Buffer:
        """Return the buffer itself: columns are immutable, so copies of a world share them."""
        return self

    def __repr__(self) -> str:
        return f"Buffer({self.rows} rows)"


@dataclass(frozen=True, slots=True)
class RecordFragment:
    """The next bytes of a record that is larger than a buffer may be; `last` is True for the end of the record.

    The fragments of a record follow one another on their channel; only an unaligned barrier may come between them.
    Flink: a record that spans network buffers.
    """

    data: bytes
    last: bool

    @property
    def size_bytes(self) -> int:
        """Number of the record's bytes in this fragment."""
        return len(self.data)

    def __repr__(self) -> str:
        return f"RecordFragment({self.size_bytes} bytes{', the last' if self.last else ''})"


@dataclass(frozen=True, slots=True, weakref_slot=True)
class CheckpointBarrier:
    """The boundary between the records before a checkpoint and those after it (Flink's `CheckpointBarrier`).

    It also replaces Flink's `CheckpointMetaData`: the checkpoint's id and time travel with the barrier, and the time at
    which a task receives it goes directly into the task's metrics.
    """

    checkpoint_id: int
    timestamp_ms: int
    options: CheckpointOptions

    def as_unaligned(self) -> CheckpointBarrier:
        """Return the barrier that continues this one once its alignment has timed out (`asUnaligned`)."""
        return self if self.options.is_unaligned else replace(self, options=self.options.to_unaligned())

    def __repr__(self) -> str:
        return f"CheckpointBarrier({self.checkpoint_id}, {self.options.alignment.name})"


@dataclass(frozen=True, slots=True)
class CancelCheckpointMarker:
    """A marker that no barrier of this checkpoint will come on this channel, because it was aborted upstream.

    Flink: `CancelCheckpointMarker`.
    """

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class Watermark:
    """A promise that no record with an earlier event time follows on this channel, except for late ones."""

    timestamp_ms: int

    def __repr__(self) -> str:
        is_end = self.timestamp_ms in (MIN_WATERMARK_MS, MAX_WATERMARK_MS)
        return f"Watermark({event_time_text(self.timestamp_ms) if is_end else f'timestamp_ms={self.timestamp_ms}'})"


@dataclass(frozen=True, slots=True)
class WatermarkStatus:
    """A marker that says if this channel currently takes part in event time (`WatermarkStatus`)."""

    idle: bool


@dataclass(frozen=True, slots=True)
class EndOfData:
    """The end of the records; barriers may still follow (`EndOfData`). With `drain`, windows were flushed."""

    drain: bool


@dataclass(frozen=True, slots=True)
class EndOfPartition:
    """The end of the channel: nothing follows (`EndOfPartitionEvent`)."""


@dataclass(frozen=True, slots=True)
class SubtaskConnectionDescriptor:
    """The old connection that the next recovered buffer belongs to, as a pair of subtasks before the rescale.

    The receiver uses it to keep the buffers of the old connections apart. Source: `SubtaskConnectionDescriptor`.
    """

    input_subtask: int
    output_subtask: int


@dataclass(frozen=True, slots=True)
class EndOfChannelState:
    """The end of this channel's recovered buffers (`EndOfChannelStateEvent`)."""


CreditedElement = Buffer | RecordFragment
"""The elements that carry records: the sender needs a credit for each."""

DataElement = Buffer | RecordFragment | Watermark | WatermarkStatus
"""The elements that an unaligned checkpoint captures: those that Flink serializes into a channel's buffers."""

Element = (
    Buffer
    | RecordFragment
    | CheckpointBarrier
    | CancelCheckpointMarker
    | Watermark
    | WatermarkStatus
    | EndOfData
    | EndOfPartition
    | SubtaskConnectionDescriptor
    | EndOfChannelState
)

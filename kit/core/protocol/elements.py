"""What flows through a channel: buffers of records, and the events between them.

A channel is a queue of *elements*, first in first out. A `Buffer` carries records, a `RecordFragment` a part of one
that is too large for a buffer; every other element is a mark between records. Of these only a barrier may ever
overtake data, and only when it is unaligned.

Follows Flink's `StreamElement`, `CheckpointBarrier`, `CancelCheckpointMarker`, `EndOfData` and `EndOfPartitionEvent`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from kit.core.protocol.options import CheckpointOptions

MIN_WATERMARK_MS = -(2**63)
MAX_WATERMARK_MS = 2**63 - 1
"""Event time has ended: every timer fires (Flink's `Watermark.MAX_WATERMARK`)."""


def event_time_text(timestamp_ms: int) -> str:
    """Return an event time as people read it: its two ends are words, not numbers."""
    if timestamp_ms == MAX_WATERMARK_MS:
        return "end of event time"
    return "no event time yet" if timestamp_ms == MIN_WATERMARK_MS else f"{timestamp_ms} ms"


@dataclass(frozen=True, eq=False)
class Buffer:
    """Records in columns. In a lesson it holds one row, on a cluster 64k."""

    batch: pa.RecordBatch

    @property
    def rows(self) -> int:
        """Number of records."""
        return int(self.batch.num_rows)

    @cached_property
    def size_bytes(self) -> int:
        """Bytes the columns refer to: added up once, which takes Arrow longer than most of what is done with them."""
        return int(self.batch.nbytes)

    def to_loggable(self) -> dict[str, object]:
        """What a trace says of it."""
        return {"type": "Buffer", "batch": {"rows": self.rows, "bytes": self.size_bytes}}

    def __deepcopy__(self, memo: dict[int, object]) -> Buffer:
        """Columns never change: copies of a world share them."""
        return self

    def __repr__(self) -> str:
        return f"Buffer({self.rows} rows)"


@dataclass(frozen=True, slots=True)
class RecordFragment:
    """A part of one record that is larger than a buffer may be: the next bytes of it, and whether they are its `last`.

    The fragments of a record follow one another on their channel; only an unaligned barrier comes between them. Flink:
    a record that spans network buffers.
    """

    data: bytes
    last: bool

    @property
    def size_bytes(self) -> int:
        """How many bytes of the record these are."""
        return len(self.data)

    def __repr__(self) -> str:
        return f"RecordFragment({self.size_bytes} bytes{', the last' if self.last else ''})"


@dataclass(frozen=True, slots=True, weakref_slot=True)
class CheckpointBarrier:
    """The line between the records before a checkpoint and those after it (Flink's `CheckpointBarrier`).

    It also stands in for Flink's `CheckpointMetaData`: the checkpoint's id and time travel with the barrier, and the
    time at which a task receives it goes straight into the task's metrics.
    """

    checkpoint_id: int
    timestamp_ms: int
    options: CheckpointOptions

    def as_unaligned(self) -> CheckpointBarrier:
        """The same barrier once its alignment has timed out (`asUnaligned`)."""
        return self if self.options.is_unaligned else replace(self, options=self.options.to_unaligned())

    def __repr__(self) -> str:
        return f"CheckpointBarrier({self.checkpoint_id}, {self.options.alignment.name})"


@dataclass(frozen=True, slots=True)
class CancelCheckpointMarker:
    """No barrier of this checkpoint will come on this channel: it was aborted upstream.

    Flink: `CancelCheckpointMarker`.
    """

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class Watermark:
    """No record with an earlier event time follows on this channel (barring late ones)."""

    timestamp_ms: int

    def __repr__(self) -> str:
        is_end = self.timestamp_ms in (MIN_WATERMARK_MS, MAX_WATERMARK_MS)
        return f"Watermark({event_time_text(self.timestamp_ms) if is_end else f'timestamp_ms={self.timestamp_ms}'})"


@dataclass(frozen=True, slots=True)
class WatermarkStatus:
    """Whether this channel takes part in event time at present (`WatermarkStatus`)."""

    idle: bool


@dataclass(frozen=True, slots=True)
class EndOfData:
    """No more records will come; barriers still may (`EndOfData`). `drain` says that windows were flushed."""

    drain: bool


@dataclass(frozen=True, slots=True)
class EndOfPartition:
    """Nothing more will come (`EndOfPartitionEvent`)."""


@dataclass(frozen=True, slots=True)
class SubtaskConnectionDescriptor:
    """The next recovered buffer belongs to the connection between these subtasks of the job as it was before.

    The receiver tells by it whose buffers to keep apart. Source: `SubtaskConnectionDescriptor`.
    """

    input_subtask: int
    output_subtask: int


@dataclass(frozen=True, slots=True)
class EndOfChannelState:
    """All recovered buffers of this channel have gone before (`EndOfChannelStateEvent`)."""


CreditedElement = Buffer | RecordFragment
"""What carries records: the sender needs a credit for each."""

DataElement = Buffer | RecordFragment | Watermark | WatermarkStatus
"""What an unaligned checkpoint takes along: what Flink serializes into a channel's buffers."""

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

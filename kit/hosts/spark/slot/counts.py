"""The counters of a slot that Spark shows: rows in and out, rows exchanged with other slots, and snapshots."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import astuple, dataclass

import pyarrow as pa

from kit.core.arrow_size import size_of
from kit.core.protocol.commands import WriteRows, WriteSnapshot
from kit.core.protocol.elements import Buffer
from kit.core.protocol.events import SnapshotWritten

COUNTS_EVERY_S = 1.0
"""The interval at which a slot passes its counters to Spark, which shows them with the executor's next heartbeat."""


@dataclass(slots=True)
class Counts:
    """The counters since the epoch began. Bytes of rows are those of their columns in memory."""

    rows_read: int = 0
    bytes_read: int = 0
    rows_written: int = 0
    bytes_written: int = 0
    rows_received: int = 0
    bytes_received: int = 0
    rows_sent: int = 0
    bytes_sent: int = 0
    snapshots: int = 0
    snapshot_bytes: int = 0
    checkpoints: int = 0
    """The checkpoints whose completion the driver has reported to this slot."""
    _last_checkpoint: int = 0

    def read(self, batch: pa.RecordBatch) -> None:
        """Count a batch that a source has read."""
        self.rows_read += batch.num_rows
        self.bytes_read += size_of(batch)

    def wrote(self, rows: pa.Table | None) -> None:
        """Count rows that a sink has written to a file."""
        if rows is not None:
            self.rows_written += rows.num_rows
            self.bytes_written += size_of(rows)

    def received(self, buffer: Buffer) -> None:
        """Count a buffer from another slot; its task needs its size, too, so that is computed once."""
        self.rows_received += buffer.rows
        self.bytes_received += buffer.size_bytes

    def sent(self, buffer: Buffer) -> None:
        """Count a buffer to another slot; its task needs its size, too, so that is computed once."""
        self.rows_sent += buffer.rows
        self.bytes_sent += buffer.size_bytes

    def carried_out(self, command: object, answer: object) -> None:
        """Count what a command has written, according to its answer."""
        if isinstance(command, WriteRows) and answer is None:
            self.wrote(command.table)
        elif isinstance(command, WriteSnapshot) and isinstance(answer, SnapshotWritten):
            self.snapshots += 1
            self.snapshot_bytes += answer.bytes_written
            for effect in command.effects:
                self.wrote(effect.table)

    def completed(self, checkpoint_id: int) -> None:
        """Count a checkpoint when the first task of the slot is notified that it is complete."""
        if checkpoint_id > self._last_checkpoint:
            self._last_checkpoint = checkpoint_id
            self.checkpoints += 1


COUNTED = tuple(name for name in Counts.__dataclass_fields__ if not name.startswith("_"))
"""The names of the counters, in their order in a row."""


def rows_of(counts: Iterator[Counts]) -> Iterator[tuple[list[int], bytes]]:
    """Yield a row for Spark whenever a counter has changed: a list of the increases and then the totals, and padding.

    The padding fills the buffer of Spark's Python worker, which would otherwise keep the row until the task ends.
    """
    padding = bytes(int(os.environ.get("SPARK_BUFFER_SIZE", "65536")) + 64)
    before = (0,) * len(COUNTED)
    for each in counts:
        now = astuple(each)[: len(COUNTED)]
        if now != before:
            yield [*(new - old for new, old in zip(now, before, strict=True)), *now], padding
        before = now

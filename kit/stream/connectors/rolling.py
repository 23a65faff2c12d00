"""When a sink ends one file and begins the next, and how many rows it holds in memory meanwhile.

A file ends at each barrier: Parquet has its footer at the end, so a file cannot go on after the checkpoint that
publishes it. Between two barriers a `RollingPolicy` decides. Where files end follows from the rows alone, not from the
batches in which they come, so two runs over the same rows make files of the same names; only the limits in time depend
on the run.

Follows Flink's `CheckpointRollingPolicy`, `OnCheckpointRollingPolicy` and `DefaultRollingPolicy`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kit.core.arguments.allowed import LONGEST_MS, check_allowed, or_none, whole
from kit.core.arrow_kinds import kind_of
from kit.core.arrow_size import size_of

HELD_ROWS = 1 << 17
MAX_BYTES = 128 << 20  # Flink's maxPartSize


@dataclass(frozen=True, slots=True)
class RollingPolicy:
    """The limits of one file, and of the rows that one subtask holds in memory.

    A file ends when it has `max_bytes` (of rows as they are in memory, before Parquet compresses them) or `max_rows`,
    `rollover_ms` after it was begun, and when no row has come for `inactivity_ms`; None sets no such limit. A subtask
    holds at most about `held_rows` rows between two barriers, and writes the others to the file in progress.
    """

    max_bytes: int | None = MAX_BYTES
    max_rows: int | None = None
    rollover_ms: int | None = None
    inactivity_ms: int | None = None
    held_rows: int = HELD_ROWS

    def __post_init__(self) -> None:
        limit = or_none(whole(1, LONGEST_MS), "no limit")
        limits = dict.fromkeys(("max_bytes", "max_rows", "rollover_ms", "inactivity_ms"), limit)
        check_allowed(self, limits | {"held_rows": whole(1, LONGEST_MS)}, "RollingPolicy")

    def ends_at(self, batch: pa.RecordBatch, rows: int, size: int) -> int:
        """Return how many rows of the batch still go into a file that has `rows` rows and `size` bytes."""
        end = batch.num_rows
        if self.max_rows is not None:
            end = min(end, self.max_rows - rows)
        if self.max_bytes is not None and end and size + upper_bound_of_bytes(batch) >= self.max_bytes:
            sizes = size + np.cumsum(bytes_by_row(batch))
            end = min(end, int(np.searchsorted(sizes, self.max_bytes)) + 1)
        return end

    def is_full(self, rows: int, size: int) -> bool:
        """Return True if a file of `rows` rows and `size` bytes is full."""
        return (self.max_rows is not None and rows >= self.max_rows) or (
            self.max_bytes is not None and size >= self.max_bytes
        )

    def due_ms(self, begun_ms: int, last_ms: int) -> int | None:
        """Return when a file ends that was begun then and got its last row then; None if time does not end it."""
        limits = ((begun_ms, self.rollover_ms), (last_ms, self.inactivity_ms))
        return min((since_ms + limit_ms for since_ms, limit_ms in limits if limit_ms is not None), default=None)


def bytes_by_row(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Return the bytes of each row, which do not depend on the batch that the row is in."""
    sizes = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        sizes += _bytes_of(column)
    return sizes


def bytes_of(batch: pa.RecordBatch) -> int:
    """Return the bytes of all rows together."""
    return sum(_total_of(column) for column in batch.columns)


def upper_bound_of_bytes(batch: pa.RecordBatch) -> int:
    """Return a number that the rows' bytes do not exceed, at no cost."""
    return size_of(batch) + 8 * batch.num_rows * batch.num_columns


def _bytes_of(column: pa.Array) -> npt.NDArray[np.int64]:
    kind, rows = column.type, len(column)
    if pa.types.is_struct(kind):
        return sum((_bytes_of(child) for child in column.flatten()), np.zeros(rows, np.int64))
    if pa.types.is_dictionary(kind):
        return _bytes_of(column.dictionary_decode())
    if pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        entries = [column.keys, column.items] if pa.types.is_map(kind) else [column.values]
        below = np.concatenate([[0], np.cumsum(sum(map(_bytes_of, entries)))])
        ends = np.asarray(column.offsets)
        return below[ends[1:]] - below[ends[:-1]]
    if pa.types.is_fixed_size_list(kind):
        return np.full(rows, kind.list_size * 8, np.int64)
    if _has_length(kind):
        return np.asarray(pc.binary_length(column).fill_null(0), np.int64)
    return np.full(rows, _width_of(kind), np.int64)


def _total_of(column: pa.Array) -> int:
    kind = column.type
    if _has_length(kind):
        return int(pc.sum(pc.binary_length(column)).as_py() or 0)
    if pa.types.is_nested(kind) or pa.types.is_dictionary(kind):
        return int(_bytes_of(column).sum())
    return _width_of(kind) * len(column)


def _has_length(kind: pa.DataType) -> bool:
    return kind_of(kind).python in (str, bytes)


def _width_of(kind: pa.DataType) -> int:
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:  # of no fixed width
        return 8

"""Event time: its column, and watermarks that follow it at a bounded distance.

A watermark `w` says that no record with an event time of `w` or earlier will follow. If records are at most
`out_of_orderness_ms` late, it is the largest event time seen, less the bound, less one. Later records are passed on all
the same; a window that has fired drops them.

A subtask without records would hold back event time for all. With `idle_ms`, it becomes idle after this time without
a record, and active again when its watermark next advances. Only time counts in which it could have emitted and had
nothing (`kit.machines.task.task_activity`): not while its outputs are full, while alignment pauses its splits, while a
read is under way, or while its process is suspended. If the source in its chain reads several splits, each idle split
is left out of the subtask's watermark.

Some splits may be read much faster than others, and operators buffer their rows until event time reaches them. With
`max_drift_ms`, the source does not read a split whose watermark is further ahead of the least one than that.

Follows Flink's `TimestampsAndWatermarksOperator`, `BoundedOutOfOrdernessWatermarks` and `WatermarksWithIdleness`.
Flink emits on a timer. Here a watermark follows each batch that advances it, so that runs are repeatable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.core.arguments.durations import settle_durations
from kit.core.event_time import MAX_WATERMARK_MS, MIN_WATERMARK_MS
from kit.core.protocol.notes import RowsBehindWatermark
from kit.stream.backend.keys.key_hashing import as_numbers
from kit.stream.operators.base import Operator
from kit.stream.operators.event_time import TimeColumn, columns_of
from kit.stream.operators.sources.split_watermarks import SplitWatermarks
from kit.stream.operators.spec import ResolvedSpec, SchemaError, column_field

_LOOKS = 4
"""How often an operator looks whether it is idle within the time without records that makes it so."""

_MOST_SECONDS = MAX_WATERMARK_MS // 1_000
_UNITS_PER_MS = {"us": 1_000, "ns": 1_000_000}


def check_time_column(schema: pa.Schema, time_column: TimeColumn, operator: str) -> None:
    """Raise SchemaError unless the column is a timestamp, or an int64 of ms since 1970."""
    for column in columns_of(time_column):
        found = column_field(schema, column, operator).type
        if pa.types.is_timestamp(found) or found.equals(pa.int64()):
            continue
        way = "cast it before, with with_column"
        if pa.types.is_string(found):
            way = (
                f"write with_column({column!r}, pc.field({column!r}).cast(pa.timestamp('ms'))) before, for texts "
                "such as 2024-03-01 and 2024-03-01 10:30:00; for others pc.strptime with their format"
            )
        raise SchemaError(f"{operator}: column {column!r} is {found}, but event time is a timestamp or int64 ms: {way}")


def event_times_ms(batch: pa.RecordBatch, time_column: TimeColumn, operator: str) -> npt.NDArray[np.int64]:
    """Return the event times of the rows, int64 ms since 1970, rounded down. Raises ValueError for a null."""
    first, *others = columns_of(time_column)
    times = _times_ms(batch, first, operator)
    for column in others:
        times = np.maximum(times, _times_ms(batch, column, operator))
    return times


def _times_ms(batch: pa.RecordBatch, column: str, operator: str) -> npt.NDArray[np.int64]:
    times = batch.column(column)
    if times.null_count:
        row = int(np.flatnonzero(times.is_null().to_numpy(zero_copy_only=False))[0])
        raise ValueError(
            f"{operator}: no event time: column {column!r} is null in row {batch.slice(row, 1).to_pylist()[0]}; "
            "filter such rows out before"
        )
    unit = "ms" if times.type.equals(pa.int64()) else times.type.unit
    values: npt.NDArray[np.int64] = as_numbers(times)
    if unit == "s":
        return np.clip(values, -_MOST_SECONDS, _MOST_SECONDS) * 1_000
    return values if unit == "ms" else values // _UNITS_PER_MS[unit]


@dataclass(frozen=True, eq=False, repr=False)
class TimestampsAndWatermarks(ResolvedSpec):
    """Event time from `column` (a timestamp of any unit, or int64 ms), with records at most `out_of_orderness_ms` late.

    After `idle_ms` without a record, a subtask or a split is idle (None: never). Splits more than `max_drift_ms` ahead
    of the one furthest behind are not read (None: no limit).
    """

    input_schema: pa.Schema
    column: str
    out_of_orderness_ms: int = 0
    idle_ms: int | None = None
    max_drift_ms: int | None = None

    def _resolve(self) -> None:
        check_time_column(self.input_schema, self.column, self.name)
        settle_durations(self, "out_of_orderness_ms", or_none=("idle_ms", "max_drift_ms"))
        for name, least in (("out_of_orderness_ms", 0), ("idle_ms", 1), ("max_drift_ms", 1)):
            found = getattr(self, name)
            if found is not None and found < least:
                raise ValueError(f"{self.name}: {name} is {found}, but must be {least} or more")
        self._set(input_schemas=(self.input_schema,), output_schema=self.input_schema)

    def event_time(self, inputs: Sequence[TimeColumn | None]) -> TimeColumn:
        """Return the named column."""
        return self.column

    def create(self) -> TimestampsAndWatermarksOperator:
        """Return one subtask's operator."""
        return TimestampsAndWatermarksOperator(self)


class TimestampsAndWatermarksOperator(Operator):
    """The operator. It passes batches on, each followed by a watermark if that advances. It ignores watermarks and
    idleness from upstream, except the end of event time.
    """

    def __init__(self, spec: TimestampsAndWatermarks) -> None:
        self._spec = spec
        self._watermark_ms = MIN_WATERMARK_MS
        self._splits: SplitWatermarks | None = None
        self._idle = False
        self._last_row_ms = 0
        """The task's activity when a row came last, or when the operator was opened."""

    @property
    def max_drift_ms(self) -> int | None:
        """The furthest that a split may be ahead of the least watermark and still be read, in ms."""
        return self._spec.max_drift_ms

    @property
    def look_every_ms(self) -> int | None:
        """The time after which it looks whether it is idle, in ms; None if it never is."""
        return None if self._spec.idle_ms is None else max(self._spec.idle_ms // _LOOKS, 1)

    def follow_splits(self) -> SplitWatermarks:
        """Use the least watermark of the splits of the source in this chain."""
        self._splits = SplitWatermarks()
        return self._splits

    def open(self) -> None:
        """Start the time without rows."""
        self._last_row_ms = self.context.activity.ms

    def process_batch(self, batch: pa.RecordBatch, input_index: int = 0) -> None:
        """Emit the batch, then the watermark if it advances."""
        if batch.num_rows == 0:
            return
        times = event_times_ms(batch, self._spec.column, self._spec.name)
        latest_ms = int(times.max())
        if times.min() <= self._watermark_ms:
            behind, split = times[times <= self._watermark_ms], "" if self._splits is None else self._splits.current
            self.context.count_late(RowsBehindWatermark, behind, self._watermark_ms, split)
        self._last_row_ms = self.context.activity.ms
        self.context.output.emit(batch)
        watermark_ms = max(latest_ms - self._spec.out_of_orderness_ms - 1, MIN_WATERMARK_MS)
        self._advance(watermark_ms if self._splits is None else self._splits.advance(watermark_ms))

    def process_watermark(self, timestamp_ms: int) -> None:
        """Pass on the end of event time; drop other watermarks."""
        if timestamp_ms == MAX_WATERMARK_MS:
            self._advance(MAX_WATERMARK_MS)

    def process_watermark_status(self, *, idle: bool) -> None:
        """Ignore the status, which concerns the event time upstream."""

    def next_processing_time_ms(self) -> int | None:
        """Return the time at which to look whether the subtask or a split is idle."""
        idle_ms, look_every_ms = self._spec.idle_ms, self.look_every_ms
        if idle_ms is None or look_every_ms is None or self._watermark_ms == MAX_WATERMARK_MS:
            return None
        since_ms = [] if self._idle else [self._last_row_ms]
        since_ms += [] if self._splits is None else self._splits.empty_since_ms
        if not since_ms:
            return None
        left_ms = [each + idle_ms - self.context.activity.ms for each in since_ms]
        soonest_ms = min((each for each in left_ms if each > 0), default=look_every_ms)
        return self.context.processing_time_ms + min(soonest_ms, look_every_ms)

    def on_processing_time(self, now_ms: int) -> None:
        """Leave out idle splits; declare the subtask idle if no row arrived in time."""
        idle_ms, activity = self._spec.idle_ms, self.context.activity
        if idle_ms is None or self._watermark_ms == MAX_WATERMARK_MS:
            return
        least_ms = None if self._splits is None else self._splits.find_idle(activity.ms, idle_ms)
        if least_ms is not None:
            self._advance(least_ms)
        if activity.is_paused:
            self._last_row_ms = activity.ms
        elif not self._idle and activity.has_nothing and activity.ms >= self._last_row_ms + idle_ms:
            self._idle = True
            self.context.output.emit_watermark_status(idle=True)

    def _advance(self, watermark_ms: int) -> None:
        if watermark_ms <= self._watermark_ms:
            return
        self._watermark_ms = watermark_ms
        if self._idle:
            self._idle = False
            self.context.output.emit_watermark_status(idle=False)
        self.context.output.emit_watermark(watermark_ms)

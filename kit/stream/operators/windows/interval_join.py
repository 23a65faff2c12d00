"""The interval join: pairs of rows with the same key whose event times are within bounds of each other.

A row is paired at once with the present rows of the other side: `left + lower_ms <= right <= left + upper_ms`. It is
kept until the watermark shows that no partner can follow. A row before the watermark is late; it is dropped and
counted, or sent to a side output. Pairs are emitted in the order of the rows that made them, the partners by time.

Follows Flink's `IntervalJoinOperator`. Flink cleans up with timers; here the times of the rows themselves suffice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.core.arguments.durations import settle_durations
from kit.core.protocol.notes import LateRowsDropped
from kit.stream.backend.states.state_definition import Aspects
from kit.stream.operators.base import Operator
from kit.stream.operators.event_time import TimeColumn, columns_of, time_column_of
from kit.stream.operators.functions.function_operator import FunctionInput, key_aspects
from kit.stream.operators.side_output import OutputTag
from kit.stream.operators.spec import ResolvedSpec, SchemaError
from kit.stream.operators.watermarks import event_times_ms
from kit.stream.operators.windows.join import PairColumns, key_type_of_both, slices
from kit.stream.operators.windows.key_time_index import expand
from kit.stream.operators.windows.row_buffer import RowBuffer
from kit.stream.operators.windows.saturating_times import shifted


@dataclass(frozen=True, eq=False, repr=False)
class IntervalJoin(ResolvedSpec):
    """Pairs with `left + lower_ms <= right <= left + upper_ms`; both inputs have a key and event time."""

    left: FunctionInput
    right: FunctionInput
    lower_ms: int
    upper_ms: int
    left_late_tag: OutputTag | None = None
    right_late_tag: OutputTag | None = None

    def _resolve(self) -> None:
        settle_durations(self, "lower_ms", "upper_ms")
        if self.lower_ms > self.upper_ms:
            raise ValueError(f"{self.name}: lower_ms {self.lower_ms} is above upper_ms {self.upper_ms}")
        for given, tag in ((self.left, self.left_late_tag), (self.right, self.right_late_tag)):
            if tag is not None and not tag.schema.equals(given.schema):
                raise SchemaError(f"{self.name}: {tag!r} takes late rows, so its columns must be the stream's")
        key_type = key_type_of_both(self.left, self.right, self.name)
        self.columns()
        self._set(
            input_schemas=(self.left.schema, self.right.schema), output_schema=self.columns().schema, key_type=key_type
        )

    def state_aspects(self) -> Aspects:
        """Return the keys: rows are kept whole, and found by whatever time and bounds the join has."""
        return key_aspects((self.left, self.right))

    def event_time(self, inputs: Sequence[TimeColumn | None]) -> TimeColumn:
        """Return the column with the later time of a pair: that of one side if the bounds determine it, else both.

        The row that arrives last makes the pair, and it is not late. So a pair is not late either.
        """
        if self.lower_ms >= 0:
            return self.right.timed
        if self.upper_ms <= 0:
            return self.left.timed
        return time_column_of((*columns_of(self.left.timed), *columns_of(self.right.timed)))

    def columns(self) -> PairColumns:
        """The columns of a pair."""
        return PairColumns(self.left, self.right, self.name)

    def create(self) -> IntervalJoinOperator:
        """Return one subtask's operator."""
        return IntervalJoinOperator(self)


class IntervalJoinOperator(Operator):
    """The operator that keeps the rows of both sides and emits pairs."""

    def __init__(self, spec: IntervalJoin) -> None:
        self._spec = spec
        self._columns = spec.columns()
        self._inputs = (spec.left, spec.right)
        self._late_tags = (spec.left_late_tag, spec.right_late_tag)
        # The distance of partners before and after a row, from the left and from the right side.
        self._bounds = ((spec.lower_ms, spec.upper_ms), (-spec.upper_ms, -spec.lower_ms))

    def initialize_state(self) -> None:
        """Register the buffers of both sides."""
        backend, spec = self.context.keyed_state, self._spec
        left_ms, right_ms = max(spec.upper_ms, 0), max(-spec.lower_ms, 0)
        self._buffers = (
            RowBuffer(backend, "LEFT_BUFFER", spec.left, spec.name, lambda times: shifted(times, left_ms)),
            RowBuffer(backend, "RIGHT_BUFFER", spec.right, spec.name, lambda times: shifted(times, right_ms)),
        )

    def process_batch(self, batch: pa.RecordBatch, input_index: int = 0) -> None:
        """Keep the rows, and pair them with those of the other side."""
        given = self._inputs[input_index]
        times = event_times_ms(batch, given.timed, self._spec.name)
        late = times < self.context.current_watermark_ms
        if late.any():
            self._set_late_aside(batch.filter(pa.array(late)), times[late], input_index)
            batch, times = batch.filter(pa.array(~late)), times[~late]
        own, other = self._buffers[input_index], self._buffers[1 - input_index]
        own.add(batch, times)
        if not len(other) or not batch.num_rows:
            return
        lower, upper = self._bounds[input_index]
        keys = given.keys_of(batch, self.context.keyed_state.key_type)
        ranges = other.between(keys, shifted(times, lower), shifted(times, upper))
        for rows, positions in slices(*expand(*ranges)):
            sides = [batch.take(pa.array(rows)), other.rows(positions)]
            self.context.output.emit(self._columns.pairs(*(sides if input_index == 0 else sides[::-1])))

    def process_watermark(self, timestamp_ms: int) -> None:
        """Remove the rows for which no partner can follow, then pass the watermark on."""
        for buffer in self._buffers:
            buffer.expire(timestamp_ms)
        self.context.output.emit_watermark(timestamp_ms)

    def _set_late_aside(self, batch: pa.RecordBatch, times: npt.NDArray[np.int64], input_index: int) -> None:
        tag = self._late_tags[input_index]
        if tag is None:
            self.context.count_late(LateRowsDropped, times, self.context.current_watermark_ms)
        else:
            self.context.output.emit_to(tag.name, batch)

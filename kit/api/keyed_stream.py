"""Records by key: what follows may keep state for each key.

Follows Flink's `KeyedStream`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kit.api.columns import Columns, schema_of
from kit.api.datastream import DataStream, OperatorStream
from kit.api.joined_streams import IntervalJoined
from kit.api.windowed_stream import WindowedStream
from kit.operators.aggregate import Emit, KeyedAggregate
from kit.operators.aggregates import Aggregate, named_aggregates
from kit.operators.batch_process import KeyedBatchFunction, KeyedBatchProcess
from kit.operators.function_operator import FunctionInput
from kit.operators.process import KeyedProcess, KeyedProcessFunction
from kit.operators.reduce import KeyedReduce
from kit.operators.window_assigners import WindowAssigner
from kit.operators.window_contents import ReduceFunction


class KeyedStream(DataStream):
    """Records partitioned by `key_columns`: what follows may keep state for each key."""

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns of the key."""
        return self._origins[0].key_columns

    def aggregate(self, *aggregates: Aggregate, emit: Emit = "updates", **named: Aggregate) -> OperatorStream:
        """Running totals for each key: `aggregate(flights=count(), delay=sum_("arr_delay"))`.

        `emit`: "updates" gives the new totals of the keys of each batch, "final" all totals at the end of the input,
        "none" nothing.
        """
        spec = KeyedAggregate(
            self.schema, self.key_columns, named_aggregates(aggregates, named), emit, name="aggregate"
        )
        return self._then(spec)

    def reduce(self, function: ReduceFunction) -> OperatorStream:
        """All records of a key so far reduced to one, which is emitted for each record that comes.

        `stream.key_by("carrier").reduce(lambda a, b: a if a["delay"] >= b["delay"] else b)`: the worst delay so far.
        The function takes two records (dicts) and gives one. It is called row by row: `aggregate` is what is fast.
        """
        return self._then(KeyedReduce(self.schema, self.key_columns, function, name="reduce"))

    def window(self, assigner: WindowAssigner) -> WindowedStream:
        """Records by key and window of event time; needs `assign_timestamps` somewhere before.

        `stream.key_by("carrier").window(SlidingEventTimeWindows(60_000, 10_000)).aggregate(count())`
        """
        return WindowedStream(self, assigner, self._time_column())

    def process(  # type: ignore[override]
        self, function: Callable[[], KeyedProcessFunction], returns: Columns | None = None
    ) -> OperatorStream:
        """A `KeyedProcessFunction` (the class, since each subtask makes its own), with state and timers for each key.

        `returns` are the columns of what it emits, if not those of the stream.

            class Duplicates(KeyedProcessFunction):
                SEEN = ValueStateDescriptor("seen", pa.bool_())

                def process_element(self, row, ctx):
                    seen = ctx.state(self.SEEN)
                    if not seen.value():
                        seen.update(True)
                        ctx.emit(row)

            stream.key_by("id").process(Duplicates)
        """
        returned = schema_of(returns, self.schema)
        return self._then(KeyedProcess((self.as_input(),), function, returned, name="process"))

    def process_batches(
        self, function: Callable[[], KeyedBatchFunction], returns: Columns | None = None
    ) -> OperatorStream:
        """A `KeyedBatchFunction` (the class): the same for a batch at a time, with state and timers in columns.

        class Duplicates(KeyedBatchFunction):
            SEEN = ValueStateDescriptor("seen", pa.bool_(), default=False)

            def process_batch(self, batch, ctx):
                seen = ctx.state(self.SEEN)
                is_new = pc.and_not(pa.array(ctx.rows_before == 0), seen.get())
                seen.update(True)
                ctx.emit(batch.filter(is_new))

        stream.key_by("id").process_batches(Duplicates)
        """
        returned = schema_of(returns, self.schema)
        return self._then(KeyedBatchProcess((self.as_input(),), function, returned, name="process_batches"))

    def interval_join(self, other: KeyedStream) -> IntervalJoined:
        """Pairs of records with one key whose event times lie within some distance; `between` says which.

        `orders.key_by("id").interval_join(payments.key_by("order")).between(0, 60_000).join()`
        """
        return IntervalJoined(self, other)

    def _facts(self) -> dict[str, Any]:
        return {"key": ", ".join(self.key_columns), **super()._facts()}

    def as_input(self) -> FunctionInput:
        """The stream as an input of an operator: columns, key, event time."""
        return FunctionInput(self.schema, self.key_columns, self._own_time_column())

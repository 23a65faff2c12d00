"""Streams of records, and their operations.

Every method adds an operator to the job and returns the stream of its output; nothing runs yet. A stream knows its
`schema`, so an unknown column is rejected at once. Partitionings (`key_by`, `rebalance`, ...) and `union` are not
operators: they determine how the records reach the next one.

Follows Flink's `DataStream`, `SingleOutputStreamOperator`, `KeyedStream`, `BroadcastStream` and `DataStreamSink`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kit.core.arguments.durations import Duration, to_ms
from kit.core.arguments.signposts import KEYED, OUTPUT_TYPE, STREAM, takes
from kit.stream.api.columns import Columns, described, different_columns, schema_of
from kit.stream.api.connected_streams import BroadcastConnectedStream, ConnectedStreams
from kit.stream.api.display import facts_of
from kit.stream.api.joined_streams import IntervalJoined, JoinedStreams
from kit.stream.api.operator_settings import OperatorSettings
from kit.stream.api.stream import Stream
from kit.stream.api.transformation import Origin, Transformation
from kit.stream.api.transformations import Transformations
from kit.stream.api.windowed_stream import WindowedStream
from kit.stream.backend.states.descriptors import MapStateDescriptor
from kit.stream.connectors.sink import Sink, SinkSpec, checked_sink
from kit.stream.graph.partitioners import PartitionerKind, PartitionFunction
from kit.stream.graph.stream_graph import GraphError
from kit.stream.operators.aggregate import Emit, KeyedAggregate
from kit.stream.operators.aggregates import Aggregate, as_tuple, named_aggregates
from kit.stream.operators.base import OperatorSpec
from kit.stream.operators.display import described_html
from kit.stream.operators.event_time import described_time
from kit.stream.operators.functions.batch_process import KeyedBatchFunction, KeyedBatchProcess
from kit.stream.operators.functions.process import KeyedProcess, KeyedProcessFunction, Process, ProcessFunction
from kit.stream.operators.local_aggregate import SENT_AFTER_MS, LocalAggregate
from kit.stream.operators.reduce import KeyedReduce
from kit.stream.operators.side_output import OutputTag, checked_tag
from kit.stream.operators.spec import SchemaError, column_field, columns_given, key_type_of, shorten
from kit.stream.operators.transform import Filter, FlatMap, Map, MapBatches, Rename, Select, WithColumn
from kit.stream.operators.watermarks import TimestampsAndWatermarks
from kit.stream.operators.windows.window_assigners import WindowAssigner
from kit.stream.operators.windows.window_contents import ReduceFunction

Row = dict[str, Any]


class DataStream(Stream):
    """A stream of records with the columns of `schema`."""

    # ---- record by record

    @takes(output_type=OUTPUT_TYPE)
    def map(
        self, function: Callable[..., Any], returns: Columns | None = None, *, arguments: str | Iterable[str] = ()
    ) -> OperatorStream:
        """Map each record to one record: `function` takes and returns a dict.

        `returns` are its columns, if they differ. With `arguments` the function takes the values of these columns, and
        returns a tuple with a value for each column of `returns`; a small function then takes little more than half the
        time:

            hours = {"at": pa.int64(), "hours": pa.float64()}
            delays.map(lambda at, delay: (at, delay / 60), hours, arguments=("at", "delay"))
        """
        columns = schema_of(returns, self.schema)
        names = as_tuple(arguments) if isinstance(arguments, Iterable) else (arguments,)
        return self._then(Map(self.schema, function, columns, names, name="map"))

    @takes(output_type=OUTPUT_TYPE)
    def flat_map(
        self, function: Callable[[Row], Iterable[Mapping[str, Any]]], returns: Columns | None = None
    ) -> OperatorStream:
        """Map each record to any number of records: `function` takes a dict and returns several."""
        return self._then(FlatMap(self.schema, function, schema_of(returns, self.schema), name="flat_map"))

    @takes(output_type=OUTPUT_TYPE)
    def map_batches(
        self, function: Callable[[pa.RecordBatch], pa.RecordBatch], returns: Columns | None = None
    ) -> OperatorStream:
        """Map each Arrow record batch to another one: fast if the function works on columns."""
        return self._then(MapBatches(self.schema, function, schema_of(returns, self.schema), name="map_batches"))

    def filter(self, predicate: pc.Expression | Callable[[Row], Any]) -> OperatorStream:
        """Keep the records for which `predicate` holds: `pc.field("delay") > 0`, or a function of a dict."""
        return self._then(Filter(self.schema, predicate, name="filter"))

    @takes(output_type=OUTPUT_TYPE)
    def process(self, function: Callable[[], ProcessFunction], returns: Columns | None = None) -> OperatorStream:
        """Apply a `ProcessFunction`: any number of records for each, also to side outputs.

        Pass the class, since each subtask creates its own instance. `returns` are the columns that it emits, if they
        differ from the stream's.

            class Split(ProcessFunction):
                def process_element(self, row, ctx):
                    if row["cancelled"]:
                        ctx.output(CANCELLED, row)
                    else:
                        ctx.emit(row)
        """
        return self._then(Process((self.as_input(),), function, schema_of(returns, self.schema), name="process"))

    def connect(self, other: DataStream) -> ConnectedStreams[OperatorStream]:
        """Connect two streams for one function with a hook for each: `prices.connect(rates).process(Convert)`.

        On keyed streams the hooks share the state of the key. A stream made with `broadcast(states)` controls the other
        one.
        """
        if self._transformations is not checked_stream("connect", other)._transformations:
            raise GraphError("connect of streams of two environments: a job has one")
        if isinstance(self, BroadcastStream):
            raise GraphError("connect: the broadcast stream comes second: stream.connect(rules.broadcast(...))")
        if isinstance(other, BroadcastStream):
            return BroadcastConnectedStream(OperatorStream, self, other, other.states)
        if isinstance(self, KeyedStream) != isinstance(other, KeyedStream):
            keyed, plain = (self, other) if isinstance(self, KeyedStream) else (other, self)
            raise GraphError(f"connect: {keyed!r} has a key and {plain!r} has none: call key_by on both, or on none")
        return ConnectedStreams(OperatorStream, self, other)

    def join(self, other: DataStream) -> JoinedStreams[OperatorStream]:
        """Join records with the same key in the same window of event time to pairs.

        Continue with the keys and the window:

            orders.join(payments).where("id").equal_to("order").window(TumblingEventTimeWindows(60_000)).join()
        """
        return JoinedStreams(OperatorStream, self, checked_stream("join", other))

    def select(self, *columns: str) -> OperatorStream:
        """Keep only these columns, in this order."""
        return self._then(Select(self.schema, columns, name="select"))

    def rename(self, **names: str) -> OperatorStream:
        """Rename columns: `rename(old="new")`."""
        return self._then(Rename(self.schema, names, name="rename"))

    def with_column(
        self, column: str, value: pc.Expression | Callable[[pa.RecordBatch], Any], type: pa.DataType | None = None
    ) -> OperatorStream:
        """Add a column, or replace one, by an expression or by a function of batches and its `type`."""
        if type is not None and isinstance(column, str):
            type = columns_given("with_column", {column: type}).field(0).type
        return self._then(WithColumn(self.schema, column, value, type, name="with_column"))

    def assign_timestamps(self, column: str, out_of_orderness_ms: Duration = 0) -> TimestampedStream:
        """Take event time from `column` (a timestamp, or int64 ms); records may be late by `out_of_orderness_ms`."""
        column_field(self.schema, column, "assign_timestamps")
        late_ms = to_ms(out_of_orderness_ms, "assign_timestamps: out_of_orderness_ms")
        spec = TimestampsAndWatermarks(self.schema, column, late_ms, name="timestamps")
        return TimestampedStream(self._transformations, self._transformations.add(spec, self._origins))

    def sink_to(self, sink: Sink, uid: str | None = None, name: str | None = None) -> StreamSink:
        """End the stream in a sink."""
        spec = SinkSpec(self.schema, checked_sink(sink), name=type(sink).__name__)
        return StreamSink(self._transformations, self._transformations.add(spec, self._origins)).identified(uid, name)

    def apply(self, spec: OperatorSpec) -> OperatorStream:
        """Apply an operator of your own: its spec must take this stream's schema as its one input."""
        if not isinstance(spec, OperatorSpec):
            raise TypeError(f"apply takes the spec of an operator of your own, and found {shorten(repr(spec))}")
        if len(spec.input_schemas) != 1 or not spec.input_schemas[0].equals(self.schema):
            expected = " and ".join(map(described, spec.input_schemas)) or "no input"
            raise SchemaError(f"{spec.name}: expects {expected}; the stream has {described(self.schema)}")
        return self._then(spec)

    # ---- partitioning

    def key_by(self, *columns: str) -> KeyedStream:
        """Partition by key: records with equal values in these columns go to the same subtask."""
        key_type_of(self.schema, columns, "key_by")
        return KeyedStream(self._transformations, self._partitioned(PartitionerKind.HASH, columns), self.schema)

    def rebalance(self) -> DataStream:
        """Distribute records round robin over all subtasks."""
        return self._shipped(PartitionerKind.REBALANCE)

    def rescale(self) -> DataStream:
        """Distribute records round robin over the few subtasks opposite."""
        return self._shipped(PartitionerKind.RESCALE)

    def broadcast(self, *states: MapStateDescriptor) -> DataStream:
        """Send every record to every subtask.

        With `states`, maps that are the same on all subtasks, the stream can be connected with another one, whose
        function reads what this stream's hook writes to them.

            RULES = MapStateDescriptor("rules", pa.string(), pa.int64())
            flights.key_by("carrier").connect(rules.broadcast(RULES)).process(Apply)  # a KeyedBroadcastProcessFunction
        """
        if not states:
            return self._shipped(PartitionerKind.BROADCAST)
        for state in states:
            if not isinstance(state, MapStateDescriptor):
                raise TypeError(
                    f"broadcast takes MapStateDescriptors, and found {shorten(repr(state))}: write broadcast() to send "
                    'each record to all subtasks, or broadcast(MapStateDescriptor("rules", pa.string(), pa.int64()))'
                )
        return BroadcastStream(self._transformations, self._partitioned(PartitionerKind.BROADCAST), self.schema, states)

    def global_(self) -> DataStream:
        """Send every record to subtask 0."""
        return self._shipped(PartitionerKind.GLOBAL)

    def forward(self) -> DataStream:
        """Keep records in their subtask; the next operator must have the same parallelism."""
        return self._shipped(PartitionerKind.FORWARD)

    def partition_custom(self, function: PartitionFunction, column: str) -> DataStream:
        """Let a function choose each record's subtask.

        `function` takes a value of `column` and the number of subtasks, and returns the number of one of them. A
        barrier never overtakes records on such an edge.
        """
        column_field(self.schema, column, "partition_custom")
        if not callable(function):
            raise TypeError(
                f"partition_custom takes a function of a value and the number of subtasks, and found {function!r}: "
                f"write partition_custom(lambda value, subtasks: value % subtasks, {column!r})"
            )
        origins = self._partitioned(PartitionerKind.CUSTOM, (column,))
        given = tuple(replace(origin, partition_function=function) for origin in origins)
        return DataStream(self._transformations, given, self.schema)

    def union(self, *others: DataStream) -> DataStream:
        """Merge this stream with others, which must have the same schema."""
        for other in others:
            if checked_stream("union", other)._transformations is not self._transformations:
                raise GraphError("union of streams of two environments: a job has one")
            if not other.schema.equals(self.schema):
                raise SchemaError(f"union: {different_columns(self.schema, other.schema)}")
        return DataStream(self._transformations, sum((other._origins for other in others), self._origins), self.schema)

    # ----

    def _then(self, spec: OperatorSpec) -> OperatorStream:
        return OperatorStream(self._transformations, self._transformations.add(spec, self._origins))

    def _shipped(self, kind: PartitionerKind) -> DataStream:
        return DataStream(self._transformations, self._partitioned(kind), self.schema)


def checked_stream(method: str, found: object) -> DataStream:
    """Return the stream. Raises TypeError for anything else."""
    if isinstance(found, DataStream):
        return found
    raise TypeError(
        f"{method} takes another stream of this environment, and found {shorten(repr(found))} "
        f"({type(found).__name__}): make one with env.from_source(...)"
    )


class OperatorStream(OperatorSettings, DataStream):
    """The output of one operator, whose uid, name and parallelism can still be set."""

    def __init__(self, transformations: Transformations, transformation: Transformation) -> None:
        schema = transformation.spec.output_schema
        if schema is None:
            raise GraphError(f"{transformation.label!r} emits no records: it is a sink")
        DataStream.__init__(self, transformations, (Origin(transformation),), schema)
        self._transformation = transformation
        self._side_outputs: dict[str, pa.Schema] = {}

    def _facts(self) -> dict[str, Any]:
        return facts_of(self._transformation) | {"event time": described_time(self._time_column())}

    def side_output(self, tag: OutputTag) -> DataStream:
        """Return the records that the operator emits under this tag.

        Its function emits to the tag with `ctx.output`:

            cancelled = OutputTag("cancelled", {"flight": pa.int64()})
            flights = stream.key_by("carrier").process(Flights)  # calls ctx.output(cancelled, {"flight": 17})
            flights.side_output(cancelled).sink_to(CollectSink("cancelled"))
        """
        checked_tag("side_output", tag)
        columns = self._side_outputs.setdefault(tag.name, tag.schema)
        if not columns.equals(tag.schema):
            raise SchemaError(
                f"side output {tag.name!r} of {self._transformation.label!r} was requested with {described(columns)}, "
                f"and now with {described(tag.schema)}: give the second tag another name"
            )
        return DataStream(self._transformations, (Origin(self._transformation, output_tag=tag.name),), tag.schema)


class TimestampedStream(OperatorStream):
    """A stream of records with event time."""

    def with_idleness(self, idle_ms: Duration) -> TimestampedStream:
        """Let a subtask that sees no record for `idle_ms` of the host's time no longer hold event time back.

        The same holds for a split without records of a source that reads several.

        `stream.assign_timestamps("at").with_idleness(30_000)`
        """
        self._transformation.spec = replace(self._transformation.spec, idle_ms=idle_ms)  # type: ignore[call-arg]
        return self

    def with_alignment(self, max_drift_ms: Duration) -> TimestampedStream:
        """Do not read a split whose event time is more than `max_drift_ms` ahead of the split that is furthest behind,
        in any subtask, until that has caught up. For sources whose splits never end, or cover the same time.

        `stream.assign_timestamps("at").with_alignment("10s")`

        Follows Flink's `WatermarkStrategy.withWatermarkAlignment`.
        """
        spec = replace(self._transformation.spec, max_drift_ms=max_drift_ms)  # type: ignore[call-arg]
        self._transformation.spec = spec
        return self


class StreamSink(OperatorSettings):
    """The end of a stream: a sink whose uid, name and parallelism can still be set."""

    def __init__(self, transformations: Transformations, transformation: Transformation) -> None:
        self._transformations = transformations
        self._transformation = transformation

    def _repr_html_(self) -> str:
        spec = self._transformation.spec
        path = {"path": spec.sink.path} if isinstance(spec, SinkSpec) else {}
        return described_html("StreamSink", facts_of(self._transformation) | path, spec.input_schemas[0])

    def __repr__(self) -> str:
        return f"StreamSink({self._transformation.label})"


class BroadcastStream(DataStream):
    """A stream whose every record goes to every subtask, and the maps in which a function may keep its content."""

    def __init__(
        self,
        transformations: Transformations,
        origins: tuple[Origin, ...],
        schema: pa.Schema,
        states: tuple[MapStateDescriptor, ...],
    ) -> None:
        super().__init__(transformations, origins, schema)
        self.states = states


class KeyedStream(DataStream):
    """A stream partitioned by `key_columns`: the next operator may keep state for each key."""

    _signs = (KEYED, STREAM)

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns of the key."""
        return self._origins[0].key_columns

    def _keys(self) -> tuple[str, ...]:
        return self.key_columns

    def aggregate(
        self, *aggregates: Aggregate, emit: Emit = "updates", two_phase: bool = False, **named: Aggregate
    ) -> OperatorStream:
        """Compute running totals for each key: `aggregate(flights=count(), delay=sum_("arr_delay"))`.

        With `emit` "updates", the new totals of the keys of each batch are emitted; with "final", all totals at the end
        of the input; with "none", nothing.

        With `two_phase` rows are folded where they are read, and only their totals cross the exchange: before each
        barrier and watermark, and with "updates" after 100 ms at the latest. So a key with many rows costs little, and
        fewer updates are emitted. The results are the same, but for the order in which floats are added. It does not
        pay where most rows have a key of their own.
        """
        wanted = named_aggregates(aggregates, named)
        spec = KeyedAggregate(self.schema, self.key_columns, wanted, emit, two_phase, name="aggregate")
        if not two_phase:
            return self._then(spec)
        sent_after_ms = SENT_AFTER_MS if emit == "updates" else None
        local = LocalAggregate(self.schema, self.key_columns, wanted, sent_after_ms, name="local aggregate")
        return OperatorStream(self._transformations, self._transformations.add(spec, self._after_local(local)))

    def reduce(self, function: ReduceFunction) -> OperatorStream:
        """Reduce all records of a key so far to one, which is emitted for each record.

        `stream.key_by("carrier").reduce(lambda a, b: a if a["delay"] >= b["delay"] else b)` is the worst delay so far.
        The function takes two records (dicts) and returns one. It is called row by row; `aggregate` is much faster.
        """
        return self._then(KeyedReduce(self.schema, self.key_columns, function, name="reduce"))

    def window(self, assigner: WindowAssigner) -> WindowedStream[OperatorStream]:
        """Group records by key and window of event time; needs `assign_timestamps` upstream.

        `stream.key_by("carrier").window(SlidingEventTimeWindows(60_000, 10_000)).aggregate(count())`
        """
        return WindowedStream(OperatorStream, self, assigner)

    @takes(output_type=OUTPUT_TYPE)
    def process(  # type: ignore[override]
        self, function: Callable[[], KeyedProcessFunction], returns: Columns | None = None
    ) -> OperatorStream:
        """Apply a `KeyedProcessFunction`, with state and timers for each key.

        Pass the class, since each subtask creates its own instance. `returns` are the columns that it emits, if they
        differ from the stream's.

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
        """Apply a `KeyedBatchFunction` (the class) to one batch at a time, with state and timers in columns.

        For example, keep the first row of each key:

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

    def interval_join(self, other: KeyedStream) -> IntervalJoined[OperatorStream]:
        """Join records with the same key whose event times are close; `between` sets the distance.

        `orders.key_by("id").interval_join(payments.key_by("order")).between(0, 60_000).join()`
        """
        checked_stream("interval_join", other)
        if not isinstance(other, KeyedStream):
            raise GraphError(f"interval_join joins two streams by key, and {other!r} has none: call key_by on it")
        return IntervalJoined(OperatorStream, self, other)

    def _facts(self) -> dict[str, Any]:
        return {"key": ", ".join(self.key_columns), **super()._facts()}

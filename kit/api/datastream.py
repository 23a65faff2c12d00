"""Streams of records, and what can be done with them.

Every method adds an operator to the job and gives the stream of what it makes; nothing runs yet. A stream knows its
`schema`, so a column that is not there is refused right here. Partitionings (`key_by`, `rebalance`, ...) and `union`
are no operators: they say how the records reach the next one.

Follows Flink's `DataStream`, `SingleOutputStreamOperator` and `DataStreamSink`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from kit.api.columns import Columns, described, event_time_column, schema_of
from kit.api.display import facts_of, hangs_on
from kit.api.transformation import OperatorSettings, Origin, Transformation
from kit.backend.descriptors import MapStateDescriptor
from kit.connectors.sink import Sink, SinkSpec
from kit.graph.partitioners import PartitionerKind, PartitionFunction
from kit.graph.stream_graph import GraphError
from kit.operators.base import OperatorSpec
from kit.operators.display import described_html
from kit.operators.function_operator import FunctionInput
from kit.operators.process import Process, ProcessFunction
from kit.operators.side_output import OutputTag
from kit.operators.spec import SchemaError, column_field, key_type_of
from kit.operators.transform import Filter, FlatMap, Map, MapBatches, Rename, Select, WithColumn
from kit.operators.watermarks import TimestampsAndWatermarks

if TYPE_CHECKING:
    from kit.api.connected_streams import ConnectedStreams
    from kit.api.environment import StreamEnvironment
    from kit.api.joined_streams import JoinedStreams
    from kit.api.keyed_stream import KeyedStream

Row = dict[str, Any]


class DataStream:
    """Records with the columns of `schema`."""

    def __init__(self, env: StreamEnvironment, origins: tuple[Origin, ...], schema: pa.Schema) -> None:
        self._env = env
        self._origins = origins
        self.schema = schema

    # ---- record by record

    def map(self, function: Callable[[Row], Mapping[str, Any]], returns: Columns | None = None) -> OperatorStream:
        """One record for each: `function` takes and gives a dict. `returns` are its columns, if not the same."""
        return self._then(Map(self.schema, function, schema_of(returns, self.schema), name="map"))

    def flat_map(
        self, function: Callable[[Row], Iterable[Mapping[str, Any]]], returns: Columns | None = None
    ) -> OperatorStream:
        """Any number of records for each: `function` takes a dict and gives several."""
        return self._then(FlatMap(self.schema, function, schema_of(returns, self.schema), name="flat_map"))

    def map_batches(
        self, function: Callable[[pa.RecordBatch], pa.RecordBatch], returns: Columns | None = None
    ) -> OperatorStream:
        """One Arrow record batch for each: fast where the function works on columns."""
        return self._then(MapBatches(self.schema, function, schema_of(returns, self.schema), name="map_batches"))

    def filter(self, predicate: pc.Expression | Callable[[Row], Any]) -> OperatorStream:
        """Only records for which `predicate` holds: `pc.field("delay") > 0`, or a function of a dict."""
        return self._then(Filter(self.schema, predicate, name="filter"))

    def process(self, function: Callable[[], ProcessFunction], returns: Columns | None = None) -> OperatorStream:
        """A `ProcessFunction` (the class, since each subtask makes its own): any number of records for each, also to
        side outputs. `returns` are the columns of what it emits, if not those of the stream.

            class Split(ProcessFunction):
                def process_element(self, row, ctx):
                    if row["cancelled"]:
                        ctx.output(CANCELLED, row)
                    else:
                        ctx.emit(row)
        """
        return self._then(Process((self.as_input(),), function, schema_of(returns, self.schema), name="process"))

    def connect(self, other: DataStream) -> ConnectedStreams:
        """Two streams for one function, each with a hook of its own: `prices.connect(rates).process(Convert)`.

        On keyed streams the hooks share the state of the key; a stream made with `broadcast(states)` steers the other.
        """
        from kit.api.connected_streams import connected

        return connected(self, other)

    def join(self, other: DataStream) -> JoinedStreams:
        """Pairs of records with one key in one window of event time.

        orders.join(payments).where("id").equal_to("order").window(TumblingEventTimeWindows(60_000)).join()
        """
        from kit.api.joined_streams import JoinedStreams

        return JoinedStreams(self, other)

    def select(self, *columns: str) -> OperatorStream:
        """Only these columns, in this order."""
        return self._then(Select(self.schema, columns, name="select"))

    def rename(self, **names: str) -> OperatorStream:
        """Columns under new names: `rename(old="new")`."""
        return self._then(Rename(self.schema, names, name="rename"))

    def with_column(
        self, column: str, value: pc.Expression | Callable[[pa.RecordBatch], Any], type: pa.DataType | None = None
    ) -> OperatorStream:
        """One column more, or another in place of one: an expression, or a function of batches and its `type`."""
        return self._then(WithColumn(self.schema, column, value, type, name="with_column"))

    def assign_timestamps(self, column: str, out_of_orderness_ms: int = 0) -> TimestampedStream:
        """Take event time from `column` (a timestamp, or int64 ms); records may be that late."""
        spec = TimestampsAndWatermarks(self.schema, column, out_of_orderness_ms, name="timestamps")
        return TimestampedStream(self._env, self._env.add_operator(spec, self._origins))

    def sink_to(self, sink: Sink, uid: str | None = None, name: str | None = None) -> StreamSink:
        """Where the records end."""
        spec = SinkSpec(self.schema, sink, name=type(sink).__name__)
        return StreamSink(self._env, self._env.add_operator(spec, self._origins)).identified(uid, name)

    def apply(self, spec: OperatorSpec) -> OperatorStream:
        """An operator of your own: its spec must take this stream's schema as its one input."""
        if len(spec.input_schemas) != 1 or not spec.input_schemas[0].equals(self.schema):
            expected = " and ".join(map(described, spec.input_schemas)) or "no input"
            raise SchemaError(f"{spec.name}: expects {expected}; the stream has {described(self.schema)}")
        return self._then(spec)

    # ---- to which subtask

    def key_by(self, *columns: str) -> KeyedStream:
        """Records with equal values in these columns meet in one subtask."""
        key_type_of(self.schema, columns, "key_by")
        from kit.api.keyed_stream import KeyedStream

        return KeyedStream(self._env, self._partitioned(PartitionerKind.HASH, columns), self.schema)

    def rebalance(self) -> DataStream:
        """Records go to all subtasks in turn."""
        return self._shipped(PartitionerKind.REBALANCE)

    def rescale(self) -> DataStream:
        """Records go in turn to the few subtasks opposite."""
        return self._shipped(PartitionerKind.RESCALE)

    def broadcast(self, *states: MapStateDescriptor) -> DataStream:
        """Every record goes to every subtask. With `states`, maps that are the same everywhere, the stream can be
        connected with another, whose function reads what this one writes there.

            RULES = MapStateDescriptor("rules", pa.string(), pa.int64())
            flights.key_by("carrier").connect(rules.broadcast(RULES)).process(Apply)  # a KeyedBroadcastProcessFunction
        """
        if not states:
            return self._shipped(PartitionerKind.BROADCAST)
        from kit.api.connected_streams import BroadcastStream

        return BroadcastStream(self._env, self._partitioned(PartitionerKind.BROADCAST), self.schema, states)

    def global_(self) -> DataStream:
        """Every record goes to subtask 0."""
        return self._shipped(PartitionerKind.GLOBAL)

    def forward(self) -> DataStream:
        """Records stay in their subtask; the next operator must have the same parallelism."""
        return self._shipped(PartitionerKind.FORWARD)

    def partition_custom(self, function: PartitionFunction, column: str) -> DataStream:
        """Records go where `function` says: it takes a value of `column` and the number of subtasks, and gives the
        number of one of them. A barrier never overtakes records on such an edge.
        """
        column_field(self.schema, column, "partition_custom")
        origins = self._partitioned(PartitionerKind.CUSTOM, (column,))
        given = tuple(replace(origin, partition_function=function) for origin in origins)
        return DataStream(self._env, given, self.schema)

    def union(self, *others: DataStream) -> DataStream:
        """The records of this stream and the others, which must have the same schema."""
        for other in others:
            if other._env is not self._env:
                raise GraphError("union of streams of two environments: a job has one")
            if not other.schema.equals(self.schema):
                raise SchemaError(
                    f"union: {described(self.schema)} and {described(other.schema)} are not the same columns"
                )
        return DataStream(self._env, sum((other._origins for other in others), self._origins), self.schema)

    # ----

    def as_input(self) -> FunctionInput:
        """The stream as an input of an operator: columns and event time."""
        return FunctionInput(self.schema, (), self._own_time_column())

    def _then(self, spec: OperatorSpec) -> OperatorStream:
        return OperatorStream(self._env, self._env.add_operator(spec, self._origins))

    def _shipped(self, kind: PartitionerKind) -> DataStream:
        return DataStream(self._env, self._partitioned(kind), self.schema)

    def _time_column(self) -> str | None:
        """The column that the nearest `assign_timestamps` upstream named; None when there is none, or not one."""
        return event_time_column(self._origins)

    def _own_time_column(self) -> str | None:
        """The same, if the stream still has that column."""
        column = self._time_column()
        return column if column in self.schema.names else None

    def _partitioned(self, kind: PartitionerKind, key_columns: tuple[str, ...] = ()) -> tuple[Origin, ...]:
        return tuple(replace(origin, partitioner=kind, key_columns=key_columns) for origin in self._origins)

    def _facts(self) -> dict[str, Any]:
        return {"hangs on": hangs_on(self._origins), "event time": self._time_column()}

    def _repr_html_(self) -> str:
        return described_html(type(self).__name__, self._facts(), self.schema)

    def __repr__(self) -> str:
        sources = ", ".join(origin.transformation.label for origin in self._origins)
        return f"{type(self).__name__}({sources}: {described(self.schema)})"


class OperatorStream(OperatorSettings, DataStream):
    """What one operator makes; the operator can still be told its uid, name and parallelism."""

    def __init__(self, env: StreamEnvironment, transformation: Transformation) -> None:
        schema = transformation.spec.output_schema
        if schema is None:
            raise GraphError(f"{transformation.label!r} makes no records: it is a sink")
        DataStream.__init__(self, env, (Origin(transformation),), schema)
        self._transformation = transformation
        self._side_outputs: dict[str, pa.Schema] = {}

    def _facts(self) -> dict[str, Any]:
        return facts_of(self._transformation) | {"event time": self._time_column()}

    def side_output(self, tag: OutputTag) -> DataStream:
        """The records that the operator sets aside under this tag.

        cancelled = OutputTag("cancelled", {"flight": pa.int64()})
        flights = stream.key_by("carrier").process(Flights)  # calls ctx.output(cancelled, {"flight": 17})
        flights.side_output(cancelled).sink_to(CollectSink("cancelled"))
        """
        columns = self._side_outputs.setdefault(tag.name, tag.schema)
        if not columns.equals(tag.schema):
            raise SchemaError(
                f"side output {tag.name!r} of {self._transformation.label!r} was asked for with {described(columns)}, "
                f"and now with {described(tag.schema)}: give the second tag another name"
            )
        return DataStream(self._env, (Origin(self._transformation, output_tag=tag.name),), tag.schema)


class TimestampedStream(OperatorStream):
    """Records with event time."""

    def with_idleness(self, idle_ms: int) -> TimestampedStream:
        """A subtask that sees no record for `idle_ms` of the host's time no longer holds event time back.

        `stream.assign_timestamps("at").with_idleness(30_000)`
        """
        self._transformation.spec = replace(self._transformation.spec, idle_ms=idle_ms)  # type: ignore[call-arg]
        return self


class StreamSink(OperatorSettings):
    """The end of a stream; the sink can still be told its uid, name and parallelism."""

    def __init__(self, env: StreamEnvironment, transformation: Transformation) -> None:
        self._env = env
        self._transformation = transformation

    def _repr_html_(self) -> str:
        spec = self._transformation.spec
        path = {"path": spec.sink.path} if isinstance(spec, SinkSpec) else {}
        return described_html("StreamSink", facts_of(self._transformation) | path, spec.input_schemas[0])

    def __repr__(self) -> str:
        return f"StreamSink({self._transformation.label})"

"""Streams of records, and what can be done with them.

Every method adds an operator to the job and gives the stream of what it makes; nothing runs yet. A stream knows its
`schema`, so a column that is not there is refused right here. Partitionings (`key_by`, `rebalance`, ...) and `union`
are no operators: they say how the records reach the next one.

Follows Flink's `DataStream`, `SingleOutputStreamOperator`, `KeyedStream`, `WindowedStream` and `DataStreamSink`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from kit.graph.partitioners import PartitionerKind, PartitionFunction
from kit.graph.stream_graph import GraphError
from kit.graph.transformation import OperatorSettings, Origin, Transformation
from kit.operators.aggregate import Emit, KeyedAggregate
from kit.operators.aggregates import Aggregate
from kit.operators.base import OperatorSpec
from kit.operators.process import KeyedProcess, KeyedProcessFunction
from kit.operators.sink import Sink, SinkSpec
from kit.operators.spec import SchemaError, column_field, key_type_of
from kit.operators.transform import Filter, FlatMap, Map, MapBatches, Rename, Select, WithColumn
from kit.operators.watermarks import TimestampsAndWatermarks
from kit.operators.window import WindowAggregate
from kit.operators.window_assigners import WindowAssigner
from kit.state.key_groups import java_hash

if TYPE_CHECKING:
    from kit.graph.environment import StreamEnvironment

Row = dict[str, Any]
Columns: TypeAlias = pa.Schema | Mapping[str, pa.DataType]
"""A schema, or its columns as {name: Arrow type}."""


class DataStream:
    """Records with the columns of `schema`."""

    def __init__(self, env: StreamEnvironment, origins: tuple[Origin, ...], schema: pa.Schema) -> None:
        self._env = env
        self._origins = origins
        self.schema = schema

    # ---- record by record

    def map(self, function: Callable[[Row], Mapping[str, Any]], returns: Columns | None = None) -> OperatorStream:
        """One record for each: `function` takes and gives a dict. `returns` are its columns, if not the same."""
        return self._then(Map(self.schema, function, self._returned(returns), name="map"))

    def flat_map(
        self, function: Callable[[Row], Iterable[Mapping[str, Any]]], returns: Columns | None = None
    ) -> OperatorStream:
        """Any number of records for each: `function` takes a dict and gives several."""
        return self._then(FlatMap(self.schema, function, self._returned(returns), name="flat_map"))

    def map_batches(
        self, function: Callable[[pa.RecordBatch], pa.RecordBatch], returns: Columns | None = None
    ) -> OperatorStream:
        """One Arrow record batch for each: fast where the function works on columns."""
        return self._then(MapBatches(self.schema, function, self._returned(returns), name="map_batches"))

    def filter(self, predicate: pc.Expression | Callable[[Row], Any]) -> OperatorStream:
        """Only records for which `predicate` holds: `pc.field("delay") > 0`, or a function of a dict."""
        return self._then(Filter(self.schema, predicate, name="filter"))

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

    def assign_timestamps(self, column: str, out_of_orderness_ms: int = 0) -> OperatorStream:
        """Take event time from `column` (a timestamp, or int64 ms); records may be that late."""
        return self._then(TimestampsAndWatermarks(self.schema, column, out_of_orderness_ms, name="timestamps"))

    def sink_to(self, sink: Sink, uid: str | None = None, name: str | None = None) -> StreamSink:
        """Where the records end."""
        spec = SinkSpec(self.schema, sink, name=type(sink).__name__)
        return StreamSink(self._env, self._env.add_operator(spec, self._origins)).identified(uid, name)

    def apply(self, spec: OperatorSpec) -> OperatorStream:
        """An operator of your own: its spec must take this stream's schema as its one input."""
        if len(spec.input_schemas) != 1 or not spec.input_schemas[0].equals(self.schema):
            expected = " and ".join(map(_columns, spec.input_schemas)) or "no input"
            raise SchemaError(f"{spec.name}: expects {expected}; the stream has {_columns(self.schema)}")
        return self._then(spec)

    # ---- to which subtask

    def key_by(self, *columns: str) -> KeyedStream:
        """Records with equal values in these columns meet in one subtask."""
        key_type = key_type_of(self.schema, columns, "key_by")
        try:
            java_hash(pa.array([], key_type))
        except TypeError as error:
            raise SchemaError(f"key_by({', '.join(columns)}): {error}") from None
        return KeyedStream(self._env, self._partitioned(PartitionerKind.HASH, columns), self.schema)

    def rebalance(self) -> DataStream:
        """Records go to all subtasks in turn."""
        return self._shipped(PartitionerKind.REBALANCE)

    def rescale(self) -> DataStream:
        """Records go in turn to the few subtasks opposite."""
        return self._shipped(PartitionerKind.RESCALE)

    def broadcast(self) -> DataStream:
        """Every record goes to every subtask."""
        return self._shipped(PartitionerKind.BROADCAST)

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
                    f"union: {_columns(self.schema)} and {_columns(other.schema)} are not the same columns"
                )
        return DataStream(self._env, sum((other._origins for other in others), self._origins), self.schema)

    # ----

    def _then(self, spec: OperatorSpec) -> OperatorStream:
        return OperatorStream(self._env, self._env.add_operator(spec, self._origins))

    def _returned(self, returns: Columns | None) -> pa.Schema:
        if returns is None:
            return self.schema
        return returns if isinstance(returns, pa.Schema) else pa.schema(list(returns.items()))

    def _shipped(self, kind: PartitionerKind) -> DataStream:
        return DataStream(self._env, self._partitioned(kind), self.schema)

    def _partitioned(self, kind: PartitionerKind, key_columns: tuple[str, ...] = ()) -> tuple[Origin, ...]:
        return tuple(replace(origin, partitioner=kind, key_columns=key_columns) for origin in self._origins)

    def __repr__(self) -> str:
        sources = ", ".join(origin.transformation.label for origin in self._origins)
        return f"{type(self).__name__}({sources}: {_columns(self.schema)})"


class OperatorStream(OperatorSettings, DataStream):
    """What one operator makes; the operator can still be told its uid, name and parallelism."""

    def __init__(self, env: StreamEnvironment, transformation: Transformation) -> None:
        schema = transformation.spec.output_schema
        if schema is None:
            raise GraphError(f"{transformation.label!r} makes no records: it is a sink")
        DataStream.__init__(self, env, (Origin(transformation),), schema)
        self._transformation = transformation


class StreamSink(OperatorSettings):
    """The end of a stream; the sink can still be told its uid, name and parallelism."""

    def __init__(self, env: StreamEnvironment, transformation: Transformation) -> None:
        self._env = env
        self._transformation = transformation

    def __repr__(self) -> str:
        return f"StreamSink({self._transformation.label})"


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
        return self._then(
            KeyedAggregate(self.schema, self.key_columns, _named(aggregates, named), emit, name="aggregate")
        )

    def window(self, assigner: WindowAssigner) -> WindowedStream:
        """Records by key and window of event time; needs `assign_timestamps` somewhere before."""
        return WindowedStream(self, assigner, self._time_column())

    def process(self, function: Callable[[], KeyedProcessFunction], returns: Columns | None = None) -> OperatorStream:
        """A `KeyedProcessFunction` (the class, since each subtask makes its own), with state and timers for each key.

        `returns` are the columns of what it emits, if not those of the stream.
        """
        time_column = self._time_column()
        if time_column not in self.schema.names:
            time_column = None
        spec = KeyedProcess(
            self.schema, self.key_columns, function, self._returned(returns), time_column, name="process"
        )
        return self._then(spec)

    def _time_column(self) -> str | None:
        """The column that the nearest `assign_timestamps` upstream named; None when there is none, or not one."""
        columns = {_time_column(origin.transformation) for origin in self._origins}
        return columns.pop() if len(columns) == 1 else None


class WindowedStream:
    """Records partitioned by key and cut into windows."""

    def __init__(self, keyed: KeyedStream, assigner: WindowAssigner, time_column: str | None) -> None:
        self._keyed = keyed
        self._assigner = assigner
        self._time_column = time_column

    def aggregate(self, *aggregates: Aggregate, **named: Aggregate) -> OperatorStream:
        """Totals for each key and window, emitted when the watermark passes the window's end.

        The columns are those of the key, `window_start`, `window_end`, and the aggregates.
        """
        keyed = self._keyed
        if self._time_column is None:
            raise GraphError(
                f"window({self._assigner}) needs event time: call assign_timestamps(column) before key_by, on each "
                "stream of a union with the same column"
            )
        spec = WindowAggregate(
            keyed.schema,
            keyed.key_columns,
            self._assigner,
            self._time_column,
            _named(aggregates, named),
            name="window",
        )
        return keyed._then(spec)

    def __repr__(self) -> str:
        return f"WindowedStream({self._assigner}, by {', '.join(self._keyed.key_columns)})"


def _time_column(transformation: Transformation) -> str | None:
    """The event time column of what an operator makes: upstream, the nearest `assign_timestamps` names it."""
    if isinstance(transformation.spec, TimestampsAndWatermarks):
        return transformation.spec.column
    columns = {_time_column(origin.transformation) for origins in transformation.inputs for origin in origins}
    return columns.pop() if len(columns) == 1 else None


def _named(aggregates: tuple[Aggregate, ...], named: Mapping[str, Aggregate]) -> tuple[Aggregate, ...]:
    return (*aggregates, *(aggregate.as_(name) for name, aggregate in named.items()))


def _columns(schema: pa.Schema) -> str:
    return "(" + ", ".join(f"{column.name}: {column.type}" for column in schema) + ")"

"""Two streams for one function.

Follows Flink's `ConnectedStreams`, `BroadcastStream` and `BroadcastConnectedStream`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kit.api.columns import Columns, schema_of
from kit.api.datastream import DataStream, OperatorStream
from kit.api.transformation import Origin
from kit.backend.descriptors import MapStateDescriptor
from kit.graph.stream_graph import GraphError
from kit.operators.broadcast import BroadcastProcess
from kit.operators.display import described_html
from kit.operators.process import CoProcess

if TYPE_CHECKING:
    from kit.api.environment import StreamEnvironment


class BroadcastStream(DataStream):
    """A stream whose every record goes to every subtask, and the maps in which a function may keep what it says."""

    def __init__(
        self,
        env: StreamEnvironment,
        origins: tuple[Origin, ...],
        schema: pa.Schema,
        states: tuple[MapStateDescriptor, ...],
    ) -> None:
        super().__init__(env, origins, schema)
        self.states = states


class ConnectedStreams:
    """Two streams, both keyed or neither."""

    def __init__(self, first: DataStream, second: DataStream) -> None:
        if first._env is not second._env:
            raise GraphError("connect of streams of two environments: a job has one")
        self._first = first
        self._second = second

    def process(self, function: Callable[[], Any], returns: Columns | None = None) -> OperatorStream:
        """A `KeyedCoProcessFunction`, or a `CoProcessFunction` where the streams have no key (the class itself).

        `returns` are the columns of what it emits, if not those of the first stream.

            class Grounded(KeyedCoProcessFunction):
                UNTIL = ValueStateDescriptor("until", pa.int64())

                def process_element1(self, flight, ctx):
                    if flight["at"] < (ctx.state(self.UNTIL).value() or 0):
                        ctx.emit(flight)

                def process_element2(self, repair, ctx):
                    ctx.state(self.UNTIL).update(repair["until"])
        """
        inputs = (self._first.as_input(), self._second.as_input())
        spec = CoProcess(inputs, function, schema_of(returns, self._first.schema), name="co-process")
        return two_inputs(spec, self._first, self._second)

    def _repr_html_(self) -> str:
        return described_html(type(self).__name__, {}) + self._first._repr_html_() + self._second._repr_html_()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._first!r}, {self._second!r})"


class BroadcastConnectedStream(ConnectedStreams):
    """A stream, keyed or not, and one that is broadcast."""

    _second: BroadcastStream

    def process(self, function: Callable[[], Any], returns: Columns | None = None) -> OperatorStream:
        """A `KeyedBroadcastProcessFunction`, or a `BroadcastProcessFunction` where the stream has no key (the class).

        `returns` are the columns of what it emits, if not those of the first stream.

            class Apply(KeyedBroadcastProcessFunction):
                def process_element(self, flight, ctx):
                    if flight["delay"] > (ctx.broadcast_state(RULES).get(flight["carrier"]) or 0):
                        ctx.emit(flight)

                def process_broadcast_element(self, rule, ctx):
                    ctx.broadcast_state(RULES).put(rule["carrier"], rule["most"])
        """
        inputs = (self._first.as_input(), self._second.as_input())
        returned = schema_of(returns, self._first.schema)
        spec = BroadcastProcess(inputs, function, returned, self._second.states, name="broadcast-process")
        return two_inputs(spec, self._first, self._second)


def connected(first: DataStream, second: DataStream) -> ConnectedStreams:
    """Two streams connected, as what they are allows."""
    from kit.api.keyed_stream import KeyedStream

    if isinstance(first, BroadcastStream):
        raise GraphError("connect: the broadcast stream comes second: stream.connect(rules.broadcast(...))")
    if isinstance(second, BroadcastStream):
        return BroadcastConnectedStream(first, second)
    if isinstance(first, KeyedStream) != isinstance(second, KeyedStream):
        keyed, other = (first, second) if isinstance(first, KeyedStream) else (second, first)
        raise GraphError(f"connect: {keyed!r} has a key and {other!r} has none: call key_by on both, or on none")
    return ConnectedStreams(first, second)


def two_inputs(spec: Any, first: DataStream, second: DataStream) -> OperatorStream:
    """The stream of an operator with two inputs."""
    return OperatorStream(first._env, first._env.add_operator(spec, first._origins, second._origins))

"""Two streams that one function processes.

Follows Flink's `ConnectedStreams` and `BroadcastConnectedStream`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kit.core.arguments.signposts import CONNECTED, no_attribute
from kit.stream.api.columns import Columns, schema_of
from kit.stream.api.stream import Made, MadeBy, Stream, TwoStreams
from kit.stream.backend.states.descriptors import MapStateDescriptor
from kit.stream.operators.functions.broadcast import BroadcastProcess
from kit.stream.operators.functions.process import CoProcess


class ConnectedStreams(TwoStreams[Made]):
    """Two streams, both keyed or neither."""

    if not TYPE_CHECKING:  # mypy would take every attribute for one that exists

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name, CONNECTED)

    def process(self, function: Callable[[], Any], returns: Columns | None = None) -> Made:
        """Apply a `KeyedCoProcessFunction`, or without keys a `CoProcessFunction` (the class itself).

        `returns` are the columns that it emits, if they differ from the first stream's.

            class Grounded(KeyedCoProcessFunction):
                UNTIL = ValueStateDescriptor("until", pa.int64())

                def process_element1(self, flight, ctx):
                    if flight["at"] < (ctx.state(self.UNTIL).value() or 0):
                        ctx.emit(flight)

                def process_element2(self, repair, ctx):
                    ctx.state(self.UNTIL).update(repair["until"])
        """
        inputs = (self._first.as_input(), self._second.as_input())
        return self._with(CoProcess(inputs, function, schema_of(returns, self._first.schema), name="co-process"))


class BroadcastConnectedStream(ConnectedStreams[Made]):
    """A stream, keyed or not, and a broadcast one."""

    def __init__(
        self, made_by: MadeBy[Made], first: Stream, second: Stream, states: tuple[MapStateDescriptor, ...]
    ) -> None:
        super().__init__(made_by, first, second)
        self._states = states

    def process(self, function: Callable[[], Any], returns: Columns | None = None) -> Made:
        """Apply a `KeyedBroadcastProcessFunction`, or without a key a `BroadcastProcessFunction` (the class).

        `returns` are the columns that it emits, if they differ from the first stream's.

            class Apply(KeyedBroadcastProcessFunction):
                def process_element(self, flight, ctx):
                    if flight["delay"] > (ctx.broadcast_state(RULES).get(flight["carrier"]) or 0):
                        ctx.emit(flight)

                def process_broadcast_element(self, rule, ctx):
                    ctx.broadcast_state(RULES).put(rule["carrier"], rule["most"])
        """
        inputs = (self._first.as_input(), self._second.as_input())
        returned = schema_of(returns, self._first.schema)
        return self._with(BroadcastProcess(inputs, function, returned, self._states, name="broadcast-process"))

"""A ready job with one operator that keeps state of every kind, so that one snapshot has all of them."""

from __future__ import annotations

import struct
from collections import defaultdict
from typing import Any

import pyarrow as pa

from kit.hosts.lab.jobs.story_jobs import HowMany, flight_source
from kit.stream.api.environment import StreamEnvironment
from kit.stream.backend.keys.key_hashing import assign_to_key_group
from kit.stream.backend.operator_store import OperatorListState
from kit.stream.backend.raw_state import RawStateStream
from kit.stream.backend.states.descriptors import ListStateDescriptor, MapStateDescriptor, ReducingStateDescriptor
from kit.stream.connectors import CollectSink
from kit.stream.operators.functions.checkpointed import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from kit.stream.operators.functions.function_operator import KeyedProcessFunctionContext
from kit.stream.operators.functions.process import KeyedProcessFunction

REPORT_AFTER = 10
LIMIT = 15
_LENGTH = struct.Struct(">H")


class EveryKind(KeyedProcessFunction, CheckpointedFunction):
    """Adds up delays by carrier, and keeps some state of every other kind.

    Managed: `delay` by key; a timer per key, at which the carrier is reported; `late` (split list), `flights` (union
    list) and `limits` (broadcast). Raw: the carriers of each key group, and the number of flights in this subtask.
    """

    DELAY = ReducingStateDescriptor("delay", pa.int64(), lambda one, other: one + other)
    LATE = ListStateDescriptor("late", pa.string())
    FLIGHTS = ListStateDescriptor("flights", pa.int64())
    LIMITS = MapStateDescriptor("limits", pa.string(), pa.int64())
    late: OperatorListState
    flights: OperatorListState

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Ask for the managed states, and read the raw ones."""
        states = context.operator_state
        self.late, self.flights = states.list_state(self.LATE), states.union_list_state(self.FLIGHTS)
        self.limits = states.broadcast_state(self.LIMITS)
        self.limits.put("late", LIMIT)
        self.max_parallelism = context.max_parallelism
        self.carriers: dict[int, list[str]] = defaultdict(list)
        for key_group, stream in context.raw_keyed_state_inputs:
            self.carriers[key_group] = _read(stream).split()
        self.seen = sum(int(_read(stream)) for stream in context.raw_operator_state_inputs)

    def process_element(self, row: dict[str, Any], ctx: KeyedProcessFunctionContext) -> None:
        """Add a flight to each kind of state."""
        delay: Any = ctx.state(self.DELAY)
        delay.add(row["delay"])
        ctx.timer_service.register_event_time_timer(row["at"] // REPORT_AFTER * REPORT_AFTER + REPORT_AFTER)
        if row["delay"] > LIMIT:
            self.late.add(f"{row['carrier']} {row['dest']}")
        self.seen += 1
        carriers = self.carriers[assign_to_key_group(row["carrier"], self.max_parallelism)]
        if row["carrier"] not in carriers:
            carriers.append(row["carrier"])
        ctx.emit({"carrier": row["carrier"], "delay": delay.get()})

    def on_timer(self, timestamp_ms: int, ctx: KeyedProcessFunctionContext) -> None:
        """Report the carrier's delay so far."""
        delay: Any = ctx.state(self.DELAY)
        ctx.emit({"carrier": ctx.current_key, "delay": delay.get()})

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Fill the states that are only written at a checkpoint."""
        self.flights.update([self.seen])
        keyed, raw = context.raw_keyed_state_output, context.raw_operator_state_output
        for key_group in sorted(self.carriers):
            keyed.start_new_key_group(key_group)
            keyed.write(_written(" ".join(self.carriers[key_group])))
        raw.start_new_partition()
        raw.write(_written(str(self.seen)))


def _written(text: str) -> bytes:
    """Return the text with its length before it; raw state has no length of its own."""
    return _LENGTH.pack(len(text)) + text.encode()


def _read(stream: RawStateStream) -> str:
    (length,) = _LENGTH.unpack(stream.read(_LENGTH.size))
    return bytes(stream.read(length)).decode()


def every_kind(env: StreamEnvironment, how_many: HowMany) -> None:
    """Build the job: flights, keyed by carrier, an operator with state of every kind, a sink."""
    read = env.from_source(flight_source(how_many), uid="flights", name="flights")
    timed = read.assign_timestamps("at").uid("times").name("times")
    returns = pa.schema([("carrier", pa.string()), ("delay", pa.int64())])
    kept = timed.key_by("carrier").process(EveryKind, returns=returns).uid("delays").name("delays")
    kept.sink_to(CollectSink("out"), uid="out", name="out")

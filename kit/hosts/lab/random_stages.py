"""The stages of a swarm's random jobs (`kit.hosts.lab.jobs.random_jobs.RandomJob`).

Each stage passes every row on once, over some exchange; its rows show whether its state was lost or doubled. Some
stages report their counts at the end, in additional rows (`LAST_WORDS`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import pyarrow as pa

from kit.core.event_time import MAX_WATERMARK_MS
from kit.stream.api.datastream import DataStream, OperatorStream
from kit.stream.api.environment import StreamEnvironment
from kit.stream.backend.states.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from kit.stream.connectors import CollectionSource
from kit.stream.operators.base import Operator, OperatorSpec
from kit.stream.operators.functions.function_operator import KeyedProcessFunctionContext, ProcessFunctionContext
from kit.stream.operators.functions.process import KeyedProcessFunction, ProcessFunction
from kit.stream.operators.side_output import OutputTag

KEYS = "abcde"
RULES = 3
TALLY, RULE, HEARD = "tally", "rule", "heard"
"""The `k` of the rows that a stage adds at its end: its count, its rules, the event time that it received."""
LAST_WORDS = ("tally", "rules", "paced")
"""The stages that add such rows. A job has at most one of them, as its last stage."""
IDLE_MS = 30
WAIT_MS = 15
SCHEMA = pa.schema([("n", pa.int64()), ("k", pa.string()), ("t", pa.int64()), ("number", pa.int64())])
EXCHANGES: dict[str, Callable[[DataStream], DataStream]] = {
    "forward": lambda stream: stream,
    "rebalance": lambda stream: stream.rebalance(),
    "hash": lambda stream: stream.key_by("k"),
    "global": lambda stream: stream.global_(),
    "custom": lambda stream: stream.partition_custom(lambda n, subtasks: n // 2 % subtasks, "n"),
}
"""The exchanges that may precede a stage without a key."""


def drawn_stage(chance: Random) -> str:
    """Return a random stage, by its name in a job's text."""
    kind = chance.choice(sorted(STAGES))
    ways = WAYS.get(kind)
    return f"{kind} {chance.choice(ways)}" if ways else kind


def source(
    env: StreamEnvironment, uid: str, rows: list[dict[str, Any]], splits: int, batch_rows: int
) -> OperatorStream:
    """Return a stream of these rows."""
    return env.from_source(CollectionSource(rows, SCHEMA, splits=splits, batch_rows=batch_rows), uid=uid)


def number_beside(env: StreamEnvironment, rows: list[dict[str, Any]], batch_rows: int) -> DataStream:
    """Return a stream of its own, in one subtask: these rows, numbered by key."""
    alone = source(env, "beside", rows, 2, batch_rows).set_parallelism(1)
    return alone.key_by("k").process(NumberRows).uid("beside-numbered").set_parallelism(1)


def _map(env: StreamEnvironment, stream: DataStream, uid: str, way: str) -> DataStream:
    return EXCHANGES[way](stream).map(dict).uid(uid)


def _branches(env: StreamEnvironment, stream: DataStream, uid: str, way: str) -> DataStream:
    even = stream.filter(lambda row: row["n"] % 2 == 0).uid(f"{uid}-even")
    odd = stream.rebalance().filter(lambda row: row["n"] % 2 == 1).uid(f"{uid}-odd")
    return even.union(odd)


def _numbered(env: StreamEnvironment, stream: DataStream, uid: str, way: str) -> DataStream:
    return stream.key_by("k").process(NumberRows).uid(uid)


def _held(env: StreamEnvironment, stream: DataStream, uid: str, way: str) -> DataStream:
    times = stream.assign_timestamps("t").uid(f"{uid}-times")
    if way == "idle":
        times = times.with_idleness(IDLE_MS)
    return times.key_by("k").process(HoldRows).uid(uid)


def _aside(env: StreamEnvironment, stream: DataStream, uid: str, way: str) -> DataStream:
    parted = EXCHANGES[way](stream).process(SetOddAside).uid(uid)
    return parted.rebalance().union(parted.side_output(ODD).rebalance())


def _waits(env: StreamEnvironment, stream: DataStream, uid: str, way: str) -> DataStream:
    return stream.key_by("k").process(WaitForAWhile).uid(uid)


def _paced(env: StreamEnvironment, stream: DataStream, uid: str, way: str) -> DataStream:
    pace, hear = StageSpec(f"{uid}-pace", (SCHEMA,), SCHEMA, make=Pace), StageSpec(uid, (SCHEMA,), SCHEMA, make=Hear)
    paced = _alone(stream.global_().apply(pace), f"{uid}-pace")
    return _alone(paced.rebalance().apply(hear), uid).rebalance()


def _alone(stream: OperatorStream, uid: str) -> OperatorStream:
    """Give a stage one subtask, whatever the job's parallelism."""
    return stream.uid(uid).set_parallelism(1).set_max_parallelism(1)


def _tally(env: StreamEnvironment, stream: DataStream, uid: str, way: str) -> DataStream:
    return stream.rebalance().apply(StageSpec(way, (SCHEMA,), SCHEMA, make=partial(Tally, way))).uid(uid)


def _rules(env: StreamEnvironment, stream: DataStream, uid: str, way: str) -> DataStream:
    rules = [{"n": -1, "k": RULE, "t": number, "number": 0} for number in range(RULES)]
    steering = source(env, f"{uid}-rules", rules, 1, 1).broadcast()
    spec = StageSpec("rules", (SCHEMA, SCHEMA), SCHEMA, make=Rules)
    operator = env.transformations.add(spec, EXCHANGES[way](stream)._origins, steering._origins)
    return OperatorStream(env.transformations, operator).uid(uid)


STAGES: dict[str, Callable[[StreamEnvironment, DataStream, str, str], DataStream]] = {
    "map": _map,
    "branches": _branches,
    "aside": _aside,
    "numbered": _numbered,
    "held": _held,
    "waits": _waits,
    "tally": _tally,
    "rules": _rules,
    "paced": _paced,
}
WAYS = {
    "map": sorted(EXCHANGES),
    "aside": sorted(EXCHANGES.keys() - {"hash"}),
    "held": ["idle", "steady"],
    "rules": sorted(EXCHANGES),
    "tally": ["split", "union"],
}
"""The variants of some stages: an exchange, or another choice."""


class NumberRows(KeyedProcessFunction):
    """Numbers the rows of each key."""

    NUMBER = ValueStateDescriptor("number", pa.int64(), default=0)

    def process_element(self, row: dict[str, Any], ctx: KeyedProcessFunctionContext) -> None:
        state: Any = ctx.state(self.NUMBER)
        state.update(state.value() + 1)
        ctx.emit(row | {"number": state.value()})


class HoldRows(KeyedProcessFunction):
    """Keeps each row until event time is a little past it."""

    HELD = MapStateDescriptor("held", pa.int64(), pa.int64())

    def process_element(self, row: dict[str, Any], ctx: KeyedProcessFunctionContext) -> None:
        held: Any = ctx.state(self.HELD)
        held.put(row["n"], row["number"])
        ctx.timer_service.register_event_time_timer(row["t"] + 3)

    def on_timer(self, timestamp_ms: int, ctx: KeyedProcessFunctionContext) -> None:
        held: Any = ctx.state(self.HELD)
        for n, number in sorted(held.items()):
            if 2 * n + 3 <= timestamp_ms:
                held.remove(n)
                ctx.emit({"n": n, "k": KEYS[n * 7 % len(KEYS)], "t": 2 * n, "number": number})


ODD = OutputTag("odd", SCHEMA)


class SetOddAside(ProcessFunction):
    """Sends every second row to a side output."""

    def process_element(self, row: dict[str, Any], ctx: ProcessFunctionContext) -> None:
        if row["n"] % 2:
            ctx.output(ODD, row)
        else:
            ctx.emit(row)


class WaitForAWhile(KeyedProcessFunction):
    """Keeps each row for `WAIT_MS` of the host's time, or until the end of event time."""

    WAITING = MapStateDescriptor("waiting", pa.int64(), pa.int64())

    def process_element(self, row: dict[str, Any], ctx: KeyedProcessFunctionContext) -> None:
        waiting: Any = ctx.state(self.WAITING)
        waiting.put(row["n"], row["number"])
        timers = ctx.timer_service
        timers.register_processing_time_timer(timers.current_processing_time_ms + WAIT_MS)
        timers.register_event_time_timer(MAX_WATERMARK_MS)

    def on_timer(self, timestamp_ms: int, ctx: KeyedProcessFunctionContext) -> None:
        waiting: Any = ctx.state(self.WAITING)
        for n, number in sorted(waiting.items()):
            waiting.remove(n)
            ctx.emit({"n": n, "k": ctx.current_key, "t": 2 * n, "number": number})


@dataclass(frozen=True)
class StageSpec(OperatorSpec):
    """An operator of a stage; `make` creates it for one subtask."""

    make: Callable[[], Operator] = field(kw_only=True)

    def create(self) -> Operator:
        """Create an operator for one subtask."""
        return self.make()


class Tally(Operator):
    """Counts rows: keeps the number of each as an entry. From a union list, each subtask takes those that it now owns.

    `mode` is the redistribution mode: "split" or "union".
    """

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.rows: list[int] = []

    def initialize_state(self) -> None:
        descriptor = ListStateDescriptor("counted", pa.int64())
        store = self.context.operator_state
        if self.mode == "union":
            self.state = store.union_list_state(descriptor)
            mine, all_of_us = self.context.subtask, self.context.parallelism
            self.rows = [n for n in self.state.get() if n % all_of_us == mine]
        else:
            self.state = store.list_state(descriptor)
            self.rows = list(self.state.get())

    def snapshot_state(self, checkpoint_id: int) -> None:
        self.state.update(self.rows)

    def process_batch(self, batch: pa.RecordBatch, input_index: int = 0) -> None:
        self.rows += batch.column("n").to_pylist()
        self.context.output.emit(batch)

    def finish(self) -> None:
        counted, self.rows = len(self.rows), []
        _say(self, TALLY, counted)


class Rules(Operator):
    """Passes on the rows of its first input, and keeps those of its second, broadcast input in broadcast state."""

    def initialize_state(self) -> None:
        self.known = self.context.operator_state.broadcast_state(MapStateDescriptor("known", pa.int64(), pa.bool_()))

    def process_batch(self, batch: pa.RecordBatch, input_index: int = 0) -> None:
        if input_index == 0:
            self.context.output.emit(batch)
            return
        for rule in batch.column("t").to_pylist():
            self.known.put(rule, True)

    def finish(self) -> None:
        _say(self, RULE, len(self.known.items()))


def signs(rows: int) -> list[int]:
    """Return what `Pace` emits behind this many rows, in order.

    After the second row of every four it becomes `IDLE`. After each other row it emits a watermark: the number of the
    row, counted from 1.
    """
    return [IDLE if number % 4 == 2 else number for number in range(1, rows + 1)]


IDLE = -1


class Pace(Operator):
    """Sends rows on, with watermarks and statuses of its own between them (`signs`), and keeps the number of rows.

    No sign is emitted twice: a checkpoint holds those in flight.
    """

    def initialize_state(self) -> None:
        self._state = self.context.operator_state.list_state(ListStateDescriptor("passed", pa.int64()))
        self._passed = sum(self._state.get())

    def snapshot_state(self, checkpoint_id: int) -> None:
        self._state.update([self._passed])

    def process_batch(self, batch: pa.RecordBatch, input_index: int = 0) -> None:
        for row in range(batch.num_rows):
            self.context.output.emit(batch.slice(row, 1))
            was_idle = self._is_idle
            self._passed += 1
            if was_idle:
                self.context.output.emit_watermark_status(idle=False)
            if self._is_idle:
                self.context.output.emit_watermark_status(idle=True)
            else:
                self.context.output.emit_watermark(self._passed)

    @property
    def _is_idle(self) -> bool:
        return signs(self._passed)[-1:] == [IDLE]

    def process_watermark(self, timestamp_ms: int) -> None:
        if timestamp_ms == MAX_WATERMARK_MS:
            self.context.output.emit_watermark_status(idle=False)
            self.context.output.emit_watermark(timestamp_ms)

    def process_watermark_status(self, *, idle: bool) -> None:
        """Ignore the statuses of the inputs: they concern another event time."""


class Hear(Operator):
    """Passes rows on, and reports at its end the event time that it received: each sign of `Pace` once.

    It has one channel, so the signs that it keeps and those in flight in a checkpoint are all that were sent.
    """

    def initialize_state(self) -> None:
        self._state = self.context.operator_state.list_state(ListStateDescriptor("heard", pa.int64()))
        self._heard = list(self._state.get())

    def snapshot_state(self, checkpoint_id: int) -> None:
        self._state.update(self._heard)

    def process_batch(self, batch: pa.RecordBatch, input_index: int = 0) -> None:
        self.context.output.emit(batch)

    def process_watermark(self, timestamp_ms: int) -> None:
        if timestamp_ms == MAX_WATERMARK_MS:
            self.context.output.emit_watermark(timestamp_ms)
        else:
            self._heard.append(timestamp_ms)

    def process_watermark_status(self, *, idle: bool) -> None:
        if idle:
            self._heard.append(IDLE)

    def finish(self) -> None:
        heard, self._heard = self._heard, []
        for sign in heard:
            _say(self, HEARD, sign)


def _say(operator: Operator, what: str, number: int) -> None:
    said = {"n": -1, "k": what, "t": 0, "number": number}
    operator.context.output.emit(pa.RecordBatch.from_pylist([said], schema=SCHEMA))

"""Every operator with state, in a job whose workers are killed: committed is what a loop over the rows gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from kit.hosts.lab.lab import Lab, LabError
from kit.stream.api.environment import StreamEnvironment
from kit.stream.backend.states.descriptors import MapStateDescriptor, ReducingStateDescriptor, ValueStateDescriptor
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.operators.aggregates import count
from kit.stream.operators.functions.batch_process import KeyedBatchFunction
from kit.stream.operators.functions.broadcast import KeyedBroadcastProcessFunction
from kit.stream.operators.functions.function_operator import KeyedProcessFunctionContext
from kit.stream.operators.functions.process import KeyedCoProcessFunction, KeyedProcessFunction, ProcessFunction
from kit.stream.operators.side_output import OutputTag
from kit.stream.operators.windows.window_assigners import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from kit.stream.settings.job_settings import CheckpointConfig
from tests.hosts.lab import jobs
from tests.hosts.lab.jobs import Shape, environment, settle

SHAPE = Shape(rows=36, splits=2, batch_rows=3, parallelism=2)
ROWS = SHAPE.records
END_MS = 1_000_000
TOTAL = ValueStateDescriptor("total", pa.int64())
SUM = ReducingStateDescriptor("sum", pa.int64(), "sum")
RULES = MapStateDescriptor("rules", pa.int64(), pa.int64())
ODD = OutputTag("odd", {"odd": pa.int64()})
SUMS = {"k": pa.string(), "total": pa.int64()}


def even(row: dict[str, Any]) -> bool:
    return row["n"] % 2 == 0


def odd(row: dict[str, Any]) -> bool:
    return row["n"] % 2 == 1


def out(stream: Any) -> None:
    stream.uid("operator").sink_to(CollectSink("out"), uid="out")


def halves(stream: Any) -> tuple[Any, Any]:
    timed = stream.assign_timestamps("t").uid("times")
    return timed.filter(even).uid("even"), timed.filter(odd).uid("odd").rename(n="m", t="u").uid("renamed")


def sessions(stream: Any) -> None:
    timed = stream.filter(lambda row: row["n"] % 12 < 7).uid("gaps").assign_timestamps("t").uid("times")
    out(timed.key_by("k").window(EventTimeSessionWindows(11)).aggregate(rows=count()))


def sessions_expected() -> list[tuple[Any, ...]]:
    found = []
    for key in jobs.KEYS:
        times = sorted(row["t"] for row in ROWS if row["n"] % 12 < 7 and row["k"] == key)
        some: list[int] = []
        for time in [*times, END_MS]:
            if some and time - some[-1] > 11:
                found.append((key, some[0], some[-1] + 11, len(some)))
                some = []
            some.append(time)
    return found


def sliding(stream: Any) -> None:
    timed = stream.assign_timestamps("t").uid("times")
    out(timed.key_by("k").window(SlidingEventTimeWindows(20, 10)).aggregate(rows=count()))


def sliding_expected() -> list[tuple[Any, ...]]:
    starts = [(row["k"], row["t"] // 10 * 10 - back) for row in ROWS for back in (0, 10)]
    return [(key, start, start + 20, rows) for (key, start), rows in Counter(starts).items()]


def interval(stream: Any) -> None:
    left, right = halves(stream)
    out(left.key_by("k").interval_join(right.key_by("k")).between(-12, 9, upper_exclusive=True).join())


def interval_expected() -> list[tuple[Any, ...]]:
    pairs = [(a, b) for a in filter(even, ROWS) for b in filter(odd, ROWS) if a["k"] == b["k"]]
    return [(a["n"], a["k"], a["t"], b["n"], b["t"]) for a, b in pairs if -12 <= b["t"] - a["t"] < 9]


def window_join(stream: Any) -> None:
    left, right = halves(stream)
    out(left.join(right).where("k").equal_to("k").window(TumblingEventTimeWindows(30)).join())


def window_join_expected() -> list[tuple[Any, ...]]:
    pairs = [(a, b) for a in filter(even, ROWS) for b in filter(odd, ROWS) if a["k"] == b["k"]]
    return [(a["n"], a["k"], a["t"], b["n"], b["t"]) for a, b in pairs if a["t"] // 30 == b["t"] // 30]


def add(value: int, ctx: Any) -> None:
    ctx.state(TOTAL).update((ctx.state(TOTAL).value() or 0) + value)
    ctx.timer_service.register_event_time_timer(END_MS)


class BothSums(KeyedCoProcessFunction):
    def process_element1(self, row: dict[str, Any], ctx: Any) -> None:
        add(row["n"], ctx)

    def process_element2(self, row: dict[str, Any], ctx: Any) -> None:
        add(100 * row["m"], ctx)

    def on_timer(self, timestamp_ms: int, ctx: Any) -> None:
        ctx.emit({"k": ctx.current_key, "total": ctx.state(TOTAL).value()})


def connected(stream: Any) -> None:
    left, right = halves(stream)
    out(left.key_by("k").connect(right.key_by("k")).process(BothSums, SUMS))


def connected_expected() -> list[tuple[Any, ...]]:
    sums: Counter[str] = Counter()
    for row in ROWS:
        sums[row["k"]] += row["n"] if even(row) else 100 * row["n"]
    return list(sums.items())


class SumsInColumns(KeyedBatchFunction):
    def process_batch(self, batch: pa.RecordBatch, ctx: Any) -> None:
        ctx.state(SUM).add(batch["n"])
        ctx.timer_service.register_event_time_timers(pa.repeat(END_MS, batch.num_rows))

    def on_timers(self, ctx: Any) -> None:
        ctx.emit({"k": ctx.keys, "total": ctx.state(SUM).get()})


def in_columns(stream: Any) -> None:
    out(stream.assign_timestamps("t").uid("times").key_by("k").process_batches(SumsInColumns, SUMS))


class WithRules(KeyedBroadcastProcessFunction):
    def process_element(self, row: dict[str, Any], ctx: Any) -> None:
        add(row["n"], ctx)

    def process_broadcast_element(self, row: dict[str, Any], ctx: Any) -> None:
        ctx.broadcast_state(RULES).put(row["m"], row["u"])

    def on_timer(self, timestamp_ms: int, ctx: Any) -> None:
        rules = sum(value for _, value in ctx.broadcast_state(RULES).items())
        ctx.emit({"k": ctx.current_key, "total": 1000 * rules + ctx.state(TOTAL).value()})


def steered(stream: Any) -> None:
    left, right = halves(stream)
    out(left.key_by("k").connect(right.broadcast(RULES)).process(WithRules, SUMS))


def steered_expected() -> list[tuple[Any, ...]]:
    sums: Counter[str] = Counter()
    for row in filter(even, ROWS):
        sums[row["k"]] += row["n"]
    rules = sum(row["t"] for row in filter(odd, ROWS))
    return [(key, 1000 * rules + total) for key, total in sums.items()]


class Split(ProcessFunction):
    def process_element(self, row: dict[str, Any], ctx: Any) -> None:
        if even(row):
            ctx.emit(row)
        else:
            ctx.output(ODD, {"odd": row["n"]})


def aside(stream: Any) -> None:
    split = stream.process(Split).uid("split")
    split.sink_to(CollectSink("even"), uid="even")
    kept = split.side_output(ODD)
    out(kept.union(kept.rebalance()).map(dict))


def aside_expected() -> list[tuple[Any, ...]]:
    return [(row["n"],) for row in filter(odd, ROWS)] * 2


def reduced(stream: Any) -> None:
    out(stream.key_by("k").reduce(lambda a, b: {"n": a["n"] + b["n"], "k": a["k"], "t": -1}))


def reduced_expected() -> list[tuple[Any, ...]]:
    """Splits may be read in any order: the last of each key is what counts."""
    sums: Counter[str] = Counter()
    for row in ROWS:
        sums[row["k"]] += row["n"]
    return list(sums.items())


JOBS: dict[str, tuple[Callable[[Any], None], Callable[[], list[tuple[Any, ...]]]]] = {
    "sessions": (sessions, sessions_expected),
    "in columns": (in_columns, reduced_expected),
    "sliding": (sliding, sliding_expected),
    "interval": (interval, interval_expected),
    "window join": (window_join, window_join_expected),
    "connected": (connected, connected_expected),
    "steered": (steered, steered_expected),
    "aside": (aside, aside_expected),
    "reduced": (reduced, reduced_expected),
}


def committed(lab: Lab, job: str) -> Counter[tuple[Any, ...]]:
    frame = lab.output("out")
    if job == "reduced":
        frame = frame.groupby("k", as_index=False)["n"].max()
    return Counter(frame.itertuples(index=False, name=None))


def job_of(monkeypatch: pytest.MonkeyPatch, job: str) -> Callable[[Shape], StreamEnvironment]:
    monkeypatch.setitem(jobs.MORE_WAYS, job, lambda env, stream: JOBS[job][0](stream))
    return environment


@pytest.mark.parametrize("job", JOBS)
def test_a_kill_at_any_time_and_a_rescale_change_nothing_that_is_committed(job, monkeypatch) -> None:
    make, expected = job_of(monkeypatch, job), Counter(JOBS[job][1]())
    shape = Shape(job, SHAPE.rows, SHAPE.splits, SHAPE.batch_rows, SHAPE.parallelism)
    whole = Lab(make(shape), seed=3)
    whole.run()
    assert committed(whole, job) == expected
    restarted = 0
    for position in range(20, whole.position, max(1, whole.position // 12)):
        lab = Lab(make(shape), seed=3)
        lab.replay(whole.past.actions[1:position])
        try:
            lab.faults.kill(position % 2)
        except LabError:
            continue
        lab.run()
        restarted += lab.look.master.epoch == 2
        assert committed(lab, job) == expected, position
    assert restarted > 3


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("job", JOBS)
def test_a_job_goes_on_at_another_parallelism(job, parallelism, monkeypatch) -> None:
    make = job_of(monkeypatch, job)
    shape = Shape(job, SHAPE.rows, SHAPE.splits, 1, SHAPE.parallelism)
    lab = Lab(make(shape), seed=5)
    lab.run_until(checkpoint=1)
    request = lab.stop()
    lab.run_until(lambda lab: lab.ended or lab.look.answer(request) is not None)
    assert lab.look.answer(request) is not None
    settle(lab)
    again = Lab(make(shape.at(parallelism)), seed=6, restore_path=lab.look.answer(request), after=lab)
    again.run()
    assert committed(again, job) == Counter(JOBS[job][1]())


def first_window_ms(idle_ms: int | None) -> int:
    """The lab's time when the first checkpoint with a window in it was published; one of two sources is slow."""
    env = StreamEnvironment("idle", parallelism=1, checkpoint=CheckpointConfig(interval_ms=40))
    fast = env.from_source(CollectionSource(ROWS, batch_rows=3, rows_per_second=200), uid="fast")
    slow = env.from_source(CollectionSource(ROWS[:2], batch_rows=1, rows_per_second=1), uid="slow")
    timed = fast.assign_timestamps("t"), slow.assign_timestamps("t")
    if idle_ms is not None:
        timed[1].with_idleness(idle_ms)
    both = timed[0].union(timed[1]).key_by("k").window(TumblingEventTimeWindows(10))
    both.aggregate(rows=count()).uid("windows").sink_to(CollectSink("out"), uid="out")
    lab = Lab(env)
    lab.run_until(lambda lab: len(lab.output("out")) > 0)
    return lab.look.at_ms


def test_an_idle_source_does_not_hold_windows_back() -> None:
    assert first_window_ms(None) > 900
    assert first_window_ms(20) < 600


def test_rows_behind_a_pause_are_not_lost_when_the_other_sources_have_ended() -> None:
    """The source that pauses is idle when the other one ends; its second row comes when the job would be over."""
    env = StreamEnvironment("pause", parallelism=1)
    ends = env.from_source(CollectionSource(ROWS[:2]), uid="ends").assign_timestamps("t")
    pauses = env.from_source(CollectionSource(ROWS[2:4], batch_rows=1, rows_per_second=1), uid="pauses")
    both = ends.union(pauses.assign_timestamps("t").with_idleness(20))
    both.key_by("k").window(TumblingEventTimeWindows(10)).aggregate(rows=count()).sink_to(CollectSink("out"))
    lab = Lab(env)
    lab.run()
    assert lab.output("out")["rows"].sum() == 4


class RemindLater(KeyedProcessFunction):
    """When event time has passed a row, waits 50 ms of the host's time and emits it then."""

    FIRED = ValueStateDescriptor("fired", pa.int64(), default=0)

    def process_element(self, row: dict[str, Any], ctx: KeyedProcessFunctionContext) -> None:
        ctx.timer_service.register_event_time_timer(row["t"] + 1)

    def on_timer(self, timestamp_ms: int, ctx: KeyedProcessFunctionContext) -> None:
        fired: Any = ctx.state(self.FIRED)
        fired.update(fired.value() + 1)
        if fired.value() == 1:
            timers = ctx.timer_service
            timers.register_processing_time_timer(timers.current_processing_time_ms + 50)
        else:
            ctx.emit({"k": ctx.current_key, "n": 0, "t": 0})


def test_a_processing_time_timer_that_an_event_time_timer_sets_does_not_wait_for_the_next_row() -> None:
    env = StreamEnvironment("remind", parallelism=1, checkpoint=CheckpointConfig(interval_ms=20))
    rows = [{"k": key, "n": n, "t": 10 * n} for n, key in enumerate("abcd")]
    source = env.from_source(CollectionSource(rows, batch_rows=2, rows_per_second=2), uid="rows")
    reminded = source.assign_timestamps("t").key_by("k").process(RemindLater).uid("remind")
    reminded.sink_to(CollectSink("out"), uid="out")
    lab = Lab(env)
    lab.run_until(lambda lab: len(lab.output("out")) > 0)
    assert list(lab.output("out")["k"]) == ["a"]
    assert lab.look.at_ms < 900, "the next rows come after a second"

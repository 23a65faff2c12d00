"""Metrics of operators and of users' functions, in the lab and on Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kit import (
    CheckpointConfig,
    CollectionSource,
    CollectSink,
    EventTimeSessionWindows,
    KeyedBatchFunction,
    KeyedProcessFunction,
    Lab,
    ProcessFunction,
    SparkJob,
    StreamEnvironment,
    ValueStateDescriptor,
    count,
)
from kit.draw.charts.live import live_of
from kit.machines.task.chain import OperatorChain
from kit.stream.operators.metrics import MetricGroup
from tests.hosts.spark.jobs import ThreadGang
from tests.stream.operators.harness import Harness

NOW = 1_700_000_000_000
ROWS = [{"key": "abc"[number % 3], "at": NOW + number * 1_000} for number in range(30)]


class Counted(KeyedProcessFunction):
    SEEN = ValueStateDescriptor("seen", pa.int64())

    def open(self, ctx: Any) -> None:
        self.keys: set[str] = set()
        self.rows = ctx.metrics.counter("rows")
        self.seconds = ctx.metrics.histogram("seconds")
        self.rate = ctx.metrics.add_group("rates").meter("rows")
        ctx.metrics.gauge("keys", self.known)

    def known(self) -> int:
        return len(self.keys)

    def process_element(self, row: Any, ctx: Any) -> None:
        self.keys.add(row["key"])
        self.rows.inc()
        self.rate.mark_event()
        self.seconds.update((row["at"] - NOW) / 1_000)
        ctx.state(self.SEEN).update(1)
        ctx.emit(row)


def environment(parallelism: int = 2) -> StreamEnvironment:
    env = StreamEnvironment("metered", parallelism=parallelism, checkpoint=CheckpointConfig(interval_ms=20))
    rows = env.from_source(CollectionSource(ROWS, batch_rows=4), uid="rows").assign_timestamps("at", 500)
    counted = rows.key_by("key").process(Counted).uid("counted").name("counted")
    sessions = counted.key_by("key").window(EventTimeSessionWindows("2s")).aggregate(n=count())
    sessions.uid("sessions").name("sessions").sink_to(CollectSink("out"), uid="out")
    return env


def values(table: Any, operator: str, metric: str) -> list[Any]:
    return table[(table["operator"] == operator) & (table["metric"] == metric)]["value"].tolist()


def check_own(table: Any) -> None:
    assert sum(values(table, "counted", "rows")) == 30
    assert sum(values(table, "counted", "rates.rows.count")) == 30
    assert sum(values(table, "counted", "keys")) == 3
    assert sum(values(table, "counted", "seconds.n")) == 30
    assert max(values(table, "counted", "seconds.max")) == 29
    assert min(values(table, "counted", "seconds.min")) == 0
    own = set(table[table["own"]]["operator"])
    assert own == {"counted"}


def test_a_lab_shows_the_metrics_of_functions_and_operators() -> None:
    lab = Lab(environment())
    lab.run_until(lambda lab: sum(values(lab.metrics(), "counted", "state_entries")) == 3)
    lab.run_until(lambda lab: sum(values(lab.metrics(), "counted", "state_bytes")) > 0)
    lab.run()
    table = lab.metrics()
    check_own(table)
    assert values(table, "sessions", "late_rows_dropped") == [0, 0]
    assert values(table, "rows", "splits_left") == [0]


def test_watermarks_are_those_that_came_and_those_that_were_handed_on() -> None:
    lab = Lab(environment(parallelism=1))
    assert values(lab.metrics(), "sessions", "input_watermark_ms") == []
    lab.run_until(lambda lab: any(values(lab.metrics(), "sessions", "input_watermark_ms")))
    table = lab.metrics()
    (made,) = values(table, "timestamps", "output_watermark_ms")
    (came,) = values(table, "sessions", "input_watermark_ms")
    assert NOW - 501 <= came <= made <= NOW + 29_000 - 501
    assert (came - NOW + 501) % 1_000 == 0
    assert values(table, "timestamps", "input_watermark_ms") == [None]
    assert values(table, "sessions", "output_watermark_ms") == [came]


def test_each_input_has_a_watermark_of_its_own() -> None:
    env = StreamEnvironment("joined", parallelism=1)
    left = env.from_source(CollectionSource(ROWS, batch_rows=4), uid="left").assign_timestamps("at")
    later = [{"key": row["key"], "then": row["at"] + 5_000} for row in ROWS]
    right = env.from_source(CollectionSource(later, batch_rows=4), uid="right").assign_timestamps("then")
    joined = left.key_by("key").interval_join(right.key_by("key")).between(0, 1_000).join()
    joined.uid("joined").name("joined").sink_to(CollectSink(), uid="out")
    lab = Lab(env)
    lab.run_until(lambda lab: any(values(lab.metrics(), "joined", "input_watermark_ms")))
    table = lab.metrics()
    both = [values(table, "joined", f"input_{number}_watermark_ms")[0] for number in (1, 2)]
    assert values(table, "joined", "input_watermark_ms") == [min(both)]
    assert both[0] < both[1]


def test_a_task_that_was_restored_as_finished_has_no_operators_and_no_metrics() -> None:
    chain = OperatorChain(None, None, finished=True)  # type: ignore[arg-type]
    assert chain.readings({0: NOW, 1: NOW}) == []


def test_going_back_goes_back_in_the_metrics_too() -> None:
    lab = Lab(environment(parallelism=1))
    lab.run_until(lambda lab: sum(values(lab.metrics(), "counted", "rows")) >= 4)
    here, before = lab.position, values(lab.metrics(), "counted", "keys")
    lab.run()
    check_own(lab.metrics())
    lab.back(lab.position - here)
    assert values(lab.metrics(), "counted", "keys") == before
    assert values(lab.metrics(), "counted", "rows")[0] < 30


def test_a_job_on_spark_shows_the_same() -> None:
    with SparkJob(environment(), launch=ThreadGang) as job:
        job.start()
        assert job.wait() == "FINISHED"
        check_own(job.metrics())
        meters = job.meters()
        live = live_of(job)
    assert meters["state_entries"].sum() == 0, "tasks that have ended have no state"
    assert meters["behind_ms"].isna().all(), "event time has ended"
    html = live._repr_html_()
    assert all(f"<td>{metric}</td>" in html for metric in ("rates.rows.per_s", "seconds.p99", "splits_left"))


def test_functions_of_other_kinds_have_metrics() -> None:
    class Rows(ProcessFunction):
        def process_element(self, row: Any, ctx: Any) -> None:
            ctx.metrics.counter("rows").inc(2)

    class Batches(KeyedBatchFunction):
        def process_batch(self, batch: Any, ctx: Any) -> None:
            ctx.metrics.histogram("at").update_all(batch.column("at").to_numpy())

    env = StreamEnvironment("kinds", parallelism=1)
    rows = env.from_source(CollectionSource(ROWS), uid="rows")
    rows.process(Rows).uid("rowwise").name("rowwise").sink_to(CollectSink("one"), uid="one")
    rows.key_by("key").process_batches(Batches).uid("batches").name("batches").sink_to(CollectSink("two"), uid="two")
    lab = Lab(env)
    lab.run()
    assert values(lab.metrics(), "rowwise", "rows") == [60]
    assert values(lab.metrics(), "batches", "at.n") == [30]


def test_a_histogram_tells_of_the_newest_values() -> None:
    histogram = MetricGroup().histogram("of")
    assert histogram.reading() == {".n": 0}
    histogram.update_all(range(2_000))
    for value in (float("nan"), 7.0):
        histogram.update(value)
    shown = histogram.reading()
    assert (shown[".n"], shown[".min"], shown[".max"]) == (2_002, 7.0, 1_999)
    assert (shown[".p50"], shown[".p99"]) == (1_500, 1_990)


def test_a_gauge_that_fails_or_gives_no_number_is_shown_and_fails_nothing() -> None:
    group = MetricGroup()
    group.gauge("failing", lambda: 1 / 0)
    group.gauge("text", lambda: ["x"] * 100)
    group.gauge("endless", lambda: float("inf"))
    reading = group.reading()
    assert reading["failing"] == "ZeroDivisionError: division by zero"
    assert (len(reading["text"]), reading["endless"]) == (200, "inf")


def test_what_cannot_be_a_metric_is_refused() -> None:
    group = MetricGroup()
    assert group.counter("n") is group.counter("n")
    with pytest.raises(TypeError, match="'n' is a Counter already, and cannot be a Meter as well"):
        group.meter("n")
    with pytest.raises(ValueError, match="the kit has a metric of this name"):
        group.gauge("state_bytes", len)
    with pytest.raises(TypeError, match="expected a function that returns the value"):
        group.gauge("n2", 7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected a text that is not empty"):
        group.counter("")


def test_the_number_of_entries_is_that_of_keys_and_windows() -> None:
    harness = Harness(environment(1).job_graph().vertex("counted").operators[0].spec)
    harness.process(ROWS)
    assert harness.keyed_state.entries == 3

"""Aggregation in two phases: the same results as in one, whenever partial totals are sent, and none in a snapshot."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit import (
    CheckpointConfig,
    CollectionSource,
    CollectSink,
    Lab,
    OutputTag,
    StreamEnvironment,
    avg,
    count,
    max_,
    min_,
    sum_,
)
from kit.core.event_time import MAX_WATERMARK_MS
from kit.stream.operators.aggregate import KeyedAggregate
from kit.stream.operators.local_aggregate import MOST_PARTIALS, SENT_AFTER_MS, LocalAggregate
from kit.stream.operators.windows.cumulative_windows import CumulativeEventTimeWindows
from kit.stream.operators.windows.local_window_aggregate import LocalWindowAggregate
from kit.stream.operators.windows.window import WindowAggregate
from kit.stream.operators.windows.window_assigners import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from tests.properties import examples
from tests.stream.operators.harness import Harness, Row, restored

SCHEMA = pa.schema(
    {
        "k": pa.string(),
        "j": pa.dictionary(pa.int32(), pa.string()),
        "n": pa.int64(),
        "u": pa.uint64(),
        "f": pa.float64(),
        "d": pa.decimal128(5, 2),
        "s": pa.string(),
        "at": pa.int64(),
    }
)
TOTALS = (
    count(),
    count("n"),
    sum_("n"),
    sum_("u"),
    avg("n"),
    sum_("d"),
    avg("d"),
    min_("f"),
    max_("f"),
    min_("s"),
    max_("d"),
)
rows = st.lists(
    st.fixed_dictionaries(
        {
            "k": st.sampled_from(["a", "b", "c"]),
            "j": st.sampled_from(["x", "y"]),
            "n": st.none() | st.integers(-5, 5),
            "u": st.none() | st.integers(0, 2**62),
            "f": st.none() | st.sampled_from([-1.5, 0.0, 2.0, float("nan"), float("inf")]),
            "d": st.none() | st.decimals(-99, 99, places=2),
            "s": st.none() | st.text("pq", max_size=2),
            "at": st.integers(-40, 40),
        }
    ),
    max_size=25,
)
WINDOWS = (TumblingEventTimeWindows(10, 3), SlidingEventTimeWindows(20, 8), CumulativeEventTimeWindows(12, 4))
steps = st.lists(
    st.tuples(st.just("rows"), rows)
    | st.tuples(st.sampled_from(["watermark", "barrier", "time"]), st.integers(-50, 50)),
    max_size=12,
)


def shown(found: list[Row]) -> list[str]:
    """Rows as texts: a NaN then equals another one."""
    return [repr(row) for row in found]


def passed(local: Harness, since: int, receiver: Harness) -> list[Row]:
    """Pass on what the first phase has sent, and return what the second one emits."""
    emitted = []
    for element in local.output.elements[since:]:
        if isinstance(element, pa.RecordBatch):
            emitted += receiver.process(element)
        elif isinstance(element, int):
            emitted += receiver.watermark(element)
    return emitted


def do(harness: Harness, step: tuple[str, Any]) -> list[Row]:
    """Do a step, and return the rows that were emitted."""
    kind, what = step
    if kind == "rows":
        return harness.process(what)
    if kind == "watermark":
        return harness.watermark(max(what, harness.current_watermark_ms))
    before = len(harness.output.elements)
    if kind == "barrier":
        assert harness.snapshot() is not None
    else:
        harness.processing_time_ms += what + 50
        due_ms = harness.operator.next_processing_time_ms()
        if due_ms is not None and due_ms <= harness.processing_time_ms:
            harness.operator.on_processing_time(harness.processing_time_ms)
    return harness.rows(before)


@settings(max_examples=examples(60), deadline=None)
@given(steps, st.sampled_from([("k",), ("j", "k")]))
def test_totals_are_those_of_one_phase_and_so_is_the_state(taken: list[tuple[str, Any]], keys: tuple[str, ...]) -> None:
    one = Harness(KeyedAggregate(SCHEMA, keys, TOTALS, "final"))
    local = Harness(LocalAggregate(SCHEMA, keys, TOTALS))
    two = Harness(KeyedAggregate(SCHEMA, keys, TOTALS, "final", two_phase=True))
    for step in [*taken, ("barrier", 0)]:
        before = len(local.output.elements)
        if step[0] != "time":
            do(one, step)
        do(local, step)
        passed(local, before, two)
        if step[0] == "barrier":
            snapshot = local.snapshot()
            assert (snapshot.keyed, snapshot.operator) == (None, None)
            assert len(local.output.elements) <= before + 1, "nothing is left for the next barrier"
            assert two.snapshot() == one.snapshot()
    (first,), (second,) = (restored(each.spec, [each.snapshot()]) for each in (one, two))
    (changed,) = restored(one.spec, [two.snapshot()])
    finals = []
    for each in (first, second, changed):
        each.operator.finish()
        finals.append(shown(each.rows()))
    assert finals[0] == finals[1] == finals[2]


@settings(max_examples=examples(100), deadline=None)
@given(steps, st.sampled_from(WINDOWS), st.sampled_from([0, 7]))
def test_windows_are_those_of_one_phase_and_so_are_the_late_rows(
    taken: list[tuple[str, Any]], assigner: WindowAssigner, lateness: int
) -> None:
    totals = (count(), sum_("n"), avg("d"), max_("f"))
    where = (SCHEMA, ("k",), assigner, "at")
    one = Harness(WindowAggregate(*where, totals, allowed_lateness_ms=lateness))
    two_phase = WindowAggregate(*where, totals, allowed_lateness_ms=lateness, two_phase=True)
    local, two = Harness(LocalWindowAggregate(*where, totals)), Harness(two_phase)
    for step in [*taken, ("watermark", MAX_WATERMARK_MS)]:
        before = len(local.output.elements)
        expected = do(one, step) if step[0] != "time" else []
        do(local, step)
        assert sorted(shown(passed(local, before, two))) == sorted(shown(expected))
        if step[0] == "barrier":
            snapshot = local.snapshot()
            assert (snapshot.keyed, snapshot.operator) == (None, None)
            late, watermark = two.late_rows, two.current_watermark_ms
            (two,) = restored(two_phase, [two.snapshot()])
            two.late_rows, two.current_watermark_ms = late, watermark
    assert two.late_rows == one.late_rows
    assert two.snapshot().keyed is None


def test_totals_in_flight_of_rows_in_time_and_of_rows_behind_may_come_in_one_batch() -> None:
    where = (SCHEMA, ("k",), SlidingEventTimeWindows(20, 10), "at")
    local = Harness(LocalWindowAggregate(*where, (count(),)))
    local.watermark(15)
    local.process([{"k": "a", "at": 30}, {"k": "b", "at": 31}, {"k": "a", "at": 14}, {"k": "a", "at": -9}])
    local.snapshot()
    alone, together = [element for element in local.output.elements if isinstance(element, pa.RecordBatch)]
    mixed = pa.Table.from_batches([together.slice(0, 1), alone, together.slice(1)]).combine_chunks().to_batches()[0]
    two = Harness(WindowAggregate(*where, (count(),), two_phase=True))
    two.watermark(15)
    assert two.process(mixed) == []
    windows = {(row["k"], row["window_start"]): row["count"] for row in two.watermark(MAX_WATERMARK_MS)}
    assert windows == dict.fromkeys([("a", 0), ("a", 10), ("a", 20), ("b", 20), ("a", 30), ("b", 30)], 1)
    assert two.late_rows["LateRowsDropped"] == 1


def test_updates_wait_for_a_moment_and_final_totals_for_a_barrier() -> None:
    for sent_after_ms, due in [(SENT_AFTER_MS, 1_000 + SENT_AFTER_MS), (None, None)]:
        local = Harness(LocalAggregate(SCHEMA, "k", (count(),), sent_after_ms))
        local.processing_time_ms = 1_000
        assert local.process([{"k": "a"}]) == []
        local.processing_time_ms = 1_060
        assert local.process([{"k": "b"}, {"k": "a"}]) == []
        assert local.operator.next_processing_time_ms() == due
        if due is not None:
            local.operator.on_processing_time(due - 1)
            assert local.rows() == []
            local.operator.on_processing_time(due)
        else:
            local.snapshot()
        assert local.rows() == [{"k": "a", "count": 2}, {"k": "b", "count": 1}]
        assert local.operator.next_processing_time_ms() is None


@pytest.mark.parametrize("idle", [True, False])
def test_nothing_is_held_back_from_an_idle_status(idle: bool) -> None:
    for spec in (
        LocalAggregate(SCHEMA, "k", (count(),)),
        LocalWindowAggregate(SCHEMA, "k", TumblingEventTimeWindows(10), "at", (count(),)),
    ):
        local = Harness(spec)
        local.process([{"k": "a", "at": 3}])
        local.operator.process_watermark_status(idle=idle)
        batch, status = local.output.elements
        assert isinstance(batch, pa.RecordBatch)
        assert status == ("idle" if idle else "active")


def test_a_watermark_sends_the_windows_that_it_fires_and_no_others() -> None:
    local = Harness(LocalWindowAggregate(SCHEMA, "k", TumblingEventTimeWindows(10), "at", (count(),)))
    local.process([{"k": "a", "at": 12}, {"k": "a", "at": 5}])
    assert local.watermark(8) == []
    assert [row["count"] for row in local.watermark(9)] == [1, 1]
    local.process([{"k": "a", "at": 17}])
    assert local.watermark(18) == []
    assert [row["count"] for row in local.watermark(19)] == [1]


def test_rows_at_the_watermark_are_behind_it_too() -> None:
    where = (SCHEMA, ("k",), TumblingEventTimeWindows(10), "at")
    local = Harness(LocalWindowAggregate(*where, (count(),)))
    two = Harness(WindowAggregate(*where, (count(),), two_phase=True))
    local.process([{"k": "a", "at": 8}])
    local.watermark(9)
    local.process([{"k": "a", "at": 9}, {"k": "b", "at": 9}, {"k": "a", "at": 10}])
    local.watermark(19)
    assert [(row["k"], row["window_start"], row["count"]) for row in passed(local, 0, two)] == [
        ("a", 0, 1),
        ("a", 10, 1),
    ]
    assert two.late_rows["LateRowsDropped"] == 2


def test_many_keys_are_sent_without_a_barrier() -> None:
    for spec in (
        LocalAggregate(SCHEMA, "n", (count(),), None),
        LocalWindowAggregate(SCHEMA, "n", TumblingEventTimeWindows(10), "at", (count(),)),
    ):
        local, sent = Harness(spec), 0
        for first in range(0, 3 * MOST_PARTIALS, MOST_PARTIALS // 2):
            numbers = pa.array(range(first, first + MOST_PARTIALS // 2))
            columns = [
                numbers if name in ("n", "at") else pa.nulls(len(numbers), SCHEMA.field(name).type)
                for name in SCHEMA.names
            ]
            sent += len(local.process(pa.RecordBatch.from_arrays(columns, schema=SCHEMA)))
        assert sent == 3 * MOST_PARTIALS


# --- in a job ---------------------------------------------------------------------------------------------------------

FLIGHTS = pa.schema({"carrier": pa.string(), "delay": pa.int64(), "at": pa.int64()})
RECORDS = [{"carrier": ["UA", "DL", "AA"][n * n % 3], "delay": n % 7, "at": 10 * n} for n in range(240)]


def job(*, two_phase: bool, **checkpoint: Any) -> StreamEnvironment:
    """Totals of the union of two streams, and windows of the first one."""
    config = CheckpointConfig(interval_ms=40, **checkpoint)
    env = StreamEnvironment("flights", parallelism=2, max_parallelism=16, checkpoint=config)
    flights = env.from_source(CollectionSource(RECORDS, FLIGHTS, splits=2, batch_rows=5), uid="flights")
    more = env.from_source(CollectionSource(RECORDS[:50], FLIGHTS, batch_rows=5), uid="more").set_parallelism(1)
    keyed = flights.union(more).key_by("carrier")
    totals = keyed.aggregate(count(), sum_("delay"), two_phase=two_phase).uid("totals")
    totals.sink_to(CollectSink("totals"), uid="totals-out")
    timed = flights.assign_timestamps("at", 50).uid("times").key_by("carrier").window(TumblingEventTimeWindows(200))
    windows = timed.aggregate(count(), delay=avg("delay"), two_phase=two_phase).uid("windows")
    windows.sink_to(CollectSink("windows"), uid="windows-out")
    return env


def results(lab: Lab) -> tuple[dict[str, Any], dict[str, Any]]:
    """The last totals, and all windows."""
    windows = lab.output("windows").sort_values(["window_start", "carrier"]).reset_index(drop=True)
    return lab.output("totals").groupby("carrier").max().to_dict(), windows.to_dict()


def test_the_first_phase_runs_in_the_tasks_that_send_the_rows() -> None:
    one, two = (job(two_phase=two_phase).job_graph().vertices for two_phase in (False, True))
    assert [vertex.parallelism for vertex in two] == [vertex.parallelism for vertex in one]
    chains = [[operator.name for operator in vertex.operators] for vertex in two]
    assert [chain for chain in chains if chain[0] == "more"] == [["more", "local aggregate"]]
    (flights,) = [chain for chain in chains if chain[0] == "flights"]
    assert sorted(flights) == ["flights", "local aggregate", "local window", "times"]


@pytest.mark.parametrize("settings", [{}, {"unaligned": True}], ids=["aligned", "unaligned"])
def test_a_job_in_two_phases_has_the_same_results_and_fewer_updates_whatever_fails(settings: dict[str, Any]) -> None:
    plain = Lab(job(two_phase=False))
    plain.run()
    lab = Lab(job(two_phase=True, **settings))
    for slot in (0, 1, 0):
        lab.run_until(record="CheckpointCompleted")
        for _ in range(25):
            lab.step()
        lab.faults.kill(slot)
    lab.run()
    assert results(lab) == results(plain)
    assert len(lab.output("totals")) < len(plain.output("totals"))


def test_a_savepoint_of_one_phase_is_resumed_in_two_phases_at_another_parallelism_and_back() -> None:
    plain = Lab(job(two_phase=False))
    plain.run()
    first = Lab(job(two_phase=False))
    first.run_until(record="CheckpointCompleted")
    second_job = job(two_phase=True)
    second_job.parallelism = 3
    second = Lab(second_job, after=first, restore_path=first.stop(wait=True))
    second.run_until(record="CheckpointCompleted")
    third = Lab(job(two_phase=False), after=second, restore_path=second.stop(wait=True))
    third.run()
    assert results(third) == results(plain)


@pytest.mark.parametrize(
    ("windows", "tag", "said"),
    [
        (EventTimeSessionWindows(10), None, "windows depend on rows that are elsewhere"),
        (TumblingEventTimeWindows(10), OutputTag("late", FLIGHTS), "only totals of rows cross the exchange"),
    ],
)
def test_what_needs_the_rows_themselves_takes_one_phase(windows: Any, tag: OutputTag | None, said: str) -> None:
    env = StreamEnvironment("refused")
    timed = env.from_source(CollectionSource(RECORDS, FLIGHTS), uid="flights").assign_timestamps("at")
    windowed = timed.key_by("carrier").window(windows)
    if tag is not None:
        windowed.side_output_late_data(tag)
    with pytest.raises(ValueError, match=said):
        windowed.aggregate(count(), two_phase=True)
    windowed.aggregate(count()).sink_to(CollectSink("out"), uid="out")
    assert len(env.job_graph().vertices) == 2

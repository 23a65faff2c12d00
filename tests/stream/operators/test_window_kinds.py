"""Tumbling, sliding and session windows with late rows: the same as a window operator that takes row by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.core.event_time import MAX_WATERMARK_MS, MIN_WATERMARK_MS
from kit.stream.operators.aggregates import count, max_, sum_
from kit.stream.operators.side_output import OutputTag
from kit.stream.operators.spec import SchemaError, UserFunctionError
from kit.stream.operators.windows.window import WindowAggregate, WindowProcess, WindowReduce
from kit.stream.operators.windows.window_assigners import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from tests.properties import examples
from tests.stream.operators.harness import Fleet, Harness, Row, restored

FLIGHTS = pa.schema([("dest", pa.string()), ("at", pa.int64()), ("delay", pa.int64())])
LATE = OutputTag("late", FLIGHTS)

rows = st.lists(
    st.fixed_dictionaries(
        {
            "dest": st.sampled_from(["ORD", "SFO", "LAX"]),
            "at": st.integers(-30, 60),
            "delay": st.none() | st.integers(0, 100),
        }
    ),
    max_size=10,
)
steps = st.lists(st.tuples(rows, st.integers(-40, 70), st.integers(0, 3)), max_size=8)
"""Rows, then perhaps a watermark, then perhaps a failure and as many subtasks."""
assigners = st.one_of(
    st.builds(TumblingEventTimeWindows, st.integers(1, 20)),
    st.integers(1, 12).flatmap(
        lambda slide: st.builds(
            SlidingEventTimeWindows, st.integers(1, 30), st.just(slide), st.integers(1 - slide, slide - 1)
        )
    ),
    st.builds(EventTimeSessionWindows, st.integers(1, 12)),
)


@dataclass(eq=False)
class OneWindow:
    start: int
    end: int
    rows: list[Row] = field(default_factory=list)
    overdue: bool = False
    kept_until: int = MIN_WATERMARK_MS
    """The watermark that clears a window which was restored, having fired, by a job without lateness."""


@dataclass
class RowByRow:
    """A plain version of `WindowOperator` in Flink, except that late firings happen once per batch."""

    assigner: Any
    lateness: int
    watermark_ms: int = MIN_WATERMARK_MS
    late: list[Row] = field(default_factory=list)
    windows: dict[str, list[OneWindow]] = field(default_factory=dict)

    def process(self, given_rows: list[Row]) -> list[Row]:
        for row in given_rows:
            self.take(row)
        fired = [(key, window) for key, some in self.windows.items() for window in some if window.overdue]
        for _, window in fired:
            window.overdue = False
        return [result(key, window) for key, window in fired]

    def take(self, row: Row) -> None:
        mine = self.windows.setdefault(row["dest"], [])
        if isinstance(self.assigner, EventTimeSessionWindows):
            taken = self.merge(mine, row)
        else:
            taken = [self.window(mine, start, end) for start, end in self.bounds(row["at"]) if not self.over(end)]
        for window in taken:
            window.rows.append(row)
            window.overdue |= window.end - 1 <= self.watermark_ms
        if not taken and row["at"] + self.lateness <= self.watermark_ms:
            self.late.append(row)

    def bounds(self, at: int) -> list[tuple[int, int]]:
        size, offset = self.assigner.size_ms, self.assigner.offset_ms
        slide = getattr(self.assigner, "slide_ms", size)
        return [(s, s + size) for s in range(at - size + 1, at + 1) if (s - offset) % slide == 0]

    def window(self, mine: list[OneWindow], start: int, end: int) -> OneWindow:
        for window in mine:
            if (window.start, window.end) == (start, end):
                return window
        mine.append(OneWindow(start, end))
        return mine[-1]

    def merge(self, mine: list[OneWindow], row: Row) -> list[OneWindow]:
        merged = OneWindow(row["at"], row["at"] + self.assigner.gap_ms)
        touched = [w for w in mine if w.start <= merged.end and merged.start <= w.end]
        for window in touched:
            merged.start, merged.end = min(merged.start, window.start), max(merged.end, window.end)
            merged.rows += window.rows
            merged.overdue |= window.overdue
        if self.over(merged.end):
            return []
        mine[:] = [window for window in mine if window not in touched] + [merged]
        merged.overdue &= merged.end - 1 <= self.watermark_ms
        return [merged]

    def over(self, end: int) -> bool:
        return end - 1 + self.lateness <= self.watermark_ms

    def watermark(self, timestamp_ms: int) -> list[Row]:
        before, self.watermark_ms = self.watermark_ms, timestamp_ms
        fired = [
            result(key, window)
            for key, some in self.windows.items()
            for window in some
            if before < window.end - 1 <= timestamp_ms
        ]
        self.windows = {key: [w for w in some if not self.cleared(w)] for key, some in self.windows.items()}
        return fired

    def cleared(self, window: OneWindow) -> bool:
        return self.over(window.end) and window.kept_until <= self.watermark_ms

    def restore(self, lateness: int) -> None:
        """Another lateness from now on. A timer that clears a window later than it would now stays."""
        for window in (window for some in self.windows.values() for window in some):
            if lateness:
                window.kept_until = MIN_WATERMARK_MS
            elif window.end - 1 <= self.watermark_ms:
                window.kept_until = max(window.kept_until, window.end - 1 + self.lateness)
        self.lateness = lateness
        self.windows = {key: [w for w in some if not self.cleared(w)] for key, some in self.windows.items()}


def result(key: str, window: OneWindow) -> Row:
    delays = [row["delay"] for row in window.rows if row["delay"] is not None]
    return {
        "dest": key,
        "window_start": window.start,
        "window_end": window.end,
        "count": len(window.rows),
        "count_delay": len(delays),
        "sum_delay": sum(delays) if delays else None,
        "max_delay": max(delays, default=None),
    }


def counted(some: list[Row]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(sorted(row.items())) for row in some)


AGGREGATES = (count(), count("delay"), sum_("delay"), max_("delay"))


def hold_to(
    model: RowByRow, given_steps: list[tuple[list[Row], int, int]], parallelism: int, latenesses: Sequence[int] = ()
) -> None:
    """Compare the operator, at this parallelism and then at those of the steps, with a model that takes row by row.

    A step is rows, the watermark after them, and the parallelism from then on (0: unchanged). The restores
    use one of `latenesses` after the other.
    """

    def spec() -> WindowAggregate:
        given = {"allowed_lateness_ms": model.lateness, "late_tag": LATE}
        return WindowAggregate(FLIGHTS, "dest", model.assigner, "at", AGGREGATES, **given)

    fleet = Fleet(spec(), parallelism)
    changes = iter(latenesses)
    late: list[Row] = []
    for some, advanced_to, subtasks in given_steps:
        assert counted(fleet.process(some, ["dest"])) == counted(model.process(some))
        late += [row for subtask in fleet.subtasks for row in subtask.aside("late")]
        for subtask in fleet.subtasks:
            subtask.output.aside.clear()
        if subtasks:
            model.restore(next(changes, model.lateness))
            fleet.spec = spec()
            fleet.rescale(subtasks)
        if advanced_to > model.watermark_ms:
            assert counted(fleet.watermark(advanced_to)) == counted(model.watermark(advanced_to))
    assert counted(late) == counted(model.late)
    assert counted(fleet.watermark(MAX_WATERMARK_MS)) == counted(model.watermark(MAX_WATERMARK_MS))
    assert fleet.is_empty


@settings(max_examples=examples(150))
@given(assigners, steps, st.integers(0, 15), st.integers(1, 3), st.sampled_from([1, 1, 6]))
def test_windows_of_every_kind_are_those_of_an_operator_that_takes_row_by_row(
    assigner, given_steps, lateness, parallelism, times
) -> None:
    given_steps = [(some * times, *after) for some, *after in given_steps]  # many rows have their own code path
    hold_to(RowByRow(assigner, lateness), given_steps, parallelism)


late_rows = st.lists(st.tuples(st.sampled_from(["ORD", "SFO"]), st.integers(-60, 5)), max_size=12)
late_steps = st.lists(
    st.tuples(late_rows, st.integers(0, 20), st.sampled_from([0, 0, 0, 1, 2])), min_size=2, max_size=8
)
"""Rows at a time before or after the watermark, how far the watermark then goes on, and perhaps a restore."""


@settings(max_examples=examples(200))
@given(late_steps, st.integers(1, 12), st.integers(0, 8), st.lists(st.sampled_from([0, 0, 3, 8]), max_size=4))
def test_late_rows_join_the_sessions_that_they_join_row_by_row(given_steps, gap, lateness, latenesses) -> None:
    watermark, made = 0, []
    for some, goes_on, subtasks in given_steps:
        given_rows = [{"dest": dest, "at": watermark + after, "delay": 1} for dest, after in some]
        watermark += goes_on
        made.append((given_rows, watermark, subtasks))
    hold_to(RowByRow(EventTimeSessionWindows(gap), lateness), [([], 0, 0), *made], 1, latenesses)


def test_a_late_row_is_kept_where_rows_before_it_lead_from_it_to_a_session() -> None:
    harness = session()
    harness.process(at(100))
    harness.watermark(95)
    harness.process([*at(92, 70, 84, 61, 75), *at(84, dest="SFO"), *at(66)])
    assert harness.late_rows["LateRowsDropped"] == 3, (
        "70 and 61 came before the rows that lead to them; SFO has no session"
    )
    (only,) = harness.watermark(MAX_WATERMARK_MS)
    assert (only["window_start"], only["window_end"], only["count"]) == (66, 110, 5)


def test_a_late_row_joins_a_row_of_the_same_batch_that_is_not_late() -> None:
    harness = session()
    harness.watermark(20)
    harness.process([*at(6, 12, 4), *at(3, dest="SFO")])
    assert harness.late_rows["LateRowsDropped"] == 2
    assert [(row["window_start"], row["count"]) for row in harness.watermark(MAX_WATERMARK_MS)] == [(4, 2)]


def test_a_late_row_joins_a_session_that_begins_where_it_ends() -> None:
    harness = session()
    harness.process(at(12))
    harness.watermark(11)
    harness.process(at(2))
    assert [(row["window_start"], row["count"]) for row in harness.watermark(MAX_WATERMARK_MS)] == [(2, 2)]


def test_a_late_row_brings_in_a_session_that_is_over_and_was_restored() -> None:
    harness = session(lateness=5)
    harness.process(at(0))
    harness.watermark(9)
    (harness,) = restored(session().spec, [harness.snapshot()])
    harness.watermark(13)
    harness.process(at(14))
    harness.process(at(4, -10))
    (only,) = harness.watermark(MAX_WATERMARK_MS)
    assert (only["window_start"], only["window_end"], only["count"]) == (-10, 24, 4)


def test_a_session_that_two_timers_clear_is_forgotten_once() -> None:
    harness = session(2, lateness=4)
    harness.process(at(0, 3))
    (harness,) = restored(session(2, lateness=3).spec, [harness.snapshot()])
    assert len(harness.watermark(5)) == 2, "the first is cleared as late as is allowed now and was allowed before"
    harness.process(at(5))
    assert [(row["window_start"], row["count"]) for row in harness.watermark(MAX_WATERMARK_MS)] == [(3, 2)]


def test_many_rows_of_a_window_in_the_place_of_one_that_is_gone_let_it_fire() -> None:
    harness = Harness(WindowAggregate(FLIGHTS, "dest", TumblingEventTimeWindows(10), "at", (count(),)))
    for start in (0, 10, 20):
        harness.process(at(*[start + 3] * 20))
        harness.process(at(*[start + 4] * 20))
        assert [row["count"] for row in harness.watermark(start + 9)] == [40]


def test_many_rows_of_a_window_that_was_restored_let_it_be_cleared_as_late_as_is_now_allowed() -> None:
    tumbling = TumblingEventTimeWindows(10)
    before, after = (
        WindowAggregate(FLIGHTS, "dest", tumbling, "at", (count(),), allowed_lateness_ms=n) for n in (0, 5)
    )
    harness = Harness(before)
    harness.process(at(*[3] * 20))
    (harness,) = restored(after, [harness.snapshot()])
    harness.process(at(*[4] * 20))
    assert [row["count"] for row in harness.watermark(9)] == [40]
    assert [row["count"] for row in harness.process(at(*[5] * 20))] == [60]
    harness.watermark(14)
    assert harness.snapshot().keyed is None


@pytest.mark.parametrize("fired", [False, True])
@pytest.mark.parametrize(("before", "after"), [(0, 5), (5, 0), (5, 3), (3, 5)])
@pytest.mark.parametrize("assigner", [TumblingEventTimeWindows(10), EventTimeSessionWindows(7)])
def test_a_window_without_further_rows_is_cleared_as_late_as_is_allowed_after_a_restore(
    assigner: WindowAssigner, before: int, after: int, fired: bool
) -> None:
    def spec(lateness_ms: int) -> WindowAggregate:
        return WindowAggregate(FLIGHTS, "dest", assigner, "at", (count(),), allowed_lateness_ms=lateness_ms)

    harness = Harness(spec(before))
    harness.process(at(3))
    if fired and before:
        assert len(harness.watermark(9)) == 1
    (harness,) = restored(spec(after), [harness.snapshot()])
    assert len(harness.watermark(9)) == (0 if fired and before else 1)
    harness.process(at(1003))
    harness.watermark(9 + max(before, after))
    assert len(harness.operator.windows()[0]) == 1, "that of the later row"
    assert [row["count"] for row in harness.watermark(MAX_WATERMARK_MS)] == [1]
    assert harness.snapshot().keyed is None


def session(gap: int = 10, lateness: int = 0) -> Harness:
    spec = WindowAggregate(
        FLIGHTS, "dest", EventTimeSessionWindows(gap), "at", (count(),), allowed_lateness_ms=lateness
    )
    return Harness(spec)


def at(*times: int, dest: str = "ORD") -> list[Row]:
    return [{"dest": dest, "at": time, "delay": 1} for time in times]


def test_sessions_that_touch_are_one() -> None:
    harness = session()
    harness.process(at(0))
    harness.process(at(20))
    assert len(harness.watermark(MAX_WATERMARK_MS)) == 2
    harness = session()
    harness.process(at(0))
    harness.process(at(20))
    harness.process(at(10))
    (only,) = harness.watermark(MAX_WATERMARK_MS)
    assert (only["window_start"], only["window_end"], only["count"]) == (0, 30, 3)


def test_sessions_that_the_last_batch_before_a_snapshot_merged_are_one_after_the_restore() -> None:
    harness = session()
    for times in ((0,), (20,), (10,)):
        harness.process(at(*times))
    (again,) = restored(harness.spec, [harness.snapshot()])
    again.process(at(35))
    (first, second) = again.watermark(MAX_WATERMARK_MS)
    assert (first["window_start"], first["window_end"], first["count"]) == (0, 30, 3)
    assert (second["window_start"], second["window_end"], second["count"]) == (35, 45, 1)
    assert again.snapshot().keyed is None, "nothing is left of those that were merged"


def test_a_late_row_is_taken_when_it_joins_a_session_that_goes_on() -> None:
    harness = session()
    harness.process(at(15))
    harness.watermark(12)
    harness.process(at(2, -9, 6))
    assert harness.late_rows["LateRowsDropped"] == 2, "2 and -9 came before 6 made the session reach them"
    (only,) = harness.watermark(MAX_WATERMARK_MS)
    assert (only["window_start"], only["window_end"], only["count"]) == (6, 25, 2)


def test_a_row_within_the_lateness_fires_its_window_again() -> None:
    spec = WindowAggregate(
        FLIGHTS, "dest", TumblingEventTimeWindows(10), "at", (count(),), allowed_lateness_ms=5, name="per ten"
    )
    harness = Harness(spec)
    harness.process(at(1))
    assert [row["count"] for row in harness.watermark(9)] == [1]
    assert [row["count"] for row in harness.process(at(2, 3))] == [3]
    assert harness.watermark(13) == []
    assert [row["count"] for row in harness.process(at(4))] == [4]
    assert harness.watermark(14) == []
    assert harness.process(at(4)) == []
    assert harness.late_rows["LateRowsDropped"] == 1


@pytest.mark.parametrize("assigner", [SlidingEventTimeWindows(10, 5), EventTimeSessionWindows(5)])
def test_a_reduced_window_gives_one_row(assigner) -> None:
    def later(one: Row, other: Row) -> Row:
        return max(one, other, key=lambda row: row["delay"])

    harness = Harness(WindowReduce(FLIGHTS, "dest", assigner, "at", later))
    harness.process([{"dest": "ORD", "at": time, "delay": delay} for time, delay in [(0, 3), (14, 9), (4, 5), (8, 1)]])
    fired = [(row["at"], row["delay"]) for row in harness.watermark(MAX_WATERMARK_MS)]
    if isinstance(assigner, EventTimeSessionWindows):
        assert fired == [(4, 5), (14, 9)]
    else:
        assert fired == [(4, 5), (4, 5), (14, 9), (14, 9)]


def test_a_window_function_sees_all_rows_also_of_sessions_that_merged() -> None:
    returns = pa.schema([("dest", pa.string()), ("times", pa.list_(pa.int64())), ("from", pa.int64())])

    def times(key: str, window, some: list[Row]) -> list[Row]:
        return [{"dest": key, "times": sorted(row["at"] for row in some), "from": window.start_ms}]

    harness = Harness(WindowProcess(FLIGHTS, "dest", EventTimeSessionWindows(10), "at", times, returns))
    harness.process(at(20))
    harness.process(at(0))
    harness.process(at(50, 10))
    assert harness.watermark(35) == [{"dest": "ORD", "times": [0, 10, 20], "from": 0}]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (WindowReduce, r"per ten: function .*wrong failed on rows .*: ZeroDivisionError"),
        (WindowProcess, r"per ten: function .*wrong failed on key 'ORD' and Window\(start_ms=0, end_ms=10\) with 2"),
    ],
)
def test_a_function_that_fails_is_named(spec, said) -> None:
    def wrong(*_: Any) -> Any:
        return 1 / 0

    harness = Harness(spec(FLIGHTS, "dest", TumblingEventTimeWindows(10), "at", wrong, name="per ten"))

    def run() -> None:
        harness.process(at(0, 0))
        harness.watermark(9)

    with pytest.raises(UserFunctionError, match=said):
        run()


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="gap_ms must be 1 or more"):
        EventTimeSessionWindows(0)
    with pytest.raises(ValueError, match="offset_ms smaller than slide_ms"):
        SlidingEventTimeWindows(10, 5, 5)
    windows = TumblingEventTimeWindows(10)
    with pytest.raises(ValueError, match="allowed_lateness_ms is -1"):
        WindowAggregate(FLIGHTS, "dest", windows, "at", (count(),), allowed_lateness_ms=-1)
    with pytest.raises(SchemaError, match="its columns must be the stream's"):
        WindowAggregate(FLIGHTS, "dest", windows, "at", (count(),), late_tag=OutputTag("late", {"at": pa.int64()}))

"""Event times at the ends of int64: windows stop there instead of overflowing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from kit.core.event_time import MAX_WATERMARK_MS as LAST
from kit.core.event_time import MIN_WATERMARK_MS as FIRST
from kit.stream.operators.aggregates import count
from kit.stream.operators.watermarks import event_times_ms
from kit.stream.operators.windows.cumulative_windows import CumulativeEventTimeWindows
from kit.stream.operators.windows.saturating_times import aligned, shifted
from kit.stream.operators.windows.window import WindowAggregate
from kit.stream.operators.windows.window_assigners import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from tests.stream.operators.harness import Harness, restored

ROWS = pa.schema([("k", pa.string()), ("at", pa.int64())])
NEAR = (FIRST, FIRST + 3, FIRST + 12, FIRST + 1_000, -5, 0, 7, LAST - 1_000, LAST - 12, LAST - 3, LAST - 1, LAST)


def counting(assigner: WindowAssigner, lateness_ms: int = 0) -> Harness:
    return Harness(WindowAggregate(ROWS, ("k",), assigner, "at", (count(),), allowed_lateness_ms=lateness_ms, name="x"))


def rows(*times: int) -> list[dict[str, object]]:
    return [{"k": "a", "at": at} for at in times]


@pytest.mark.parametrize("by_ms", [0, 1, 10, -1, -10])
def test_shifted_times_are_those_of_unlimited_numbers_cut_off_at_the_ends(by_ms: int) -> None:
    expected = [min(max(at + by_ms, FIRST), LAST) for at in NEAR]
    assert shifted(np.array(NEAR), by_ms).tolist() == expected
    assert [int(shifted(np.array([at]), by_ms)[0]) for at in NEAR] == expected


@pytest.mark.parametrize(("size_ms", "offset_ms"), [(1, 0), (10, 0), (10, 3), (10, -7), (7, 6)])
def test_aligned_times_are_those_of_unlimited_numbers_cut_off_at_the_ends(size_ms: int, offset_ms: int) -> None:
    expected = [max((at - offset_ms) // size_ms * size_ms + offset_ms, FIRST) for at in NEAR]
    assert aligned(np.array(NEAR), size_ms, offset_ms).tolist() == expected
    assert [int(aligned(np.array([at]), size_ms, offset_ms)[0]) for at in NEAR] == expected


@pytest.mark.parametrize("lateness_ms", [0, 7])
@pytest.mark.parametrize(
    "assigner",
    [
        TumblingEventTimeWindows(10),
        TumblingEventTimeWindows(10, 3),
        SlidingEventTimeWindows(10, 5),
        SlidingEventTimeWindows(10, 3, 1),
        CumulativeEventTimeWindows(12, 4),
        EventTimeSessionWindows(10),
    ],
    ids=repr,
)
def test_every_row_is_counted_in_windows_that_begin_before_they_end(assigner: WindowAssigner, lateness_ms: int) -> None:
    harness = counting(assigner, lateness_ms)
    harness.process(rows(*NEAR))
    (again,) = restored(harness.spec, [harness.snapshot()])
    again.process(rows(LAST - 2))
    fired = again.watermark(LAST)
    assert all(row["window_start"] < row["window_end"] for row in fired if row["window_start"] < LAST)
    for at in (*NEAR, LAST - 2):
        assert any(row["window_start"] <= at <= row["window_end"] for row in fired), at
    assert sum(row["count"] for row in fired) >= len(NEAR) + 1
    assert harness.late_rows["LateRowsDropped"] == again.late_rows["LateRowsDropped"] == 0
    assert again.snapshot().keyed is None


def test_a_session_within_its_gap_of_the_end_takes_the_rows_of_several_batches() -> None:
    harness = counting(EventTimeSessionWindows(10))
    harness.watermark(0)
    harness.process(rows(5, LAST - 9, LAST - 10, LAST - 11))
    harness.process(rows(LAST - 2))
    assert [(row["window_start"], row["window_end"], row["count"]) for row in harness.watermark(LAST)] == [
        (5, 15, 1),
        (LAST - 11, LAST, 4),
    ]


def test_seconds_beyond_the_largest_time_in_ms_stop_there() -> None:
    seconds = pa.record_batch([pa.array([LAST, 1, FIRST], pa.timestamp("s"))], ["at"])
    last_second, first_second = LAST // 1000 * 1000, -(LAST // 1000 * 1000)
    assert event_times_ms(seconds, "at", "x").tolist() == [last_second, 1_000, first_second]

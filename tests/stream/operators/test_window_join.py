"""Window join: the pairs of a loop over windows, whatever the batches, watermarks, failures and subtasks."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.core.event_time import MAX_WATERMARK_MS, MIN_WATERMARK_MS
from kit.stream.operators.windows.window_assigners import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from kit.stream.operators.windows.window_join import WindowJoin
from tests.properties import examples
from tests.stream.operators.harness import Fleet, Harness
from tests.stream.operators.test_interval_join import LEFT, RIGHT, rows_of, steps

assigners = st.one_of(
    st.builds(TumblingEventTimeWindows, st.integers(1, 20)),
    st.builds(SlidingEventTimeWindows, st.integers(1, 20), st.integers(1, 12)),
)


def windows_of(at: int, assigner: object) -> set[int]:
    size = assigner.size_ms
    slide = getattr(assigner, "slide_ms", size)
    return {start for start in range(at - size + 1, at + 1) if start % slide == 0}


@settings(max_examples=examples(80))
@given(assigners, steps, st.integers(1, 3))
def test_the_pairs_are_those_of_a_loop_over_windows(assigner, given_steps, parallelism) -> None:
    fleet, number, watermark_ms = Fleet(WindowJoin(LEFT, RIGHT, assigner), parallelism), 0, MIN_WATERMARK_MS
    kept: list[list[tuple[str, int, int]]] = [[], []]
    expected: Counter[tuple[int, int]] = Counter()
    emitted: Counter[tuple[int, int]] = Counter()
    last = assigner.size_ms - 1
    for some, side, advanced_to, subtasks in given_steps:
        fleet.process(rows_of(some, side, number), [("id", "order")[side]], side)
        for key, at in some:
            mine = {start for start in windows_of(at, assigner) if start + last > watermark_ms}
            kept[side].append((key, number, mine))
            number += 1
        if subtasks:
            fleet.rescale(subtasks)
        if advanced_to > watermark_ms:
            watermark_ms = advanced_to
            emitted += Counter((pair["n"], pair["m"]) for pair in fleet.watermark(watermark_ms))
    emitted += Counter((pair["n"], pair["m"]) for pair in fleet.watermark(MAX_WATERMARK_MS))
    for key, n, mine in kept[0]:
        expected += Counter((n, m) for other, m, theirs in kept[1] if other == key for _ in mine & theirs)
    assert emitted == expected
    assert fleet.is_empty


def test_pairs_leave_by_window_then_by_time_of_the_left_and_of_the_right() -> None:
    harness = Harness(WindowJoin(LEFT, RIGHT, TumblingEventTimeWindows(10)))
    harness.process(rows_of([("a", 12), ("a", 5), ("a", 3)], 0, 0))
    harness.process(rows_of([("a", 11), ("a", 6), ("a", 2), ("b", 2)], 1, 0), 1)
    assert [(pair["n"], pair["m"]) for pair in harness.watermark(19)] == [(2, 2), (2, 1), (1, 2), (1, 1), (0, 0)]


@pytest.mark.parametrize(("watermark", "late"), [(8, 0), (9, 1)])
def test_a_row_is_late_from_the_last_millisecond_of_its_window_on(watermark, late) -> None:
    harness = Harness(WindowJoin(LEFT, RIGHT, TumblingEventTimeWindows(10)))
    harness.watermark(watermark)
    harness.process(rows_of([("a", 1)], 0, 0))
    assert harness.late_rows["LateRowsDropped"] == late


def test_sessions_are_refused() -> None:
    with pytest.raises(ValueError, match="sessions of two streams cannot be joined"):
        WindowJoin(LEFT, RIGHT, EventTimeSessionWindows(5))

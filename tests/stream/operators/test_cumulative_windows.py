"""Cumulative windows: Flink's examples, an operator that takes row by row, and a job that is killed and rescaled."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit import (
    CheckpointConfig,
    CollectionSource,
    CollectSink,
    CumulativeEventTimeWindows,
    FixedDelay,
    Lab,
    StreamEnvironment,
    count,
    sum_,
)
from tests.properties import examples
from tests.stream.operators.test_window_kinds import RowByRow, hold_to, steps

HOUR_MS = 3_600_000


def windows(assigner: CumulativeEventTimeWindows, at: int) -> list[tuple[int, int]]:
    _, ids = assigner.assign(np.array([at]))
    return list(zip(assigner.starts(ids).tolist(), assigner.ends(ids).tolist(), strict=True))


@pytest.mark.parametrize("offset", [0, 100, -100])
def test_windows_are_those_of_flink(offset: int) -> None:
    assigner = CumulativeEventTimeWindows(5_000, 1_000, offset)
    for start in (offset, 5_000 + offset, offset - 5_000):
        every = [(start, start + end) for end in range(1_000, 5_001, 1_000)]
        assert windows(assigner, start) == every
        assert windows(assigner, start + 2_000) == every[2:]
        assert windows(assigner, start + 4_999) == every[4:]


@pytest.mark.parametrize("wrong", [(10, 0), (0, 1), (10, 3), (-10, -5), (10, 5, 10)])
def test_sizes_that_do_not_fit_are_refused(wrong: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"CumulativeEventTimeWindows\(.* a multiple of it"):
        CumulativeEventTimeWindows(*wrong)


class CumulativeRowByRow(RowByRow):
    def bounds(self, at: int) -> list[tuple[int, int]]:
        size, step, offset = self.assigner.size_ms, self.assigner.step_ms, self.assigner.offset_ms
        (start,) = (time for time in range(at - size + 1, at + 1) if (time - offset) % size == 0)
        return [(start, end) for end in range(start + step, start + size + 1, step) if end > at]


assigners = st.builds(
    lambda step, times, offset: CumulativeEventTimeWindows(step * times, step, offset % (step * times)),
    st.integers(1, 8),
    st.integers(1, 5),
    st.integers(0, 40),
)


@settings(max_examples=examples(60))
@given(assigners, steps, st.integers(0, 15), st.integers(1, 3))
def test_they_are_those_of_an_operator_that_takes_row_by_row(assigner, given_steps, lateness, parallelism) -> None:
    hold_to(CumulativeRowByRow(assigner, lateness), given_steps, parallelism)


def job(parallelism: int) -> StreamEnvironment:
    midnight = dt.datetime(2013, 1, 1)  # noqa: DTZ001
    rows = [{"at": midnight + dt.timedelta(minutes=7 * n), "dest": "ABC"[n % 3], "delay": n % 11} for n in range(600)]
    env = StreamEnvironment(
        "today so far",
        parallelism=parallelism,
        max_parallelism=8,
        checkpoint=CheckpointConfig(interval_ms=20),
        restart=FixedDelay(10, 0),
    )
    stream = env.from_source(CollectionSource(rows, batch_rows=10), uid="flights").assign_timestamps("at")
    today = stream.key_by("dest").window(CumulativeEventTimeWindows(24 * HOUR_MS, HOUR_MS))
    today.aggregate(flights=count(), delay=sum_("delay")).uid("today").sink_to(CollectSink(), uid="out")
    return env


def test_a_job_says_every_hour_what_came_since_midnight_through_a_kill_and_a_rescale() -> None:
    lab = Lab(job(2), seed=3)
    lab.run_until(checkpoint=2)
    lab.faults.kill(1)
    lab.run_until(checkpoint=4)
    request = lab.stop()
    lab.run()
    after = Lab(job(3), restore_path=lab.look.answer(request), after=lab)
    after.run()
    rows = pd.DataFrame({"n": range(600)})
    rows["at"] = pd.Timestamp("2013-01-01") + pd.to_timedelta(7 * rows["n"], unit="min")
    rows["dest"] = [("ABC"[n % 3]) for n in rows["n"]]
    rows["window_start"] = rows["at"].dt.floor("D")
    expected = {}
    for hour in pd.date_range("2013-01-01 01:00", "2013-01-04", freq="h"):
        so_far = rows[(rows["at"] < hour) & (rows["window_start"] == (hour - pd.Timedelta(1, "ns")).floor("D"))]
        for dest, some in so_far.groupby("dest"):
            expected[dest, hour] = (some["window_start"].iloc[0], len(some), int((some["n"] % 11).sum()))
    found = after.output()
    assert len(found) == len(expected)
    for row in found.itertuples():
        assert expected[row.dest, row.window_end] == (row.window_start, row.flights, row.delay)

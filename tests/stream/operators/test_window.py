"""Event-time windows: the same as a count by hand, for any order, watermarks and failures."""

from __future__ import annotations

import datetime as dt

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.core.event_time import MAX_WATERMARK_MS, MIN_WATERMARK_MS
from kit.stream.operators.aggregates import count, sum_
from kit.stream.operators.spec import SchemaError
from kit.stream.operators.windows.window import WindowAggregate
from kit.stream.operators.windows.window_assigners import TumblingEventTimeWindows, WindowAssigner
from tests.properties import examples
from tests.stream.operators.harness import Harness, Row, restored

FLIGHTS = pa.schema([("dest", pa.string()), ("at", pa.int64()), ("delay", pa.int64())])

rows = st.lists(
    st.fixed_dictionaries(
        {
            "dest": st.sampled_from(["ORD", "SFO", "LAX"]),
            "at": st.integers(-50, 50),
            "delay": st.none() | st.integers(0, 100),
        }
    ),
    max_size=10,
)
steps = st.lists(st.tuples(rows, st.integers(-60, 60), st.booleans()), max_size=8)
"""Rows, then perhaps a watermark, then perhaps a failure."""


def in_pandas(given_rows: list[Row], size: int, offset: int) -> list[Row]:
    """All windows, by end and key."""
    frame = pd.DataFrame(given_rows, columns=FLIGHTS.names).astype({"delay": "Int64"})
    frame["window_start"] = (frame["at"] - offset) // size * size + offset
    grouped = frame.groupby(["dest", "window_start"])
    totals = pd.DataFrame({"count": grouped.size(), "sum_delay": grouped["delay"].sum(min_count=1)}).reset_index()
    return [
        {
            "dest": row["dest"],
            "window_start": row["window_start"],
            "window_end": row["window_start"] + size,
            "count": row["count"],
            "sum_delay": None if pd.isna(row["sum_delay"]) else row["sum_delay"],
        }
        for row in totals.to_dict("records")
    ]


def by_window(emitted: list[Row]) -> list[Row]:
    return sorted(emitted, key=lambda row: (row["window_end"], row["dest"]))


@settings(max_examples=examples(60), deadline=None)
@given(steps, st.integers(1, 20), st.data())
def test_windows_are_those_of_pandas_and_late_rows_are_counted(given_steps, size, data) -> None:
    offset = data.draw(st.integers(1 - size, size - 1))
    spec = WindowAggregate(FLIGHTS, "dest", TumblingEventTimeWindows(size, offset), "at", (count(), sum_("delay")))
    harness = Harness(spec)
    watermark, late, kept, emitted = MIN_WATERMARK_MS, 0, [], []
    for some, advanced_to, fails in given_steps:
        on_time = [row for row in some if (row["at"] - offset) // size * size + offset + size - 1 > watermark]
        kept += on_time
        late += len(some) - len(on_time)
        assert harness.process(some) == []
        if fails:
            dropped = harness.late_rows["LateRowsDropped"]
            (harness,) = restored(spec, [harness.snapshot()])
            harness.late_rows["LateRowsDropped"] = dropped
            harness.watermark(watermark)
        if advanced_to > watermark:
            watermark = advanced_to
            emitted += harness.watermark(watermark)
            assert all(row["window_end"] - 1 <= watermark for row in emitted)
    emitted += harness.watermark(MAX_WATERMARK_MS)
    assert by_window(emitted) == by_window(in_pandas(kept, size, offset))
    assert harness.late_rows["LateRowsDropped"] == late
    assert harness.snapshot().keyed is None


def test_windows_move_with_their_keys_on_a_rescale() -> None:
    spec = WindowAggregate(FLIGHTS, "dest", TumblingEventTimeWindows(10), "at", (count(),))
    airports = [f"A{number}" for number in range(40)]
    one = Harness(spec)
    one.process([{"dest": dest, "at": at} for dest in airports for at in (1, 11)])
    three = restored(spec, [one.snapshot()], 3)
    parts = [harness.watermark(9) for harness in three]
    assert all(parts)
    assert sorted(row["dest"] for part in parts for row in part) == sorted(airports)
    (merged,) = restored(spec, [harness.snapshot() for harness in three])
    fired = merged.watermark(19)
    assert sorted(row["dest"] for row in fired) == sorted(airports)
    assert {row["window_start"] for row in fired} == {10}


def test_all_windows_due_leave_as_one_batch_before_the_watermark_by_end() -> None:
    spec = WindowAggregate(FLIGHTS, ("dest",), TumblingEventTimeWindows(10), "at", (count(),))
    harness = Harness(spec)
    harness.process([{"dest": dest, "at": at} for at in (25, 5, 15) for dest in ("SFO", "ORD")])
    harness.watermark(19)
    batch, watermark = harness.output.elements
    assert watermark == 19
    assert batch.column("window_end").to_pylist() == [10, 10, 20, 20]
    again = Harness(spec)
    again.process([{"dest": dest, "at": at} for at in (5, 15) for dest in ("ORD", "SFO")])
    assert again.watermark(19) == batch.to_pylist()


@pytest.mark.parametrize(("watermark", "late"), [(8, 0), (9, 1)])
def test_a_row_is_late_from_the_last_millisecond_of_its_window_on(watermark, late) -> None:
    harness = Harness(WindowAggregate(FLIGHTS, "dest", TumblingEventTimeWindows(10), "at", (count(),)))
    harness.watermark(watermark)
    harness.process([{"dest": "ORD", "at": 0}])
    assert harness.late_rows["LateRowsDropped"] == late
    assert len(harness.watermark(9)) == 1 - late


def test_days_of_timestamps_are_named_by_timestamps() -> None:
    schema = pa.schema([("dest", pa.string()), ("hour", pa.timestamp("us", tz="UTC"))])
    day_ms = 24 * 60 * 60 * 1000
    spec = WindowAggregate(schema, "dest", TumblingEventTimeWindows(day_ms), "hour", count().as_("flights"))
    harness = Harness(spec)
    harness.process([{"dest": "ORD", "hour": dt.datetime(2013, 1, 1, hour, tzinfo=dt.UTC)} for hour in (5, 23)])
    assert harness.watermark(MAX_WATERMARK_MS) == [
        {
            "dest": "ORD",
            "window_start": dt.datetime(2013, 1, 1, tzinfo=dt.UTC),
            "window_end": dt.datetime(2013, 1, 2, tzinfo=dt.UTC),
            "flights": 2,
        }
    ]


class HoppingWindows(WindowAssigner):
    """Windows of 10 ms every 5 ms: what an assigner may do that gives a row several windows."""

    def assign(self, times_ms):
        import numpy as np

        last = times_ms // 5 * 5
        return np.repeat(np.arange(len(times_ms)), 2), np.stack([last - 5, last], axis=1).ravel()

    def ends(self, windows):
        return windows + 10


def test_an_assigner_may_give_a_row_several_windows() -> None:
    harness = Harness(WindowAggregate(FLIGHTS, "dest", HoppingWindows(), "at", (count(),)))
    harness.process([{"dest": "ORD", "at": at} for at in (1, 6)])
    counts = [(row["window_start"], row["count"]) for row in harness.watermark(MAX_WATERMARK_MS)]
    assert counts == [(-5, 1), (0, 2), (5, 1)]


def test_a_row_without_a_time_is_refused() -> None:
    harness = Harness(WindowAggregate(FLIGHTS, "dest", TumblingEventTimeWindows(10), "at", (count(),), name="per day"))
    with pytest.raises(ValueError, match=r"per day: no event time: column 'at' is null in row \{'dest': 'SFO'"):
        harness.process([{"dest": "ORD", "at": 1}, {"dest": "SFO"}])


@pytest.mark.parametrize(
    ("keys", "time", "said"),
    [
        ("origin", "at", "no column 'origin'"),
        ("dest", "hour", "no column 'hour'; the columns are 'dest', 'at', 'delay'"),
        ("dest", "dest", "column 'dest' is string, but event time is a timestamp or int64 ms"),
    ],
)
def test_a_spec_that_does_not_fit_is_refused(keys, time, said) -> None:
    with pytest.raises(SchemaError, match=said):
        WindowAggregate(FLIGHTS, keys, TumblingEventTimeWindows(10), time, (count(),))


@pytest.mark.parametrize(("size", "offset"), [(0, 0), (-1, 0), (10, 10), (10, -10)])
def test_windows_have_a_size_and_a_smaller_offset(size, offset) -> None:
    with pytest.raises(ValueError, match="size_ms must be 1 or more"):
        TumblingEventTimeWindows(size, offset)

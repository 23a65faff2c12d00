"""Watermarks follow the largest event time at a bounded distance."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from kit.core.event_time import MAX_WATERMARK_MS
from kit.stream.operators.spec import SchemaError
from kit.stream.operators.watermarks import TimestampsAndWatermarks
from tests.stream.operators.harness import Harness

EVENTS = pa.schema([("at", pa.int64())])


def times(*values: int) -> list[dict[str, int]]:
    return [{"at": value} for value in values]


def test_a_watermark_follows_each_batch_that_advances_it() -> None:
    harness = Harness(TimestampsAndWatermarks(EVENTS, "at", out_of_orderness_ms=5))
    harness.process(times(10, 20, 15))
    harness.process(times(20, 1))
    harness.process(times(21))
    kinds = [element if isinstance(element, int) else "batch" for element in harness.output.elements]
    assert kinds == ["batch", 14, "batch", "batch", 15]


def test_only_the_end_of_event_time_is_handed_on() -> None:
    harness = Harness(TimestampsAndWatermarks(EVENTS, "at"))
    harness.watermark(1_000)
    assert harness.watermarks == []
    harness.watermark(MAX_WATERMARK_MS)
    harness.watermark(MAX_WATERMARK_MS)
    assert harness.watermarks == [MAX_WATERMARK_MS]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_of_any_unit_are_rounded_down_to_ms(unit) -> None:
    harness = Harness(TimestampsAndWatermarks(pa.schema([("at", pa.timestamp(unit, tz="UTC"))]), "at"))
    harness.process([{"at": dt.datetime(1970, 1, 1, 0, 0, 2, tzinfo=dt.UTC)}])
    assert harness.watermarks == [1_999]


def test_times_before_1970_are_rounded_down_too() -> None:
    harness = Harness(TimestampsAndWatermarks(pa.schema([("at", pa.timestamp("us"))]), "at"))
    harness.process(pa.record_batch([pa.array([-1], pa.timestamp("us"))], ["at"]))
    assert harness.watermarks == [-2]


def test_a_null_is_refused_with_its_row() -> None:
    harness = Harness(TimestampsAndWatermarks(EVENTS, "at"))
    with pytest.raises(ValueError, match=r"column 'at' is null in row \{'at': None\}; filter such rows out"):
        harness.process([{"at": 1}, {"at": None}])


def test_a_spec_that_does_not_fit_is_refused() -> None:
    with pytest.raises(SchemaError, match="no column 'time'; the columns are 'at'"):
        TimestampsAndWatermarks(EVENTS, "time")
    with pytest.raises(SchemaError, match="column 'at' is date32"):
        TimestampsAndWatermarks(pa.schema([("at", pa.date32())]), "at")
    with pytest.raises(ValueError, match="out_of_orderness_ms is -1"):
        TimestampsAndWatermarks(EVENTS, "at", -1)


def test_the_next_look_is_when_the_first_of_several_splits_becomes_idle() -> None:
    harness = Harness(TimestampsAndWatermarks(EVENTS, "at", idle_ms=100))
    splits = harness.operator.follow_splits()
    splits.register(["a", "b", "c"])
    harness.processing_time_ms = 60
    harness.process([{"at": 5}])
    for sequence, since_ms in (("a", 20), ("b", 10), ("c", 15)):
        splits.nothing_now(sequence, since_ms)
    for now_ms, next_ms in ((80, 105), (100, 110), (110, 115), (115, 120), (120, 145), (150, 160)):
        harness.processing_time_ms = now_ms
        harness.operator.on_processing_time(now_ms)
        assert harness.operator.next_processing_time_ms() == next_ms


def test_a_subtask_without_records_says_that_it_is_idle_until_event_time_goes_on() -> None:
    harness = Harness(TimestampsAndWatermarks(EVENTS, "at", idle_ms=100))
    operator = harness.operator
    assert operator.next_processing_time_ms() == 25, "it looks four times"
    harness.processing_time_ms = 60
    harness.process([{"at": 5}])
    harness.processing_time_ms = 100
    operator.on_processing_time(100)
    assert operator.next_processing_time_ms() == 125, "a record came meanwhile"
    harness.processing_time_ms = 150
    operator.on_processing_time(150)
    assert operator.next_processing_time_ms() == 160
    harness.processing_time_ms = 160
    harness.activity.has_nothing = False
    operator.on_processing_time(160)
    assert operator.next_processing_time_ms() == 185, "there are rows"
    harness.processing_time_ms, harness.activity.has_nothing = 185, True
    operator.on_processing_time(185)
    assert operator.next_processing_time_ms() is None
    harness.process([{"at": 5}])
    harness.process([{"at": 6}])
    operator.process_watermark_status(idle=True)
    statuses = [element for element in harness.output.elements if not isinstance(element, pa.RecordBatch)]
    assert statuses == [4, "idle", "active", 5]


def test_the_end_of_event_time_ends_idleness() -> None:
    harness = Harness(TimestampsAndWatermarks(EVENTS, "at", idle_ms=100))
    harness.processing_time_ms = 100
    harness.operator.on_processing_time(100)
    harness.watermark(MAX_WATERMARK_MS)
    assert harness.output.elements == ["idle", "active", MAX_WATERMARK_MS]
    assert harness.operator.next_processing_time_ms() is None
    with pytest.raises(ValueError, match="idle_ms is 0"):
        TimestampsAndWatermarks(EVENTS, "at", idle_ms=0)

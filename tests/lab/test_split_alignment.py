"""Splits that have nothing for long, and splits that are too far ahead of others."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from kit import CheckpointConfig, CollectSink, Lab, StreamEnvironment, TumblingEventTimeWindows, count
from kit.stream.operators.sources.source import ReadResult, Split
from kit.stream.operators.watermarks import TimestampsAndWatermarks
from tests.lab.test_endless_sources import read_all, steps
from tests.operators.growing import SCHEMA, Endless


def job(source: Endless, parallelism: int = 1, *, idle_ms: int | None = None, drift_ms: int | None = None) -> Lab:
    env = StreamEnvironment(
        "timed", parallelism=parallelism, max_parallelism=8, checkpoint=CheckpointConfig(interval_ms=50)
    )
    timed = env.from_source(source, uid="rows").assign_timestamps("t")
    if idle_ms is not None:
        timed = timed.with_idleness(idle_ms)
    if drift_ms is not None:
        timed = timed.with_alignment(drift_ms)
    windows = timed.key_by("split").window(TumblingEventTimeWindows(100)).aggregate(n=count())
    windows.sink_to(CollectSink("counts"), uid="out")
    return Lab(env)


def last_window(lab: Lab, at_ms: int) -> int:
    """The start of the last window that was published by then, -1 if none was."""
    lab.run_until(at_ms=lab.look.at_ms + at_ms)
    output = lab.output("counts")
    return -1 if output.empty else int(output["window_start"].max())


def test_a_split_without_rows_holds_event_time_back_until_it_is_idle() -> None:
    source = Endless("ab", {"a": 50, "b": 10}, batch_rows=10)
    holding = job(source)
    read_all(holding, source)
    assert last_window(holding, 2_000) == -1  # rows of b at 100 and later may still come
    source = Endless("ab", {"a": 50, "b": 10}, batch_rows=10)
    lab = job(source, idle_ms=500)
    read_all(lab, source)
    assert last_window(lab, 200) == -1
    assert last_window(lab, 1_000) == 300
    source.rows["a"] = 100
    assert last_window(lab, 1_000) == 800, "b still does not count"
    assert not lab.look.late_rows_dropped


def test_an_idle_split_counts_again_with_its_next_row() -> None:
    source = Endless("ab", {"a": 50, "b": 10}, batch_rows=10)
    lab = job(source, idle_ms=500)
    read_all(lab, source)
    assert last_window(lab, 1_500) == 300
    source.rows["b"] = 60
    read_all(lab, source)
    source.rows["a"] = 200
    read_all(lab, source)
    assert last_window(lab, 300) == 400  # b is at 590, and not idle
    assert sum(lab.look.late_rows_dropped.values()) == 30, "the rows of b from 100 to 399 came too late"


def test_a_split_that_has_rows_is_not_idle_because_its_reader_is_elsewhere() -> None:
    source = Endless("ab", {"a": 400, "b": 400}, batch_rows=1)
    lab = job(source, idle_ms=1)
    read_all(lab, source)
    steps(lab, 200)
    assert not lab.look.late_rows_dropped


@dataclass(frozen=True, eq=False)
class Uneven(Endless):
    """Time passes ten times as fast in split `a`."""

    def read_split(self, split: Split, position: int, max_rows: int) -> ReadResult:
        read = super().read_split(split, position, max_rows)
        if split["id"] != "a" or read.batch is None:
            return read
        rows = [row | {"t": 10 * row["t"]} for row in read.batch.to_pylist()]
        return ReadResult(read.batch.from_pylist(rows, schema=SCHEMA), read.position, read.finished)


def ahead(lab: Lab) -> int:
    """By how much the time of split a is ahead of that of b."""
    heads = (task.chain.head for task in lab.look.tasks.values() if task.is_source)
    at = {split["id"]: position for head in heads for split, position in head.splits}  # type: ignore[attr-defined]
    return 100 * at["a"] - 10 * at["b"] if {"a", "b"} <= set(at) else 0


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_split_that_is_too_far_ahead_waits_for_the_others(parallelism: int) -> None:
    furthest = {}
    for drift_ms in (None, 2_000):
        source = Uneven("ab", {"a": 4_000, "b": 4_000}, batch_rows=5)
        lab = job(source, parallelism, drift_ms=drift_ms)
        lab.run_until(record="AllTasksRunning")
        furthest[drift_ms] = 0
        while lab.look.at_ms < 6_000 and sum(rows for _, rows in source.reads) < 2_000:
            lab.step()
            furthest[drift_ms] = max(furthest[drift_ms], ahead(lab))
    assert furthest[None] > 50_000
    assert 0 < furthest[2_000] < 40_000


def test_all_rows_are_read_when_splits_wait_for_each_other() -> None:
    source = Uneven("ab", {"a": 60, "b": 600}, batch_rows=5)
    lab = job(source, 2, drift_ms=300)
    read_all(lab, source)
    source.rows["b"] = 601
    read_all(lab, source)
    assert not lab.look.late_rows_dropped


def test_a_drift_has_to_be_something() -> None:
    with pytest.raises(ValueError, match="max_drift_ms is 0, but must be 1 or more"):
        TimestampsAndWatermarks(SCHEMA, "t", max_drift_ms=0)

"""Rows that arrive too late are dropped, as in Flink, and the user gets a warning."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kit import (
    CheckpointConfig,
    CollectionSource,
    CollectSink,
    Lab,
    OutputTag,
    StreamEnvironment,
    TumblingEventTimeWindows,
    count,
)
from kit.draw.charts.live import live_of
from kit.hosts.lab.errors import LabWarning
from kit.hosts.spark import SparkJob
from kit.stream.operators.windows.late_rows import LateCount
from tests.hosts.spark.jobs import ThreadGang

SCHEMA = pa.schema([("sensor", pa.string()), ("at", pa.int64())])
ROWS = [{"sensor": "a", "at": at} for at in (0, 5_000, 100, 200, 9_000, 300)]
"""With windows of a second three of them are late."""
WARNING = "'counts' has dropped 3 rows that came after the watermark had passed their time. why"


def rows_of(env: StreamEnvironment) -> Any:
    # One row in each batch: a watermark follows every batch.
    source = CollectionSource(ROWS, batch_rows=1, splits=1)
    return env.from_source(source, uid="rows").assign_timestamps("at").key_by("sensor")


def environment(**settings: Any) -> StreamEnvironment:
    return StreamEnvironment("counting", parallelism=1, checkpoint=CheckpointConfig(interval_ms=20), **settings)


def windowed(late: OutputTag | None = None, **settings: Any) -> StreamEnvironment:
    env = environment(**settings)
    windows = rows_of(env).window(TumblingEventTimeWindows("1s"))
    if late is not None:
        windows = windows.side_output_late_data(late)
    counts = windows.aggregate(n=count()).uid("counts").name("counts")
    counts.sink_to(CollectSink("out"), uid="out")
    return env


def test_a_lab_warns_of_them() -> None:
    lab = Lab(windowed())
    assert "late" not in repr(lab)
    with pytest.warns(LabWarning, match=WARNING) as warned:
        lab.run()
    assert len(warned) == 1
    assert lab.look.late_rows_dropped == {"counts": 3}
    assert repr(lab).endswith(", 3 late rows dropped)")
    assert lab.output("out")["n"].sum() == 3


def test_late_rows_of_an_interval_join_are_kept_apart_by_side() -> None:
    env = environment()
    late = {side: OutputTag(f"late {side}", SCHEMA) for side in ("left", "right")}
    left, right = (
        env.from_source(CollectionSource(ROWS, batch_rows=1, splits=1), uid=side).assign_timestamps("at")
        for side in ("left", "right")
    )
    right = right.rename(sensor="other", at="then")
    late["right"] = OutputTag("late right", right.schema)
    joined = left.key_by("sensor").interval_join(right.key_by("other")).between(0, 0)
    pairs = joined.side_output_left_late_data(late["left"]).side_output_right_late_data(late["right"]).join()
    pairs.uid("pairs").sink_to(CollectSink("out"), uid="out")
    for side, tag in late.items():
        pairs.side_output(tag).sink_to(CollectSink(side), uid=f"late {side}")
    lab = Lab(env)
    lab.run()
    kept = {side: set(lab.output(side)[column]) for side, column in (("left", "at"), ("right", "then"))}
    assert kept["left"] | kept["right"] == {100, 200, 300}
    assert set(lab.output("out")["at"]) == {row["at"] for row in ROWS} - kept["left"] - kept["right"]
    assert lab.look.late_rows_dropped == {}


def test_rows_are_late_by_the_most_of_all_batches_so_far() -> None:
    count = LateCount()
    for times_ms, watermark_ms in (([800, 900], 999), ([100, 950, 300], 1_199), ([1_900], 1_999)):
        count.add(np.array(times_ms), watermark_ms)
    assert (count.rows, count.watermark_ms) == (6, 1_999)
    assert count.behind_ms == 1_200 - 100


def test_what_has_not_come_yet_is_not_late() -> None:
    """A lab that is rewound counts from scratch."""
    lab = Lab(windowed())
    with pytest.warns(LabWarning):
        lab.run()
    lab.goto(1)
    assert lab.look.late_rows_dropped == {}


def test_rows_with_a_side_output_are_not_dropped() -> None:
    lab = Lab(windowed(OutputTag("late", SCHEMA)))
    lab.run()
    assert lab.look.late_rows_dropped == {}


@pytest.mark.parametrize("kind", ["window", "interval"])
def test_joins_drop_them_too(kind: str) -> None:
    env = environment()
    stream = rows_of(env)
    source = CollectionSource([{"other": row["sensor"], "then": row["at"]} for row in ROWS], batch_rows=1, splits=1)
    other = env.from_source(source, uid="other").assign_timestamps("then")
    if kind == "window":
        joined = stream.join(other).where("sensor").equal_to("other").window(TumblingEventTimeWindows("1s")).join()
    else:
        joined = stream.interval_join(other.key_by("other")).between(-10, 10).join()
    joined.uid("joined").name("joined").sink_to(CollectSink("out"), uid="out")
    lab = Lab(env)
    with pytest.warns(LabWarning, match="'joined' has dropped 6 rows"):
        lab.run()
    assert lab.look.late_rows_dropped == {"joined": 6}  # three of each side


def test_a_job_on_spark_counts_and_logs_them(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "kit.hosts.spark"), SparkJob(windowed(), launch=ThreadGang) as job:
        job.start()
        assert job.wait() == "FINISHED"
        kept = int(job.output("out")["n"].sum())
        dropped = len(ROWS) - kept
        assert 0 < dropped <= 3  # batches that wait for a worker are joined, and a watermark follows them all
        assert int(job.meters()["late_rows_dropped"].sum()) == dropped
        said = f"{dropped} late row{'s' * (dropped > 1)} dropped"
        assert said in live_of(job)._repr_html_()
        assert repr(job) == f"SparkJob(counting, FINISHED, epoch 1, {said})"
    (record,) = caplog.records
    assert record.getMessage().startswith("job counting: 'counts' has dropped ")

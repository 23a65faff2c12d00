"""Without checkpoints after tasks finish the last rows are never published: both hosts warn when such a job starts."""

from __future__ import annotations

import logging
import warnings

import pytest

from kit import CheckpointConfig, CollectionSource, CollectSink, Lab, StreamEnvironment
from kit.hosts.lab import LabWarning
from kit.hosts.spark import SparkJob
from tests.hosts.spark.jobs import ThreadGang

ROWS = [{"n": n} for n in range(60)]
RISK = r"checkpoints_after_tasks_finish=False .* What memory://out holds then is never published"


def job(*, after_finish: bool) -> StreamEnvironment:
    settings = CheckpointConfig(interval_ms=20, checkpoints_after_tasks_finish=after_finish)
    env = StreamEnvironment("ends", checkpoint=settings)
    rows = env.from_source(CollectionSource(ROWS, batch_rows=1), uid="rows")
    rows.sink_to(CollectSink("out"), uid="out")
    return env


def test_the_lab_warns_of_rows_that_are_never_published() -> None:
    with pytest.warns(LabWarning, match=RISK) as given:
        lab = Lab(job(after_finish=False))
    assert len(given) == 1
    assert given[0].filename == __file__
    lab.run()
    assert lab.status == "FINISHED"
    assert 0 < len(lab.output()) < len(ROWS)


def test_spark_warns_once_of_rows_that_are_never_published(caplog: pytest.LogCaptureFixture) -> None:
    with SparkJob(job(after_finish=False), launch=ThreadGang) as running:
        running.start()
        assert running.wait(timeout_s=60) == "FINISHED"
        assert len(running.output()) < len(ROWS)
    said = [record for record in caplog.records if "never published" in record.getMessage()]
    assert [record.levelno for record in said] == [logging.WARNING]


def test_there_is_no_warning_where_every_row_is_published(caplog: pytest.LogCaptureFixture) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lab = Lab(job(after_finish=True))
    lab.run()
    assert len(lab.output()) == len(ROWS)
    with SparkJob(job(after_finish=True), launch=ThreadGang) as running:
        running.start().wait(timeout_s=60)
        assert len(running.output()) == len(ROWS)
    assert not [record for record in caplog.records if "never published" in record.getMessage()]


def test_stop_publishes_what_the_end_would_not() -> None:
    with pytest.warns(LabWarning, match="end the job with stop"):
        lab = Lab(job(after_finish=False))
    lab.run_until(checkpoint=1)
    lab.stop(wait=True, drain=True)
    rows = sorted(lab.output()["n"])
    assert rows == list(range(len(rows)))
    assert len(rows) > 0

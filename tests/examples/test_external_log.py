"""The example of a master hook: its log has each checkpoint once, whatever failed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from examples.external_log import ExternalLog, in_the_lab, letters_job, main
from kit import Lab
from tests.hosts.spark.conftest import spark_session
from tests.house.files import ROOT


def test_in_the_lab_what_was_written_after_the_checkpoint_is_cut_off(tmp_path: Path) -> None:
    *checkpoints, last = in_the_lab(tmp_path).lines()
    assert last == "the job is over"
    assert checkpoints[:2] == ["checkpoint 1", "checkpoint 2"]
    numbers = [int(line.removeprefix("checkpoint ")) for line in checkpoints]
    assert numbers == sorted(set(numbers))
    assert 3 not in numbers, "the job failed while checkpoint 3 was under way"


def test_a_log_of_another_version_fails_the_restore(tmp_path: Path) -> None:
    log = ExternalLog(tmp_path / "log")
    lab = Lab(letters_job(tmp_path), hooks=[log])
    lab.run_until(checkpoint=1)
    log.serializer = type("Later", (type(log.serializer),), {"version": 2})()
    lab.faults.kill(0)
    lab.run_until(lambda lab: lab.ended)
    assert "the position is of version 1, expected 2" in lab.error


def test_the_example_is_run_by_its_name() -> None:
    command = [sys.executable, "-m", "examples.external_log"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "the job is over"


@pytest.fixture
def spark() -> Iterator[SparkSession]:
    """The session that the example finds: one of its own would take another JVM."""
    yield from spark_session(slots=2)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_on_spark_the_log_ends_with_the_job(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--spark"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "checkpoint 1"
    assert lines[-1] == "the job is over"

"""The example of a master hook: its log tells of each checkpoint once, whatever failed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from examples.external_log import ExternalLog, in_the_lab, letters_job
from kit import Lab
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


@pytest.mark.parametrize(
    "on_spark", [pytest.param(False, id="in_the_lab"), pytest.param(True, marks=pytest.mark.spark)]
)
def test_the_example_is_run_by_its_name(on_spark: bool) -> None:
    command = [sys.executable, "-m", "examples.external_log", *(["--spark"] if on_spark else [])]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "the job is over"

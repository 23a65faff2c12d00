"""Directories of temporary files: deleted when their process ends, or when the next one starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.files import ROOT

RUNS = """
import os, signal, sys
from kit import CollectSink, GeneratorSource, SparkJob, StreamEnvironment
from tests.hosts.spark.jobs import ThreadGang
env = StreamEnvironment("endless", parallelism=2)
env.from_source(GeneratorSource(10**9, 10, rows_per_second=1_000), uid="rows").key_by("key").reduce(
    lambda a, b: b).sink_to(CollectSink("out"))
job = SparkJob(env, launch=ThreadGang).start()
job.trigger_checkpoint()
assert len(os.listdir(os.environ["TMPDIR"])) == 1, os.listdir(os.environ["TMPDIR"])
"""


def left_by(directory: Path, end: str) -> int:
    """Return the exit code of a process that has a job and ends in this way; `directory` has its temporary files."""
    directory.mkdir(exist_ok=True)
    ended = subprocess.run(
        [sys.executable, "-c", RUNS + end],
        env=os.environ | {"TMPDIR": str(directory), "PYTHONPATH": str(ROOT)},
        cwd=directory.parent,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Error" not in ended.stderr, ended.stderr
    return ended.returncode


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("", 0),
        ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
    ],
)
def test_nothing_is_left_when_a_process_ends(tmp_path: Path, end: str, code: int) -> None:
    assert left_by(tmp_path / "t", end) == code
    assert os.listdir(tmp_path / "t") == []


def test_what_a_killed_process_left_goes_with_the_next(tmp_path: Path) -> None:
    directory = tmp_path / "t"
    assert left_by(directory, "os.kill(os.getpid(), signal.SIGKILL)") == -signal.SIGKILL
    assert len(os.listdir(directory)) == 1
    assert left_by(directory, "") == 0  # which has looked that there is one directory only: its own
    assert os.listdir(directory) == []


def test_what_may_be_somebody_elses_stays(tmp_path: Path) -> None:
    directory = tmp_path / "t"
    living = """
import subprocess
code = "from kit.hosts.spark.temporary import process_directory; process_directory()"
subprocess.run([sys.executable, "-c", code], check=True)
assert len(os.listdir(os.environ["TMPDIR"])) == 1
assert job.trigger_checkpoint()
"""
    assert left_by(directory, living) == 0
    without_a_lock = directory / "kit-1234-abc"
    without_a_lock.mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "lock").touch()
    (directory / "kit-link").symlink_to(elsewhere)
    code = "from kit.hosts.spark.temporary import process_directory; process_directory()"
    subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"TMPDIR": str(directory), "PYTHONPATH": str(ROOT)},
        check=True,
        timeout=60,
    )
    assert sorted(os.listdir(directory)) == ["kit-1234-abc", "kit-link"]
    assert (elsewhere / "lock").exists()

"""User-defined parts of the protocol run on Spark too; slots are threads here."""

from __future__ import annotations

import pytest

from kit import Parts, SparkJob
from kit.machines.job.errors import JobFailedError
from tests.hosts.lab import own_parts as own
from tests.hosts.lab.test_parts import ROWS, job
from tests.hosts.spark.jobs import ThreadGang


def test_right_parts_of_ones_own() -> None:
    parts = Parts(barrier_handler=own.Aligner, request_decider=own.FirstComeFirstServed)
    with SparkJob(job(), parts=parts, launch=ThreadGang) as running:
        running.start().wait()
        assert len(running.output()) == len(ROWS)
        assert not running.trace.to_pandas().query("kind == 'CheckpointCompleted'").empty


def test_a_capture_of_ones_own() -> None:
    parts = Parts(channel_state_capture=own.Captures)
    with SparkJob(job(unaligned=True), parts=parts, launch=ThreadGang) as running:
        running.start().wait()
        assert len(running.output()) == len(ROWS)
        assert not running.trace.to_pandas().query("kind == 'CheckpointCompleted'").empty


def test_a_part_that_breaks_ends_the_job_and_is_named() -> None:
    error = "barrier_handler of your own, Raises: KeyError in process_barrier"
    parts = Parts(barrier_handler=own.Raises)
    with SparkJob(job(), parts=parts, launch=ThreadGang) as running, pytest.raises(JobFailedError, match=error):
        running.start().wait()

"""Faults of the surroundings that need no Spark: links that break, a disk that is slow."""

from __future__ import annotations

import ctypes
import re
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from kit.files.storage import CheckpointStorage
from kit.hosts.spark.driver.driver_settings import DriverSettings
from kit.hosts.spark.job import SparkJob
from kit.hosts.spark.wire.endpoint import WireSettings
from tests.hosts.spark.jobs import ThreadGang, await_checkpoint, check_output, generator, staged, totals_job, until

pytestmark = pytest.mark.usefixtures("nothing_left")

SLOW = generator(rows_per_second=30_000)


def cut_between_slots() -> None:
    """The connection of two slots is gone; both still reach the driver."""
    (peer,) = ThreadGang.current.slots[0]._plane._all_peers()
    peer.connection._stream.shutdown()


def cut_to_the_driver() -> None:
    """A slot no longer reaches the driver; the other slot and its tasks are well."""
    ThreadGang.current.slots[1]._driver._connection._stream.shutdown()


@pytest.mark.parametrize(
    ("cut", "said"),
    [(cut_between_slots, r"slot [01] cannot reach it: "), (cut_to_the_driver, "its process died or was stopped")],
    ids=["between two slots", "to the driver"],
)
def test_a_lost_link_costs_no_row_and_repeats_none(tmp_path: Path, cut: Callable[[], None], said: str) -> None:
    with SparkJob(totals_job(tmp_path, SLOW), launch=ThreadGang) as job:
        job.start()
        await_checkpoint(job, 2)
        cut()
        assert job.wait(120) == "FINISHED"
    check_output(tmp_path)
    assert staged(tmp_path) == []
    assert len(job.look.stages) == 2
    (lost,) = [record for record in job.trace if record.kind == "SlotLost"]
    assert re.search(said, lost.data["error"])


def test_a_machine_that_stands_still_loses_nobody(tmp_path: Path) -> None:
    """As under a hypervisor that is busy elsewhere: driver and slots, here one process, hear nothing for twice the
    heartbeat timeout, and then go on."""
    settings = DriverSettings(wire=WireSettings(heartbeat_interval_ms=100, heartbeat_timeout_ms=1_000))
    keeping_pythons_lock = ctypes.PyDLL(None)
    with SparkJob(totals_job(tmp_path, SLOW), launch=ThreadGang, settings=settings) as job:
        job.start()
        for checkpoint in (1, 2):
            await_checkpoint(job, checkpoint)
            keeping_pythons_lock.usleep(2_000_000)
        assert job.status == "RUNNING"
        assert job.wait(120) == "FINISHED"
    check_output(tmp_path)
    assert len(job.look.stages) == 1


def test_a_disk_that_is_slow_costs_checkpoints_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a file takes longer than a checkpoint may, checkpoints expire; when it is quick again, one completes.

    A checkpoint may take several times as long as one does on a busy machine: otherwise none completes there.
    """
    write, slow = CheckpointStorage.write, [True]

    def written(self: CheckpointStorage, path: str, data: bytes | pa.Buffer) -> None:
        time.sleep(1.5 if slow[0] else 0.0)
        write(self, path, data)

    monkeypatch.setattr(CheckpointStorage, "write", written)
    env = totals_job(tmp_path, SLOW, timeout_ms=500, tolerable_failures=1_000, memory_threshold_bytes=0)
    with SparkJob(env, launch=ThreadGang) as job:
        job.start()
        until(lambda: (job.checkpoints()["status"] == "FAILED").sum() >= 3, job)
        assert not (job.checkpoints()["status"] == "COMPLETED").any()
        slow[0] = False
        assert job.wait(120) == "FINISHED"
    assert any("Checkpoint expired before completing" in str(record.data) for record in job.trace)
    check_output(tmp_path)
    assert len(job.look.stages) == 1

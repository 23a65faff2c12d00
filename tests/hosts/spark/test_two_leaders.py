"""Two drivers on one job at once, as processes: the first is frozen, replaced, and thawed again.

Whatever the first was about to do when it was frozen, it has no effect afterwards. It stops with a clear error, every
row is published once, and no unreferenced file is left.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kit.hosts.spark.job import SparkJob
from kit.machines.job.errors import JobFailedError
from tests.hosts.spark.jobs import LASTING, ThreadGang, await_checkpoint, check_output, generator, staged, totals_job
from tests.hosts.spark.test_two_drivers import ROOT, stored_ids
from tests.object_store import ObjectStore, download
from tests.zookeeper import ZooKeeper

FROZEN = {
    "before it asks for an id": ("AllocateCheckpointId", "before", 3),
    "while a task writes its state": ("WriteSnapshot", "before", 9),
    "when that is written": ("WriteSnapshot", "after", 9),
    "while it writes rows of its output": ("WriteRows", "before", 40),
    "before the metadata": ("WriteMetadata", "before", 2),
    "between the metadata and the store": ("StoreCheckpoint", "before", 2),
    "stored, and nobody told": ("StoreCheckpoint", "after", 2),
    "before it publishes": ("CommitEffects", "before", 1),
    "while it publishes": ("CommitEffects", "after", 1),
    "before it deletes a subsumed checkpoint": ("discard", "before", 1),
    "before it notes the end": ("StoreJobResult", "before", 1),
    "ended, and nothing cleaned up": ("StoreJobResult", "after", 1),
}
REASONS = {
    "FINISHED": "",
    "SUSPENDED": "has taken over this job",
    "REFUSED": "has taken over this job|is run by driver|start with recover=True|already holds .* Parquet files",
}
"""How a driver may end, and what it says of that: one that was frozen while it began is refused."""
STATE_FREE = {"checkpointID", "run", "store.json"}
"""What is left of a job that has ended: the counter and the end of its run, in an object store in one object."""


class Driver:
    """A driver in a process of its own."""

    def __init__(self, directory: Path | str, store: str, **options: Any) -> None:
        options = {"directory": str(directory), "store": store, "recover": False, "die": None, "spark": False} | options
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.hosts.spark.one_driver", json.dumps(options)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid

    def await_frozen(self) -> bool:
        """Wait until it is frozen; False when it has ended instead."""
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            return True
        self._process.returncode = os.waitstatus_to_exitcode(status)
        return False

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def end(self) -> dict[str, Any]:
        """Wait for its end; returns its output."""
        out, error = self._process.communicate(timeout=120)
        assert self._process.returncode == 0, error
        answer: dict[str, Any] = json.loads(out.splitlines()[-1])
        return answer


def check_left(directory: Path | str, store: str, copy: Path | None = None) -> None:
    """Each row is published once, and nothing is left behind. A bucket is looked at in a copy, made at this path."""
    assert stored_ids(directory, store, totals_job(directory, store=store).job_graph().job_id) == []
    if copy is not None:
        download(str(directory), copy)
    local = copy or Path(directory)
    check_output(local)
    assert staged(local) == []
    files = {path.name for path in (local / "checkpoints").rglob("*") if path.is_file()}
    assert files <= STATE_FREE


def check_frozen(
    directory: Path | str, store: str, at: tuple[str, str, int], *, copy: Path | None = None, **options: Any
) -> None:
    """Freeze one driver, let another run the job to its end, and thaw the first."""
    first = Driver(directory, store, die=at, freeze=True, **options)
    assert first.await_frozen()
    second = Driver(directory, store, recover=True).end()
    assert second["status"] == "FINISHED", second
    first.thaw()
    told = first.end()
    if at[:2] == ("StoreJobResult", "after"):
        assert told["status"] == "FINISHED"  # it had ended when it was frozen
    else:
        assert told["status"] == "SUSPENDED"
        assert "has taken over this job" in told["error"]
    check_left(directory, store, copy)


ALWAYS = ("between the metadata and the store", "before it publishes", "while a task writes its state")


@pytest.mark.parametrize(
    "at",
    [pytest.param(at, id=when, marks=[] if when in ALWAYS else [pytest.mark.soak]) for when, at in FROZEN.items()],
)
def test_a_driver_that_is_frozen_and_replaced_does_nothing_that_counts(
    tmp_path: Path, at: tuple[str, str, int]
) -> None:
    check_frozen(tmp_path, "filesystem", at)


def test_with_sqlite(tmp_path: Path) -> None:
    check_frozen(tmp_path, f"sqlite://{tmp_path}/kit.db", FROZEN["between the metadata and the store"])


def test_with_zookeeper(tmp_path: Path, zookeeper: ZooKeeper) -> None:
    check_frozen(tmp_path, f"zookeeper://{zookeeper.hosts}/{tmp_path.name}", FROZEN["before the metadata"])


@pytest.mark.parametrize(
    "at",
    [
        pytest.param(at, id=when, marks=[] if when == "before it publishes" else [pytest.mark.soak])
        for when, at in FROZEN.items()
    ],
)
def test_with_an_object_store(tmp_path: Path, bucket: str, at: tuple[str, str, int]) -> None:
    check_frozen(bucket, "filesystem", at, copy=tmp_path / "copy", rows_per_second=6_000)


def test_a_driver_beside_one_that_runs_takes_the_job_over(tmp_path: Path) -> None:
    def job(**options: Any) -> SparkJob:
        env = totals_job(tmp_path, generator(rows_per_second=20_000), store="filesystem", max_retained=2)
        return SparkJob(env, launch=ThreadGang, **options)

    with job().start() as first:
        await_checkpoint(first, 2)
        with pytest.raises(JobFailedError, match=r"job totals is run by driver 1 \(process .* recover=True"):
            job().start()
        assert first.status == "RUNNING"
        with job(recover=True).start() as second:
            assert second.wait() == "FINISHED"
            assert len(second.look.restores()) > 0
        with pytest.raises(JobFailedError, match=r"driver 2 \(process .*\) has taken over this job"):
            first.wait(timeout_s=30)
        assert first.status == "SUSPENDED"
    check_left(tmp_path, "filesystem")


def test_a_job_of_the_same_name_that_begins_from_a_savepoint_is_refused_while_the_other_runs(tmp_path: Path) -> None:
    def job(**options: Any) -> SparkJob:
        return SparkJob(totals_job(tmp_path, LASTING, store="filesystem"), launch=ThreadGang, **options)

    with job().start() as first:
        await_checkpoint(first, 1)
        savepoint = first.savepoint(tmp_path / "savepoints")
        with pytest.raises(JobFailedError, match=r"job totals is run by driver 1 \(process .*a name of its own"):
            job(restore_path=savepoint).start()
        assert first.status == "RUNNING"
        first.cancel()


STORES = ("filesystem", "sqlite", "zookeeper", "object store")


@pytest.mark.soak
@pytest.mark.parametrize("store", STORES)
def test_drivers_frozen_and_thawed_at_random(
    tmp_path: Path, store: str, zookeeper: ZooKeeper, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drivers take over from each other while all of them are frozen and thawed, until one ends the job."""
    for name, value in object_store.environment.items():
        monkeypatch.setenv(name, value)
    minutes = float(os.environ.get("KIT_SOAK_MINUTES", "10")) / len(STORES)
    chance, until, jobs, told = random.Random(store), time.monotonic() + 60 * minutes, 0, []
    while time.monotonic() < until or not jobs:
        jobs += 1
        setting = {
            "filesystem": "filesystem",
            "sqlite": f"sqlite://{tmp_path}/{jobs}/kit.db",
            "zookeeper": f"zookeeper://{zookeeper.hosts}/{tmp_path.name}/{jobs}",
            "object store": "filesystem",
        }[store]
        remote = object_store.new_bucket() if store == "object store" else None
        directory = remote or str(tmp_path / str(jobs))
        ended = freeze_and_thaw(chance, directory, setting)
        for each in ended:
            assert re.search(REASONS[each["status"]], each["error"]), each
        if "FINISHED" not in {each["status"] for each in ended}:  # the last to lead was one that had not begun
            ended.append(Driver(directory, setting, recover=True).end())
        assert "FINISHED" in {each["status"] for each in ended}
        check_left(directory, setting, tmp_path / f"copy-{jobs}" if remote else None)
        told += ended
    statuses = Counter(each["status"] for each in told)
    restores = sum(len(each.get("restored", [])) for each in told)
    print(f"{store}: {jobs} jobs, {len(told)} drivers, {restores} restores, {dict(statuses)}")
    assert statuses["SUSPENDED"] > 0


def freeze_and_thaw(chance: random.Random, directory: str, store: str) -> list[dict[str, Any]]:
    """Let up to four drivers take over from each other while they are frozen and thawed; returns how each ended."""
    drivers = [Driver(directory, store, rows_per_second=15_000)]
    frozen: set[int] = set()
    while not any(each.ended for each in drivers):
        time.sleep(chance.uniform(0.05, 1.2))
        number = chance.randrange(len(drivers))
        if number in frozen:
            frozen.discard(number)
            drivers[number].thaw()
        elif chance.random() < 0.7:
            frozen.add(number)
            drivers[number].freeze()
        if len(drivers) < 4 and (len(frozen) == len(drivers) or chance.random() < 0.15):
            drivers.append(Driver(directory, store, recover=True, rows_per_second=15_000))
        elif len(frozen) == len(drivers):
            number = chance.choice(sorted(frozen))
            frozen.discard(number)
            drivers[number].thaw()
    for number in frozen:
        drivers[number].thaw()
    return [each.end() for each in drivers]

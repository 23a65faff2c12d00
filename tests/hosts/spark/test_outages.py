"""Storage outages: on both hosts, a job survives an outage of any kind, and fails because of its own faults."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from kit import CheckpointConfig, CollectSink, FixedDelay, GeneratorSource, Lab, StreamEnvironment, sum_
from kit.files.storage import CheckpointStorage
from kit.hosts.spark.job import SparkJob
from kit.machines.job.errors import JobFailedError
from kit.machines.job.failures import REPEATS
from tests.core.protocol.test_outages import OUTAGES, OWN_FAULTS
from tests.hosts.spark.jobs import ThreadGang

PLACES = ("initialize_location_for_checkpoint", "to_handle", "write_metadata")
HICCUPS = REPEATS + 1
ENDLESS = FixedDelay(attempts=1_000_000, delay_ms=1)
Host = Callable[[StreamEnvironment], tuple[int, pd.DataFrame]]


class Hiccups:
    """A storage whose method `place` raises the first times that it is called."""

    def __init__(self, make: Callable[[], Exception], place: str, times: int) -> None:
        self.left, self._make = times, make
        self._real, self._lock = getattr(CheckpointStorage, place), threading.Lock()

    def method(self) -> Callable[..., Any]:
        def call(storage: CheckpointStorage, *given: Any) -> Any:
            with self._lock:
                raises, self.left = self.left > 0, self.left - 1
            if raises:
                raise self._make()
            return self._real(storage, *given)

        return call


def env_of(directory: Path, store: str = "memory", rows_per_second: float | None = None) -> StreamEnvironment:
    checkpoint = CheckpointConfig(
        interval_ms=20, directory=str(directory / "checkpoints"), tolerable_failures=0, store=store
    )
    env = StreamEnvironment("hiccups", parallelism=2, checkpoint=checkpoint, restart=ENDLESS)
    rows = env.from_source(
        GeneratorSource(600, 5, splits=4, batch_rows=50, rows_per_second=rows_per_second), uid="rows"
    )
    totals = rows.key_by("key").aggregate(total=sum_("value"), emit="final").uid("totals")
    totals.sink_to(CollectSink("out"), uid="out")
    return env


def on_spark(env: StreamEnvironment) -> tuple[int, pd.DataFrame]:
    with SparkJob(env, launch=ThreadGang) as job:
        assert job.start().wait(120) == "FINISHED"
        return job._driver.master.epoch, job.output("out")


def in_the_lab(env: StreamEnvironment) -> tuple[int, pd.DataFrame]:
    lab = Lab(env)
    lab.run()
    return lab._world.master.epoch, lab.output("out")


HOSTS: dict[str, Host] = {"spark": on_spark, "lab": in_the_lab}


def sorted_rows(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame[["key", "total"]].itertuples(index=False)))


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Any, ...]]:
    return sorted_rows(in_the_lab(env_of(tmp_path_factory.mktemp("calm")))[1])


def planted(monkeypatch: pytest.MonkeyPatch, make: Callable[[], Exception], place: str, times: int) -> Hiccups:
    hiccups = Hiccups(make, place, times)
    monkeypatch.setattr(CheckpointStorage, place, hiccups.method())
    return hiccups


def matrix() -> Iterator[Any]:
    """Each outage on each host, at one place after another."""
    for number, outage in enumerate(OUTAGES):
        for host in HOSTS:
            yield pytest.param(host, outage, PLACES[number % len(PLACES)], id=f"{host}-{outage}")


@pytest.mark.parametrize(("host", "outage", "place"), list(matrix()))
def test_a_job_goes_on_through_an_outage_of_its_storage(
    host: str,
    outage: str,
    place: str,
    expected: list[tuple[Any, ...]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hiccups = planted(monkeypatch, OUTAGES[outage], place, HICCUPS)
    epochs, output = HOSTS[host](env_of(tmp_path))
    assert hiccups.left <= 0
    assert epochs > 1, "the job was restarted, and more often than one of its own faults allows"
    assert sorted_rows(output) == expected


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("place", PLACES)
def test_a_job_ends_by_a_fault_of_its_own_that_recurs(
    host: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(monkeypatch, OWN_FAULTS["permission"], place, 1_000)
    with pytest.raises(JobFailedError, match=r"(?s)Permission denied.*has failed 3 times in the same way"):
        HOSTS[host](env_of(tmp_path))


class HiccupingConnection(sqlite3.Connection):
    """A connection to a database on a disk that is full: nothing can be written, until it has happened `left` times."""

    left = 0

    def execute(self, statement: str, *given: Any) -> sqlite3.Cursor:
        if statement.startswith("INSERT") and HiccupingConnection.left > 0:
            HiccupingConnection.left -= 1
            raise OUTAGES["SQLite disk" if HiccupingConnection.left % 2 else "SQLite full"]()
        return super().execute(statement, *given)


def test_a_full_disk_under_sqlite_is_waited_for_and_the_job_can_be_recovered_later(
    expected: list[tuple[Any, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect, store = sqlite3.connect, f"sqlite:///{tmp_path}/store.db"
    env = env_of(tmp_path, store, rows_per_second=1_000)
    monkeypatch.setattr(sqlite3, "connect", partial(connect, factory=HiccupingConnection))
    with SparkJob(env, launch=ThreadGang) as job:
        job.start().wait_until_running(timeout_s=60)
        HiccupingConnection.left = 3 * HICCUPS
        assert job.wait(120) == "FINISHED"
        assert HiccupingConnection.left == 0
        assert job._driver.master.epoch > REPEATS
        assert sorted_rows(job.output("out")) == expected
    with SparkJob(env_of(tmp_path, store), launch=ThreadGang, recover=True) as later:
        assert later.start().wait(60) == "FINISHED"

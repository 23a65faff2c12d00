"""Stop-with-savepoint, suspend and drain on Spark with workers killed at any moment: output equals the batch result,
or the job reports FAILED and resuming from its savepoint leads to that result.
"""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from kit.hosts.spark import JobFailedError, SparkJob
from kit.machines.job.errors import JobEndedError
from tests.hosts.spark.conftest import spark_session
from tests.hosts.spark.jobs import ROWS, check_output, generator, read, totals_job

pytestmark = pytest.mark.spark

GO_ON = re.compile(r"go on from this savepoint, restore_path='([^']+)', and from no older checkpoint")
SLOW = generator(rows_per_second=60_000)
MOST_LIVES = 6


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    yield from spark_session(slots=3)


class Killer:
    """Kills a worker of a job that is being stopped: some time after the request, or after its savepoint."""

    def __init__(self, job: SparkJob, savepoints: Path, chance: random.Random) -> None:
        self.job, self._savepoints, self._chance = job, savepoints, chance
        self.after_savepoint = chance.random() < 0.7
        self.killed = False
        self._before = self._standing()
        self._thread = threading.Thread(target=self._run)

    def _standing(self) -> set[Path]:
        return set(self._savepoints.glob("*/_metadata"))

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()

    def _run(self) -> None:
        if self.after_savepoint:
            while self._standing() == self._before and self.job.status == "RUNNING":
                time.sleep(0.0005)
            time.sleep(self._chance.choice([0, 0, 0.002, 0.01]))
        else:
            time.sleep(self._chance.uniform(0, 0.1))
        workers = self.job.look.workers()
        if workers:
            with suppress(ValueError):  # it has just left
                self.job.faults.kill(self._chance.choice(list(workers)))
                self.killed = True


def tell(spark: SparkSession, directory: Path, chance: random.Random) -> int:
    """Stop a job again and again while its workers are killed; returns how many lives ended FAILED."""
    path, failed, drained = None, 0, False
    for life in range(MOST_LIVES):
        env = totals_job(directory, SLOW, parallelism=chance.choice([1, 2, 3]))
        with SparkJob(env, spark, path) as job:
            job.start()
            job._driver.running.wait()
            time.sleep(chance.uniform(0.0, 0.3))
            if life == MOST_LIVES - 1:
                assert job.wait() == "FINISHED"
                break
            drain = chance.random() < 0.3
            with Killer(job, directory / "savepoints", chance):
                try:
                    path = job.stop(directory / "savepoints", drain=drain)
                    drained |= drain
                    continue
                except (JobFailedError, JobEndedError) as error:  # JobEndedError: it had read all its input
                    said = str(error)
            found = GO_ON.search(said)
            if not found:
                assert job.wait() == "FINISHED", said
                break
            assert job.status == "FAILED", "nobody is told before the job has ended"
            path, failed, drained = found[1], failed + 1, drained or drain
    check(directory, drained=drained)
    return failed


def check(directory: Path, *, drained: bool) -> None:
    """A drain emits the totals so far, and the next life starts from zero: their sum must be right."""
    if not drained:
        check_output(directory)
        return
    copy = read(directory / "copy")
    assert len(copy) == ROWS
    wanted = copy.groupby("key")["value"].agg(["sum", "size"])
    told = read(directory / "totals").groupby("key")[["total", "n"]].sum()
    np.testing.assert_array_equal(told.to_numpy(), wanted.to_numpy())


@pytest.mark.flink("SavepointITCase.testStopWithSavepointFailsOverToSavepoint")
def test_a_worker_killed_as_soon_as_the_savepoint_stands(spark: SparkSession, tmp_path: Path) -> None:
    failed = sum(tell(spark, tmp_path / str(seed), random.Random(seed)) for seed in range(3))
    assert failed > 0, "no kill came between the savepoint and the end"


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 140))
def test_dozens_of_stories(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    tell(spark, tmp_path, random.Random(seed))

"""A soak of state on disk: several times the memory, with killed workers, other parallelisms and savepoints."""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from kit import (
    CheckpointConfig,
    CollectSink,
    GeneratorSource,
    StreamEnvironment,
    count,
    max_,
    open_checkpoint,
    sum_,
)
from kit.hosts.spark import SparkJob
from kit.machines.job.errors import JobFailedError
from kit.stream.settings.job_settings import FixedDelay
from tests.hosts.spark.held import all_held

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTES = float(os.environ.get("KIT_SOAK_MINUTES", "10"))
MEMORY_MB, KEYS = 4, 400_000
"""Four slots have memory for 150,000 of the keys together, one of them for a tenth."""
MOST_MB = 400
"""No process of a slot may have more: Python and its libraries, batches, and what checkpoints and restores read."""
SPLITS = 4
SOURCE = GeneratorSource(None, KEYS, splits=SPLITS, batch_rows=5_000, rows_per_second=100_000)
MAXIMA = [f"max_{number}" for number in range(8)]


def wide_totals(directory: Path, parallelism: int) -> StreamEnvironment:
    """Return a job with some 100 bytes of state for each key."""
    checkpoint = CheckpointConfig(
        interval_ms=500, directory=str(directory), incremental=True, tolerable_failures=1_000, timeout_ms=30_000
    )
    env = StreamEnvironment(
        "wide",
        parallelism=parallelism,
        max_parallelism=128,
        checkpoint=checkpoint,
        restart=FixedDelay(1_000, 100),
        state_backend="disk",
        state_memory_mb=MEMORY_MB,
    )
    maxima: dict[str, Any] = {name: max_("value") for name in MAXIMA}
    keyed = env.from_source(SOURCE, uid="rows").key_by("key")
    result = keyed.aggregate(total=sum_("value"), n=count(), emit="final", **maxima).uid("totals")
    result.sink_to(CollectSink("out"), uid="out")
    return env


class Expected:
    """The totals of the rows that the sources have read."""

    def __init__(self) -> None:
        self.starts = {split["id"]: split["start"] for split in SOURCE.enumerate_splits()}
        self.read = dict.fromkeys(self.starts, 0)
        self.total, self.n, self.largest = (np.zeros(KEYS, np.int64) for _ in range(3))

    def read_until(self, positions: dict[str, int]) -> pd.DataFrame:
        """Return the totals of each key that occurred until these positions of the splits."""
        assert set(positions) == set(self.read)
        for split, position in positions.items():
            while self.read[split] < position:
                rows = SOURCE.slice(self.starts[split] + self.read[split], position - self.read[split])
                key, value = rows["key"].to_numpy(), rows["value"].to_numpy()
                np.add.at(self.total, key, value)
                np.add.at(self.n, key, 1)
                np.maximum.at(self.largest, key, value)
                self.read[split] += rows.num_rows
        table = pd.DataFrame({"total": self.total, "n": self.n} | dict.fromkeys(MAXIMA, self.largest))
        return table[table["n"] > 0]


def positions(savepoint: str) -> dict[str, int]:
    """Return the position of each split in a savepoint."""
    readers = open_checkpoint(savepoint).state("rows", "SourceReaderState").to_pandas()
    return {json.loads(row.split)["id"]: row.position for row in readers.itertuples()}


def totals(savepoint: str) -> pd.DataFrame:
    """Return the state of each key in a savepoint."""
    rows = open_checkpoint(savepoint).state("totals", "totals").to_pandas()
    assert rows["key"].is_unique
    return pd.DataFrame(rows["value"].tolist(), index=rows["key"]).sort_index()


@pytest.mark.spark
@pytest.mark.soak
def test_more_state_than_memory_survives_everything(spark: SparkSession, tmp_path: Path) -> None:
    """For KIT_SOAK_MINUTES workers are killed, and the job is rescaled, stopped and resumed; each savepoint is exact,
    and no file stays that no checkpoint needs.
    """
    until, chance = time.monotonic() + 60 * MINUTES, random.Random(0)
    done: Counter[str] = Counter()
    expected, savepoint, most_mb, most_on_disk = Expected(), None, 0, 0
    while time.monotonic() < until or not done["lives"]:
        directory = tmp_path / f"checkpoints-{done['lives']}"
        env = wide_totals(directory, chance.randint(1, 4))
        begun_from, claim_mode = savepoint, chance.choice(["CLAIM", "NO_CLAIM"])
        with SparkJob(env, spark, restore_path=begun_from, claim_mode=claim_mode) as job:
            job.start()
            for _ in range(chance.randint(4, 12)):
                disturb(job, tmp_path / "other savepoints", chance, done)
                held = [each.memory_mb for each in all_held(os.getpid(), []) if "Python" in each.role]
                most_mb = max(most_mb, *held)
                values = job.metrics().query("metric == 'state_entries_on_disk'")["value"]
                most_on_disk = max(most_on_disk, int(values.sum()))
            savepoint = stopped(job, tmp_path / "savepoints")
        assert files_in(directory) == []
        assert begun_from is None or bool(files_in(Path(begun_from))) == (claim_mode == "NO_CLAIM")
        pd.testing.assert_frame_equal(totals(savepoint), expected.read_until(positions(savepoint)), check_names=False)
        done["lives"] += 1
        print(dict(done), f"{most_mb} MB, {most_on_disk} entries on disk, {int(expected.n.sum())} rows", flush=True)
    assert most_on_disk > KEYS / 2
    assert most_mb < MOST_MB
    assert min(done[each] for each in ("killed", "rescaled", "savepoints")) > 0


def files_in(directory: Path) -> list[str]:
    """Return the names of all files below a directory."""
    return [path.name for path in directory.rglob("*") if path.is_file()]


def disturb(job: SparkJob, savepoints: Path, chance: random.Random, done: Counter[str]) -> None:
    """Kill a worker, rescale the job, or take a savepoint."""
    job.wait_until_running()
    time.sleep(chance.uniform(0, 3))
    match chance.randrange(4):
        case 0 | 1:
            with suppress(ValueError, IndexError):  # none runs, since the last disturbance
                job.faults.kill(chance.choice(sorted(job.look.workers())))
                done["killed"] += 1
        case 2:
            with suppress(JobFailedError):
                job.rescale(chance.randint(1, 4))
                done["rescaled"] += 1
        case _:
            with suppress(JobFailedError):
                job.savepoint(savepoints)
                done["savepoints"] += 1


def stopped(job: SparkJob, directory: Path) -> str:
    """Stop the job with a savepoint, again when a killed worker fails the savepoint."""
    while True:
        try:
            return job.stop(directory)
        except JobFailedError:
            if job.ended:
                raise

"""Two drivers in turn on one job, as processes; the first is killed with SIGKILL.

No checkpoint that was confirmed is lost, no file is left that nothing refers to, every row is published once.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kit.files.storage import CheckpointStorage
from kit.files.stores.opening import open_store
from tests.hosts.spark.jobs import check_output, staged, totals_job
from tests.zookeeper import ZooKeeper

ROOT = Path(__file__).resolve().parents[3]
DEATHS = {
    "in the middle of a checkpoint": ("WriteSnapshot", "after", 9),
    "while it writes rows of its output": ("WriteRows", "after", 40),
    "before the metadata": ("WriteMetadata", "before", 2),
    "between the metadata and the store": ("WriteMetadata", "after", 2),
    "stored, and nobody told": ("StoreCheckpoint", "after", 2),
    "while it publishes": ("CommitEffects", "after", 1),
    "while it deletes a subsumed checkpoint": ("discard", "before", 1),
    "when that is deleted, and still in the store": ("discard", "after", 1),
    "before it notes the end": ("StoreJobResult", "before", 1),
    "ended, and nothing cleaned up": ("StoreJobResult", "after", 1),
}


def drive(
    directory: Path,
    store: str,
    *,
    recover: bool,
    die: Any = None,
    spark: bool = False,
    stop: bool = False,
    record: bool = False,
    rescale: int = 0,
) -> dict[str, Any] | None:
    """Let a driver run, and return its last report; None if it was killed."""
    options = {
        "directory": str(directory),
        "store": store,
        "recover": recover,
        "die": die,
        "spark": spark,
        "stop": stop,
        "record": record,
        "rescale": rescale,
    }
    ended = subprocess.run(
        [sys.executable, "-m", "tests.hosts.spark.one_driver", json.dumps(options)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if ended.returncode == -signal.SIGKILL:
        return None
    assert ended.returncode == 0, ended.stderr
    answer: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return answer


def check_takeover(directory: Path, store: str, die: tuple[str, str, int], *, spark: bool = False) -> None:
    """Kill one driver and let another recover; then check the files that are left."""
    assert drive(directory, store, recover=False, die=die, spark=spark) is None
    job = totals_job(directory, store=store).job_graph()
    ids = stored_ids(directory, store, job.job_id)
    second = drive(directory, store, recover=True, spark=spark)
    assert second is not None
    assert second["status"] == "FINISHED"
    ended_before = die[:2] == ("StoreJobResult", "after")
    assert second["restored"] == ([] if ended_before or not ids else [max(ids)])
    check_output(directory)
    assert staged(directory) == []
    assert stored_ids(directory, store, job.job_id) == []
    files = {path.name for path in (directory / "checkpoints").rglob("*") if path.is_file()}
    assert files <= {"checkpointID", "run"}


def stored_ids(directory: Path | str, setting: str, job_id: str) -> list[int]:
    """Return the checkpoints that the store has."""
    store = open_store(setting, CheckpointStorage(f"{directory}/checkpoints", job_id))
    try:
        return [entry.checkpoint_id for entry in store.checkpoints()]
    finally:
        store.close()


ALWAYS = ("while it publishes",)
"""What `make test` has this store go through: its other stores, and Spark, have a death of their own each (below). The
longer run has all.
"""


@pytest.mark.parametrize(
    "die",
    [pytest.param(die, id=when, marks=[] if when in ALWAYS else [pytest.mark.soak]) for when, die in DEATHS.items()],
)
def test_on_the_file_system(tmp_path: Path, die: tuple[str, str, int]) -> None:
    check_takeover(tmp_path, "filesystem", die)


ABOUT_THE_STORE = ("between the metadata and the store",)
"""What `make test` has ZooKeeper go through; `tests/files/contract.py` holds all stores to the same."""


@pytest.mark.parametrize(
    "die",
    [
        pytest.param(die, id=when, marks=[] if when in ABOUT_THE_STORE else [pytest.mark.soak])
        for when, die in DEATHS.items()
    ],
)
def test_on_zookeeper(tmp_path: Path, zookeeper: ZooKeeper, die: tuple[str, str, int]) -> None:
    check_takeover(tmp_path, f"zookeeper://{zookeeper.hosts}/{tmp_path.name}", die)


def test_on_sqlite(tmp_path: Path) -> None:
    check_takeover(tmp_path, f"sqlite://{tmp_path}/kit.db", ("StoreCheckpoint", "after", 2))


def test_the_next_driver_goes_on_at_the_parallelism_that_was_wanted(tmp_path: Path) -> None:
    assert drive(tmp_path, "filesystem", recover=False, rescale=3) is None
    second = drive(tmp_path, "filesystem", recover=True)
    assert second is not None
    assert second["status"] == "FINISHED"
    assert second["widths"] == [3]
    assert second["restored"] != []
    check_output(tmp_path)


ALWAYS_AT_A_STOP = 2
DEATHS_AT_A_STOP = {
    "before the savepoint is noted": ("StoreCheckpoint", "before", 1),
    "noted, and nobody told": ("StoreCheckpoint", "after", 1),
    "while the savepoint's rows are published": ("CommitEffects", "after", 1),
    "when they are, before it notes the end": ("StoreJobResult", "before", 1),
}


@pytest.mark.parametrize(
    "die",
    [
        pytest.param(die, id=when, marks=[] if number < ALWAYS_AT_A_STOP else [pytest.mark.soak])
        for number, (when, die) in enumerate(DEATHS_AT_A_STOP.items())
    ],
)
def test_a_driver_that_dies_while_it_stops_a_job(tmp_path: Path, die: tuple[str, str, int]) -> None:
    """The savepoint is the only snapshot: once it may have been published, the next driver starts from it."""
    assert drive(tmp_path, "filesystem", recover=False, die=die, stop=True) is None
    second = drive(tmp_path, "filesystem", recover=True)
    assert second is not None
    assert second["status"] == "FINISHED"
    assert second["restored"] == ([] if die[:2] == ("StoreCheckpoint", "before") else [1])
    check_output(tmp_path)
    assert stored_ids(tmp_path, "filesystem", totals_job(tmp_path).job_graph().job_id) == []
    assert list((tmp_path / "savepoints").glob("*/_metadata")) != []


@pytest.mark.spark
def test_on_spark(tmp_path: Path) -> None:
    check_takeover(tmp_path, "filesystem", DEATHS["stored, and nobody told"], spark=True)

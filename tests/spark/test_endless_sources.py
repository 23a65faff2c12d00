"""Sources without an end on slots, and on Spark: reads that wait hold nothing up, and nothing is read twice."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kit import CheckpointConfig, CollectSink, DirectorySource, StreamEnvironment, TailSource
from kit.hosts.spark import SparkJob
from kit.hosts.spark.slot.fetcher import QUICK_READS, SLOW_S, Fetcher
from kit.stream.operators.sources.source import ReadResult, Source, Split
from kit.stream.settings.job_settings import FixedDelay
from tests.spark.jobs import ThreadGang

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TWELVE = 12


def job(source: Source, parallelism: int, directory: Path, **checkpoint: Any) -> StreamEnvironment:
    env = StreamEnvironment(
        "endless",
        parallelism=parallelism,
        max_parallelism=8,
        checkpoint=CheckpointConfig(**{"interval_ms": 200, "directory": str(directory)} | checkpoint),
        restart=FixedDelay(10, 100),
    )
    env.from_source(source, uid="rows").sink_to(CollectSink("rows"), uid="out")
    return env


def wait_until(condition: Callable[[], bool], what: str) -> None:
    end_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end_s, what
        time.sleep(0.02)


# --- a read that does not end -----------------------------------------------------------------------------------------

GATES: dict[str, threading.Event] = {}
BEGUN: dict[str, threading.Event] = {}


@dataclass(frozen=True, eq=False)
class Stuck(Source):
    """After its first row a read does not return before the test says so."""

    name: str

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([("n", pa.int64())])

    def enumerate_splits(self) -> list[Split]:
        return [{"id": "only"}]

    def read_split(self, split: Split, position: int, max_rows: int) -> ReadResult:
        if position == 1:
            BEGUN[self.name].set()
            GATES[self.name].wait()
        batch = pa.record_batch({"n": [position]}, schema=self.schema)
        return ReadResult(batch, position + 1, finished=position == 3)


def test_checkpoints_complete_while_a_read_does_not_return(tmp_path: Path) -> None:
    GATES["stuck"], BEGUN["stuck"] = threading.Event(), threading.Event()
    with SparkJob(job(Stuck("stuck"), 1, tmp_path, interval_ms=None), launch=ThreadGang) as running:
        running.start()
        assert BEGUN["stuck"].wait(60)
        running.trigger_checkpoint(wait=True)
        running.trigger_checkpoint(wait=True)
        assert not GATES["stuck"].is_set()
        GATES["stuck"].set()
        assert running.wait(timeout_s=60) == "FINISHED", running.error
        assert sorted(running.output()["n"]) == [0, 1, 2, 3]


# --- where reads are done ---------------------------------------------------------------------------------------------


def test_quick_reads_move_to_the_main_thread_and_slow_ones_away_from_it() -> None:
    done: list[Any] = []
    fetcher = Fetcher("reads", lambda job: True, done.append, lambda error: error)
    try:
        assert not fetcher.reads_at_once
        for _ in range(QUICK_READS):
            fetcher.note_read(0)
        assert fetcher.reads_at_once
        fetcher.note_read(2 * SLOW_S)
        for _ in range(QUICK_READS):
            fetcher.note_read(0)
        assert not fetcher.reads_at_once, "twice as many are needed now"
        for _ in range(QUICK_READS):
            fetcher.note_read(0)
        assert fetcher.reads_at_once
    finally:
        assert fetcher.close(10)


def test_a_watch_is_repeated_until_it_has_an_answer_and_replaced_by_the_next() -> None:
    looks: Counter[str] = Counter()
    answered = threading.Event()

    def look(job: str) -> bool:
        looks[job] += 1
        return job == "second" and looks[job] == 3

    fetcher = Fetcher("reads", look, lambda job: answered.set(), lambda error: error)
    try:
        fetcher.watch("first", 0.001)
        wait_until(lambda: looks["first"] > 3, "it is not looked for")
        fetcher.watch("second", 0.001)
        assert answered.wait(60)
        before = dict(looks)
        fetcher.watch(None, 0.001)
        assert before["second"] == 3
    finally:
        assert fetcher.close(10)
    assert looks["second"] == 3


# --- jobs -------------------------------------------------------------------------------------------------------------


def write(paths: list[Path], first: int, last: int) -> None:
    for path in paths:
        with path.open("a") as file:
            file.writelines(f"{n}\n" for n in range(first, last))


def lines(output: Any) -> Counter[tuple[str, str]]:
    if output.empty:
        return Counter()
    return Counter((Path(row.path).stem, row.line) for row in output.itertuples())


def grow_kill_and_rescale(running: Any, paths: list[Path], kill: Callable[[int], None]) -> None:
    """At parallelism 1 to 4, with a worker killed at each; the files grow all the time."""
    for round_, parallelism in enumerate((3, 1, 4, 2)):
        write(paths, 100 * round_, 100 * round_ + 100)
        running.trigger_checkpoint(wait=True)
        epoch = len([record for record in running.trace if record.kind == "AllTasksRunning"])
        kill(round_ % 2)
        wait_until(
            lambda before=epoch: len([r for r in running.trace if r.kind == "AllTasksRunning"]) > before,  # type: ignore[misc]
            "the job does not come back",
        )
        running.rescale(parallelism, wait=True)


def twelve_files(directory: Path, how: Mapping[str, Any], kill: Callable[[SparkJob, int], None]) -> None:
    """Each line comes once, through kills, rescales, and a stop after which another job goes on."""
    paths = [directory / f"{number}.log" for number in range(TWELVE)]
    write(paths, 0, 0)
    source = TailSource(paths, columns=("path", "line"))
    with SparkJob(job(source, 2, directory / "checkpoints"), **how) as running:
        running.start()
        wait_until(lambda: any(record.kind == "AllTasksRunning" for record in running.trace), "it does not begin")
        grow_kill_and_rescale(running, paths, lambda worker: kill(running, worker))
        savepoint = running.stop(directory / "savepoint")
        first = lines(running.output())
    with SparkJob(job(source, 3, directory / "others"), restore_path=savepoint, **how) as running:
        running.start()
        wait_until(lambda: any(record.kind == "AllTasksRunning" for record in running.trace), "it does not begin")
        write(paths, 400, 500)
        wait_until(lambda: sum(lines(running.output()).values()) == 500 * TWELVE, "lines are missing")
        running.stop(directory / "savepoint", drain=True)
        found = lines(running.output())
    assert not first - found
    assert found == Counter((path.stem, str(n)) for path in paths for n in range(500))


@pytest.mark.spark
def test_twelve_files_through_kills_and_rescales_give_each_line_once(spark: SparkSession, tmp_path: Path) -> None:
    twelve_files(tmp_path, {"spark": spark}, lambda running, worker: running.faults.kill(worker))


def test_twelve_files_give_each_line_once_on_slots(tmp_path: Path) -> None:
    def kill(running: SparkJob, worker: int) -> None:
        assert ThreadGang.current is not None
        ThreadGang.current.kill(worker)

    twelve_files(tmp_path, {"launch": ThreadGang}, kill)


def test_files_that_appear_are_read_on_slots(tmp_path: Path) -> None:
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    source = DirectorySource(str(incoming), format="text", discover_every="20ms", columns=("path", "line"))
    with SparkJob(job(source, 2, tmp_path / "checkpoints", interval_ms=50), launch=ThreadGang) as running:
        running.start()
        for number in range(6):
            hidden = incoming / f".{number}.txt"
            write([hidden], 0, 10)
            hidden.rename(incoming / f"{number}.txt")
            wait_until(
                lambda wanted=10 * (number + 1): sum(lines(running.output()).values()) == wanted,  # type: ignore[misc]
                "lines are missing",
            )
        running.stop(tmp_path / "savepoint")
        assert lines(running.output()) == Counter((str(f), str(n)) for f in range(6) for n in range(10))

"""Sources without an end on slots, and on Spark: reads that wait hold nothing up, and nothing is read twice."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kit import (
    CheckpointConfig,
    CollectionSource,
    CollectSink,
    DirectorySource,
    StreamEnvironment,
    TailSource,
    TumblingEventTimeWindows,
    count,
)
from kit.hosts.spark import SparkJob
from kit.hosts.spark.slot.fetcher import QUICK_READS, SLOW_S, Fetcher
from kit.machines.job.errors import JobFailedError
from kit.stream.operators.sources.source import ReadResult, Source, Split
from kit.stream.settings.job_settings import FixedDelay
from tests.hosts.spark.jobs import ThreadGang

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TWELVE = 12
MINUTES = float(os.environ.get("KIT_SOAK_MINUTES", "10"))


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
    """Each line is processed once, despite kills, rescales, and a stop after which another job resumes."""
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
        ThreadGang.of_slot[worker].kill(worker)

    twelve_files(tmp_path, {"launch": ThreadGang}, kill)


@pytest.mark.spark
@pytest.mark.soak
def test_twelve_files_at_random(spark: SparkSession, tmp_path: Path) -> None:
    """For KIT_SOAK_MINUTES the files grow, workers are killed, and the job is rescaled, stopped and resumed: each line
    comes once.
    """
    until, lives, chance = time.monotonic() + 60 * MINUTES, 0, random.Random(0)
    paths = [tmp_path / f"{number}.log" for number in range(TWELVE)]
    write(paths, 0, 0)
    there = dict.fromkeys(paths, 0)
    source = TailSource(paths, columns=("path", "line"))
    found: Counter[tuple[str, str]] = Counter()
    done: Counter[str] = Counter()
    savepoint = None
    while time.monotonic() < until or not lives:
        lives += 1
        env = job(source, chance.randint(1, 4), tmp_path / f"checkpoints-{lives}")
        with SparkJob(env, spark, restore_path=savepoint) as running:
            running.start()
            for _ in range(chance.randint(3, 12)):
                disturb(running, chance, there, done)
            savepoint = stopped(running, tmp_path / "savepoints")
            before, found = found, lines(running.output())
            assert not before - found, "lines are gone"
    with SparkJob(job(source, 2, tmp_path / "last"), spark, restore_path=savepoint) as running:
        running.start()
        wait_until(lambda: sum(lines(running.output()).values()) >= sum(there.values()), "lines are missing")
        stopped(running, tmp_path / "savepoints", drain=True)
        found = lines(running.output())
    assert found == Counter((path.stem, str(n)) for path, rows in there.items() for n in range(rows))
    assert done["killed"] > 0
    assert done["rescaled"] > 0
    print(f"{lives} lives, {sum(there.values())} lines, {dict(done)}")


def stopped(running: SparkJob, directory: Path, *, drain: bool = False) -> str:
    """Stop the job with a savepoint, again when a worker that was killed fails the savepoint."""
    while True:
        try:
            return running.stop(directory, drain=drain)
        except JobFailedError:
            if running.ended:
                raise


def completed(running: SparkJob) -> int:
    """The number of completed checkpoints."""
    return int((running.checkpoints()["status"] == "COMPLETED").sum())


def disturb(running: SparkJob, chance: random.Random, there: dict[Path, int], done: Counter[str]) -> None:
    """Let some files grow; then kill a worker, rescale the job, take a checkpoint, or only wait a moment."""
    for path in chance.sample(sorted(there), chance.randint(0, TWELVE)):
        rows = chance.randint(1, 200)
        write([path], there[path], there[path] + rows)
        there[path] += rows
    running.wait_until_running()
    match chance.randrange(4):
        case 0:
            with suppress(ValueError, IndexError):  # none runs, since the last disturbance
                running.faults.kill(chance.choice(sorted(running.look.workers())))
                done["killed"] += 1
        case 1:
            running.rescale(chance.randint(1, 4), wait=False)
            done["rescaled"] += 1
        case 2:
            known = completed(running)
            wait_until(lambda: completed(running) > known, "no checkpoint completes")
            done["checkpoints"] += 1
        case _:
            time.sleep(chance.uniform(0, 0.5))


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


# --- idleness ---------------------------------------------------------------------------------------------------------


def slow_once(row: dict[str, Any]) -> dict[str, Any]:
    if row["at"] == 100:
        time.sleep(1.5)
    return row


def test_a_call_that_takes_long_makes_no_source_idle(tmp_path: Path) -> None:
    """The slot has one thread: while it is in the call, the sources cannot read, and their timers are late."""
    env = StreamEnvironment(
        "slow", parallelism=1, checkpoint=CheckpointConfig(interval_ms=200, directory=str(tmp_path / "checkpoints"))
    )
    streams = []
    for number, times in enumerate((range(0, 6_000, 10), range(0, 60_000, 100))):
        rows = [{"source": number, "at": at} for at in times]
        source = CollectionSource(rows, batch_rows=5, splits=1)
        timed = env.from_source(source, uid=f"in{number}").assign_timestamps("at").with_idleness(200)
        streams.append(timed.rebalance().map(slow_once).uid(f"slow{number}"))
    windows = streams[0].union(streams[1]).key_by("source").window(TumblingEventTimeWindows(100))
    windows.aggregate(n=count()).uid("counts").sink_to(CollectSink("counts"), uid="out")
    with SparkJob(env, launch=ThreadGang) as running:
        running.start()
        assert running.wait(timeout_s=120) == "FINISHED", running.error
        assert running.output()["n"].sum() == 1_200

"""Whatever a power loss leaves of a job's directories, a driver recovers from it, and each row is published once."""

from __future__ import annotations

import itertools
import random
import shutil
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from kit import CheckpointConfig, CollectionSource, FixedDelay, ParquetSink, StreamEnvironment, sum_
from kit.core.metadata import read_metadata
from kit.core.protocol.events import RequestSavepoint, StartJob
from kit.core.protocol.snapshots import Effect
from kit.core.state.errors import SavepointNotFoundError
from kit.files import output_files
from kit.files.job_files import JobFiles
from kit.files.master_hooks import MasterHooks
from kit.files.memory_output import MemoryOutput
from kit.files.storage import CheckpointStorage, StateFiles
from kit.files.stores.opening import open_store
from kit.files.task_files import TaskFiles
from kit.filesystems.memory import MemoryFiles
from kit.hosts.spark.edge import SparkOutput
from kit.machines.job.status import JobStatus
from kit.stream.connectors import RollingPolicy
from kit.stream.graph.job_graph import JobGraph
from tests.files.power_loss import DiedError, Recording, Remainder, lasting_power, recorded
from tests.files.third_host import ThirdHost

ROWS = [{"letter": "abc"[n % 3], "n": n} for n in range(90)]


def graph(place: Path, durability: str = "fsync") -> JobGraph:
    """Totals by letter, and a copy of every row, below `place`."""
    env = StreamEnvironment(
        "power",
        parallelism=2,
        checkpoint=CheckpointConfig(
            interval_ms=60, directory=place / "checkpoints", store="filesystem", durability=durability
        ),
        restart=FixedDelay(attempts=5, delay_ms=10),
    )
    rows = env.from_source(CollectionSource(ROWS, batch_rows=1), uid="rows")
    totals = rows.key_by("letter").aggregate(total=sum_("n"), emit="final").uid("totals")
    totals.sink_to(ParquetSink(place / "totals"), uid="totals-out")
    in_files = RollingPolicy(max_rows=5, held_rows=2)
    rows.rebalance().sink_to(ParquetSink(place / "copy", rolling=in_files, partition_by="letter"), uid="copy-out")
    return env.job_graph()


class HostOnDisk(ThirdHost):
    """The third host with the files that Spark's has."""

    def __init__(self, job: JobGraph, place: Path) -> None:
        super().__init__(job, MemoryFiles(), MemoryOutput())
        settings = job.settings.checkpoint
        storage = CheckpointStorage(
            place / "checkpoints", job.job_id, place / "savepoints", 0, durability=settings.durability
        )
        output = SparkOutput("", settings.durability.value == "fsync")
        self.for_job = JobFiles(job, storage, MasterHooks(), open_store(settings.store, storage), output, "driver")
        self.for_tasks = TaskFiles(job, storage, output)


def completed(host: ThirdHost) -> int:
    return len(host.trace.story(kind="CheckpointCompleted"))


def a_run(place: Path, durability: str = "fsync", lost_after: int = 3) -> tuple[Recording, str, int]:
    """Run the job to its end; a worker is lost after `lost_after` checkpoints.

    Returns the path of a savepoint, and the number of changes before the user received that path.
    """
    place.mkdir()
    with recorded(place) as recording:
        host = HostOnDisk(graph(place, durability), place)
        host.tell(StartJob())
        host.run(lambda: completed(host) == 1)
        host.tell(RequestSavepoint(request_id=1))
        host.run(lambda: 1 in host.answers)
        told = len(recording.changes)
        host.run(lambda: completed(host) >= lost_after)
        host.kill(1)
        host.run()
    assert host.status is JobStatus.FINISHED
    assert completed(host) >= 4
    assert_each_row_once(place)
    return recording, host.answers[1], told


def rows_below(directory: Path) -> list[dict[str, object]]:
    return ds.dataset(directory, format="parquet", partitioning="hive").to_table().to_pylist()


def assert_each_row_once(place: Path) -> None:
    copied = Counter((row["letter"], row["n"]) for row in rows_below(place / "copy"))
    assert copied == Counter((row["letter"], row["n"]) for row in ROWS)
    totals = {row["letter"]: row["total"] for row in rows_below(place / "totals")}
    assert totals == {letter: sum(row["n"] for row in ROWS if row["letter"] == letter) for letter in "abc"}


def next_driver(place: Path) -> HostOnDisk:
    """Start another driver that recovers from these directories."""
    host = HostOnDisk(graph(place), place)
    host.tell(StartJob(recover=True))
    return host


def check_savepoint(path: str) -> None:
    """Read all of it."""
    found = StateFiles().resolve(path)
    states = read_metadata(found.metadata, found.location.directory)[0].operator_states
    for state in states:
        for subtask in state.subtask_states.values():
            for handle in subtask.handles():
                assert StateFiles().read(handle.delegate).size == handle.delegate.state_size


def check(place: Path, remainder: Remainder, after: str, savepoint: str = "") -> None:
    """This is left at `place`, with the savepoint if the user knows of it, and another driver takes over."""
    remainder.build(place)
    with lasting_power():
        if savepoint:
            check_savepoint(savepoint)
        host = next_driver(place)
        host.run()
    assert host.status is JobStatus.FINISHED, f"{after}: {host.master.error}"
    assert_each_row_once(place)


def described(recording: Recording, count: int) -> str:
    """The moment of a loss of power."""
    return f"{count}, after {recording.changes[count - 1] if count else 'nothing'}"


EACH = pytest.param(None, id="each moment", marks=pytest.mark.soak)


@pytest.mark.parametrize("moments", [20, EACH])
def test_the_least_that_a_moment_leaves_is_enough(tmp_path: Path, moments: int | None) -> None:
    recording, savepoint, told = a_run(tmp_path / "place")
    all_moments = range(len(recording.changes) + 1)
    chosen = all_moments if moments is None else random.Random(1).sample(all_moments, moments)
    for count in sorted(chosen):
        known = savepoint if count >= told else ""
        check(recording.place, recording.after(count, None), described(recording, count), known)


@pytest.mark.parametrize("remainders", [20, pytest.param(3_000, id="thousands", marks=pytest.mark.soak)])
def test_whatever_a_moment_leaves_is_enough(tmp_path: Path, remainders: int) -> None:
    """All remainders differ. They are those of runs that lose their worker at different moments."""
    runs = [a_run(tmp_path / f"{number}", lost_after=number) for number in (1, 2, 3)]
    known: set[Any] = set()
    for seed in itertools.count():
        recording, savepoint, told = runs[seed % len(runs)]
        chance = random.Random(seed)
        count = chance.randint(0, len(recording.changes))
        remainder = recording.after(count, chance)
        if (recording.place, remainder.digest) not in known:
            known.add((recording.place, remainder.digest))
            check(
                recording.place,
                remainder,
                f"seed {seed}, {described(recording, count)}",
                savepoint if count >= told else "",
            )
        if len(known) == remainders:
            break


@pytest.mark.parametrize("seeds", [10, pytest.param(1_000, id="a thousand", marks=pytest.mark.soak)])
def test_a_second_loss_of_power_while_the_next_driver_recovers_is_survived(tmp_path: Path, seeds: int) -> None:
    first, savepoint, told = a_run(tmp_path / "place")
    place = first.place
    for seed in range(seeds):
        chance = random.Random(seed)
        moment = chance.randint(0, len(first.changes))
        left = first.after(moment, chance)
        left.build(place)
        with recorded(place, left) as second:
            next_driver(place).run(partial(has_changed, second, chance.randint(1, 300)))
        count = chance.randint(0, len(second.changes))
        known = savepoint if moment >= told else ""
        check(place, second.after(count, chance), f"seed {seed}, {described(second, count)}", known)


@pytest.mark.parametrize("seeds", [10, pytest.param(1_000, id="a thousand", marks=pytest.mark.soak)])
def test_a_driver_that_follows_a_dead_one_survives_a_loss_of_power(tmp_path: Path, seeds: int) -> None:
    """Data that the first driver did not sync may be only in memory, and the next driver relies on it."""
    for seed in range(seeds):
        chance, place = random.Random(seed), tmp_path / f"{seed}"
        place.mkdir()
        with recorded(place) as recording:
            first = HostOnDisk(graph(place), place)
            first.tell(StartJob())
            recording.most = chance.randint(1, 700)
            with suppress(DiedError):
                first.run()
            recording.most, died = None, len(recording.changes)
            next_driver(place).run(partial(has_changed, recording, died + chance.randint(1, 200)))
        count = chance.randint(died, len(recording.changes))
        remainder = recording.after(count, chance)
        check(place, remainder, f"seed {seed}, dead after {died}, {described(recording, count)}")
        shutil.rmtree(place)


def has_changed(recording: Recording, most: int) -> bool:
    """Return True after at least `most` changes."""
    return len(recording.changes) >= most


def test_what_is_complete_was_synced_before(tmp_path: Path) -> None:
    """Each file before it has its name, each directory after that and before the next thing is begun."""
    recording, _, _ = a_run(tmp_path / "place")
    changes = recording.changes
    for index, change in enumerate(changes):
        if change.kind in {"rename", "link"} and change.node is not None and change.into is not None:
            if not change.node.is_directory:
                assert any(each.synced is change.node for each in changes[:index]), change
            assert changes[index + 1].synced is change.into[0], change
        if change.kind == "mkdir" and change.into is not None:
            assert any(each.synced is change.into[0] for each in changes[index + 1 :]), change


def test_the_page_cache_is_left_alone_on_request(tmp_path: Path) -> None:
    recording, savepoint, told = a_run(tmp_path / "place", "page_cache")
    assert {change.kind for change in recording.changes} == {"create", "mkdir", "rename", "link", "remove"}
    with pytest.raises(SavepointNotFoundError):
        check(recording.place, recording.after(told, None), "told", savepoint)


def test_a_name_that_a_process_gave_before_it_died_is_synced_by_the_next(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    table = pa.table({"n": [1, 2]})
    effect = Effect("sink", f"{place}/out/.staging/part", f"{place}/out/part.parquet", table)
    with recorded(place) as recording:
        output_files.stage(effect)
        output_files.commit([effect], durable=False)  # it died before it synced
        published = len(recording.changes)
        output_files.commit([effect])
    recording.after(published, None).build(place)
    assert not rows_below(place / "out")
    recording.after(len(recording.changes), None).build(place)
    assert rows_below(place / "out") == table.to_pylist()

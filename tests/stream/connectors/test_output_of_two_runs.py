"""A run's output is its own: what another run has published is not added to in silence, and not deleted unasked.

On both hosts; on Spark's side a gang of slots in threads replaces Spark, which does nothing here.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from kit import CheckpointConfig, CollectionSource, CollectSink, Lab, ParquetSink, StreamEnvironment
from kit.hosts.spark import SparkJob
from kit.hosts.spark.edge import COLLECTED
from kit.hosts.spark.temporary import process_directory
from kit.stream.connectors import Sink
from kit.stream.graph.stream_graph import GraphError
from tests.hosts.lab.jobs import failure, output_of_failed
from tests.hosts.spark.jobs import ThreadGang
from tests.house.files import ROOT

ROWS = [{"n": n} for n in range(60)]


def numbers(
    sink: Sink, *, parallelism: int = 2, rows_per_second: float | None = None, **checkpoint: Any
) -> StreamEnvironment:
    settings = CheckpointConfig(interval_ms=20, **checkpoint)
    env = StreamEnvironment("numbers", parallelism=parallelism, max_parallelism=4, checkpoint=settings)
    source = CollectionSource(ROWS, batch_rows=1, rows_per_second=rows_per_second)
    env.from_source(source, uid="numbers").sink_to(sink, uid="out")
    return env


class LabHost:
    """Runs one after the other in labs, each after the one before."""

    def __init__(self, directory: Path) -> None:
        self.last: Lab | None = None
        self.path = "/out"

    def run(self, env: StreamEnvironment, **start: Any) -> pd.DataFrame:
        lab = Lab(env, after=self.last, **start)
        self.last = lab
        lab.run()
        assert lab.look.master.status.name == "FINISHED", lab.look.master.error
        return lab.output("out")

    def stop(self, env: StreamEnvironment) -> str:
        self.last = lab = Lab(env, after=self.last)
        lab.run_until(checkpoint=1)
        request = lab.stop()
        lab.run()
        return str(lab.look.answer(request))

    def names(self) -> list[str]:
        assert self.last is not None
        return sorted(self.last._world.edge.output.published)


class SlotsHost:
    """The same on slots, whose output is real files."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = str(directory / "out")

    def run(self, env: StreamEnvironment, **start: Any) -> pd.DataFrame:
        with SparkJob(env, launch=ThreadGang, **start) as job:
            job.start()
            assert job.wait(timeout_s=60) == "FINISHED"
            return job.output("out")

    def stop(self, env: StreamEnvironment) -> str:
        with SparkJob(env, launch=ThreadGang) as job:
            job.start()
            return job.stop(self.directory / "savepoints")

    def names(self) -> list[str]:
        return sorted(path.name for path in Path(self.path).glob("*"))


@pytest.fixture(params=[LabHost, SlotsHost], ids=["lab", "slots"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> LabHost | SlotsHost:
    made: LabHost | SlotsHost = request.param(tmp_path)
    return made


def once(output: pd.DataFrame, times: int = 1) -> bool:
    return Counter(output["n"]) == Counter(dict.fromkeys(range(60), times))


def test_a_second_run_into_the_same_directory_is_refused_before_it_begins(host: LabHost | SlotsHost) -> None:
    env = numbers(ParquetSink(host.path))
    assert once(host.run(env))
    before = host.names()
    with pytest.raises(FileExistsError) as refused:
        host.run(env)
    message = str(refused.value)
    assert host.path in message
    assert 'mode="overwrite"' in message
    assert 'mode="append"' in message
    assert len(message.splitlines()) <= 6
    assert host.names() == before


def test_a_second_run_may_replace_the_rows_of_the_first(host: LabHost | SlotsHost) -> None:
    env = numbers(ParquetSink(host.path, mode="overwrite"))
    assert once(host.run(env))
    assert once(host.run(env))


def test_a_second_run_may_add_to_the_rows_of_the_first(tmp_path: Path) -> None:
    host = SlotsHost(tmp_path)
    env = numbers(ParquetSink(host.path, mode="append"))
    assert once(host.run(env))
    assert once(host.run(env), times=2)


def test_what_is_collected_begins_anew_with_each_run(host: LabHost | SlotsHost) -> None:
    env = numbers(CollectSink("out"))
    assert once(host.run(env))
    assert once(host.run(env))


@pytest.mark.parametrize("mode", ["error", "overwrite", "append"])
@pytest.mark.parametrize("kind", [ParquetSink, CollectSink])
def test_a_job_that_goes_on_from_a_savepoint_goes_on_with_its_output(
    host: LabHost | SlotsHost, mode: str, kind: type[Sink]
) -> None:
    sink = ParquetSink(host.path, mode=mode) if kind is ParquetSink else CollectSink("out")
    savepoint = host.stop(numbers(sink, rows_per_second=100))
    assert once(host.run(numbers(sink, parallelism=3), restore_path=savepoint))


@pytest.mark.parametrize("mode", ["error", "overwrite"])
def test_a_driver_that_recovers_goes_on_with_the_output(mode: str) -> None:
    env = numbers(ParquetSink("/out", mode=mode), store="filesystem", directory=Path("/checkpoints"))
    first = Lab(env)
    first.run_until(checkpoint=2)
    again = Lab(env, after=first, recover=True)
    again.run()
    assert again.look.master.status.name == "FINISHED", again.look.master.error
    assert once(again.output("out"))


def test_a_driver_that_recovers_nothing_is_a_new_run() -> None:
    first = Lab(numbers(ParquetSink("/out")))
    first.run()
    durable = numbers(ParquetSink("/out"), store="filesystem", directory=Path("/other"))
    again = Lab(durable, after=first, recover=True)
    error = failure(again)
    assert "/out already holds" in error
    assert "mode=" in error
    assert once(output_of_failed(again, "out"))


def test_an_unfinished_run_keeps_its_output_when_it_is_not_recovered() -> None:
    """A durable store rejects a start from scratch while a run can be resumed, so nothing of it is overwritten."""
    env = numbers(ParquetSink("/out", mode="overwrite"), store="filesystem", directory=Path("/checkpoints"))
    first = Lab(env)
    first.run_until(checkpoint=2)
    published = first.output("out")
    assert len(published)
    again = Lab(env, after=first)
    assert "recover=True" in failure(again)
    pd.testing.assert_frame_equal(output_of_failed(again, "out"), published)


def test_restarts_and_rescales_of_one_run_never_trip_over_its_output() -> None:
    for seed in range(10):
        lab = Lab(numbers(ParquetSink("/out")), seed=seed)
        for worker in (0, 1, 0):
            lab.run_until(checkpoint=lab.look.master.checkpoints.store.latest_id + 1)
            lab.faults.kill(worker)
        lab.run()
        assert once(lab.output("out"))


def test_files_that_no_sink_wrote_are_never_deleted(tmp_path: Path) -> None:
    host = SlotsHost(tmp_path)
    (tmp_path / "out").mkdir()
    mine = tmp_path / "out" / "flights.parquet"
    pd.DataFrame({"n": [1]}).to_parquet(mine)
    for mode in ("error", "overwrite"):
        with pytest.raises(FileExistsError, match=r"flights\.parquet"):
            host.run(numbers(ParquetSink(host.path, mode=mode)))
    assert host.names() == ["flights.parquet"]


def test_all_directories_are_looked_at_before_one_is_emptied(tmp_path: Path) -> None:
    env = numbers(ParquetSink(str(tmp_path / "a")))
    env.from_source(CollectionSource(ROWS), uid="more").sink_to(ParquetSink(str(tmp_path / "b")), uid="b")
    with SparkJob(env, launch=ThreadGang) as job:
        job.start().wait(timeout_s=60)
    before = sorted(tmp_path.rglob("*.parquet"))
    env = numbers(ParquetSink(str(tmp_path / "a"), mode="overwrite"))
    env.from_source(CollectionSource(ROWS), uid="more").sink_to(ParquetSink(str(tmp_path / "b")), uid="b")
    job = SparkJob(env, launch=ThreadGang)
    with pytest.raises(FileExistsError):
        job.start()
    assert job.status == "CREATED"
    assert sorted(tmp_path.rglob("*.parquet")) == before
    job.close()


OTHER_ROWS = [{"n": n} for n in range(100, 107)]


def unrelated() -> StreamEnvironment:
    env = StreamEnvironment("unrelated", checkpoint=CheckpointConfig(interval_ms=20))
    env.from_source(CollectionSource(OTHER_ROWS), uid="others").sink_to(CollectSink("out"), uid="out")
    return env


def test_a_job_that_goes_on_from_a_savepoint_has_none_of_the_rows_collected_by_another_job(
    host: LabHost | SlotsHost,
) -> None:
    savepoint = host.stop(numbers(CollectSink("out"), rows_per_second=100))
    assert len(host.run(unrelated())) == len(OTHER_ROWS)
    assert once(host.run(numbers(CollectSink("out"), parallelism=3), restore_path=savepoint))


def test_a_driver_that_recovers_has_only_the_rows_that_its_own_job_collected() -> None:
    env = numbers(CollectSink("out"), store="filesystem", directory=Path("/checkpoints"))
    first = Lab(env)
    first.run_until(checkpoint=2)
    assert len(first.output("out"))
    other = Lab(unrelated(), after=first)
    other.run()
    assert len(other.output("out")) == len(OTHER_ROWS)
    again = Lab(env, after=other, recover=True)
    again.run()
    assert once(again.output("out"))


def test_a_driver_that_recovers_an_ended_job_has_only_the_rows_of_that(
    host: LabHost | SlotsHost, tmp_path: Path
) -> None:
    env = numbers(CollectSink("out"), store="filesystem", directory=tmp_path / "checkpoints")
    assert once(host.run(env))
    host.run(unrelated())
    assert once(host.run(env, recover=True))


def test_jobs_with_one_id_and_stores_of_their_own_collect_apart(host: LabHost | SlotsHost, tmp_path: Path) -> None:
    one = numbers(CollectSink("out"), store="filesystem", directory=tmp_path / "one")
    assert once(host.run(one))
    two = numbers(CollectSink("out"), parallelism=1, store="filesystem", directory=tmp_path / "two")
    assert one.job_graph().job_id == two.job_graph().job_id
    assert once(host.run(two, recover=True))
    assert once(host.run(one, recover=True))


def test_the_rows_of_a_job_that_ended_stay_its_own_when_another_begins() -> None:
    with SparkJob(numbers(CollectSink("out")), launch=ThreadGang) as first:
        first.start().wait(timeout_s=60)
    with SparkJob(unrelated(), launch=ThreadGang) as second:
        second.start().wait(timeout_s=60)
    assert once(first.output("out"))
    assert len(second.output("out")) == len(OTHER_ROWS)


def test_two_jobs_that_run_at_once_collect_apart() -> None:
    slow = numbers(CollectSink("out"), rows_per_second=60)
    with SparkJob(slow, launch=ThreadGang) as first:
        first.start().wait_until_running(timeout_s=60)
        first.trigger_checkpoint()
        with SparkJob(unrelated(), launch=ThreadGang) as second:
            second.start().wait(timeout_s=60)
            assert len(second.output("out")) == len(OTHER_ROWS)
        first.wait(timeout_s=60)
        assert once(first.output("out"))


@pytest.mark.parametrize("seed", range(5))
def test_a_job_that_goes_back_to_an_earlier_savepoint_collects_no_row_twice(seed: int) -> None:
    """The rows that the first run collected after its savepoint are read again, and are not of this run."""
    env = numbers(CollectSink("out"))
    first = Lab(env, seed=seed)
    first.run_until(checkpoint=1)
    savepoint = first.savepoint(wait=True)
    first.run()
    assert once(first.output("out"))
    again = Lab(numbers(CollectSink("out"), parallelism=1), seed=seed, restore_path=savepoint, after=first)
    again.run()
    assert once(again.output("out"))
    third = Lab(env, seed=seed, restore_path=savepoint, after=again)
    third.run()
    assert once(third.output("out"))


@pytest.mark.parametrize("seed", range(3))
def test_a_savepoint_can_be_restored_at_every_later_moment_of_its_job(seed: int) -> None:
    """Its rows are staged, or published by a later checkpoint, and at no moment neither."""
    env = numbers(CollectSink("out"))
    first = Lab(env, seed=seed)
    first.run_until(checkpoint=1)
    savepoint = first.savepoint(wait=True)
    moments = 0
    while not first.ended:
        first.step()
        second = Lab(env, seed=seed, restore_path=savepoint, after=first)
        second.run()
        assert once(second.output("out")), f"after step {first.position}"
        moments += 1
    assert moments > 20
    assert once(first.output("out"))


def test_a_running_job_and_another_from_its_savepoint_collect_apart(tmp_path: Path) -> None:
    with SparkJob(numbers(CollectSink("out"), rows_per_second=40), launch=ThreadGang) as first:
        first.start().wait_until_running(timeout_s=60)
        first.trigger_checkpoint()
        savepoint = first.savepoint(tmp_path / "savepoints")
        with SparkJob(numbers(CollectSink("out")), launch=ThreadGang, restore_path=savepoint) as second:
            second.start().wait(timeout_s=60)
            assert once(second.output("out"))
        first.wait(timeout_s=60)
        assert once(first.output("out"))


def collected() -> set[str]:
    """The directories of rows that jobs of this process have collected and that are still there."""
    gc.collect()
    return {name for name in os.listdir(process_directory()) if name.startswith(COLLECTED)}


def test_rows_outlive_the_jobs_and_the_savepoints_before(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The second run has the rows of the first, whose job and savepoint are gone when the third one starts."""
    restored: dict[str, Any] = {}
    counts, before = [], collected()
    for number in range(2):
        env = numbers(CollectSink("out"), rows_per_second=20, directory=str(tmp_path / f"checkpoints-{number}"))
        with SparkJob(env, launch=ThreadGang, **restored) as job:
            job.start().wait_until_running(timeout_s=60)
            job.trigger_checkpoint()
            job.trigger_checkpoint()
            savepoint = job.stop(tmp_path / f"savepoints-{number}")
            counts.append(len(job.output()))
        restored = {"restore_path": savepoint, "claim_mode": "CLAIM"}
        del job
    assert 0 < counts[0] < counts[1] < len(ROWS)
    assert len(collected() - before) == 1  # the second run's
    with SparkJob(numbers(CollectSink("out")), launch=ThreadGang, **restored) as last:
        last.start().wait(timeout_s=60)
        assert once(last.output("out"))
    assert [record for record in caplog.records if "CollectSink" in record.getMessage()] == []


STOPS = """
import sys
from kit import CollectSink, SparkJob
from tests.stream.connectors.test_output_of_two_runs import numbers
from tests.hosts.spark.jobs import ThreadGang
store = {"store": "filesystem", "directory": sys.argv[1] + "/checkpoints"} if sys.argv[2] == "die" else {}
with SparkJob(numbers(CollectSink("out"), rows_per_second=60, **store), launch=ThreadGang) as job:
    job.start().wait_until_running()
    if sys.argv[2] == "die":
        import os, signal
        job.trigger_checkpoint()
        job.trigger_checkpoint()
        print(len(job.output()), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    print(job.stop(sys.argv[1]))
    print(len(job.output()))
"""


def other_process(directory: Path, how: str) -> list[str]:
    ran = subprocess.run(
        [sys.executable, "-c", STOPS, str(directory), how], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert "Error" not in ran.stderr, ran.stderr
    return ran.stdout.splitlines()


def test_a_job_stopped_in_another_process_goes_on_without_what_that_had_collected(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    savepoint, collected = other_process(tmp_path, "stop")
    with SparkJob(numbers(CollectSink("out")), launch=ThreadGang, restore_path=savepoint) as job:
        job.start()
        assert job.wait(timeout_s=60) == "FINISHED", job.error
        found = sorted(job.output()["n"])
    assert 0 < int(collected) < 60
    assert len(found) == len(set(found)) == 60 - int(collected)
    warned = [record.getMessage() for record in caplog.records if "CollectSink" in record.getMessage()]
    assert len(warned) == 1
    assert warned[0].startswith("rows that a CollectSink had collected before this run, in another process, are gone")


def test_a_driver_that_recovers_in_another_process_has_no_row_of_other_jobs(tmp_path: Path) -> None:
    SlotsHost(tmp_path).run(unrelated())
    (collected,) = other_process(tmp_path, "die")
    env = numbers(CollectSink("out"), store="filesystem", directory=tmp_path / "checkpoints")
    found = SlotsHost(tmp_path).run(env, recover=True)["n"]
    assert sorted(found) == sorted(set(found) - {row["n"] for row in OTHER_ROWS})
    assert len(found) <= 60 - int(collected)


def test_rows_that_are_kept_beside_those_of_another_run_get_names_of_their_own() -> None:
    """The rows after the savepoint come twice, as `later_output="keep"` says; none is dropped for its file's name."""
    first = Lab(numbers(ParquetSink("/out")))
    first.run_until(checkpoint=1)
    savepoint = first.savepoint(wait=True)
    first.run()
    again = Lab(numbers(ParquetSink("/out"), parallelism=1), restore_path=savepoint, after=first, later_output="keep")
    again.run()
    kept = again.output("/out")["n"].value_counts()
    assert set(kept.index) == set(range(60))
    assert set(kept) == {1, 2}


def test_two_sinks_of_a_job_do_not_share_a_directory() -> None:
    env = numbers(CollectSink("out"))
    env.from_source(CollectionSource(ROWS), uid="more").sink_to(CollectSink("out"), uid="also out")
    with pytest.raises(GraphError, match=r"'out' and 'also out' both write to memory://out"):
        Lab(env)


def test_a_mode_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match=r"mode is 'w', but must be \"error\", \"overwrite\" or \"append\""):
        ParquetSink("out", mode="w")


def test_collected_rows_are_deleted_with_the_job_unless_a_snapshot_covers_them(tmp_path: Path) -> None:
    before = collected()
    host = SlotsHost(tmp_path)
    host.run(unrelated())
    assert collected() == before
    savepoint = host.stop(numbers(CollectSink("out"), rows_per_second=100))
    assert len(collected()) == len(before) + 1
    assert once(host.run(numbers(CollectSink("out")), restore_path=savepoint))

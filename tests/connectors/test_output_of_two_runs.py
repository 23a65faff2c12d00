"""A run's output is its own: what another run has published is not added to in silence, and not deleted unasked.

On both hosts; on Spark's side a gang of slots in threads stands in for Spark, which is not asked anything here.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from kit import CheckpointConfig, CollectionSource, CollectSink, Lab, ParquetSink, StreamEnvironment
from kit.connectors import Sink
from kit.graph import GraphError
from kit.spark import SparkJob
from tests.lab.jobs import failure, output_of_failed
from tests.spark.jobs import ThreadGang

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
        assert lab.master.status.name == "FINISHED", lab.master.error
        return lab.output("out")

    def stop(self, env: StreamEnvironment) -> str:
        self.last = lab = Lab(env, after=self.last)
        lab.run_until(checkpoint=1)
        request = lab.stop()
        lab.run()
        return str(lab.answer(request))

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
    assert again.master.status.name == "FINISHED", again.master.error
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
    """A durable store refuses to start from scratch over a run that can go on: nothing of it is overwritten then."""
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
            lab.run_until(checkpoint=lab.master.checkpoints.store.latest_id + 1)
            lab.kill(worker)
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


def test_two_sinks_of_a_job_do_not_share_a_directory() -> None:
    env = numbers(CollectSink("out"))
    env.from_source(CollectionSource(ROWS), uid="more").sink_to(CollectSink("out"), uid="also out")
    with pytest.raises(GraphError, match=r"'out' and 'also out' both write to memory://out"):
        Lab(env)


def test_a_mode_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match=r"mode is 'w', but must be \"error\", \"overwrite\" or \"append\""):
        ParquetSink("out", mode="w")

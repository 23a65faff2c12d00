"""A job that is restored from an older snapshot does not publish rows again that it published after that."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from kit import CheckpointConfig, CollectionSource, Lab, ParquetSink, StreamEnvironment, sum_
from kit.hosts.lab.errors import LabError
from kit.hosts.spark.job import SparkJob
from kit.machines.job.errors import JobFailedError
from tests.hosts.spark.jobs import ThreadGang, await_checkpoint, check_output, generator, totals_job

ROWS = [{"letter": "abc"[number % 3], "n": number} for number in range(60)]


def letters(job_id: str | None = None) -> StreamEnvironment:
    """Each row of letters leads to a row of output."""
    env = StreamEnvironment("letters", job_id=job_id, checkpoint=CheckpointConfig(interval_ms=20, directory="/c"))
    stream = env.from_source(CollectionSource(ROWS, batch_rows=1), uid="letters")
    totals = stream.key_by("letter").aggregate(total=sum_("n")).uid("totals")
    totals.sink_to(ParquetSink("/out", mode="append"), uid="out")
    return env


def with_later_output() -> tuple[Lab, str]:
    """Return a lab whose job has ended, and a savepoint that it took long before."""
    lab = Lab(letters())
    lab.run_until(checkpoint=1)
    savepoint = lab.savepoint(wait=True)
    covered = len(lab.output("out"))
    lab.run()
    assert len(lab.output("out")) == len(ROWS) > covered > 0
    return lab, savepoint


@pytest.fixture(scope="module")
def ended() -> tuple[Lab, str]:
    return with_later_output()


def expected() -> pd.DataFrame:
    lab = Lab(letters())
    lab.run()
    return in_order(lab.output("out"))


def in_order(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.sort_values(["letter", "total"]).reset_index(drop=True)


@pytest.mark.parametrize("job_id", [None, "ab" * 16])
def test_it_is_rejected_and_the_choices_are_named(ended: tuple[Lab, str], job_id: str | None) -> None:
    lab, savepoint = ended
    again = Lab(letters(job_id), restore_path=savepoint, after=lab)
    with pytest.raises(
        LabError, match=r"/out holds \d+ Parquet files .* .* published after checkpoint \d+, from which it"
    ):
        again.run()
    assert "later_output=" in again.error
    assert in_order(again._world.edge.output.read("/out")).equals(in_order(lab.output("out")))


def test_later_output_can_be_discarded(ended: tuple[Lab, str]) -> None:
    lab, savepoint = ended
    again = Lab(letters(), restore_path=savepoint, after=lab, later_output="discard")
    again.run()
    assert in_order(again.output("out")).equals(expected())


def test_later_output_can_be_kept(ended: tuple[Lab, str]) -> None:
    lab, savepoint = ended
    again = Lab(letters("cd" * 16), restore_path=savepoint, after=lab, later_output="keep")
    again.run()
    assert len(again.output("out")) > len(ROWS)
    assert set(map(tuple, again.output("out").to_numpy())) == set(map(tuple, expected().to_numpy()))


def test_later_output_can_be_kept_by_the_job_that_published_it(ended: tuple[Lab, str]) -> None:
    """Its checkpoints begin again at the snapshot's id, and their files must not have the names of those kept."""
    lab, savepoint = ended
    before = dict(lab._world.edge.output.published)
    again = Lab(letters(), restore_path=savepoint, after=lab, later_output="keep")
    again.run()
    after = again._world.edge.output.published
    assert all(after[name] is table for name, table in before.items())
    assert len(again.output("out")) > len(ROWS)
    assert set(map(tuple, again.output("out").to_numpy())) == set(map(tuple, expected().to_numpy()))


def test_output_of_other_jobs_is_no_concern_of_it(ended: tuple[Lab, str]) -> None:
    """Another job appends to the same directory, with checkpoints of its own."""
    other = Lab(letters("ef" * 16))
    other.run()
    first = Lab(letters(), after=other)
    first.run_until(checkpoint=1)
    savepoint = first.stop(wait=True)
    Lab(letters(), restore_path=savepoint, after=first).run()


def test_a_job_that_was_stopped_goes_on_from_its_savepoint(ended: tuple[Lab, str]) -> None:
    lab = Lab(letters())
    lab.run_until(checkpoint=1)
    again = Lab(letters(), restore_path=lab.stop(wait=True), after=lab)
    again.run()
    assert in_order(again.output("out")).equals(expected())


def test_another_choice_is_an_error() -> None:
    with pytest.raises(LabError, match="later_output is 'ignore', but must be one of 'error', 'discard', 'keep'"):
        Lab(letters(), later_output="ignore")


def test_on_a_disk(tmp_path: Path) -> None:
    def job(**options: object) -> SparkJob:
        env = totals_job(tmp_path, generator(rows_per_second=20_000))
        return SparkJob(env, launch=ThreadGang, **options)  # type: ignore[arg-type]

    with job().start() as first:
        await_checkpoint(first, 2)
        savepoint = first.savepoint(tmp_path / "savepoints")
        assert first.wait() == "FINISHED"
    check_output(tmp_path)
    with job(restore_path=savepoint) as again, pytest.raises(JobFailedError, match="rows would come again"):
        again.start().wait()
    check_output(tmp_path)
    with job(restore_path=savepoint, later_output="discard") as again:
        assert again.start().wait() == "FINISHED"
    check_output(tmp_path)

"""Published files belong to their readers, who may take them away: no failure makes a job ask for them again."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kit import ParquetSink
from kit.core.protocol.events import RequestSavepoint, StartJob
from kit.core.protocol.properties import LaterOutput
from kit.core.protocol.snapshots import Effect
from kit.files import output_files
from kit.filesystems.local_disk import LocalDisk
from kit.hosts.spark.edge import SparkOutput
from kit.machines.job.status import JobStatus
from kit.stream.connectors import CommitError, Sink
from tests.files.test_power_loss import HostOnDisk, assert_each_row_once, completed, graph
from tests.stream.connectors.parts import paths_of_part

TABLE = pa.table({"n": [1, 2, 3]})


def staged_below(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.rglob(".staging/**/*") if path.is_file())


def part(directory: Path, number: int, staged_by: int | None = None) -> Effect:
    sink = Sink(str(directory))
    return Effect("sink", *paths_of_part(sink, number, staged_by or number))


def staged(effect: Effect) -> Effect:
    output_files.stage(Effect(effect.operator_id, effect.staged, effect.final, TABLE))
    return effect


def published(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("*.parquet"))


def test_a_part_that_was_published_and_taken_away_is_not_asked_for_again(tmp_path: Path) -> None:
    effect = staged(part(tmp_path, 7))
    output_files.commit([effect])
    Path(effect.final).unlink()
    output_files.commit([effect])
    output_files.commit([effect])
    assert published(tmp_path) == []


def test_a_part_that_another_checkpoint_staged_as_well_is_not_published_twice(tmp_path: Path) -> None:
    first, again = staged(part(tmp_path, 7)), staged(part(tmp_path, 7, staged_by=8))
    output_files.commit([first])
    Path(first.final).unlink()
    output_files.commit([again])
    assert published(tmp_path) == []
    assert not Path(again.staged).exists()
    output_files.commit([first, again])


def test_a_staged_part_that_is_gone_without_a_record_was_never_published(tmp_path: Path) -> None:
    effect = staged(part(tmp_path, 7))
    Path(effect.staged).unlink()
    with pytest.raises(CommitError, match="no record says that it was published"):
        output_files.commit([effect])


def test_a_record_of_one_part_is_none_of_another(tmp_path: Path) -> None:
    for number in (7, 70):
        output_files.commit([staged(part(tmp_path, number))])
    missing = part(tmp_path, 8)
    with pytest.raises(CommitError):
        output_files.commit([missing])


@pytest.mark.parametrize("by_another", [True, False])
def test_a_writer_that_dies_between_record_and_rename_publishes_after_all(
    tmp_path: Path, monkeypatch, by_another: bool
) -> None:
    effect, again = staged(part(tmp_path, 7)), staged(part(tmp_path, 7, staged_by=8))
    rename = LocalDisk.rename

    def die(system: object, source: str, target: str, *, durable: bool) -> None:
        if target == effect.final:
            raise OSError("dead")
        rename(system, source, target, durable=durable)

    with monkeypatch.context() as patch:
        patch.setattr(LocalDisk, "rename", die)
        with pytest.raises(CommitError, match="dead"):
            output_files.commit([effect])
    if by_another:
        output_files.drop([effect])
    output_files.commit([again if by_another else effect])
    assert pq.read_table(again.final).equals(TABLE)


def test_a_damaged_record_counts_for_nothing(tmp_path: Path) -> None:
    effect = staged(part(tmp_path, 7))
    output_files.commit([effect])
    Path(effect.final).unlink()
    (record,) = Path(effect.staged).parent.iterdir()
    record.write_bytes(b'["part')
    with pytest.raises(CommitError, match="no record"):
        output_files.commit([effect])


def take_away(host: HostOnDisk, place: Path, to: Path) -> None:
    """Move all published files out of the sinks' directories, as a reader does after reading them."""
    for sink in ("totals", "copy"):
        (to / sink).mkdir(parents=True, exist_ok=True)
        for path in output_files.published_files(str(place / sink)):
            assert not (to / sink / path).exists()
            (to / sink / path).parent.mkdir(exist_ok=True)
            (place / sink / path).rename(to / sink / path)


def test_a_job_fails_over_though_its_reader_takes_every_file_away(tmp_path: Path) -> None:
    place, taken = tmp_path / "place", tmp_path / "taken"
    host = HostOnDisk(graph(place), place)
    host.tell(StartJob())
    for worker in (1, 0):
        reached = completed(host) + 1
        host.run(lambda: completed(host) > reached)  # noqa: B023
        take_away(host, place, taken)
        host.kill(worker)
    host.run()
    assert host.status is JobStatus.FINISHED, host.master.error
    take_away(host, place, taken)
    assert_each_row_once(taken)
    assert staged_below(place) == []


def test_an_older_snapshot_is_not_restored_in_silence_when_later_output_was_taken_away(tmp_path: Path) -> None:
    place, taken = tmp_path / "place", tmp_path / "taken"
    host = HostOnDisk(graph(place), place)
    host.tell(StartJob())
    host.run(lambda: completed(host) == 1)
    host.tell(RequestSavepoint(request_id=1))
    host.run(lambda: 1 in host.answers)
    host.run()
    take_away(host, place, taken)
    savepoint = str(host.answers[1])
    refused = {"error": "rows would come again", "discard": "cannot be discarded"}
    for choice, why in refused.items():
        again = HostOnDisk(graph(place), place)
        again.tell(StartJob(restore_path=savepoint, later_output=LaterOutput(choice)))
        again.run()
        assert again.status is JobStatus.FAILED
        assert "taken away" in again.master.error
        assert why in again.master.error


def test_records_are_forgotten_by_checkpoint(tmp_path: Path) -> None:
    sink, output = ParquetSink(tmp_path / "out"), SparkOutput("")
    for number in range(1, 8):
        output.commit([staged(part(tmp_path / "out", number))])
    output.sweep(sink, "job", range(1, 8))
    output.forget_published(sink, "job", range(1, 6), keep=[2])
    assert staged_below(tmp_path) == [f"part-0-{number}.parquet.published" for number in (2, 6, 7)]

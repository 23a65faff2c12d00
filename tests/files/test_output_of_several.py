"""Output is deleted and kept as a whole: of several sinks, writers, partitions and checkpoints."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from kit import CollectionSource, ParquetSink, StreamEnvironment
from kit.core.protocol.lineage import CoveredOutput, Lineage
from kit.core.protocol.snapshots import Effect
from kit.files.discarded_output import discarded
from kit.files.memory_output import MemoryOutput
from kit.files.output import Output
from kit.files.output_checks import begin_new_output, discard_later_output, with_later_output_kept
from kit.files.output_files import published_files, records_of_published
from kit.hosts.spark.edge import SparkOutput
from kit.stream.connectors import Sink
from kit.stream.graph.job_graph import JobGraph
from tests.stream.connectors.parts import paths_of_part

TABLE = pa.table({"n": [1, 2]})
FIRST = Lineage("a").covered_at(3)
"""A snapshot of the first run; what later runs of its lineage published is not covered."""
PARTS = [("a", 3), ("a", 5), ("a", 4), ("a.b", 7), ("a.b", 6), ("a.c", 8), ("x", 9)]
"""The writer and the checkpoint of each part; `x` is of another lineage."""


def job_of(place: Path) -> JobGraph:
    """Return a job with two sinks that overwrite what is there."""
    env = StreamEnvironment("several")
    rows = env.from_source(CollectionSource([{"n": 1}]), uid="rows")
    for name in ("one", "two"):
        rows.sink_to(ParquetSink(place / name, mode="overwrite"), uid=name)
    return env.job_graph()


def sinks(place: Path) -> list[Sink]:
    return [ParquetSink(place / name) for name in ("one", "two")]


@pytest.fixture(params=[MemoryOutput, lambda: SparkOutput("")], ids=["in memory", "on a disk"])
def output(request: pytest.FixtureRequest, tmp_path: Path) -> Output:
    """The output of all `PARTS` in both sinks, each in a partition of its own."""
    filled: Output = request.param()
    for sink in sinks(tmp_path):
        for writer, checkpoint in PARTS:
            paths = paths_of_part(sink, checkpoint, writer=writer, partition=f"day={checkpoint}/")
            effect = Effect("sink", *paths, TABLE)
            filled.stage(effect)
            filled.commit([effect])
    return filled


def left(output: Output, place: Path) -> list[list[str]]:
    """Return the partitions of the parts that are left, for each sink."""
    return [[name.partition("/")[0] for name in output.published_files(sink)] for sink in sinks(place)]


def test_a_new_run_overwrites_each_sink(output: Output, tmp_path: Path) -> None:
    begin_new_output(job_of(tmp_path), output)
    assert left(output, tmp_path) == [[], []]
    assert [output.discarded(sink) for sink in sinks(tmp_path)] == [{"a": 3, "a.b": 6, "a.c": 8, "x": 9}] * 2


def test_all_later_output_of_a_lineage_is_discarded(output: Output, tmp_path: Path) -> None:
    discard_later_output(job_of(tmp_path), output, FIRST, "savepoint 3", lambda: None)
    assert left(output, tmp_path) == [["day=3", "day=9"]] * 2
    assert [output.discarded(sink) for sink in sinks(tmp_path)] == [{"a": 4, "a.b": 6, "a.c": 8}] * 2
    assert [output.taken_away(sink, FIRST) for sink in sinks(tmp_path)] == [0, 0]
    if isinstance(output, SparkOutput):
        for sink in sinks(tmp_path):
            assert [len(records_of_published(sink.path, each)) for each in ("a", "a.b", "a.c", "x")] == [1, 0, 0, 1]
            assert sorted(each.name for each in Path(sink.path).iterdir()) == [".staging", "day=3", "day=9"]
            assert discarded(sink.path) == output.discarded(sink)
            assert len(published_files(sink.path)) == 2


def test_what_is_discarded_first_stays_marked_after_more_is(output: Output, tmp_path: Path) -> None:
    discard_later_output(job_of(tmp_path), output, FIRST, "savepoint 3", lambda: None)
    begin_new_output(job_of(tmp_path), output)
    assert [output.discarded(sink) for sink in sinks(tmp_path)] == [{"a": 3, "a.b": 6, "a.c": 8, "x": 9}] * 2


@pytest.mark.parametrize("output", [MemoryOutput], indirect=True)
def test_a_copy_and_its_original_discard_each_for_itself(output: MemoryOutput, tmp_path: Path) -> None:
    before, other = left(output, tmp_path), output.copy()
    discard_later_output(job_of(tmp_path), other, FIRST, "savepoint 3", lambda: None)
    assert left(output, tmp_path) == before
    assert [output.discarded(sink) for sink in sinks(tmp_path)] == [{}, {}]
    begin_new_output(job_of(tmp_path), output)
    assert left(other, tmp_path) == [["day=3", "day=9"]] * 2
    assert [other.discarded(sink) for sink in sinks(tmp_path)] == [{"a": 4, "a.b": 6, "a.c": 8}] * 2
    assert [output.discarded(sink) for sink in sinks(tmp_path)] == [{"a": 3, "a.b": 6, "a.c": 8, "x": 9}] * 2


def test_all_later_output_of_a_lineage_is_kept(output: Output, tmp_path: Path) -> None:
    second = sinks(tmp_path)[1]
    for lone in (("a.d", 10), ("a.e", 11)):
        effect = Effect("sink", *paths_of_part(second, lone[1], writer=lone[0]), TABLE)
        output.stage(effect)
        output.commit([effect])
    covered = with_later_output_kept(job_of(tmp_path), output, FIRST)
    later = [*PARTS[:-1], ("a.d", 10), ("a.e", 11)]
    assert all(covered.includes(writer, checkpoint) for writer, checkpoint in later)
    assert not covered.includes("x", 9)
    run = Lineage("f", CoveredOutput.decode(covered.encode()))
    assert [part for part in later if run.led_to(*part)] == [("a", 3)], "what is kept did not lead to the run"


def test_files_that_were_taken_away_after_a_snapshot_are_counted(output: Output, tmp_path: Path) -> None:
    if isinstance(output, SparkOutput):
        for name in ("day=5", "day=7", "day=9", "day=3"):
            for path in (tmp_path / "two" / name).iterdir():
                path.unlink()
    else:
        assert isinstance(output, MemoryOutput)
        for path in [path for path in output.published if "/two/day=" in path and path.split("day=")[1][0] in "5793"]:
            del output.published[path]
    assert [output.taken_away(sink, FIRST) for sink in sinks(tmp_path)] == [0, 2]
    with pytest.raises(FileExistsError, match=r"2 files published in .*two after savepoint 3"):
        discard_later_output(job_of(tmp_path), output, FIRST, "savepoint 3", lambda: None)
    assert len(left(output, tmp_path)[0]) == len(PARTS), "nothing is deleted before all sinks are checked"

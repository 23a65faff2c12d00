"""Files that a sink writes between two barriers: their limits, their names, and the number of rows held in memory."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.stream.connectors import ParquetSink, RollingPolicy, Sink, SinkSpec
from kit.stream.connectors.part_names import writer_and_checkpoint
from kit.stream.connectors.rolling import bytes_by_row, bytes_of
from tests.stream.connectors.parts import paths_of_part
from tests.stream.operators.harness import Harness

ROWS = pa.schema([("n", pa.int64())])
EVERYTHING = pa.RecordBatch.from_pydict(
    {
        "number": pa.array([1, 2, None, 4]),
        "text": ["x", "yy", None, "zzzz"],
        "list": pa.array([[1], [], None, [1, 2]]),
        "struct": pa.array([{"a": 1}, None, {"a": 2}, {"a": 3}]),
        "map": pa.array([[("a", 1)], [], None, [("b", 2), ("cc", 3)]], pa.map_(pa.string(), pa.int64())),
        "named": pa.array(["x", "yy", None, "x"]).dictionary_encode(),
        "flag": [True, False, None, True],
        "money": pa.array([1, 2, 3, None], pa.decimal128(20, 2)),
        "nothing": pa.nulls(4),
    }
)


def sinking(**policy: Any) -> Harness:
    return Harness(SinkSpec(ROWS, Sink("memory://out", rolling=RollingPolicy(**policy))))


def batch(start: int, count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": list(range(start, start + count))}, schema=ROWS)


def files(harness: Harness, checkpoint_id: int = 1) -> dict[str, list[int]]:
    """The rows of each file that a checkpoint stages."""
    written: dict[str, list[int]] = {}
    staged = harness.snapshot(checkpoint_id).staged
    for rows in harness.written:
        written.setdefault(rows.path, []).extend(rows.table["n"].to_pylist())
    return {
        effect.final.rpartition("/")[2]: written[effect.pending] if effect.pending else effect.table["n"].to_pylist()
        for effect in staged
    }


@given(st.lists(st.integers(1, 9), max_size=12), st.integers(1, 9), st.integers(1, 80), st.integers(1, 12))
def test_files_follow_from_the_rows_and_not_from_the_batches(
    cuts: list[int], max_rows: int, max_bytes: int, held_rows: int
) -> None:
    def made(sizes: list[int]) -> dict[str, list[int]]:
        harness = sinking(max_rows=max_rows, max_bytes=max_bytes, held_rows=held_rows)
        for index, size in enumerate(sizes):
            harness.process(batch(sum(sizes[:index]), size))
        return files(harness)

    found = made(cuts)
    assert found == made([1] * sum(cuts))
    assert [n for rows in found.values() for n in rows] == list(range(sum(cuts)))
    largest = min(max_rows, -(-max_bytes // 8))
    sizes = [len(rows) for rows in found.values()]
    assert all(size == largest for size in sizes[:-1])
    assert all(size <= largest for size in sizes)


def test_the_bytes_of_a_row_are_its_own() -> None:
    sizes = bytes_by_row(EVERYTHING)
    assert bytes_of(EVERYTHING) == sizes.sum()
    for row in range(EVERYTHING.num_rows):
        assert bytes_by_row(EVERYTHING.slice(row, 1))[0] == sizes[row] > 0
    assert bytes_of(EVERYTHING.slice(1, 2)) == sizes[1:3].sum()


def test_files_of_one_barrier_have_numbers_and_the_first_has_the_old_name() -> None:
    harness = sinking(max_rows=2)
    harness.process(batch(0, 5))
    assert list(files(harness, 7)) == [
        "part-job-00000-000007.parquet",
        "part-job-00000-000007_00001.parquet",
        "part-job-00000-000007_00002.parquet",
    ]


def test_later_files_of_a_barrier_are_known_as_parts_of_its_checkpoint() -> None:
    for number in (0, 1, 123_456):
        staged, published = paths_of_part(Sink("memory://out"), 7, number=number)
        assert writer_and_checkpoint(staged) == writer_and_checkpoint(published) == ("job", 7)


def test_few_rows_are_held_however_many_come_without_a_checkpoint() -> None:
    harness = sinking(held_rows=1_000)
    most = 0
    for start in range(0, 300_000, 700):
        harness.process(batch(start, 700))
        most = max(most, harness.operator.rows_in_memory)
    assert most <= 1_000
    assert sum(rows.table.num_rows for rows in harness.written) >= 299_000
    assert {rows.path for rows in harness.written if rows.first} == {rows.path for rows in harness.written}


def test_few_rows_are_held_however_many_checkpoints_are_aborted() -> None:
    harness = sinking(held_rows=100)
    for checkpoint_id in range(1, 60):
        harness.process(batch(0, 70))
        harness.snapshot(checkpoint_id)
        if checkpoint_id > 2:  # two are always in progress
            harness.operator.notify_checkpoint_aborted(checkpoint_id - 2)
        assert harness.operator.rows_in_memory <= 200


def test_a_pending_file_goes_with_the_next_checkpoint_when_its_own_is_aborted() -> None:
    harness = sinking(max_rows=2, held_rows=2)
    harness.process(batch(0, 2))
    (first,) = harness.snapshot(1).staged
    harness.operator.notify_checkpoint_aborted(1)
    assert [effect.staged for effect in harness.dropped] == [first.staged]
    (again,) = harness.snapshot(2).staged
    assert (again.pending, again.final) == (first.pending, first.final)
    assert again.staged != first.staged
    harness.operator.notify_checkpoint_complete(2)
    assert [effect.staged for effect in harness.dropped] == [first.staged, first.pending]


def test_a_pending_file_stays_while_a_later_checkpoint_may_be_staging_it() -> None:
    harness = sinking(max_rows=2, held_rows=2)
    harness.process(batch(0, 2))
    (effect,) = harness.snapshot(1).staged
    harness.snapshot(2)
    harness.operator.notify_checkpoint_complete(1)
    assert harness.dropped == []
    harness.operator.notify_checkpoint_complete(2)
    assert effect.pending in {each.staged for each in harness.dropped}


def test_time_ends_a_file() -> None:
    harness = sinking(rollover_ms=1_000, inactivity_ms=300)
    assert harness.operator.next_processing_time_ms() is None
    harness.process(batch(0, 1))
    assert harness.operator.next_processing_time_ms() == 300
    harness.processing_time_ms = 200
    harness.process(batch(1, 1))
    assert harness.operator.next_processing_time_ms() == 500
    harness.operator.on_processing_time(499)
    assert harness.written == []
    harness.operator.on_processing_time(500)
    assert [(rows.first, rows.last, rows.table.num_rows) for rows in harness.written] == [(True, True, 2)]
    for harness.processing_time_ms in range(600, 1_600, 200):
        harness.process(batch(2, 1))
    assert harness.operator.next_processing_time_ms() == 1_600
    harness.operator.on_processing_time(1_600)
    assert [len(rows) for rows in files(harness).values()] == [2, 5]


def test_many_files_are_not_open_at_once() -> None:
    from kit.stream.connectors.part_writer import MOST_IN_PROGRESS, PartWriter, RowsToWrite

    written: list[RowsToWrite] = []
    paths = iter(map(str, range(10_000)))
    writer = PartWriter(ROWS, RollingPolicy(held_rows=10), written.append, lambda: next(paths))
    chance = random.Random(1)
    for number in range(3_000):
        writer.add(str(chance.randrange(500)), batch(number, 1), number)
        opened = {rows.path for rows in written if rows.first} - {rows.path for rows in written if rows.last}
        assert len(opened) <= MOST_IN_PROGRESS
    ended = writer.end_all()
    assert sum(each.rows for each in ended) == 3_000
    assert (
        np.concatenate([np.asarray(rows.table["n"]) for rows in written]).size
        + sum(each.table.num_rows for each in ended if each.table is not None)
        == 3_000
    )


@pytest.mark.parametrize("limits", [{"max_rows": 0}, {"max_bytes": -1}, {"rollover_ms": 1.5}, {"held_rows": None}])
def test_a_limit_is_a_whole_number_above_0(limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"RollingPolicy: \w+ = .*: expected (a whole number, )?1 or more"):
        RollingPolicy(**limits)


def test_what_is_no_policy_is_refused(tmp_path) -> None:
    with pytest.raises(TypeError, match=r"rolling is 5, expected a RollingPolicy"):
        ParquetSink(tmp_path, rolling=5)

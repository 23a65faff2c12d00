"""Sources and their coordinator: every row once, in ascending splits, at the rate asked for, from any checkpoint."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.stream.connectors import CollectionSource, GeneratorSource
from kit.stream.operators.sources.source import ReadResult, Source
from kit.stream.operators.sources.source_operator import Exhausted, ReadRequest, Waiting, WaitUntil
from kit.stream.operators.sources.source_spec import SourceSpec
from kit.stream.operators.sources.split_enumerator import SplitEnumerator
from tests.properties import examples
from tests.stream.operators.harness import SourceHarness, restored_sources


def numbered(rows: int, splits: int = 1, **settings_) -> CollectionSource:
    return CollectionSource(
        [{"row": row} for row in range(rows)], pa.schema([("row", pa.int64())]), splits=splits, **settings_
    )


def coordinator_of(source: Source, parallelism: int = 1) -> SplitEnumerator:
    coordinator = SplitEnumerator("source", parallelism)
    coordinator.start(source.enumerate_splits())
    return coordinator


def rows_of(harness: SourceHarness) -> list[int]:
    return [row["row"] for row in harness.rows()]


# --- the operator -----------------------------------------------------------------------------------------------------


def test_it_asks_reads_and_is_exhausted() -> None:
    harness = SourceHarness(SourceSpec(numbered(5, splits=2, batch_rows=2)))
    assert harness.said == [{"kind": "request_split", "after": -1, "before": None}]
    assert isinstance(harness.turn(), Waiting)
    coordinator = coordinator_of(harness.spec.source)
    steps = []
    while not isinstance(step := harness.answer(coordinator) or harness.turn(), Exhausted):
        steps.append((step.split["id"], step.position, step.max_rows))
    assert steps == [("rows-0", 0, 2), ("rows-1", 0, 2), ("rows-1", 2, 2)]
    assert rows_of(harness) == [0, 1, 2, 3, 4]
    assert isinstance(harness.turn(), Exhausted)


def test_a_read_that_is_not_answered_yet_is_waited_for() -> None:
    harness = SourceHarness(SourceSpec(numbered(2)))
    harness.answer(coordinator_of(harness.spec.source))
    assert isinstance(harness.operator.next_read(0), ReadRequest)
    assert isinstance(harness.operator.next_read(0), Waiting)


def test_rows_nobody_asked_for_are_refused() -> None:
    harness = SourceHarness(SourceSpec(numbered(2), name="numbers"))
    with pytest.raises(RuntimeError, match="numbers: rows of split 'rows-7' arrived, but no read was asked for"):
        harness.operator.on_split_read("rows-7", None, 0, finished=True)


def test_a_rate_is_kept_by_the_hosts_time_alone() -> None:
    harness = SourceHarness(SourceSpec(numbered(100, rows_per_second=20)))
    harness.answer(coordinator_of(harness.spec.source))
    assert harness.turn(1_000).max_rows == 2
    assert harness.turn(1_000) == WaitUntil(1_100)
    assert harness.turn(1_099) == WaitUntil(1_100)
    assert isinstance(harness.turn(1_130), ReadRequest)
    assert harness.turn(1_130) == WaitUntil(1_200)
    assert isinstance(harness.turn(9_000), ReadRequest)
    caught_up = 0
    while isinstance(harness.turn(9_000), ReadRequest):
        caught_up += 1
    assert caught_up == 10


def test_less_than_a_row_a_second_is_one_row_at_a_time() -> None:
    harness = SourceHarness(SourceSpec(numbered(3, rows_per_second=0.5)))
    harness.answer(coordinator_of(harness.spec.source))
    assert harness.turn(0).max_rows == 1
    assert harness.turn(0) == WaitUntil(2_000)


@settings(max_examples=examples(80), deadline=None)
@given(st.integers(0, 30), st.integers(1, 9), st.integers(1, 4), st.integers(1, 3), st.data())
def test_any_failures_and_rescales_leave_every_row_once_and_splits_ascending(rows, splits, parallelism, batch, data):
    """Rows read after the last checkpoint are read again; those before it never; no reader ever goes back."""
    source = numbered(rows, splits, batch_rows=batch)
    spec = SourceSpec(source)
    coordinator = coordinator_of(source, parallelism)
    readers = [SourceHarness(spec, subtask=subtask, parallelism=parallelism) for subtask in range(parallelism)]
    kept: list[int] = []
    for _ in range(data.draw(st.integers(0, 3))):
        for _ in range(data.draw(st.integers(0, 12))):
            step(data.draw(st.sampled_from(readers)), coordinator)
        snapshots, coordinated = [reader.snapshot() for reader in readers], coordinator.checkpoint()
        kept += [row for reader in readers for row in rows_of(reader)]
        for _ in range(data.draw(st.integers(0, 5))):
            step(data.draw(st.sampled_from(readers)), coordinator)
        check_ascending(readers)
        parallelism = data.draw(st.integers(1, 4))
        coordinator = SplitEnumerator("source", parallelism)
        coordinator.restore(coordinated, source.enumerate_splits())
        readers = restored_sources(spec, snapshots, parallelism)
    while not all(isinstance(step(reader, coordinator), Exhausted) for reader in readers):
        pass
    check_ascending(readers)
    kept += [row for reader in readers for row in rows_of(reader)]
    assert sorted(kept) == list(range(rows))
    assert coordinator.remaining == []
    assert all(reader.snapshot().operator is None for reader in readers)


def step(reader: SourceHarness, coordinator: SplitEnumerator):
    reader.answer(coordinator)
    return reader.turn()


def check_ascending(readers: list[SourceHarness]) -> None:
    for reader in readers:
        assert rows_of(reader) == sorted(rows_of(reader))


# --- the coordinator --------------------------------------------------------------------------------------------------


def ask(coordinator: SplitEnumerator, subtask: int, after: int = -1, before: int | None = None) -> int | None:
    """The index of the split that the reader is given."""
    ((receiver, answer),) = coordinator.handle_event(
        subtask, {"kind": "request_split", "after": after, "before": before}
    )
    assert receiver == subtask
    return answer["split"]["index"] if answer["kind"] == "assign_split" else None


def test_splits_go_to_their_own_readers_first_then_to_those_that_are_not_past_them() -> None:
    coordinator = coordinator_of(numbered(6, splits=6), parallelism=2)
    assert [ask(coordinator, 1), ask(coordinator, 0), ask(coordinator, 1, after=1)] == [1, 0, 3]
    assert ask(coordinator, 0, after=0) == 2
    assert ask(coordinator, 0, after=2) == 4
    assert ask(coordinator, 0, after=4) == 5
    assert ask(coordinator, 1, after=3) is None


def test_a_reader_that_holds_a_split_is_given_only_own_ones_that_come_before() -> None:
    coordinator = coordinator_of(numbered(6, splits=6), parallelism=2)
    assert ask(coordinator, 0, before=3) == 0
    assert ask(coordinator, 0, before=3) == 2
    assert ask(coordinator, 0, before=3) is None


def test_its_state_is_canonical_and_holds_what_is_left() -> None:
    coordinator = coordinator_of(numbered(3, splits=3))
    ask(coordinator, 0)
    state = coordinator.checkpoint()
    assert state == (
        b'{"remaining":[{"end":2,"id":"rows-1","index":1,"start":1},{"end":3,"id":"rows-2","index":2,"start":2}],'
        b'"version":1}'
    )
    again = SplitEnumerator("source", 2)
    again.restore(state, [])
    assert again.checkpoint() == state
    assert repr(again) == "SplitEnumerator(source, 2 splits left)"


def test_after_removals_a_restored_enumerator_gives_new_splits_new_places() -> None:
    """Splits that are gone leave holes among the numbers: a new one must not take the place of one that waits."""
    coordinator = SplitEnumerator("source", 1, discovers=True)
    coordinator.start([{"id": name} for name in "abcd"])
    coordinator.discovered([{"id": name} for name in "cde"], removes=True)
    assert [split["id"] for split in coordinator.remaining] == ["c", "d", "e"]
    again = SplitEnumerator("source", 1, discovers=True)
    again.restore(coordinator.checkpoint(), [])
    again.discovered([{"id": name} for name in "cdefg"], removes=True)
    assert [(split["id"], split["index"]) for split in again.remaining] == [
        ("c", 2),
        ("d", 3),
        ("e", 4),
        ("f", 5),
        ("g", 6),
    ]
    again.discovered([{"id": name} for name in "abg"], removes=True)
    assert [split["id"] for split in again.remaining] == ["g", "a", "b"], "what returns is new"


def test_without_state_it_begins_from_all_splits() -> None:
    coordinator = SplitEnumerator("source", 1)
    coordinator.restore(None, numbered(3, splits=3).enumerate_splits())
    assert len(coordinator.remaining) == 3


def test_what_it_does_not_know_is_refused() -> None:
    coordinator = coordinator_of(numbered(1))
    with pytest.raises(ValueError, match=r"reader 3 sent .*hello.*, expected 'request_split'"):
        coordinator.handle_event(3, {"kind": "hello"})
    with pytest.raises(ValueError, match="every split needs an 'id' of its own"):
        coordinator.start([{"id": "a"}, {"id": "a"}])
    with pytest.raises(ValueError, match="state has version 9, expected 1"):
        coordinator.restore(b'{"version":9}', [])


# --- sources in memory ------------------------------------------------------------------------------------------------


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(1, 200_000), st.sampled_from([1, 7, 1_000, 100_000, 5_000_000]), st.integers(0, 3), st.data())
def test_generated_rows_are_a_function_of_their_number(rows, key_count, seed, data) -> None:
    source = GeneratorSource(rows, key_count, seed, splits=data.draw(st.integers(1, 4)))
    split = data.draw(st.sampled_from(source.enumerate_splits()))
    length = split["end"] - split["start"]
    position = data.draw(st.integers(0, max(0, length - 1)))
    once = source.read_split(split, position, 10_000)
    whole = GeneratorSource(rows, key_count, seed).slice(split["start"] + position, 10_000)
    assert once.position == position + (once.batch.num_rows if once.batch else 0)
    assert once.finished == (once.position == length)
    if once.batch is not None:
        assert once.batch.equals(whole.slice(0, once.batch.num_rows))
        keys = once.batch.column("key").to_numpy()
        assert keys.min() >= 0
        assert keys.max() < key_count


def test_all_keys_are_generated_also_when_there_are_more_than_a_block_holds() -> None:
    source = GeneratorSource(10_000_000, 5_000_000)
    split, position, seen = source.enumerate_splits()[0], 0, np.zeros(5_000_000, np.bool_)
    while True:
        result = source.read_split(split, position, 1 << 20)
        seen[result.batch.column("key").to_numpy()] = True
        position = result.position
        if result.finished:
            break
    assert seen.all()


def test_a_collection_has_the_schema_of_its_rows() -> None:
    source = CollectionSource([{"carrier": "UA", "delay": 3}])
    assert source.schema == pa.schema([("carrier", pa.string()), ("delay", pa.int64())])
    assert repr(source) == "CollectionSource(1 rows)"
    with pytest.raises(ValueError, match="no rows to infer a schema from"):
        CollectionSource([])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: numbered(1, rows_per_second=0), "rows_per_second = 0: expected a number above 0"),
        (lambda: numbered(1, batch_rows=0), "batch_rows = 0"),
        (lambda: numbered(1, splits=0), "splits = 0"),
        (lambda: GeneratorSource(-1, 1), "rows = -1: expected 0 or more, or None for no end"),
        (lambda: GeneratorSource(1, 0), "key_count = 0: expected 1 or more"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make, said) -> None:
    with pytest.raises(ValueError, match=said):
        make()


class Squares(Source):
    """A source as a user writes one."""

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([("row", pa.int64())])

    def enumerate_splits(self):
        return [{"id": "squares"}]

    def read_split(self, split, position, max_rows):
        numbers = range(position, min(position + max_rows, 4))
        batch = pa.RecordBatch.from_pylist([{"row": number**2} for number in numbers], schema=self.schema)
        return ReadResult(batch, numbers.stop, finished=numbers.stop == 4)


def test_a_source_of_ones_own_is_three_methods() -> None:
    harness = SourceHarness(SourceSpec(Squares(batch_rows=3)))
    coordinator = coordinator_of(harness.spec.source)
    while not isinstance(step(harness, coordinator), Exhausted):
        pass
    assert rows_of(harness) == [0, 1, 4, 9]

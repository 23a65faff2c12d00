"""Splits read side by side: each reader has its own from the start, and event time is that of the one behind all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kit.core.event_time import MIN_WATERMARK_MS
from kit.stream.operators.sources.source import ReadResult, Source, Split
from kit.stream.operators.sources.source_coordinator import SourceCoordinator
from kit.stream.operators.sources.source_operator import Exhausted, ReadRequest
from kit.stream.operators.sources.source_spec import SourceSpec
from kit.stream.operators.sources.split_alignment import CoordinatorAlignment
from kit.stream.operators.sources.split_enumerator import SplitEnumerator
from kit.stream.operators.sources.split_watermarks import SplitWatermarks
from tests.stream.operators.harness import SourceHarness, restored


@dataclass(frozen=True, kw_only=True, eq=False)
class Sequences(Source):
    """Splits named `<sequence>-<number>`, of four rows each."""

    names: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([("row", pa.int64())])

    @property
    def sequences(self) -> int:
        return len({name[0] for name in self.names})

    def sequence_of(self, split: Split) -> str:
        return str(split["id"][0])

    def enumerate_splits(self) -> list[Split]:
        return [{"id": name} for name in self.names]

    def read_split(self, split: Split, position: int, max_rows: int) -> ReadResult:
        end = min(4, position + max_rows)
        rows = pa.record_batch({"row": list(range(position, end))}, schema=self.schema)
        return ReadResult(rows, end, end == 4)


class Reader(SourceHarness):
    """A reader whose rows have the event times that a test sets, by split and position."""

    def __init__(self, spec: Any, **how: Any) -> None:
        start = how.pop("start", True)
        super().__init__(spec, **how, start=False)
        self.watermarks_of_splits = SplitWatermarks()
        self.operator.follow_splits([self.watermarks_of_splits])
        if start:
            self.start()

    def read(self, times: dict[str, list[int]]) -> list[tuple[str, int, int]]:
        """Read all rows, and return the reads: split, first row, rows."""
        reads = []
        while not isinstance(step := self.turn(), Exhausted):
            rows = self.rows(len(self.output.elements) - 1)
            reads.append((step.split["id"], step.position, len(rows)))
            if self.operator.splits and any(split["id"][0] == step.split["id"][0] for split, _ in self.operator.splits):
                self.watermarks_of_splits.advance(times[step.split["id"]][rows[-1]["row"]])
            self.answer(self.coordinator)
        return reads


def readers(names: str, parallelism: int) -> tuple[SplitEnumerator, list[Reader]]:
    source = Sequences(names=tuple(names.split()), batch_rows=2)
    enumerator = SplitEnumerator("source", parallelism)
    enumerator.start(source.enumerate_splits())
    made = [Reader(SourceSpec(source), subtask=number, parallelism=parallelism) for number in range(parallelism)]
    for reader in made:
        reader.coordinator = enumerator
    return enumerator, made


def held(reader: Reader) -> list[str]:
    return [split["id"] for split, _ in reader.operator.splits]


def test_each_reader_has_all_its_own_splits_before_it_reads() -> None:
    enumerator, (first, second) = readers("a0 b0 c0 d0 e0", 2)
    first.answer(enumerator)
    assert held(first) == ["a0", "c0", "e0"]
    assert [split["id"] for split in enumerator.remaining] == ["b0", "d0"]
    second.answer(enumerator)
    assert held(second) == ["b0", "d0"]


def test_a_reader_takes_no_split_of_another() -> None:
    enumerator, (first, _, _) = readers("a0 b0", 3)
    first.answer(enumerator)
    first.read({"a0": [1, 2, 3, 4]})
    assert [split["id"] for split in enumerator.remaining] == ["b0"]


def test_the_sequence_behind_all_is_read() -> None:
    enumerator, (reader,) = readers("a0 b0", 1)
    reader.answer(enumerator)
    times = {"a0": [1, 2, 5, 6], "b0": [3, 4, 7, 8]}
    assert reader.read(times) == [("a0", 0, 1), ("b0", 0, 1), ("a0", 1, 2), ("b0", 1, 2), ("a0", 3, 1), ("b0", 3, 1)]


def test_splits_of_one_sequence_are_read_in_order() -> None:
    enumerator, (reader,) = readers("a0 a1 b0", 1)
    reader.answer(enumerator)
    times = {"a0": [1, 2, 3, 4], "a1": [5, 6, 7, 8], "b0": [9, 9, 9, 9]}
    assert [name for name, _, _ in reader.read(times)] == ["a0", "b0", "a0", "a0", "a1", "a1", "b0", "b0"]


def test_a_restored_reader_asks_for_its_splits_again_and_looks_where_each_is() -> None:
    enumerator, (reader,) = readers("a0 b0 c0", 1)
    reader.answer(enumerator)
    reader.turn()
    (again,) = restored(reader.spec, [reader.snapshot()], 1, Reader)
    assert held(again) == ["a0", "b0", "c0"]
    again.answer(SplitEnumerator("source", 1))
    assert [again.watermarks_of_splits.of(name) for name in "abc"] == [MIN_WATERMARK_MS] * 3
    assert again.turn().position == 1


def test_watermarks_are_those_of_sequences_that_have_splits_left() -> None:
    watermarks = SplitWatermarks()
    watermarks.register(["a", "b", "a"])
    watermarks.begin("a")
    assert watermarks.advance(10) == MIN_WATERMARK_MS
    watermarks.begin("b")
    assert watermarks.advance(5) == 5
    assert watermarks.advance(3) == 5, "rows out of order change nothing"
    watermarks.register(["a"])
    assert watermarks.advance(20) == 10, "a row that comes behind the end of its sequence"
    watermarks.register([])
    assert watermarks.advance(30) == 30


def test_progress_counts_splits_that_have_been_read() -> None:
    class Context:
        operator_id, name, parallelism = "source", "source", 1
        splits = ({"id": "a0"}, {"id": "b0"})

        def set_is_processing_backlog(self, value: bool) -> None: ...

    class Gateway:
        def send_event(self, payload: Any) -> None: ...

    coordinator = SourceCoordinator(Context())  # type: ignore[arg-type]
    coordinator.start()
    coordinator.execution_attempt_ready(0, 1, Gateway())  # type: ignore[arg-type]
    for holds, done in ((0, 0), (1, 0), (2, 0), (1, 1), (0, 2)):
        request = {"kind": "request_split", "after": -1, "before": None, "own": True, "held": holds}
        coordinator.handle_event(0, 1, request)
        assert coordinator.splits_done == (done, 2)


def test_a_split_is_read_up_to_the_limit_and_paused_beyond_it() -> None:
    for at_ms, is_read in ((299, True), (300, True), (301, False)):
        enumerator, (reader,) = readers("a0 b0", 1)
        watermarks = SplitWatermarks()
        reader.operator.follow_splits([watermarks], max_drift_ms=100)
        reader.answer(enumerator)
        for sequence, watermark_ms in (("a", at_ms), ("b", at_ms)):
            watermarks.begin(sequence)
            watermarks.advance(watermark_ms)
        reader.operator.handle_coordinator_event({"kind": "align", "max_watermark": 300})
        assert isinstance(reader.turn(), ReadRequest) == is_read, at_ms


def test_the_limit_follows_the_readers_that_take_part() -> None:
    alignment = CoordinatorAlignment()

    def report(subtask: int, watermark_ms: int | None) -> int | str | None:
        told = alignment.take(subtask, {"watermark": watermark_ms, "max_drift": 100})
        return "the same" if told is None else told["max_watermark"]

    assert [report(0, 500), report(1, 300), report(1, 450), report(0, 600)] == [600, 400, 550, "the same"]
    assert report(1, None) == 700, "a reader without splits, or one that has finished"
    assert report(1, 10) == 110, "its split has returned"
    assert alignment.reader_left(1) == {"kind": "align", "max_watermark": 700}
    assert alignment.reader_left(1) is None
    assert report(0, None) is None
    assert alignment.limit is None


def test_a_split_that_has_rows_again_is_not_idle_before_it_is_read() -> None:
    watermarks = SplitWatermarks()
    watermarks.register(["a", "b", "c"])
    for sequence, at_ms in (("a", 10), ("b", 20), ("c", 900)):
        watermarks.begin(sequence)
        watermarks.advance(at_ms)
    for sequence in ("a", "b"):
        watermarks.nothing_now(sequence, 1_000)
    watermarks.may_have_rows("a")
    watermarks.may_have_rows("c")
    assert watermarks.find_idle(1_500, 500) == 10, "a has rows that nobody has read, b is idle"
    watermarks.nothing_now("a", 1_600)
    assert watermarks.find_idle(1_600, 500) == 900, "it had none after all, since the first read that found none"
    assert list(watermarks.empty_since_ms) == []
    watermarks.begin("a")
    assert watermarks.least == 10

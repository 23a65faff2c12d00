"""Two-phase output: no row lost, none twice, whatever completes, is aborted or fails, in whatever order."""

from __future__ import annotations

import copy

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from kit.core.protocol.snapshots import Effect
from kit.stream.connectors import CollectSink, CommitError, ParquetSink, RollingPolicy, Sink, SinkSpec
from tests.properties import examples
from tests.stream.operators.harness import Harness, Snapshot, restored

ROWS = pa.schema([("number", pa.int64())])
SPEC = SinkSpec(ROWS, CollectSink("lesson"))


def numbers(*values: int) -> list[dict[str, int]]:
    return [{"number": value} for value in values]


def finals(effects: tuple[Effect, ...]) -> list[str]:
    return [effect.final.rpartition("/")[2] for effect in effects]


def test_rows_are_staged_at_the_barrier_and_published_at_completion() -> None:
    harness = Harness(SPEC, subtask=1, parallelism=2, run="a" * 32)
    harness.process(numbers(1, 2))
    (effect,) = harness.snapshot(7).staged
    assert effect.staged == f"memory://lesson/.staging/{'a' * 32}/part-1-7.parquet"
    assert effect.final == f"memory://lesson/part-{'a' * 32}-00001-000007.parquet"
    assert effect.table.column("number").to_pylist() == [1, 2]
    assert harness.committed == []
    harness.operator.notify_checkpoint_complete(7)
    assert harness.committed == [(7, (Effect(harness.operator_id, effect.staged, effect.final),))]


def test_no_rows_make_no_file() -> None:
    harness = Harness(SPEC)
    assert harness.snapshot(1).staged == ()
    harness.operator.notify_checkpoint_complete(1)
    assert harness.committed == []


def test_rows_of_an_aborted_checkpoint_go_with_the_next_as_one_part() -> None:
    harness = Harness(SPEC)
    harness.process(numbers(1))
    (first,) = harness.snapshot(1).staged
    harness.operator.notify_checkpoint_aborted(1)
    assert harness.dropped == [first]
    harness.process(numbers(2))
    (second,) = harness.snapshot(2).staged
    assert second.table.column("number").to_pylist() == [1, 2]
    assert finals((second,)) == ["part-job-00000-000002.parquet"]


def test_while_a_checkpoint_is_under_way_the_next_stages_its_rows_again_under_the_same_name() -> None:
    harness = Harness(SPEC)
    harness.process(numbers(1))
    (first,) = harness.snapshot(1).staged
    harness.process(numbers(2))
    again, second = harness.snapshot(2).staged
    assert again.final == first.final
    assert again.staged != first.staged
    harness.operator.notify_checkpoint_complete(2)
    assert [finals(effects) for _, effects in harness.committed] == [finals((again, second))]
    assert harness.dropped == []  # a savepoint may refer to it until the rows are published
    harness.operator.effects_committed(2)
    assert harness.dropped == [first]


def test_what_a_later_checkpoint_staged_outlives_an_earlier_one() -> None:
    harness = Harness(SPEC)
    harness.process(numbers(1))
    harness.snapshot(1)
    harness.process(numbers(2))
    staged = harness.snapshot(2).staged
    harness.operator.notify_checkpoint_complete(1)
    assert harness.dropped == []
    harness.operator.notify_checkpoint_aborted(2)
    assert tuple(harness.dropped) == staged
    (third,) = harness.snapshot(3).staged
    assert third.table.column("number").to_pylist() == [2]


def test_a_published_part_stays_in_the_state_until_it_is_confirmed() -> None:
    harness = Harness(SPEC)
    harness.process(numbers(1))
    harness.snapshot(1)
    harness.operator.notify_checkpoint_complete(1)
    (unconfirmed,) = restored(SPEC, [harness.snapshot(2)])
    assert [finals(effects) for _, effects in unconfirmed.committed] == [["part-job-00000-000001.parquet"]]
    harness.operator.effects_committed(1)
    (confirmed,) = restored(SPEC, [harness.snapshot(3)])
    assert confirmed.committed == []


def test_committables_are_dealt_out_on_a_rescale_and_keep_their_names() -> None:
    harnesses = [Harness(SPEC, subtask=subtask, parallelism=3) for subtask in range(3)]
    for harness in harnesses:
        harness.process(numbers(harness.subtask))
    snapshots = [harness.snapshot(4) for harness in harnesses]
    (one,) = restored(SPEC, snapshots)
    ((checkpoint_id, effects),) = one.committed
    assert checkpoint_id == 4
    assert finals(effects) == [f"part-job-0000{subtask}-000004.parquet" for subtask in range(3)]


class Sinking(RuleBasedStateMachine):
    """A sink between its task and its disk: rows, checkpoints that complete or are aborted in any order, failures.

    The model: rows read so far, which a failure takes back to those of the restored checkpoint.
    """

    checkpoints = Bundle("checkpoints")
    spec = SPEC

    def __init__(self) -> None:
        super().__init__()
        self.harness = Harness(self.spec)
        self.pending: dict[str, list[pa.Table]] = {}
        self.staged: dict[str, pa.Table] = {}
        self.published: dict[str, list[int]] = {}
        self.next_row = self.next_id = 1
        self.snapshots: dict[int, tuple[Snapshot, int]] = {}
        self.last_completed = 0

    @rule(count=st.integers(1, 3))
    def rows(self, count: int) -> None:
        self.harness.process(numbers(*range(self.next_row, self.next_row + count)))
        self.next_row += count
        self.write()

    def write(self) -> None:
        """The host writes rows that the operator does not hold."""
        for rows in self.harness.written:
            assert rows.first == (rows.path not in self.pending)
            self.pending.setdefault(rows.path, []).append(rows.table)
        self.harness.written.clear()

    @rule(target=checkpoints, count=st.integers(0, 2))
    def barrier(self, count: int = 0) -> int:
        self.rows(count)
        checkpoint_id, self.next_id = self.next_id, self.next_id + 1
        snapshot = self.harness.snapshot(checkpoint_id)
        self.write()
        for effect in snapshot.staged:
            in_memory = [] if effect.table is None else [effect.table]
            self.staged[effect.staged] = pa.concat_tables(self.pending.get(effect.pending, in_memory))
        self.snapshots[checkpoint_id] = (snapshot, self.next_row)
        return checkpoint_id

    @rule(checkpoint_id=consumes(checkpoints), told=st.booleans())
    def complete(self, checkpoint_id: int, told: bool) -> None:
        if checkpoint_id < self.last_completed or checkpoint_id not in self.snapshots:
            return
        self.last_completed = checkpoint_id
        if told:
            self.harness.operator.notify_checkpoint_complete(checkpoint_id)
            self.drop()

    @rule(count=st.integers(0, 2), told=st.booleans())
    def whole_checkpoint(self, count: int, told: bool) -> None:
        self.complete(self.barrier(count), told)

    @rule(checkpoint_id=consumes(checkpoints), written=st.booleans())
    def abort(self, checkpoint_id: int, written: bool) -> None:
        found = self.snapshots.pop(checkpoint_id, None)
        if found is None:
            return
        if not written:
            for effect in found[0].staged:
                self.staged.pop(effect.staged, None)
        if checkpoint_id > self.last_completed:
            self.harness.operator.notify_checkpoint_aborted(checkpoint_id)
            self.drop()

    @rule()
    def publish(self) -> None:
        """The host publishes the committed output."""
        for checkpoint_id, effects in self.harness.committed:
            self.commit(effects)
            self.harness.operator.effects_committed(checkpoint_id)
        self.harness.committed.clear()

    @rule(halfway=st.booleans())
    def fail(self, halfway: bool) -> None:
        """The subtask dies, perhaps while its last output is being published, and begins again."""
        if halfway:
            for _, effects in self.harness.committed[:1]:
                self.commit(effects[:1])
        snapshot, self.next_row = self.snapshots.get(self.last_completed, (Snapshot(None, None, ()), 1))
        self.snapshots = {n: found for n, found in self.snapshots.items() if n == self.last_completed}
        (self.harness,) = restored(self.spec, [snapshot])
        self.pending.clear()

    def commit(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            table = self.staged.pop(effect.staged, None)
            assert table is not None or effect.final in self.published, f"{effect.final} is lost"
            if table is not None:
                rows = table.column("number").to_pylist()
                assert self.published.setdefault(effect.final, rows) == rows

    def drop(self) -> None:
        for effect in self.harness.dropped:
            self.staged.pop(effect.staged, None)
            self.pending.pop(effect.staged, None)
        self.harness.dropped.clear()

    @invariant()
    def what_is_published_is_exactly_the_beginning_of_the_rows(self) -> None:
        visible = sorted(row for rows in self.published.values() for row in rows)
        assert len(visible) == len(set(visible))
        assert not visible or visible[-1] < self.snapshots[self.last_completed][1]

    def teardown(self) -> None:
        """In the end, all rows that the last checkpoint covers are published."""
        last = self.barrier()
        self.complete(last, told=True)
        self.publish()
        visible = sorted(row for rows in self.published.values() for row in rows)
        assert visible == list(range(1, self.next_row))
        assert not self.pending


TestSinking = Sinking.TestCase
TestSinking.settings = settings(max_examples=examples(150), stateful_step_count=20, deadline=None)

HELD, LARGEST = 2, 5


class SinkingInFiles(Sinking):
    """The same with a sink that writes while it goes: it holds few rows, and its files are small."""

    spec = SinkSpec(ROWS, Sink("memory://lesson", rolling=RollingPolicy(max_rows=LARGEST, held_rows=HELD)))

    @invariant()
    def few_rows_are_held(self) -> None:
        assert self.harness.operator.rows_in_memory <= 2 * HELD

    @invariant()
    def files_are_small(self) -> None:
        assert all(len(rows) <= LARGEST for rows in self.published.values())


TestSinkingInFiles = SinkingInFiles.TestCase
TestSinkingInFiles.settings = settings(max_examples=examples(150), stateful_step_count=20, deadline=None)


def test_directories_that_cannot_be_written_are_refused_at_once(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CommitError, match=r"output directory .*file/out cannot be written: .*file is a file"):
        ParquetSink(str(tmp_path / "file" / "out"))
    assert ParquetSink(str(tmp_path / "new")).path == str(tmp_path / "new")


def test_a_copy_of_a_sink_is_the_sink() -> None:
    sink = CollectSink("x")
    assert copy.deepcopy(sink) is sink

"""Operator state in a student's own function: split, union and broadcast, through failures and rescales."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from kit import (
    CheckpointConfig,
    CheckpointedFunction,
    CollectionSource,
    CollectSink,
    CoProcessFunction,
    FixedDelay,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedBatchFunction,
    KeyedProcessFunction,
    Lab,
    ListStateDescriptor,
    MapStateDescriptor,
    NoRestart,
    ProcessFunction,
    ProcessFunctionContext,
    RetentionPolicy,
    StreamEnvironment,
)
from kit.hosts.lab.errors import LabError
from kit.machines.job.status import JobStatus
from kit.stream.settings.job_settings import RestartStrategy
from tests.hosts.lab.jobs import failure

ROWS = 90
PART = 4


class Found(NamedTuple):
    """The state that one subtask found when it started."""

    parallelism: int
    subtask: int
    checkpoint_id: int | None
    waiting: list[int]
    seen: list[int]
    rules: list[tuple[str, int]]


class Kept(NamedTuple):
    """The state that one subtask wrote to a checkpoint."""

    waiting: list[int]
    own: list[int]
    rules: list[tuple[str, int]]


FOUND: list[Found] = []
KEPT: dict[tuple[int, int], dict[int, Kept]] = {}
"""By parallelism and checkpoint, then by subtask."""


class Buffering(ProcessFunction, CheckpointedFunction):
    """Hands rows on in parts of four; remembers them in the three modes."""

    WAITING = ListStateDescriptor("waiting", pa.int64())
    SEEN = ListStateDescriptor("seen", pa.int64())
    RULES = MapStateDescriptor("rules", pa.string(), pa.int64())

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        states = context.operator_state
        self.waiting = states.list_state(self.WAITING)
        self.seen = states.union_list_state(self.SEEN)
        self.rules = states.broadcast_state(self.RULES)
        self.part = self.waiting.get()
        self.own: list[int] = []
        self.subtask, self.parallelism = context.subtask, context.parallelism
        found = (self.part[:], self.seen.get(), self.rules.items())
        FOUND.append(Found(context.parallelism, context.subtask, context.restored_checkpoint_id, *found))
        assert context.is_restored == (context.restored_checkpoint_id is not None)
        self.rules.put("limit", 17)

    def process_element(self, row: dict[str, Any], ctx: ProcessFunctionContext) -> None:
        self.part.append(row["n"])
        self.own.append(row["n"])
        if len(self.part) >= PART:
            for number in self.part:
                ctx.emit({"n": number})
            self.part = []

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.waiting.update(self.part)
        self.seen.update(self.own)
        kept = Kept(self.part[:], self.own[:], self.rules.items())
        KEPT.setdefault((self.parallelism, context.checkpoint_id), {})[self.subtask] = kept


@pytest.fixture(autouse=True)
def _nothing_found() -> None:
    FOUND.clear()
    KEPT.clear()


def environment(
    parallelism: int, function: Any = Buffering, restart: RestartStrategy | None = None
) -> StreamEnvironment:
    env = StreamEnvironment(
        "buffering",
        parallelism=parallelism,
        max_parallelism=8,
        checkpoint=CheckpointConfig(interval_ms=20, retention=RetentionPolicy.RETAIN_ON_CANCELLATION),
        restart=restart or FixedDelay(3, 1),
    )
    source = CollectionSource([{"n": n} for n in range(ROWS)], splits=4, batch_rows=2)
    rows = env.from_source(source, uid="rows").rebalance()
    rows.process(function).uid("buffering").sink_to(CollectSink("out"), uid="out")
    return env


def check_what_was_found(parallelism: int, before: int, checkpoint_id: int) -> None:
    """The subtasks that began last: split entries are there once in all, the others everywhere."""
    found = FOUND[-parallelism:]
    assert sorted(each.subtask for each in found) == list(range(parallelism))
    assert {(each.parallelism, each.checkpoint_id) for each in found} == {(parallelism, checkpoint_id)}
    kept = KEPT[before, checkpoint_id].values()
    assert len(kept) == before
    waiting = Counter(number for each in kept for number in each.waiting)
    assert Counter(number for each in found for number in each.waiting) == waiting
    sizes = [len(each.waiting) for each in found]
    if parallelism != before:  # at the same parallelism each subtask takes up its own
        assert max(sizes) - min(sizes) <= 1, "the entries are not evenly split"
    everything = Counter(number for each in kept for number in each.own)
    assert all(Counter(each.seen) == everything for each in found)
    assert all(each.rules == [("limit", 17)] for each in found)


@pytest.mark.parametrize("seed", range(6))
def test_the_three_modes_survive_a_failure_and_two_rescales(seed: int) -> None:
    lab = Lab(environment(1), seed=seed)
    assert [each.checkpoint_id for each in FOUND] == []
    lab.run_until(checkpoint=1)
    assert [each.checkpoint_id for each in FOUND] == [None]
    path = cancelled(lab)
    before, checkpoint_id = 1, number_of(path)
    for parallelism in (3, 2):
        lab = Lab(environment(parallelism), seed=seed, restore_path=path, after=lab)
        until_begun(lab, parallelism)
        check_what_was_found(parallelism, before, checkpoint_id)
        if parallelism == 3:
            lab.run_until(checkpoint=checkpoint_id + 1)
            lab.faults.kill(1)
            until_begun(lab, parallelism)
            check_what_was_found(parallelism, parallelism, checkpoint_id + 1)
            path = cancelled(lab)
            before, checkpoint_id = parallelism, number_of(path)
    lab.run()
    assert lab.look.master.status is JobStatus.FINISHED, lab.look.master.error
    last = max(number for parallelism, number in KEPT if parallelism == 2)
    waiting = [number for kept in KEPT[2, last].values() for number in kept.waiting]
    assert Counter([*lab.output("out")["n"], *waiting]) == Counter(range(ROWS))


def until_begun(lab: Lab, subtasks: int) -> None:
    """Go on until this many subtasks more have begun."""
    wanted = len(FOUND) + subtasks
    lab.run_until(lambda lab: len(FOUND) == wanted)


def cancelled(lab: Lab) -> str:
    """Cancel the job, and return the path of its newest checkpoint."""
    lab.cancel()
    while lab.enabled():
        lab.step()
    paths = [path.removesuffix("/_metadata") for path in lab.look.files.contents if path.endswith("/_metadata")]
    return max(paths, key=number_of)


def number_of(path: str) -> int:
    return int(path.rpartition("-")[2])


class Counting(CheckpointedFunction):
    """Counts rows in operator state; beside any kind of function."""

    COUNT = ListStateDescriptor("count", pa.int64())

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.count = context.operator_state.list_state(self.COUNT)
        self.rows = sum(self.count.get())

    def counted(self, rows: int) -> None:
        self.rows += rows
        self.count.update([self.rows])


class CountingKeyed(KeyedProcessFunction, Counting):
    def process_element(self, row: dict[str, Any], ctx: Any) -> None:
        self.counted(1)
        ctx.emit({"n": self.rows})


class CountingBatches(KeyedBatchFunction, Counting):
    def process_batch(self, batch: pa.RecordBatch, ctx: Any) -> None:
        self.counted(batch.num_rows)
        ctx.emit({"n": [self.rows]})


class CountingBoth(CoProcessFunction, Counting):
    def process_element1(self, row: dict[str, Any], ctx: Any) -> None:
        self.counted(1)
        ctx.emit({"n": self.rows})

    process_element2 = process_element1


@pytest.mark.parametrize("kind", ["keyed", "batches", "both"])
def test_any_kind_of_function_can_have_operator_state(kind: str) -> None:
    env = StreamEnvironment("counting", checkpoint=CheckpointConfig(interval_ms=10), restart=FixedDelay(3, 1))
    rows = env.from_source(CollectionSource([{"n": n} for n in range(20)], batch_rows=2), uid="rows")
    if kind == "both":
        made = rows.connect(rows.filter(lambda row: False)).process(CountingBoth)
    else:
        keyed = rows.key_by("n")
        made = keyed.process(CountingKeyed) if kind == "keyed" else keyed.process_batches(CountingBatches)
    made.uid("counting").sink_to(CollectSink("out"), uid="out")
    lab = Lab(env)
    lab.run_until(checkpoint=2)
    lab.faults.kill(0)
    lab.run()
    assert lab.output("out")["n"].max() == 20


class Forgetful(ProcessFunction, CheckpointedFunction):
    def process_element(self, row: dict[str, Any], ctx: Any) -> None:
        ctx.emit(row)


class Mistaken(Forgetful):
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        context.operator_state.list_state(ListStateDescriptor("rows", pa.int64()))
        context.operator_state.union_list_state(ListStateDescriptor("rows", pa.int64()))


MISTAKES = [
    (Forgetful, "Forgetful does not define initialize_state(context)"),
    (Mistaken, "Operator state 'rows' was registered as SPLIT_DISTRIBUTE of int64, and is requested as UNION of int64"),
]


@pytest.mark.parametrize(("function", "said"), MISTAKES, ids=[each.__name__ for each, _ in MISTAKES])
def test_a_mistake_names_operator_and_function(function: type, said: str) -> None:
    error = failure(Lab(environment(1, function, NoRestart())))
    assert said in error
    assert "initialize_state" in error


class Failing(ProcessFunction, CheckpointedFunction):
    """Fails to provide its state for a checkpoint."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        pass

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        raise KeyError("lost")

    def process_element(self, row: dict[str, Any], ctx: ProcessFunctionContext) -> None:
        ctx.emit(row)


def test_a_snapshot_that_fails_says_which_and_of_what_with_the_cause_below() -> None:
    env = StreamEnvironment("failing", checkpoint=CheckpointConfig(interval_ms=10), restart=NoRestart())
    rows = env.from_source(CollectionSource([{"n": n} for n in range(200)], pa.schema([("n", pa.int64())])))
    rows.process(Failing, returns=pa.schema([("n", pa.int64())])).sink_to(CollectSink("out"))
    lab = Lab(env)
    said = r"Could not complete snapshot 1 for operator process \(1/1\)#0\.\nUserFunctionError: .*KeyError: 'lost'"
    with pytest.raises(LabError, match=said) as raised:
        lab.run()
    assert isinstance(raised.value.__cause__, KeyError)
    assert len(str(raised.value).splitlines()) <= 6
    assert "Could not complete snapshot 1 for operator" in lab.error


class OtherList(Buffering):
    WAITING = ListStateDescriptor("waiting", pa.string())


class OtherUnion(Buffering):
    SEEN = ListStateDescriptor("seen", pa.float64())


class OtherMap(Buffering):
    RULES = MapStateDescriptor("rules", pa.string(), pa.string())


class OtherKind(Buffering):
    RULES = ListStateDescriptor("rules", pa.int64())


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (OtherList, r"'waiting' was registered as SPLIT_DISTRIBUTE of string, and is stored as .* of int64"),
        (OtherUnion, r"'seen' was registered as UNION of double, and is stored as UNION of int64"),
        (OtherMap, r"'rules' was registered as BROADCAST of string to string, and is stored as .* string to int64"),
        (OtherKind, r"'rules' was registered as .* of int64, and is stored as BROADCAST of string to int64"),
    ],
)
def test_operator_state_of_another_type_is_refused_before_a_task_is_deployed(
    function: type[Buffering], said: str
) -> None:
    first = Lab(environment(2))
    first.run_until(record="AllTasksRunning")
    for _ in range(30):
        first.step()
    savepoint = first.stop(wait=True)
    again = Lab(environment(2, function), restore_path=savepoint, after=first)
    with pytest.raises(LabError, match=rf"{said}[\s\S]*The state is that of operator .* no task was deployed"):
        again.run()
    assert again.look.master.epoch == 0


def test_names_of_flink_lead_to_the_names_of_operator_state() -> None:
    class Named(Buffering):
        def initialize_state(self, context: FunctionInitializationContext) -> None:
            for name, hint in (("get_list_state", "write context.operator_state.list_state"), ("state", "ctx.state")):
                with pytest.raises(AttributeError, match=hint):
                    getattr(context.operator_state, name)
            super().initialize_state(context)

    lab = Lab(environment(1, Named))
    lab.run()
    assert lab.ended

"""A task's own side of a checkpoint: the order of its steps, abort notices at every moment, and what it reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from kit.core.protocol.commands import (
    CancelSnapshot,
    CommitEffects,
    DropEffects,
    LocalCopies,
    PruneLocalState,
    ReadState,
    SendElement,
    WriteSnapshot,
)
from kit.core.protocol.elements import Buffer, CancelCheckpointMarker, CheckpointBarrier, EndOfData
from kit.core.protocol.events import EffectsCommitted, EffectsFailed, SnapshotFailed, StateRead, TimerFired
from kit.core.protocol.messages import CancelTask, ReportCheckpointMetrics, TaskStateChanged
from kit.core.protocol.options import AlignmentType
from kit.core.protocol.properties import SavepointFormatType, SavepointType
from kit.core.protocol.reasons import CheckpointFailureReason
from kit.core.protocol.tasks import ExecutionState, TaskRestore
from kit.core.state.operator_state import TaskStateSnapshot
from kit.files.storage import CheckpointLocation, CheckpointStorage
from kit.machines.task import subtask_coordinator
from kit.stream.api.environment import StreamEnvironment
from kit.stream.backend.states.descriptors import ListStateDescriptor
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.operators.aggregates import count
from kit.stream.operators.base import Operator, OperatorSpec
from kit.stream.settings.job_settings import CheckpointConfig
from tests.machines.task.harness import DRAIN, SCHEMA, SUSPEND, TaskHarness, fan_in

ASYNC = "CHECKPOINT_ASYNC_EXCEPTION"
SAVEPOINT = SavepointType.savepoint(SavepointFormatType.CANONICAL)


def a_task(senders: int = 1, **settings: object) -> TaskHarness:
    """`sums/0` by itself, with one output."""
    return TaskHarness(fan_in(senders, chaining=False, **settings))


def watched(task: TaskHarness, name: str, act: Callable[..., None] | None = None) -> list[tuple[str, int]]:
    """Let each operator of the chain record the calls of its method `name`: (operator, argument)."""
    calls: list[tuple[str, int]] = []
    for link in task.machine.chain.links:
        original = getattr(link.operator, name)

        def call(argument: int, name: str = link.name, original: Callable[..., None] = original) -> None:
            calls.append((name, argument))
            (act or original)(argument)

        setattr(link.operator, name, call)
    return calls


def failing(_: int) -> None:
    raise ValueError("no")


# --- taking a checkpoint ----------------------------------------------------------------------------------------------


def test_the_barrier_goes_out_between_preparation_and_snapshot_and_the_ack_last() -> None:
    task = TaskHarness(fan_in(1))  # sums -> out in one chain
    order: list[str] = []
    broadcast = task.machine.outputs.broadcast
    task.machine.outputs.broadcast = lambda element: (order.append("barrier"), broadcast(element))  # type: ignore[method-assign]
    for link in task.machine.chain.links:
        link.operator.prepare_snapshot_pre_barrier = lambda _, name=link.name: order.append(f"prepare {name}")  # type: ignore[method-assign]
        link.operator.snapshot_state = lambda _, name=link.name: order.append(f"snapshot {name}")  # type: ignore[method-assign]
    head, tail = (link.name for link in task.machine.chain.links)
    task.barrier(1, 0)
    assert order == [f"prepare {head}", f"prepare {tail}", "barrier", f"snapshot {tail}", f"snapshot {head}"]
    assert task.acknowledged() == []
    task.write(1)
    assert [ack.checkpoint_id for ack in task.acknowledged()] == [1]


def test_records_of_the_chain_leave_before_the_barrier() -> None:
    task = a_task()
    task.rows(0)
    task.barrier(1, 0)
    task.rows(0)
    assert [type(element) for element in task.sent()] == [Buffer, CheckpointBarrier, Buffer]


@pytest.mark.flink("SubtaskCheckpointCoordinatorTest.testSavepointNotResultingInPriorityEvents")
def test_the_barrier_of_a_savepoint_overtakes_nothing() -> None:
    task = TaskHarness(fan_in(1, chaining=False, rebalance=True, unaligned=True))
    task.barrier(1, 0, alignment=AlignmentType.UNALIGNED)
    task.barrier(2, 0, kind=SAVEPOINT)
    assert [(sent.element.checkpoint_id, sent.priority) for sent in task.take(SendElement)] == [(1, True), (2, False)]


def test_ids_that_are_not_newer_are_dropped() -> None:
    task = TaskHarness(fan_in(), "rows/0")
    task.trigger(5)
    for checkpoint_id in (5, 4):
        task.trigger(checkpoint_id)
    assert task.triggered() == [5]
    assert task.declined() == []
    assert [element.checkpoint_id for element in task.sent() if isinstance(element, CheckpointBarrier)] == [5]


@pytest.mark.flink("StreamTaskTest.testEmptySubtaskStateLeadsToStatelessAcknowledgment")
def test_a_task_without_state_acknowledges_without() -> None:
    task = a_task()
    task.barrier(1, 0)
    task.rows(0)
    task.barrier(2, 0)
    task.write(1)
    task.write(2)
    without, with_state = task.acknowledged()
    assert without.state is None
    assert with_state.state is not None


@pytest.mark.parametrize("state", ["CREATED", "INITIALIZING", "FINISHED", "FAILED", "CANCELED"])
def test_a_task_that_does_not_run_declines(state: str) -> None:
    task = TaskHarness(fan_in(), "rows/0", deploy=False)
    task.machine.state = ExecutionState[state]
    task.trigger(1)
    assert task.declined() == [(1, "CHECKPOINT_DECLINED_TASK_NOT_READY")]
    assert task.triggered() == []


@pytest.mark.flink("StreamTaskTest.testTaskAvoidHangingAfterSnapshotStateThrownException")
@pytest.mark.flink("StreamTaskTest.testDecliningCheckpointStreamOperator")
@pytest.mark.parametrize("failing_one", [0, 1])
def test_an_operator_that_fails_in_its_snapshot_fails_the_task_and_nothing_is_written(failing_one: int) -> None:
    """The second case is that the last operator of the chain had been snapshotted by then."""
    task = TaskHarness(fan_in(1))
    task.rows(0)
    link = task.machine.chain.links[::-1][failing_one]
    link.operator.snapshot_state = failing  # type: ignore[method-assign]
    task.barrier(1, 0)
    assert task.machine.state is ExecutionState.FAILED
    said = f"SnapshotError: Could not complete snapshot 1 for operator {link.name} (1/1)#0.\nValueError: no"
    assert task.machine.error == said
    assert task.machine.checkpoints.running == ()
    assert task.take(WriteSnapshot) == []
    assert task.acknowledged() == []


# --- the asynchronous part --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Keep(OperatorSpec):
    """Hands rows on and keeps how many there were."""

    def create(self) -> Operator:
        return KeepingOperator()


class KeepingOperator(Operator):
    def process_batch(self, batch: pa.RecordBatch, input_index: int = 0) -> None:
        self.context.operator_state.list_state(ListStateDescriptor("seen", pa.int64())).add(batch.num_rows)
        self.context.output.emit(batch)


@pytest.mark.flink("StreamTaskTest.testFailingAsyncCheckpointRunnable")
@pytest.mark.parametrize("failing_part", range(4))
def test_when_one_operators_state_cannot_be_written_nothing_of_the_others_is_left(
    failing_part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = StreamEnvironment("task", parallelism=1, checkpoint=CheckpointConfig(interval_ms=1_000))
    sums = env.from_source(CollectionSource([], SCHEMA), uid="rows").key_by("k").aggregate(rows=count()).uid("sums")
    for name in ("first", "second"):
        sums = sums.apply(Keep(name, (sums.schema,), sums.schema)).uid(name)
    sums.sink_to(CollectSink("out"), uid="out")
    task = TaskHarness(env)
    task.rows(0)
    task.barrier(1, 0)
    tried: list[str] = []
    write = CheckpointStorage.to_handle

    def to_handle(storage: CheckpointStorage, data: bytes, location: CheckpointLocation, name: str) -> Any:
        tried.append(name)
        if len(tried) == failing_part + 1:
            raise OSError("disk full")
        return write(storage, data, location, name)

    monkeypatch.setattr(CheckpointStorage, "to_handle", to_handle)
    task.write(1)
    assert len(tried) == failing_part + 1
    assert task.memory.paths() == []
    assert task.declined() == [(1, ASYNC)]
    task.barrier(2, 0)
    task.write(2)
    assert len(task.memory.paths()) == 4
    assert [ack.checkpoint_id for ack in task.acknowledged()] == [2]


@pytest.mark.flink("AsyncCheckpointRunnableTest.testDeclineWithAsyncCheckpointExceptionWhenRunning")
@pytest.mark.flink("AsyncCheckpointRunnableTest.testDeclineAsyncCheckpoint")
def test_a_snapshot_that_cannot_be_written_is_declined() -> None:
    task = a_task()
    task.barrier(1, 0)
    task.give(SnapshotFailed(checkpoint_id=1, error="disk full"))
    (decline,) = [word for word in task.emitted if hasattr(word, "reason")]
    why = "Could not materialize checkpoint 1 for operator sums (1/1)#0: disk full"
    assert (decline.checkpoint_id, decline.reason.name, decline.detail) == (1, ASYNC, why)
    assert task.machine.state is ExecutionState.RUNNING
    task.barrier(2, 0)
    task.write(2)
    assert [ack.checkpoint_id for ack in task.acknowledged()] == [2]


@pytest.mark.flink("AsyncCheckpointRunnableTest.testDeclineWithAsyncCheckpointExceptionWhenNotRunning")
@pytest.mark.flink("StreamTaskTest.testAsyncCheckpointingConcurrentCloseBeforeAcknowledge")
def test_a_task_that_is_cancelled_neither_acknowledges_nor_declines() -> None:
    task = a_task()
    task.barrier(1, 0)
    task.to_task(CancelTask)
    assert task.machine.state is ExecutionState.CANCELED
    assert [word.checkpoint_id for word in task.take(CancelSnapshot)] == [1]
    task.write(1)
    task.give(SnapshotFailed(checkpoint_id=1, error="gone"))
    assert task.acknowledged() == []
    assert task.declined() == []


@pytest.mark.flink("StreamTaskTest.testAsyncCheckpointingConcurrentCloseAfterAcknowledge")
def test_what_was_acknowledged_stays_when_the_task_is_cancelled() -> None:
    task = a_task()
    task.rows(0)
    task.barrier(1, 0)
    task.write(1)
    task.to_task(CancelTask)
    assert [ack.checkpoint_id for ack in task.acknowledged()] == [1]
    assert task.take(CancelSnapshot) == []


def test_snapshots_may_be_written_in_any_order() -> None:
    task = a_task()
    task.barrier(1, 0)
    task.barrier(2, 0)
    task.write(2)
    task.write(1)
    assert [ack.checkpoint_id for ack in task.acknowledged()] == [2, 1]


# --- abort notices ----------------------------------------------------------------------------------------------------


@pytest.mark.flink("SubtaskCheckpointCoordinatorTest.testNotifyCheckpointAbortedBeforeAsyncPhase")
@pytest.mark.flink("SubtaskCheckpointCoordinatorTest.testBroadcastCancelCheckpointMarkerOnAbortingFromCoordinator")
def test_an_abort_before_the_barrier_is_remembered_and_answered_with_a_cancel_marker() -> None:
    task = a_task()
    task.abort(1)
    assert task.machine.checkpoints._aborted
    task.barrier(1, 0)
    assert task.sent() == [CancelCheckpointMarker(1)]
    assert task.triggered() == []
    assert task.declined() == []
    assert task.take(ReportCheckpointMetrics) == []
    assert not task.machine.checkpoints._aborted, "once is enough"
    task.barrier(2, 0)
    assert task.triggered() == [2]


@pytest.mark.flink("SubtaskCheckpointCoordinatorTest.testNotifyCheckpointAbortedDuringAsyncPhase")
@pytest.mark.flink("AsyncCheckpointRunnableTest.testReportIncompleteStats")
def test_an_abort_while_the_snapshot_is_written_stops_the_writing() -> None:
    task = a_task()
    task.barrier(1, 0)
    calls = watched(task, "notify_checkpoint_aborted")
    task.abort(1)
    assert [word.checkpoint_id for word in task.take(CancelSnapshot)] == [1]
    assert [word.checkpoint_id for word in task.take(ReportCheckpointMetrics)] == [1]
    assert [argument for _, argument in calls] == [1]
    task.write(1)
    assert task.acknowledged() == []
    assert task.machine.checkpoints.running == ()


@pytest.mark.flink("SubtaskCheckpointCoordinatorTest.testNotifyCheckpointAbortedAfterAsyncPhase")
def test_an_abort_after_the_ack_reaches_the_operators_and_leaves_nothing() -> None:
    task = a_task()
    task.barrier(1, 0)
    task.write(1)
    calls = watched(task, "notify_checkpoint_aborted")
    task.abort(1)
    assert [argument for _, argument in calls] == [1]
    assert task.take(CancelSnapshot) == []
    assert task.machine.checkpoints.running == ()


@pytest.mark.flink("SubtaskCheckpointCoordinatorTest.testAbortOldAndStartNewCheckpoint")
def test_aborting_one_checkpoint_does_not_touch_the_next() -> None:
    task = a_task()
    task.barrier(42, 0)
    task.abort(42)
    task.barrier(43, 0)
    task.write(43)
    assert [ack.checkpoint_id for ack in task.acknowledged()] == [43]


@pytest.mark.flink("SubtaskCheckpointCoordinatorTest.testNotifyCheckpointAbortedManyTimes")
def test_remembered_aborts_are_bounded_and_the_forgotten_ones_still_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subtask_coordinator, "MAX_REMEMBERED_ABORTS", 10)
    task = a_task()
    for checkpoint_id in range(1, 43):
        task.abort(checkpoint_id)
    assert len(task.machine.checkpoints._aborted) == 10
    task.barrier(1, 0)
    task.barrier(42, 0)
    assert task.sent() == [CancelCheckpointMarker(1), CancelCheckpointMarker(42)]
    task.barrier(43, 0)
    assert task.triggered() == [43]


def test_an_abort_on_barriers_forgets_older_notices() -> None:
    task = a_task()
    task.abort(1)
    task.cancel_marker(2, 0)
    assert not task.machine.checkpoints._aborted


def test_an_abort_notice_brings_the_newest_completed_checkpoint_along() -> None:
    task = a_task()
    task.barrier(1, 0)
    task.barrier(2, 0)
    calls = watched(task, "notify_checkpoint_complete")
    task.abort(2, latest=1)
    task.complete(1)
    assert [argument for _, argument in calls] == [1]


def test_an_abort_before_any_checkpoint_completed_brings_none_along() -> None:
    task = a_task()
    calls = watched(task, "notify_checkpoint_complete")
    task.barrier(1, 0)
    task.abort(1)
    assert calls == []


# --- completion -------------------------------------------------------------------------------------------------------


@pytest.mark.flink("StreamTaskTest.testSkipRepeatCheckpointComplete")
def test_a_completion_is_told_once_and_never_after_a_newer_one() -> None:
    task = TaskHarness(fan_in(1))
    calls = watched(task, "notify_checkpoint_complete")
    for checkpoint_id in (1, 1, 3, 2, 3):
        task.complete(checkpoint_id)
    tail_first = [link.name for link in reversed(task.machine.chain.links)]
    assert calls == [(name, checkpoint_id) for checkpoint_id in (1, 3) for name in tail_first]


@pytest.mark.flink("StreamTaskTest.testIgnoreCompleteCheckpointBeforeStartup")
def test_a_completion_no_newer_than_the_restored_checkpoint_is_ignored() -> None:
    task = TaskHarness(fan_in(1), restore=TaskRestore(3, TaskStateSnapshot({})))
    assert len(task.take(ReadState)) == 1
    task.give(StateRead(parts=()))
    calls = watched(task, "notify_checkpoint_complete")
    for checkpoint_id in (2, 3, 4):
        task.complete(checkpoint_id)
    assert {argument for _, argument in calls} == {4}


@pytest.mark.flink("SubtaskCheckpointCoordinatorTest.testNotifyCheckpointComplete")
def test_older_copies_of_state_go_whether_the_task_runs_or_not() -> None:
    task = TaskHarness(fan_in(1, local_recovery=True))
    calls = watched(task, "notify_checkpoint_complete")
    task.complete(42)
    assert {argument for _, argument in calls} == {42}
    calls.clear()
    task.to_task(CancelTask)
    task.complete(43)
    assert calls == []
    pruned = [(word.checkpoint_id, word.copies) for word in task.take(PruneLocalState)]
    assert pruned == [(42, LocalCopies.OLDER), (43, LocalCopies.OLDER)]


@pytest.mark.flink("StreamTaskTest.testNotifyCheckpointOnClosedOperator")
def test_operators_that_are_closed_hear_nothing_more_while_the_task_still_runs() -> None:
    task = TaskHarness(fan_in(1))
    calls = watched(task, "notify_checkpoint_complete")
    aborts = watched(task, "notify_checkpoint_aborted")
    task.complete(1)
    assert len(calls) == len(task.machine.chain.links) == 2
    task.machine.chain.finish()
    task.machine.chain.close()
    task.complete(2)
    task.abort(3)
    assert (len(calls), aborts) == (2, [])
    assert task.machine.state is ExecutionState.RUNNING


def test_notices_to_a_task_that_does_not_run_change_nothing() -> None:
    task = a_task()
    calls = watched(task, "notify_checkpoint_complete") + watched(task, "notify_checkpoint_aborted")
    task.to_task(CancelTask)
    task.emitted.clear()
    task.complete(1)
    task.abort(2)
    assert calls == []
    assert task.emitted == []


@pytest.mark.flink("StreamTaskTest.testFailToConfirmCheckpointCompleted")
@pytest.mark.parametrize("told", ["complete", "abort"])
def test_an_operator_that_fails_at_a_notice_fails_the_task_after_all_were_told(told: str) -> None:
    task = TaskHarness(fan_in(1))
    name = {"complete": "notify_checkpoint_complete", "abort": "notify_checkpoint_aborted"}[told]
    calls = watched(task, name, failing)
    getattr(task, told)(1)
    assert len(calls) == 2
    assert task.states()[-1] is ExecutionState.FAILED


def test_of_several_operators_that_fail_the_first_is_named_with_the_others_beside_it() -> None:
    task = TaskHarness(fan_in(1))
    for link in task.machine.chain.links:

        def fail(_: int, name: str = link.name) -> None:
            raise ValueError(f"{name} does not want this")

        link.operator.notify_checkpoint_complete = fail  # type: ignore[method-assign]
    task.complete(1)
    report = task.take(TaskStateChanged)[-1]
    head, tail = (link.name for link in task.machine.chain.links)
    assert report.error == f"ValueError: {tail} does not want this"
    assert f"Another operator of the task failed as well: {head} does not want this" in report.traceback


@pytest.mark.flink("StreamTaskTest.testFailToConfirmCheckpointAborted")
def test_the_error_of_a_failed_task_comes_with_its_traceback() -> None:
    task = a_task()
    watched(task, "notify_checkpoint_aborted", failing)
    task.abort(1)
    report = task.take(TaskStateChanged)[-1]
    assert report.error == "ValueError: no"
    assert "in failing" in report.traceback


# --- output that a checkpoint publishes -------------------------------------------------------------------------------


def test_output_is_staged_with_the_snapshot_and_published_at_completion() -> None:
    task = TaskHarness(fan_in(1))
    task.rows(0)
    task.barrier(1, 0)
    (command,) = [word for word in task.emitted if isinstance(word, WriteSnapshot)]
    assert len(command.effects) == 1
    task.write(1)
    assert task.output.staged
    assert not task.output.published
    task.complete(1)
    task.carry_out(CommitEffects)
    assert not task.output.staged
    assert len(task.output.published) == 1


def test_output_of_an_aborted_checkpoint_is_dropped_and_goes_with_the_next() -> None:
    task = TaskHarness(fan_in(1))
    task.rows(0)
    task.barrier(1, 0)
    task.write(1)
    task.abort(1)
    task.carry_out(DropEffects)
    assert not task.output.staged
    task.barrier(2, 0)
    task.write(2)
    task.complete(2)
    task.carry_out(CommitEffects)
    assert sum(table.num_rows for table in task.output.published.values()) == 1


def test_output_that_cannot_be_published_fails_the_task() -> None:
    task = TaskHarness(fan_in(1))
    sink = task.machine.chain.links[-1].operator_id
    task.give(EffectsFailed(operator_id=sink, checkpoint_id=1, error="the directory is read-only"))
    assert task.states()[-1] is ExecutionState.FAILED
    assert "read-only" in task.machine.error
    task.give(EffectsCommitted(operator_id=sink, checkpoint_id=1))
    assert task.states() == []


# --- stop-with-savepoint ----------------------------------------------------------------------------------------------


@pytest.mark.flink("StreamTaskTest.testSavepointSuspendedAborted")
@pytest.mark.flink("StreamTaskTest.testSavepointTerminateAborted")
@pytest.mark.parametrize("kind", [SUSPEND, DRAIN])
def test_a_stop_whose_barriers_say_that_it_is_aborted_fails_the_task(kind: SavepointType) -> None:
    task = TaskHarness(fan_in(1), "rows/0")
    task.trigger(1, kind)
    reason = CheckpointFailureReason.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER
    with pytest.raises(RuntimeError, match="stop-with-savepoint failed: there will be no savepoint 1: cancelled"):
        task.machine.abort_checkpoint_on_barrier(1, reason, "cancelled")
    task.machine.abort_checkpoint_on_barrier(2, reason, "another one is no concern")


@pytest.mark.flink("StreamTaskTest.testSavepointSuspendAbortedAsync")
@pytest.mark.flink("StreamTaskTest.testSavepointTerminateAbortedAsync")
@pytest.mark.flink("SynchronousCheckpointTest.cancelShouldAlsoCancelPendingSynchronousCheckpoint")
@pytest.mark.parametrize("kind", [SUSPEND, DRAIN])
@pytest.mark.parametrize("written", [False, True])
def test_a_stop_whose_savepoint_is_aborted_fails_the_task(written: bool, kind: SavepointType) -> None:
    task = TaskHarness(fan_in(1), "rows/0")
    task.trigger(1, kind)
    if written:
        task.write(1)
    task.abort(1)
    assert task.states()[-1] is ExecutionState.FAILED
    assert "stop-with-savepoint failed: there will be no savepoint 1" in task.machine.error
    if not written:
        assert [word.checkpoint_id for word in task.take(CancelSnapshot)] == [1]


def test_the_end_of_data_goes_before_the_barrier_of_a_stop() -> None:
    task = TaskHarness(fan_in(1), "rows/0")
    task.trigger(1, SUSPEND)
    sent = task.sent()
    assert sent[0] == EndOfData(False)
    assert isinstance(sent[1], CheckpointBarrier)
    assert len(sent) == 2


# --- the machine itself -----------------------------------------------------------------------------------------------


def test_messages_to_another_attempt_are_dropped() -> None:
    task = TaskHarness(fan_in(1), "rows/0", attempt=2)
    task.emitted.clear()
    task.attempt = 1
    task.trigger(1)
    task.complete(1)
    task.abort(2)
    task.to_task(CancelTask)
    assert task.emitted == []
    assert task.machine.state is ExecutionState.RUNNING


def test_operators_do_nothing_unless_they_say_so() -> None:
    operator = Operator()
    operator.prepare_snapshot_pre_barrier(1)
    operator.snapshot_state(1)
    operator.notify_checkpoint_complete(1)
    assert operator.next_processing_time_ms() is None
    with pytest.raises(NotImplementedError, match="Operator takes no records"):
        operator.process_batch(None)  # type: ignore[arg-type]


def test_timers_that_nobody_set_are_ignored() -> None:
    task = a_task()
    task.emitted.clear()
    task.give(TimerFired(timer="of old"))
    assert task.emitted == []

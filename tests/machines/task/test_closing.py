"""The end of a task's resources: operators and backends are closed once, whatever fails, and nothing happens after."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kit.core.protocol.commands import CommitEffects, ScheduleTimer, WriteSnapshot
from kit.core.protocol.elements import Buffer, EndOfData, EndOfPartition
from kit.core.protocol.events import (
    EffectsFailed,
    ProcessInput,
    SnapshotFailed,
    SplitReadFailed,
    StateReadFailed,
    TimerFired,
)
from kit.core.protocol.messages import (
    CancelTask,
    DeclineCheckpoint,
    NotifyCheckpointAborted,
    OperatorEventToTask,
    TaskStateChanged,
)
from kit.core.protocol.snapshots import SnapshotPart
from kit.core.protocol.tasks import ExecutionState, TaskRestore
from kit.core.protocol.words import ProtocolMessage
from kit.core.state.operator_state import TaskStateSnapshot
from kit.machines.task.processing_timer import PROCESSING_TIME_TIMER
from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.operators.functions.function_operator import KeyedProcessFunctionContext
from kit.stream.operators.functions.process import KeyedProcessFunction
from kit.stream.settings.job_settings import CheckpointConfig
from tests.machines.task.harness import SCHEMA, SUSPEND, TaskHarness, buffer, fan_in
from tests.machines.task.slot_harness import SlotHarness, unaligned_job


def failing(what: str) -> Any:
    """A method that raises."""

    def fail(*_: Any, **__: Any) -> None:
        raise ValueError(what)

    return fail


def watch_closing(task: TaskHarness) -> list[str]:
    """Let operators and backends record when they are closed."""
    calls: list[str] = []

    def watch(owner: Any, name: str) -> None:
        close = owner.close

        def closing() -> None:
            calls.append(name)
            close()

        owner.close = closing

    for link in task.machine.chain.links:
        watch(link.operator, f"{link.name} operator")
        watch(link.operator_state, f"{link.name} operator state")
        if link._keyed is not None:
            watch(link._keyed, f"{link.name} keyed state")
    return calls


def finish(task: TaskHarness) -> None:
    """Let the task end its input, take its last checkpoint, and leave."""
    task.end_data(0)
    task.barrier(1, 0)
    task.receive(0, EndOfPartition())
    task.write(1)
    task.complete(1)
    task.carry_out(CommitEffects)


# --- closing ----------------------------------------------------------------------------------------------------------


@pytest.mark.flink("StreamTaskTest.testStateBackendLoadingAndClosing")
@pytest.mark.parametrize("end", ["finish", "cancel"])
def test_backends_are_made_with_the_task_and_closed_with_it(end: str) -> None:
    task = TaskHarness(fan_in(1))
    task.rows(0)
    (keyed,) = [link._keyed for link in task.machine.chain.links if link._keyed is not None]
    assert not repr(keyed).endswith("entries: none)")
    calls = watch_closing(task)
    if end == "finish":
        finish(task)
        assert task.machine.state is ExecutionState.FINISHED
    else:
        task.to_task(CancelTask)
        task.to_task(CancelTask)
        assert task.machine.state is ExecutionState.CANCELED
    head, tail = (link.name for link in task.machine.chain.links)
    tail_first = [f"{tail} operator", f"{tail} operator state"]
    assert calls == [*tail_first, f"{head} operator", f"{head} operator state", f"{head} keyed state"]
    assert repr(keyed).endswith("entries: none)")


@pytest.mark.flink("StreamTaskTest.testStateBackendClosingOnFailure")
@pytest.mark.parametrize("close_fails", [False, True])
def test_backends_are_closed_when_the_task_fails_even_if_an_operator_cannot_be(close_fails: bool) -> None:
    task = TaskHarness(fan_in(1))
    if close_fails:
        for link in task.machine.chain.links:
            link.operator.close = failing("cannot close")  # type: ignore[method-assign]
    calls = watch_closing(task)
    task.machine.chain.head.process_batch = failing("cannot process")  # type: ignore[method-assign]
    task.rows(0)
    assert task.machine.state is ExecutionState.FAILED
    assert len(calls) == 5
    assert task.machine.error == "ValueError: cannot process"


@pytest.mark.flink("StreamTaskTest.testCleanUpExceptionSuppressing")
def test_an_error_in_closing_does_not_hide_the_one_that_came_first() -> None:
    task = TaskHarness(fan_in(1))
    operator = task.machine.chain.head
    operator.process_batch = failing("the cause")  # type: ignore[method-assign]
    operator.close = failing("and then this")  # type: ignore[method-assign]
    task.rows(0)
    (report,) = [word for word in task.take(TaskStateChanged) if word.state is ExecutionState.FAILED]
    assert report.error == "ValueError: the cause"
    assert "While the task was closed: ValueError: and then this" in report.traceback


@pytest.mark.flink("StreamTaskTest.testCleanUpExceptionSuppressing")
def test_a_task_that_cannot_be_closed_at_its_end_fails_and_its_receivers_are_not_told_of_an_end() -> None:
    task = TaskHarness(fan_in(1, chaining=False))
    task.machine.chain.head.close = failing("cannot close")  # type: ignore[method-assign]
    finish(task)
    assert task.states()[-1] is ExecutionState.FAILED
    assert task.machine.error == "ValueError: cannot close"
    assert EndOfPartition() not in task.sent()


def test_a_task_that_cannot_be_closed_is_cancelled_all_the_same() -> None:
    task = TaskHarness(fan_in(1))
    task.machine.chain.head.close = failing("cannot close")  # type: ignore[method-assign]
    task.to_task(CancelTask)
    assert task.states()[-2:] == [ExecutionState.CANCELING, ExecutionState.CANCELED]


@pytest.mark.flink("StreamTaskTest.testCheckpointFailueOnClosedOperator")
def test_a_closed_chain_cannot_be_snapshotted() -> None:
    task = TaskHarness(fan_in(1))
    task.machine.chain.finish()
    task.machine.chain.close()
    task.barrier(1, 0)
    assert task.machine.state is ExecutionState.FAILED
    assert "is closed: a task takes its last checkpoint before that" in task.machine.error
    assert task.triggered() == []


def test_what_was_snapshotted_before_the_end_can_be_written_after_it() -> None:
    written = []
    for close in (False, True):
        task = TaskHarness(fan_in(1))
        task.rows(0)
        task.barrier(1, 0)
        (command,) = task.take(WriteSnapshot)
        if close:
            task.machine.chain.close()
        written.append([bytes(part.encode()[0]) for part in command.parts])
    assert written[0] == written[1]
    assert len(written[0]) == 2


# --- beginning --------------------------------------------------------------------------------------------------------


@pytest.mark.flink("StreamTaskTest.testRestorePerformedFromInvoke")
def test_operators_are_initialized_once_also_with_nothing_to_restore() -> None:
    task = TaskHarness(fan_in(1), deploy=False)
    calls: list[str] = []
    for link in task.machine.chain.links:
        link.operator.initialize_state = lambda name=link.name: calls.append(f"{name} state")  # type: ignore[method-assign, misc]
        link.operator.open = lambda name=link.name: calls.append(f"{name} open")  # type: ignore[method-assign, misc]
    task.deploy()
    head, tail = (link.name for link in task.machine.chain.links)
    assert calls == [f"{tail} state", f"{head} state", f"{tail} open", f"{head} open"]
    assert task.states() == [ExecutionState.RUNNING]


# --- turns and messages -----------------------------------------------------------------------------------------------


@pytest.mark.flink("StreamTaskTest.testProcessWithRaceInDataAvailability")
def test_a_turn_that_comes_when_the_data_is_gone_does_no_harm() -> None:
    task = TaskHarness(fan_in(1, chaining=False))
    task.receive(0, buffer(), run=False)
    assert task.machine.available
    task.give(ProcessInput())
    assert task.give(ProcessInput()) == []
    task.rows(0)
    assert [type(element) for element in task.sent()] == [Buffer, Buffer]


@pytest.mark.flink("StreamTaskTest.testProcessWithAvailableOutput")
def test_as_long_as_output_has_credit_all_input_is_processed_without_a_pause() -> None:
    task = TaskHarness(fan_in(5, chaining=False))
    task.give_credits(10)
    for _ in range(2):
        for channel in range(5):
            task.receive(channel, buffer(), run=False)
    for left in reversed(range(10)):
        assert task.machine.available
        task.give(ProcessInput())
        assert sum(task.queued) == left
    assert not task.machine.available
    assert [type(element) for element in task.sent()] == [Buffer] * 10


@pytest.mark.flink("StreamTaskTest.testExecuteMailboxActionsAfterLeavingInputProcessorMailboxLoop")
def test_messages_are_handled_after_the_end_of_data() -> None:
    task = TaskHarness(fan_in(1, chaining=False))
    task.end_data(0)
    assert not task.machine.available
    told: list[int] = []
    task.machine.chain.head.notify_checkpoint_complete = told.append  # type: ignore[method-assign]
    task.complete(1)
    task.to_task(NotifyCheckpointAborted, checkpoint_id=3, timestamp_ms=0, latest_completed_id=2)
    assert told == [1, 2]


@pytest.mark.flink("SynchronousCheckpointITCase.taskDispatcherThreadPoolAllowsForSynchronousCheckpoints")
def test_notices_are_handled_while_a_synchronous_savepoint_holds_the_task() -> None:
    task = TaskHarness(fan_in(1), "rows/0")
    task.assign(5)
    task.trigger(42, SUSPEND)
    assert not task.machine.available
    told: list[int] = []
    task.machine.chain.head.notify_checkpoint_complete = told.append  # type: ignore[method-assign]
    task.complete(41)
    assert told == [41]
    assert task.machine.state is ExecutionState.RUNNING
    task.write(42)
    task.complete(42)
    assert told == [41, 42]
    assert task.machine.state is ExecutionState.FINISHED


class Alarm(KeyedProcessFunction):
    """Emits a row again 100 ms later."""

    def process_element(self, row: dict[str, Any], ctx: KeyedProcessFunctionContext) -> None:
        ctx.timer_service.register_processing_time_timer(ctx.timer_service.current_processing_time_ms + 100)

    def on_timer(self, timestamp_ms: int, ctx: KeyedProcessFunctionContext) -> None:
        ctx.emit({"k": "alarm", "n": 1})


@pytest.fixture
def alarms() -> TaskHarness:
    """A task with processing-time timers."""
    env = StreamEnvironment("alarms", parallelism=1, max_parallelism=16, chaining=False, checkpoint=CheckpointConfig())
    rows = env.from_source(CollectionSource([], SCHEMA), uid="rows")
    rows.key_by("k").process(Alarm).uid("alarms").sink_to(CollectSink(), uid="out")
    return TaskHarness(env, "alarms/0")


def test_a_timer_fires(alarms: TaskHarness) -> None:
    alarms.rows(0)
    (timer,) = alarms.take(ScheduleTimer)
    alarms.at = timer.due_ms
    alarms.give(TimerFired(timer=timer.timer))
    assert [type(element) for element in alarms.sent()] == [Buffer]


@pytest.mark.flink("StreamTaskTest.testQuiesceOfMailboxRightBeforeSubmittingActionViaTimerService")
def test_a_timer_that_fires_after_the_end_does_nothing(alarms: TaskHarness) -> None:
    alarms.rows(0)
    (timer,) = alarms.take(ScheduleTimer)
    alarms.end_data(0)
    assert alarms.sent() == [EndOfData(True)]
    alarms.at = timer.due_ms
    assert alarms.give(TimerFired(timer=PROCESSING_TIME_TIMER)) == []
    finish(alarms)
    assert alarms.machine.state is ExecutionState.FINISHED
    assert alarms.give(TimerFired(timer=PROCESSING_TIME_TIMER)) == []


def test_events_of_a_coordinator_find_no_operator_in_a_task_that_had_finished() -> None:
    restore = TaskRestore(7, TaskStateSnapshot({}, is_task_deployed_as_finished=True))
    task = TaskHarness(fan_in(1), "rows/0", restore=restore)
    operator_id = task.graph.job_graph.vertices[0].operators[0].operator_id
    task.emitted.clear()
    task.to_task(OperatorEventToTask, operator_id=operator_id, payload={"kind": "no_more_splits"})
    assert task.emitted == []
    assert task.machine.state is ExecutionState.RUNNING


# --- what fails beside the task ---------------------------------------------------------------------------------------

TEXT = "no space left on device (/checkpoints/chk-7)"


@pytest.mark.flink("StreamTaskTest.testAsyncExceptionHandlerHandleExceptionForwardsMessageProperly")
@pytest.mark.parametrize(
    "failure",
    [
        SplitReadFailed(split_id="s", error=TEXT),
        EffectsFailed(operator_id="o", checkpoint_id=1, error=TEXT),
        StateReadFailed(error=TEXT),
    ],
    ids=lambda failure: type(failure).__name__,
)
def test_what_fails_beside_the_task_fails_it_with_its_text(failure: ProtocolMessage) -> None:
    task = TaskHarness(fan_in(1), "rows/0")
    task.give(failure)
    (report,) = [word for word in task.take(TaskStateChanged) if word.state is ExecutionState.FAILED]
    assert TEXT in report.error
    assert TEXT in report.traceback


@pytest.mark.flink("StreamTaskTest.testAsyncExceptionHandlerHandleExceptionForwardsMessageProperly")
@pytest.mark.parametrize("part", ["state", "channel state"])
def test_a_checkpoint_whose_writing_fails_is_declined_with_its_text(part: str, tmp_path: Path) -> None:
    task = SlotHarness(unaligned_job(), tmp_path)
    task.receive(1, buffer(), run=False)
    task.barrier(1, 0, 1)
    if part == "state":
        task.give(SnapshotFailed(checkpoint_id=1, error=TEXT))
    else:
        task.write_channel_state(error=TEXT)
    (decline,) = task.take(DeclineCheckpoint)
    assert decline.reason.name == "CHECKPOINT_ASYNC_EXCEPTION"
    assert decline.detail.endswith(TEXT)
    assert decline.detail.startswith("Could not materialize checkpoint 1 for operator sums (1/1)#0: ")


@pytest.mark.flink("StreamTaskTest.testUncaughtExceptionInAsynchronousCheckpointingOperation")
@pytest.mark.parametrize("error", [RuntimeError, KeyError, MemoryError, RecursionError, AssertionError])
def test_whatever_encoding_a_state_raises_ends_in_a_declined_checkpoint(error: type[Exception], tmp_path: Path) -> None:
    task = SlotHarness(unaligned_job(), tmp_path)
    task.rows(0)
    task.barrier(1, 0, 1)
    command = next(word for word in task.emitted if isinstance(word, WriteSnapshot))

    def encode() -> tuple[Any, Any]:
        raise error("Test exception")

    broken: SnapshotPart = replace(command.parts[-1], encode=encode, file_name="broken")
    task.emitted[task.emitted.index(command)] = replace(command, parts=(*command.parts, broken))
    task.write_all(1)
    (decline,) = task.take(DeclineCheckpoint)
    assert (decline.checkpoint_id, decline.reason.name) == (1, "CHECKPOINT_ASYNC_EXCEPTION")
    assert "Test exception" in decline.detail
    assert task.machine.state is ExecutionState.RUNNING
    task.assert_nothing_leaks()

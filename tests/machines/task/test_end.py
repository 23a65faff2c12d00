"""The end of a task: end of data, the last checkpoint, stop-with-savepoint, tasks that had finished before."""

from __future__ import annotations

from typing import Any

import pytest

from kit.core.event_time import MAX_WATERMARK_MS
from kit.core.protocol.commands import CommitEffects
from kit.core.protocol.elements import CheckpointBarrier, Element, EndOfData, EndOfPartition, Watermark
from kit.core.protocol.events import SplitRead
from kit.core.protocol.messages import TaskStateChanged
from kit.core.protocol.tasks import ExecutionState, TaskRestore
from kit.core.protocol.words import ProtocolError
from kit.core.state.operator_state import TaskStateSnapshot
from kit.machines.channel.input_channel import InputChannel
from tests.machines.task.harness import DRAIN, SUSPEND, TaskHarness, buffer, fan_in

FINISHED_BEFORE = TaskRestore(7, TaskStateSnapshot({}, is_task_deployed_as_finished=True))


def source(**settings: Any) -> TaskHarness:
    return TaskHarness(fan_in(1, **settings), "rows/0")


def sums(senders: int = 1, **settings: Any) -> TaskHarness:
    return TaskHarness(fan_in(senders, **settings))


def checkpoint(task: TaskHarness, checkpoint_id: int, *channels: int) -> None:
    """A whole checkpoint passes through the task."""
    if channels:
        task.barrier(checkpoint_id, *channels)
    else:
        task.trigger(checkpoint_id)
    task.write(checkpoint_id)
    task.complete(checkpoint_id)
    task.carry_out(CommitEffects)


def is_finished(task: TaskHarness) -> bool:
    return task.machine.state is ExecutionState.FINISHED


# --- end of data ------------------------------------------------------------------------------------------------------


def test_a_source_without_splits_ends_event_time_then_its_data() -> None:
    task = source()
    task.no_more_splits()
    assert task.sent() == [Watermark(MAX_WATERMARK_MS), EndOfData(True)]
    (report,) = [word for word in task.take(TaskStateChanged) if word.end_of_data]
    assert report.state is ExecutionState.RUNNING


def test_a_task_ends_its_data_when_all_inputs_have() -> None:
    task = TaskHarness(fan_in(3, chaining=False))
    task.end_data(0, 2)
    assert EndOfData(True) not in task.sent()
    task.rows(1)
    task.end_data(1)
    assert task.sent()[-1] == EndOfData(True)


@pytest.mark.parametrize("stopped", [0, 1, 2])
def test_one_input_that_was_stopped_keeps_the_task_from_draining(stopped: int) -> None:
    task = TaskHarness(fan_in(3, chaining=False))
    calls: list[str] = []
    task.machine.chain.links[0].operator.finish = lambda: calls.append("finish")  # type: ignore[method-assign]
    for channel in range(3):
        task.end_data(channel, drain=channel != stopped)
    assert task.sent()[-1] == EndOfData(False)
    assert calls == []
    assert not [word for word in task.take(TaskStateChanged) if word.end_of_data]


def test_a_partition_cannot_end_before_its_data() -> None:
    task = sums(2)
    with pytest.raises(ProtocolError, match="rows/1 ended its partition to sums/0 before its data"):
        task.receive(1, EndOfPartition())


def test_nothing_may_come_after_the_end() -> None:
    task = sums(2)
    task.end(0)
    with pytest.raises(ProtocolError, match=r"channel 0 from rows/0 delivered .* after its end"):
        task.receive(0, EndOfData(True))


# --- the last checkpoint ----------------------------------------------------------------------------------------------


@pytest.mark.flink("StreamTaskFinalCheckpointsTest.testWaitingForFinalCheckpoint")
def test_a_task_stays_until_a_checkpoint_completes_that_began_after_its_data() -> None:
    task = source()
    task.no_more_splits()
    assert not is_finished(task)
    checkpoint(task, 1)
    assert is_finished(task)
    assert task.sent()[-1] == EndOfPartition()


@pytest.mark.flink("StreamTaskFinalCheckpointsTest.testWaitingForFinalCheckpointNotTheFirsNotifiedComplete")
def test_the_completion_of_an_earlier_checkpoint_does_not_release_it() -> None:
    task = source()
    task.trigger(1)
    task.no_more_splits()
    task.trigger(2)
    task.write(1)
    task.write(2)
    task.complete(1)
    assert not is_finished(task)
    task.complete(2)
    assert is_finished(task)


def test_a_later_checkpoint_will_do_when_the_first_one_fails() -> None:
    task = source()
    task.no_more_splits()
    task.trigger(1)
    task.abort(1)
    checkpoint(task, 2)
    assert is_finished(task)


@pytest.mark.flink("StreamTaskFinalCheckpointsTest.testNotWaitingForAllRecordsProcessedIfCheckpointNotEnabled")
def test_without_checkpoints_after_the_end_it_just_leaves() -> None:
    task = source(checkpoints_after_tasks_finish=False)
    task.no_more_splits()
    assert is_finished(task)


@pytest.mark.flink("StreamTaskFinalCheckpointsTest.testWaitingForPendingCheckpointsOnFinished")
def test_snapshots_that_are_being_written_are_reported_before_the_task_leaves() -> None:
    task = source(checkpoints_after_tasks_finish=False)
    task.trigger(1)
    task.no_more_splits()
    assert not is_finished(task)
    task.write(1)
    assert [ack.checkpoint_id for ack in task.acknowledged()] == [1]
    task.run()
    assert is_finished(task)


def test_output_is_published_before_the_task_leaves() -> None:
    task = sums()
    task.rows(0)
    task.end_data(0)
    task.barrier(1, 0)
    task.receive(0, EndOfPartition())
    task.write(1)
    task.complete(1)
    assert not is_finished(task)
    task.carry_out(CommitEffects)
    assert is_finished(task)
    assert len(task.output.published) == 1


@pytest.mark.flink("StreamTaskFinalCheckpointsTest.testNotWaitingForAllRecordsProcessedIfCheckpointNotEnabled")
def test_a_task_stays_until_those_downstream_have_processed_its_buffers() -> None:
    task = source(checkpoints_after_tasks_finish=False)
    task.assign(1)
    (read,) = task.reads()
    task.give(SplitRead(split_id="split", batch=buffer().batch, position=1, finished=True))
    assert read.position == 0
    task.no_more_splits()
    assert not is_finished(task)
    task.give_credits(1)
    task.run()
    assert is_finished(task)


@pytest.mark.flink("StreamTaskFinalCheckpointsTest.testCheckpointDoneOnFinishedOperator")
@pytest.mark.flink("StreamTaskFinalCheckpointsTest.testReportOperatorsFinishedInCheckpoint")
def test_the_ack_says_whether_the_operators_have_finished() -> None:
    task = sums()
    task.rows(0)
    task.barrier(1, 0)
    task.write(1)
    task.end_data(0)
    task.barrier(2, 0)
    task.write(2)
    assert [ack.state and ack.state.is_task_finished for ack in task.acknowledged()] == [False, True]


@pytest.mark.flink("StreamTaskFinalCheckpointsTest.testTriggeringAlignedNoTimeoutCheckpointWithFinishedChannels")
def test_a_task_without_running_senders_is_triggered_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all senders, some and none: each time the barrier is forwarded once, and no channel is ever blocked."""
    monkeypatch.setattr(InputChannel, "block", lambda channel: pytest.fail(f"{channel!r} was blocked"))
    task = sums(3, chaining=False)
    sent: list[Element] = []
    for checkpoint_id, ended in ((2, []), (4, [0]), (6, [1, 2])):
        task.end(*ended)
        task.trigger(checkpoint_id)
        task.write(checkpoint_id)
        assert [ack.checkpoint_id for ack in task.acknowledged()] == [checkpoint_id]
        sent += task.sent()
        assert not is_finished(task)
    told = [getattr(element, "checkpoint_id", element) for element in sent if not isinstance(element, Watermark)]
    assert told == [2, 4, EndOfData(True), 6]
    task.complete(6)
    assert is_finished(task)


def test_several_sources_that_end_at_different_times_are_each_in_every_checkpoint() -> None:
    task = TaskHarness(fan_in(1, sources=3))
    task.rows(1)
    task.end_data(1)
    task.barrier(1, 0, 1, 2)
    task.receive(1, EndOfPartition())
    task.end_data(0)
    task.barrier(2, 0, 2)
    task.receive(0, EndOfPartition())
    task.barrier(3, 2)
    task.end_data(2)
    task.barrier(4, 2)
    task.receive(2, EndOfPartition())
    assert task.triggered() == [1, 2, 3, 4]
    for checkpoint_id in (1, 2, 3):
        task.complete(checkpoint_id)
    assert not is_finished(task)


# --- stop-with-savepoint ----------------------------------------------------------------------------------------------


@pytest.mark.flink("StreamTaskTest.testSavepointSuspendCompleted")
@pytest.mark.flink("StreamTaskTest.testSavepointTerminateCompleted")
@pytest.mark.parametrize("kind", [SUSPEND, DRAIN])
def test_a_stop_holds_the_task_until_its_savepoint_is_complete(kind: Any) -> None:
    task = source()
    task.assign(5)
    task.trigger(1, kind)
    expected = [EndOfData(True), CheckpointBarrier] if kind is DRAIN else [EndOfData(False), CheckpointBarrier]
    sent = [element if element.__class__ is EndOfData else type(element) for element in task.sent()]
    assert sent[-2:] == expected
    assert sent[:-2] == ([Watermark] if kind is DRAIN else [])
    task.write(1)
    assert not is_finished(task)
    assert not task.machine.available
    task.complete(1)
    assert is_finished(task)


def test_rows_that_are_read_after_a_stop_belong_to_the_next_run() -> None:
    task = source()
    task.assign(5)
    task.trigger(1, SUSPEND)
    task.sent()
    task.give(SplitRead(split_id="split", batch=buffer().batch, position=1, finished=False))
    assert task.sent() == []


@pytest.mark.flink(
    "StreamTaskFinalCheckpointsTest.testTriggerStopWithSavepointWhenWaitingForFinalCheckpointOnSourceTask"
)
@pytest.mark.flink(
    "StreamTaskFinalCheckpointsTest.testTriggerStopWithSavepointNoDrainWhenWaitingForFinalCheckpointOnSourceTask"
)
@pytest.mark.parametrize("kind", [SUSPEND, DRAIN])
def test_a_stop_also_ends_a_source_that_waits_for_its_last_checkpoint(kind: Any) -> None:
    task = source()
    task.no_more_splits()
    task.trigger(3)
    task.sent()
    task.trigger(4, kind)
    assert [type(element) for element in task.sent()] == [CheckpointBarrier]
    task.write(3)
    task.write(4)
    task.complete(4)
    assert is_finished(task)


@pytest.mark.flink("StreamTaskFinalCheckpointsTest.testTriggerStopWithSavepointWhenWaitingForFinalCheckpoint")
def test_a_stop_also_ends_a_task_that_waits_for_its_last_checkpoint() -> None:
    task = sums(2)
    task.end_data(0, 1)
    task.barrier(4, 0, 1, kind=DRAIN)
    task.receive(0, EndOfPartition())
    task.receive(1, EndOfPartition())
    task.write(4)
    task.complete(4)
    assert is_finished(task)


def test_only_its_own_savepoint_releases_a_task_that_is_stopped() -> None:
    task = source()
    task.trigger(3)
    task.trigger(4, SUSPEND)
    task.write(3)
    task.write(4)
    task.complete(3)
    assert not is_finished(task)
    task.complete(4)
    assert is_finished(task)


@pytest.mark.parametrize("kind", [SUSPEND, DRAIN])
def test_a_stop_that_was_aborted_before_the_last_barrier_holds_nobody(kind: Any) -> None:
    task = sums(3)
    task.end_data(0, 1, 2)
    task.barrier(4, 0, 1, kind=kind)
    task.abort(4)
    task.receive(2, EndOfPartition())  # which stands for its barrier
    task.end(0, 1)
    checkpoint(task, 6)
    assert is_finished(task)


@pytest.mark.parametrize("kind", [SUSPEND, DRAIN])
@pytest.mark.parametrize("later", [4, 5], ids=["that savepoint", "a later checkpoint"])
def test_a_source_goes_on_if_it_hears_of_the_end_of_a_stop_before_the_stop(kind: Any, later: int) -> None:
    task = source()
    task.assign(5)
    if later == 4:
        task.abort(4)
    else:
        checkpoint(task, 5)
    task.sent()
    task.trigger(4, kind)
    assert not [element for element in task.sent() if isinstance(element, EndOfData | CheckpointBarrier)]
    task.give(SplitRead(split_id="split", batch=None, position=5, finished=True))
    task.run()
    task.no_more_splits()
    checkpoint(task, 7)
    assert is_finished(task)


# --- tasks that had finished before -----------------------------------------------------------------------------------


@pytest.mark.flink("StreamTaskFinalCheckpointsTest.testOperatorSkipLifeCycleIfFinishedOnRestore")
def test_a_source_that_had_finished_says_so_again_and_runs_no_operator() -> None:
    task = TaskHarness(fan_in(1), "rows/0", restore=FINISHED_BEFORE)
    assert task.sent() == [Watermark(MAX_WATERMARK_MS), EndOfData(True)]
    assert task.machine.chain.links == []
    task.trigger(8)
    assert [type(element) for element in task.sent()] == [CheckpointBarrier]
    task.write(8)
    (ack,) = task.acknowledged()
    assert ack.state == TaskStateSnapshot({}, is_task_deployed_as_finished=True, is_task_finished=True)
    task.complete(8)
    assert is_finished(task)


@pytest.mark.flink("StreamTaskFinalCheckpointsTest.testOperatorSkipLifeCycleIfFinishedOnRestore")
@pytest.mark.flink("AsyncCheckpointRunnableTest.testReportFinishedOnRestoreTaskSnapshots")
def test_a_task_that_had_finished_passes_marks_on() -> None:
    task = TaskHarness(fan_in(2, chaining=False), restore=FINISHED_BEFORE)
    assert task.states() == [ExecutionState.RUNNING]
    task.watermark(0, MAX_WATERMARK_MS)
    task.watermark(1, MAX_WATERMARK_MS)
    task.end_data(0, 1)
    assert task.sent() == [Watermark(MAX_WATERMARK_MS), EndOfData(True)]
    task.barrier(8, 0)
    assert task.blocked == [0]
    task.barrier(8, 1)
    task.receive(0, EndOfPartition())
    task.receive(1, EndOfPartition())
    task.abort(6)
    task.write(8)
    (ack,) = task.acknowledged()
    assert ack.state is not None
    assert ack.state.is_task_deployed_as_finished
    task.complete(8)
    assert is_finished(task)

"""Deployment, records, credits and back-pressure, and what becomes of errors."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kit.core.protocol.commands import GrantCredit, ReadState, ScheduleTimer
from kit.core.protocol.elements import Buffer, CheckpointBarrier, EndOfPartition
from kit.core.protocol.events import (
    ElementReceived,
    ProcessInput,
    SplitRead,
    SplitReadFailed,
    StateRead,
    StateReadFailed,
    TimerFired,
)
from kit.core.protocol.messages import CancelTask, DeployTask, OperatorEventToCoordinator, TaskStateChanged
from kit.core.protocol.tasks import ExecutionState, TaskRestore
from kit.core.protocol.words import ProtocolError
from kit.core.state.operator_state import TaskStateSnapshot
from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.operators.functions.function_operator import KeyedProcessFunctionContext
from kit.stream.operators.functions.process import KeyedProcessFunction
from kit.stream.settings.job_settings import CheckpointConfig
from tests.machines.task.harness import ROW, SCHEMA, TaskHarness, buffer, fan_in, options

RESTORE = TaskRestore(3, TaskStateSnapshot({}))


# --- deployment -------------------------------------------------------------------------------------------------------


def test_a_task_without_state_runs_at_once_and_gives_its_senders_credits() -> None:
    task = TaskHarness(fan_in(3))
    assert task.states() == [ExecutionState.RUNNING]
    assert [(word.channel, word.credits) for word in task.take(GrantCredit)] == [(0, 2), (1, 2), (2, 2)]


def test_a_task_with_state_waits_until_it_is_read() -> None:
    task = TaskHarness(fan_in(1), restore=RESTORE)
    assert task.machine.state is ExecutionState.INITIALIZING
    assert [word.restore for word in task.take(ReadState)] == [RESTORE]
    assert task.states() == []
    task.receive(0, buffer(), run=False)
    assert not task.machine.available
    task.give(StateRead(parts=()))
    assert task.states() == [ExecutionState.RUNNING]
    assert task.machine.available


@pytest.mark.flink("StreamTaskTest.testHandleAsyncExceptionDuringRestoring")
def test_state_that_cannot_be_read_fails_the_task() -> None:
    task = TaskHarness(fan_in(1), restore=RESTORE)
    task.give(StateReadFailed(error="checkpoint 3 cannot be read: gone"))
    assert task.states() == [ExecutionState.FAILED]
    assert "checkpoint 3 cannot be read: gone" in task.machine.error


@pytest.mark.flink("StreamTaskTest.testRestorePerformedOnlyOnce")
def test_a_task_is_deployed_and_restored_once() -> None:
    task = TaskHarness(fan_in(1), restore=RESTORE)
    with pytest.raises(ProtocolError, match="sums/0 is INITIALIZING and cannot take 'it is deployed'; all"):
        task.to_task(DeployTask, restore=None)
    task.give(StateRead(parts=()))
    task.emitted.clear()
    task.give(StateRead(parts=()))
    assert task.emitted == []


@pytest.mark.flink("StreamTaskTest.testEarlyCanceling")
def test_a_task_that_is_cancelled_while_it_reads_its_state_never_runs() -> None:
    task = TaskHarness(fan_in(1), restore=RESTORE)
    task.to_task(CancelTask)
    task.give(StateRead(parts=()))
    assert task.states() == [ExecutionState.CANCELING, ExecutionState.CANCELED]
    task.to_task(CancelTask)
    assert task.states() == []


def test_an_event_of_another_kind_of_machine_is_refused_with_those_it_knows() -> None:
    task = TaskHarness(fan_in(1))
    with pytest.raises(ProtocolError, match=r"sums/0 cannot handle TaskStateChanged; it knows CancelTask, Channel"):
        task.give(TaskStateChanged(task="sums/0", attempt=1, state=ExecutionState.RUNNING))


# --- records, credits, back-pressure ----------------------------------------------------------------------------------


def test_taking_a_buffer_gives_a_credit_back_and_an_event_does_not() -> None:
    task = TaskHarness(fan_in(2))
    task.credits_back()
    task.rows(1)
    assert task.credits_back() == [1]
    task.watermark(1, 5)
    assert task.credits_back() == []


def test_a_buffer_without_a_credit_is_a_mistake_of_the_sender() -> None:
    task = TaskHarness(fan_in(1))
    task.receive(0, buffer(), buffer(), run=False)
    with pytest.raises(ProtocolError, match="rows/0 sent a buffer on channel 0 without a credit"):
        task.receive(0, buffer(), run=False)


def test_channels_take_turns() -> None:
    task = TaskHarness(fan_in(3))
    task.credits_back()
    for channel in (2, 2, 0, 0, 1):
        task.receive(channel, buffer(), run=False)
    task.run()
    assert task.credits_back() == [0, 1, 2, 0, 2]


def test_a_turn_when_nothing_can_be_done_does_nothing() -> None:
    task = TaskHarness(fan_in(1))
    task.emitted.clear()
    task.give(ProcessInput())
    assert task.emitted == []


def test_nothing_leaves_without_a_credit_and_a_full_output_stops_the_task() -> None:
    task = TaskHarness(fan_in(1, chaining=False), credits=False)
    for _ in range(2):
        task.rows(0)
    assert task.sent() == []
    assert not task.machine.outputs.writable
    task.receive(0, buffer(), CheckpointBarrier(1, 0, options()))
    assert task.queued == [2]
    assert not task.machine.available
    task.give_credits(1)
    assert [type(element) for element in task.sent()] == [Buffer]
    task.run()
    assert task.queued == [1]
    task.give_credits(5)
    task.run()
    assert [type(element) for element in task.sent()] == [Buffer, Buffer, CheckpointBarrier]
    assert task.triggered() == [1]


def test_events_need_no_credit_but_never_overtake_buffers() -> None:
    task = TaskHarness(fan_in(1, chaining=False), credits=False)
    task.barrier(1, 0)
    assert [type(element) for element in task.sent()] == [CheckpointBarrier]
    task.rows(0)
    task.barrier(2, 0)
    assert task.sent() == []
    task.give_credits(1)
    assert [type(element) for element in task.sent()] == [Buffer, CheckpointBarrier]


def test_records_go_to_the_subtask_that_owns_their_key_and_events_to_all() -> None:
    env = StreamEnvironment("wide", parallelism=1, max_parallelism=16, checkpoint=CheckpointConfig())
    rows = [{"k": key, "n": 1} for key in "abcdefgh"]
    stream = env.from_source(CollectionSource(rows, SCHEMA), uid="rows")
    stream.key_by("k").process(Echo).uid("echo").set_parallelism(3).sink_to(CollectSink(), uid="out").set_parallelism(3)
    task = TaskHarness(env, "rows/0")
    task.assign(8)
    task.give(SplitRead(split_id="split", batch=buffer(rows).batch, position=8, finished=True))
    task.trigger(1)
    sent = task.sent_to()
    keys = [row["k"] for elements in sent.values() for row in elements[0].batch.to_pylist()]  # type: ignore[union-attr]
    assert sorted(keys) == sorted("abcdefgh")
    assert [[type(element) for element in elements] for elements in sent.values()] == [[Buffer, CheckpointBarrier]] * 3


class Echo(KeyedProcessFunction):
    """Emits each row again; `k` == "boom" raises."""

    def process_element(self, row: dict[str, Any], ctx: KeyedProcessFunctionContext) -> None:
        if row["k"] == "boom":
            raise ZeroDivisionError("that key")
        ctx.emit(row)


# --- the source -------------------------------------------------------------------------------------------------------


def test_a_source_asks_for_a_split_then_for_rows_one_read_at_a_time() -> None:
    task = TaskHarness(fan_in(1), "rows/0")
    (asked,) = task.take(OperatorEventToCoordinator)
    assert asked.payload["kind"] == "request_split"
    assert not task.machine.available or task.give(ProcessInput()) == []
    task.assign(4)
    (read,) = task.reads()
    assert (read.split["id"], read.position) == ("split", 0)
    assert not task.machine.available
    task.give(SplitRead(split_id="split", batch=buffer([ROW, ROW]).batch, position=2, finished=False))
    task.run()
    assert [read.position for read in task.reads()] == [2]


def test_input_that_cannot_be_read_fails_the_task() -> None:
    task = TaskHarness(fan_in(1), "rows/0")
    task.assign(4)
    task.give(SplitReadFailed(split_id="split", error="source 'rows': no such file"))
    assert task.states()[-1] is ExecutionState.FAILED
    assert "no such file" in task.machine.error


def test_a_source_waits_for_its_turn_when_its_rate_is_limited() -> None:
    env = StreamEnvironment("slow", parallelism=1, checkpoint=CheckpointConfig())
    source = CollectionSource([], SCHEMA, rows_per_second=10)
    env.from_source(source, uid="rows").sink_to(CollectSink(), uid="out")
    task = TaskHarness(env, env.execution_graph().tasks[0].task)
    task.assign(4)
    task.give(SplitRead(split_id="split", batch=buffer().batch, position=1, finished=False))
    task.run()
    assert task.machine.available is False
    (timer,) = task.take(ScheduleTimer)
    assert timer.due_ms == task.at + 100
    task.reads()
    task.at = timer.due_ms
    task.give(TimerFired(timer=timer.timer))
    task.run()
    assert len(task.reads()) == 1


# --- errors -----------------------------------------------------------------------------------------------------------


def failing_job() -> StreamEnvironment:
    env = StreamEnvironment("boom", parallelism=1, max_parallelism=16, checkpoint=CheckpointConfig())
    stream = env.from_source(CollectionSource([], SCHEMA), uid="rows")
    stream.key_by("k").process(Echo).uid("echo").name("my echo").sink_to(CollectSink(), uid="out")
    return env


def test_a_user_function_that_raises_fails_the_task_with_the_operator_s_name() -> None:
    env = failing_job()
    task = TaskHarness(env, env.execution_graph().tasks[1].task)
    task.rows(0, {"k": "boom", "n": 1})
    (report,) = [word for word in task.take(TaskStateChanged) if word.state is ExecutionState.FAILED]
    assert "my echo" in report.error
    assert "ZeroDivisionError: that key" in report.error
    assert "ZeroDivisionError" in report.traceback


def test_a_failed_task_is_silent() -> None:
    env = failing_job()
    task = TaskHarness(env, env.execution_graph().tasks[1].task)
    task.rows(0, {"k": "boom", "n": 1})
    task.emitted.clear()
    task.barrier(1, 0)
    task.rows(0)
    task.give(TimerFired(timer="processing-time"))
    task.complete(1)
    assert [word for word in task.emitted if not isinstance(word, GrantCredit)] == []
    assert not task.machine.available


def test_rows_for_another_split_are_an_error_of_the_host_that_fails_the_task() -> None:
    task = TaskHarness(fan_in(1), "rows/0")
    task.assign(4)
    task.give(SplitRead(split_id="other", batch=None, position=1, finished=False))
    assert "rows of split 'other' arrived" in task.machine.error


def test_reprs_name_the_task_and_where_it_stands() -> None:
    task = TaskHarness(fan_in(2))
    machine = task.machine
    assert repr(machine) == "StreamTask(sums/0@1, RUNNING)"
    task.barrier(1, 0)
    assert repr(machine.barriers) == "SingleCheckpointBarrierHandler(CollectingBarriers, chk-1, 1 of 2 aligned)"
    task.barrier(1, 1)
    assert repr(machine.checkpoints) == "SubtaskCheckpointCoordinator(last 1, 1 being written)"
    assert repr(machine.inputs) == "InputGates(2 channels)"
    assert repr(machine.inputs.channels[0]) == "InputChannel(rows/0, 0 queued, open)"
    task.end(0)
    assert repr(machine.inputs.channels[0]) == "InputChannel(rows/0, 0 queued, ended)"
    assert "sums" in repr(machine.chain)
    assert "InputWatermarks(" in repr(machine.input._valve)


@pytest.mark.parametrize("element", [EndOfPartition(), buffer()])
def test_what_a_finished_channel_delivers_is_refused(element: object) -> None:
    task = TaskHarness(fan_in(1))
    task.end(0)
    with pytest.raises(ProtocolError, match="after its end"):
        task.give(ElementReceived(channel=0, element=element))  # type: ignore[arg-type]


def test_a_schema_travels_with_every_buffer() -> None:
    task = TaskHarness(fan_in(1, chaining=False))
    task.rows(0, {"k": "a", "n": 2}, {"k": "b", "n": 3})
    (sent,) = task.sent()
    assert isinstance(sent, Buffer)
    assert sent.batch.schema.names == ["k", "rows", "total"]
    assert sent.batch.schema.field("total").type == pa.int64()
    assert (sent.rows, repr(sent)) == (2, "Buffer(2 rows)")
    assert sent.size_bytes > 0

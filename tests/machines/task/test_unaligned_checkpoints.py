"""A task's own side of a checkpoint with in-flight data: what is captured, written, reported and given up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kit.core.event_time import MAX_WATERMARK_MS
from kit.core.protocol.commands import ScheduleTimer, SendElement, WriteSnapshot
from kit.core.protocol.elements import Buffer, CancelCheckpointMarker, CheckpointBarrier, EndOfData, Watermark
from kit.core.protocol.events import EffectsFailed, ProcessInput, SnapshotFailed, TimerFired
from kit.core.protocol.messages import CancelTask, NotifyCheckpointComplete, ReportCheckpointMetrics, SubmitChannelState
from kit.core.protocol.notes import Note
from kit.core.protocol.options import AlignmentType
from kit.core.protocol.tasks import ExecutionState, TaskRestore
from kit.core.state.operator_state import EMPTY_SUBTASK_STATE, OperatorSubtaskState, TaskStateSnapshot
from kit.machines.channel.channel_state.channel_state_writer import ChannelStateWriteResult
from kit.machines.task.stream_task import ALIGNMENT_TIMEOUT
from kit.machines.task.subtask_coordinator import OUTPUT_ALIGNMENT_TIMER
from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.operators.aggregates import sum_
from kit.stream.settings.job_settings import CheckpointConfig
from tests.machines.task.harness import SCHEMA, SUSPEND, buffer
from tests.machines.task.slot_harness import ALONE, FORCED_ALIGNED, UNALIGNED, SlotHarness, unaligned_job

ALIGNED = AlignmentType.ALIGNED
TIMEOUT: dict[str, Any] = {"alignment": ALIGNED, "aligned_timeout_ms": 200}
FINISHED_BEFORE = TaskRestore(1, TaskStateSnapshot({}, is_task_deployed_as_finished=True))


@pytest.fixture
def task(tmp_path: Path) -> SlotHarness:
    """`sums/0` with two senders and one output, all of which may be overtaken."""
    return SlotHarness(unaligned_job(), tmp_path)


@pytest.fixture
def stuck(tmp_path: Path) -> SlotHarness:
    """The same, with one buffer in its output that its receiver gives no credit for, and one in its input."""
    task = SlotHarness(unaligned_job(), tmp_path, credits=False)
    task.rows(0)
    task.receive(1, buffer(), run=False)
    return task


def watch_results(task: SlotHarness) -> dict[int, ChannelStateWriteResult]:
    """Keep the result of each checkpoint that begins."""
    found: dict[int, ChannelStateWriteResult] = {}
    writer = task.machine.channel_state
    start = writer.start

    def starting(checkpoint_id: int, options: Any) -> None:
        start(checkpoint_id, options)
        found[checkpoint_id] = writer._results[checkpoint_id]

    writer.start = starting  # type: ignore[method-assign]
    return found


def barriers(task: SlotHarness) -> list[tuple[int, AlignmentType, bool]]:
    """Take the barriers that were sent: checkpoint, alignment, priority."""
    return [
        (word.element.checkpoint_id, word.element.options.alignment, word.priority)
        for word in task.take(SendElement)
        if isinstance(word.element, CheckpointBarrier)
    ]


def state_of(task: SlotHarness) -> OperatorSubtaskState:
    """Take the only ack; give the state of its only operator."""
    (ack,) = task.acknowledged()
    if ack.state is None:
        return EMPTY_SUBTASK_STATE
    (state,) = ack.state.subtask_states.values()
    return state


# --- which checkpoints have in-flight data ----------------------------------------------------------------------------


@pytest.mark.flink("SubtaskCheckpointCoordinatorTest.testInitCheckpoint")
@pytest.mark.parametrize(
    ("settings", "starts"),
    [({}, True), (TIMEOUT, True), ({"alignment": ALIGNED}, False), ({"alignment": ALIGNED, "kind": SUSPEND}, False)],
)
def test_only_checkpoints_that_may_overtake_begin_to_write_inputs(
    task: SlotHarness, settings: dict[str, Any], starts: bool
) -> None:
    task.barrier(1, 0, 1, **settings)
    assert task.requests[:1] == ["CheckpointStartRequest"] * starts


@pytest.mark.flink("SubtaskCheckpointCoordinatorTest.testSkipChannelStateForSavepoints")
def test_a_savepoint_has_no_in_flight_data(stuck: SlotHarness) -> None:
    stuck.barrier(1, 0, 1, alignment=ALIGNED, kind=SUSPEND)
    stuck.give_credits(2)
    stuck.run()
    assert stuck.requests == []
    stuck.write(1)
    state = state_of(stuck)
    assert (state.input_channel_state, state.result_subpartition_state) == ((), ())
    assert state.managed_keyed_state


def test_the_first_unaligned_barrier_takes_the_state_and_what_is_queued_on_both_sides(stuck: SlotHarness) -> None:
    stuck.receive_barrier(1, 0)
    stuck.run()
    assert barriers(stuck) == [(1, UNALIGNED, True)]
    stuck.receive(1, buffer([{"k": "late", "n": 1}]), run=False)
    stuck.write(1)
    assert stuck.acknowledged() == []
    stuck.receive_barrier(1, 1)
    stuck.run()
    assert stuck.acknowledged() == []
    stuck.write_channel_state()
    found = stuck.in_flight(state_of(stuck))
    (input_1,), (output,) = found["in"], found["out"]
    assert [element.batch.num_rows for element in input_1 if isinstance(element, Buffer)] == [1, 1]
    assert [element.batch["rows"].to_pylist() for element in output if isinstance(element, Buffer)] == [[1]]
    stuck.give_credits(5)
    stuck.run()
    assert [type(element) for element in stuck.sent()] == [Buffer] * 3


@pytest.mark.flink("SubtaskCheckpointCoordinatorTest.testForceAlignedCheckpointResultingInPriorityEvents")
def test_behind_a_task_that_was_forced_to_align_barriers_overtake_again(stuck: SlotHarness) -> None:
    stuck.give_credits(1)
    stuck.run()
    stuck.sent()
    assert stuck.machine.outputs.partitions[0].subpartitions[0].queue  # the second buffer has no credit
    stuck.receive_barrier(1, 0, alignment=FORCED_ALIGNED)
    stuck.run()
    assert stuck.blocked == [0]
    assert barriers(stuck) == []
    stuck.receive_barrier(1, 1, alignment=FORCED_ALIGNED)
    stuck.run()
    assert barriers(stuck) == [(1, UNALIGNED, True)]
    stuck.write_all(1)
    found = stuck.in_flight(state_of(stuck))
    assert found["in"] == []
    ((output,),) = found["out"]
    assert isinstance(output, Buffer)


@pytest.mark.flink("SubtaskCheckpointCoordinatorTest.testTimeoutableAlignedBarrierNotPriorityAndChannelStateResult")
def test_a_barrier_that_may_time_out_waits_its_turn_but_prepares_for_in_flight_data(task: SlotHarness) -> None:
    results = watch_results(task)
    task.barrier(1, 0, 1, **TIMEOUT)
    assert barriers(task) == [(1, ALIGNED, False)]
    assert "WriteOutputFutureRequest" in task.requests
    task.write(1)
    assert [ack.checkpoint_id for ack in task.acknowledged()] == [1]
    assert results[1].done
    assert results[1].error is None


def test_when_the_output_s_time_is_up_the_waiting_barrier_overtakes(stuck: SlotHarness) -> None:
    stuck.run()
    stuck.receive_barrier(1, 0, 1, **TIMEOUT)
    assert barriers(stuck) == []
    stuck.give_credits(1)
    stuck.run()
    (timer,) = [word for word in stuck.take(ScheduleTimer) if word.timer == OUTPUT_ALIGNMENT_TIMER]
    assert timer.due_ms == stuck.at + 200
    stuck.write(1)
    assert stuck.acknowledged() == []
    assert barriers(stuck) == []
    stuck.at = timer.due_ms
    stuck.give(TimerFired(timer=OUTPUT_ALIGNMENT_TIMER))
    assert barriers(stuck) == [(1, UNALIGNED, True)]
    stuck.write_channel_state()
    found = stuck.in_flight(state_of(stuck))
    assert [type(element) for channel in found["out"] for element in channel] == [Buffer]
    assert found["in"] == []


def test_when_the_inputs_time_is_up_the_checkpoint_begins_unaligned(task: SlotHarness) -> None:
    task.barrier(1, 0, **TIMEOUT)
    assert task.blocked == [0]
    began_ms = task.at
    (timer,) = [word for word in task.take(ScheduleTimer) if word.timer == ALIGNMENT_TIMEOUT]
    assert timer.due_ms in (began_ms + 200, began_ms + 201)
    task.at = timer.due_ms
    task.receive(1, buffer(), run=False)
    task.give(TimerFired(timer=ALIGNMENT_TIMEOUT))
    assert task.blocked == [0]
    assert barriers(task) == [(1, UNALIGNED, True)]
    task.barrier(1, 1, at=began_ms, **TIMEOUT)
    assert task.blocked == []
    task.write_all(1)
    assert len(task.in_flight(state_of(task))["in"]) == 1


# --- the order of things ----------------------------------------------------------------------------------------------


def test_all_steps_of_a_checkpoint_come_in_order(stuck: SlotHarness) -> None:
    calls: list[str] = []
    machine, (link,) = stuck.machine, stuck.machine.chain.links
    broadcast = machine.outputs.broadcast
    link.operator.prepare_snapshot_pre_barrier = lambda _: calls.append("prepare")  # type: ignore[method-assign]
    machine.outputs.broadcast = lambda element: (calls.append("barrier"), broadcast(element))  # type: ignore[method-assign, func-returns-value]
    link.operator.snapshot_state = lambda _: calls.append("snapshot")  # type: ignore[method-assign]
    stuck.receive_barrier(1, 0, 1)
    commands = stuck.give(ProcessInput())
    assert calls == ["prepare", "barrier", "snapshot"]
    said = [
        type(word.request).__name__ if isinstance(word, SubmitChannelState) else type(word).__name__
        for word in commands
        if not isinstance(word, Note)
    ]
    assert said == [
        "CheckpointStartRequest",
        "WriteInputRequest",
        "WriteOutputRequest",
        "SendElement",
        "CompleteOutputRequest",
        "WriteSnapshot",
    ]
    assert [word for word in stuck.requests if word == "CompleteInputRequest"] == []
    stuck.run()
    assert stuck.requests[-1] == "CompleteInputRequest"


def test_a_barrier_that_may_time_out_gets_its_timer_between_the_barrier_and_the_snapshot(stuck: SlotHarness) -> None:
    stuck.give_credits(2)
    stuck.run()
    stuck.receive_barrier(1, 0, 1, **TIMEOUT)
    commands: list[Any] = []
    while stuck.machine.available:
        commands += stuck.give(ProcessInput())
    kinds = [
        type(word)
        for word in commands
        if isinstance(word, SendElement | WriteSnapshot)
        or (isinstance(word, ScheduleTimer) and word.timer == OUTPUT_ALIGNMENT_TIMER)
    ]
    assert kinds == [SendElement, ScheduleTimer, WriteSnapshot]


def longer_chain() -> StreamEnvironment:
    """Return `rows` -hash-> `sums` -> `doubled` in one task -rebalance-> `out`."""
    env = StreamEnvironment(
        "chain",
        parallelism=1,
        max_parallelism=16,
        checkpoint=CheckpointConfig(interval_ms=1_000, unaligned=True, **ALONE),
    )
    rows = env.from_source(CollectionSource([], SCHEMA), uid="rows").set_parallelism(2)
    sums = rows.key_by("k").aggregate(total=sum_("n")).uid("sums")
    doubled = sums.map(lambda row: {"total": 2 * row["total"]}, pa.schema([("total", pa.int64())])).uid("doubled")
    doubled.rebalance().sink_to(CollectSink("out"), uid="out")
    return env


def test_data_of_the_inputs_is_state_of_the_head_and_data_of_the_outputs_of_the_tail(tmp_path: Path) -> None:
    env = longer_chain()
    name = next(task.task for task in env.execution_graph().tasks if len(task.vertex.operators) == 2)
    task = SlotHarness(env, tmp_path, name, credits=False)
    task.rows(0)
    task.receive(1, buffer(), run=False)
    task.barrier(1, 0, 1)
    task.write_all(1)
    (ack,) = task.acknowledged()
    assert ack.state is not None
    head, tail = (link.operator_id for link in task.machine.chain.links)
    at_head, at_tail = ack.state.subtask_states[head], ack.state.subtask_states[tail]
    assert (len(at_head.input_channel_state), len(at_head.result_subpartition_state)) == (1, 0)
    assert (len(at_tail.input_channel_state), len(at_tail.result_subpartition_state)) == (0, 1)


def test_the_ack_measures_start_delay_alignment_and_both_parts(stuck: SlotHarness) -> None:
    stuck.receive_barrier(1, 0, at=stuck.at - 30)
    stuck.give(ProcessInput())
    stuck.at += 20
    stuck.give_credits(3)
    stuck.run()
    stuck.receive(1, buffer())
    size_bytes = 2 * buffer().size_bytes
    stuck.barrier(1, 1, at=stuck.at - 50)
    stuck.at += 5
    stuck.write_all(1)
    (ack,) = stuck.acknowledged()
    metrics = ack.metrics
    assert (metrics.start_delay_ms, metrics.alignment_ms, metrics.async_ms) == (30, 20, 25)
    assert metrics.unaligned
    assert metrics.bytes_processed_during_alignment == size_bytes
    (file,) = {handle.delegate.path for handle in _channel_handles(ack.state)}
    in_file = sum(handle.state_size for handle in _channel_handles(ack.state))
    assert metrics.bytes_persisted_during_alignment == in_file
    assert 0 < in_file <= Path(file).stat().st_size
    keyed = sum(path.stat().st_size for path in stuck.directory.rglob("*keyed*"))
    assert metrics.bytes_persisted == metrics.total_bytes_persisted == keyed + in_file


def _channel_handles(state: TaskStateSnapshot | None) -> list[Any]:
    assert state is not None
    return [
        handle
        for part in state.subtask_states.values()
        for handle in (*part.input_channel_state, *part.result_subpartition_state)
    ]


def test_a_checkpoint_that_overtook_nothing_is_not_called_unaligned(task: SlotHarness) -> None:
    task.barrier(1, 0, 1)
    task.write_all(1)
    (ack,) = task.acknowledged()
    assert (ack.metrics.unaligned, ack.metrics.bytes_persisted_during_alignment) == (False, 0)


# --- a part that fails ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("other_is_written", [False, True])
@pytest.mark.parametrize("failing", ["state", "channel state"])
def test_when_one_part_fails_the_other_is_given_up_and_no_file_is_left(
    stuck: SlotHarness, failing: str, other_is_written: bool
) -> None:
    results = watch_results(stuck)
    stuck.barrier(1, 0, 1)
    assert len(stuck.channel_files) == 1
    if failing == "state":
        if other_is_written:
            stuck.write_channel_state()
            assert stuck.disk
        stuck.give(SnapshotFailed(checkpoint_id=1, error="disk full"))
    else:
        if other_is_written:
            stuck.write(1)
            assert stuck.disk
        stuck.write_channel_state(error="disk full")
    assert [(word.checkpoint_id, word.reason.name) for word in stuck.emitted if hasattr(word, "reason")] == [
        (1, "CHECKPOINT_ASYNC_EXCEPTION")
    ]
    (decline,) = [word for word in stuck.emitted if hasattr(word, "reason")]
    assert "disk full" in decline.detail
    stuck.assert_nothing_leaks()
    assert results[1].done
    assert stuck.acknowledged() == []
    assert stuck.machine.state is ExecutionState.RUNNING
    stuck.give_credits(5)
    stuck.run()
    stuck.barrier(2, 0, 1)
    stuck.write_all(2)
    assert [ack.checkpoint_id for ack in stuck.acknowledged()] == [2]


def test_an_operator_that_fails_in_its_snapshot_gives_the_in_flight_data_up(stuck: SlotHarness) -> None:
    def fail(_: int) -> None:
        raise ValueError("no")

    stuck.machine.chain.links[0].operator.snapshot_state = fail  # type: ignore[method-assign]
    stuck.barrier(1, 0, 1)
    assert "ValueError: no" in stuck.machine.error
    assert "CheckpointAbortRequest" in stuck.requests
    stuck.assert_nothing_leaks()


# --- abort notices ----------------------------------------------------------------------------------------------------


@pytest.mark.flink("SubtaskCheckpointCoordinatorTest.testChannelStateWriteResultLeakAndNotFailAfterCheckpointAborted")
@pytest.mark.parametrize("settings", [{}, TIMEOUT])
def test_the_result_of_a_checkpoint_that_was_aborted_before_is_removed_and_fails(
    stuck: SlotHarness, settings: dict[str, Any]
) -> None:
    results = watch_results(stuck)
    stuck.give_credits(2)
    stuck.run()
    stuck.abort(1)
    stuck.barrier(1, 0, 1, **settings)
    assert results[1].done
    assert results[1].error is not None
    stuck.assert_nothing_leaks()
    assert [element for element in stuck.sent() if not isinstance(element, Buffer)] == [CancelCheckpointMarker(1)]
    assert stuck.triggered() == []
    assert stuck.acknowledged() == []


@pytest.mark.flink("SubtaskCheckpointCoordinatorTest.testAbortOldAndStartNewCheckpoint")
def test_aborting_one_checkpoint_ends_its_result_and_the_next_completes(stuck: SlotHarness) -> None:
    results = watch_results(stuck)
    stuck.barrier(42, 0)
    assert not results[42].done
    stuck.abort(42)
    assert results[42].done
    assert results[42].error is not None
    stuck.assert_nothing_leaks()
    stuck.barrier(43, 0, 1)
    stuck.write_all(43)
    assert [ack.checkpoint_id for ack in stuck.acknowledged()] == [43]
    assert results[43].error is None


@pytest.mark.flink("SubtaskCheckpointCoordinatorTest.testNotifyCheckpointAbortedDuringAsyncPhase")
@pytest.mark.parametrize(
    "written", [[], ["state"], ["channel state"], ["barrier missing"], ["state", "barrier missing"]]
)
def test_an_abort_while_parts_are_written_leaves_nothing(stuck: SlotHarness, written: list[str]) -> None:
    results = watch_results(stuck)
    stuck.barrier(1, 0, *(() if "barrier missing" in written else (1,)))
    if "state" in written:
        stuck.write(1)
    if "channel state" in written:
        stuck.write_channel_state()
    stuck.abort(1)
    assert [word.checkpoint_id for word in stuck.take(ReportCheckpointMetrics)] == [1]
    stuck.assert_nothing_leaks()
    assert results[1].done
    assert stuck.acknowledged() == []
    assert stuck.declined() == []


def test_an_abort_after_the_ack_leaves_the_files_to_the_coordinator(stuck: SlotHarness) -> None:
    stuck.barrier(1, 0, 1)
    stuck.write_all(1)
    (ack,) = stuck.acknowledged()
    assert ack.state is not None
    stuck.abort(1)
    stuck.clean_up()
    assert stuck.disk == sorted({Path(file).name for file in ack.state.files()})
    stuck.storage.discard(ack.state.files())
    stuck.assert_nothing_leaks()


@pytest.mark.parametrize("written", [[], ["state"], ["channel state"]])
def test_a_task_that_is_cancelled_leaves_nothing(stuck: SlotHarness, written: list[str]) -> None:
    stuck.barrier(1, 0, 1)
    if "state" in written:
        stuck.write(1)
    if "channel state" in written:
        stuck.write_channel_state()
    stuck.to_task(CancelTask)
    assert stuck.machine.state is ExecutionState.CANCELED
    stuck.assert_nothing_leaks()


def test_a_cancel_marker_stops_the_writing_of_a_checkpoint_that_has_begun(stuck: SlotHarness) -> None:
    stuck.barrier(1, 0)
    stuck.give_credits(5)
    stuck.run()
    stuck.cancel_marker(1, 1)
    assert stuck.declined() == [(1, "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER")]
    stuck.assert_nothing_leaks()


def test_a_cancel_marker_of_a_newer_checkpoint_ends_the_one_that_has_begun(stuck: SlotHarness) -> None:
    stuck.barrier(1, 0)
    stuck.give_credits(5)
    stuck.run()
    stuck.cancel_marker(2, 1)
    assert sorted(stuck.declined()) == [
        (1, "CHECKPOINT_DECLINED_SUBSUMED"),
        (2, "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER"),
    ]
    stuck.assert_nothing_leaks()


@pytest.mark.parametrize("end", ["cancel", "fail"])
def test_a_task_that_leaves_while_a_barrier_waits_in_its_output_leaves_nothing(stuck: SlotHarness, end: str) -> None:
    stuck.give_credits(1)
    stuck.run()
    stuck.barrier(1, 0, 1, **TIMEOUT)
    (subpartition,) = stuck.machine.outputs.subpartitions()
    assert subpartition._in_flight is not None
    if end == "cancel":
        stuck.to_task(CancelTask)
    else:
        stuck.give(EffectsFailed(operator_id="o", checkpoint_id=1, error="disk full"))
    assert stuck.machine.state is (ExecutionState.CANCELED if end == "cancel" else ExecutionState.FAILED)
    stuck.assert_nothing_leaks()


def test_a_cancel_marker_gives_up_what_a_waiting_output_barrier_would_overtake(stuck: SlotHarness) -> None:
    stuck.give_credits(1)
    stuck.run()
    stuck.barrier(1, 0, **TIMEOUT)
    stuck.cancel_marker(1, 1)
    assert stuck.declined() == [(1, "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER")]
    stuck.assert_nothing_leaks()
    stuck.give_credits(1)
    stuck.rows(0)
    stuck.barrier(2, 0, 1, **TIMEOUT)
    assert stuck.machine.outputs.partitions[0].subpartitions[0]._in_flight is not None
    stuck.abort(2)
    stuck.give_credits(1)
    stuck.assert_nothing_leaks()


# --- completion -------------------------------------------------------------------------------------------------------


@pytest.mark.flink("SubtaskCheckpointCoordinatorTest.testNotifyCheckpointSubsumed")
def test_the_keyed_backend_hears_which_checkpoint_was_replaced(task: SlotHarness) -> None:
    backend = task.machine.chain.links[0].keyed_state
    told: list[int] = []
    backend.notify_checkpoint_subsumed = told.append  # type: ignore[method-assign]
    task.complete(41)
    assert told == []
    task.to_task(NotifyCheckpointComplete, checkpoint_id=43, timestamp_ms=0, last_subsumed_id=42)
    assert told == [42]
    task.to_task(CancelTask)
    task.to_task(NotifyCheckpointComplete, checkpoint_id=44, timestamp_ms=0, last_subsumed_id=43)
    assert told == [42]


# --- inputs that have ended -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(
            {"alignment": UNALIGNED},
            marks=pytest.mark.flink(
                "StreamTaskFinalCheckpointsTest.testTriggeringUnalignedCheckpointWithFinishedChannels"
            ),
        ),
        pytest.param(
            {"alignment": ALIGNED, "aligned_timeout_ms": 10},
            marks=pytest.mark.flink(
                "StreamTaskFinalCheckpointsTest.testTriggeringAlignedWithTimeoutCheckpointWithFinishedChannels"
            ),
        ),
    ],
)
def test_a_task_is_triggered_itself_with_all_some_or_no_inputs_left(tmp_path: Path, settings: dict[str, Any]) -> None:
    task = SlotHarness(unaligned_job(3), tmp_path)
    for checkpoint_id, ended in ((2, ()), (4, (0,)), (6, (1, 2))):
        task.end(*ended)
        task.trigger(checkpoint_id, **task.options(**settings))
        task.run()
        task.write_all(checkpoint_id)
        assert [ack.checkpoint_id for ack in task.acknowledged()] == [checkpoint_id]
        assert task.blocked == []
    sent = task.sent()
    assert [element.checkpoint_id for element in sent if isinstance(element, CheckpointBarrier)] == [2, 4, 6]
    assert [element for element in sent if not isinstance(element, CheckpointBarrier)] == [EndOfData(True)]
    assert task.declined() == []


@pytest.mark.flink("StreamTaskFinalCheckpointsTest.testWaitingForUnalignedChannelStatesIfFinishedOnRestore")
def test_a_task_that_had_finished_waits_for_all_unaligned_barriers(tmp_path: Path) -> None:
    task = SlotHarness(unaligned_job(3), tmp_path, restore=FINISHED_BEFORE)
    task.barrier(2, 0)
    task.write(2)
    assert task.acknowledged() == []
    task.barrier(2, 1, 2)
    task.write_channel_state()
    assert [ack.checkpoint_id for ack in task.acknowledged()] == [2]
    assert task.declined() == []


def test_marks_in_flight_to_a_task_that_had_finished_are_nobody_s_state(tmp_path: Path) -> None:
    task = SlotHarness(unaligned_job(2), tmp_path, restore=FINISHED_BEFORE)
    task.receive(1, Watermark(MAX_WATERMARK_MS), run=False)
    task.receive_barrier(2, 0, 1)
    task.run()
    task.write_all(2)
    (ack,) = task.acknowledged()
    assert ack.state == TaskStateSnapshot({}, is_task_deployed_as_finished=True)

"""Recovery of in-flight data in one task: first what was recovered, then what is sent, and no checkpoint between."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from kit.protocol.commands import ReadState
from kit.protocol.elements import (
    Buffer,
    CheckpointBarrier,
    Element,
    EndOfChannelState,
    SubtaskConnectionDescriptor,
)
from kit.protocol.events import ProcessInput, StateReadFailed
from kit.protocol.messages import CancelTask, DeployTask, InitializationMetrics, TaskStateChanged
from kit.protocol.tasks import ExecutionState, TaskRestore
from kit.protocol.words import Word
from kit.state.operator_state import OperatorSubtaskState, TaskStateSnapshot
from kit.state.rescale_mappings import (
    GateOrPartitionRescalingDescriptor,
    InflightDataRescalingDescriptor,
    MappingType,
    RescaleMappings,
)
from kit.state.restored_state import RestoredSubtaskState
from tests.task.harness import buffer
from tests.task.slot_harness import SlotHarness, unaligned_job

NOT_READY = "CHECKPOINT_DECLINED_TASK_NOT_READY"
SAME_PLACES = InflightDataRescalingDescriptor(
    (GateOrPartitionRescalingDescriptor((0,), RescaleMappings.identity(2, 2), frozenset(), MappingType.RESCALING),)
)
"""A rescaling in which each channel took over the one of its number."""


def row(key: str) -> Buffer:
    return buffer([{"k": key, "n": 1}])


@pytest.fixture
def checkpoint(tmp_path: Path) -> TaskStateSnapshot:
    """A checkpoint with a sum of "out", which lies in the output, and two buffers in input 0 and one in input 1."""
    task = SlotHarness(unaligned_job(), tmp_path, credits=False)
    task.receive(0, row("out"))
    for channel, key in ((0, "first"), (0, "second"), (1, "third")):
        task.receive(channel, row(key), run=False)
    task.barrier(1, 0, 1)
    task.write_all(1)
    (ack,) = task.acknowledged()
    assert ack.state is not None
    return ack.state


def restored(
    tmp_path: Path, checkpoint: TaskStateSnapshot, *, credits: int = 10, read_ms: int = 0, **descriptors: Any
) -> SlotHarness:
    """A new task that was given the checkpoint's state, which took so long, and has not run yet."""
    task = SlotHarness(unaligned_job(), tmp_path, deploy=False)
    states = {
        operator_id: RestoredSubtaskState(
            **{field.name: getattr(state, field.name) for field in fields(OperatorSubtaskState)}, **descriptors
        )
        for operator_id, state in checkpoint.subtask_states.items()
    }
    task.to_task(DeployTask, restore=TaskRestore(1, TaskStateSnapshot(states)), recovers_channels=True)
    task.give_credits(credits)
    task.at += read_ms
    task.carry_out(ReadState)
    return task


def keys(elements: list[Element]) -> list[str]:
    return [key for element in elements if isinstance(element, Buffer) for key in element.batch["k"].to_pylist()]


def end_of_recovery(task: SlotHarness, *channels: int) -> None:
    for channel in channels:
        task.receive(channel, EndOfChannelState())


def test_recovered_output_is_sent_at_once_and_its_end_after_it(tmp_path: Path, checkpoint: TaskStateSnapshot) -> None:
    task = restored(tmp_path, checkpoint)
    sent = task.sent()
    assert keys(sent) == ["out"]
    assert [type(element) for element in sent] == [SubtaskConnectionDescriptor, Buffer, EndOfChannelState]


def test_recovered_input_is_processed_before_the_task_runs(tmp_path: Path, checkpoint: TaskStateSnapshot) -> None:
    task = restored(tmp_path, checkpoint)
    task.sent()
    task.receive(0, row("live"), run=False)
    assert task.states() == []
    assert task.machine.state is ExecutionState.INITIALIZING
    turns = 0
    while task.machine.state is ExecutionState.INITIALIZING:
        assert task.machine.available
        task.give(ProcessInput())
        turns += 1
    assert task.states() == [ExecutionState.RUNNING]
    assert turns == 6  # each buffer behind its connection
    assert keys(task.sent()) == ["first", "second", "third"]
    assert task.credits_back() == [0, 1]  # those of the deployment: what was recovered took none


@pytest.mark.flink("StreamTaskTest.testSubTaskInitializationMetrics")
def test_a_task_reports_what_its_restore_read_and_how_long_each_part_took(
    tmp_path: Path, checkpoint: TaskStateSnapshot
) -> None:
    task = restored(tmp_path, checkpoint, read_ms=30)
    assert task.take(TaskStateChanged) == []
    task.at += 12
    task.run()
    (report,) = task.take(TaskStateChanged)
    assert report.state is ExecutionState.RUNNING
    assert report.initialization == InitializationMetrics(
        deployed_at_ms=1_000,
        duration_ms=42,
        read_state_ms=30,
        gate_restore_ms=12,
        restored_bytes=sum(state.state_size for state in checkpoint.subtask_states.values()),
    )
    task.to_task(CancelTask)
    assert [word.initialization for word in task.take(TaskStateChanged)] == [None, None]


@pytest.mark.flink("StreamTaskTest.testSubTaskInitializationMetrics")
@pytest.mark.parametrize(
    ("end", "state"),
    [
        (StateReadFailed(error="gone"), ExecutionState.FAILED),
        (CancelTask(task="sums/0", attempt=1), ExecutionState.CANCELING),
    ],
)
def test_a_task_that_never_runs_reports_how_long_it_tried(tmp_path: Path, end: Word, state: ExecutionState) -> None:
    task = SlotHarness(unaligned_job(), tmp_path, restore=TaskRestore(1, TaskStateSnapshot({})))
    task.at += 7
    task.give(end)
    report = task.take(TaskStateChanged)[0]
    assert report.state is state
    assert report.initialization == InitializationMetrics(deployed_at_ms=1_000, duration_ms=7, completed=False)


def test_a_task_with_nothing_to_restore_runs_at_once(tmp_path: Path) -> None:
    (report,) = SlotHarness(unaligned_job(), tmp_path).take(TaskStateChanged)
    assert report.initialization == InitializationMetrics(
        deployed_at_ms=1_000, duration_ms=0, read_state_ms=0, gate_restore_ms=0
    )


def test_recovered_output_without_credits_holds_the_inputs_back(tmp_path: Path, checkpoint: TaskStateSnapshot) -> None:
    task = restored(tmp_path, checkpoint, credits=0)
    assert keys(task.sent()) == []
    assert not task.machine.available
    task.give_credits(10)
    task.run()
    assert keys(task.sent()) == ["out", "first", "second", "third"]
    assert task.machine.state is ExecutionState.RUNNING


def test_every_output_is_told_the_end_of_recovery_also_without_anything_recovered(tmp_path: Path) -> None:
    task = SlotHarness(unaligned_job(), tmp_path, deploy=False)
    task.to_task(DeployTask, restore=None, recovers_channels=True)
    assert task.sent() == [EndOfChannelState()]
    other = SlotHarness(unaligned_job(), tmp_path)
    assert other.sent() == []


def test_live_data_waits_until_all_senders_have_ended_their_recovery(
    tmp_path: Path, checkpoint: TaskStateSnapshot
) -> None:
    task = restored(tmp_path, checkpoint)
    task.run()
    task.sent()
    end_of_recovery(task, 0)
    task.receive(0, row("live 0"))
    assert keys(task.sent()) == []
    task.receive(1, SubtaskConnectionDescriptor(0, 1), row("sender's recovered"))
    assert keys(task.sent()) == ["sender's recovered"]
    end_of_recovery(task, 1)
    task.run()
    assert keys(task.sent()) == ["live 0"]


def test_a_checkpoint_is_declined_while_the_task_initializes(tmp_path: Path, checkpoint: TaskStateSnapshot) -> None:
    task = restored(tmp_path, checkpoint)
    assert task.machine.state is ExecutionState.INITIALIZING
    task.trigger(2, **task.options())
    assert task.declined() == [(2, NOT_READY)]
    task.receive_barrier(3, 0, 1)
    assert task.triggered() == []
    task.run()
    assert task.triggered() == [3]


def test_without_rescaling_a_checkpoint_may_hold_recovered_data_again(
    tmp_path: Path, checkpoint: TaskStateSnapshot
) -> None:
    task = restored(tmp_path, checkpoint)
    task.run()
    task.receive(1, SubtaskConnectionDescriptor(0, 1), row("recovered twice"), run=False)
    task.receive_barrier(2, 0, 1)
    task.run()
    task.write_all(2)
    (ack,) = task.acknowledged()
    assert ack.state is not None
    (state,) = ack.state.subtask_states.values()
    ((held,),) = task.in_flight(state)["in"]
    assert keys([held]) == ["recovered twice"]


def test_a_checkpoint_while_rescaled_data_is_recovered_is_declined_and_the_next_one_taken(
    tmp_path: Path, checkpoint: TaskStateSnapshot
) -> None:
    task = restored(tmp_path, checkpoint, input_rescale_descriptor=SAME_PLACES)
    task.run()
    assert task.machine.state is ExecutionState.RUNNING
    assert task.machine.input.is_rescaling
    task.barrier(2, 0, 1)
    assert task.declined() == [(2, NOT_READY)]
    assert task.triggered() == []
    assert task.machine.state is ExecutionState.RUNNING
    assert task.machine.channel_state._results == {}
    end_of_recovery(task, 0, 1)
    assert not task.machine.input.is_rescaling
    task.sent()
    task.barrier(3, 0, 1)
    assert [element.checkpoint_id for element in task.sent() if isinstance(element, CheckpointBarrier)] == [3]
    task.write_all(3)
    assert [ack.checkpoint_id for ack in task.acknowledged()] == [3]

"""The coordinator's handling of state: nothing to restore, and state that is no longer needed."""

from __future__ import annotations

from dataclasses import fields

import pytest

from kit.core.protocol import commands
from kit.core.state.handles import (
    FileStateHandle,
    InputChannelInfo,
    InputChannelStateHandle,
    ResultSubpartitionInfo,
    ResultSubpartitionStateHandle,
)
from kit.core.state.operator_state import OperatorSubtaskState, TaskStateSnapshot
from kit.machines.restore.prioritized import NOT_RESTORED
from tests.machines.coordinator.harness import Harness, keyed_state, operator_id

ONE_FILE = FileStateHandle("channels", 40)
CHANNELS = OperatorSubtaskState(
    input_channel_state=tuple(
        InputChannelStateHandle(0, InputChannelInfo(0, channel), (4,), 10, ONE_FILE) for channel in (1, 2)
    ),
    result_subpartition_state=tuple(
        ResultSubpartitionStateHandle(0, ResultSubpartitionInfo(0, channel), (4,), 10, ONE_FILE) for channel in (4, 3)
    ),
)


@pytest.mark.flink("CheckpointStateRestoreTest.testNoCheckpointAvailable")
def test_without_a_checkpoint_nothing_is_restored() -> None:
    job = Harness(hooks=["mail"])
    assert job.restore() is None
    assert job.take(commands.RestoreMasterHooks) == []
    assert len(job.take(commands.ResetMasterHooks)) == 1
    assert job.coordinator.statistics.restored is None
    assert not NOT_RESTORED.is_restored


def discards_of_a_stray_ack(snapshot: TaskStateSnapshot) -> list[commands.DiscardState]:
    """Return the coordinator's discards for this snapshot when it arrives from an unknown attempt."""
    job = Harness()
    job.ack(job.trigger(), "source/0", snapshot, attempt=7)
    return job.take(commands.DiscardState)


@pytest.mark.flink("OperatorSubtaskStateTest.testDiscardDuplicatedDelegatesOnce")
def test_a_file_that_several_handles_share_is_deleted_once() -> None:
    [discard] = discards_of_a_stray_ack(TaskStateSnapshot({operator_id("source"): CHANNELS}))
    assert discard.paths == ("channels",)


@pytest.mark.flink("TaskStateSnapshotTest.discardState")
def test_state_that_is_not_wanted_is_deleted_for_every_operator_of_the_task() -> None:
    states = {operator_id("source"): keyed_state("first"), operator_id("source", 1): keyed_state("second")}
    [discard] = discards_of_a_stray_ack(TaskStateSnapshot(states))
    assert discard.paths == ("first", "second")


@pytest.mark.flink("OperatorSubtaskStateTest.testToBuilderCorrectness")
def test_a_subtask_state_is_all_its_parts() -> None:
    state = OperatorSubtaskState(*(getattr(CHANNELS, field.name) for field in fields(CHANNELS)))
    assert state == CHANNELS
    full = [field for field in fields(CHANNELS) if getattr(CHANNELS, field.name)]
    assert [field.name for field in full] == ["input_channel_state", "result_subpartition_state"]
    for field in full:
        parts = {other.name: getattr(CHANNELS, other.name) for other in fields(CHANNELS) if other != field}
        assert OperatorSubtaskState(**parts) != CHANNELS

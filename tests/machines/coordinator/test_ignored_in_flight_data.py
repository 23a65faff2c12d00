"""A setting names a checkpoint whose in-flight data is left out when the job goes back to it; all else is restored."""

from __future__ import annotations

import pytest

from kit.core.metadata import CheckpointMetadata
from kit.core.protocol.properties import CheckpointProperties, RetentionPolicy
from kit.core.protocol.tasks import TaskRestore
from kit.core.state.handles import (
    ByteStreamStateHandle,
    FileStateHandle,
    InputChannelInfo,
    InputChannelStateHandle,
    KeyGroupRange,
    KeyGroupsStateHandle,
    OperatorStateMode,
    OperatorStreamStateHandle,
    ResultSubpartitionInfo,
    ResultSubpartitionStateHandle,
    StateMetaInfo,
)
from kit.core.state.operator_state import OperatorState, OperatorSubtaskState, TaskStateSnapshot
from kit.machines.job.task_restores import restore_job
from tests.machines.coordinator.harness import Harness, graph, operator_id

FILE = FileStateHandle("file", 100)
KEYED = KeyGroupsStateHandle(KeyGroupRange(0, 63), tuple(range(64)), FILE)
LISTS = OperatorStreamStateHandle({"list": StateMetaInfo((0, 10), OperatorStateMode.SPLIT_DISTRIBUTE)}, FILE)
FULL = OperatorSubtaskState(
    managed_operator_state=(LISTS,),
    raw_operator_state=(LISTS,),
    managed_keyed_state=(KEYED,),
    raw_keyed_state=(KEYED,),
    input_channel_state=(InputChannelStateHandle(0, InputChannelInfo(0, 0), (0,), 10, FILE),),
    result_subpartition_state=(ResultSubpartitionStateHandle(0, ResultSubpartitionInfo(0, 0), (0,), 10, FILE),),
)


def restored(job: Harness) -> dict[str, TaskRestore | None]:
    """Return what the tasks get of the latest checkpoint."""
    latest = job.coordinator.restore.latest()
    assert latest is not None
    found = restore_job(job.graph, latest.operator_states, latest.checkpoint_id, allow_non_restored_state=False)
    return dict(found.restores)


def state_of(restore: TaskRestore | None) -> OperatorSubtaskState:
    assert restore is not None
    [state] = restore.state.subtask_states.values()
    return state


@pytest.mark.flink("CheckpointCoordinatorRestoringTest.testRestoreLatestCheckpointedStateWithoutInFlightData")
def test_only_the_in_flight_data_of_that_checkpoint_is_left_out() -> None:
    job = Harness(graph({"source": 1, "sums": 1}, checkpoint_id_of_ignored_in_flight_data=1))
    for ignored in (True, False):
        checkpoint_id = job.trigger()
        for task in ("source/0", "sums/0"):
            job.ack(checkpoint_id, task, FULL)
        job.complete(checkpoint_id)
        for task in ("source/0", "sums/0"):
            state = state_of(restored(job)[task])
            assert bool(state.input_channel_state or state.result_subpartition_state) is not ignored
            assert len(state.managed_keyed_state) == len(state.raw_keyed_state) == 1
            assert len(state.managed_operator_state) == len(state.raw_operator_state) == 1


def test_the_checkpoint_itself_and_its_operator_coordinators_keep_everything() -> None:
    job = Harness(graph({"source": 1, "sums": 1}, checkpoint_id_of_ignored_in_flight_data=1), coordinators=["source"])
    checkpoint_id = job.trigger()
    job.ack(checkpoint_id, "sums/0", FULL)
    job.complete(checkpoint_id)
    latest = job.coordinator.restore.latest()
    assert latest is not None
    coordinator = latest.operator_states[operator_id("source")].coordinator_state
    assert coordinator == ByteStreamStateHandle(operator_id("source"), b"coordinator")
    assert job.retained()[0].operator_states[operator_id("sums")].subtask_states[0] == FULL


@pytest.mark.flink("CheckpointCoordinatorRestoringTest.testRestoreFinishedStateWithoutInFlightData")
def test_what_had_finished_is_still_restored_as_finished() -> None:
    job = Harness(graph({"source": 1}, checkpoint_id_of_ignored_in_flight_data=2))
    finished = OperatorState(operator_id("source"), 1, 128, fully_finished=True)
    properties = CheckpointProperties.for_checkpoint(RetentionPolicy.NEVER_RETAIN_AFTER_TERMINATION)
    job.coordinator.restore.add_savepoint(
        CheckpointMetadata(2, (finished,), (), properties), location="old/chk-2", path="old/chk-2/_metadata"
    )
    restore = restored(job)["source/0"]
    assert restore is not None
    assert restore.state == TaskStateSnapshot(is_task_deployed_as_finished=True, is_task_finished=True)

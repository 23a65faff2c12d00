"""The state that each task receives when the job restores a checkpoint, its own or one of another topology."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from kit.core.metadata import CheckpointMetadata, write_metadata
from kit.core.protocol import commands, events
from kit.core.protocol.messages import AcknowledgeCheckpoint, DeployTask, TaskStateChanged
from kit.core.protocol.tasks import ExecutionState, split_task_name
from kit.core.state.handles import (
    FileStateHandle,
    InputChannelInfo,
    InputChannelStateHandle,
    KeyGroupsStateHandle,
    OperatorStateMode,
    OperatorStreamStateHandle,
    ResultSubpartitionInfo,
    ResultSubpartitionStateHandle,
    StateMetaInfo,
)
from kit.core.state.key_groups import key_group_range_for_operator_index
from kit.core.state.operator_state import OperatorState, OperatorSubtaskState, TaskStateSnapshot
from kit.machines.job.job_master import JobMaster
from kit.machines.job.status import JobStatus
from kit.stream.graph.job_graph import ChainedOperator, JobGraph
from kit.stream.settings.job_settings import NoRestart
from tests.machines.coordinator.harness import JOB, graph
from tests.machines.job.harness import COVERED, CoordinatedSpec

GROUPS = 16
SPEC = CoordinatedSpec(name="plain", has_coordinator=False)
Chains = Mapping[str, tuple[int, Sequence[str]]]
"""Each vertex by name: its parallelism and its operators, head first; all in a line."""


def operator(name: str) -> str:
    return name.encode().hex().ljust(32, "0")


def job_of(chains: Chains, *, max_parallelism: int | None = None) -> JobGraph:
    """Return a job of these chains."""
    drawn = graph({name: parallelism for name, (parallelism, _) in chains.items()}).job_graph
    vertices = tuple(
        replace(
            vertex,
            operators=tuple(
                ChainedOperator(operator(name), name, name, SPEC, None if before is None else operator(before))
                for before, name in pairwise([None, *chains[vertex.name][1]])
                if name is not None
            ),
            max_parallelism=max_parallelism or GROUPS,
            max_parallelism_configured=max_parallelism is not None,
        )
        for vertex in drawn.vertices
    )
    return JobGraph(JOB, "job", vertices, replace(drawn.settings, restart=NoRestart()))


def state_of(name: str, subtask: int, parallelism: int) -> OperatorSubtaskState:
    """Every kind of state: keyed and raw keyed with one value a key group, a list, a union and a broadcast list."""
    covered = key_group_range_for_operator_index(GROUPS, parallelism, subtask)
    where = f"{name}-{subtask}"

    def keyed(kind: str) -> tuple[KeyGroupsStateHandle]:
        offsets = tuple(range(len(covered)))
        return (KeyGroupsStateHandle(covered, offsets, FileStateHandle(f"{kind}-{where}", 100)),)

    lists = {
        "list": StateMetaInfo(tuple(range(subtask + 1)), OperatorStateMode.SPLIT_DISTRIBUTE),
        "union": StateMetaInfo((50, 60), OperatorStateMode.UNION),
        "broadcast": StateMetaInfo((70,), OperatorStateMode.BROADCAST),
    }
    raw = {"raw": StateMetaInfo((0, 1), OperatorStateMode.SPLIT_DISTRIBUTE)}
    return OperatorSubtaskState(
        managed_keyed_state=keyed("keyed"),
        raw_keyed_state=keyed("raw-keyed"),
        managed_operator_state=(OperatorStreamStateHandle(lists, FileStateHandle(f"lists-{where}", 100)),),
        raw_operator_state=(OperatorStreamStateHandle(raw, FileStateHandle(f"raw-{where}", 100)),),
    )


def snapshot_of(chains: Chains) -> CheckpointMetadata:
    """Return what a checkpoint of a job of these chains holds."""
    states = tuple(
        OperatorState(
            operator(name), parallelism, GROUPS, {i: state_of(name, i, parallelism) for i in range(parallelism)}
        )
        for parallelism, names in chains.values()
        for name in names
    )
    return CheckpointMetadata(7, states, (), None)


def begin(job: JobGraph, metadata: CheckpointMetadata) -> tuple[JobMaster, list[DeployTask]]:
    """Start a job from a snapshot, and return the deployments of its tasks."""
    master = JobMaster(job)
    master.handle(events.StartJob(restore_path="sp"), 0)
    told = master.handle(
        events.SnapshotResolved(path="sp", location="sp", metadata=write_metadata(metadata), covered_output=COVERED), 0
    )
    master.validate()
    return master, [word for word in told if isinstance(word, DeployTask)]


def restored(told: list[DeployTask]) -> dict[str, dict[int, OperatorSubtaskState]]:
    """Sort what tasks were given by operator and subtask."""
    found: dict[str, dict[int, OperatorSubtaskState]] = defaultdict(dict)
    for word in told:
        assert word.restore is not None
        for operator_id, state in word.restore.state.subtask_states.items():
            found[operator_id][split_task_name(word.task)[1]] = state
    return found


def check(given: Mapping[int, OperatorSubtaskState], name: str, old: int, new: int) -> None:
    """Check that the new subtasks of an operator together have all that the old ones had, each its part."""
    key_groups: dict[str, list[int]] = defaultdict(list)
    entries: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for subtask, state in given.items():
        covered = key_group_range_for_operator_index(GROUPS, new, subtask)
        for handle in (*state.managed_keyed_state, *state.raw_keyed_state):
            assert set(handle.key_group_range) <= set(covered)
            kind = handle.delegate.path.rpartition(f"-{name}-")[0]
            key_groups[kind] += list(handle.key_group_range)
        for handle in (*state.managed_operator_state, *state.raw_operator_state):
            for listed, info in handle.state_name_to_partition_offsets.items():
                entries[listed] += [(handle.delegate.path, offset) for offset in info.offsets]
    assert {kind: sorted(groups) for kind, groups in key_groups.items()} == {
        "keyed": list(range(GROUPS)),
        "raw-keyed": list(range(GROUPS)),
    }
    assert sorted(entries["list"]) == [(f"lists-{name}-{i}", at) for i in range(old) for at in range(i + 1)]
    assert sorted(entries["raw"]) == [(f"raw-{name}-{i}", at) for i in range(old) for at in range(2)]
    everybodys = sorted((f"lists-{name}-{i}", at) for i in range(old) for at in (50, 60))
    assert sorted(entries["union"]) == sorted(everybodys * new)
    assert len(entries["broadcast"]) == new
    most = max(map(len, _by_subtask(given)))
    assert old == new or most <= -(-sum(range(1, old + 1)) // new), "lists are dealt out evenly"


def _by_subtask(given: Mapping[int, OperatorSubtaskState]) -> list[list[int]]:
    return [
        [
            offset
            for handle in state.managed_operator_state
            if "list" in handle.state_name_to_partition_offsets
            for offset in handle.state_name_to_partition_offsets["list"].offsets
        ]
        for state in given.values()
    ]


@pytest.mark.parametrize(
    "new",
    [
        pytest.param(
            3,
            id="equal",
            marks=pytest.mark.flink("CheckpointCoordinatorRestoringTest.testRestoreLatestCheckpointedState"),
        ),
        pytest.param(
            2,
            id="in",
            marks=pytest.mark.flink(
                "CheckpointCoordinatorRestoringTest.testRestoreLatestCheckpointedStateScaleIn",
                "CheckpointCoordinatorTest.testPartitionableStateRepartitioning",
            ),
        ),
        pytest.param(
            13,
            id="out",
            marks=pytest.mark.flink("CheckpointCoordinatorRestoringTest.testRestoreLatestCheckpointedStateScaleOut"),
        ),
    ],
)
def test_state_of_every_kind_goes_to_the_right_subtasks(new: int) -> None:
    """Two vertices; the second one is rescaled, the first one never."""
    before = {"source": (3, ["reads"]), "sums": (3, ["adds"])}
    after = {"source": (3, ["reads"]), "sums": (new, ["adds"])}
    _, told = begin(job_of(after), snapshot_of(before))
    given = restored(told)
    check(given[operator("reads")], "reads", 3, 3)
    check(given[operator("adds")], "adds", 3, new)
    for subtask, state in given[operator("reads")].items():
        assert [handle.delegate.path for handle in state.managed_keyed_state] == [f"keyed-reads-{subtask}"]


def test_a_failover_gives_each_subtask_what_it_had() -> None:
    """The same from the checkpoint that the job took itself."""
    master = JobMaster(replace(job_of({"sums": (2, ["adds"])}), settings=graph().job_graph.settings))
    master.handle(events.StartJob(), 0)
    tasks = list(master.tasks)
    for task in tasks:
        master.handle(TaskStateChanged(task=task, attempt=1, state=ExecutionState.RUNNING), 0)
    master.handle(events.RequestCheckpoint(request_id=1), 0)
    master.handle(events.CheckpointIdAllocated(checkpoint_id=1), 0)
    master.handle(events.LocationInitialized(checkpoint_id=1, location="chk-1"), 0)
    for subtask, task in enumerate(tasks):
        state = TaskStateSnapshot({operator("adds"): state_of("adds", subtask, 2)})
        master.handle(AcknowledgeCheckpoint(task=task, attempt=1, job_id=JOB, checkpoint_id=1, state=state), 0)
    master.handle(events.MetadataWritten(checkpoint_id=1, path="chk-1/_metadata", size_bytes=1), 0)
    master.handle(events.CheckpointStored(checkpoint_id=1), 0)
    latest = master.checkpoints.restore.latest()
    assert latest is not None
    restores = master._assign_states(master.graph, latest).restores
    for subtask, task in enumerate(tasks):
        restore = restores[task]
        assert restore is not None
        state = restore.state.subtask_states[operator("adds")]
        assert [handle.delegate.path for handle in state.managed_keyed_state] == [f"keyed-adds-{subtask}"]


@pytest.mark.flink("CheckpointCoordinatorRestoringTest.testRestoreLatestCheckpointFailureWhenMaxParallelismChanges")
@pytest.mark.parametrize("configured", [GROUPS // 2, GROUPS * 2])
def test_another_maximum_parallelism_is_refused(configured: int) -> None:
    chains = {"sums": (2, ["adds"])}
    master, told = begin(job_of(chains, max_parallelism=configured), snapshot_of(chains))
    assert (master.status, told) == (JobStatus.FAILED, [])
    assert str(configured) in master.error
    assert str(GROUPS) in master.error


def test_each_vertex_adopts_the_maximum_parallelism_that_its_state_has() -> None:
    chains: Chains = {"reads": (2, ["reads"]), "adds": (2, ["adds"]), "counts": (2, ["counts"])}
    found = snapshot_of(chains)
    groups = {operator("reads"): 32, operator("adds"): GROUPS, operator("counts"): 64}
    states = [replace(each, max_parallelism=groups[each.operator_id]) for each in found.operator_states]
    bare = [replace(each, subtask_states=dict.fromkeys(range(2), OperatorSubtaskState())) for each in states]
    master, told = begin(job_of(chains), replace(found, operator_states=tuple(bare)))
    assert len(told) == 6
    assert master.graph.max_parallelism == {"reads": 32, "adds": GROUPS, "counts": 64}


@pytest.mark.parametrize("holds", [None, ("reads", 0), ("adds", 1), ("counts", 0), ("counts", 1)])
def test_every_task_recovers_channels_if_one_subtask_has_in_flight_data(holds: tuple[str, int] | None) -> None:
    chains: Chains = {"reads": (2, ["reads"]), "adds": (2, ["adds"]), "counts": (2, ["counts"])}
    found = snapshot_of(chains)
    if holds is not None:
        name, subtask = holds
        state = next(each for each in found.operator_states if each.operator_id == operator(name))
        data = FileStateHandle(f"channels-{name}", 10)
        held = (
            {
                "result_subpartition_state": (
                    ResultSubpartitionStateHandle(subtask, ResultSubpartitionInfo(0, 0), (0,), 10, data),
                )
            }
            if name == "reads"
            else {"input_channel_state": (InputChannelStateHandle(subtask, InputChannelInfo(0, 0), (0,), 10, data),)}
        )
        subtasks = state.subtask_states | {subtask: replace(state.subtask_states[subtask], **held)}
        states = [replace(each, subtask_states=subtasks) if each is state else each for each in found.operator_states]
        found = replace(found, operator_states=tuple(states))
    _, told = begin(job_of(chains), found)
    assert [word.recovers_channels for word in told] == [holds is not None] * 6


@pytest.mark.parametrize("parallelism", [2, 3, 5])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            [["reads", "adds", "counts"]],
            [["reads"], ["adds", "counts"]],
            id="split",
            marks=pytest.mark.flink("CheckpointCoordinatorRestoringTest.testStateRecoveryWhenTopologyChangeOut"),
        ),
        pytest.param(
            [["reads"], ["adds", "counts"]],
            [["reads", "adds", "counts"]],
            id="merged",
            marks=pytest.mark.flink("CheckpointCoordinatorRestoringTest.testStateRecoveryWhenTopologyChangeIn"),
        ),
        pytest.param(
            [["reads", "adds"], ["counts"]],
            [["reads", "new"], ["counts", "adds"]],
            id="moved",
            marks=pytest.mark.flink("CheckpointCoordinatorRestoringTest.testStateRecoveryWhenTopologyChange"),
        ),
    ],
)
def test_operators_find_their_state_in_whatever_chain_they_are(
    before: list[list[str]], after: list[list[str]], parallelism: int
) -> None:
    old = {f"v{number}": (3, chain) for number, chain in enumerate(before)}
    new = {f"w{number}": (parallelism, chain) for number, chain in enumerate(after)}
    _, told = begin(job_of(new), snapshot_of(old))
    given = restored(told)
    for name in ("reads", "adds", "counts"):
        check(given[operator(name)], name, 3, parallelism)
    assert not any(state.has_state() for state in given.get(operator("new"), {}).values())


@pytest.mark.flink("CheckpointCoordinatorRestoringTest.testJobGraphModificationsAreCheckedForInitialCheckpoint")
def test_a_program_changed_before_an_operator_that_had_finished_is_refused() -> None:
    """A retained checkpoint in which all had finished; the new program puts an operator before one of them."""
    finished = OperatorState(operator("adds"), 2, GROUPS, {}, None, "adds", "adds", fully_finished=True)
    metadata = CheckpointMetadata(7, (finished,), (), None)
    master, told = begin(job_of({"v": (2, ["adds"])}), metadata)
    assert len(told) == 2
    master, told = begin(job_of({"u": (2, ["new"]), "v": (2, ["adds"])}), metadata)
    assert (master.status, told) == (JobStatus.FAILED, [])
    assert "'v' is fully finished, but 'u'" in master.error


# --- the end of a job is the end of its coordinator -------------------------------------------------------------------


@pytest.mark.flink(
    "DefaultSchedulerCheckpointCoordinatorTest."
    "testClosingSchedulerShutsDownCheckpointCoordinatorOnFailedExecutionGraph",
    "DefaultSchedulerCheckpointCoordinatorTest."
    "testClosingSchedulerShutsDownCheckpointCoordinatorOnFinishedExecutionGraph",
)
@pytest.mark.parametrize("status", ["FAILED", "FINISHED", "CANCELED"])
def test_the_checkpoint_coordinator_ends_with_the_job_in_its_status(status: str) -> None:
    master = JobMaster(job_of({"sums": (2, ["adds"])}))
    master.handle(events.StartJob(), 0)
    for task in list(master.tasks):
        master.handle(TaskStateChanged(task=task, attempt=1, state=ExecutionState.RUNNING), 0)
    if status == "CANCELED":
        master.handle(events.RequestCancel(), 0)
    else:
        state = ExecutionState[status]
        for task in list(master.tasks):
            master.handle(TaskStateChanged(task=task, attempt=1, state=state), 0)
    assert not master.checkpoints.ledger.is_shut_down
    told = master.handle(events.EpochEnded(epoch=1), 0)
    assert (master.checkpoints.ledger.is_shut_down, master.checkpoints.ledger.job_status) == (True, status)
    assert master.checkpoints.store.checkpoints == []
    assert master.status.name == status
    assert [word.status for word in told if isinstance(word, commands.JobStatusChanged)] == [status]

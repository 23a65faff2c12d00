"""A pending checkpoint: its acknowledgements, and the fate of the state that was collected."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kit.core.protocol import commands, events
from kit.core.protocol.attempts import Attempts
from kit.core.protocol.notes import CheckpointAborted
from kit.core.protocol.properties import CheckpointProperties, RetentionPolicy
from kit.core.protocol.reasons import CheckpointException
from kit.core.protocol.reasons import CheckpointFailureReason as Reason
from kit.core.protocol.tasks import ExecutionState
from kit.core.protocol.words import ProtocolError
from kit.core.state.operator_state import FINISHED_ON_RESTORE, MasterState, OperatorSubtaskState, TaskStateSnapshot
from kit.machines.coordinator.pending_checkpoint import PendingCheckpoint, TaskAcknowledgeResult
from kit.machines.coordinator.plan import CheckpointPlan, CheckpointPlanCalculator
from kit.machines.coordinator.request_decider import CheckpointTriggerRequest
from kit.machines.coordinator.statistics import CheckpointStatsTracker
from tests.machines.coordinator.harness import Harness, graph, keyed_state, operator_id

SUCCESS, DUPLICATE, UNKNOWN, DISCARDED = TaskAcknowledgeResult
CHECKPOINT = CheckpointProperties.for_checkpoint(RetentionPolicy.NEVER_RETAIN_AFTER_TERMINATION)
SAVEPOINTS = [
    CheckpointProperties.for_savepoint(forced=True),
    CheckpointProperties.for_savepoint(forced=False),
    CheckpointProperties.for_sync_savepoint(forced=True, terminate=False),
    CheckpointProperties.for_sync_savepoint(forced=False, terminate=True),
]
ORDER = (operator_id("source"), operator_id("sums"))


def pending(
    properties: CheckpointProperties = CHECKPOINT,
    *,
    coordinators: tuple[str, ...] = (),
    hooks: tuple[str, ...] = (),
) -> PendingCheckpoint:
    """Return a checkpoint that waits for `source/0` and `sums/0`, and for these."""
    job = graph({"source": 1, "sums": 1})
    calculator = CheckpointPlanCalculator(job, allow_finished_tasks=True)
    plan = calculator.calculate(Attempts(1), lambda task: ExecutionState.RUNNING)
    stats = CheckpointStatsTracker().begin(5, 0, properties, job.parallelism)
    request = CheckpointTriggerRequest(properties, 0, 1)
    owners = {operator_id(name): job.task(f"{name}/0") for name in coordinators}
    return PendingCheckpoint(5, 0, plan, request, owners, hooks, stats)


def ack_all(checkpoint: PendingCheckpoint, snapshot: TaskStateSnapshot | None = None) -> None:
    """Let both tasks ack."""
    for task in ("source/0", "sums/0"):
        assert checkpoint.acknowledge_task(task, 1, snapshot) is SUCCESS


@pytest.mark.flink("PendingCheckpointTest.testCanBeSubsumed", "PendingCheckpointTest.testSyncSavepointCannotBeSubsumed")
@pytest.mark.parametrize("properties", SAVEPOINTS)
def test_a_savepoint_is_never_subsumed(properties: CheckpointProperties) -> None:
    checkpoint = pending(properties)
    assert not checkpoint.can_be_subsumed
    with pytest.raises(ProtocolError, match=r"PendingCheckpoint\(5, .* cannot be subsumed"):
        checkpoint.fail(CheckpointException(Reason.CHECKPOINT_SUBSUMED))
    assert not checkpoint.is_disposed, "it goes on as if nobody had tried"
    assert checkpoint.failure is None


def test_a_checkpoint_can_be_subsumed() -> None:
    checkpoint = pending()
    assert checkpoint.can_be_subsumed
    checkpoint.fail(CheckpointException(Reason.CHECKPOINT_SUBSUMED))
    assert checkpoint.is_disposed


@pytest.mark.flink("PendingCheckpointTest.testCompletionFuture")
@pytest.mark.parametrize("reason", [Reason.CHECKPOINT_DECLINED, Reason.CHECKPOINT_EXPIRED, Reason.JOB_FAILOVER_REGION])
def test_whoever_asked_is_answered_however_it_ends(reason: Reason) -> None:
    job = Harness(tolerable_failures=9, max_concurrent=9)
    aborted = job.request()
    job.answer_triggering()
    job.coordinator.abort_pending_checkpoints(reason)
    assert reason.message in job.errors()[aborted]
    unwritten = job.request()
    job.answer_triggering()
    job.ack_all(2)
    job.take(commands.WriteMetadata)
    job.give(events.MetadataFailed(checkpoint_id=2, error="no space"))
    assert "no space" in job.errors()[unwritten]
    completed = job.request()
    job.answer_triggering()
    job.complete(3)
    assert [(word.request_id, word.error) for word in job.take(commands.CompleteRequest)] == [(completed, "")]


def declined(job: Harness) -> None:
    job.decline(1, "sums/1")


def expired(job: Harness) -> None:
    job.wait(job.coordinator.config.timeout_ms)


def subsumed(job: Harness) -> None:
    job.complete(job.trigger())


def failed_over(job: Harness) -> None:
    job.coordinator.abort_pending_checkpoints(Reason.JOB_FAILOVER_REGION)


def unwritten(job: Harness) -> None:
    job.ack_all(1)
    job.give(events.MetadataFailed(checkpoint_id=1, error="no space"))


@pytest.mark.flink("PendingCheckpointTest.testAbortDiscardsState")
@pytest.mark.parametrize("end", [declined, expired, subsumed, failed_over, unwritten])
def test_however_a_checkpoint_ends_the_host_is_told_to_delete_what_was_collected(
    end: Callable[[Harness], None],
) -> None:
    job = Harness(tolerable_failures=9, max_concurrent=2)
    assert job.trigger() == 1
    job.ack(1, "sums/0", TaskStateSnapshot({operator_id("sums"): keyed_state("a file")}))
    assert job.discarded() == set()
    end(job)
    (discard,) = [word for word in job.take(commands.DiscardState) if word.checkpoint_id == 1]
    assert ("a file" in discard.paths, discard.location) == (True, "chk-1")


@pytest.mark.parametrize("reason", list(Reason))
def test_every_abort_names_what_was_collected(reason: Reason) -> None:
    checkpoint = pending()
    snapshot = TaskStateSnapshot({operator_id("sums"): keyed_state("a file")})
    assert checkpoint.acknowledge_task("sums/0", 1, snapshot) is SUCCESS
    checkpoint.fail(CheckpointException(reason))
    assert checkpoint.files_to_discard() == ("a file",)
    assert checkpoint.is_disposed
    assert checkpoint.failure is not None
    assert checkpoint.failure.reason is reason


@pytest.mark.flink("PendingCheckpointTest.testNullSubtaskStateLeadsToStatelessTask")
def test_an_ack_without_state_leaves_an_operator_without_state() -> None:
    checkpoint = pending()
    ack_all(checkpoint)
    states = checkpoint.finalize(ORDER).operator_states
    assert [(state.operator_id, state.subtask_states) for state in states] == [(ORDER[0], {}), (ORDER[1], {})]


@pytest.mark.flink("PendingCheckpointTest.testNonNullSubtaskStateLeadsToStatefulTask")
def test_an_ack_with_state_is_recorded_with_the_operators_names() -> None:
    checkpoint = pending()
    ack_all(checkpoint, TaskStateSnapshot({ORDER[1]: keyed_state("a file")}))
    source, sums = checkpoint.finalize(ORDER).operator_states
    assert not source.has_state()
    assert (sums.name, sums.uid, list(sums.files())) == ("sums-0", "sums-0", ["a file"])


@pytest.mark.flink("PendingCheckpointTest.testSetCanceller")
def test_the_timeout_is_cancelled_when_it_is_over() -> None:
    job = Harness()
    job.trigger()
    [timer] = job.take(commands.ScheduleTimer)
    assert (timer.timer, timer.due_ms) == ("checkpoint-timeout-1", job.at + job.coordinator.config.timeout_ms)
    job.coordinator.abort_pending_checkpoints(Reason.JOB_FAILOVER_REGION)
    assert [word.timer for word in job.take(commands.CancelTimer)] == [timer.timer]
    job.give(events.TimerFired(timer=timer.timer))
    assert [note.reason for note in job.notes(CheckpointAborted)] == ["JOB_FAILOVER_REGION"]


@pytest.mark.flink("PendingCheckpointTest.testMasterState", "PendingCheckpointTest.testMasterStateWithNullState")
@pytest.mark.parametrize("state", [MasterState("mail", 3, b"x"), None])
def test_hooks_must_ack_and_their_state_is_in_the_result(state: MasterState | None) -> None:
    checkpoint = pending(hooks=("mail", "ledger"))
    ack_all(checkpoint)
    assert not checkpoint.is_fully_acknowledged
    assert checkpoint.acknowledge_hook("mail", state) is SUCCESS
    assert not checkpoint.is_fully_acknowledged
    assert checkpoint.acknowledge_hook("mail", state) is UNKNOWN
    assert checkpoint.acknowledge_hook("ledger", None) is SUCCESS
    assert checkpoint.is_fully_acknowledged
    assert checkpoint.finalize(ORDER).master_states == (() if state is None else (state,))


@pytest.mark.flink(
    "PendingCheckpointTest.testInitiallyUnacknowledgedCoordinatorStates",
    "PendingCheckpointTest.testAcknowledgedCoordinatorStates",
    "PendingCheckpointTest.testDuplicateAcknowledgeCoordinator",
    "PendingCheckpointTest.testAcknowledgeUnknownCoordinator",
)
def test_operator_coordinators_must_ack() -> None:
    checkpoint = pending(coordinators=("source", "sums"))
    ack_all(checkpoint)
    assert len(checkpoint.not_yet_acked_coordinators) == 2
    assert not checkpoint.is_fully_acknowledged
    assert checkpoint.acknowledge_coordinator(ORDER[0], b"splits") is SUCCESS
    assert checkpoint.acknowledge_coordinator(ORDER[0], b"splits") is DUPLICATE
    assert checkpoint.acknowledge_coordinator("f" * 32, b"?") is UNKNOWN
    assert checkpoint.acknowledge_coordinator(ORDER[1], None) is SUCCESS
    assert checkpoint.is_fully_acknowledged
    source, sums = checkpoint.finalize(ORDER).operator_states
    assert source.coordinator_state is not None
    assert (source.coordinator_state.data, sums.coordinator_state) == (b"splits", None)


def test_nothing_is_acked_once_it_is_over() -> None:
    checkpoint = pending(coordinators=("source",), hooks=("mail",))
    checkpoint.acknowledge_coordinator(ORDER[0], b"splits")
    checkpoint.fail(CheckpointException(Reason.CHECKPOINT_EXPIRED))
    assert checkpoint.acknowledge_task("source/0", 1, None) is DISCARDED
    assert checkpoint.acknowledge_coordinator(ORDER[0], None) is DISCARDED
    assert checkpoint.acknowledge_hook("mail", None) is DISCARDED
    assert not checkpoint.is_fully_acknowledged
    with pytest.raises(ValueError, match="not fully acknowledged, or disposed"):
        checkpoint.finalize(ORDER)


@pytest.mark.flink("PendingCheckpointTest.testReportTaskFinishedOnRestore")
def test_a_task_finished_on_restore_makes_its_vertex_finished() -> None:
    checkpoint = pending()
    checkpoint.acknowledge_task("source/0", 1, FINISHED_ON_RESTORE)
    assert list(checkpoint.plan.fully_finished) == ["source"]
    checkpoint.acknowledge_task("sums/0", 1, None)
    assert checkpoint.finalize(ORDER).operator_states[0].fully_finished


@pytest.mark.flink("PendingCheckpointTest.testReportTaskFinishedOperators")
def test_a_task_whose_operators_finished_keeps_its_state() -> None:
    checkpoint = pending()
    ack_all(checkpoint, TaskStateSnapshot({ORDER[0]: OperatorSubtaskState()}, is_task_finished=True))
    assert checkpoint.plan._finished_operators == {"source": 1, "sums": 1}
    assert not checkpoint.finalize(ORDER).operator_states[0].fully_finished


def test_acks_are_told_apart() -> None:
    checkpoint = pending()
    assert checkpoint.acknowledge_task("source/0", 0, None) is UNKNOWN
    assert checkpoint.acknowledge_task("source/0", 1, None) is SUCCESS
    assert checkpoint.acknowledge_task("source/0", 1, None) is DUPLICATE
    assert checkpoint.acknowledge_task("source/0", 2, None) is UNKNOWN
    assert checkpoint.acknowledge_task("nobody/0", 1, None) is UNKNOWN
    assert repr(checkpoint) == "PendingCheckpoint(5, Checkpoint, LOCATING, 1 of 2 acked)"
    checkpoint.validate()


def test_somebody_must_take_part() -> None:
    plan = CheckpointPlan(Attempts(1), (), (), ())
    stats = CheckpointStatsTracker().begin(5, 0, CHECKPOINT, {})
    with pytest.raises(ValueError, match="chk-5 waits for no task"):
        PendingCheckpoint(5, 0, plan, CheckpointTriggerRequest(CHECKPOINT, 0, 1), {}, (), stats)

"""The reports of tasks about a checkpoint: acknowledgements, declines and measurements.

    AcknowledgeCheckpoint    its shared files are registered, whatever the result
        pending              SUCCESS: recorded; the last one lets the checkpoint complete (see `completing`)
                             DUPLICATE: ignored;  UNKNOWN, DISCARDED: its files are deleted
        ended                ignored; its files are deleted, unless the checkpoint completed and needs them
    DeclineCheckpoint        a pending checkpoint is aborted, and its sender is to blame

A message that changes nothing leaves a note with the outcome of its checkpoint. A message of another job is rejected:
nothing of it is touched, not even its files. Flink logs an acknowledgement of another job as an error, and answers a
decline with IllegalArgumentException, which its caller logs.

Follows `receiveAcknowledgeMessage`, `receiveDeclineMessage` and `reportCheckpointMetrics` of Flink's
`CheckpointCoordinator`. There an acknowledgement is late if its checkpoint is among the last 16 that expired (2.x) or
that ended (1.11, `recentPendingCheckpoints`), and of an unknown checkpoint otherwise. Both are logged, and their state
is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kit.core.protocol.commands import DiscardState
from kit.core.protocol.messages import AcknowledgeCheckpoint, DeclineCheckpoint, ReportCheckpointMetrics
from kit.core.protocol.notes import (
    AcknowledgeIgnored,
    DeclineIgnored,
    MetricsIgnored,
    ReportIgnored,
    TaskAcknowledged,
)
from kit.core.protocol.reasons import CheckpointException, CheckpointFailureReason
from kit.core.protocol.tasks import ExecutionState, split_task_name
from kit.core.protocol.words import handles
from kit.core.state.operator_state import TaskStateSnapshot
from kit.machines.coordinator.checkpointed_job import CheckpointedJob
from kit.machines.coordinator.completed.shared_state_registry import (
    private_files,
    register_shared_state,
    unregistered_files,
)
from kit.machines.coordinator.completing import CheckpointCompletion
from kit.machines.coordinator.context import CoordinatorContext
from kit.machines.coordinator.ledger import CheckpointLedger
from kit.machines.coordinator.pending_checkpoint import PendingCheckpoint, TaskAcknowledgeResult

WRONG_JOB = "WRONG_JOB"
Report = AcknowledgeCheckpoint | DeclineCheckpoint | ReportCheckpointMetrics


class CheckpointAcknowledgement:
    """The part of the coordinator that handles the tasks' reports."""

    def __init__(
        self,
        job: CheckpointedJob,
        context: CoordinatorContext,
        ledger: CheckpointLedger,
        completion: CheckpointCompletion,
    ) -> None:
        self._job = job
        self._context = context
        self._ledger = ledger
        self._completion = completion

    @handles(AcknowledgeCheckpoint)
    def on_acknowledge(self, event: AcknowledgeCheckpoint) -> None:
        """Record that a task has written its snapshot. Flink: `receiveAcknowledgeMessage`."""
        if not self._is_for_us(event):
            return
        ledger, checkpoint_id = self._ledger, event.checkpoint_id
        checkpoint = ledger.pending.get(checkpoint_id)
        if checkpoint is None and ledger.is_completed(checkpoint_id):
            self._note_ignored(event, ledger.how_it_ended(checkpoint_id))
            return
        registers = checkpoint is None or not checkpoint.properties.is_savepoint
        snapshot = event.state
        if snapshot is not None and registers:
            try:
                snapshot = register_shared_state(ledger.store.registry, snapshot, checkpoint_id)
            except ValueError as error:
                self._decline(event, CheckpointException(CheckpointFailureReason.CHECKPOINT_DECLINED, str(error)))
                self._delete(checkpoint_id, tuple(unregistered_files(ledger.store.registry, snapshot)))
                return
        if checkpoint is None:
            self._report_metrics(event)
            self._ignore(event, ledger.how_it_ended(checkpoint_id), snapshot, shared_is_registered=True)
            return
        result = checkpoint.acknowledge_task(event.task, event.attempt, snapshot)
        unwanted = checkpoint.unwanted(result, snapshot)
        if result is TaskAcknowledgeResult.SUCCESS:
            self._acknowledged(checkpoint, event)
        elif result is TaskAcknowledgeResult.DUPLICATE and unwanted is None:
            self._note_ignored(event, result.name)
        else:
            self._ignore(event, result.name, unwanted, shared_is_registered=registers)

    def _is_for_us(self, event: Report) -> bool:
        if not self._ledger.is_shut_down and event.job_id != self._job.job_id:
            self._note_ignored(event, WRONG_JOB, job_id=event.job_id)
        return not self._ledger.is_shut_down and event.job_id == self._job.job_id

    def _acknowledged(self, checkpoint: PendingCheckpoint, event: AcknowledgeCheckpoint) -> None:
        task = checkpoint.acked_tasks[event.task]
        checkpoint.stats.report(task.vertex.name, task.subtask_index, self._context.at, event.metrics)
        self._context.emit(
            TaskAcknowledged(
                checkpoint_id=event.checkpoint_id,
                task=event.task,
                acked=len(checkpoint.acked_tasks),
                tasks=checkpoint.tasks,
                size_bytes=event.metrics.bytes_persisted,
            )
        )
        self._completion.on_acknowledged(checkpoint)

    def _ignore(
        self,
        event: AcknowledgeCheckpoint,
        result: str,
        snapshot: TaskStateSnapshot | None,
        *,
        shared_is_registered: bool,
    ) -> None:
        """Ignore an acknowledgement: delete its files, except for those that the registry owns.

        Flink: `discardSubtaskState`.
        """
        files: Iterable[str] = ()
        if snapshot is not None:
            states = snapshot.subtask_states.values()
            files = (
                file for state in states for file in (private_files(state) if shared_is_registered else state.files())
            )
        paths = tuple(dict.fromkeys(files))
        self._note_ignored(event, result, discarded=len(paths))
        self._delete(event.checkpoint_id, paths)

    def _delete(self, checkpoint_id: int, paths: tuple[str, ...]) -> None:
        if paths:
            self._context.emit(DiscardState(paths=paths, checkpoint_id=checkpoint_id))

    def _note_ignored(self, event: Report, result: str, **facts: Any) -> None:
        """Note that a report was ignored; `result` says how its checkpoint ended, or that it is unknown."""
        note = IGNORED[type(event)](
            checkpoint_id=event.checkpoint_id, task=event.task, attempt=event.attempt, result=result, **facts
        )
        self._context.emit(note)

    @handles(DeclineCheckpoint)
    def on_decline(self, event: DeclineCheckpoint) -> None:
        """Abort a checkpoint that a task declines. Flink: `receiveDeclineMessage`."""
        if not self._is_for_us(event):
            return
        has_finished = self._context.execution_state(event.task) is ExecutionState.FINISHED
        why = f"{event.task} had finished before the checkpoint reached it: ask for another." if has_finished else ""
        self._decline(event, CheckpointException(event.reason, event.detail or why, event.may_pass))

    def _decline(self, event: AcknowledgeCheckpoint | DeclineCheckpoint, why: CheckpointException) -> None:
        checkpoint = self._ledger.pending.get(event.checkpoint_id)
        if checkpoint is None:
            self._note_ignored(event, self._ledger.how_it_ended(event.checkpoint_id), reason=why.reason.name)
            return
        if checkpoint.is_disposed:
            self._note_ignored(event, TaskAcknowledgeResult.DISCARDED.name, reason=why.reason.name)
            return
        # A task that had left is not to blame: its slot answered for it (`TaskExecutor.triggerCheckpoint`).
        no_such_task = why.reason is CheckpointFailureReason.TASK_CHECKPOINT_FAILURE
        self._ledger.abort(checkpoint, why, None if no_such_task else event.task)

    @handles(ReportCheckpointMetrics)
    def on_report_metrics(self, event: ReportCheckpointMetrics) -> None:
        """Record a task's measurements of a checkpoint that it knows was aborted."""
        if self._is_for_us(event):
            self._report_metrics(event)

    def _report_metrics(self, event: ReportCheckpointMetrics | AcknowledgeCheckpoint) -> None:
        vertex, subtask = split_task_name(event.task)
        self._ledger.statistics.report_incomplete(event.checkpoint_id, vertex, subtask, self._context.at, event.metrics)


IGNORED: dict[type[Report], type[ReportIgnored]] = {
    AcknowledgeCheckpoint: AcknowledgeIgnored,
    DeclineCheckpoint: DeclineIgnored,
    ReportCheckpointMetrics: MetricsIgnored,
}
"""The note about a message that changed nothing."""

"""The ledger of a job's checkpoints: what is pending, what is stored, what has ended and how, and what was counted.

Every begin, completion and abort of a checkpoint happens here, and nothing else writes this data. The parts of the
coordinator read it. Each of `triggering`, `acknowledging`, `completing` and `restoring` carries a checkpoint some steps
further, and none of them depends on an earlier one.

Follows the shared state of Flink's `CheckpointCoordinator`, with `abortPendingCheckpoint`, `sendAbortedMessages` and
`rememberRecentExpiredCheckpointId`. Flink 1.11 remembers the last 16 checkpoints that have ended in any way
(`recentPendingCheckpoints`), 2.x the last 16 that expired. Here it is the last 256, with how each of them ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import ClassVar

from kit.core.protocol.commands import CancelTimer, CompleteRequest, DiscardState, RemoveStored, ScheduleTimer
from kit.core.protocol.events import StateDiscarded
from kit.core.protocol.messages import NotifyCheckpointAborted
from kit.core.protocol.notes import (
    CheckpointAborted,
    CheckpointCompleted,
    CheckpointDiscarded,
    CheckpointPending,
    CheckpointRemoved,
    CheckpointSubsumed,
    RequestRefused,
    TriggeringFailed,
)
from kit.core.protocol.reasons import CheckpointException, CheckpointFailureReason
from kit.core.protocol.words import ProtocolError, handles
from kit.machines.coordinator.checkpoint_state import CheckpointEvent, CheckpointState
from kit.machines.coordinator.completed.completed_checkpoint import CompletedCheckpoint
from kit.machines.coordinator.completed.completed_checkpoint_store import (
    NO_CHECKPOINT,
    CompletedCheckpointStore,
    Removal,
)
from kit.machines.coordinator.context import CheckpointStatsListener, CoordinatorContext
from kit.machines.coordinator.failure_manager import COUNTED, UNKNOWN_CHECKPOINT_ID, CheckpointFailureManager
from kit.machines.coordinator.pending_checkpoint import PendingCheckpoint
from kit.machines.coordinator.request_decider import CheckpointTriggerRequest
from kit.machines.coordinator.statistics import CheckpointStatsTracker, NeverBegun, RestoredCheckpointStats

REMEMBERED = 256
"""The number of ended checkpoints that are remembered, to distinguish late messages from stray ones.

Flink: `NUM_GHOST_CHECKPOINT_IDS`, which is 16.
"""
COMPLETED = "COMPLETED"
UNKNOWN_CHECKPOINT = "UNKNOWN_CHECKPOINT"
"""Reported as the end of a checkpoint that never existed, or ended so long ago that it is forgotten."""
LONG_AGO_MS = -(2**62)
"""The time of the last completion, before any checkpoint has completed."""


def timeout_timer(checkpoint_id: int) -> str:
    """Return the name of the timer that expires a pending checkpoint (Flink's `CheckpointCanceller`).

    Flink's `setCancellerHandle` has no counterpart: a timer is cancelled by its name.
    """
    return f"checkpoint-timeout-{checkpoint_id}"


class CheckpointLedger:
    """The records of all checkpoints of one job."""

    without_effect: ClassVar = frozenset({"statistics", "last_completion_ms"})

    def __init__(
        self,
        context: CoordinatorContext,
        store: CompletedCheckpointStore,
        statistics: CheckpointStatsTracker,
        *,
        tolerable: int,
        listener: CheckpointStatsListener | None = None,
    ) -> None:
        self._context = context
        self._listener = listener
        self.store = store
        self.pending: dict[int, PendingCheckpoint] = {}
        self.statistics = statistics
        self.failures = CheckpointFailureManager(tolerable, self._fail_job, context.fail_job_due_to_task_failure)
        self.ended: dict[int, str] = {}
        """The outcome of the last checkpoints, by id: COMPLETED, or the name of the reason."""
        self.savepoints: set[int] = set()
        """The savepoints that this run has completed; the user owns them."""
        self.cleaning = 0
        """The number of checkpoints that the host is deleting; too many prevent new ones."""
        self.last_completion_ms = LONG_AGO_MS
        self.force_full_snapshot = False
        """True if no checkpoint may build on the one that the job was restored from."""
        self.leaving: set[str] = set()
        """Tasks of this epoch that finish as soon as they are notified of their last checkpoint."""
        self.took_last_checkpoint = False
        """True if all tasks leave, so that another checkpoint could not complete."""
        self.is_shut_down = False
        self.job_status = ""

    def _fail_job(self, error: str, checkpoint_id: int, *, may_pass: bool) -> None:
        known = None if checkpoint_id == UNKNOWN_CHECKPOINT_ID else checkpoint_id
        self._context.fail_job(error, known, may_pass=may_pass)

    # --- queries --------------------------------------------------------------------------------------------------

    @property
    def triggering(self) -> PendingCheckpoint | None:
        """The one checkpoint whose tasks are not yet triggered, if any."""
        return next((each for each in self.pending.values() if each.state.is_triggering), None)

    @property
    def storing(self) -> PendingCheckpoint | None:
        """The checkpoint that is being stored; a restore should wait for its outcome."""
        return next((each for each in self.pending.values() if each.state is CheckpointState.STORING), None)

    def is_completed(self, checkpoint_id: int) -> bool:
        """Return True if the checkpoint is known to have completed: then its files must not be touched."""
        return self.ended.get(checkpoint_id) == COMPLETED or any(
            checkpoint.checkpoint_id == checkpoint_id for checkpoint in self.store.checkpoints
        )

    def how_it_ended(self, checkpoint_id: int) -> str:
        """Return COMPLETED, the name of the reason for which it was aborted, or UNKNOWN_CHECKPOINT."""
        return COMPLETED if self.is_completed(checkpoint_id) else self.ended.get(checkpoint_id, UNKNOWN_CHECKPOINT)

    # --- a checkpoint begins --------------------------------------------------------------------------------------

    def begin(self, checkpoint: PendingCheckpoint, expires_ms: int) -> None:
        """Add a pending checkpoint that expires at this time. Raises ProtocolError for an id that was used before."""
        checkpoint_id, plan = checkpoint.checkpoint_id, checkpoint.plan
        if checkpoint_id in self.pending:
            raise ProtocolError(f"checkpoint id {checkpoint_id} was allocated twice:  {self.pending[checkpoint_id]!r}")
        self.pending[checkpoint_id] = checkpoint
        self._context.emit(ScheduleTimer(timer=timeout_timer(checkpoint_id), due_ms=expires_ms))
        self._context.emit(
            CheckpointPending(
                checkpoint_id=checkpoint_id,
                snapshot=checkpoint.properties.snapshot_type.name,
                tasks=checkpoint.tasks,
                finished=len(plan.finished_tasks),
                trigger=plan.names_to_trigger,
                coordinators=len(checkpoint.not_yet_acked_coordinators),
                hooks=len(checkpoint.not_yet_acked_hooks),
                expires_ms=expires_ms,
            )
        )

    def fail_request(self, request: CheckpointTriggerRequest, why: CheckpointException) -> None:
        """Fail a request that led to no checkpoint. Flink: `onTriggerFailure`."""
        self._context.emit(TriggeringFailed(request=request.label, reason=why.reason.name, detail=str(why)))
        self.answer_with_error(request, why)
        failed = NeverBegun(self._context.at, request.properties.snapshot_type.name, str(why))
        self.statistics.failed_before_start(failed if why.reason in COUNTED else None)
        self._tell_of_failure()
        self.failures.handle_failure(request.properties, why)

    def refuse(self, request: CheckpointTriggerRequest, why: CheckpointException) -> None:
        """Reject a request that will not be carried out."""
        self._context.emit(RequestRefused(request=request.label, reason=why.reason.name, detail=str(why)))
        self.answer_with_error(request, why)

    def answer_with_error(self, request: CheckpointTriggerRequest, why: CheckpointException) -> None:
        """Answer the user with an error, if the request came from a user."""
        if request.request_id is not None:
            self._context.answer_request(CompleteRequest(request_id=request.request_id, error=str(why)))

    # --- a checkpoint is aborted ----------------------------------------------------------------------------------

    def abort(self, checkpoint: PendingCheckpoint, why: CheckpointException, task: str | None = None) -> None:
        """End a pending checkpoint without completing it (`abortPendingCheckpoint`); `task` is to blame.

        A checkpoint that is being stored is not aborted. While `_metadata` is being written the files stay, so that
        nobody finds a checkpoint without its files; `completing` discards them afterwards.
        """
        if checkpoint.is_disposed:
            return
        before = checkpoint.state
        checkpoint.fail(why)
        self._end(checkpoint, why.reason.name)
        self._note_aborted(checkpoint, why, task)
        self._context.emit(CancelTimer(timer=timeout_timer(checkpoint.checkpoint_id)))
        self.answer_with_error(checkpoint.request, why)
        if before is not CheckpointState.WRITING:
            self.discard_collected(checkpoint)
        self._count_failure(checkpoint, why, task)
        self._send_aborted(checkpoint)
        if before.is_triggering:
            self._context.coordinators.abort_triggering()

    def abort_all(self, why: CheckpointException) -> None:
        """Abort all pending checkpoints, except for one that is being stored. Flink: `abortPendingCheckpoints`."""
        for checkpoint in list(self.pending.values()):
            self.abort(checkpoint, why)

    def abort_subsumed(self, checkpoint_id: int) -> None:
        """Abort pending checkpoints that are older than a completed one (`dropSubsumedCheckpoints`)."""
        for checkpoint in list(self.pending.values()):
            if checkpoint.checkpoint_id < checkpoint_id and checkpoint.can_be_subsumed:
                why = CheckpointException(CheckpointFailureReason.CHECKPOINT_SUBSUMED, f"By {checkpoint_id}.")
                self.abort(checkpoint, why)

    def discard_collected(self, checkpoint: PendingCheckpoint, metadata: tuple[str, ...] = ()) -> None:
        """Delete what an aborted checkpoint has collected, its `metadata` first."""
        paths, location = (*metadata, *checkpoint.files_to_discard()), checkpoint.location
        if paths or location:
            self.clean(DiscardState(paths=paths, location=location, checkpoint_id=checkpoint.checkpoint_id))

    def _end(self, checkpoint: PendingCheckpoint, how: str) -> None:
        """Move the checkpoint from the pending to the remembered ones.

        Flink: `rememberRecentCheckpointId`, into `recentPendingCheckpoints`.
        """
        del self.pending[checkpoint.checkpoint_id]
        self.ended[checkpoint.checkpoint_id] = how
        if len(self.ended) > REMEMBERED:
            del self.ended[next(iter(self.ended))]

    def _note_aborted(self, checkpoint: PendingCheckpoint, why: CheckpointException, task: str | None = None) -> None:
        self._context.emit(
            CheckpointAborted(
                checkpoint_id=checkpoint.checkpoint_id,
                reason=why.reason.name,
                detail=str(why),
                task=task,
                acked=len(checkpoint.acked_tasks),
                tasks=checkpoint.tasks,
            )
        )

    def _count_failure(self, checkpoint: PendingCheckpoint, why: CheckpointException, task: str | None = None) -> None:
        self.statistics.failed(checkpoint.stats, self._context.at, str(why))
        self._tell_of_failure()
        self.failures.handle_failure(checkpoint.properties, why, checkpoint.checkpoint_id, task)

    def _tell_of_failure(self) -> None:
        if self._listener is not None:
            self._listener.on_failed_checkpoint()

    def _send_aborted(self, checkpoint: PendingCheckpoint) -> None:
        """Notify tasks and operator coordinators that a checkpoint was aborted (`sendAbortedMessages`)."""
        latest_id = self.store.latest_id
        for task in checkpoint.plan.tasks_to_commit_to:
            self._context.emit(
                NotifyCheckpointAborted(
                    task=task.task,
                    attempt=checkpoint.plan.attempts.of(task.task),
                    checkpoint_id=checkpoint.checkpoint_id,
                    timestamp_ms=checkpoint.timestamp_ms,
                    latest_completed_id=latest_id,
                )
            )
        self._context.coordinators.notify_aborted(checkpoint.checkpoint_id)

    # --- a checkpoint is stored, or not -----------------------------------------------------------------------------

    def complete(self, checkpoint: PendingCheckpoint, completed: CompletedCheckpoint, metadata_size: int) -> int:
        """Retain a stored checkpoint; return the id of the newest that it replaces, NO_CHECKPOINT if none.

        Record the time, from which the minimum pause is counted. Flink: `lastCheckpointCompletionRelativeTime`.
        """
        checkpoint.step(CheckpointEvent.STORED)
        self._end(checkpoint, COMPLETED)
        subsumed_id = self._retain(completed)
        at_ms = self._context.at
        self.failures.handle_success(completed.checkpoint_id)
        self.statistics.completed(checkpoint.stats, at_ms, completed.location, metadata_size)
        self.last_completion_ms = at_ms
        self._context.emit(
            CheckpointCompleted(
                checkpoint_id=completed.checkpoint_id,
                snapshot=completed.properties.snapshot_type.name,
                size_bytes=completed.state_size,
                duration_ms=at_ms - completed.timestamp_ms,
                subsumed=None if subsumed_id == NO_CHECKPOINT else subsumed_id,
            )
        )
        if self._listener is not None and not completed.properties.is_savepoint:
            self._listener.on_completed_checkpoint(completed.checkpoint_id)
        if checkpoint.request.request_id is not None:
            answer = CompleteRequest(
                request_id=checkpoint.request.request_id,
                checkpoint_id=completed.checkpoint_id,
                path=completed.location,
            )
            self._context.answer_request(answer)
        return subsumed_id

    def _retain(self, completed: CompletedCheckpoint) -> int:
        """Add a checkpoint to the store, which subsumes older ones; a savepoint is only remembered as the user's."""
        if completed.properties.is_savepoint:
            self.savepoints.add(completed.checkpoint_id)
            if completed.properties.is_synchronous and self.store.is_durable:
                self.store.stop_with(completed.checkpoint_id)
            return NO_CHECKPOINT
        subsumed, removals = self.store.add(completed)
        self.force_full_snapshot = False
        self.discard(removals, CheckpointSubsumed)
        gone = subsumed is not None and subsumed.properties.discard_subsumed
        return subsumed.checkpoint_id if subsumed is not None and gone else NO_CHECKPOINT

    def tasks_leave(self, checkpoint: PendingCheckpoint) -> None:
        """Record that the tasks of a complete checkpoint which had processed all their input finish now.

        If these are all tasks, it was the last checkpoint: no periodic one follows, because it could only fail. Flink
        starts another one nevertheless.
        """
        self.leaving |= checkpoint.ended_tasks
        self.took_last_checkpoint |= checkpoint.ended_tasks == checkpoint.acked_tasks.keys()

    def not_stored(
        self, checkpoint: PendingCheckpoint, completed: CompletedCheckpoint, why: CheckpointException, *, known: bool
    ) -> None:
        """End a checkpoint that could not be stored.

        If that is not `known` for sure, its files must stay, and so must what sinks staged. The tasks are then not
        notified of an abort (Flink notifies them; its sinks keep what they staged).
        """
        checkpoint.fail(why, CheckpointEvent.NOT_STORED)
        self._end(checkpoint, why.reason.name if known else COMPLETED)
        self._note_aborted(checkpoint, why)
        self.answer_with_error(checkpoint.request, why)
        if known:
            self.discard([completed.discard()])
            self._send_aborted(checkpoint)
        elif completed.properties.is_synchronous:  # its tasks wait for a notification that cannot come
            self._context.fail_job(str(why), checkpoint.checkpoint_id, may_pass=True)
        self._count_failure(checkpoint, why)

    def stored_after_shutdown(self, checkpoint: PendingCheckpoint, completed: CompletedCheckpoint) -> None:
        """Treat a checkpoint that was stored after the end of the job like the others."""
        why = CheckpointException(CheckpointFailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN)
        checkpoint.fail(why, CheckpointEvent.NOT_STORED)
        self._end(checkpoint, why.reason.name)
        if completed.should_be_discarded_at(self.job_status):
            self.discard([completed.discard()])
        self.statistics.failed(checkpoint.stats, self._context.at, str(why))
        self._tell_of_failure()
        self.answer_with_error(checkpoint.request, why)

    # --- deleting -------------------------------------------------------------------------------------------------

    def discard(self, removals: Iterable[Removal], note: type[CheckpointRemoved] = CheckpointDiscarded) -> None:
        """Delete what the store no longer needs, and record a `note` of each checkpoint."""
        for removal in removals:
            if isinstance(removal, RemoveStored):
                self._context.emit(removal)
                continue
            if removal.checkpoint_id is not None:
                self.statistics.discarded(removal.checkpoint_id)
                self._context.emit(note(checkpoint_id=removal.checkpoint_id))
            self.clean(removal)

    def clean(self, discard: DiscardState) -> None:
        """Let the host delete files in the background; whole checkpoints are counted (`CheckpointsCleaner`)."""
        self.cleaning += discard.location is not None
        self._context.emit(discard)

    @handles(StateDiscarded)
    def on_state_discarded(self, event: StateDiscarded) -> None:
        """Record that a whole checkpoint is deleted."""
        self.cleaning -= 1

    # --- the life of the job --------------------------------------------------------------------------------------

    def restored(self, latest: CompletedCheckpoint) -> None:
        """Reset for a job that resumes from this checkpoint."""
        self.force_full_snapshot = latest.properties.unclaimed
        self.statistics.report_restored(
            RestoredCheckpointStats(
                latest.checkpoint_id, self._context.at, latest.properties, latest.location, latest.state_size
            )
        )

    def deployed_anew(self, tasks: Collection[str] | None = None) -> None:
        """Forget which of all tasks, or of these, were about to leave: those attempts have ended."""
        self.leaving = set() if tasks is None else self.leaving.difference(tasks)
        self.took_last_checkpoint = False

    def shut_down(self, job_status: str) -> None:
        """End with the job in this status; later events are treated accordingly."""
        self.is_shut_down, self.job_status = True, job_status

    def validate(self) -> None:
        """Check that nothing is pending twice, or both pending and completed. Raises AssertionError."""
        for checkpoint_id, checkpoint in self.pending.items():
            assert checkpoint_id == checkpoint.checkpoint_id, f"{checkpoint!r} is filed under {checkpoint_id}"
            checkpoint.validate()
        retained = {checkpoint.checkpoint_id for checkpoint in self.store.checkpoints}
        assert not retained & self.pending.keys(), f"pending and completed: {sorted(retained & self.pending.keys())}"
        underway = [each for each in self.pending.values() if each.state.is_triggering]
        assert len(underway) <= 1, f"one checkpoint is triggered at a time, not {underway}"
        assert self.cleaning >= 0, f"{-self.cleaning} more checkpoints were deleted than were to be"
        self.failures.validate()
        self.store.validate()

    def __repr__(self) -> str:
        pending = ", ".join(map(str, self.pending)) or "none"
        return f"CheckpointLedger(pending {pending}; {self.store!r})"

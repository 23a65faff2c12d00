"""The completion of a checkpoint: all have acknowledged, its metadata is written, it is stored, all are notified.

    last acknowledgement    finalized: the bytes of `_metadata`
    WriteMetadata           MetadataWritten | MetadataFailed       it may still be aborted until then
    StoreCheckpoint         CheckpointStored | CheckpointStoreFailed   it may not: the outcome would be unknown
        older completed ones subsumed, older pending ones dropped
    NotifyCheckpointComplete to the tasks and operator coordinators

Savepoints subsume nothing, and only a synchronous one is confirmed to the tasks. A synchronous savepoint is also
recorded in a durable store: sinks publish what it covers, so the next driver must not resume from anything older. Other
savepoints are not stored. In 1.11 every savepoint is stored, subsumes and is confirmed like a checkpoint.

Checkpoints complete one after another: a second one that is fully acknowledged waits, as it waits for the coordinator's
lock in Flink.

Follows Flink's `CheckpointCoordinator.completePendingCheckpoint`.
"""

from __future__ import annotations

from collections import deque
from typing import ClassVar

from kit.core.metadata import CheckpointMetadata, MetadataError, with_covered_output, write_metadata
from kit.core.protocol.commands import CancelTimer, StoreCheckpoint, WriteMetadata
from kit.core.protocol.events import CheckpointStored, CheckpointStoreFailed, MetadataFailed, MetadataWritten
from kit.core.protocol.messages import NotifyCheckpointComplete
from kit.core.protocol.notes import CheckpointFinalizing
from kit.core.protocol.properties import RecoveryClaimMode
from kit.core.protocol.reasons import CheckpointException, CheckpointFailureReason
from kit.core.protocol.words import handles
from kit.machines.coordinator.checkpoint_state import CheckpointEvent, CheckpointState
from kit.machines.coordinator.checkpointed_job import CheckpointedJob
from kit.machines.coordinator.completed.completed_checkpoint import CompletedCheckpoint
from kit.machines.coordinator.context import CoordinatorContext
from kit.machines.coordinator.ledger import CheckpointLedger, timeout_timer
from kit.machines.coordinator.pending_checkpoint import PendingCheckpoint


class CheckpointCompletion:
    """The part of the coordinator that completes checkpoints, one after another."""

    without_effect: ClassVar = frozenset({"_metadata_size"})

    def __init__(self, job: CheckpointedJob, context: CoordinatorContext, ledger: CheckpointLedger) -> None:
        self._job = job
        self._context = context
        self._ledger = ledger
        self._queue: deque[PendingCheckpoint] = deque()
        """The fully acknowledged checkpoints, in that order; some may be aborted before their turn."""
        self._writing: dict[int, tuple[PendingCheckpoint, CheckpointMetadata]] = {}
        """The checkpoint whose metadata is being written, and those that were aborted during their write."""
        self._storing: tuple[PendingCheckpoint, CompletedCheckpoint] | None = None
        self._metadata_size = 0

    def on_acknowledged(self, checkpoint: PendingCheckpoint) -> None:
        """Queue the checkpoint if all have acknowledged; called after an acknowledgement, and after triggering."""
        if checkpoint.state is CheckpointState.COLLECTING and checkpoint.is_fully_acknowledged:
            checkpoint.step(CheckpointEvent.TASKS_ACKED)
            self._queue.append(checkpoint)

    def go_on(self) -> None:
        """Finalize the next acknowledged checkpoint, if none is being completed."""
        while self._queue and not any(each.state in _IN_TURN for each in self._ledger.pending.values()):
            checkpoint = self._queue.popleft()
            if not checkpoint.is_disposed:
                self._finalize(checkpoint)

    def _finalize(self, checkpoint: PendingCheckpoint) -> None:
        """Finalize a checkpoint, and have its `_metadata` written. Flink: `completePendingCheckpoint`."""
        assert checkpoint.location is not None
        try:
            metadata = checkpoint.finalize(self._job.operator_order)
            if self._job.lineage is not None:
                metadata = with_covered_output(metadata, self._job.lineage.covered_at(checkpoint.checkpoint_id))
            data = write_metadata(metadata)
        except CheckpointException as why:
            self._ledger.abort(checkpoint, why)
            return
        except (ValueError, MetadataError) as error:
            self._ledger.abort(checkpoint, _finalize_failure(str(error)))
            return
        checkpoint.step(CheckpointEvent.FINALIZED)
        self._writing[checkpoint.checkpoint_id] = checkpoint, metadata
        self._context.emit(CheckpointFinalizing(checkpoint_id=checkpoint.checkpoint_id, size_bytes=len(data)))
        self._context.emit(
            WriteMetadata(checkpoint_id=checkpoint.checkpoint_id, location=checkpoint.location, data=data)
        )

    @handles(MetadataWritten)
    def on_metadata_written(self, event: MetadataWritten) -> None:
        """Complete a savepoint, or store a checkpoint, whose `_metadata` is written."""
        written = self._writing.pop(event.checkpoint_id, None)
        if written is None:
            return
        checkpoint, metadata = written
        if checkpoint.is_disposed:
            self._ledger.discard_collected(checkpoint, (event.path,))
            return
        self._context.emit(CancelTimer(timer=timeout_timer(event.checkpoint_id)))
        completed = checkpoint.complete(self._job.job_id, metadata, event.path, self._context.at)
        self._metadata_size = event.size_bytes
        properties = completed.properties
        if properties.is_savepoint and not (properties.is_synchronous and self._ledger.store.is_durable):
            self._complete(checkpoint, completed)
            return
        self._storing = checkpoint, completed
        claim_mode = RecoveryClaimMode.NO_CLAIM if properties.is_savepoint else None
        self._context.emit(
            StoreCheckpoint(checkpoint_id=event.checkpoint_id, metadata_path=event.path, claim_mode=claim_mode)
        )

    @handles(MetadataFailed)
    def on_metadata_failed(self, event: MetadataFailed) -> None:
        """Abort a checkpoint whose `_metadata` could not be written."""
        checkpoint, _ = self._writing.pop(event.checkpoint_id, (None, None))
        if checkpoint is None:
            return
        if not checkpoint.is_disposed:
            self._ledger.abort(checkpoint, _finalize_failure(event.error, event.may_pass))
        self._ledger.discard_collected(checkpoint)

    @handles(CheckpointStored)
    def on_stored(self, event: CheckpointStored) -> None:
        """Complete the checkpoint, which is stored."""
        stored = self._take_stored(event.checkpoint_id)
        if stored is None:
            return
        if self._ledger.is_shut_down:
            self._ledger.stored_after_shutdown(*stored)
        else:
            self._complete(*stored)

    def _complete(self, checkpoint: PendingCheckpoint, completed: CompletedCheckpoint) -> None:
        subsumed_id = self._ledger.complete(checkpoint, completed, self._metadata_size)
        if not completed.properties.is_savepoint or completed.properties.is_synchronous:
            self._ledger.abort_subsumed(completed.checkpoint_id)
            self._notify(checkpoint, subsumed_id)
            self._ledger.tasks_leave(checkpoint)

    def _take_stored(self, checkpoint_id: int) -> tuple[PendingCheckpoint, CompletedCheckpoint] | None:
        """Return what is being stored, if it is this checkpoint."""
        stored = self._storing
        if stored is None or stored[0].checkpoint_id != checkpoint_id:
            return None
        self._storing = None
        return stored

    def _notify(self, checkpoint: PendingCheckpoint, last_subsumed_id: int) -> None:
        """Notify tasks and operator coordinators that the checkpoint is complete. Flink: `sendAcknowledgeMessages`."""
        for task in checkpoint.plan.tasks_to_commit_to:
            self._context.emit(
                NotifyCheckpointComplete(
                    task=task.task,
                    attempt=checkpoint.plan.attempts.of(task.task),
                    checkpoint_id=checkpoint.checkpoint_id,
                    timestamp_ms=checkpoint.timestamp_ms,
                    last_subsumed_id=last_subsumed_id,
                )
            )
        self._context.coordinators.notify_complete(checkpoint.checkpoint_id)

    @handles(CheckpointStoreFailed)
    def on_store_failed(self, event: CheckpointStoreFailed) -> None:
        """Handle a checkpoint that could not be stored, or whose outcome is unknown.

        In Flink a failure to store discards the checkpoint (1.11: `discardOnFailedStoring`).
        """
        stored = self._take_stored(event.checkpoint_id)
        if stored is not None:
            why = _finalize_failure(event.error, event.may_pass)
            self._ledger.not_stored(*stored, why, known=not event.possibly_inconsistent)

    def give_up_storing(self, error: str) -> None:
        """Abandon a checkpoint that is being stored but keep its files: the new driver may have found it."""
        stored, self._storing = self._storing, None
        if stored is not None:
            self._ledger.not_stored(*stored, _finalize_failure(error), known=False)

    def validate(self) -> None:
        """Check that what is being completed is pending, and one at a time. Raises AssertionError."""
        pending = self._ledger.pending
        in_turn = [each for each in pending.values() if each.state in _IN_TURN]
        assert len(in_turn) <= 1, f"checkpoints complete one after another, not {in_turn}"
        for checkpoint in in_turn:
            assert not checkpoint.not_yet_acked_tasks, f"{checkpoint!r} completes without all acks"
            assert (self._storing is not None and checkpoint is self._storing[0]) or (
                checkpoint.checkpoint_id in self._writing
            ), f"{checkpoint!r} is neither written nor stored"

    def __repr__(self) -> str:
        waiting = [checkpoint.checkpoint_id for checkpoint in self._queue]
        return f"CheckpointCompletion({waiting} wait, {list(self._writing)} written, {self._storing} stored)"


_IN_TURN = frozenset({CheckpointState.WRITING, CheckpointState.STORING})


def _finalize_failure(detail: str, may_pass: bool = False) -> CheckpointException:
    return CheckpointException(CheckpointFailureReason.FINALIZE_CHECKPOINT_FAILURE, detail, may_pass)

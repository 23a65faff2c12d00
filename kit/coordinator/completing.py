"""How a checkpoint ends well: everybody has acked, its metadata is written, it is stored, everybody is told.

    last ack                finalized: the bytes of `_metadata`
    WriteMetadata           MetadataWritten | MetadataFailed       it may still be aborted until then
    StoreCheckpoint         CheckpointStored | CheckpointStoreFailed   it may not: nobody could tell whether it stands
        older completed ones subsumed, older pending ones dropped
    NotifyCheckpointComplete to the tasks and operator coordinators

Savepoints subsume nothing, and only a synchronous one is confirmed to the tasks. That one is noted in a durable store
as well, since sinks publish what it covers: the next driver must not begin with anything older. Other savepoints are
not stored. Checkpoints complete one after another: a second one that is fully acknowledged waits, as it waits for the
coordinator's lock in Flink.

Follows Flink's `CheckpointCoordinator.completePendingCheckpoint`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kit.coordinator.completed_checkpoint import CompletedCheckpoint
from kit.coordinator.pending_checkpoint import PendingCheckpoint
from kit.coordinator.store import NO_CHECKPOINT
from kit.coordinator.triggering import timeout_timer
from kit.metadata import CheckpointMetadata, MetadataError, write_metadata
from kit.protocol.commands import CancelTimer, CompleteRequest, DiscardState, StoreCheckpoint, WriteMetadata
from kit.protocol.events import CheckpointStored, CheckpointStoreFailed, MetadataFailed, MetadataWritten
from kit.protocol.messages import NotifyCheckpointComplete
from kit.protocol.properties import RecoveryClaimMode
from kit.protocol.reasons import CheckpointException, CheckpointFailureReason

if TYPE_CHECKING:
    from kit.coordinator.coordinator import CheckpointCoordinator


class CheckpointCompletion:
    """The part of the coordinator that completes checkpoints, the first of `queue` at present."""

    def __init__(self, coordinator: CheckpointCoordinator) -> None:
        self._coordinator = coordinator
        self.queue: deque[PendingCheckpoint] = deque()
        self.metadata: CheckpointMetadata | None = None
        """What is being written for the first of the queue."""
        self.completed: CompletedCheckpoint | None = None
        """The first of the queue while it is being stored."""
        self.savepoints: set[int] = set()
        """The savepoints that this run has completed: they are the user's."""
        self._metadata_size = 0
        self._aborted: dict[int, PendingCheckpoint] = {}
        """Aborted while their metadata was being written: discarded once that has come to an end."""

    @property
    def is_storing(self) -> bool:
        """Whether a checkpoint is being stored: soon it stands, or not. A restore should wait to know."""
        return self.completed is not None

    def on_fully_acknowledged(self, checkpoint: PendingCheckpoint) -> None:
        """Nobody is missing: finalize, when the ones before it are done."""
        self.queue.append(checkpoint)
        self.begin_next()

    def begin_next(self) -> None:
        """Give the next fully acknowledged checkpoint its turn, if none has it."""
        while self.queue and self.metadata is None and self.completed is None:
            self._begin(self.queue[0])

    def _begin(self, checkpoint: PendingCheckpoint) -> None:
        owner = self._coordinator
        try:
            metadata = checkpoint.finalize(owner.operator_order)
            data = write_metadata(metadata)
        except CheckpointException as why:
            owner.abort(checkpoint, why)
            return
        except (ValueError, MetadataError) as error:
            owner.abort(checkpoint, _finalize_failure(str(error)))
            return
        self.metadata = metadata
        assert checkpoint.location is not None
        owner.note("CheckpointFinalizing", checkpoint.checkpoint_id, size_bytes=len(data))
        owner.context.emit(
            WriteMetadata(checkpoint_id=checkpoint.checkpoint_id, location=checkpoint.location, data=data)
        )

    def on_metadata_written(self, event: MetadataWritten) -> None:
        """`_metadata` stands: a savepoint is complete, a checkpoint is stored."""
        if self._discard_aborted(event.checkpoint_id, (event.path,)):
            return
        metadata = self.metadata
        if metadata is None or metadata.checkpoint_id != event.checkpoint_id:
            return
        owner = self._coordinator
        checkpoint = self.queue[0]
        owner.context.emit(CancelTimer(timer=timeout_timer(event.checkpoint_id)))
        completed = checkpoint.complete(owner.job_id, metadata, event.path, owner.context.at)
        self.metadata, self.completed, self._metadata_size = None, completed, event.size_bytes
        if not completed.properties.is_savepoint:
            owner.context.emit(StoreCheckpoint(checkpoint_id=event.checkpoint_id, metadata_path=event.path))
        elif completed.properties.is_synchronous and owner.store.is_durable:
            owner.context.emit(
                StoreCheckpoint(
                    checkpoint_id=event.checkpoint_id,
                    metadata_path=event.path,
                    claim_mode=RecoveryClaimMode.NO_CLAIM,
                )
            )
        else:
            self._finish_savepoint(completed)

    def _finish_savepoint(self, completed: CompletedCheckpoint) -> None:
        self.savepoints.add(completed.checkpoint_id)
        self._finish(NO_CHECKPOINT)

    def on_metadata_failed(self, event: MetadataFailed) -> None:
        """`_metadata` could not be written."""
        if self._discard_aborted(event.checkpoint_id, ()):
            return
        if self.metadata is not None and self.metadata.checkpoint_id == event.checkpoint_id:
            checkpoint = self.queue[0]
            self.metadata = None
            self._coordinator.abort(checkpoint, _finalize_failure(event.error))

    def on_stored(self, event: CheckpointStored) -> None:
        """The checkpoint stands for good."""
        owner = self._coordinator
        completed = self._being_stored(event.checkpoint_id)
        if completed is None:
            return
        if owner.is_shut_down:
            self._end_after_shutdown(completed)
            return
        if completed.properties.is_savepoint:
            owner.store.stopped_with = completed.checkpoint_id
            self._finish_savepoint(completed)
            return
        subsumed, discards = owner.store.add(completed)
        owner.force_full_snapshot = False
        owner.discard(discards, "CheckpointSubsumed")
        gone = subsumed is not None and subsumed.properties.discard_subsumed
        self._finish(subsumed.checkpoint_id if subsumed is not None and gone else NO_CHECKPOINT)

    def _being_stored(self, checkpoint_id: int) -> CompletedCheckpoint | None:
        completed = self.completed
        return completed if completed is not None and completed.checkpoint_id == checkpoint_id else None

    def _end_after_shutdown(self, completed: CompletedCheckpoint) -> None:
        owner = self._coordinator
        checkpoint = self._pop()
        why = CheckpointException(CheckpointFailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN)
        if completed.should_be_discarded_at(owner.job_status):
            owner.discard([completed.discard()])
        owner.statistics.failed(checkpoint.stats, owner.context.at, str(why))
        owner.answer_with_error(checkpoint.request, why)

    def _pop(self) -> PendingCheckpoint:
        """The first of the queue has come to its end."""
        checkpoint = self.queue.popleft()
        self.completed = None
        del self._coordinator.pending[checkpoint.checkpoint_id]
        return checkpoint

    def _finish(self, last_subsumed_id: int) -> None:
        owner, completed = self._coordinator, self.completed
        assert completed is not None
        checkpoint = self._pop()
        checkpoint_id = completed.checkpoint_id
        owner.remember_completed(checkpoint_id)
        owner.failure_manager.handle_success(checkpoint_id)
        owner.statistics.completed(checkpoint.stats, owner.context.at, completed.location, self._metadata_size)
        owner.last_completion_ms = owner.context.at
        owner.note(
            "CheckpointCompleted",
            checkpoint_id,
            snapshot=completed.properties.snapshot_type.name,
            size_bytes=completed.state_size,
            duration_ms=owner.context.at - completed.timestamp_ms,
            subsumed=None if last_subsumed_id == NO_CHECKPOINT else last_subsumed_id,
        )
        if checkpoint.request.request_id is not None:
            owner.context.emit(
                CompleteRequest(
                    request_id=checkpoint.request.request_id, checkpoint_id=checkpoint_id, path=completed.location
                )
            )
        if not completed.properties.is_savepoint or completed.properties.is_synchronous:
            owner.drop_subsumed(checkpoint_id)
            self._notify(checkpoint, last_subsumed_id)
            owner.tasks_leave(checkpoint)
        owner.execute_queued_request_later()
        self.begin_next()

    def _notify(self, checkpoint: PendingCheckpoint, last_subsumed_id: int) -> None:
        context = self._coordinator.context
        for task in checkpoint.plan.tasks_to_commit_to:
            context.emit(
                NotifyCheckpointComplete(
                    task=task.task,
                    attempt=checkpoint.plan.attempt,
                    checkpoint_id=checkpoint.checkpoint_id,
                    timestamp_ms=checkpoint.timestamp_ms,
                    last_subsumed_id=last_subsumed_id,
                )
            )
        context.coordinators.notify_complete(checkpoint.checkpoint_id)

    def on_store_failed(self, event: CheckpointStoreFailed) -> None:
        """The checkpoint could not be stored, or nobody knows: then its files must stay, and what sinks staged too, so
        the tasks are not told that it was aborted (Flink tells them; its sinks keep what they staged).
        """
        owner = self._coordinator
        completed = self._being_stored(event.checkpoint_id)
        if completed is None:
            return
        checkpoint = self._pop()
        why = _finalize_failure(event.error)
        checkpoint.failure = why
        owner.note_aborted(checkpoint, why)
        owner.answer_with_error(checkpoint.request, why)
        if event.possibly_inconsistent:
            owner.remember_completed(checkpoint.checkpoint_id)
            if completed.properties.is_synchronous:  # its tasks wait to be told, and cannot be
                owner.fail_job(str(why), checkpoint.checkpoint_id)
        else:
            owner.discard([completed.discard()])
            owner.send_aborted(checkpoint)
        owner.report_failure(checkpoint, why)
        owner.execute_queued_request_later()
        self.begin_next()

    def forget(self, checkpoint: PendingCheckpoint) -> bool:
        """The checkpoint was aborted. True when its metadata is still being written: then its files are discarded once
        that has ended, lest a `_metadata` be found whose files are gone.
        """
        if checkpoint not in self.queue:
            return False
        writing = self.metadata is not None and self.metadata.checkpoint_id == checkpoint.checkpoint_id
        self.queue.remove(checkpoint)
        if writing:
            self.metadata = None
            self._aborted[checkpoint.checkpoint_id] = checkpoint
        return writing

    def _discard_aborted(self, checkpoint_id: int, metadata: Iterable[str]) -> bool:
        checkpoint = self._aborted.pop(checkpoint_id, None)
        if checkpoint is None:
            return False
        paths = (*metadata, *checkpoint.files_to_discard())
        self._coordinator.clean(DiscardState(paths=paths, location=checkpoint.location, checkpoint_id=checkpoint_id))
        return True

    def validate(self) -> None:
        """Check that what is being completed is pending and acked by all; raises AssertionError."""
        pending = self._coordinator.pending
        for number, checkpoint in enumerate(self.queue):
            storing = number == 0 and self.completed is not None
            assert pending.get(checkpoint.checkpoint_id) is checkpoint, f"{checkpoint!r} completes but is not pending"
            assert not checkpoint.not_yet_acked_tasks, f"{checkpoint!r} completes without all acks"
            assert checkpoint.is_disposed == storing, f"{checkpoint!r} is disposed at the wrong time"
        assert not (self.metadata and self.completed), "two checkpoints complete at once"
        assert self.queue or not (self.metadata or self.completed), "something completes that is not in the queue"

    def __repr__(self) -> str:
        return f"CheckpointCompletion({[checkpoint.checkpoint_id for checkpoint in self.queue]})"


def _finalize_failure(detail: str) -> CheckpointException:
    return CheckpointException(CheckpointFailureReason.FINALIZE_CHECKPOINT_FAILURE, detail)

"""A task's own side of a checkpoint: from "take it now" to the acknowledgement.

`checkpoint_state` is one atomic step as far as records and barriers are concerned, in this order:

0. an id not above the last one is dropped; an id that was aborted meanwhile is answered with a cancel marker;
1. operators emit what must still come before the barrier;
2. the barrier goes out, before anything slow;
3. every operator, from the chain's tail to its head, puts its state into the backends, which copy it;
4. the host writes these copies in the background (`WriteSnapshot`), and only then does the task acknowledge.

An abort notice before step 0 is remembered; one during step 4 cancels the writing. Either way nothing of the snapshot
is left behind: what the host has written by then it removes.

Follows Flink's `SubtaskCheckpointCoordinatorImpl` and `AsyncCheckpointRunnable`, whose states are the table below.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol

from kit.protocol.commands import CancelSnapshot, WriteSnapshot
from kit.protocol.elements import CancelCheckpointMarker, CheckpointBarrier, Element
from kit.protocol.events import SnapshotFailed, SnapshotWritten
from kit.protocol.messages import AcknowledgeCheckpoint, CheckpointMetrics, DeclineCheckpoint, ReportCheckpointMetrics
from kit.protocol.reasons import CheckpointFailureReason
from kit.protocol.words import Word
from kit.state.operator_state import TaskStateSnapshot
from kit.task.chain import OperatorChain

MAX_REMEMBERED_ABORTS = 10_000


class AsyncState(Enum):
    """Where the asynchronous part of a snapshot stands (`AsyncCheckpointState`)."""

    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    DISCARDED = "DISCARDED"


@dataclass(frozen=True, slots=True)
class Finished:
    """How much of a task is over: its operators have seen all input, or had already before it was restored."""

    operators: bool = False
    on_restore: bool = False


@dataclass(slots=True)
class AsyncCheckpoint:
    """A snapshot whose synchronous part is done: what is still to be known before it can be acknowledged."""

    checkpoint_id: int
    metrics: CheckpointMetrics
    started_ms: int
    finished: Finished
    state: AsyncState = AsyncState.RUNNING


class TaskActions(Protocol):
    """What the coordinator needs of its task."""

    name: str
    attempt: int
    job_id: str
    subtask: int

    @property
    def at(self) -> int:
        """The host's time in ms."""

    def emit(self, word: Word) -> None:
        """Give a command."""

    def broadcast(self, element: Element) -> None:
        """Send an event to every output."""


class SubtaskCheckpointCoordinator:
    """Takes, reports and gives up the checkpoints of one task."""

    def __init__(self, task: TaskActions) -> None:
        self._task = task
        self.last_checkpoint_id = -1
        self._aborted: set[int] = set()
        self._last_aborted_id = -1
        self._running: dict[int, AsyncCheckpoint] = {}

    @property
    def running(self) -> tuple[AsyncCheckpoint, ...]:
        """The snapshots being written at present."""
        return tuple(self._running.values())

    # --- taking a checkpoint --------------------------------------------------------------------------------------

    def checkpoint_state(
        self, barrier: CheckpointBarrier, metrics: CheckpointMetrics, chain: OperatorChain, finished: Finished
    ) -> None:
        """Take the checkpoint of `barrier` (see the module's text for the order)."""
        checkpoint_id = barrier.checkpoint_id
        if checkpoint_id <= self.last_checkpoint_id:
            self._aborted.discard(checkpoint_id)
            return
        self.last_checkpoint_id = checkpoint_id
        if self._was_aborted(checkpoint_id):
            self._task.broadcast(CancelCheckpointMarker(checkpoint_id))
            return
        barrier = replace(barrier, options=barrier.options.with_unaligned_supported())
        chain.prepare_snapshot_pre_barrier(checkpoint_id)
        self._task.broadcast(barrier)
        snapshot = chain.snapshot(checkpoint_id)
        self._running[checkpoint_id] = AsyncCheckpoint(checkpoint_id, metrics, self._task.at, finished)
        self._task.emit(
            WriteSnapshot(
                checkpoint_id=checkpoint_id,
                location=barrier.options.location,
                subtask=self._task.subtask,
                parts=snapshot.parts,
                effects=snapshot.effects,
            )
        )

    def snapshot_written(self, event: SnapshotWritten) -> None:
        """The background part is done: acknowledge, unless the checkpoint was aborted meanwhile."""
        running = self._running.pop(event.checkpoint_id, None)
        if running is None:
            return
        running.state = AsyncState.COMPLETED
        metrics = replace(
            running.metrics,
            sync_ms=event.sync_ms,
            async_ms=max(0, self._task.at - running.started_ms),
            bytes_persisted=event.bytes_written,
            total_bytes_persisted=event.state.state_size,
        )
        state = replace(
            event.state,
            is_task_finished=running.finished.operators,
            is_task_deployed_as_finished=running.finished.on_restore,
        )
        self._task.emit(
            AcknowledgeCheckpoint(
                task=self._task.name,
                attempt=self._task.attempt,
                job_id=self._task.job_id,
                checkpoint_id=event.checkpoint_id,
                metrics=metrics,
                state=state if _has_something_to_say(state) else None,
            )
        )

    def snapshot_failed(self, event: SnapshotFailed) -> None:
        """The background part failed: decline, unless the checkpoint was aborted meanwhile."""
        running = self._running.pop(event.checkpoint_id, None)
        if running is None:
            return
        running.state = AsyncState.DISCARDED
        self.decline(event.checkpoint_id, CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION, event.error)

    def decline(self, checkpoint_id: int, reason: CheckpointFailureReason, detail: str = "") -> None:
        """Tell the coordinator that this task gives nothing to the checkpoint."""
        self._task.emit(
            DeclineCheckpoint(
                task=self._task.name,
                attempt=self._task.attempt,
                job_id=self._task.job_id,
                checkpoint_id=checkpoint_id,
                reason=reason,
                detail=detail,
            )
        )

    # --- giving a checkpoint up -----------------------------------------------------------------------------------

    def abort_checkpoint_on_barrier(self, checkpoint_id: int, reason: CheckpointFailureReason, detail: str) -> None:
        """The barriers say that the checkpoint cannot be taken: decline it and tell those downstream."""
        self.last_checkpoint_id = max(self.last_checkpoint_id, checkpoint_id)
        self._forget_aborts(self.last_checkpoint_id)
        self.decline(checkpoint_id, reason, detail)
        self._task.broadcast(CancelCheckpointMarker(checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int, chain: OperatorChain) -> None:
        """The coordinator says that the checkpoint is dead: cancel it, or remember not to begin it."""
        running = self._running.pop(checkpoint_id, None)
        if running is not None:
            running.state = AsyncState.DISCARDED
            self._task.emit(CancelSnapshot(checkpoint_id=checkpoint_id))
            self._report_aborted(running)
        elif checkpoint_id > self.last_checkpoint_id:
            self._remember_abort(checkpoint_id)
        chain.notify_checkpoint_aborted(checkpoint_id)

    def notify_checkpoint_complete(self, checkpoint_id: int, chain: OperatorChain) -> None:
        """The coordinator says that the checkpoint is stored for good."""
        chain.notify_checkpoint_complete(checkpoint_id)

    def cancel_all(self) -> None:
        """The task leaves: nothing is to be written for it any more."""
        for checkpoint_id in list(self._running):
            self._running.pop(checkpoint_id).state = AsyncState.DISCARDED
            self._task.emit(CancelSnapshot(checkpoint_id=checkpoint_id))

    def _report_aborted(self, running: AsyncCheckpoint) -> None:
        self._task.emit(
            ReportCheckpointMetrics(
                task=self._task.name,
                attempt=self._task.attempt,
                job_id=self._task.job_id,
                checkpoint_id=running.checkpoint_id,
                metrics=running.metrics,
            )
        )

    def _was_aborted(self, checkpoint_id: int) -> bool:
        aborted = checkpoint_id in self._aborted or checkpoint_id + MAX_REMEMBERED_ABORTS < self._last_aborted_id
        self._forget_aborts(checkpoint_id)
        return aborted

    def _forget_aborts(self, up_to: int) -> None:
        self._aborted = {aborted for aborted in self._aborted if aborted > up_to}

    def _remember_abort(self, checkpoint_id: int) -> None:
        self._aborted.add(checkpoint_id)
        self._last_aborted_id = max(self._last_aborted_id, checkpoint_id)
        if len(self._aborted) > MAX_REMEMBERED_ABORTS:
            self._aborted.discard(min(self._aborted))

    def validate(self) -> None:
        """Whatever is being written was begun; whatever is remembered as aborted was not."""
        assert all(running <= self.last_checkpoint_id for running in self._running), (
            "a snapshot ran ahead of its barrier"
        )
        assert all(aborted > self.last_checkpoint_id for aborted in self._aborted), "an old abort is still remembered"

    def __repr__(self) -> str:
        return f"SubtaskCheckpointCoordinator(last {self.last_checkpoint_id}, {len(self._running)} being written)"


def _has_something_to_say(state: TaskStateSnapshot) -> bool:
    return state.has_state() or state.is_task_finished or state.is_task_deployed_as_finished

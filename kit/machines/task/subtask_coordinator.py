"""A task's side of a checkpoint: from the trigger to the acknowledgement.

`checkpoint_state` is one atomic step for records and barriers. It does the following, in this order:

0. Drop an id that is not above the last one, and answer an id that was aborted meanwhile with a cancel marker. Turn a
   checkpoint that some edge forced to stay aligned unaligned again.
1. Let operators emit what must still come before the barrier.
2. Send the barrier, before anything slow. An unaligned barrier overtakes what is queued.
3. Set the timer of a barrier that may still time out. When it fires, waiting barriers overtake as well.
4. End the in-flight data of the outputs (that of the inputs ends with their last barrier).
5. Let every operator, from the chain's tail to its head, put its state into the backends, which copy it. If one is
   closed and others are not, decline instead (1.11; in 2.x no checkpoint comes in between).
6. Let the host write these copies in the background (`WriteSnapshot`), in parallel with the in-flight data (the channel
   state writer). The task acknowledges only when both are written. The inputs' in-flight data is then state of the head
   of the chain, and the outputs' of its tail.

An abort notice before step 0 is remembered; one during step 6 cancels the writing. In both cases nothing of the
snapshot is left: the host deletes what it has written.

Follows Flink's `SubtaskCheckpointCoordinatorImpl` and `AsyncCheckpointRunnable`, whose states are the table below.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain as chained
from typing import ClassVar, Protocol

from kit.core.protocol.commands import CancelSnapshot, CancelTimer, DiscardSnapshot, ScheduleTimer, WriteSnapshot
from kit.core.protocol.elements import CancelCheckpointMarker, CheckpointBarrier
from kit.core.protocol.events import SnapshotFailed, SnapshotWritten
from kit.core.protocol.messages import (
    AcknowledgeCheckpoint,
    ChannelStateFailed,
    ChannelStateWritten,
    DeclineCheckpoint,
    ReportCheckpointMetrics,
)
from kit.core.protocol.options import AlignmentType, CheckpointOptions
from kit.core.protocol.reasons import CheckpointException, CheckpointFailureReason
from kit.core.protocol.snapshots import Effect
from kit.core.protocol.words import ProtocolMessage
from kit.core.state.operator_state import EMPTY_SUBTASK_STATE, TaskStateSnapshot
from kit.machines.channel.channel_state.channel_state_writer import ChannelStateWriter, ChannelStateWriteResult
from kit.machines.task.chain import OperatorChain
from kit.machines.task.checkpoint_metrics import CheckpointMetricsBuilder
from kit.machines.task.task_outputs import TaskOutputs

MAX_REMEMBERED_ABORTS = 10_000
OUTPUT_ALIGNMENT_TIMER = "output-alignment-timeout"
ABORT_NOTICE = "it was aborted by the coordinator"
WriteAnswer = SnapshotWritten | SnapshotFailed | ChannelStateWritten | ChannelStateFailed
"""The host's answers about the asynchronous part."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The part of a task that is over: its operators have seen all input, or had already before it was restored."""

    operators: bool = False
    on_restore: bool = False


@dataclass(slots=True)
class AsyncCheckpoint:
    """A snapshot whose synchronous part is done, and what must still arrive before it can be acknowledged.

    Follows Flink's `AsyncCheckpointRunnable`, without its thread. Of Flink's `AsyncCheckpointState` it corresponds to
    `AsyncCheckpointState.RUNNING` while it exists, to `AsyncCheckpointState.COMPLETED` with its report, and to
    `AsyncCheckpointState.DISCARDED` once it is discarded.
    """

    without_effect: ClassVar = frozenset({"metrics", "started_ms"})

    checkpoint_id: int
    metrics: CheckpointMetricsBuilder
    started_ms: int
    finished: Finished
    channels: ChannelStateWriteResult
    head: str
    """The head's operator id; "" in a task without operators of its own (restored as finished)."""
    tail: str
    effects: tuple[Effect, ...]
    written: SnapshotWritten | None = None

    @property
    def complete(self) -> bool:
        """True if all of it is written."""
        return self.written is not None and self.channels.done and self.channels.error is None


class TaskActions(Protocol):
    """The calls of the coordinator to its task."""

    name: str
    display_name: str
    attempt: int
    job_id: str
    subtask: int
    outputs: TaskOutputs
    channel_state: ChannelStateWriter

    @property
    def at(self) -> int:
        """The host's time in ms."""

    def emit(self, word: ProtocolMessage) -> None:
        """Give a command."""


class SubtaskCheckpointCoordinator:
    """The component that takes, reports and aborts the checkpoints of one task.

    `last_checkpoint_id` is Flink's `lastCheckpointId`. Follows Flink's `SubtaskCheckpointCoordinator` and
    `SubtaskCheckpointCoordinatorImpl`.
    """

    def __init__(self, task: TaskActions, *, may_hold_channel_state: bool) -> None:
        """Initialize; `may_hold_channel_state` says that the job's settings allow unaligned checkpoints."""
        self._task = task
        self._may_hold_channel_state = may_hold_channel_state
        self.last_checkpoint_id = -1
        self._aborted: set[int] = set()
        self._last_aborted_id = -1
        self._running: dict[int, AsyncCheckpoint] = {}
        self._open_inputs: set[int] = set()
        """The checkpoints whose in-flight input data is still arriving."""
        self._timed: int | None = None
        """The checkpoint that the alignment timer is set for."""

    @property
    def running(self) -> tuple[AsyncCheckpoint, ...]:
        """The snapshots that are being written."""
        return tuple(self._running.values())

    # --- taking a checkpoint --------------------------------------------------------------------------------------

    def init_inputs_checkpoint(self, checkpoint_id: int, options: CheckpointOptions) -> None:
        """Start adding in-flight data of the inputs to the checkpoint, whose first barrier has come.

        Flink: `initInputsCheckpoint`.
        """
        if not options.needs_channel_state:
            return
        self._task.channel_state.start(checkpoint_id, options)
        self._open_inputs.add(checkpoint_id)
        if not options.is_unaligned:
            self.all_barriers_received(checkpoint_id)

    def all_barriers_received(self, checkpoint_id: int) -> None:
        """End the in-flight data of the inputs: the last barrier has come, or there are no inputs."""
        if checkpoint_id in self._open_inputs:
            self._open_inputs.remove(checkpoint_id)
            self._task.channel_state.finish_input(checkpoint_id)

    def will_start(self, checkpoint_id: int) -> bool:
        """Return False if `checkpoint_state` would drop the checkpoint: it was aborted, or a later one was taken."""
        return checkpoint_id > self.last_checkpoint_id and not self._is_aborted(checkpoint_id)

    def checkpoint_state(
        self, barrier: CheckpointBarrier, metrics: CheckpointMetricsBuilder, chain: OperatorChain, finished: Finished
    ) -> None:
        """Take the checkpoint of `barrier` (see the module's text for the order).

        Flink: `SubtaskCheckpointCoordinatorImpl.checkpointState`.
        """
        checkpoint_id = barrier.checkpoint_id
        if checkpoint_id <= self.last_checkpoint_id:
            self._aborted.discard(checkpoint_id)
            self._abort_channel_state(checkpoint_id, "its barrier came out of order", clean_up=True)
            return
        self.last_checkpoint_id = checkpoint_id
        if self._was_aborted(checkpoint_id):
            self._task.outputs.broadcast(CancelCheckpointMarker(checkpoint_id))
            self._abort_channel_state(checkpoint_id, ABORT_NOTICE, clean_up=True)
            return
        if barrier.options.alignment is AlignmentType.FORCED_ALIGNED:
            barrier = replace(barrier, options=barrier.options.with_unaligned_supported())
            self.init_inputs_checkpoint(checkpoint_id, barrier.options)
            self.all_barriers_received(checkpoint_id)
        chain.prepare_snapshot_pre_barrier(checkpoint_id)
        self._task.outputs.broadcast(barrier)
        self._set_alignment_timer(barrier)
        if chain.partly_closed:
            why = f"{chain.partly_closed[0].name} is closed"
            self._abort_channel_state(checkpoint_id, why, clean_up=True)
            self.decline(checkpoint_id, CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_CLOSING, why)
            return
        try:
            self._take_snapshot(barrier, metrics, chain, finished)
        except Exception as error:
            self._abort_channel_state(checkpoint_id, f"its snapshot failed: {error}", clean_up=True)
            raise

    def _take_snapshot(
        self, barrier: CheckpointBarrier, metrics: CheckpointMetricsBuilder, chain: OperatorChain, finished: Finished
    ) -> None:
        """Copy the operators' state, and have the copies written.

        Flink: `takeSnapshotSync`, and with the command to write `finishAndReportAsync`.
        """
        checkpoint_id = barrier.checkpoint_id
        channels = ChannelStateWriteResult.empty()
        if barrier.options.needs_channel_state:
            self._task.channel_state.finish_output(checkpoint_id)
            channels = self._task.channel_state.take_result(checkpoint_id)
        snapshot = chain.snapshot(checkpoint_id, barrier.options.snapshot_type.sharing)
        self._running[checkpoint_id] = AsyncCheckpoint(
            checkpoint_id, metrics, self._task.at, finished, channels, chain.head_id, chain.tail_id, snapshot.effects
        )
        self._task.emit(
            WriteSnapshot(
                checkpoint_id=checkpoint_id,
                location=barrier.options.location,
                subtask=self._task.subtask,
                parts=snapshot.parts,
                effects=snapshot.effects,
            )
        )

    def _set_alignment_timer(self, barrier: CheckpointBarrier) -> None:
        """Set the timer after which barriers in an output turn unaligned. Flink: `registerAlignmentTimer`."""
        self._cancel_alignment_timer()
        if barrier.options.is_timeoutable:
            due_ms = max(self._task.at, barrier.timestamp_ms + barrier.options.aligned_timeout_ms)
            self._task.emit(ScheduleTimer(timer=OUTPUT_ALIGNMENT_TIMER, due_ms=due_ms))
            self._timed = barrier.checkpoint_id

    def _cancel_alignment_timer(self) -> None:
        if self._timed is not None:
            self._task.emit(CancelTimer(timer=OUTPUT_ALIGNMENT_TIMER))
            self._timed = None

    def aligned_barrier_timeout(self) -> None:
        """Turn barriers that still wait in an output unaligned, because the alignment timer fired."""
        if self._timed is not None:
            checkpoint_id, self._timed = self._timed, None
            self._task.outputs.aligned_barrier_timeout(checkpoint_id)

    # --- the asynchronous part ------------------------------------------------------------------------------------

    def take_answer(self, event: WriteAnswer) -> None:
        """Handle the outcome of writing state or in-flight data.

        The host has deleted what was written for a checkpoint that was aborted meanwhile.
        """
        if isinstance(event, ChannelStateWritten):
            self._task.channel_state.written(event)
        elif isinstance(event, ChannelStateFailed):
            self._task.channel_state.failed(event)
        running = self._running.get(event.checkpoint_id)
        if running is None:
            return
        if isinstance(event, ChannelStateWritten | ChannelStateFailed):
            self._look_at_channels(running)
        elif isinstance(event, SnapshotWritten):
            running.written = event
            self._report_when_complete(running)
        else:
            self._discard(running)
            self._abort_channel_state(event.checkpoint_id, event.error, clean_up=False)
            why = CheckpointException(event.reason, event.error, event.may_pass)
            self._decline_unwritten(event.checkpoint_id, why)

    def _look_at_channels(self, running: AsyncCheckpoint) -> None:
        checkpoint_id, error = running.checkpoint_id, running.channels.error
        if error is None:
            self._report_when_complete(running)
            return
        self._discard(running)
        if not isinstance(error, CheckpointException):
            error = CheckpointException(CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION, str(error))
        self._decline_unwritten(checkpoint_id, error)

    def _decline_unwritten(self, checkpoint_id: int, why: CheckpointException) -> None:
        """Decline after a failed asynchronous part. Flink: `AsyncCheckpointRunnable.handleExecutionException`."""
        what = f"Could not materialize checkpoint {checkpoint_id} for operator {self._task.display_name}"
        self.decline(checkpoint_id, why.reason, f"{what}: {why.detail}", may_pass=why.may_pass)

    def _report_when_complete(self, running: AsyncCheckpoint) -> None:
        """Acknowledge, once everything is written.

        Flink: `reportCompletedSnapshotStates`, and `TaskStateManager.reportTaskStateSnapshots`.
        """
        if not running.complete:
            return
        del self._running[running.checkpoint_id]
        state = _reported_state(running)
        assert running.written is not None
        metrics = running.metrics
        metrics.sync_ms = running.written.sync_ms
        metrics.async_ms = max(0, self._task.at - running.started_ms)
        metrics.bytes_persisted_during_alignment = running.channels.size_bytes
        metrics.bytes_persisted = running.written.bytes_written + running.channels.size_bytes
        metrics.total_bytes_persisted = state.state_size
        self._task.emit(
            AcknowledgeCheckpoint(
                task=self._task.name,
                attempt=self._task.attempt,
                job_id=self._task.job_id,
                checkpoint_id=running.checkpoint_id,
                metrics=metrics.build(),
                state=state if state.has_state() or state.is_task_finished else None,
            )
        )

    def _discard(self, running: AsyncCheckpoint) -> None:
        """Cancel a running write, and have what was written deleted. Flink: `cancelAsyncCheckpointRunnable`."""
        del self._running[running.checkpoint_id]
        self._open_inputs.discard(running.checkpoint_id)
        if running.written is None:
            self._task.emit(CancelSnapshot(checkpoint_id=running.checkpoint_id))
        written = () if running.written is None else (running.written.state,)
        handles = (*written, *running.channels.input_handles, *running.channels.output_handles)
        files = tuple(chained.from_iterable(handle.files() for handle in handles))
        effects = running.effects if written else ()
        if files or effects:
            self._task.emit(DiscardSnapshot(paths=files, effects=effects))

    def _abort_channel_state(self, checkpoint_id: int, why: str, *, clean_up: bool) -> None:
        """Abort the checkpoint's in-flight data; with `clean_up` its result will not be taken either."""
        self._open_inputs.discard(checkpoint_id)
        if self._may_hold_channel_state:
            cause = CheckpointException(CheckpointFailureReason.CHECKPOINT_DECLINED, why)
            self._task.channel_state.abort(checkpoint_id, cause, clean_up)

    def decline(
        self, checkpoint_id: int, reason: CheckpointFailureReason, detail: str = "", *, may_pass: bool = False
    ) -> None:
        """Tell the coordinator that this task takes no snapshot for the checkpoint.

        Flink: `CheckpointResponder.declineCheckpoint`.
        """
        self._task.emit(
            DeclineCheckpoint(
                task=self._task.name,
                attempt=self._task.attempt,
                job_id=self._task.job_id,
                checkpoint_id=checkpoint_id,
                reason=reason,
                detail=detail,
                may_pass=may_pass,
            )
        )

    # --- aborting a checkpoint ------------------------------------------------------------------------------------

    def abort_checkpoint_on_barrier(self, checkpoint_id: int, reason: CheckpointFailureReason, detail: str) -> None:
        """Decline a checkpoint that cannot be taken because of its barriers, and notify the tasks downstream.

        An unaligned checkpoint has started with its first barrier: what is being written of it is aborted. Flink lets
        it fail by itself, and declines a second time.

        Flink: `abortCheckpointOnBarrier`. Its `clearCacheFor` has no counterpart: the location of a checkpoint's files
        travels with its barrier.
        """
        self.last_checkpoint_id = max(self.last_checkpoint_id, checkpoint_id)
        self._forget_aborts(self.last_checkpoint_id)
        running = self._running.get(checkpoint_id)
        if running is not None:
            self._discard(running)
        self._abort_channel_state(checkpoint_id, detail, clean_up=True)
        self.decline(checkpoint_id, reason, detail)
        if checkpoint_id == self._timed:
            self._cancel_alignment_timer()
        self._task.outputs.abort_checkpoint(checkpoint_id, CheckpointException(reason, detail))
        self._task.outputs.broadcast(CancelCheckpointMarker(checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int, chain: OperatorChain) -> None:
        """Cancel a checkpoint that the coordinator aborted, or remember not to start it.

        Flink: `SubtaskCheckpointCoordinatorImpl.notifyCheckpointAborted`.
        """
        running = self._running.get(checkpoint_id)
        if running is not None:
            self._discard(running)
            self._report_aborted(running)
        elif checkpoint_id > self.last_checkpoint_id:
            self._remember_abort(checkpoint_id)
        self._abort_channel_state(checkpoint_id, ABORT_NOTICE, clean_up=False)
        chain.notify_checkpoint_aborted(checkpoint_id)

    def close(self) -> None:
        """Discard all running writes, because the task leaves."""
        self._cancel_alignment_timer()
        for running in list(self._running.values()):
            self._discard(running)
        self._open_inputs.clear()
        self._task.outputs.release()
        if self._may_hold_channel_state:
            self._task.channel_state.close()

    def _report_aborted(self, running: AsyncCheckpoint) -> None:
        self._task.emit(
            ReportCheckpointMetrics(
                task=self._task.name,
                attempt=self._task.attempt,
                job_id=self._task.job_id,
                checkpoint_id=running.checkpoint_id,
                metrics=running.metrics.build_incomplete(),
            )
        )

    def _was_aborted(self, checkpoint_id: int) -> bool:
        """Return True if the checkpoint was aborted before it started here; older aborts are forgotten.

        Flink: `checkAndClearAbortedStatus`.
        """
        aborted = self._is_aborted(checkpoint_id)
        self._forget_aborts(checkpoint_id)
        return aborted

    def _is_aborted(self, checkpoint_id: int) -> bool:
        return checkpoint_id in self._aborted or checkpoint_id + MAX_REMEMBERED_ABORTS < self._last_aborted_id

    def _forget_aborts(self, up_to: int) -> None:
        self._aborted = {aborted for aborted in self._aborted if aborted > up_to}

    def _remember_abort(self, checkpoint_id: int) -> None:
        """Remember not to start this checkpoint later. Flink: `abortedCheckpointIds`."""
        self._aborted.add(checkpoint_id)
        self._last_aborted_id = max(self._last_aborted_id, checkpoint_id)
        if len(self._aborted) > MAX_REMEMBERED_ABORTS:
            self._aborted.discard(min(self._aborted))

    def validate(self) -> None:
        """Check that every snapshot being written has started, and that every remembered abort has not."""
        assert all(running <= self.last_checkpoint_id for running in self._running), (
            "a snapshot ran ahead of its barrier"
        )
        assert all(aborted > self.last_checkpoint_id for aborted in self._aborted), "an old abort is still remembered"

    def __repr__(self) -> str:
        return f"SubtaskCheckpointCoordinator(last {self.last_checkpoint_id}, {len(self._running)} being written)"


def _reported_state(running: AsyncCheckpoint) -> TaskStateSnapshot:
    """Return the state to acknowledge: the operators', with the in-flight data at the two ends of the chain.

    A task that was restored as finished has no operators; what reaches it is sent again after a restore.

    Flink: `setInputChannelStateFuture` and `setResultSubpartitionStateFuture`.
    """
    assert running.written is not None
    states = dict(running.written.state.subtask_states)
    channels = ChannelStateWriteResult.empty() if running.finished.on_restore else running.channels
    if channels.input_handles:
        head = states.get(running.head, EMPTY_SUBTASK_STATE)
        states[running.head] = replace(head, input_channel_state=channels.input_handles)
    if channels.output_handles:
        tail = states.get(running.tail, EMPTY_SUBTASK_STATE)
        states[running.tail] = replace(tail, result_subpartition_state=channels.output_handles)
    return TaskStateSnapshot(
        states,
        is_task_finished=running.finished.operators,
        is_task_deployed_as_finished=running.finished.on_restore,
    )

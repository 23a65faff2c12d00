"""Exactly once: one checkpoint at a time, whose barriers are aligned, or overtake.

The handler knows which checkpoint is pending and which channels have delivered its barrier. Its state
(`kit.machines.task.barrier_states`) decides what that means for the channels, and when the checkpoint is taken. A newer
barrier aborts the pending checkpoint (CHECKPOINT_DECLINED_SUBSUMED), and so does a cancel marker
(..._ON_CANCELLATION_BARRIER). A channel that ends counts as having delivered its barrier.

The time limit of an alignment is enforced twice. Actively: a timer of the host starts with the first barrier or
announcement. Passively: an element taken from a channel after the limit has the same effect as the timer.

Follows Flink's `SingleCheckpointBarrierHandler` and `BarrierAlignmentUtil`. One improvement: a cancel marker also
aborts a checkpoint that has only been announced; Flink keeps such a checkpoint until the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kit.core.protocol.elements import CancelCheckpointMarker, CheckpointBarrier
from kit.core.protocol.notes import (
    AlignmentTimedOut,
    BarrierAligned,
    BarrierAnnounced,
    BarrierCounted,
    BarrierIgnored,
    BarrierPrioritized,
    BarrierTaken,
    EndCounted,
)
from kit.core.protocol.reasons import CheckpointException, CheckpointFailureReason
from kit.core.protocol.words import ProtocolError
from kit.machines.channel.input_channel import InputChannel
from kit.machines.channel.input_gate import InputGates
from kit.machines.task.barrier_handler import NO_CHECKPOINT, BarrierActions, CheckpointBarrierHandler
from kit.machines.task.barrier_states import (
    TRANSITIONS,
    AlternatingWaitingForFirstBarrier,
    AlternatingWaitingForFirstBarrierUnaligned,
    BarrierEvent,
    BarrierHandlerState,
    ChannelState,
    WaitingForFirstBarrier,
)


class AlignmentTimer(NamedTuple):
    """A running time limit."""

    barrier: CheckpointBarrier
    due_ms: int


def alignment_due_ms(barrier: CheckpointBarrier, at: int) -> int:
    """Return when the alignment of this barrier, first seen at `at`, times out (`getTimerDelay`)."""
    return max(at, barrier.timestamp_ms + barrier.options.aligned_timeout_ms)


class SingleCheckpointBarrierHandler(CheckpointBarrierHandler):
    """The handler of one checkpoint's barriers at a time; created by `aligned`, `unaligned` or `alternating`."""

    def __init__(
        self,
        gates: InputGates,
        actions: BarrierActions,
        home: type[BarrierHandlerState],
        *,
        checkpoints_after_tasks_finish: bool,
    ) -> None:
        super().__init__(gates, actions, checkpoints_after_tasks_finish=checkpoints_after_tasks_finish)
        self.current_checkpoint_id = NO_CHECKPOINT
        self.state: BarrierHandlerState = home(ChannelState(gates, home, self._note_prioritized))
        self._alternating = home is AlternatingWaitingForFirstBarrier
        self._pending_barrier: CheckpointBarrier | None = None
        self._aligned: set[int] = set()
        self._target_count = 0
        self._collecting = False
        """True while barriers are missing; False only after the task has been notified that all have come."""
        self._timer: AlignmentTimer | None = None

    @classmethod
    def aligned(
        cls, gates: InputGates, actions: BarrierActions, *, checkpoints_after_tasks_finish: bool = True
    ) -> SingleCheckpointBarrierHandler:
        """Create a handler that aligns, without a time limit. Flink 1.11: `CheckpointBarrierAligner`."""
        return cls(
            gates, actions, WaitingForFirstBarrier, checkpoints_after_tasks_finish=checkpoints_after_tasks_finish
        )

    @classmethod
    def unaligned(
        cls, gates: InputGates, actions: BarrierActions, *, checkpoints_after_tasks_finish: bool = True
    ) -> SingleCheckpointBarrierHandler:
        """Create a handler that never aligns. It cannot take savepoints, so jobs use `alternating` instead.

        Flink 1.11: `CheckpointBarrierUnaligner`.
        """
        return cls(
            gates,
            actions,
            AlternatingWaitingForFirstBarrierUnaligned,
            checkpoints_after_tasks_finish=checkpoints_after_tasks_finish,
        )

    @classmethod
    def alternating(
        cls, gates: InputGates, actions: BarrierActions, *, checkpoints_after_tasks_finish: bool = True
    ) -> SingleCheckpointBarrierHandler:
        """Create a handler that obeys each checkpoint's barriers: align, overtake, or align for a limited time.

        Flink 1.11: `AlternatingCheckpointBarrierHandler`.
        """
        return cls(
            gates,
            actions,
            AlternatingWaitingForFirstBarrier,
            checkpoints_after_tasks_finish=checkpoints_after_tasks_finish,
        )

    # --- events ---------------------------------------------------------------------------------------------------

    def process_barrier(self, barrier: CheckpointBarrier, channel: InputChannel, *, is_rpc: bool = False) -> None:
        """Start or continue a checkpoint; barriers of older or finished ones are dropped."""
        if self._is_over(barrier.checkpoint_id):
            if barrier.options.needs_alignment and not is_rpc:
                self._gates.resume([channel])
            self._actions.note_barrier(BarrierIgnored(checkpoint_id=barrier.checkpoint_id, channel=channel.number))
            return
        self._check_new_checkpoint(barrier)
        self._mark_aligned(channel, barrier)
        self._note_taken(BarrierAligned if barrier.options.needs_alignment else BarrierCounted, barrier, channel)
        self._collect(
            BarrierEvent.BARRIER,
            lambda state: state.barrier_received(self, channel, barrier, block=not is_rpc),
        )

    def process_barrier_announcement(
        self, barrier: CheckpointBarrier, sequence_number: int, channel: InputChannel
    ) -> None:
        """Start the checkpoint and its time limit already."""
        self._check_new_checkpoint(barrier)
        if self._is_over(barrier.checkpoint_id):
            return
        self._actions.note_barrier(BarrierAnnounced(checkpoint_id=barrier.checkpoint_id, channel=channel.number))
        self._step(BarrierEvent.ANNOUNCEMENT, lambda state: state.announcement_received(channel, sequence_number))

    def process_cancellation(self, marker: CancelCheckpointMarker, channel: InputChannel) -> None:
        """Abort the pending checkpoint, or remember not to start a later one.

        Flink: `processCancellationBarrier`, `notifyAbortOnCancellationBarrier`.
        """
        checkpoint_id = marker.checkpoint_id
        if checkpoint_id > self.current_checkpoint_id or checkpoint_id == self.pending_checkpoint_id:
            self._abort(
                checkpoint_id,
                CheckpointFailureReason.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER,
                f"{channel.source_task} cancelled checkpoint {checkpoint_id}",
            )

    def process_end_of_partition(self, channel: InputChannel) -> None:
        """Stop waiting for a channel that ended; without checkpoints after the end, abort everything."""
        barrier = self._pending_barrier
        if barrier is None:
            return
        if self._after_finish:
            self._mark_aligned(channel, barrier)
            self._note_taken(EndCounted, barrier, channel)
            self._collect(BarrierEvent.END, lambda state: state.end_of_partition_received(self, channel))
        else:
            self._abort(
                self.current_checkpoint_id,
                CheckpointFailureReason.CHECKPOINT_DECLINED_INPUT_END_OF_STREAM,
                f"{channel.source_task} has ended",
            )

    def on_alignment_timeout(self) -> None:
        """Turn the pending checkpoint unaligned, unless it is over or already unaligned."""
        timer = self._timer
        if timer is None or self._actions.at < timer.due_ms:
            return
        self._timer = None
        self._actions.note_barrier(AlignmentTimedOut(checkpoint_id=timer.barrier.checkpoint_id))
        self._step(BarrierEvent.TIMEOUT, lambda state: state.alignment_timed_out(self, timer.barrier))

    def close(self) -> None:
        """Stop waiting for anything."""
        self._pending_barrier = None
        self._aligned = set()
        self._reset_timer()
        self._become(BarrierEvent.ABORT, self.state.abort(self.current_checkpoint_id))
        self._collecting = False

    # --- state ------------------------------------------------------------------------------------------------------

    @property
    def pending_checkpoint_id(self) -> int | None:
        """The checkpoint whose barriers are being collected, if any."""
        return None if self._pending_barrier is None else self._pending_barrier.checkpoint_id

    @property
    def awaited_channels(self) -> list[InputChannel]:
        """The open channels whose barrier has not come yet; empty if no checkpoint is pending."""
        if self._pending_barrier is None:
            return []
        return [channel for channel in self._gates.open_channels if channel.number not in self._aligned]

    def has_all_barriers(self, checkpoint_id: int) -> bool:
        """Return True if all awaited barriers of this checkpoint have come.

        Raises ProtocolError for a checkpoint that has not started.
        """
        if checkpoint_id < self.current_checkpoint_id or self._gates.all_ended:
            return True
        if checkpoint_id > self.current_checkpoint_id:
            raise ProtocolError(f"checkpoint {checkpoint_id} has not begun, the last is {self.current_checkpoint_id}")
        return not self._collecting

    # --- for the states -------------------------------------------------------------------------------------------

    @property
    def all_aligned(self) -> bool:
        """True if every channel that was open at the start has delivered its barrier, or has ended."""
        return len(self._aligned) == self._target_count

    @property
    def pending_barrier(self) -> CheckpointBarrier | None:
        return self._pending_barrier

    def trigger_global_checkpoint(self, barrier: CheckpointBarrier) -> None:
        self._notify_checkpoint(barrier)

    def init_inputs_checkpoint(self, barrier: CheckpointBarrier) -> None:
        self._actions.init_input_checkpoint(barrier)

    def is_timed_out(self, barrier: CheckpointBarrier) -> bool:
        return (
            barrier.options.is_timeoutable
            and barrier.checkpoint_id <= self.current_checkpoint_id
            and barrier.options.aligned_timeout_ms < self._actions.at - barrier.timestamp_ms
        )

    # --- the pending checkpoint -----------------------------------------------------------------------------------

    def _is_over(self, checkpoint_id: int) -> bool:
        return checkpoint_id < self.current_checkpoint_id or (
            checkpoint_id == self.current_checkpoint_id and self._pending_barrier is None
        )

    def _check_new_checkpoint(self, barrier: CheckpointBarrier) -> None:
        """Start a checkpoint that is newer than the current one."""
        if barrier.checkpoint_id <= self.current_checkpoint_id:
            return
        if self._pending_barrier is not None:
            self._abort(
                self.current_checkpoint_id,
                CheckpointFailureReason.CHECKPOINT_DECLINED_SUBSUMED,
                f"the barrier of checkpoint {barrier.checkpoint_id} came first",
            )
        self.current_checkpoint_id = barrier.checkpoint_id
        self._pending_barrier = barrier
        self._aligned = set()
        self._target_count = len(self._gates.open_channels)
        self._collecting = True
        if self._alternating and barrier.options.is_timeoutable:
            self._timer = AlignmentTimer(barrier, alignment_due_ms(barrier, self._actions.at))
            self._actions.schedule_alignment_timeout(self._timer.due_ms)

    def _mark_aligned(self, channel: InputChannel, barrier: CheckpointBarrier) -> None:
        """Count the channel, measuring the alignment before a checkpoint is taken because of it."""
        if channel.number in self._aligned:
            return
        self._aligned.add(channel.number)
        if len(self._aligned) == 1:
            self._mark_alignment_start(barrier)
        if self.all_aligned:
            self._mark_alignment_end(0 if self._target_count == 1 else None)

    def _collect(self, event: BarrierEvent, step: Callable[[BarrierHandlerState], BarrierHandlerState]) -> None:
        """Take a step with one more channel aligned; the last one ends the checkpoint for the inputs."""
        if self._step(event, step) and self.all_aligned:
            self._pending_barrier = None
            self._aligned = set()
            self._reset_timer()
            self._collecting = False
            self._actions.all_barriers_received(self.current_checkpoint_id)

    def _note_taken(self, note: type[BarrierTaken], barrier: CheckpointBarrier, channel: InputChannel) -> None:
        awaited = [waiting.number for waiting in self.awaited_channels]
        taken = note(checkpoint_id=barrier.checkpoint_id, channel=channel.number, awaited=awaited)
        self._actions.note_barrier(taken)

    def _note_prioritized(self, channel: InputChannel) -> None:
        note = BarrierPrioritized(checkpoint_id=self.current_checkpoint_id, channel=channel.number)
        self._actions.note_barrier(note)

    def _step(self, event: BarrierEvent, step: Callable[[BarrierHandlerState], BarrierHandlerState]) -> bool:
        """Move to the state that follows; return False if the checkpoint had to be aborted."""
        try:
            self._become(event, step(self.state))
        except CheckpointException as error:
            self._gates.checkpoint_stopped(self.current_checkpoint_id)
            self._abort(self.current_checkpoint_id, error.reason, error.detail)
            return False
        return True

    def _become(self, event: BarrierEvent, state: BarrierHandlerState) -> None:
        TRANSITIONS.check("the barrier handler", type(self.state), type(state), event)
        self.state = state

    def _abort(self, checkpoint_id: int, reason: CheckpointFailureReason, detail: str) -> None:
        """Abort the pending checkpoint. Flink: `notifyAbort`."""
        self.current_checkpoint_id = checkpoint_id
        self._pending_barrier = None
        self._aligned = set()
        self._target_count = 0
        self._reset_timer()
        self._become(BarrierEvent.ABORT, self.state.abort(checkpoint_id))
        self._reset_alignment()
        self._actions.abort_checkpoint_on_barrier(checkpoint_id, reason, detail)
        self._collecting = False

    def _reset_timer(self) -> None:
        if self._timer is not None:
            self._timer = None
            self._actions.cancel_alignment_timeout()

    def validate(self) -> None:
        """Check that channels wait and the timer runs only for a pending checkpoint, and that no channel is lost."""
        self._gates.validate()
        pending = self._pending_barrier
        blocked = {channel.number for channel in self._gates if channel.blocked}
        waiting = set(self.state.channels.blocked)
        assert blocked == waiting, f"blocked {sorted(blocked)}, but waiting are {sorted(waiting)}"
        assert waiting <= self._aligned, f"{sorted(waiting - self._aligned)} wait, but have not delivered"
        assert (pending is None) <= (not self._aligned), "barriers are collected although no checkpoint is pending"
        assert pending is None or pending.checkpoint_id == self.current_checkpoint_id, "an old checkpoint is pending"
        assert pending is None or self.awaited_channels, f"checkpoint {self.current_checkpoint_id} waits for nothing"
        assert self._timer is None or self._timer.barrier.checkpoint_id == self.pending_checkpoint_id, "an old timer"

    def __repr__(self) -> str:
        state = f"{len(self._aligned)} of {self._target_count} aligned" if self._pending_barrier else "none pending"
        return f"SingleCheckpointBarrierHandler({self.state!r}, chk-{self.current_checkpoint_id}, {state})"

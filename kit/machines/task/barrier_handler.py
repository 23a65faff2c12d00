"""The contract of all barrier handlers, and what they measure.

A handler decides which channels wait, when the task takes its checkpoint, and when a checkpoint is aborted. It calls
the task through `BarrierActions`. There are two: `kit.machines.task.barrier_tracker` counts barriers (at least once),
and `kit.machines.task.single_barrier_handler` aligns them or lets them overtake (exactly once).

Alignment begins with the first barrier of a checkpoint and ends with the last one. Only one alignment is measured at a
time, that of the newest checkpoint.

Follows Flink's `CheckpointBarrierHandler` and `CheckpointableTask`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Protocol

from kit.core.protocol.elements import CancelCheckpointMarker, CheckpointBarrier
from kit.core.protocol.notes import AlignmentTimedOut, BarrierNote
from kit.core.protocol.reasons import CheckpointFailureReason
from kit.machines.channel.input_channel import InputChannel
from kit.machines.channel.input_gate import InputGates
from kit.machines.task.checkpoint_metrics import CheckpointMetricsBuilder

NO_CHECKPOINT = -1


class BarrierActions(Protocol):
    """The calls of a barrier handler to its task."""

    @property
    def at(self) -> int:
        """The host's time in ms."""

    def trigger_checkpoint_on_barrier(self, barrier: CheckpointBarrier, metrics: CheckpointMetricsBuilder) -> None:
        """Take the checkpoint now. If it is unaligned, the alignment in `metrics` is filled in later."""

    def abort_checkpoint_on_barrier(self, checkpoint_id: int, reason: CheckpointFailureReason, detail: str) -> None:
        """Decline a checkpoint that cannot be taken here, and notify the tasks downstream."""

    def init_input_checkpoint(self, barrier: CheckpointBarrier) -> None:
        """Start the channel state of the checkpoint, if it may have any (`initInputsCheckpoint`).

        Called just before the checkpoint is taken, only if checkpoints may be unaligned, and then for savepoints too.
        The input of an unaligned barrier continues until `all_barriers_received`; one that was aligned in time has
        none. Raises CheckpointException if it cannot be started.
        """

    def all_barriers_received(self, checkpoint_id: int) -> None:
        """Handle the last barrier of a checkpoint, aligned or not: none of its input is in flight any longer."""

    def schedule_alignment_timeout(self, due_ms: int) -> None:
        """Call `on_alignment_timeout` at this time of the host."""

    def cancel_alignment_timeout(self) -> None:
        """Cancel the call of `on_alignment_timeout`."""

    def note_barrier(self, note: BarrierNote | AlignmentTimedOut) -> None:
        """Record a note in the trace."""


class CheckpointBarrierHandler(ABC):
    """The rules for one mode of checkpointing, over the channels of `gates`.

    Without `checkpoints_after_tasks_finish`, the end of a channel aborts every pending checkpoint.

    A user-defined handler (`kit.stream.settings.parts.Parts`) derives from this class. It must implement the reaction
    to a barrier, a cancel marker and the end of a channel, and report what it waits for; for aligned checkpoints that
    is enough. An aligned barrier closes its channel: the elements behind it are held back until the handler calls
    `channel.resume()`, which it must also do for an obsolete barrier. `channel.block()` marks the channel as waiting.
    An alignment is measured from `_mark_alignment_start` to `_mark_alignment_end`. The latter precedes
    `_notify_checkpoint`, which takes the checkpoint.

    Follows Flink's `CheckpointBarrierHandler`.
    """

    without_effect: ClassVar = frozenset({"_metrics", "_bytes_processed", "_alignment_started_ms", "start_delay_ms"})

    def __init__(self, gates: InputGates, actions: BarrierActions, *, checkpoints_after_tasks_finish: bool) -> None:
        self._gates = gates
        self._actions = actions
        self._after_finish = checkpoints_after_tasks_finish
        self._metrics = CheckpointMetricsBuilder()
        self._alignment_checkpoint_id = NO_CHECKPOINT
        self._alignment_started_ms: int | None = None
        self._bytes_processed = 0
        self.start_delay_ms = 0
        """The time from the creation of the newest checkpoint to its first barrier here."""

    # --- events ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def process_barrier(self, barrier: CheckpointBarrier, channel: InputChannel, *, is_rpc: bool = False) -> None:
        """Handle a barrier that the channel delivered, or (`is_rpc`) a trigger of the JobMaster in its place.

        Flink: `processBarrier`.
        """

    def process_barrier_announcement(  # noqa: B027
        self, barrier: CheckpointBarrier, sequence_number: int, channel: InputChannel
    ) -> None:
        """Handle a barrier in the channel's queue that may be moved forward; by default it is not."""

    @abstractmethod
    def process_cancellation(self, marker: CancelCheckpointMarker, channel: InputChannel) -> None:
        """Handle a channel's notice that no barrier of this checkpoint will come."""

    @abstractmethod
    def process_end_of_partition(self, channel: InputChannel) -> None:
        """Handle the end of the channel."""

    def on_alignment_timeout(self) -> None:  # noqa: B027
        """Handle the timer set with `schedule_alignment_timeout`; one that fires too late is ignored."""

    def add_processed_bytes(self, size_bytes: int) -> None:
        """Count a buffer that the task processed, if it is during an alignment."""
        if self.is_during_alignment:
            self._bytes_processed += size_bytes

    def close(self) -> None:  # noqa: B027  not every handler has something to do
        """Stop waiting, because the task leaves."""

    # --- state ------------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def pending_checkpoint_id(self) -> int | None:
        """The (newest) checkpoint whose barriers are being collected, if any."""

    @property
    @abstractmethod
    def awaited_channels(self) -> list[InputChannel]:
        """The open channels whose barrier of the pending checkpoint has not come yet."""

    def has_all_barriers(self, checkpoint_id: int) -> bool:
        """Return True if all awaited barriers of this checkpoint have come (`getAllBarriersReceivedFuture`)."""
        return True

    @property
    def is_during_alignment(self) -> bool:
        """True if an alignment is being measured."""
        return self._alignment_started_ms is not None

    @property
    def alignment_ms(self) -> int:
        """The duration of the present alignment, or else of the latest."""
        if self._alignment_started_ms is not None:
            return self._actions.at - self._alignment_started_ms
        return self._metrics.alignment_ms or 0

    def validate(self) -> None:  # noqa: B027
        """Check the invariants."""

    # --- for the handlers -----------------------------------------------------------------------------------------

    def _mark_alignment_start(self, barrier: CheckpointBarrier) -> None:
        self.start_delay_ms = max(0, self._actions.at - barrier.timestamp_ms)
        self._reset_alignment()
        self._metrics.start_delay_ms = self.start_delay_ms
        self._alignment_started_ms = self._actions.at
        self._alignment_checkpoint_id = barrier.checkpoint_id

    def _mark_alignment_end(self, alignment_ms: int | None = None) -> None:
        """Fill in the measurements, unless that was done; None for `alignment_ms` means the time that has passed."""
        metrics = self._metrics
        if metrics.alignment_ms is None:
            metrics.alignment_ms = self.alignment_ms if alignment_ms is None else alignment_ms
        if metrics.bytes_processed_during_alignment is None:
            metrics.bytes_processed_during_alignment = self._bytes_processed
        self._alignment_started_ms = None
        self._bytes_processed = 0

    def _reset_alignment(self) -> None:
        self._mark_alignment_end(0)
        self._metrics = CheckpointMetricsBuilder()

    def _notify_checkpoint(self, barrier: CheckpointBarrier) -> None:
        """Let the task take the checkpoint. Flink: `notifyCheckpoint`."""
        measured = barrier.checkpoint_id == self._alignment_checkpoint_id
        metrics = self._metrics if measured else CheckpointMetricsBuilder.without_alignment()
        self._actions.trigger_checkpoint_on_barrier(barrier, metrics)

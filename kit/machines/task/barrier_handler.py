"""What a task does when a barrier arrives: the contract of all barrier handlers, and what they measure.

A handler decides which channels wait, when the task takes its checkpoint, and when it gives one up. It speaks to the
task through `BarrierActions`. There are two: `kit.machines.task.barrier_tracker` counts barriers (at least once),
`kit.machines.task.single_barrier_handler` aligns them, or lets them overtake (exactly once).

Alignment begins with the first barrier of a checkpoint and ends with the last one. Only one alignment is measured at
a time, that of the newest checkpoint.

Follows Flink's `CheckpointBarrierHandler` and `CheckpointableTask`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

from kit.core.protocol.elements import CancelCheckpointMarker, CheckpointBarrier
from kit.core.protocol.notes import NoteKind
from kit.core.protocol.reasons import CheckpointFailureReason
from kit.machines.channel.input_channel import InputChannel
from kit.machines.channel.input_gate import InputGates
from kit.machines.task.checkpoint_metrics import CheckpointMetricsBuilder

NO_CHECKPOINT = -1


class BarrierActions(Protocol):
    """What a barrier handler may ask of its task."""

    @property
    def at(self) -> int:
        """The host's time in ms."""

    def trigger_checkpoint_on_barrier(self, barrier: CheckpointBarrier, metrics: CheckpointMetricsBuilder) -> None:
        """Take the checkpoint now. When it is unaligned, the alignment in `metrics` is filled in later."""

    def abort_checkpoint_on_barrier(self, checkpoint_id: int, reason: CheckpointFailureReason, detail: str) -> None:
        """The checkpoint cannot be taken here: decline it and tell those downstream."""

    def init_input_checkpoint(self, barrier: CheckpointBarrier) -> None:
        """The checkpoint is about to be taken: start its channel state, if it may have any (`initInputsCheckpoint`).

        Said only where checkpoints may be unaligned, then of savepoints too. An unaligned barrier's input goes on until
        `all_barriers_received`, one that was aligned in time has none. CheckpointException when it cannot be done.
        """

    def all_barriers_received(self, checkpoint_id: int) -> None:
        """The last barrier of a checkpoint has come, aligned or not: nothing more of its input is in flight."""

    def schedule_alignment_timeout(self, due_ms: int) -> None:
        """Call `on_alignment_timeout` at this time of the host."""

    def cancel_alignment_timeout(self) -> None:
        """Do not, after all."""

    def note_barrier(self, kind: NoteKind, checkpoint_id: int, **data: object) -> None:
        """Tell the trace."""


class CheckpointBarrierHandler(ABC):
    """The rules for one mode of checkpointing, over the channels of `gates`.

    Without `checkpoints_after_tasks_finish` the end of a channel gives up whatever is waited for.

    One of your own (`kit.stream.settings.parts.Parts`) derives from this class. It must say what a barrier, a cancel
    marker and the end of a channel lead to, and what it waits for; for aligned checkpoints that is all. An aligned
    barrier closes its channel: what follows it is held back until the handler calls `channel.resume()`, also when the
    barrier is of no use any more, and `channel.block()` shows that it waits. An alignment is measured between
    `_mark_alignment_start` and `_mark_alignment_end`; the latter comes before `_notify_checkpoint`, which takes the
    checkpoint.

    Follows Flink's `CheckpointBarrierHandler`.
    """

    def __init__(self, gates: InputGates, actions: BarrierActions, *, checkpoints_after_tasks_finish: bool) -> None:
        self._gates = gates
        self._actions = actions
        self._after_finish = checkpoints_after_tasks_finish
        self._metrics = CheckpointMetricsBuilder()
        self._alignment_checkpoint_id = NO_CHECKPOINT
        self._alignment_started_ms: int | None = None
        self._bytes_processed = 0
        self.start_delay_ms = 0
        """Time from the creation of the newest checkpoint to its first barrier here."""

    # --- what happens ---------------------------------------------------------------------------------------------

    @abstractmethod
    def process_barrier(self, barrier: CheckpointBarrier, channel: InputChannel, *, is_rpc: bool = False) -> None:
        """The channel delivered a barrier, or (`is_rpc`) the JobMaster triggered what the channel will not bring.

        Flink: `processBarrier`.
        """

    def process_barrier_announcement(  # noqa: B027
        self, barrier: CheckpointBarrier, sequence_number: int, channel: InputChannel
    ) -> None:
        """The barrier is in the channel's queue, with this number, and may be fetched forward; here it is not."""

    @abstractmethod
    def process_cancellation(self, marker: CancelCheckpointMarker, channel: InputChannel) -> None:
        """The channel says that no barrier of this checkpoint will come."""

    @abstractmethod
    def process_end_of_partition(self, channel: InputChannel) -> None:
        """The channel has ended."""

    def on_alignment_timeout(self) -> None:  # noqa: B027
        """The time asked for with `schedule_alignment_timeout` has come; one that comes too late is ignored."""

    def add_processed_bytes(self, size_bytes: int) -> None:
        """The task processed a buffer; it counts while an alignment is going on."""
        if self.is_during_alignment:
            self._bytes_processed += size_bytes

    def close(self) -> None:  # noqa: B027  not every handler has something to do
        """The task leaves: nothing is waited for any more."""

    # --- where it stands --------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def pending_checkpoint_id(self) -> int | None:
        """The (newest) checkpoint whose barriers are being collected, if any."""

    @property
    @abstractmethod
    def awaited_channels(self) -> list[InputChannel]:
        """The open channels whose barrier of the pending checkpoint has not come yet."""

    def has_all_barriers(self, checkpoint_id: int) -> bool:
        """Whether no barrier of this checkpoint is waited for any more (`getAllBarriersReceivedFuture`)."""
        return True

    @property
    def is_during_alignment(self) -> bool:
        """Whether an alignment is being measured."""
        return self._alignment_started_ms is not None

    @property
    def alignment_ms(self) -> int:
        """How long the present alignment has taken, or else how long the latest took."""
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
        """Fill in what was measured, unless it has been; `alignment_ms` None: as long as it took."""
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
        """Have the task take the checkpoint. Flink: `notifyCheckpoint`."""
        measured = barrier.checkpoint_id == self._alignment_checkpoint_id
        metrics = self._metrics if measured else CheckpointMetricsBuilder.without_alignment()
        self._actions.trigger_checkpoint_on_barrier(barrier, metrics)

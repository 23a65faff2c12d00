"""What a task does when a barrier arrives: the rules of alignment.

The handler decides three things and nothing else: which channels are blocked, when the task takes its checkpoint, and
when it gives one up. It speaks to the task through `BarrierActions`. Other modes (at least once, unaligned, aligned
with a timeout) are other handlers behind the same three methods.

Aligned, exactly once: the first barrier of a checkpoint begins the alignment; a channel that delivered its barrier is
blocked; when every open channel has delivered, the checkpoint is taken and all channels are resumed. A newer barrier
gives the current alignment up (`CHECKPOINT_DECLINED_SUBSUMED`), a cancel marker too (`..._ON_CANCELLATION_BARRIER`);
a channel that ends counts as having delivered.

Follows Flink's `CheckpointBarrierHandler`, `SingleCheckpointBarrierHandler` and `AbstractAlignedBarrierHandlerState`.
"""

from __future__ import annotations

from typing import Protocol

from kit.channel.input_gate import InputChannel, InputGates
from kit.protocol.elements import CancelCheckpointMarker, CheckpointBarrier
from kit.protocol.reasons import CheckpointFailureReason

NO_CHECKPOINT = -1


class BarrierActions(Protocol):
    """What a barrier handler may ask of its task."""

    @property
    def at(self) -> int:
        """The host's time in ms."""

    def trigger_checkpoint_on_barrier(self, barrier: CheckpointBarrier, alignment_ms: int, start_delay_ms: int) -> None:
        """All barriers have come: take the checkpoint now."""

    def abort_checkpoint_on_barrier(self, checkpoint_id: int, reason: CheckpointFailureReason, detail: str) -> None:
        """The checkpoint cannot be taken here: decline it and tell those downstream."""

    def note_barrier(self, kind: str, checkpoint_id: int, **data: object) -> None:
        """Tell the trace."""


class BarrierHandler(Protocol):
    """The rules for one mode of checkpointing."""

    def process_barrier(self, barrier: CheckpointBarrier, channel: InputChannel) -> None:
        """The channel delivered a barrier."""

    def process_cancellation(self, marker: CancelCheckpointMarker, channel: InputChannel) -> None:
        """The channel says that no barrier of this checkpoint will come."""

    def process_end_of_partition(self, channel: InputChannel) -> None:
        """The channel has ended."""

    @property
    def pending_checkpoint_id(self) -> int | None:
        """The checkpoint whose barriers are being collected, if any."""

    def validate(self) -> None:
        """Check the invariants."""


class AlignedBarrierHandler:
    """Exactly once by alignment: a channel that delivered its barrier waits for the others."""

    def __init__(self, gates: InputGates, actions: BarrierActions, *, checkpoints_after_tasks_finish: bool) -> None:
        self._gates = gates
        self._actions = actions
        self._after_finish = checkpoints_after_tasks_finish
        self.current_checkpoint_id = NO_CHECKPOINT
        self._barrier: CheckpointBarrier | None = None
        self._aligned: dict[int, InputChannel] = {}
        self._alignment_started_ms = 0
        self._start_delay_ms = 0

    @property
    def pending_checkpoint_id(self) -> int | None:
        """The checkpoint being aligned, if any."""
        return None if self._barrier is None else self.current_checkpoint_id

    @property
    def awaited_channels(self) -> list[InputChannel]:
        """The open channels whose barrier has not come yet; empty when nothing is being aligned."""
        if self._barrier is None:
            return []
        return [channel for channel in self._gates.open_channels if channel.number not in self._aligned]

    def process_barrier(self, barrier: CheckpointBarrier, channel: InputChannel) -> None:
        """Begin an alignment, or go on with it; barriers of older or finished checkpoints are dropped."""
        if barrier.checkpoint_id < self.current_checkpoint_id or (
            barrier.checkpoint_id == self.current_checkpoint_id and self._barrier is None
        ):
            self._actions.note_barrier("BarrierIgnored", barrier.checkpoint_id, channel=channel.number)
            return
        if barrier.checkpoint_id > self.current_checkpoint_id:
            self._give_up_for_newer(barrier)
            self._begin(barrier)
        self._gates.block(channel)
        self._aligned[channel.number] = channel
        self._actions.note_barrier(
            "BarrierAligned",
            barrier.checkpoint_id,
            channel=channel.number,
            awaited=[waiting.number for waiting in self.awaited_channels],
        )
        self._trigger_when_aligned()

    def process_cancellation(self, marker: CancelCheckpointMarker, channel: InputChannel) -> None:
        """Give the current alignment up, or remember not to begin that one."""
        checkpoint_id = marker.checkpoint_id
        if checkpoint_id < self.current_checkpoint_id:
            return
        if checkpoint_id == self.current_checkpoint_id and self._barrier is None:
            return
        self.current_checkpoint_id = checkpoint_id
        self._abort(
            CheckpointFailureReason.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER,
            f"{channel.source_task} cancelled checkpoint {checkpoint_id}",
        )

    def process_end_of_partition(self, channel: InputChannel) -> None:
        """A channel that ended is no longer waited for; without checkpoints after the end the alignment is given up."""
        self._aligned.pop(channel.number, None)
        if self._barrier is not None and not self._after_finish:
            self._abort(
                CheckpointFailureReason.CHECKPOINT_DECLINED_INPUT_END_OF_STREAM, f"{channel.source_task} has ended"
            )
        self._trigger_when_aligned()

    def _begin(self, barrier: CheckpointBarrier) -> None:
        self.current_checkpoint_id = barrier.checkpoint_id
        self._barrier = barrier
        self._alignment_started_ms = self._actions.at
        self._start_delay_ms = max(0, self._actions.at - barrier.timestamp_ms)

    def _give_up_for_newer(self, barrier: CheckpointBarrier) -> None:
        if self._barrier is not None:
            self._abort(
                CheckpointFailureReason.CHECKPOINT_DECLINED_SUBSUMED,
                f"the barrier of checkpoint {barrier.checkpoint_id} came first",
            )

    def _trigger_when_aligned(self) -> None:
        barrier = self._barrier
        if barrier is None or self.awaited_channels:
            return
        alignment_ms = self._actions.at - self._alignment_started_ms
        self._release()
        self._actions.trigger_checkpoint_on_barrier(barrier, alignment_ms, self._start_delay_ms)

    def _abort(self, reason: CheckpointFailureReason, detail: str) -> None:
        self._release()
        self._actions.abort_checkpoint_on_barrier(self.current_checkpoint_id, reason, detail)

    def _release(self) -> None:
        self._barrier = None
        self._gates.resume(self._aligned.values())
        self._aligned = {}

    def validate(self) -> None:
        """Exactly the channels that delivered a barrier of the pending checkpoint are blocked."""
        blocked = {channel.number for channel in self._gates if channel.blocked}
        assert blocked == set(self._aligned), f"blocked {sorted(blocked)}, but aligned are {sorted(self._aligned)}"
        assert self._barrier is not None or not self._aligned, "channels are blocked although nothing is being aligned"

    def __repr__(self) -> str:
        return f"AlignedBarrierHandler(chk-{self.current_checkpoint_id}, {len(self._aligned)} aligned)"

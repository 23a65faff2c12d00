"""At least once: barriers are counted, and no channel is ever blocked.

A checkpoint is taken when its barrier has come on every channel that was open when the first one came. Meanwhile
records behind a barrier are processed like any others, so after a failure they may be counted twice; in return no
channel ever waits. Several checkpoints can be counted at once. One that completes makes those before it obsolete, and
they are forgotten.

Follows Flink's `CheckpointBarrierTracker`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kit.core.protocol.elements import CancelCheckpointMarker, CheckpointBarrier
from kit.core.protocol.notes import BarrierCounted, BarrierIgnored
from kit.core.protocol.reasons import CheckpointFailureReason
from kit.machines.channel.input_channel import InputChannel
from kit.machines.channel.input_gate import InputGates
from kit.machines.task.barrier_handler import NO_CHECKPOINT, BarrierActions, CheckpointBarrierHandler

MAX_CHECKPOINTS_TO_TRACK = 50
"""The limit of checkpoints being counted: beyond it the oldest is forgotten, so lost barriers leave no leak."""


@dataclass(slots=True)
class BarrierCount:
    """The channels on which a checkpoint's barrier or cancel marker has come; `barrier` is None without a barrier."""

    checkpoint_id: int
    barrier: CheckpointBarrier | None
    expected: int
    channels: set[int] = field(default_factory=set)
    aborted: bool = False

    def mark(self, channel: InputChannel) -> bool:
        """Count the channel, and return True if all have come."""
        self.channels.add(channel.number)
        return len(self.channels) >= self.expected


class CheckpointBarrierTracker(CheckpointBarrierHandler):
    """The handler that counts barriers for at-least-once checkpoints; see `kit.machines.task.barrier_handler` for the
    contract.

    Follows Flink's `CheckpointBarrierTracker`.
    """

    def __init__(self, gates: InputGates, actions: BarrierActions, *, checkpoints_after_tasks_finish: bool) -> None:
        super().__init__(gates, actions, checkpoints_after_tasks_finish=checkpoints_after_tasks_finish)
        self._pending: list[BarrierCount] = []
        self.latest_checkpoint_id = NO_CHECKPOINT

    @property
    def pending_checkpoint_id(self) -> int | None:
        """The newest checkpoint being counted, if any."""
        return self._pending[-1].checkpoint_id if self._pending else None

    @property
    def awaited_channels(self) -> list[InputChannel]:
        """The open channels whose barrier of the newest checkpoint has not come yet."""
        if not self._pending:
            return []
        counted = self._pending[-1].channels
        return [channel for channel in self._gates.open_channels if channel.number not in counted]

    def process_barrier(self, barrier: CheckpointBarrier, channel: InputChannel, *, is_rpc: bool = False) -> None:
        """Count the barrier, and take the checkpoint if it was the last one."""
        count = self._find(barrier.checkpoint_id)
        if count is None and barrier.checkpoint_id <= self.latest_checkpoint_id:
            self._actions.note_barrier(BarrierIgnored(checkpoint_id=barrier.checkpoint_id, channel=channel.number))
            return
        if count is None:
            count = self._begin(barrier.checkpoint_id, barrier)
            self._mark_alignment_start(barrier)
        self._actions.note_barrier(BarrierCounted(checkpoint_id=barrier.checkpoint_id, channel=channel.number))
        if count.mark(channel):
            self._complete(count)

    def process_barrier_announcement(
        self, barrier: CheckpointBarrier, sequence_number: int, channel: InputChannel
    ) -> None:
        """Ignore the announcement: no barrier overtakes here."""

    def process_cancellation(self, marker: CancelCheckpointMarker, channel: InputChannel) -> None:
        """Abort the checkpoint and those before it, whose barriers will not all come either."""
        checkpoint_id = marker.checkpoint_id
        while self._pending and self._pending[0].checkpoint_id < checkpoint_id:
            self._abort(self._pending.pop(0), channel)
        count = self._find(checkpoint_id)
        if count is None:
            if checkpoint_id <= self.latest_checkpoint_id:
                return
            count = self._begin(checkpoint_id, None)
            if count.expected == 1:
                self._reset_alignment()
        self._abort(count, channel)
        if count.mark(channel):
            self._pending.remove(count)

    def process_end_of_partition(self, channel: InputChannel) -> None:
        """Count a channel that ended as delivered; without checkpoints after the end, abort everything."""
        if not self._after_finish:
            pending, self._pending = self._pending, []
            for count in pending:
                if not count.aborted:
                    self._actions.abort_checkpoint_on_barrier(
                        count.checkpoint_id,
                        CheckpointFailureReason.CHECKPOINT_DECLINED_INPUT_END_OF_STREAM,
                        f"{channel.source_task} has ended",
                    )
            self._reset_alignment()
            return
        for count in reversed(self._pending):
            if count.mark(channel):
                self._complete(count)
                return

    def on_alignment_timeout(self) -> None:
        """Do nothing: no checkpoint is aligned here."""

    def close(self) -> None:
        """Forget all counts."""
        self._pending = []

    def _find(self, checkpoint_id: int) -> BarrierCount | None:
        return next((count for count in self._pending if count.checkpoint_id == checkpoint_id), None)

    def _begin(self, checkpoint_id: int, barrier: CheckpointBarrier | None) -> BarrierCount:
        count = BarrierCount(checkpoint_id, barrier, len(self._gates.open_channels))
        self.latest_checkpoint_id = checkpoint_id
        self._pending.append(count)
        del self._pending[:-MAX_CHECKPOINTS_TO_TRACK]
        return count

    def _complete(self, count: BarrierCount) -> None:
        del self._pending[: self._pending.index(count) + 1]
        if count.aborted or count.barrier is None:
            return
        if count.checkpoint_id == self.latest_checkpoint_id:
            self._mark_alignment_end(0 if count.expected == 1 else None)
        self._notify_checkpoint(count.barrier)

    def _abort(self, count: BarrierCount, channel: InputChannel) -> None:
        if count.aborted:
            return
        count.aborted = True
        self._actions.abort_checkpoint_on_barrier(
            count.checkpoint_id,
            CheckpointFailureReason.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER,
            f"{channel.source_task} cancelled a checkpoint",
        )

    def validate(self) -> None:
        """Check that counts are in order of their ids, none is complete, and no channel is blocked."""
        ids = [count.checkpoint_id for count in self._pending]
        assert ids == sorted(set(ids)), f"barriers are counted out of order: {ids}"
        assert all(len(count.channels) < count.expected for count in self._pending), "a complete count was kept"
        assert not any(channel.blocked for channel in self._gates), "at least once never blocks a channel"

    def __repr__(self) -> str:
        return f"CheckpointBarrierTracker(latest {self.latest_checkpoint_id}, {len(self._pending)} being counted)"

"""The states of a task that waits for barriers, and the transitions between them.

- Aligned: a channel that delivered its barrier is closed until the others have; then the checkpoint is taken.
- Unaligned: the checkpoint is taken at the first barrier, and what the other channels deliver before theirs is written
  as in-flight data.
- Alternating: aligned first, and unaligned once alignment takes too long, here or in an upstream task.

`TRANSITIONS` at the end is the complete table: the handler takes no other transition, its error quotes the table, and
`docs/state-machines.md` draws it. *Home* is the initial state of a handler, to which it returns after each checkpoint
that is taken or aborted.

Follows Flink's `BarrierHandlerState` and its six implementations, and `ChannelState`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import Protocol

from kit.core.protocol.elements import CheckpointBarrier
from kit.core.protocol.transitions import Transitions
from kit.core.protocol.words import ProtocolError
from kit.machines.channel.input_channel import InputChannel
from kit.machines.channel.input_gate import InputGates


class Controller(Protocol):
    """The calls of a state to its handler."""

    @property
    def all_aligned(self) -> bool:
        """True if every channel has delivered its barrier, or has ended (`allBarriersReceived`)."""

    @property
    def pending_barrier(self) -> CheckpointBarrier | None:
        """The first barrier of the pending checkpoint."""

    def trigger_global_checkpoint(self, barrier: CheckpointBarrier) -> None:
        """Take the checkpoint."""

    def init_inputs_checkpoint(self, barrier: CheckpointBarrier) -> None:
        """Start the channel state of the checkpoint."""

    def is_timed_out(self, barrier: CheckpointBarrier) -> bool:
        """Return True if alignment has taken too long for this barrier."""


class ChannelState:
    """The channels that are blocked, and those whose barrier is known to be further back."""

    def __init__(
        self, gates: InputGates, home: type[BarrierHandlerState], prioritized: Callable[[InputChannel], None]
    ) -> None:
        """Initialize; `prioritized` is called with each channel whose barrier was moved forward."""
        self.gates = gates
        self.home = home
        self._prioritized = prioritized
        self.blocked: dict[int, InputChannel] = {}
        self._announced: dict[int, tuple[InputChannel, int]] = {}

    def block(self, channel: InputChannel) -> None:
        """Block the channel, whose aligned barrier was taken."""
        channel.block()
        self.blocked[channel.number] = channel

    def announce(self, channel: InputChannel, sequence_number: int) -> None:
        """Record that the channel's barrier is in its queue."""
        self._announced[channel.number] = (channel, sequence_number)

    def forget_announcement(self, channel: InputChannel) -> None:
        """Forget the announcement, because the barrier itself has come."""
        self._announced.pop(channel.number, None)

    def finish(self, channel: InputChannel) -> None:
        """Remove a channel that has ended (`channelFinished`)."""
        self.blocked.pop(channel.number, None)
        self._announced.pop(channel.number, None)

    def prioritize_announced(self) -> None:
        """Move all announced barriers forward."""
        announced, self._announced = self._announced, {}
        for channel, sequence_number in announced.values():
            self.prioritize(channel, sequence_number)

    def prioritize(self, channel: InputChannel, sequence_number: int) -> None:
        """Move the announced barrier with this number forward."""
        channel.convert_to_priority_event(sequence_number)
        self._prioritized(channel)

    def go_home(self) -> BarrierHandlerState:
        """End the checkpoint: resume every channel, forget everything and return the initial state."""
        blocked, self.blocked = self.blocked, {}
        self._announced = {}
        self.gates.resume(blocked.values())
        return self.home(self)


class BarrierHandlerState(ABC):
    """One state; each method handles an event and returns the state that follows."""

    def __init__(self, channels: ChannelState) -> None:
        self.channels = channels

    @abstractmethod
    def barrier_received(
        self, controller: Controller, channel: InputChannel, barrier: CheckpointBarrier, *, block: bool
    ) -> BarrierHandlerState:
        """Handle a barrier of the pending checkpoint; `block` unless it came by RPC."""

    @abstractmethod
    def announcement_received(self, channel: InputChannel, sequence_number: int) -> BarrierHandlerState:
        """Handle a barrier of the pending checkpoint in the channel's queue."""

    @abstractmethod
    def alignment_timed_out(self, controller: Controller, barrier: CheckpointBarrier) -> BarrierHandlerState:
        """Handle the timeout of the alignment (`alignedCheckpointTimeout`)."""

    @abstractmethod
    def end_of_partition_received(self, controller: Controller, channel: InputChannel) -> BarrierHandlerState:
        """Handle the end of a channel while a checkpoint is pending."""

    def abort(self, checkpoint_id: int) -> BarrierHandlerState:
        """Abort the checkpoint."""
        return self.channels.go_home()

    def __repr__(self) -> str:
        return type(self).__name__


# --- aligned --------------------------------------------------------------------------------------------------------


class AlignedState(BarrierHandlerState):
    """Aligned, without a time limit (`AbstractAlignedBarrierHandlerState`)."""

    def barrier_received(
        self, controller: Controller, channel: InputChannel, barrier: CheckpointBarrier, *, block: bool
    ) -> BarrierHandlerState:
        """Close the channel; the last barrier takes the checkpoint and opens all channels."""
        if barrier.options.is_unaligned:
            raise ProtocolError(f"{channel.source_task} sent {barrier!r} to a task that only aligns")
        if block:
            self.channels.block(channel)
        if controller.all_aligned:
            return self._trigger(controller, barrier)
        return CollectingBarriers(self.channels)

    def announcement_received(self, channel: InputChannel, sequence_number: int) -> BarrierHandlerState:
        """Ignore the announcement: no barrier overtakes here."""
        return self

    def alignment_timed_out(self, controller: Controller, barrier: CheckpointBarrier) -> BarrierHandlerState:
        """Raise ProtocolError: no timer is ever set here."""
        raise ProtocolError(f"the alignment of {barrier!r} timed out in a task that only aligns")

    def _trigger(self, controller: Controller, barrier: CheckpointBarrier) -> BarrierHandlerState:
        controller.trigger_global_checkpoint(barrier)
        return self.channels.go_home()


class WaitingForFirstBarrier(AlignedState):
    """No barrier has come."""

    def end_of_partition_received(self, controller: Controller, channel: InputChannel) -> BarrierHandlerState:
        """Remove the channel from those waited for."""
        self.channels.finish(channel)
        return self


class CollectingBarriers(AlignedState):
    """Some barriers have come, others are missing."""

    def end_of_partition_received(self, controller: Controller, channel: InputChannel) -> BarrierHandlerState:
        """Treat the end of the channel as its barrier: it may be the last one waited for."""
        self.channels.finish(channel)
        if controller.all_aligned:
            return self._trigger(controller, _pending(controller))
        return self


# --- aligned until it takes too long --------------------------------------------------------------------------------


class AlternatingState(BarrierHandlerState):
    """Aligned, until that takes too long (`AbstractAlternatingAlignedBarrierHandlerState`)."""

    def barrier_received(
        self, controller: Controller, channel: InputChannel, barrier: CheckpointBarrier, *, block: bool
    ) -> BarrierHandlerState:
        """Close the channel, unless the barrier is unaligned or its time limit has passed."""
        if barrier.options.is_unaligned:
            overdue = self.alignment_timed_out(controller, barrier)
            return overdue.barrier_received(controller, channel, barrier, block=block)
        self.channels.forget_announcement(channel)
        if block:
            self.channels.block(channel)
        if controller.all_aligned:
            return self._trigger(controller, barrier)
        if controller.is_timed_out(barrier):
            overdue = self.alignment_timed_out(controller, barrier)
            return overdue.barrier_received(controller, channel, barrier.as_unaligned(), block=block)
        return AlternatingCollectingBarriers(self.channels)

    def announcement_received(self, channel: InputChannel, sequence_number: int) -> BarrierHandlerState:
        """Remember the barrier's position."""
        self.channels.announce(channel, sequence_number)
        return self

    def _trigger(self, controller: Controller, barrier: CheckpointBarrier) -> BarrierHandlerState:
        controller.init_inputs_checkpoint(barrier)
        controller.trigger_global_checkpoint(barrier)
        return self.channels.go_home()


class AlternatingWaitingForFirstBarrier(AlternatingState):
    """No barrier has been taken; some may have been announced."""

    def alignment_timed_out(self, controller: Controller, barrier: CheckpointBarrier) -> BarrierHandlerState:
        """Move the announced barriers forward; the first to be taken starts the checkpoint."""
        self.channels.prioritize_announced()
        return AlternatingWaitingForFirstBarrierUnaligned(self.channels)

    def end_of_partition_received(self, controller: Controller, channel: InputChannel) -> BarrierHandlerState:
        """Remove the channel from those waited for."""
        self.channels.finish(channel)
        return self


class AlternatingCollectingBarriers(AlternatingState):
    """Some barriers have come, others are missing, and the time limit has not passed."""

    def alignment_timed_out(self, controller: Controller, barrier: CheckpointBarrier) -> BarrierHandlerState:
        """Move the announced barriers forward and take the checkpoint at once."""
        self.channels.prioritize_announced()
        _take_unaligned(controller, self.channels.gates, barrier.as_unaligned())
        return AlternatingCollectingBarriersUnaligned(self.channels)

    def end_of_partition_received(self, controller: Controller, channel: InputChannel) -> BarrierHandlerState:
        """Treat the end of the channel as its barrier; it may also reveal that the time limit has passed."""
        self.channels.finish(channel)
        barrier = _pending(controller)
        if controller.all_aligned:
            return self._trigger(controller, barrier)
        if controller.is_timed_out(barrier):
            overdue = self.alignment_timed_out(controller, barrier)
            return overdue.end_of_partition_received(controller, channel)
        return self


# --- unaligned ------------------------------------------------------------------------------------------------------


class UnalignedState(BarrierHandlerState):
    """Barriers overtake: the first of them takes the checkpoint."""

    def announcement_received(self, channel: InputChannel, sequence_number: int) -> BarrierHandlerState:
        """Move the barrier forward at once."""
        self.channels.prioritize(channel, sequence_number)
        return self

    def alignment_timed_out(self, controller: Controller, barrier: CheckpointBarrier) -> BarrierHandlerState:
        """Ignore the timeout: alignment has already timed out."""
        return self

    def _note_closed(self, channel: InputChannel, barrier: CheckpointBarrier, *, block: bool) -> None:
        """Record that a barrier sent as aligned has closed its channel, even if it overtook later."""
        if block and not barrier.options.is_unaligned:
            self.channels.block(channel)


class AlternatingWaitingForFirstBarrierUnaligned(UnalignedState):
    """No barrier has been taken; announced ones have been moved forward."""

    def barrier_received(
        self, controller: Controller, channel: InputChannel, barrier: CheckpointBarrier, *, block: bool
    ) -> BarrierHandlerState:
        """Take the checkpoint, with the data in flight on the other channels."""
        self._note_closed(channel, barrier, block=block)
        _take_unaligned(controller, self.channels.gates, barrier.as_unaligned())
        if controller.all_aligned:
            self.channels.gates.checkpoint_stopped(barrier.checkpoint_id)
            return self.channels.go_home()
        return AlternatingCollectingBarriersUnaligned(self.channels)

    def end_of_partition_received(self, controller: Controller, channel: InputChannel) -> BarrierHandlerState:
        """Remove the channel from those waited for."""
        self.channels.finish(channel)
        return self


class AlternatingCollectingBarriersUnaligned(UnalignedState):
    """The checkpoint was taken; channels whose barrier has not come still add data to it."""

    def barrier_received(
        self, controller: Controller, channel: InputChannel, barrier: CheckpointBarrier, *, block: bool
    ) -> BarrierHandlerState:
        """Complete the input with the last barrier."""
        self._note_closed(channel, barrier, block=block)
        return self._stop(barrier.checkpoint_id) if controller.all_aligned else self

    def end_of_partition_received(self, controller: Controller, channel: InputChannel) -> BarrierHandlerState:
        """Treat the end of the channel as its barrier."""
        self.channels.finish(channel)
        return self._stop(_pending(controller).checkpoint_id) if controller.all_aligned else self

    def abort(self, checkpoint_id: int) -> BarrierHandlerState:
        """Stop adding data."""
        return self._stop(checkpoint_id)

    def _stop(self, checkpoint_id: int) -> BarrierHandlerState:
        self.channels.gates.checkpoint_stopped(checkpoint_id)
        return self.channels.go_home()


def _take_unaligned(controller: Controller, gates: InputGates, barrier: CheckpointBarrier) -> None:
    controller.init_inputs_checkpoint(barrier)
    gates.checkpoint_started(barrier)
    controller.trigger_global_checkpoint(barrier)


def _pending(controller: Controller) -> CheckpointBarrier:
    if controller.pending_barrier is None:
        raise ProtocolError("barriers are being collected, but no checkpoint is pending")
    return controller.pending_barrier


# --- the table ------------------------------------------------------------------------------------------------------


class BarrierEvent(Enum):
    """The events of a handler's state."""

    BARRIER = "a barrier was taken"
    ANNOUNCEMENT = "a barrier was announced"
    TIMEOUT = "the alignment timed out"
    END = "a channel ended"
    ABORT = "the checkpoint was given up"


_WAITING, _COLLECTING = WaitingForFirstBarrier, CollectingBarriers
_ALT_WAITING, _ALT_COLLECTING = AlternatingWaitingForFirstBarrier, AlternatingCollectingBarriers
_UNA_WAITING, _UNA_COLLECTING = AlternatingWaitingForFirstBarrierUnaligned, AlternatingCollectingBarriersUnaligned
_BARRIER, _ANNOUNCEMENT, _TIMEOUT, _END, _ABORT = BarrierEvent

TRANSITIONS: Transitions[type[BarrierHandlerState]] = Transitions(
    "what a barrier handler is doing",
    (_WAITING, _ALT_WAITING, _UNA_WAITING),
    {
        _WAITING: {
            _BARRIER: (_COLLECTING, _WAITING),
            _ANNOUNCEMENT: _WAITING,
            _END: _WAITING,
            _ABORT: _WAITING,
        },
        _COLLECTING: {
            _BARRIER: (_COLLECTING, _WAITING),
            _ANNOUNCEMENT: _COLLECTING,
            _END: (_COLLECTING, _WAITING),
            _ABORT: _WAITING,
        },
        _ALT_WAITING: {
            _BARRIER: (_ALT_COLLECTING, _UNA_COLLECTING, _ALT_WAITING),
            _ANNOUNCEMENT: _ALT_WAITING,
            _TIMEOUT: _UNA_WAITING,
            _END: _ALT_WAITING,
            _ABORT: _ALT_WAITING,
        },
        _ALT_COLLECTING: {
            _BARRIER: (_ALT_COLLECTING, _UNA_COLLECTING, _ALT_WAITING),
            _ANNOUNCEMENT: _ALT_COLLECTING,
            _TIMEOUT: _UNA_COLLECTING,
            _END: (_ALT_COLLECTING, _UNA_COLLECTING, _ALT_WAITING),
            _ABORT: _ALT_WAITING,
        },
        _UNA_WAITING: {
            _BARRIER: (_UNA_COLLECTING, _UNA_WAITING, _ALT_WAITING),
            _ANNOUNCEMENT: _UNA_WAITING,
            _TIMEOUT: _UNA_WAITING,
            _END: _UNA_WAITING,
            _ABORT: (_UNA_WAITING, _ALT_WAITING),
        },
        _UNA_COLLECTING: {
            _BARRIER: (_UNA_COLLECTING, _UNA_WAITING, _ALT_WAITING),
            _ANNOUNCEMENT: _UNA_COLLECTING,
            _TIMEOUT: _UNA_COLLECTING,
            _END: (_UNA_COLLECTING, _UNA_WAITING, _ALT_WAITING),
            _ABORT: (_UNA_WAITING, _ALT_WAITING),
        },
    },
)
"""The state decides between several targets, and the handler checks its choice against the table."""

"""What a task that waits for barriers may be doing, and what makes it do something else.

Aligned: a channel that delivered its barrier is closed until the others have; then the checkpoint is taken. Unaligned:
the checkpoint is taken at the first barrier, and what the other channels deliver before theirs is written as in-flight
data. Alternating: aligned first, unaligned from the moment when that takes too long, or when an upstream task has come
to that before.

`TRANSITIONS` at the end is the whole table: the handler takes no other step, its error quotes it, and
`docs/state-machines.md` draws it. *Home* is the state in which a handler began, and to which each checkpoint that is
taken or given up brings it back.

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
    """What a state may ask of its handler."""

    @property
    def all_aligned(self) -> bool:
        """Whether every channel has delivered its barrier, or ended (`allBarriersReceived`)."""

    @property
    def pending_barrier(self) -> CheckpointBarrier | None:
        """The barrier with which the pending checkpoint began."""

    def trigger_global_checkpoint(self, barrier: CheckpointBarrier) -> None:
        """Take the checkpoint."""

    def init_inputs_checkpoint(self, barrier: CheckpointBarrier) -> None:
        """Start the channel state of the checkpoint."""

    def is_timed_out(self, barrier: CheckpointBarrier) -> bool:
        """Whether aligning has taken too long for this barrier."""


class ChannelState:
    """The channels that wait, and those whose barrier is known to be further back."""

    def __init__(
        self, gates: InputGates, home: type[BarrierHandlerState], prioritized: Callable[[InputChannel], None]
    ) -> None:
        """`prioritized` is told of each channel whose barrier was fetched forward."""
        self.gates = gates
        self.home = home
        self._prioritized = prioritized
        self.blocked: dict[int, InputChannel] = {}
        self._announced: dict[int, tuple[InputChannel, int]] = {}

    def block(self, channel: InputChannel) -> None:
        """The channel's aligned barrier was taken."""
        channel.block()
        self.blocked[channel.number] = channel

    def announce(self, channel: InputChannel, sequence_number: int) -> None:
        """The channel's barrier is in its queue."""
        self._announced[channel.number] = (channel, sequence_number)

    def forget_announcement(self, channel: InputChannel) -> None:
        """The announced barrier itself has come."""
        self._announced.pop(channel.number, None)

    def finish(self, channel: InputChannel) -> None:
        """The channel has ended (`channelFinished`)."""
        self.blocked.pop(channel.number, None)
        self._announced.pop(channel.number, None)

    def prioritize_announced(self) -> None:
        """Fetch all announced barriers forward."""
        announced, self._announced = self._announced, {}
        for channel, sequence_number in announced.values():
            self.prioritize(channel, sequence_number)

    def prioritize(self, channel: InputChannel, sequence_number: int) -> None:
        """Fetch the announced barrier with this number forward."""
        channel.convert_to_priority_event(sequence_number)
        self._prioritized(channel)

    def go_home(self) -> BarrierHandlerState:
        """The checkpoint is over: every channel goes on, and nothing is remembered."""
        blocked, self.blocked = self.blocked, {}
        self._announced = {}
        self.gates.resume(blocked.values())
        return self.home(self)


class BarrierHandlerState(ABC):
    """One state; each method takes something that happened and gives the state that follows."""

    def __init__(self, channels: ChannelState) -> None:
        self.channels = channels

    @abstractmethod
    def barrier_received(
        self, controller: Controller, channel: InputChannel, barrier: CheckpointBarrier, *, block: bool
    ) -> BarrierHandlerState:
        """A barrier of the pending checkpoint was taken from the channel; `block` unless it came by RPC."""

    @abstractmethod
    def announcement_received(self, channel: InputChannel, sequence_number: int) -> BarrierHandlerState:
        """A barrier of the pending checkpoint is in the channel's queue."""

    @abstractmethod
    def alignment_timed_out(self, controller: Controller, barrier: CheckpointBarrier) -> BarrierHandlerState:
        """Aligning takes too long (`alignedCheckpointTimeout`)."""

    @abstractmethod
    def end_of_partition_received(self, controller: Controller, channel: InputChannel) -> BarrierHandlerState:
        """The channel ended while a checkpoint is pending."""

    def abort(self, checkpoint_id: int) -> BarrierHandlerState:
        """The checkpoint was given up."""
        return self.channels.go_home()

    def __repr__(self) -> str:
        return type(self).__name__


# --- aligned --------------------------------------------------------------------------------------------------------


class AlignedState(BarrierHandlerState):
    """Aligned, however long it takes (`AbstractAlignedBarrierHandlerState`)."""

    def barrier_received(
        self, controller: Controller, channel: InputChannel, barrier: CheckpointBarrier, *, block: bool
    ) -> BarrierHandlerState:
        """Close the channel; the last one takes the checkpoint and opens all."""
        if barrier.options.is_unaligned:
            raise ProtocolError(f"{channel.source_task} sent {barrier!r} to a task that only aligns")
        if block:
            self.channels.block(channel)
        if controller.all_aligned:
            return self._trigger(controller, barrier)
        return CollectingBarriers(self.channels)

    def announcement_received(self, channel: InputChannel, sequence_number: int) -> BarrierHandlerState:
        """Nothing ever overtakes here."""
        return self

    def alignment_timed_out(self, controller: Controller, barrier: CheckpointBarrier) -> BarrierHandlerState:
        """No time is ever set here. Raises ProtocolError."""
        raise ProtocolError(f"the alignment of {barrier!r} timed out in a task that only aligns")

    def _trigger(self, controller: Controller, barrier: CheckpointBarrier) -> BarrierHandlerState:
        controller.trigger_global_checkpoint(barrier)
        return self.channels.go_home()


class WaitingForFirstBarrier(AlignedState):
    """No barrier has come."""

    def end_of_partition_received(self, controller: Controller, channel: InputChannel) -> BarrierHandlerState:
        """One channel fewer to wait for."""
        self.channels.finish(channel)
        return self


class CollectingBarriers(AlignedState):
    """Some barriers have come, others are waited for."""

    def end_of_partition_received(self, controller: Controller, channel: InputChannel) -> BarrierHandlerState:
        """The end of the last channel waited for is as good as its barrier."""
        self.channels.finish(channel)
        if controller.all_aligned:
            return self._trigger(controller, _pending(controller))
        return self


# --- aligned until it takes too long --------------------------------------------------------------------------------


class AlternatingState(BarrierHandlerState):
    """Aligned, as long as that does not take too long (`AbstractAlternatingAlignedBarrierHandlerState`)."""

    def barrier_received(
        self, controller: Controller, channel: InputChannel, barrier: CheckpointBarrier, *, block: bool
    ) -> BarrierHandlerState:
        """Close the channel, unless the barrier says that it is too late for that, or it is."""
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
        """Remember where the barrier is."""
        self.channels.announce(channel, sequence_number)
        return self

    def _trigger(self, controller: Controller, barrier: CheckpointBarrier) -> BarrierHandlerState:
        controller.init_inputs_checkpoint(barrier)
        controller.trigger_global_checkpoint(barrier)
        return self.channels.go_home()


class AlternatingWaitingForFirstBarrier(AlternatingState):
    """No barrier has been taken; some may have been announced."""

    def alignment_timed_out(self, controller: Controller, barrier: CheckpointBarrier) -> BarrierHandlerState:
        """Fetch the announced barriers forward; the first to be taken begins the checkpoint."""
        self.channels.prioritize_announced()
        return AlternatingWaitingForFirstBarrierUnaligned(self.channels)

    def end_of_partition_received(self, controller: Controller, channel: InputChannel) -> BarrierHandlerState:
        """One channel fewer to wait for."""
        self.channels.finish(channel)
        return self


class AlternatingCollectingBarriers(AlternatingState):
    """Some barriers have come, others are waited for, in time so far."""

    def alignment_timed_out(self, controller: Controller, barrier: CheckpointBarrier) -> BarrierHandlerState:
        """Fetch the announced barriers forward and take the checkpoint at once."""
        self.channels.prioritize_announced()
        _take_unaligned(controller, self.channels.gates, barrier.as_unaligned())
        return AlternatingCollectingBarriersUnaligned(self.channels)

    def end_of_partition_received(self, controller: Controller, channel: InputChannel) -> BarrierHandlerState:
        """The end of the last channel waited for is as good as its barrier; of another one, it may come too late."""
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
    """Barriers overtake: the checkpoint is taken at the first of them."""

    def announcement_received(self, channel: InputChannel, sequence_number: int) -> BarrierHandlerState:
        """Fetch the barrier forward at once."""
        self.channels.prioritize(channel, sequence_number)
        return self

    def alignment_timed_out(self, controller: Controller, barrier: CheckpointBarrier) -> BarrierHandlerState:
        """It has already."""
        return self

    def _note_closed(self, channel: InputChannel, barrier: CheckpointBarrier, *, block: bool) -> None:
        """A barrier that was sent as an aligned one has closed its channel, also when it overtook later."""
        if block and not barrier.options.is_unaligned:
            self.channels.block(channel)


class AlternatingWaitingForFirstBarrierUnaligned(UnalignedState):
    """No barrier has been taken; announced ones have been fetched forward."""

    def barrier_received(
        self, controller: Controller, channel: InputChannel, barrier: CheckpointBarrier, *, block: bool
    ) -> BarrierHandlerState:
        """Take the checkpoint, with what is in flight on the other channels."""
        self._note_closed(channel, barrier, block=block)
        _take_unaligned(controller, self.channels.gates, barrier.as_unaligned())
        if controller.all_aligned:
            self.channels.gates.checkpoint_stopped(barrier.checkpoint_id)
            return self.channels.go_home()
        return AlternatingCollectingBarriersUnaligned(self.channels)

    def end_of_partition_received(self, controller: Controller, channel: InputChannel) -> BarrierHandlerState:
        """One channel fewer to wait for."""
        self.channels.finish(channel)
        return self


class AlternatingCollectingBarriersUnaligned(UnalignedState):
    """The checkpoint was taken; the channels whose barrier has not come are still adding to it."""

    def barrier_received(
        self, controller: Controller, channel: InputChannel, barrier: CheckpointBarrier, *, block: bool
    ) -> BarrierHandlerState:
        """With the last barrier the input is complete."""
        self._note_closed(channel, barrier, block=block)
        return self._stop(barrier.checkpoint_id) if controller.all_aligned else self

    def end_of_partition_received(self, controller: Controller, channel: InputChannel) -> BarrierHandlerState:
        """The end of a channel is as good as its barrier."""
        self.channels.finish(channel)
        return self._stop(_pending(controller).checkpoint_id) if controller.all_aligned else self

    def abort(self, checkpoint_id: int) -> BarrierHandlerState:
        """Nothing more is added."""
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
    """What may happen to a handler's state."""

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
"""Where there is a choice, the state makes it and the handler holds it against the table."""

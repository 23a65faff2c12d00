"""The inputs of a task: one queue per channel, one gate per job edge.

A channel's queue belongs to the task, not to the network: its length is bounded by the credits that the task has
granted. Taking a buffer out of the queue returns one credit to the sender.

The gates of a task share one turn: `next_channel` goes round all channels that have an element, so no channel starves.
Channels with a priority element come first, and may be read even if the task's outputs are full.

Follows Flink's `SingleInputGate`, `UnionInputGate` and `InputChannelInfo`; `kit.machines.channel.input_channel` has the
channel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count

from kit.core.protocol.elements import CheckpointBarrier
from kit.core.state.handles import InputChannelInfo
from kit.machines.channel.channel_state.channel_state_capture import HeldCapture
from kit.machines.channel.channel_state.channel_state_persister import InputStateWriter
from kit.machines.channel.input_channel import InputChannel, Turns


class InputGates:
    """All input channels of a task, gate after gate, and the order in which they are read.

    `gates` lists, for each gate, the (channel number, sender's task) pairs in channel order. In-flight data of
    unaligned checkpoints goes to `writer`; a user-defined `capture` decides what is in flight.
    """

    def __init__(
        self,
        gates: Sequence[Sequence[tuple[int, str]]],
        writer: InputStateWriter | None = None,
        capture: HeldCapture | None = None,
    ) -> None:
        self._turns = Turns()
        position = count()
        self.channels: tuple[InputChannel, ...] = tuple(
            InputChannel(number, InputChannelInfo(gate, index), source, writer, self._turns, next(position), capture)
            for gate, members in enumerate(gates)
            for index, (number, source) in enumerate(members)
        )
        self._by_number = {channel.number: channel for channel in self.channels}
        self._turn = 0

    def __len__(self) -> int:
        return len(self.channels)

    def __iter__(self) -> Iterator[InputChannel]:
        return iter(self.channels)

    def __repr__(self) -> str:
        return f"InputGates({len(self.channels)} channels)"

    def channel(self, number: int) -> InputChannel:
        """Return the channel with this number in the execution graph."""
        return self._by_number[number]

    # --- the next channel -----------------------------------------------------------------------------------------

    def next_channel(self, *, only_priority: bool = False) -> InputChannel | None:
        """Return the channel to take from next, those with a priority element first; None if nothing is available.

        With `only_priority`, only priority elements count.
        """
        ready, prioritized = self._turns.ready, self._turns.prioritized
        if prioritized:
            channels = len(self.channels)
            position = min(prioritized, key=lambda position: (position - self._turn) % channels)
        elif only_priority or not ready:
            return None
        else:
            position = ready.next_from(self._turn)
        self._turn = position + 1
        return self.channels[position]

    @property
    def available(self) -> bool:
        """True if any channel has an element that may be taken."""
        return len(self._turns.ready) > 0

    @property
    def priority_available(self) -> bool:
        """True if any channel has a priority element in front."""
        return bool(self._turns.prioritized)

    @property
    def all_ended(self) -> bool:
        """True if every channel has delivered its EndOfPartition; also for a task without inputs."""
        return len(self._turns.ended) == len(self.channels)

    @property
    def open_channels(self) -> list[InputChannel]:
        """The channels that have not ended."""
        return [channel for channel in self.channels if not channel.ended]

    # --- checkpoints ----------------------------------------------------------------------------------------------

    def resume(self, channels: Iterable[InputChannel]) -> None:
        """Resume these channels."""
        for channel in channels:
            channel.resume()

    def checkpoint_started(self, barrier: CheckpointBarrier) -> None:
        """Start an unaligned checkpoint: every channel writes what is in flight on it.

        Raises CheckpointException (CHECKPOINT_SUBSUMED) if a newer barrier has arrived on one of them.
        """
        for channel in self.channels:
            channel.checkpoint_started(barrier)

    def checkpoint_stopped(self, checkpoint_id: int) -> None:
        """End the unaligned checkpoint for the inputs."""
        for channel in self.channels:
            channel.checkpoint_stopped(checkpoint_id)

    def validate(self) -> None:
        """Check that no channel is closed forever."""
        for channel in self.channels:
            channel.validate()

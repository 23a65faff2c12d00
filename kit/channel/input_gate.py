"""Where a task's inputs arrive: one queue a channel, one gate a job edge.

A channel's queue belongs to the task, not to the network: its length is bounded by the credits the task has given
out, a blocked channel keeps its elements where they are, and a priority event can be put in front. Taking a buffer
out of the queue gives the sender one credit back.

The gates of a task share one turn: `next_channel` goes round all channels that have something and are not blocked, so
no channel starves.

Follows Flink's `RemoteInputChannel`, `SingleInputGate`, `UnionInputGate` and `InputChannelInfo`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from kit.protocol.elements import Buffer, Element, EndOfPartition
from kit.protocol.words import ProtocolError
from kit.state.handles import InputChannelInfo


class InputChannel:
    """One input channel: what has arrived and not been taken.

    `number` is the channel's number in the execution graph, `info` its place in the task, `source_task` the sender.
    """

    __slots__ = ("_causes", "blocked", "credits_granted", "ended", "info", "number", "queue", "source_task")

    def __init__(self, number: int, info: InputChannelInfo, source_task: str) -> None:
        self.number = number
        self.info = info
        self.source_task = source_task
        self.queue: deque[Element] = deque()
        self._causes: deque[str] = deque()
        self.blocked = False
        self.ended = False
        self.credits_granted = 0

    @property
    def available(self) -> bool:
        """Whether an element may be taken."""
        return bool(self.queue) and not self.blocked

    def receive(self, element: Element, cause: str = "") -> None:
        """Put what the network delivered at the end of the queue; `cause` is the id of the event that brought it."""
        if self.ended:
            raise ProtocolError(f"channel {self.number} from {self.source_task} delivered {element!r} after its end")
        if isinstance(element, Buffer):
            self.credits_granted -= 1
            if self.credits_granted < 0:
                raise ProtocolError(f"{self.source_task} sent a buffer on channel {self.number} without a credit")
        self.queue.append(element)
        self._causes.append(cause)

    def take(self) -> tuple[Element, str]:
        """Take the first element; with it comes the cause of its arrival."""
        element = self.queue.popleft()
        if isinstance(element, EndOfPartition):
            self.ended = True
        return element, self._causes.popleft()

    @property
    def queued_bytes(self) -> int:
        """Bytes of the buffers that wait here."""
        return sum(element.size_bytes for element in self.queue if isinstance(element, Buffer))

    def __repr__(self) -> str:
        state = "ended" if self.ended else "blocked" if self.blocked else "open"
        return f"InputChannel({self.source_task}, {len(self.queue)} queued, {state})"


class InputGates:
    """All input channels of a task, gate after gate, and whose turn it is.

    `gates` lists, for each gate, the (channel number, sender's task) pairs in channel order.
    """

    def __init__(self, gates: Sequence[Sequence[tuple[int, str]]]) -> None:
        self.channels: tuple[InputChannel, ...] = tuple(
            InputChannel(number, InputChannelInfo(gate, index), source)
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
        """The channel with this number in the execution graph."""
        return self._by_number[number]

    def next_channel(self) -> InputChannel | None:
        """The channel to take from next, in turn, or None when nothing is available."""
        count = len(self.channels)
        for step in range(count):
            position = (self._turn + step) % count
            if self.channels[position].available:
                self._turn = (position + 1) % count
                return self.channels[position]
        return None

    @property
    def available(self) -> bool:
        """Whether any channel has an element that may be taken."""
        return any(channel.available for channel in self.channels)

    @property
    def all_ended(self) -> bool:
        """Whether every channel has seen its EndOfPartition; true for a task without inputs."""
        return all(channel.ended for channel in self.channels)

    @property
    def open_channels(self) -> list[InputChannel]:
        """The channels that have not ended."""
        return [channel for channel in self.channels if not channel.ended]

    def block(self, channel: InputChannel) -> None:
        """Keep the channel's elements where they are until `resume`."""
        channel.blocked = True

    def resume(self, channels: Iterable[InputChannel]) -> None:
        """Let these channels be read again."""
        for channel in channels:
            channel.blocked = False

"""The data plane: every logical channel between the slots of an epoch, over one connection for each pair of slots.

Theory of operation. The tasks (`StreamTask`, pure) own queues and credits: a task says "send" only with credit, and
grants credit when it has taken a buffer. The data plane only carries: elements forward, credits backward. Both go
over the same connection, since neither can block the other: a reader never waits, it puts what arrives into the
*inbox*, whose length is bounded by the credits. So a channel without credit holds up no other channel.

Batches are packed by the writer thread and unpacked by the reader thread. Order is kept within a channel. A priority
event (an unaligned barrier) goes before everything its sender has not yet written; `send` returns the elements
of its channel that were overtaken, so that the sender can take them into its snapshot. What is already in the
kernel's hands cannot be overtaken: it arrives before the event and is the receiver's.

Of two slots, the lower dials the higher. A channel within one slot passes through the inbox directly, as objects.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import pandas as pd
import pyarrow as pa

from kit.hosts.spark.wire.auth import Party, Purpose, Verdict, check_secret
from kit.hosts.spark.wire.connection import Connection
from kit.hosts.spark.wire.endpoint import Listener, WireSettings, dial
from kit.hosts.spark.wire.stream import Endpoint, Stream
from kit.hosts.spark.wire.wire import (
    BatchDecoder,
    BatchEncoder,
    Buffers,
    Frame,
    FrameFlag,
    FrameKind,
    WireError,
    pack_credit,
    pack_frame,
    unpack_credit,
)

Element: TypeAlias = pa.RecordBatch | bytes
"""What a channel carries: a batch, or an event that its sender has encoded."""


@dataclass(frozen=True, slots=True)
class ElementArrived:
    """An element came on a channel."""

    channel: int
    element: Element
    priority: bool = False

    def __repr__(self) -> str:
        element = self.element
        what = f"event of {len(element)} bytes" if isinstance(element, bytes) else f"{element.num_rows} rows"
        return f"ElementArrived(channel={self.channel}, {what}{', priority' if self.priority else ''})"


@dataclass(frozen=True, slots=True)
class CreditArrived:
    """The channel's receiver takes this many more buffers."""

    channel: int
    credits: int


@dataclass(frozen=True, slots=True)
class PeerEnded:
    """A slot has ended in good order: all it had to say has arrived."""

    slot: int


@dataclass(frozen=True, slots=True)
class PeerLost:
    """A slot's connection broke: its process died, froze, or broke the protocol."""

    slot: int
    reason: str


class Route(NamedTuple):
    """Where a channel leads. Channel ids are unique in a job's epoch."""

    channel: int
    producer: int
    """The slot that sends elements and receives credits."""
    consumer: int
    """The slot that receives elements and grants credits."""


class _Outgoing(NamedTuple):
    kind: FrameKind
    channel: int
    content: Any
    """RecordBatch, event bytes or number of credits."""
    flags: int = 0


@dataclass(slots=True)
class _Traffic:
    """Counters of one channel in one direction, written by one thread."""

    batches: int = 0
    rows: int = 0
    bytes: int = 0
    events: int = 0
    credits: int = 0
    """Granted by the receiver: at the receiver as sent out, at the sender as arrived."""

    def count(self, element: Element, size_bytes: int) -> None:
        self.bytes += size_bytes
        if isinstance(element, bytes):
            self.events += 1
        else:
            self.batches += 1
            self.rows += element.num_rows


def _size_bytes(element: Element) -> int:
    # Not `nbytes`, which lets other threads run meanwhile: that costs ten times what it counts.
    return len(element) if isinstance(element, bytes) else int(element.get_total_buffer_size())


class _Peer:
    """One connection of the data plane, its encoders and decoders."""

    def __init__(self, plane: DataPlane, slot: int, stream: Stream, settings: WireSettings) -> None:
        self.slot = slot
        self._plane = plane
        self._compression: Any = settings.compression
        self._encoders: dict[int, BatchEncoder] = {}
        self._decoders: dict[int, BatchDecoder] = {}
        name = f"{plane.slot}-{slot}"
        self.connection = Connection(stream, name, self._pack, self._deliver, self._gone, settings=settings)

    def _pack(self, item: _Outgoing) -> Buffers:
        if item.kind is FrameKind.EVENT:
            return pack_frame(FrameKind.EVENT, [item.content], item.channel, item.flags)
        if item.kind is FrameKind.CREDIT:
            return pack_credit(item.channel, item.content)
        encoder = self._encoders.get(item.channel)
        if encoder is None:
            encoder = self._encoders[item.channel] = BatchEncoder(item.channel, self._compression)
        return encoder.encode(item.content)

    def _deliver(self, frame: Frame) -> None:
        channel = frame.channel
        if frame.kind is FrameKind.CREDIT:
            self._plane._credit_arrived(self.slot, channel, unpack_credit(frame.payload))
        elif frame.kind is FrameKind.EVENT:
            priority = bool(frame.flags & FrameFlag.PRIORITY)
            self._plane._element_arrived(self.slot, channel, bytes(frame.payload), priority)
        elif frame.kind in (FrameKind.SCHEMA, FrameKind.BATCH):
            decoder = self._decoders.get(channel)
            if decoder is None:
                decoder = self._decoders[channel] = BatchDecoder(channel)
            batch = decoder.decode(frame)
            if batch is not None:
                self._plane._element_arrived(self.slot, channel, batch, False)
        else:
            raise WireError(f"a {frame.kind.name} frame on a data connection")

    def _gone(self, clean: bool, reason: str) -> None:
        self._plane.inbox.put(PeerEnded(self.slot) if clean else PeerLost(self.slot, reason))


class DataPlane:
    """One slot's end of all data channels in one epoch.

    Puts `ElementArrived`, `CreditArrived`, `PeerEnded` and `PeerLost` into `inbox`, which the slot's main loop
    takes from. `endpoints` goes to the driver in the hello; `connect` follows when the driver has sent everybody's.

    `send` and `grant` never wait. How much may be under way is the credits' business.
    """

    def __init__(
        self,
        slot: int,
        epoch: int,
        secret: bytes,
        inbox: queue.SimpleQueue[Any],
        *,
        host: str = "127.0.0.1",
        advertised_host: str = "",
        directory: str | None = "",
        settings: WireSettings | None = None,
    ) -> None:
        """`host`: the address to listen on. `advertised_host`: what peers dial, when that is another. `directory`:
        where the private directory of the Unix socket goes ("": the system's temporary directory; None: no such
        socket).
        """
        self.slot = slot
        self.epoch = epoch
        self.inbox = inbox
        self._secret = check_secret(secret)
        self._settings = settings or WireSettings()
        self._changed = threading.Condition()
        self._peers: dict[int, _Peer] = {}
        self._routes: dict[int, Route] = {}
        self._connected = False
        self._traffic: dict[tuple[int, str], _Traffic] = {}
        self._listener = Listener(
            secret,
            Purpose.DATA,
            lambda: Party(slot, epoch),
            self._judge,
            self._accepted,
            host=host,
            advertised_host=advertised_host,
            directory=directory,
            settings=self._settings,
        )

    def __repr__(self) -> str:
        return f"DataPlane(slot={self.slot}, epoch={self.epoch}, peers={sorted(self._peers)})"

    @property
    def endpoints(self) -> list[Endpoint]:
        """Where peers reach this slot, the fastest first."""
        return self._listener.endpoints

    # ---- connecting ----------------------------------------------------------------------------------------------

    def connect(
        self, endpoints: Mapping[int, list[Endpoint]], routes: Iterable[Route], timeout_s: float = 30.0
    ) -> None:
        """Connects with every slot that shares a channel with this one: dials higher slots, awaits lower ones.

        `endpoints`: of each slot. `routes`: of each channel of the job (those of other slots are passed over).
        TimeoutError names the slots that did not come; ConnectionError, AuthenticationError, FencedError as in `dial`.
        """
        deadline = time.monotonic() + timeout_s
        mine = {route.channel: route for route in routes if self.slot in (route.producer, route.consumer)}
        for route in mine.values():
            if route.producer == self.slot:
                self._traffic[route.channel, "out"] = _Traffic()
            if route.consumer == self.slot:
                self._traffic[route.channel, "in"] = _Traffic()
        self._routes, self._connected = mine, True
        wanted = {slot for route in mine.values() for slot in (route.producer, route.consumer)} - {self.slot}
        me = Party(self.slot, self.epoch)
        for slot in sorted(wanted):
            if slot > self.slot:
                stream = dial(endpoints[slot], self._secret, Purpose.DATA, me, slot, settings=self._settings)
                self._accepted(stream, Party(slot, self.epoch))
        with self._changed:
            if not self._changed.wait_for(lambda: wanted <= self._peers.keys(), max(0.0, deadline - time.monotonic())):
                missing = sorted(wanted - self._peers.keys())
                raise TimeoutError(f"slot {self.slot} waited {timeout_s} s for slots {missing} to connect")

    def _judge(self, party: Party) -> Verdict:
        if party.epoch != self.epoch:
            return Verdict.FENCED
        with self._changed:
            taken = party.slot in self._peers or not 0 <= party.slot < self.slot
        return Verdict.TAKEN if taken else Verdict.WELCOME

    def _accepted(self, stream: Stream, party: Party) -> None:
        with self._changed:
            if party.slot in self._peers:
                stream.close()
                return
            peer = self._peers[party.slot] = _Peer(self, party.slot, stream, self._settings)
            peer.connection.start()
            self._changed.notify_all()

    # ---- sending -------------------------------------------------------------------------------------------------

    def send(self, channel: int, element: Element, priority: bool = False) -> list[Element]:
        """Sends an element; returns what a priority event overtook on its channel, in order.

        KeyError when this slot does not send on the channel. Only events (bytes) can have priority: ValueError.
        Towards a lost peer elements vanish: the loss is in the inbox, and the epoch is over.
        """
        if priority and not isinstance(element, bytes):
            raise ValueError(f"channel {channel}: only an event can have priority, not a batch")
        size_bytes = _size_bytes(element)
        self._traffic[channel, "out"].count(element, size_bytes)
        consumer = self._routes[channel].consumer
        if consumer == self.slot:
            self._element_arrived(self.slot, channel, element, priority)
            return []
        connection = self._peers[consumer].connection
        if not isinstance(element, bytes):
            connection.send(_Outgoing(FrameKind.BATCH, channel, element), size_bytes)
            return []
        if not priority:
            connection.send(_Outgoing(FrameKind.EVENT, channel, element), size_bytes)
            return []
        event = _Outgoing(FrameKind.EVENT, channel, element, FrameFlag.PRIORITY)
        return [item.content for item in connection.send_urgent(event, lambda item: item.channel == channel)]

    def grant(self, channel: int, credits: int) -> None:
        """Tells the channel's sender that `credits` more buffers may come. KeyError as in `send`."""
        self._traffic[channel, "in"].credits += credits
        producer = self._routes[channel].producer
        if producer == self.slot:
            self._credit_arrived(self.slot, channel, credits)
        else:
            self._peers[producer].connection.send_urgent(_Outgoing(FrameKind.CREDIT, channel, credits))

    # ---- receiving (on readers' threads) -------------------------------------------------------------------------

    def _element_arrived(self, slot: int, channel: int, element: Element, priority: bool) -> None:
        self._check(slot, channel, "in")
        traffic = self._traffic.get((channel, "in"))
        if traffic is not None:
            traffic.count(element, _size_bytes(element))
        self.inbox.put(ElementArrived(channel, element, priority))

    def _credit_arrived(self, slot: int, channel: int, credits: int) -> None:
        self._check(slot, channel, "out")
        traffic = self._traffic.get((channel, "out"))
        if traffic is not None:
            traffic.credits += credits
        self.inbox.put(CreditArrived(channel, credits))

    def _check(self, slot: int, channel: int, direction: str) -> None:
        """A peer may use only the channels it shares with us. Before `connect` we do not know them yet."""
        if not self._connected:
            return
        route = self._routes.get(channel)
        if route is None or slot != (route.producer if direction == "in" else route.consumer):
            raise WireError(f"slot {slot} used channel {channel}, which does not lead from it to slot {self.slot}")

    # ---- ending --------------------------------------------------------------------------------------------------

    def counters(self) -> pd.DataFrame:
        """Traffic since `connect`, a row for each channel and direction: batches, rows, bytes, events, credits."""
        rows = [
            (channel, direction, traffic.batches, traffic.rows, traffic.bytes, traffic.events, traffic.credits)
            for (channel, direction), traffic in sorted(self._traffic.items())
        ]
        columns = ["channel", "direction", "batches", "rows", "bytes", "events", "credits"]
        return pd.DataFrame(rows, columns=columns)

    def end(self, timeout_s: float = 10.0) -> bool:
        """Ends in good order: everything sent is written, then END; waits until the peers have ended too.

        Call it when this slot has nothing more to send or to grant. False when a peer did not end in time.
        """
        deadline = time.monotonic() + timeout_s
        peers = self._all_peers()
        for peer in peers:
            peer.connection.end()
        return all(peer.connection.wait(max(0.0, deadline - time.monotonic())) for peer in peers)

    def close(self) -> None:
        """Ends everything at once and leaves no thread, socket or directory. After `end` nothing is lost by it."""
        self._listener.close()
        for peer in self._all_peers():
            peer.connection.close()

    def _all_peers(self) -> list[_Peer]:
        with self._changed:
            return list(self._peers.values())

    def __enter__(self) -> DataPlane:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

"""The data plane: every logical channel between the slots of a deployment, over one connection for each pair of slots.

Theory of operation. The tasks (`StreamTask`, pure) own queues and credits. A task sends only with credit, and grants
credit when it has taken a buffer. The data plane only transports elements forward and credits backward. Both use the
same connection, because neither can block the other: a reader never waits, but puts all items into the *inbox*, whose
length is bounded by the credits. So a channel without credit does not block other channels.

The writer thread packs batches and the reader thread unpacks them. Order is kept within a channel: an unaligned barrier
overtakes buffers in the queues of the tasks, never here (`TaskHost`). Credits do not wait behind elements.

Of two slots, the lower dials the higher. Elements of a channel within one slot never come here.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

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
    FrameKind,
    WireError,
    pack_credit,
    pack_frame,
    unpack_credit,
)

Element: TypeAlias = pa.RecordBatch | bytes
"""An element of a channel: a batch, or an event that its sender has encoded."""


@dataclass(frozen=True, slots=True)
class ElementArrived:
    """The arrival of an element on a channel."""

    channel: int
    element: Element

    def __repr__(self) -> str:
        element = self.element
        what = f"event of {len(element)} bytes" if isinstance(element, bytes) else f"{element.num_rows} rows"
        return f"ElementArrived(channel={self.channel}, {what})"


@dataclass(frozen=True, slots=True)
class CreditArrived:
    """The arrival of credits: the channel's receiver accepts this many more buffers, of `max_rows` at most if given."""

    channel: int
    credits: int
    max_rows: int | None = None


@dataclass(frozen=True, slots=True)
class PeerEnded:
    """The orderly end of a slot: everything that it sent has arrived."""

    slot: int


@dataclass(frozen=True, slots=True)
class PeerLost:
    """The loss of a slot's connection: its process died, froze, or violated the protocol."""

    slot: int
    reason: str


class Route(NamedTuple):
    """The two slots of a channel. Channel ids are unique in a job's epoch."""

    channel: int
    producer: int
    """The slot that sends elements and receives credits."""
    consumer: int
    """The slot that receives elements and grants credits."""


class _Outgoing(NamedTuple):
    kind: FrameKind
    channel: int
    content: Any
    """RecordBatch, event bytes, or credits with their limit on rows."""


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
            return pack_frame(FrameKind.EVENT, [item.content], item.channel)
        if item.kind is FrameKind.CREDIT:
            return pack_credit(item.channel, *item.content)
        encoder = self._encoders.get(item.channel)
        if encoder is None:
            encoder = self._encoders[item.channel] = BatchEncoder(item.channel, self._compression)
        return encoder.encode(item.content)

    def _deliver(self, frame: Frame) -> None:
        channel = frame.channel
        if frame.kind is FrameKind.CREDIT:
            self._plane._credit_arrived(self.slot, channel, *unpack_credit(frame.payload))
        elif frame.kind is FrameKind.EVENT:
            self._plane._element_arrived(self.slot, channel, bytes(frame.payload))
        elif frame.kind in (FrameKind.SCHEMA, FrameKind.BATCH):
            decoder = self._decoders.get(channel)
            if decoder is None:
                decoder = self._decoders[channel] = BatchDecoder(channel)
            batch = decoder.decode(frame)
            if batch is not None:
                self._plane._element_arrived(self.slot, channel, batch)
        else:
            raise WireError(f"a {frame.kind.name} frame on a data connection")

    def _gone(self, clean: bool, reason: str) -> None:
        self._plane.inbox.put(PeerEnded(self.slot) if clean else PeerLost(self.slot, reason))


class DataPlane:
    """One slot's end of all data channels in one deployment.

    It puts `ElementArrived`, `CreditArrived`, `PeerEnded` and `PeerLost` into `inbox`, which the slot's main loop
    reads. The hello sends `endpoints` to the driver; `connect` is called once the driver has sent those of all slots.

    `send` and `grant` never wait. The credits limit how much data is in flight.
    """

    def __init__(
        self,
        slot: int,
        deployment: int,
        secret: bytes,
        inbox: queue.SimpleQueue[Any],
        *,
        host: str = "127.0.0.1",
        advertised_host: str = "",
        directory: str | None = "",
        settings: WireSettings | None = None,
    ) -> None:
        """Open the listener.

        `host` is the address to listen on, and `advertised_host` the one that peers dial, if it differs. `directory` is
        the parent of the Unix socket's private directory ("": the system's temporary directory; None: no Unix socket).
        """
        self.slot = slot
        self.deployment = deployment
        self.inbox = inbox
        self._secret = check_secret(secret)
        self._settings = settings or WireSettings()
        self._changed = threading.Condition()
        self._peers: dict[int, _Peer] = {}
        self._routes: dict[int, Route] = {}
        self._connected = False
        self._listener = Listener(
            secret,
            Purpose.DATA,
            lambda: Party(slot, deployment),
            self._judge,
            self._accepted,
            host=host,
            advertised_host=advertised_host,
            directory=directory,
            settings=self._settings,
        )

    def __repr__(self) -> str:
        return f"DataPlane(slot={self.slot}, deployment={self.deployment}, peers={sorted(self._peers)})"

    @property
    def endpoints(self) -> list[Endpoint]:
        """The endpoints at which peers reach this slot, fastest first."""
        return self._listener.endpoints

    # ---- connecting ----------------------------------------------------------------------------------------------

    def connect(
        self, endpoints: Mapping[int, list[Endpoint]], routes: Iterable[Route], timeout_s: float = 30.0
    ) -> None:
        """Connect with every slot that shares a channel with this one: dial higher slots and wait for lower ones.

        `endpoints` are those of each slot. `routes` are those of all channels of the job; channels of other slots are
        ignored. Raises TimeoutError, naming the missing slots, and ConnectionError, AuthenticationError and FencedError
        as `dial` does.
        """
        deadline = time.monotonic() + timeout_s
        mine = {route.channel: route for route in routes if self.slot in (route.producer, route.consumer)}
        self._routes, self._connected = mine, True
        wanted = {slot for route in mine.values() for slot in (route.producer, route.consumer)} - {self.slot}
        me = Party(self.slot, self.deployment)
        for slot in sorted(wanted):
            if slot > self.slot:
                stream = dial(endpoints[slot], self._secret, Purpose.DATA, me, slot, settings=self._settings)
                self._accepted(stream, Party(slot, self.deployment))
        with self._changed:
            if not self._changed.wait_for(lambda: wanted <= self._peers.keys(), max(0.0, deadline - time.monotonic())):
                missing = sorted(wanted - self._peers.keys())
                raise TimeoutError(f"slot {self.slot} waited {timeout_s} s for slots {missing} to connect")

    def _judge(self, party: Party) -> Verdict:
        if party.deployment != self.deployment:
            return Verdict.FENCED
        if not 0 <= party.slot < self.slot:
            return Verdict.UNKNOWN
        with self._changed:
            return Verdict.TAKEN if party.slot in self._peers else Verdict.WELCOME

    def _accepted(self, stream: Stream, party: Party) -> None:
        with self._changed:
            if party.slot in self._peers:
                stream.close()
                return
            peer = self._peers[party.slot] = _Peer(self, party.slot, stream, self._settings)
            peer.connection.start()
            self._changed.notify_all()

    # ---- sending -------------------------------------------------------------------------------------------------

    def send(self, channel: int, element: Element) -> None:
        """Send an element. Raises KeyError if this slot does not send on the channel to another slot.

        Elements for a lost peer are discarded: the inbox reports the loss, and the deployment is over.
        """
        connection = self._peers[self._routes[channel].consumer].connection
        if isinstance(element, bytes):
            connection.send(_Outgoing(FrameKind.EVENT, channel, element), len(element))
        else:  # not `nbytes`: it lets other threads run meanwhile, which costs ten times as much as the size itself
            connection.send(_Outgoing(FrameKind.BATCH, channel, element), int(element.get_total_buffer_size()))

    def grant(self, channel: int, credits: int, max_rows: int | None = None) -> None:
        """Grant the channel's sender `credits` more buffers, of at most `max_rows` rows if given.

        Raises KeyError as `send` does.
        """
        connection = self._peers[self._routes[channel].producer].connection
        connection.send_urgent(_Outgoing(FrameKind.CREDIT, channel, (credits, max_rows)))

    # ---- receiving (on readers' threads) -------------------------------------------------------------------------

    def _element_arrived(self, slot: int, channel: int, element: Element) -> None:
        self._check(slot, channel, "in")
        self.inbox.put(ElementArrived(channel, element))

    def _credit_arrived(self, slot: int, channel: int, credits: int, max_rows: int | None) -> None:
        self._check(slot, channel, "out")
        self.inbox.put(CreditArrived(channel, credits, max_rows))

    def _check(self, slot: int, channel: int, direction: str) -> None:
        """Check that a peer uses only channels that it shares with us. Before `connect` these are unknown."""
        if not self._connected:
            return
        route = self._routes.get(channel)
        if route is None or slot != (route.producer if direction == "in" else route.consumer):
            raise WireError(f"slot {slot} used channel {channel}, which does not lead from it to slot {self.slot}")

    # ---- ending --------------------------------------------------------------------------------------------------

    def end(self, timeout_s: float = 10.0) -> bool:
        """End in good order: write everything that was sent, then END, and wait until the peers have ended too.

        Call it when this slot has nothing more to send or to grant. Return False if a peer does not end in time.
        """
        deadline = time.monotonic() + timeout_s
        peers = self._all_peers()
        for peer in peers:
            peer.connection.end()
        return all(peer.connection.wait(max(0.0, deadline - time.monotonic())) for peer in peers)

    def close(self) -> None:
        """End everything at once and leave no thread, socket or directory. After `end`, this loses no data."""
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

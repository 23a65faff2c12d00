"""The control plane: the driver's server and the slots' clients.

Theory of operation. Slots connect to the driver, authenticate, and send a hello. From then on both sides send
`ControlMessage`s at any time, and heartbeats while they have no other messages. Incoming items go into the owner's
inbox as `SlotJoined`, `SlotMessage` and `SlotLeft` at the driver, as `DriverMessage` and `DriverLeft` at a slot. A
closed socket is detected in milliseconds, a frozen process after the heartbeat timeout.

Every connection belongs to a deployment: the slots that a gang starts together. `admit` lets those of another one join;
`fence` asks the slots of one to leave, and rejects those that connect late with `FencedError`. Items carry their
deployment, so late messages of an old slot can be recognized.
"""

from __future__ import annotations

import os
import queue
import socket
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kit.hosts.spark.wire.auth import DRIVER, Party, Purpose, Verdict
from kit.hosts.spark.wire.connection import Connection
from kit.hosts.spark.wire.endpoint import Listener, WireSettings, dial
from kit.hosts.spark.wire.stream import Endpoint, SecureStream, Stream
from kit.hosts.spark.wire.switchboard import Line, Switchboard
from kit.hosts.spark.wire.wire import Buffers, ControlMessage, Frame, FrameKind, WireError

HELLO = "hello"
LEAVE = "leave"


@dataclass(frozen=True, slots=True)
class SlotHello:
    """A slot's description of itself when it joins."""

    slot: int
    deployment: int
    pid: int
    host: str
    endpoints: list[Endpoint] = field(default_factory=list)
    """The endpoints of its data plane."""

    def to_message(self) -> ControlMessage:
        """Return the first message of a connection."""
        endpoints = [str(endpoint) for endpoint in self.endpoints]
        fields = {"slot": self.slot, "deployment": self.deployment, "pid": self.pid, "host": self.host}
        return ControlMessage(HELLO, fields | {"endpoints": endpoints})

    @classmethod
    def from_message(cls, message: ControlMessage) -> SlotHello:
        """Return the hello in a message. Raises WireError if it is not a hello."""
        match message:
            case ControlMessage(
                kind="hello",
                fields={
                    "slot": int(slot),
                    "deployment": int(deployment),
                    "pid": int(pid),
                    "host": str(host),
                    "endpoints": list(endpoints),
                },
            ):
                try:
                    return cls(slot, deployment, pid, host, [Endpoint.parse(text) for text in endpoints])
                except (ValueError, AttributeError) as error:
                    raise WireError(f"a hello with a bad endpoint: {error}") from None
        raise WireError(f"expected a hello, found {message!r}")


@dataclass(frozen=True, slots=True)
class SlotJoined:
    """A notice that a slot has dialled, authenticated and sent its hello."""

    slot: int
    deployment: int
    hello: SlotHello


@dataclass(frozen=True, slots=True)
class SlotMessage:
    """A message from a slot. Compare `deployment` with the slot's present one before acting on it."""

    slot: int
    deployment: int
    message: ControlMessage


@dataclass(frozen=True, slots=True)
class SlotLeft:
    """A notice that a slot's connection is over: in good order if `clean`, else through a failure of the slot."""

    slot: int
    deployment: int
    clean: bool
    reason: str


@dataclass(frozen=True, slots=True)
class DriverMessage:
    """A message from the driver."""

    message: ControlMessage


@dataclass(frozen=True, slots=True)
class DriverLeft:
    """A notice that the driver's connection is over, so the slot must leave."""

    clean: bool
    reason: str


def _pack(message: Buffers) -> Buffers:
    """Return the message unchanged: `send` has packed it, so that a field that is not JSON fails there."""
    return message


def _unpack(frame: Frame) -> ControlMessage:
    if frame.kind is not FrameKind.CONTROL:
        raise WireError(f"a {frame.kind.name} frame on a control connection")
    return ControlMessage.unpack(frame.payload)


class _SlotConnection:
    """The driver's end of one slot's connection."""

    def __init__(
        self, server: ControlServer, board: Switchboard, stream: Stream, party: Party, settings: WireSettings
    ) -> None:
        self.party = party
        self.hello: SlotHello | None = None
        self._server = server
        name = f"control-{party.slot}"
        self.connection: Line | Connection
        if isinstance(stream, SecureStream):
            self.connection = Connection(stream, name, _pack, self._deliver, self._gone, settings=settings)
        else:
            self.connection = Line(board, stream, name, self._deliver, self._gone)

    def _deliver(self, frame: Frame) -> None:
        message = _unpack(frame)
        if self.hello is not None:
            self._server.inbox.put(SlotMessage(self.party.slot, self.party.deployment, message))
            return
        hello = SlotHello.from_message(message)
        if Party(hello.slot, hello.deployment) != self.party:
            raise WireError(f"a hello of {Party(hello.slot, hello.deployment)} on the connection of {self.party}")
        self.hello = hello
        self._server.inbox.put(SlotJoined(self.party.slot, self.party.deployment, hello))

    def _gone(self, clean: bool, reason: str) -> None:
        self._server._slot_gone(self, clean, reason)


class ControlServer:
    """The driver's end. It puts `SlotJoined`, `SlotMessage` and `SlotLeft` into `inbox`; `send` never waits.

    Only slots that `admit` has named may join, until `fence` ends their deployment. A slot has joined once its hello
    has arrived. One that leaves before that is not reported.
    """

    def __init__(
        self,
        secret: bytes,
        inbox: queue.SimpleQueue[Any],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        advertised_host: str = "",
        settings: WireSettings | None = None,
    ) -> None:
        self.newest = 0
        """The newest deployment; their numbers ascend."""
        self._admitted: dict[int, frozenset[int]] = {}
        """The slots that may join, by deployment."""
        self.inbox = inbox
        self._settings = settings or WireSettings()
        self._lock = threading.Lock()
        self._slots: dict[int, _SlotConnection] = {}
        self._leaving: set[_SlotConnection] = set()
        self._board = Switchboard(self._settings)
        self._listener = Listener(
            secret,
            Purpose.CONTROL,
            lambda: Party(DRIVER, self.newest),
            self._judge,
            self._accepted,
            host=host,
            port=port,
            advertised_host=advertised_host,
            settings=self._settings,
        )

    def __repr__(self) -> str:
        return f"ControlServer({self.endpoint}, deployment={self.newest}, slots={self.slots()})"

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint that slots dial."""
        return self._listener.endpoints[-1]

    def slots(self) -> list[int]:
        """The slots that have joined and were not told to leave."""
        with self._lock:
            return sorted(slot for slot, connection in self._slots.items() if connection.hello is not None)

    def admit(self, deployment: int, slots: Iterable[int]) -> None:
        """Let these slots join. Raises ValueError unless the deployment is newer than all before."""
        with self._lock:
            if deployment <= self.newest:
                raise ValueError(f"deployment {deployment} does not come after deployment {self.newest}")
            self.newest = deployment
            self._admitted[deployment] = frozenset(slots)

    def send(self, slot: int, message: ControlMessage) -> bool:
        """Queue a message for a slot; return False if the slot is not connected (any more).

        Raises TypeError or ValueError if the message is not JSON.
        """
        return self._send(slot, message.pack())

    def _send(self, slot: int, packed: Buffers) -> bool:
        with self._lock:
            connection = self._slots.get(slot)
        return connection is not None and connection.connection.send(packed)

    def broadcast(self, message: ControlMessage, slots: Iterable[int] | None = None) -> list[int]:
        """Send a message to these slots, or to all; return those it was queued for. The message is packed only once."""
        packed = message.pack()
        return [slot for slot in (self.slots() if slots is None else slots) if self._send(slot, packed)]

    def fence(self, deployment: int, *, for_good: bool = False) -> None:
        """Tell the slots of a deployment to leave, `for_good` if no other follows, and reject late ones.

        Their `SlotLeft`, with their deployment, still arrives when they have left.
        """
        with self._lock:
            self._admitted.pop(deployment, None)
            old = [slot for slot in self._slots.values() if slot.party.deployment == deployment]
            self._leaving = {slot for slot in self._leaving if not slot.connection.is_over} | set(old)
            for slot in old:
                del self._slots[slot.party.slot]
        for slot in old:
            self._tell_to_leave(slot, for_good)

    @staticmethod
    def _tell_to_leave(slot: _SlotConnection, for_good: bool) -> None:
        slot.connection.send(ControlMessage(LEAVE, {"for_good": for_good}).pack())
        slot.connection.end()

    def _judge(self, party: Party) -> Verdict:
        with self._lock:
            slots = self._admitted.get(party.deployment)
            if slots is None:
                return Verdict.FENCED
            if party.slot not in slots:
                return Verdict.UNKNOWN
            return Verdict.TAKEN if party.slot in self._slots else Verdict.WELCOME

    def _accepted(self, stream: Stream, party: Party) -> None:
        connection = _SlotConnection(self, self._board, stream, party, self._settings)
        with self._lock:
            # Since the verdict, the deployment may have ended, or another process may have joined as this slot.
            welcome = party.deployment in self._admitted and party.slot not in self._slots
            if welcome:
                self._slots[party.slot] = connection
                connection.connection.start()
        if not welcome:
            connection.connection.close()

    def _slot_gone(self, slot: _SlotConnection, clean: bool, reason: str) -> None:
        with self._lock:
            if self._slots.get(slot.party.slot) is slot:
                del self._slots[slot.party.slot]
            self._leaving.add(slot)
        slot.connection.end()
        if slot.hello is not None:
            self.inbox.put(SlotLeft(slot.party.slot, slot.party.deployment, clean, reason))

    def close(self, timeout_s: float = 2.0) -> None:
        """Tell all slots to leave, wait up to `timeout_s` for the write, and leave no thread and no socket."""
        self._listener.close()
        with self._lock:
            slots = [*self._slots.values(), *self._leaving]
            self._slots.clear()
            self._leaving.clear()
        for slot in slots:
            self._tell_to_leave(slot, for_good=True)
        for slot in slots:
            slot.connection.wait_written(timeout_s)
            slot.connection.close()
        self._board.close()

    def __enter__(self) -> ControlServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ControlClient:
    """A slot's end. It puts `DriverMessage` and `DriverLeft` into `inbox`; `send` never waits.

    The constructor dials, authenticates and sends the hello. Raises AuthenticationError, FencedError, ConnectionError
    or TimeoutError, naming the endpoint. A "leave" message, or `DriverLeft`, means that this slot must end.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        secret: bytes,
        slot: int,
        deployment: int,
        inbox: queue.SimpleQueue[Any],
        *,
        data_endpoints: list[Endpoint] | None = None,
        settings: WireSettings | None = None,
    ) -> None:
        self.slot = slot
        self.deployment = deployment
        self.inbox = inbox
        self.endpoint = endpoint
        settings = settings or WireSettings()
        stream = dial([endpoint], secret, Purpose.CONTROL, Party(slot, deployment), DRIVER, settings=settings)
        self._connection = Connection(stream, f"driver-{slot}", _pack, self._deliver, self._gone, settings=settings)
        hello = SlotHello(slot, deployment, os.getpid(), socket.gethostname(), data_endpoints or [])
        self.send(hello.to_message())
        self._connection.start()

    def __repr__(self) -> str:
        return f"ControlClient(slot={self.slot}, deployment={self.deployment}, {self.endpoint})"

    def send(self, message: ControlMessage) -> bool:
        """Queue a message for the driver; return False if the connection is over.

        Raises TypeError or ValueError if the message is not JSON.
        """
        return self._connection.send(message.pack())

    def _deliver(self, frame: Frame) -> None:
        self.inbox.put(DriverMessage(_unpack(frame)))

    def _gone(self, clean: bool, reason: str) -> None:
        self.inbox.put(DriverLeft(clean, reason))

    def close(self, timeout_s: float = 2.0) -> None:
        """End in good order, waiting up to `timeout_s` for the driver, and leave no thread and no socket."""
        self._connection.end()
        self._connection.wait(timeout_s)
        self._connection.close()

    def __enter__(self) -> ControlClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

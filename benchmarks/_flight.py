"""A data plane over Arrow Flight, as far as `benchmarks.wire` needs one to compare with the kit's own.

The receiver is a Flight server and the sender its client. Each channel is one `DoExchange`: batches go one way, credits
come back as metadata, and events are metadata between the batches. Both ends prove that they hold the job's secret
(a handshake of Flight), and TLS checks the certificates of both. What a job needs beyond that is missing: heartbeats,
fencing of earlier epochs, a limit on strangers' handshakes, and a queue between a task and its channel, so that a task
never waits. This favours Flight.
"""

from __future__ import annotations

import hashlib
import hmac
import queue
import secrets
import threading
from collections.abc import Iterable
from typing import Any

from pyarrow import flight

from kit.hosts.spark.wire.channels import CreditArrived, Element, ElementArrived, Route
from kit.hosts.spark.wire.tls import Tls

_EVENT, _CREDIT = b"E", b"C"


class _Exchange:
    """One channel on a stream of Flight, at either end of it."""

    def __init__(self, channel: int, writer: Any, reader: Any, inbox: queue.SimpleQueue[Any]) -> None:
        self._channel, self._writer, self._reader, self._inbox = channel, writer, reader, inbox
        self._begun = False

    def send(self, element: Element) -> None:
        """Write an element of the channel."""
        if isinstance(element, bytes):
            self._writer.write_metadata(_EVENT + element)
            return
        if not self._begun:
            self._writer.begin(element.schema)
            self._begun = True
        self._writer.write_batch(element)

    def grant(self, credits: int) -> None:
        """Write credits for the channel's sender."""
        self._writer.write_metadata(_CREDIT + credits.to_bytes(4, "big"))

    def read(self) -> None:
        """Put what arrives into the inbox until the other end has ended."""
        while True:
            try:
                chunk = self._reader.read_chunk()
            except StopIteration:
                return
            if chunk.data is not None:
                self._inbox.put(ElementArrived(self._channel, chunk.data))
                continue
            metadata = chunk.app_metadata.to_pybytes()
            if metadata[:1] == _EVENT:
                self._inbox.put(ElementArrived(self._channel, metadata[1:]))
            else:
                self._inbox.put(CreditArrived(self._channel, int.from_bytes(metadata[1:], "big")))


class _ServerHandshake(flight.ServerAuthHandler):
    def __init__(self, secret: bytes) -> None:
        super().__init__()
        self._secret = secret
        self._tokens: set[bytes] = set()

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        theirs, own = incoming.read(), secrets.token_bytes(32)
        outgoing.write(own + _proof(self._secret, b"listens", theirs, own))
        if not hmac.compare_digest(incoming.read(), _proof(self._secret, b"dials", theirs, own)):
            raise flight.FlightUnauthenticatedError("the client does not hold the job's secret")
        token = secrets.token_bytes(32)
        self._tokens.add(token)
        outgoing.write(token)

    def is_valid(self, token: bytes) -> bytes:
        if token not in self._tokens:
            raise flight.FlightUnauthenticatedError("unknown token")
        return b"slot"


class _ClientHandshake(flight.ClientAuthHandler):
    def __init__(self, secret: bytes) -> None:
        super().__init__()
        self._secret, self._token = secret, b""

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        own = secrets.token_bytes(32)
        outgoing.write(own)
        challenge = incoming.read()
        theirs, proof = challenge[:32], challenge[32:]
        if not hmac.compare_digest(proof, _proof(self._secret, b"listens", own, theirs)):
            raise flight.FlightUnauthenticatedError("the server does not hold the job's secret")
        outgoing.write(_proof(self._secret, b"dials", own, theirs))
        self._token = incoming.read()

    def get_token(self) -> bytes:
        return self._token


def _proof(secret: bytes, role: bytes, client: bytes, server: bytes) -> bytes:
    return hmac.digest(secret, role + client + server, hashlib.sha256)


class FlightReceiver(flight.FlightServerBase):
    """Slot 1. `send`, `grant` and `end` are those of `DataPlane`."""

    def __init__(self, secret: bytes, inbox: queue.SimpleQueue[Any], socket: str, tls: Tls | None) -> None:
        """Listen on a Unix socket at path `socket`, or on TCP if it is ""."""
        where = f"grpc+unix://{socket}" if socket else f"grpc+{'tls' if tls else 'tcp'}://127.0.0.1:0"
        encrypted: dict[str, Any] = {}
        if tls is not None:
            encrypted["tls_certificates"] = [(tls.certificate, tls.key)]
            encrypted |= {"verify_client": True, "root_certificates": tls.authorities}
        super().__init__(where, auth_handler=_ServerHandshake(secret), **encrypted)
        self.address = where.replace(":0", f":{self.port}") if not socket else where
        self._inbox = inbox
        self._changed = threading.Condition()
        self._exchanges: dict[int, _Exchange] = {}

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Read one channel until the client has ended it."""
        channel = int(descriptor.command)
        exchange = _Exchange(channel, writer, reader, self._inbox)
        with self._changed:
            self._exchanges[channel] = exchange
            self._changed.notify_all()
        exchange.read()

    def connected(self, routes: Iterable[Route]) -> None:
        """Wait until the client has opened all channels."""
        wanted = {route.channel for route in routes}
        with self._changed:
            self._changed.wait_for(lambda: wanted <= self._exchanges.keys())

    def send(self, channel: int, element: Element) -> None:
        """Send an element."""
        self._exchanges[channel].send(element)

    def grant(self, channel: int, credits: int) -> None:
        """Grant the channel's sender more buffers."""
        self._exchanges[channel].grant(credits)

    def end(self) -> None:
        """Wait until the client has ended all channels."""
        self.shutdown()


class FlightSender:
    """Slot 0. `send`, `grant` and `end` are those of `DataPlane`."""

    def __init__(self, address: str, secret: bytes, inbox: queue.SimpleQueue[Any], tls: Tls | None) -> None:
        encrypted: dict[str, Any] = {}
        if tls is not None:
            encrypted = {"tls_root_certs": tls.authorities, "override_hostname": tls.server_name}
            encrypted |= {"cert_chain": tls.certificate, "private_key": tls.key}
        self._client = flight.FlightClient(address, **encrypted)
        self._client.authenticate(_ClientHandshake(secret))
        self._inbox = inbox
        self._exchanges: dict[int, _Exchange] = {}
        self._writers: list[Any] = []
        self._readers: list[threading.Thread] = []

    def connect(self, routes: Iterable[Route]) -> None:
        """Open a stream for each channel."""
        for route in routes:
            descriptor = flight.FlightDescriptor.for_command(str(route.channel).encode())
            writer, reader = self._client.do_exchange(descriptor)
            exchange = self._exchanges[route.channel] = _Exchange(route.channel, writer, reader, self._inbox)
            self._writers.append(writer)
            self._readers.append(threading.Thread(target=exchange.read, daemon=True))
            self._readers[-1].start()

    def send(self, channel: int, element: Element) -> None:
        """Send an element."""
        self._exchanges[channel].send(element)

    def grant(self, channel: int, credits: int) -> None:
        """Grant the channel's sender more buffers."""
        self._exchanges[channel].grant(credits)

    def __enter__(self) -> FlightSender:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def end(self) -> None:
        """End all channels."""
        for writer in self._writers:
            writer.done_writing()
        for reader in self._readers:
            reader.join()

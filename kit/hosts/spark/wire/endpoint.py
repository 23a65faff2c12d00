"""Listening and dialling: from an endpoint to an authenticated stream.

A `Listener` has one thread that accepts, on TCP and, if asked, on a Unix socket in a private directory, and a
short-lived thread for each handshake, so a stranger who says nothing delays nobody. Whoever is cut off learns nothing,
and the log has a line that says from where he came and what was wrong (`kit.hosts.spark.wire.strangers`).

Somebody who opens many connections and holds them shuts nobody out: when too many handshakes are open and none of them
is done in a moment, the one that has lasted longest goes, among those of whichever address has most. One of ours takes
milliseconds, also when a thousand of them come at once; if it was cut off all the same it dials again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import shutil
import socket
import ssl
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from kit.hosts.spark.wire.auth import (
    AuthenticationError,
    CutOffError,
    FencedError,
    Party,
    Purpose,
    Verdict,
    admit,
    authenticate,
    check_secret,
)
from kit.hosts.spark.wire.strangers import CutOffs, origin
from kit.hosts.spark.wire.stream import Endpoint, Stream, open_stream
from kit.hosts.spark.wire.tls import Tls
from kit.hosts.spark.wire.wire import MAX_FRAME_BYTES

MAX_HANDSHAKES = 64
"""So many may be under way at once."""
GRACE_S = 0.25
"""So long a handshake has its place for certain."""
_MOST_THREADS = 4 * MAX_HANDSHAKES
"""With those that gave way and have not noticed yet."""
EVERY_ADDRESS = ("0.0.0.0", "::")
"""Of a machine: what is listened on, and nobody can dial."""
_DIALS = 3
_DIAL_AGAIN_S = 0.05
_OUT_OF_DESCRIPTORS_S = 0.05
_MAX_UNIX_PATH_BYTES = 100
"""Below sun_path's 104 (macOS) and 108 (Linux)."""


@dataclass(frozen=True, slots=True)
class WireSettings:
    """Time limits and sizes of all sockets of a job; both ends should have the same."""

    heartbeat_interval_ms: int = 500
    """An idle connection says that it lives this often."""
    heartbeat_timeout_ms: int = 3_000
    """A peer silent, or taking nothing, for this long is lost."""
    handshake_timeout_ms: int = 5_000
    """Connecting and authenticating must be done in this time."""
    max_frame_bytes: int = MAX_FRAME_BYTES
    compression: str | None = None
    """Of batches: None, "lz4" or "zstd". Worth it only where the network is slower than about 1 GB/s."""
    tls: Tls | None = None
    """Inside which all TCP connections run; None: plain, for one machine or a network that nobody else is on."""
    unix_sockets: bool = True
    """Whether slots on one machine talk through Unix sockets instead."""

    def __post_init__(self) -> None:
        if not 0 < self.heartbeat_interval_ms < self.heartbeat_timeout_ms:
            raise ValueError(
                f"heartbeat_interval_ms={self.heartbeat_interval_ms} must be positive and less than "
                f"heartbeat_timeout_ms={self.heartbeat_timeout_ms}"
            )


@dataclass(slots=True, eq=False)
class _Handshake:
    """One that is under way. `stream` is there from its begin until it has another owner."""

    address: str
    began_s: float
    stream: Stream | None = None
    gives_way: bool = False
    """Another one needed its place."""

    def end(self) -> None:
        """Wake its thread, which sees that the connection is over."""
        if self.stream is not None:
            self.stream.shutdown()


class Listener:
    """Accepts and authenticates connections of one purpose.

    `judge(party)` says whether an authenticated peer is welcome; `accepted(stream, party)` receives it (called on a
    thread of the handshake; it owns the stream from then on).

    `host`: the address to listen on. `advertised_host`: what peers are told to dial, when that is another.
    `directory`: where to make the private directory of the Unix socket; None for TCP only.
    """

    def __init__(
        self,
        secret: bytes,
        purpose: Purpose,
        me: Callable[[], Party],
        judge: Callable[[Party], Verdict],
        accepted: Callable[[Stream, Party], None],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        advertised_host: str = "",
        directory: str | None = None,
        settings: WireSettings,
    ) -> None:
        self._secret = check_secret(secret)
        self._purpose = purpose
        self._me = me
        self._judge = judge
        self._accepted = accepted
        self._tls = None if settings.tls is None else settings.tls.listens
        self._settings = settings
        self._lock = threading.Lock()
        self._one_is_done = threading.Condition(self._lock)
        self._closed = False
        self._handshakes: dict[threading.Thread, _Handshake] = {}
        """In the order in which they began."""
        self._directory: str | None = None
        self._sockets = [self._listen_tcp(host, port)]
        self.endpoints = [Endpoint(advertised_host or host, self._sockets[0].getsockname()[1])]
        """Where peers can dial, the fastest first."""
        if directory is not None and settings.unix_sockets:
            self._listen_unix(directory)
        self._cut_offs = CutOffs(lambda: f"{me()} at {self.endpoints[-1]}")
        self._waker, self._wake = socket.socketpair()
        self._thread = threading.Thread(target=self._accept_loop, name=f"kit-accept-{self.endpoints[-1]}", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"Listener({self._me()}, {', '.join(map(str, self.endpoints))})"

    @staticmethod
    def _listen_tcp(host: str, port: int) -> socket.socket:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=128)

    def _listen_unix(self, parent: str) -> None:
        self._directory = tempfile.mkdtemp(prefix="kit-", dir=parent or None)  # mode 0700
        path = os.path.join(self._directory, "s")
        if len(os.fsencode(path)) > _MAX_UNIX_PATH_BYTES:
            return
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(path)
        listening.listen(128)
        self._sockets.append(listening)
        self.endpoints.insert(0, Endpoint(path=path))

    def _accept_loop(self) -> None:
        with selectors.DefaultSelector() as selector:
            for sock in (*self._sockets, self._waker):
                sock.setblocking(False)
                selector.register(sock, selectors.EVENT_READ)
            while not self._closed:
                for key, _ in selector.select():
                    if key.fileobj is not self._waker:
                        self._accept(key.fileobj)  # type: ignore[arg-type]

    def _accept(self, listening: socket.socket) -> None:
        try:
            sock, _ = listening.accept()
        except BlockingIOError:  # gone again
            return
        except OSError:  # out of descriptors: some may be free soon
            time.sleep(_OUT_OF_DESCRIPTORS_S)
            return
        whence = origin(sock)
        handshake = _Handshake(whence.rpartition(":")[0] or "this machine", time.monotonic())
        with self._lock:
            self._make_place()
            if self._closed or len(self._handshakes) >= _MOST_THREADS:
                sock.close()
                return
            thread = threading.Thread(
                target=self._shake_hands, args=(sock, whence, handshake), name="kit-handshake", daemon=True
            )
            self._handshakes[thread] = handshake
        thread.start()

    def _make_place(self) -> None:
        """Wait a moment for one to be done, then have one give way. Holds the lock."""
        while not self._closed:
            waiting = [each for each in self._handshakes.values() if not each.gives_way]
            if len(waiting) < MAX_HANDSHAKES:
                return
            ((busiest, _),) = Counter(each.address for each in waiting).most_common(1)
            oldest = next(each for each in waiting if each.address == busiest)
            left_s = oldest.began_s + GRACE_S - time.monotonic()
            if left_s <= 0:
                oldest.gives_way = True
                oldest.end()
                return
            self._one_is_done.wait(left_s)

    def _shake_hands(self, sock: socket.socket, whence: str, handshake: _Handshake) -> None:
        stream: Stream | None = None
        welcome = False
        deadline = time.monotonic() + self._settings.handshake_timeout_ms / 1000
        try:
            stream = open_stream(sock, self.endpoints[-1], self._tls)
            with self._lock:
                handshake.stream = stream
                if handshake.gives_way:
                    stream.shutdown()
            stream.negotiate(deadline)
            party = admit(stream, self._secret, self._purpose, self._me(), self._judge, deadline=deadline)
            with self._lock:  # from here on nobody else may touch the stream: it gets an owner
                welcome = not self._closed and not handshake.gives_way
                handshake.stream = None
            if welcome:
                self._accepted(stream, party)
        except FencedError as error:
            self._cut_offs.say(logging.INFO, whence, str(error))
        except (OSError, EOFError) as error:
            if not self._closed:
                self._cut_offs.say(logging.WARNING, whence, self._why(error, handshake))
        finally:
            if not welcome:
                (stream or sock).close()
            with self._lock:
                del self._handshakes[threading.current_thread()]
                self._one_is_done.notify()

    def _why(self, error: Exception, handshake: _Handshake) -> str:
        if handshake.gives_way:
            return f"{MAX_HANDSHAKES} handshakes were open, most of them from {handshake.address}, this one for longest"
        if isinstance(error, TimeoutError):
            return f"it has not proved itself within {self._settings.handshake_timeout_ms} ms: {error}"
        return f"no TLS: {error}" if isinstance(error, ssl.SSLError) else str(error)

    def close(self) -> None:
        """Stops listening, ends unfinished handshakes and removes the private directory."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._one_is_done.notify()
        self._wake.send(b"x")
        self._thread.join()
        for sock in (*self._sockets, self._waker, self._wake):
            sock.close()
        with self._lock:
            handshakes = dict(self._handshakes)
        for thread, handshake in handshakes.items():
            handshake.end()
            thread.join()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)


def dial(
    endpoints: list[Endpoint],
    secret: bytes,
    purpose: Purpose,
    me: Party,
    expected_slot: int,
    *,
    settings: WireSettings,
) -> Stream:
    """An authenticated stream to the first endpoint that can be reached.

    A Unix socket that is not on this host is passed over, and a connection that is cut off without a reason tried
    again. ConnectionError names the endpoint when none can be reached;
    AuthenticationError, FencedError and TimeoutError as in `authenticate`.
    """
    deadline = time.monotonic() + settings.handshake_timeout_ms / 1000
    for again in range(_DIALS):
        try:
            return _dial(endpoints, secret, purpose, me, expected_slot, deadline, settings.tls)
        except CutOffError:  # perhaps it had to give way to others
            if again == _DIALS - 1:
                raise
        time.sleep(_DIAL_AGAIN_S)
    raise AssertionError("the last time returns or raises")


def _dial(
    endpoints: list[Endpoint],
    secret: bytes,
    purpose: Purpose,
    me: Party,
    expected_slot: int,
    deadline: float,
    tls: Tls | None,
) -> Stream:
    failures: list[str] = []
    for endpoint in endpoints:
        try:
            sock = _connect(endpoint, deadline)
        except OSError as error:
            failures.append(f"{endpoint}: {error}")
            continue
        with contextlib.ExitStack() as undo:
            undo.callback(sock.close)
            try:
                context, name = (None, "") if tls is None else (tls.dials, tls.server_name)
                stream = open_stream(sock, endpoint, context, name)
                undo.callback(stream.close)
                stream.negotiate(deadline)
                authenticate(stream, secret, purpose, me, expected_slot, deadline=deadline)
            except ssl.SSLError as error:
                raise AuthenticationError(f"{endpoint}: TLS failed: {error}") from error
            undo.pop_all()
        return stream
    raise ConnectionError(f"{me} cannot reach {Party(expected_slot, me.epoch)} ({'; '.join(failures)})")


def address_towards(endpoint: Endpoint) -> str:
    """The address of this machine from which it reaches another; OSError when it does not."""
    (family, kind, protocol, _, address), *_ = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_DGRAM)
    with socket.socket(family, kind, protocol) as sock:
        sock.connect(address)  # a datagram socket sends nothing for that
        return str(sock.getsockname()[0])


def _connect(endpoint: Endpoint, deadline: float) -> socket.socket:
    timeout_s = max(0.001, deadline - time.monotonic())
    if not endpoint.path:
        return socket.create_connection((endpoint.host, endpoint.port), timeout_s)
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.settimeout(timeout_s)
        sock.connect(endpoint.path)
    except OSError:
        sock.close()
        raise
    return sock

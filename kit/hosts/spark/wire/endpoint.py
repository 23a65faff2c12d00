"""Listening and dialling: from an endpoint to an authenticated stream.

A `Listener` has one thread that accepts connections on TCP and, optionally, on a Unix socket in a private directory. It
starts a short-lived thread for each handshake, so a silent stranger delays no other connection. A stranger's connection
is closed without an explanation. The log has a line with its origin and the reason (`kit.hosts.spark.wire.strangers`).

A stranger that opens and holds many connections does not lock others out. When too many handshakes are open and none
finishes soon, the listener takes the address with the most handshakes and closes its oldest one. A handshake of our own
takes milliseconds, even when a thousand of them arrive at once. If it is closed anyway, that end dials again.
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

from kit.core.arguments.allowed import FLAG, Allowed, check_allowed, expect, instance, milliseconds, or_none, whole
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
"""The maximal number of concurrent handshakes."""
GRACE_S = 0.25
"""The time for which a handshake cannot be evicted."""
_MOST_THREADS = 4 * MAX_HANDSHAKES
"""The maximal number of threads, including those of evicted handshakes that have not noticed yet."""
EVERY_ADDRESS = ("0.0.0.0", "::")
"""The wildcard addresses, on which a machine can listen but which no peer can dial."""
_DIALS = 3
_DIAL_AGAIN_S = 0.05
_OUT_OF_DESCRIPTORS_S = 0.05
_MAX_UNIX_PATH_BYTES = 100
"""The maximal length of a socket's path, below sun_path's 104 (macOS) and 108 (Linux)."""


@dataclass(frozen=True, slots=True)
class WireSettings:
    """Time limits and sizes of all sockets of a job; both ends should have the same."""

    heartbeat_interval_ms: int = 500
    """The interval of heartbeats on an idle connection."""
    heartbeat_timeout_ms: int = 3_000
    """The time after which a peer that sends or takes no data is lost."""
    handshake_timeout_ms: int = 5_000
    """The time limit for connecting and authenticating."""
    max_frame_bytes: int = MAX_FRAME_BYTES
    compression: str | None = None
    """The compression of batches: None, "lz4" or "zstd". It pays off only on networks slower than about 1 GB/s."""
    tls: Tls | None = None
    """The TLS settings of all TCP connections; None: no TLS, for one machine or a private network."""
    unix_sockets: bool = True
    """True if slots on one machine communicate over Unix sockets instead."""

    def __post_init__(self) -> None:
        times = ("heartbeat_interval_ms", "heartbeat_timeout_ms", "handshake_timeout_ms")
        allowed = dict.fromkeys(times, milliseconds(1)) | {
            "max_frame_bytes": whole(1, MAX_FRAME_BYTES),
            "compression": or_none(Allowed("'lz4' or 'zstd'", lambda found: found in ("lz4", "zstd")), "none"),
            "tls": or_none(instance(Tls, "Tls.from_files(...)"), "no TLS"),
            "unix_sockets": FLAG,
        }
        check_allowed(self, allowed, "WireSettings")
        expect(
            self.heartbeat_interval_ms < self.heartbeat_timeout_ms,
            "WireSettings: heartbeat_interval_ms",
            self.heartbeat_interval_ms,
            f"less than heartbeat_timeout_ms = {self.heartbeat_timeout_ms}",
        )


@dataclass(slots=True, eq=False)
class _Handshake:
    """A handshake in progress. `stream` is set from its start until the stream has another owner."""

    address: str
    began_s: float
    stream: Stream | None = None
    gives_way: bool = False
    """True if another handshake needed its place."""

    def end(self) -> None:
        """Wake the handshake's thread, which then finds the connection closed."""
        if self.stream is not None:
            self.stream.shutdown()


class Listener:
    """Accepts and authenticates connections of one purpose.

    `judge(party)` returns a verdict on an authenticated peer. `accepted(stream, party)` receives the peer; it is called
    on the handshake's thread and owns the stream from then on.

    `host` is the address to listen on, and `advertised_host` the one that peers dial, if it differs. `directory` is the
    parent of the Unix socket's private directory; None for TCP only.
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
        """The handshakes, in the order in which they began."""
        self._directory: str | None = None
        self._sockets = [self._listen_tcp(host, port)]
        self.endpoints = [Endpoint(advertised_host or host, self._sockets[0].getsockname()[1])]
        """The endpoints that peers can dial, fastest first."""
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
        except BlockingIOError:  # the connection is gone again
            return
        except OSError:  # out of descriptors: some may be freed soon
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
        """Wait briefly for a handshake to finish, then evict one. The caller holds the lock."""
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
            with self._lock:  # from here on the stream has another owner
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
        """Stop listening, end unfinished handshakes and remove the private directory."""
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
    """Return an authenticated stream to the first endpoint that can be reached.

    A Unix socket on another host is skipped, and a connection that is closed without a reason is retried. Raises
    ConnectionError, naming the endpoint, if none can be reached, and AuthenticationError, FencedError and TimeoutError
    as `authenticate` does.
    """
    deadline = time.monotonic() + settings.handshake_timeout_ms / 1000
    for again in range(_DIALS):
        try:
            return _dial(endpoints, secret, purpose, me, expected_slot, deadline, settings.tls)
        except CutOffError:  # the listener may have evicted it in favour of others
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
    raise ConnectionError(f"{me} cannot reach {Party(expected_slot, me.deployment)} ({'; '.join(failures)})")


def address_towards(endpoint: Endpoint) -> str:
    """Return the address of this machine from which it reaches another. Raises OSError if it cannot reach it."""
    (family, kind, protocol, _, address), *_ = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_DGRAM)
    with socket.socket(family, kind, protocol) as sock:
        sock.connect(address)  # connecting a datagram socket sends nothing
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

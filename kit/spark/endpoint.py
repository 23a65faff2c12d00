"""Listening and dialling: from an endpoint to an authenticated stream.

A `Listener` has one thread that accepts, on TCP and, if asked, on a Unix socket in a private directory, and a
short-lived thread for each handshake, so a stranger who says nothing delays nobody. Strangers are dropped silently.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from kit.spark.auth import Party, Purpose, Verdict, admit, authenticate, check_secret
from kit.spark.stream import Endpoint, Stream, open_stream
from kit.spark.wire import MAX_FRAME_BYTES

_MAX_HANDSHAKES = 64
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

    def __post_init__(self) -> None:
        if not 0 < self.heartbeat_interval_ms < self.heartbeat_timeout_ms:
            raise ValueError(
                f"heartbeat_interval_ms={self.heartbeat_interval_ms} must be positive and less than "
                f"heartbeat_timeout_ms={self.heartbeat_timeout_ms}"
            )


class Listener:
    """Accepts and authenticates connections of one purpose.

    `judge(party)` says whether an authenticated peer is welcome; `accepted(stream, party)` receives it (called on a
    thread of the handshake; it owns the stream from then on).

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
        directory: str | None = None,
        tls: ssl.SSLContext | None = None,
        settings: WireSettings,
    ) -> None:
        self._secret = check_secret(secret)
        self._purpose = purpose
        self._me = me
        self._judge = judge
        self._accepted = accepted
        self._tls = tls
        self._settings = settings
        self._lock = threading.Lock()
        self._closed = False
        self._handshakes: dict[threading.Thread, Stream | None] = {}
        self._directory: str | None = None
        self._sockets = [self._listen_tcp(host, port)]
        self.endpoints = [Endpoint(host, self._sockets[0].getsockname()[1])]
        """Where peers can dial, the fastest first."""
        if directory is not None:
            self._listen_unix(directory)
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
        except OSError:  # gone again, or out of descriptors: the next select tells
            return
        with self._lock:
            if self._closed or len(self._handshakes) >= _MAX_HANDSHAKES:
                sock.close()
                return
            thread = threading.Thread(target=self._shake_hands, args=(sock,), name="kit-handshake", daemon=True)
            self._handshakes[thread] = None
        thread.start()

    def _shake_hands(self, sock: socket.socket) -> None:
        stream: Stream | None = None
        welcome = False
        deadline = time.monotonic() + self._settings.handshake_timeout_ms / 1000
        try:
            stream = open_stream(sock, self.endpoints[-1], self._tls)
            with self._lock:
                self._handshakes[threading.current_thread()] = stream
            stream.negotiate(deadline)
            party = admit(stream, self._secret, self._purpose, self._me(), self._judge, deadline=deadline)
            with self._lock:  # from here on `close` must not touch the stream: it gets an owner
                welcome = party is not None and not self._closed
                self._handshakes[threading.current_thread()] = None
            if welcome and party is not None:
                self._accepted(stream, party)
        except (OSError, EOFError):
            pass  # a stranger, or a peer that went away: nothing to tell, others are served
        finally:
            if not welcome:
                (stream or sock).close()
            with self._lock:
                del self._handshakes[threading.current_thread()]

    def close(self) -> None:
        """Stops listening, ends unfinished handshakes and removes the private directory."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._wake.send(b"x")
        self._thread.join()
        for sock in (*self._sockets, self._waker, self._wake):
            sock.close()
        with self._lock:
            handshakes = dict(self._handshakes)
        for thread, stream in handshakes.items():
            if stream is not None:
                stream.shutdown()
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
    tls: ssl.SSLContext | None = None,
) -> Stream:
    """An authenticated stream to the first endpoint that can be reached.

    A Unix socket that is not on this host is passed over. ConnectionError names the endpoint when none can be reached;
    AuthenticationError, FencedError and TimeoutError as in `authenticate`.
    """
    deadline = time.monotonic() + settings.handshake_timeout_ms / 1000
    failures: list[str] = []
    for endpoint in endpoints:
        try:
            sock = _connect(endpoint, deadline)
        except OSError as error:
            failures.append(f"{endpoint}: {error}")
            continue
        with contextlib.ExitStack() as undo:
            undo.callback(sock.close)
            stream = open_stream(sock, endpoint, tls)
            undo.callback(stream.close)
            try:
                stream.negotiate(deadline)
            except ssl.SSLError as error:
                raise ConnectionError(f"{endpoint}: TLS failed: {error}") from error
            authenticate(stream, secret, purpose, me, expected_slot, deadline=deadline)
            undo.pop_all()
        return stream
    raise ConnectionError(f"{me} cannot reach {Party(expected_slot, me.epoch)} ({'; '.join(failures)})")


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

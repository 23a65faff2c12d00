"""Endpoints and byte streams: the socket operations that a connection needs, plain or with TLS.

A plain stream is a blocking socket. Its time limits are set in the kernel (SO_RCVTIMEO, SO_SNDTIMEO), one for each
direction, so that a reader and a writer thread can share it without a selector. OpenSSL's objects allow only one thread
at a time, so a TLS stream is non-blocking under a lock.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

_T = TypeVar("_T")
PARTS_A_WRITE = 512
"""The number of buffers in one write, below the IOV_MAX (1024) of Linux and macOS."""
SOCKET_BUFFER_BYTES = 1 << 20
TAKES_NOTHING = "takes nothing in time"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a listener: `tcp://host:port`, or `unix:path` for peers on the same host."""

    host: str = ""
    port: int = 0
    path: str = ""

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"tcp://[{self.host}]:{self.port}" if ":" in self.host else f"tcp://{self.host}:{self.port}"

    def __repr__(self) -> str:
        return f"Endpoint({str(self)!r})"

    @classmethod
    def parse(cls, text: str) -> Endpoint:
        """Return the endpoint with this text form. Raises ValueError for any other text."""
        if text.startswith("unix:/"):
            return cls(path=text.removeprefix("unix:"))
        host, _, port = text.removeprefix("tcp://").rpartition(":")
        if not text.startswith("tcp://") or not host or not port.isdecimal():
            raise ValueError(f"an endpoint looks like tcp://host:port or unix:/path, not {text!r}")
        return cls(host.strip("[]"), int(port))


class Stream:
    """A connected socket. One thread may receive while another sends; `shutdown` from a third wakes both."""

    def __init__(self, sock: socket.socket, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._socket = sock
        sock.setblocking(True)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER_BYTES)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.endpoint)!r})"

    def set_timeouts(self, receive_s: float, send_s: float) -> None:
        """Set how long one call may wait without a byte of progress before it raises TimeoutError."""
        for option, seconds in ((socket.SO_RCVTIMEO, receive_s), (socket.SO_SNDTIMEO, send_s)):
            whole, part = divmod(max(seconds, 0.001), 1.0)
            self._socket.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", int(whole), int(part * 1e6)))

    def negotiate(self, deadline: float) -> None:
        """Perform TLS's own handshake, before anything else. Raises ssl.SSLError or TimeoutError if it fails."""

    def receive_into(self, view: memoryview, fill: bool = False) -> int:
        """Receive up to `len(view)` bytes, all of them if `fill`; return 0 at end-of-file. Raises TimeoutError."""
        try:
            return self._socket.recv_into(view, 0, socket.MSG_WAITALL if fill else 0)
        except BlockingIOError:
            raise TimeoutError(f"nothing received from {self.endpoint} in time") from None

    def send_buffers(self, buffers: Sequence[Any], tries: int = 1) -> None:
        """Write all buffers, gathered. Raises TimeoutError if the peer takes nothing in the time of `tries` calls."""
        views = [memoryview(buffer).cast("B") for buffer in buffers]
        first = 0
        left = tries
        while first < len(views):
            try:
                sent = self._socket.sendmsg(views[first : first + PARTS_A_WRITE])
            except BlockingIOError:
                left = self._tried(left)
                continue
            left = tries
            while first < len(views) and sent >= len(views[first]):
                sent -= len(views[first])
                first += 1
            if sent:
                views[first] = views[first][sent:]

    def _tried(self, tries: int) -> int:
        if tries == 1:
            raise TimeoutError(f"{self.endpoint} {TAKES_NOTHING}")
        return tries - 1

    def send_now(self, buffers: Sequence[Any]) -> int:
        """Write what the socket takes without waiting; return the number of bytes written."""
        try:
            return self._socket.sendmsg(buffers, [], socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0

    def receive_now(self, view: memoryview) -> int | None:
        """Receive available data, up to `len(view)` bytes; return 0 at end-of-file, None if none is available."""
        try:
            return self._socket.recv_into(view, 0, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None

    def fileno(self) -> int:
        """Return the socket's descriptor, for a selector."""
        return self._socket.fileno()

    def receive_exactly(self, count: int, deadline: float) -> bytes:
        """Receive `count` bytes before `deadline` (of time.monotonic). Raises EOFError or TimeoutError."""
        data = bytearray(count)
        filled = 0
        while filled < count:
            try:
                self.set_timeouts(_remaining(deadline), _remaining(deadline))
                received = self.receive_into(memoryview(data)[filled:])
            except TimeoutError:
                raise TimeoutError(f"{filled} of {count} bytes came in time") from None
            if not received:
                raise EOFError(f"the other end closed the connection after {filled} of {count} bytes")
            filled += received
        return bytes(data)

    def shutdown_write(self) -> None:
        """Tell the peer that the data ends here; receiving continues."""
        self._shutdown(socket.SHUT_WR)

    def shutdown(self) -> None:
        """End both directions and wake the threads that wait in them."""
        self._shutdown(socket.SHUT_RDWR)

    def _shutdown(self, how: int) -> None:
        # The base class's method: SSLSocket.shutdown would drop the session that the reader still needs.
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._socket, how)

    def close(self) -> None:
        """Close the socket. No thread may be inside a call any more."""
        self._socket.close()


class SecureStream(Stream):
    """A stream inside TLS. `name` is the name that the listener's certificate must have; "" checks no name."""

    def __init__(self, sock: socket.socket, endpoint: Endpoint, context: ssl.SSLContext, name: str = "") -> None:
        super().__init__(sock, endpoint)
        is_server = context.protocol == ssl.PROTOCOL_TLS_SERVER
        sock.setblocking(False)
        self._lock = threading.Lock()
        self._receive_s = self._send_s = 0.0
        self._tls = context.wrap_socket(sock, is_server, do_handshake_on_connect=False, server_hostname=name or None)
        self._socket = self._tls

    def negotiate(self, deadline: float) -> None:
        """As in `Stream`."""
        self._retry(self._tls.do_handshake, _remaining(deadline))

    def set_timeouts(self, receive_s: float, send_s: float) -> None:
        """As in `Stream`."""
        self._receive_s, self._send_s = receive_s, send_s

    def receive_into(self, view: memoryview, fill: bool = False) -> int:
        """As in `Stream`, but OpenSSL returns one record at a time, filled or not."""
        return self._retry(partial(self._tls.recv_into, view), self._receive_s)

    def send_buffers(self, buffers: Sequence[Any], tries: int = 1) -> None:
        """As in `Stream`, but the buffers are joined, because OpenSSL cannot gather them."""
        view = memoryview(b"".join(buffers))
        left = tries
        while view:
            try:
                sent = self._retry(partial(self._tls.send, view), self._send_s)
            except TimeoutError:
                left = self._tried(left)
                continue
            left = tries
            view = view[sent:]

    def send_now(self, buffers: Sequence[Any]) -> int:
        """Return 0: another thread may be inside OpenSSL, and this one would wait for it."""
        return 0

    def _retry(self, operation: Callable[[], _T], timeout_s: float) -> _T:
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                with self._lock:
                    return operation()
            except ssl.SSLWantReadError:
                events = select.POLLIN
            except ssl.SSLWantWriteError:
                events = select.POLLOUT
            poll = select.poll()
            poll.register(self._socket, events)
            poll.poll(_remaining(deadline) * 1000)


def open_stream(sock: socket.socket, endpoint: Endpoint, tls: ssl.SSLContext | None, name: str = "") -> Stream:
    """Return a stream over a connected socket, inside TLS if a context is given (Unix sockets never need it)."""
    if tls is None or sock.family == socket.AF_UNIX:
        return Stream(sock, endpoint)
    return SecureStream(sock, endpoint, tls, name)


def _remaining(deadline: float) -> float:
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("the deadline has passed")
    return seconds

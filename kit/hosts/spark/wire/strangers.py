"""The log of connections that a listener rejects: the origin and the reason, one line each.

A stranger may connect a thousand times per second. So only the first lines of each minute are written; omitted lines
are counted, and the next written line reports their number.
"""

from __future__ import annotations

import logging
import socket
import struct
import threading
import time
from collections.abc import Callable

logger = logging.getLogger("kit.hosts.spark")

LINES_A_MINUTE = 20
_MINUTE_S = 60.0
_CREDENTIALS = struct.Struct("3i")
"""Linux: process, user and group of the other end of a Unix socket."""


def origin(sock: socket.socket) -> str:
    """Return the origin of a connection: `10.0.0.7:4312`, or `process 81 of user 1000` on this machine."""
    try:
        if sock.family == socket.AF_UNIX:
            process, user, _ = _CREDENTIALS.unpack(
                sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            )
            return f"process {process} of user {user}"
        host, port, *_ = sock.getpeername()
    except (OSError, AttributeError):  # already closed, or this system lacks the option
        return "an end that is gone" if sock.family != socket.AF_UNIX else "a process of this machine"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class CutOffs:
    """The log of the listener that `place` names: one line per rejected connection, while these are few."""

    def __init__(self, place: Callable[[], str], now_s: Callable[[], float] = time.monotonic) -> None:
        self.place = place
        self._now_s = now_s
        self._lock = threading.Lock()
        self._minute_began_s = now_s()
        self._lines = self._left_out = 0

    def __repr__(self) -> str:
        return f"CutOffs({self.place()}, {self._lines} lines this minute, {self._left_out} left out)"

    def say(self, level: int, whence: str, why: str) -> None:
        """Log which connection was rejected, and why. `level` is a level of `logging`."""
        if not logger.isEnabledFor(level):
            return
        with self._lock:
            now_s = self._now_s()
            if now_s - self._minute_began_s >= _MINUTE_S:
                self._minute_began_s, self._lines = now_s, 0
            if self._lines >= LINES_A_MINUTE:
                self._left_out += 1
                return
            self._lines += 1
            left_out, self._left_out = self._left_out, 0
        more = f" (and {left_out} more before, which were not written down)" if left_out else ""
        logger.log(level, "%s cut off a connection from %s: %s%s", self.place(), whence, why, more)

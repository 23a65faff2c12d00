"""A connection: an authenticated stream with a writer thread, a reader thread and heartbeats.

Theory of operation. `send` never waits for a peer: it appends to a queue. The *writer* takes the queued items, packs
them and gathers them into one write; when the queue is empty it sends a heartbeat each interval. If the writer is idle,
the caller writes a small item itself, as far as the socket takes it at once, and leaves the rest to the writer. That
saves two thread switches. The *reader* passes every frame to `deliver`, which must not wait. So two connections never
wait for each other, whatever the credits. Urgent items have their own queue, which is written first and in order.

In an orderly end, `end()` flushes, writes END and shuts its direction down; the other direction is drained until the
peer's END. Everything else is a loss:

- end-of-file without END, or a malformed frame;
- silence;
- a frame that arrives a byte at a time (heartbeats are sent between frames, so nothing else reveals such a peer);
- a peer that takes no data.

`gone(clean, reason)` is called once in either case, unless `close()` was called first. The reader is the last thread to
finish: it waits for the writer and closes the socket.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, NamedTuple

from kit.hosts.spark.driver.waking import WakingClock
from kit.hosts.spark.wire.endpoint import WireSettings
from kit.hosts.spark.wire.stream import TAKES_NOTHING, Stream
from kit.hosts.spark.wire.wire import Buffers, Frame, FrameKind, FrameReader, WireError, pack_frame

_BYTES_A_WRITE = 256 << 10
"""The approximate size up to which a write gathers small items. Items still in the queue can be overtaken."""
_BYTES_DIRECT = 32 << 10
"""The approximate size up to which the sender may pack and write an item itself."""

SLOWEST_BYTES_PER_S = 64 << 10
"""The minimal speed at which a frame that has begun must arrive, with the heartbeat timeout as an allowance."""

RESET = "reset the connection: its process died or was stopped"
WITHOUT_END = "closed the connection without END: its process died or was stopped"
"""The reason for a connection that ended without END."""

_HEARTBEAT = pack_frame(FrameKind.HEARTBEAT)
_END = pack_frame(FrameKind.END)


NO_HEARTBEAT = "no heartbeat for"

_TRIES = 4
"""The number of parts of the time in which a peer must take data. A stall of our own uses up one part, not all."""


def silence(silent_s: float, limit_s: float) -> str:
    """Return the reason for the loss of a silent connection."""
    return (
        f"{NO_HEARTBEAT} {silent_s * 1000:.0f} ms (limit {limit_s * 1000:.0f} ms): "
        "the process is frozen or the network is cut"
    )


def is_silence(reason: str) -> bool:
    """Return True if the reason says that a connection was lost because no data passed over it."""
    return reason.startswith(NO_HEARTBEAT) or reason.endswith(TAKES_NOTHING)


def lateness(frame_bytes: int, taken_s: float, limit_s: float) -> str:
    """Return why a connection is lost whose current frame takes too long; "" while it is within the limit."""
    limit_s += frame_bytes / SLOWEST_BYTES_PER_S
    if taken_s <= limit_s:
        return ""
    return f"a frame of {frame_bytes} bytes has not arrived within {limit_s * 1000:.0f} ms"


class WriteState(Enum):
    """The state of a connection's writing."""

    OPEN = auto()
    ENDING = auto()
    """Write what is queued, then END."""
    STOPPED = auto()
    """Write nothing more."""


class _Leftover(NamedTuple):
    """The rest of a direct write that the socket did not take: the writer's next item, already packed."""

    buffers: Buffers


class Connection:
    """Both directions of one stream.

    `pack(item)` returns the frames of an item to send (on the writer's thread). `deliver(frame)` receives a frame (on
    the reader's thread); a WireError from it ends the connection. `gone(clean, reason)` reports that the peer has ended
    or is lost.
    """

    def __init__(
        self,
        stream: Stream,
        name: str,
        pack: Callable[[Any], Buffers],
        deliver: Callable[[Frame], None],
        gone: Callable[[bool, str], None],
        *,
        settings: WireSettings,
    ) -> None:
        self.name = name
        self._stream = stream
        self._pack = pack
        self._deliver = deliver
        self._gone = gone
        self._interval_s = settings.heartbeat_interval_ms / 1000
        self._timeout_s = settings.heartbeat_timeout_ms / 1000
        self._max_frame_bytes = settings.max_frame_bytes
        self._ready = threading.Condition(threading.Lock())
        self._state = WriteState.OPEN
        self._urgent: deque[tuple[Any, int]] = deque()
        self._ordinary: deque[tuple[Any, int]] = deque()
        self._frames = FrameReader(self._receive, self._max_frame_bytes)
        self._writer_idle = False
        self._closed_here = False
        self._broken = ""
        self._awake = WakingClock(2 * self._interval_s)
        """The reader's clock: the reader waits one interval for data."""
        self._heard_s = self._whole_s = 0.0
        self._writer = threading.Thread(target=self._write_all, name=f"kit-write-{name}", daemon=True)
        self._reader = threading.Thread(target=self._read_all, name=f"kit-read-{name}", daemon=True)

    def __repr__(self) -> str:
        return f"Connection({self.name}, {self._stream.endpoint}, {self._state.name.lower()})"

    def start(self) -> None:
        """Start both threads."""
        self._stream.set_timeouts(self._interval_s, self._timeout_s / _TRIES)
        self._writer.start()
        self._reader.start()

    # ---- sending -------------------------------------------------------------------------------------------------

    def send(self, item: Any, size_bytes: int = 0) -> bool:
        """Queue an item; return False if the connection no longer writes (its loss has been or will be reported)."""
        with self._ready:
            if self._state is not WriteState.OPEN:
                return False
            if not self._send_directly(item, size_bytes):
                self._ordinary.append((item, size_bytes))
                self._ready.notify()
        return True

    def send_urgent(self, item: Any) -> None:
        """Queue an item before all ordinary ones, unless the connection no longer writes."""
        with self._ready:
            if self._state is WriteState.OPEN and not self._send_directly(item, 0):
                self._urgent.append((item, 0))
                self._ready.notify()

    def _send_directly(self, item: Any, size_bytes: int) -> bool:
        """Write an item on the caller's thread if it is small and the queue is empty."""
        if size_bytes > _BYTES_DIRECT or not self._writer_idle or self._urgent or self._ordinary:
            return False
        packed = b"".join(self._pack(item))
        try:
            sent = self._stream.send_now([packed])
        except OSError:
            sent = 0  # the writer gets the same error and handles it
        if sent < len(packed):
            self._urgent.append((_Leftover([packed[sent:]]), 0))
            self._ready.notify()
        return True

    def end(self) -> None:
        """End our direction in good order, after the queued items. Does not wait."""
        with self._ready:
            if self._state is WriteState.OPEN:
                self._state = WriteState.ENDING
                self._ready.notify()

    def _write_all(self) -> None:
        try:
            while (items := self._take()) is not None:
                buffers = [buffer for item in items for buffer in self._pack_item(item)]
                self._stream.send_buffers(buffers or _HEARTBEAT, _TRIES)
            if self._state is WriteState.ENDING:
                self._stream.send_buffers(_END, _TRIES)
                self._stream.shutdown_write()
        except TimeoutError as error:
            self._break(str(error))
        except OSError:
            # The peer is gone. The reader still delivers what the peer sent before, then reports the loss.
            self._stop()
        except Exception as error:
            self._break(f"cannot write: {type(error).__name__}: {error}")

    def _pack_item(self, item: Any) -> Buffers:
        return item.buffers if isinstance(item, _Leftover) else self._pack(item)

    def _take(self) -> list[Any] | None:
        """Return the items of the next write; an empty list if a heartbeat is due; None at the end."""
        with self._ready:
            while not (self._urgent or self._ordinary) or self._state is WriteState.STOPPED:
                if self._state is not WriteState.OPEN:
                    return None
                self._writer_idle = True
                notified = self._ready.wait(self._interval_s)
                self._writer_idle = False
                if not notified:
                    return []
            items, taken_bytes = [], 0
            while (queue := self._urgent or self._ordinary) and taken_bytes < _BYTES_A_WRITE:
                item, size_bytes = queue.popleft()
                items.append(item)
                taken_bytes += size_bytes
            return items

    # ---- receiving -----------------------------------------------------------------------------------------------

    def _read_all(self) -> None:
        clean = False
        try:
            self._read_frames()
            clean, reason = True, "ended"
        except ConnectionResetError:
            reason = RESET
        except (OSError, EOFError) as error:
            reason = str(error)
        except Exception as error:
            reason = f"cannot read: {type(error).__name__}: {error}"
        if not clean:
            self._stop()
            self._stream.shutdown()
        if not self._closed_here:
            self._gone(clean, self._broken or reason)
        self._writer.join()
        self._stream.close()

    def _read_frames(self) -> None:
        """Deliver frames until END and end-of-file."""
        self._heard_s = self._whole_s = self._awake.read()
        while (frame := self._frames.read()) is not None:
            if frame.kind is FrameKind.END:
                if self._frames.read() is not None:
                    raise WireError("a frame came after END")
                return
            if frame.kind is not FrameKind.HEARTBEAT:
                self._deliver(frame)
            self._whole_s = self._awake.read()
        raise EOFError(WITHOUT_END)

    def _receive(self, view: memoryview, fill: bool) -> int:
        while True:
            self._check_pace()
            try:
                received = self._stream.receive_into(view, fill)
            except TimeoutError:
                silent_s = self._awake.read() - self._heard_s
                if silent_s >= self._timeout_s:
                    raise TimeoutError(silence(silent_s, self._timeout_s)) from None
            else:
                self._heard_s = self._awake.read()
                return received

    def _check_pace(self) -> None:
        """Check that the current frame arrives fast enough, because heartbeats are sent only between frames.

        The clock restarts with each complete frame, because in a steady stream there is hardly a pause between two.
        """
        frame_bytes = self._frames.begun_bytes
        now_s = self._awake.read()
        if not frame_bytes:
            self._whole_s = now_s
            return
        if late := lateness(frame_bytes, now_s - self._whole_s, self._timeout_s):
            raise TimeoutError(late)

    # ---- ending --------------------------------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """True if both directions have ended and the socket is closed."""
        return not self._reader.is_alive()

    def wait(self, timeout_s: float) -> bool:
        """Wait until both directions have ended; return False on a timeout."""
        self._reader.join(timeout_s)
        return self.is_over

    def wait_written(self, timeout_s: float) -> bool:
        """Wait, after `end`, until END is written; return False on a timeout."""
        if self._writer.ident is not None:
            self._writer.join(timeout_s)
        return not self._writer.is_alive()

    def close(self) -> None:
        """End the connection now, discard the queue, and wait for the threads. Nothing is reported afterwards."""
        self._closed_here = True
        self._stop()
        self._stream.shutdown()
        if self._reader.ident is None:
            self._stream.close()
        elif self._reader is not threading.current_thread():
            self._reader.join()

    def _break(self, reason: str) -> None:
        """End the connection from the writer: the reader wakes up and reports the reason."""
        self._broken = reason
        self._stop()
        self._stream.shutdown()

    def _stop(self) -> None:
        with self._ready:
            self._state = WriteState.STOPPED
            self._urgent.clear()
            self._ordinary.clear()
            self._ready.notify()

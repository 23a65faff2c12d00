"""A connection: an authenticated stream with a writer thread, a reader thread and heartbeats.

Theory of operation. `send` never waits for a peer: it appends to a queue. The *writer* takes what is there, packs it
and gathers it into one write; with nothing to write it sends a heartbeat each interval. A small item skips an idle
writer: the caller itself writes what the socket takes at once and leaves the rest to the writer, which spares two
thread switches. The *reader* hands every frame to `deliver`, which must not wait; so two connections can never wait
for each other, whatever the credits. Urgent items have a queue of their own, written first and in their order.

An end in good order: `end()` flushes, writes END and shuts its direction down; the other direction is drained until the
peer's END. Everything else is a loss: end-of-file without END, a malformed frame, silence, a frame that comes a byte at
a time (heartbeats come between frames, so nothing else tells such a peer from a live one), a peer that takes nothing.
`gone(clean, reason)` is called once for either, unless `close()` came first. The reader is the last to leave: it waits
for the writer and closes the socket.
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
"""A write gathers small items up to about this many bytes. What is not taken yet can still be overtaken."""
_BYTES_DIRECT = 32 << 10
"""An item up to about this long may be packed and written by its sender."""

SLOWEST_BYTES_PER_S = 64 << 10
"""A frame that has begun must arrive at this speed, and may take the heartbeat timeout besides."""

RESET = "reset the connection: its process died or was stopped"
WITHOUT_END = "closed the connection without END: its process died or was stopped"
"""Why a connection was lost."""

_HEARTBEAT = pack_frame(FrameKind.HEARTBEAT)
_END = pack_frame(FrameKind.END)


NO_HEARTBEAT = "no heartbeat for"

_TRIES = 4
"""In so many parts a peer has its time to take something. A stall of our own uses up one of them, not all."""


def silence(silent_s: float, limit_s: float) -> str:
    """Why a connection was lost on which nothing came."""
    return (
        f"{NO_HEARTBEAT} {silent_s * 1000:.0f} ms (limit {limit_s * 1000:.0f} ms): "
        "the process is frozen or the network is cut"
    )


def is_silence(reason: str) -> bool:
    """Whether a connection was lost for this reason because nothing came or went, whatever is at its other end."""
    return reason.startswith(NO_HEARTBEAT) or reason.endswith(TAKES_NOTHING)


def lateness(frame_bytes: int, taken_s: float, limit_s: float) -> str:
    """Why a connection is lost on which a frame of this length has been coming for so long; "" while it may."""
    limit_s += frame_bytes / SLOWEST_BYTES_PER_S
    if taken_s <= limit_s:
        return ""
    return f"a frame of {frame_bytes} bytes has not arrived within {limit_s * 1000:.0f} ms"


class WriteState(Enum):
    """Whether a connection still writes."""

    OPEN = auto()
    ENDING = auto()
    """Write what is queued, then END."""
    STOPPED = auto()
    """Write nothing more."""


class _Leftover(NamedTuple):
    """What the socket did not take of a direct write: the writer's next item, already packed."""

    buffers: Buffers


class Connection:
    """Both directions of one stream.

    `pack(item)`: the frames of a sent item (on the writer's thread). `deliver(frame)`: a received frame (on the
    reader's thread); a WireError from it ends the connection. `gone(clean, reason)`: the peer has ended or is lost.
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
        """The reader's: it waits an interval for what comes."""
        self._heard_s = self._whole_s = 0.0
        self._writer = threading.Thread(target=self._write_all, name=f"kit-write-{name}", daemon=True)
        self._reader = threading.Thread(target=self._read_all, name=f"kit-read-{name}", daemon=True)

    def __repr__(self) -> str:
        return f"Connection({self.name}, {self._stream.endpoint}, {self._state.name.lower()})"

    def start(self) -> None:
        """Starts both threads."""
        self._stream.set_timeouts(self._interval_s, self._timeout_s / _TRIES)
        self._writer.start()
        self._reader.start()

    # ---- sending -------------------------------------------------------------------------------------------------

    def send(self, item: Any, size_bytes: int = 0) -> bool:
        """Queues an item; False when the connection no longer writes (its loss has been or will be reported)."""
        with self._ready:
            if self._state is not WriteState.OPEN:
                return False
            if not self._send_directly(item, size_bytes):
                self._ordinary.append((item, size_bytes))
                self._ready.notify()
        return True

    def send_urgent(self, item: Any, overtakes: Callable[[Any], bool] | None = None) -> list[Any]:
        """Queues an item before all ordinary ones; returns those among them that `overtakes` selects, in order."""
        with self._ready:
            if self._state is not WriteState.OPEN:
                return []
            if self._send_directly(item, 0):
                return []
            self._urgent.append((item, 0))
            self._ready.notify()
            return [] if overtakes is None else [queued for queued, _ in self._ordinary if overtakes(queued)]

    def _send_directly(self, item: Any, size_bytes: int) -> bool:
        """Writes an item on the caller's thread if it is small and nothing is before it."""
        if size_bytes > _BYTES_DIRECT or not self._writer_idle or self._urgent or self._ordinary:
            return False
        packed = b"".join(self._pack(item))
        try:
            sent = self._stream.send_now([packed])
        except OSError:
            sent = 0  # the writer meets the same error, and knows what to do about it
        if sent < len(packed):
            self._urgent.append((_Leftover([packed[sent:]]), 0))
            self._ready.notify()
        return True

    def end(self) -> None:
        """Ends our direction in good order, after what is queued. Does not wait."""
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
            # The peer is gone. The reader still delivers what it said before, then reports.
            self._stop()
        except Exception as error:
            self._break(f"cannot write: {type(error).__name__}: {error}")

    def _pack_item(self, item: Any) -> Buffers:
        return item.buffers if isinstance(item, _Leftover) else self._pack(item)

    def _take(self) -> list[Any] | None:
        """The items of the next write; an empty list when a heartbeat is due; None at the end."""
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
        """Delivers frames until END and end-of-file."""
        self._heard_s = self._whole_s = self._awake.look()
        while (frame := self._frames.read()) is not None:
            if frame.kind is FrameKind.END:
                if self._frames.read() is not None:
                    raise WireError("a frame came after END")
                return
            if frame.kind is not FrameKind.HEARTBEAT:
                self._deliver(frame)
            self._whole_s = self._awake.look()
        raise EOFError(WITHOUT_END)

    def _receive(self, view: memoryview, fill: bool) -> int:
        while True:
            self._check_pace()
            try:
                received = self._stream.receive_into(view, fill)
            except TimeoutError:
                silent_s = self._awake.look() - self._heard_s
                if silent_s >= self._timeout_s:
                    raise TimeoutError(silence(silent_s, self._timeout_s)) from None
            else:
                self._heard_s = self._awake.look()
                return received

    def _check_pace(self) -> None:
        """Heartbeats come between frames only, so within one its sender has to be quick.

        The clock begins anew with each frame that is whole: in a steady stream there is hardly a moment between two.
        """
        frame_bytes = self._frames.begun_bytes
        now_s = self._awake.look()
        if not frame_bytes:
            self._whole_s = now_s
            return
        if late := lateness(frame_bytes, now_s - self._whole_s, self._timeout_s):
            raise TimeoutError(late)

    # ---- ending --------------------------------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether both directions have ended and the socket is closed."""
        return not self._reader.is_alive()

    def wait(self, timeout_s: float) -> bool:
        """Waits until both directions have ended; False when they have not in time."""
        self._reader.join(timeout_s)
        return self.is_over

    def wait_written(self, timeout_s: float) -> bool:
        """After `end`: waits until END is written; False when it is not in time."""
        if self._writer.ident is not None:
            self._writer.join(timeout_s)
        return not self._writer.is_alive()

    def close(self) -> None:
        """Ends the connection now, whatever is queued, and waits for its threads. Nothing is reported after it."""
        self._closed_here = True
        self._stop()
        self._stream.shutdown()
        if self._reader.ident is None:
            self._stream.close()
        elif self._reader is not threading.current_thread():
            self._reader.join()

    def _break(self, reason: str) -> None:
        """The writer's way to end the connection: the reader wakes and reports the reason."""
        self._broken = reason
        self._stop()
        self._stream.shutdown()

    def _stop(self) -> None:
        with self._ready:
            self._state = WriteState.STOPPED
            self._urgent.clear()
            self._ordinary.clear()
            self._ready.notify()

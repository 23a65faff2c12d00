"""Many connections on one thread: the driver's end of the control plane.

Theory of operation. A `Connection` has two threads, which is right for the few peers of a data plane. A driver has one
peer per slot, and with some two thousand slots the threads would only wait for Python's lock. Here one thread watches
all sockets. The sender writes at once what the socket takes, and the thread writes the rest when there is room. The
thread also sends heartbeats on idle lines, reads incoming data, and regularly checks which peers have been silent for
too long. A `Line` behaves like a `Connection`: `send` never waits, `deliver` must not wait, an orderly end is flushed
and drained, and `gone(clean, reason)` is called once, however the line ends.

OpenSSL's streams buffer data internally, where a selector cannot see it, so each of them has a `Connection`.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

from kit.hosts.spark.driver.waking import WakingClock
from kit.hosts.spark.wire.connection import RESET, WITHOUT_END, WriteState, lateness, silence
from kit.hosts.spark.wire.endpoint import WireSettings
from kit.hosts.spark.wire.stream import PARTS_A_WRITE, TAKES_NOTHING, Stream
from kit.hosts.spark.wire.wire import HEADER, Buffers, Frame, FrameKind, WireError, pack_frame, parse_header

LOOKS_AN_INTERVAL = 4
"""The number of times per heartbeat interval that all lines are checked."""
_READ_BYTES = 256 << 10

_HEARTBEAT = b"".join(pack_frame(FrameKind.HEARTBEAT))
_END = b"".join(pack_frame(FrameKind.END))


class Switchboard:
    """One thread with all its lines; `close` ends the thread."""

    def __init__(self, settings: WireSettings) -> None:
        self.settings = settings
        self.buffer = memoryview(bytearray(_READ_BYTES))
        """The buffer for received data until its line has taken it."""
        self.awake = WakingClock(settings.heartbeat_interval_ms / 1000)
        """The clock that measures silence, used on the thread."""
        self._selector = selectors.DefaultSelector()
        self._waker, self._wake = socket.socketpair()
        self._wake.setblocking(False)
        self._waker.setblocking(False)
        self._selector.register(self._waker, selectors.EVENT_READ)
        self._asked: deque[Callable[[], None]] = deque()
        self._lines: set[Line] = set()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="kit-switchboard", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"Switchboard({len(self._lines)} lines)"

    def close(self) -> None:
        """End the thread; the lines must have been closed."""
        self._closed = True
        self.ask(lambda: None)
        self._thread.join()
        self._selector.close()
        self._waker.close()
        self._wake.close()

    @property
    def is_here(self) -> bool:
        """True if the caller runs on the switchboard's own thread."""
        return threading.current_thread() is self._thread

    def ask(self, call: Callable[[], None]) -> None:
        """Have the thread perform a call."""
        self._asked.append(call)
        with contextlib.suppress(OSError):  # the thread is awake, or has ended
            self._wake.send(b"x")

    def _run(self) -> None:
        look_s = self.settings.heartbeat_interval_ms / 1000 / LOOKS_AN_INTERVAL
        due_s = time.monotonic() + look_s
        while not self._closed:
            for key, events in self._selector.select(max(0.0, due_s - time.monotonic())):
                if key.data is None:
                    self._wake_up()
                else:
                    key.data.ready(events)
            while self._asked:
                self._asked.popleft()()
            awake_s, now_s = self.awake.read(), time.monotonic()
            if now_s >= due_s:
                due_s = now_s + look_s
                for line in list(self._lines):
                    line.check_peer(now_s, awake_s)

    def _wake_up(self) -> None:
        while True:
            try:
                if len(self._waker.recv(4096)) < 4096:
                    return
            except BlockingIOError:
                return

    # ---- for lines, on the thread --------------------------------------------------------------------------------

    def add(self, line: Line) -> None:
        """Start watching a line."""
        line.begin(self.awake.read())
        self._lines.add(line)
        self._selector.register(line.stream.fileno(), selectors.EVENT_READ, line)

    def watch(self, line: Line, events: int) -> None:
        """Watch a line for these events from now on; 0 stops watching."""
        if line not in self._lines:
            return
        known = line.stream.fileno() in self._selector.get_map()
        if events and known:
            self._selector.modify(line.stream.fileno(), events, line)
        elif events:
            self._selector.register(line.stream.fileno(), events, line)
        elif known:
            self._selector.unregister(line.stream.fileno())

    def drop(self, line: Line) -> None:
        """Stop watching a line."""
        self.watch(line, 0)
        self._lines.discard(line)


class Line:
    """Both directions of one stream. `deliver` and `gone` are called on the switchboard's thread."""

    def __init__(
        self,
        board: Switchboard,
        stream: Stream,
        name: str,
        deliver: Callable[[Frame], None],
        gone: Callable[[bool, str], None],
    ) -> None:
        self.name = name
        self.stream = stream
        self._board = board
        self._deliver = deliver
        self._gone = gone
        self._interval_s = board.settings.heartbeat_interval_ms / 1000
        self._timeout_s = board.settings.heartbeat_timeout_ms / 1000
        self._lock = threading.Lock()
        self._state = WriteState.OPEN
        self._out: deque[memoryview] = deque()
        self._frames = _Frames(board.settings.max_frame_bytes)
        self._started = self._ended = self._read_over = self._write_failed = self._reported = False
        self._sent_s = self._seen_sent_s = 0.0
        self._taken_s = self._heard_s = self._whole_s = 0.0
        """The waking times at which the other end last took data, sent data, and completed a frame."""
        self._written = threading.Event()
        self._over = threading.Event()

    def __repr__(self) -> str:
        return f"Line({self.name}, {self.stream.endpoint}, {self._state.name.lower()})"

    def start(self) -> None:
        """Start to read."""
        self._sent_s = time.monotonic()
        self._started = True
        self._board.ask(lambda: self._board.add(self))

    # ---- sending -------------------------------------------------------------------------------------------------

    def send(self, packed: Buffers) -> bool:
        """Write a message, and queue what the socket does not take at once.

        Return False if the line no longer writes (its loss has been or will be reported).
        """
        with self._lock:
            if self._state is not WriteState.OPEN:
                return False
            self._put(packed)
        return True

    def end(self) -> None:
        """End our direction in good order, after the queued data. Does not wait."""
        with self._lock:
            if self._state is WriteState.OPEN:
                self._state = WriteState.ENDING
                self._put([_END])
                self._finish_writing()

    def _put(self, packed: Buffers) -> None:
        waiting = bool(self._out)
        self._out.extend(memoryview(buffer).cast("B") for buffer in packed)
        if not waiting and not self._write_some():
            self._board.ask(self._watch)

    def _write_some(self) -> bool:
        """Write what the socket takes at once; return True if that was all."""
        while self._out:
            views = [view for _, view in zip(range(PARTS_A_WRITE), self._out, strict=False)]
            try:
                sent = self.stream.send_now(views)
            except OSError:  # the reader gets the same error and handles it
                self._write_failed = True
                return False
            if not sent:
                return False
            self._sent_s = time.monotonic()
            while self._out and sent >= len(self._out[0]):
                sent -= len(self._out.popleft())
            if sent:
                self._out[0] = self._out[0][sent:]
        return True

    def _finish_writing(self) -> None:
        if self._state is WriteState.ENDING and not self._out and not self._written.is_set():
            self.stream.shutdown_write()
            self._written.set()
            self._board.ask(self._close_when_over)

    # ---- on the switchboard's thread -----------------------------------------------------------------------------

    def begin(self, awake_s: float) -> None:
        """Start the time limits of the other end."""
        self._taken_s = self._heard_s = self._whole_s = awake_s

    def ready(self, events: int) -> None:
        """Handle a socket that is readable or writable."""
        if events & selectors.EVENT_WRITE:
            with self._lock:
                if self._write_some():
                    self._finish_writing()
            if self._write_failed and self._read_over:
                self._stop()
            self._watch()
        if events & selectors.EVENT_READ and not self._read_over:
            self._read()

    def check_peer(self, now_s: float, awake_s: float) -> None:
        """Send a heartbeat if nothing else was sent, and check that the other end is alive."""
        with self._lock:
            if self._state is WriteState.OPEN and not self._out and now_s - self._sent_s >= self._interval_s:
                self._put([_HEARTBEAT])
            if not self._out or self._sent_s != self._seen_sent_s:
                self._seen_sent_s, self._taken_s = self._sent_s, awake_s
        if awake_s - self._taken_s >= self._timeout_s:
            self._lose(f"{self.stream.endpoint} {TAKES_NOTHING}")
        elif not self._read_over and awake_s - self._heard_s >= self._timeout_s:
            self._lose(silence(awake_s - self._heard_s, self._timeout_s))
        elif late := self._frames.lateness(awake_s - self._whole_s, self._timeout_s):
            self._lose(late)

    def _watch(self) -> None:
        events = 0 if self._read_over else selectors.EVENT_READ
        self._board.watch(self, events | (selectors.EVENT_WRITE if self._out else 0))

    def _read(self) -> None:
        try:
            received = self.stream.receive_now(self._board.buffer)
            if received is None:
                return
            self._heard_s = self._board.awake.read()
            if not received:
                self._end_of_file()
                return
            for frame in self._frames.cut(self._board.buffer[:received]):
                self._take(frame)
                self._whole_s = self._heard_s
            if not self._frames.begun_bytes:
                self._whole_s = self._heard_s
        except ConnectionResetError:
            self._lose(RESET)
        except (OSError, EOFError) as error:
            self._lose(str(error))
        except Exception as error:
            self._lose(f"cannot read: {type(error).__name__}: {error}")

    def _take(self, frame: Frame) -> None:
        if self._ended:
            raise WireError("a frame came after END")
        if frame.kind is FrameKind.END:
            self._ended = True
        elif frame.kind is not FrameKind.HEARTBEAT:
            self._deliver(frame)

    def _end_of_file(self) -> None:
        self._frames.end()
        if not self._ended:
            raise EOFError(WITHOUT_END)
        self._read_over = True
        self._watch()
        self._tell(True, "ended")
        self._close_when_over()

    def _lose(self, reason: str) -> None:
        self._stop()
        self._tell(False, reason)

    def _tell(self, clean: bool, reason: str) -> None:
        was_reported, self._reported = self._reported, True
        if not was_reported:
            self._gone(clean, reason)

    def _stop(self) -> None:
        with self._lock:
            self._state = WriteState.STOPPED
            self._out.clear()
            self._read_over = True
            self._written.set()
        self._close_when_over()

    def _close_when_over(self) -> None:
        if self._read_over and self._written.is_set() and not self._over.is_set():
            self._board.drop(self)
            self.stream.close()
            self._over.set()

    # ---- ending --------------------------------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """True if both directions have ended and the socket is closed."""
        return self._over.is_set()

    def wait_written(self, timeout_s: float) -> bool:
        """Wait, after `end`, until END is written; return False on a timeout."""
        return not self._started or self._written.wait(timeout_s)

    def close(self) -> None:
        """End the line now and discard the queue. Nothing is reported afterwards."""
        self._reported = True
        if not self._started:
            self.stream.close()
            self._over.set()
        elif self._board.is_here:
            self._stop()
        else:
            self._board.ask(self._stop)
            self._over.wait()


class _Frames:
    """A parser that cuts received pieces into frames."""

    def __init__(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._pieces = bytearray()

    def cut(self, piece: memoryview) -> Iterator[Frame]:
        """Yield the frames that this piece completes. Raises WireError if one is malformed."""
        self._pieces += piece
        start = 0
        while len(self._pieces) - start >= HEADER.size:
            header = bytes(self._pieces[start : start + HEADER.size])
            kind, flags, channel, length = parse_header(header, self._max_frame_bytes)
            end = start + HEADER.size + length
            if len(self._pieces) < end:
                break
            yield Frame(kind, channel, bytes(memoryview(self._pieces)[start + HEADER.size : end]), flags)
            start = end
        del self._pieces[:start]

    @property
    def begun_bytes(self) -> int:
        """The length of the frame that has partly arrived; 0 between frames."""
        if len(self._pieces) < HEADER.size:
            return HEADER.size if self._pieces else 0
        return HEADER.size + parse_header(bytes(self._pieces[: HEADER.size]), self._max_frame_bytes)[3]

    def lateness(self, taken_s: float, limit_s: float) -> str:
        """Return why the other end is lost if the current frame takes too long; "" while it is within the limit."""
        begun = self.begun_bytes
        return lateness(begun, taken_s, limit_s) if begun else ""

    def end(self) -> None:
        """Handle end-of-file. Raises WireError in the middle of a frame."""
        if self._pieces:
            raise WireError(f"the connection ended inside a frame after {len(self._pieces)} bytes")

"""Both kinds of connection, one with its own threads and one at a switchboard, behave alike."""

from __future__ import annotations

import contextlib
import ctypes
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from kit.hosts.spark.wire.connection import Connection
from kit.hosts.spark.wire.stream import Endpoint, Stream
from kit.hosts.spark.wire.switchboard import Line, Switchboard
from kit.hosts.spark.wire.wire import HEADER, MAGIC, VERSION, Buffers, Frame, FrameKind, pack_frame
from tests.hosts.spark.sockets import IMPATIENT, Inbox

pytestmark = pytest.mark.usefixtures("nothing_left")


@dataclass
class Ends:
    """A connection, what it delivered and how it went, and the bare socket at the other end."""

    peer: socket.socket
    delivered: Inbox = field(default_factory=Inbox)
    gone: Inbox = field(default_factory=Inbox)
    connection: Line | Connection = field(init=False)


def _pack(item: Buffers) -> Buffers:
    return item


def _own_threads(ends: Ends, stream: Stream) -> Iterator[Connection]:
    yield Connection(stream, "own", _pack, ends.delivered.put, lambda *how: ends.gone.put(how), settings=IMPATIENT)


def _at_a_switchboard(ends: Ends, stream: Stream) -> Iterator[Line]:
    board = Switchboard(IMPATIENT)
    yield Line(board, stream, "line", ends.delivered.put, lambda *how: ends.gone.put(how))
    board.close()


@pytest.fixture(params=[_own_threads, _at_a_switchboard])
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    ours, theirs = socket.socketpair()
    made = Ends(theirs)
    kind: Callable[[Ends, Stream], Any] = request.param
    with theirs, contextlib.contextmanager(kind)(made, Stream(ours, Endpoint(path="/pair"))) as made.connection:
        made.connection.start()
        yield made
        made.connection.close()
    assert made.connection.is_over


def test_frames_come_whole_however_they_are_cut(ends: Ends) -> None:
    payloads = [bytes([number]) * size for number, size in enumerate([0, 1, 15, 16, 17, 1_000, 200_000, 3])]
    data = b"".join(b"".join(pack_frame(FrameKind.CONTROL, [payload])) for payload in payloads)
    rest = memoryview(data)
    sizes = iter([1, 7, 16, 40, 3, 100_000])
    while rest:
        size = next(sizes, len(rest))
        ends.peer.sendall(rest[:size])
        rest = rest[size:]
    assert [ends.delivered.next(Frame).payload for _ in payloads] == payloads


def test_a_peer_that_is_quick_is_not_slow_however_its_frames_are_cut(ends: Ends) -> None:
    """The next frame has begun with each part that arrives; it must not count as one that does not arrive."""
    frame = b"".join(pack_frame(FrameKind.CONTROL, [bytes(100)]))
    ends.peer.sendall(frame[:50])
    for _ in range(60):  # 20 ms each, four times the limit
        time.sleep(0.02)
        ends.peer.sendall(frame[50:] + frame[:50])
        assert ends.delivered.next(Frame).payload == bytes(100)
    assert ends.gone.empty()


def test_a_frame_that_comes_a_byte_at_a_time_is_cut_off(ends: Ends) -> None:
    ends.peer.sendall(HEADER.pack(MAGIC, VERSION, FrameKind.CONTROL, 0, 0, 1 << 10))
    with contextlib.suppress(OSError):
        while ends.gone.empty():
            ends.peer.sendall(b"x")
            time.sleep(0.01)
    assert ends.gone.next() == (False, "a frame of 1040 bytes has not arrived within 316 ms")


def test_a_peer_that_takes_nothing_is_lost(ends: Ends) -> None:
    """It lives, as its heartbeats say, but does not read."""
    assert ends.connection.send([bytes(8 << 20)])
    with contextlib.suppress(OSError):
        while ends.gone.empty():
            ends.peer.sendall(b"".join(pack_frame(FrameKind.HEARTBEAT)))
            time.sleep(0.01)
    assert ends.gone.next() == (False, "unix:/pair takes nothing in time")
    assert not ends.connection.send([b"more"])


def test_what_does_not_fit_at_once_is_written_when_there_is_room(ends: Ends) -> None:
    pieces = [bytes([number]) * (3 << 20) for number in range(4)]
    for piece in pieces:
        assert ends.connection.send([piece])
    ends.connection.end()
    received = bytearray()
    while chunk := ends.peer.recv(1 << 20):
        received += chunk
    end = b"".join(pack_frame(FrameKind.END))
    assert received.replace(b"".join(pack_frame(FrameKind.HEARTBEAT)), b"") == b"".join(pieces) + end
    ends.peer.sendall(end)
    ends.peer.shutdown(socket.SHUT_WR)
    assert ends.gone.next() == (True, "ended")


def test_who_did_not_run_itself_does_not_call_its_peer_silent(ends: Ends) -> None:
    """A machine that stands still, a call that keeps Python's lock: nothing was heard because nobody listened."""
    holding_pythons_lock = ctypes.PyDLL(None)
    for _ in range(3):
        holding_pythons_lock.usleep(500_000)  # the limit is 300 ms
        for _ in range(3):
            ends.peer.sendall(b"".join(pack_frame(FrameKind.HEARTBEAT)))
            time.sleep(0.02)
    assert ends.gone.empty()


@pytest.mark.parametrize("begun_bytes", [0, 50])
def test_nor_that_it_takes_nothing_or_is_slow(ends: Ends, begun_bytes: int) -> None:
    frame = b"".join(pack_frame(FrameKind.CONTROL, [bytes(100)]))
    assert ends.connection.send([bytes(8 << 20)])
    ends.peer.sendall(frame[:begun_bytes])
    time.sleep(0.05)
    ctypes.PyDLL(None).usleep(500_000)
    ends.peer.sendall(frame[begun_bytes:])
    assert ends.delivered.next(Frame).payload == bytes(100)
    time.sleep(0.05)
    assert ends.gone.empty()


@pytest.mark.parametrize("how", ["end of file", "reset"])
def test_a_peer_that_dies_is_told_from_one_that_ends(ends: Ends, how: str) -> None:
    if how == "reset":
        ends.connection.send([bytes(100)])  # what is not read when a socket is closed resets it
    ends.peer.close()
    clean, reason = ends.gone.next()
    assert not clean
    assert reason.endswith("its process died or was stopped")
    assert ends.gone.empty()


def test_a_switchboard_has_one_thread_however_many_lines_there_are() -> None:
    before = threading.active_count()
    board = Switchboard(IMPATIENT)
    pairs = [socket.socketpair() for _ in range(50)]
    delivered = Inbox()
    lines = [
        Line(board, Stream(ours, Endpoint(path="/pair")), str(number), delivered.put, lambda *_: None)
        for number, (ours, _) in enumerate(pairs)
    ]
    for line in lines:
        line.start()
    for number, (_, theirs) in enumerate(pairs):
        theirs.sendall(b"".join(pack_frame(FrameKind.CONTROL, [bytes([number])])))
    assert sorted(delivered.next(Frame).payload[0] for _ in pairs) == list(range(50))
    assert threading.active_count() == before + 1
    for line in lines:
        line.close()
    board.close()
    for _, theirs in pairs:
        theirs.close()

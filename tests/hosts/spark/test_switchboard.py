"""A line of the switchboard whose other end takes data slowly, judged at the times that a test says."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kit.hosts.spark.wire.endpoint import WireSettings
from kit.hosts.spark.wire.stream import TAKES_NOTHING, Endpoint, Stream, open_stream
from kit.hosts.spark.wire.switchboard import Line
from kit.hosts.spark.wire.wire import FrameKind, pack_frame

SETTINGS = WireSettings(heartbeat_interval_ms=100, heartbeat_timeout_ms=1_000)
LOOK_S = 0.4
PIECE = 64 << 10


class Bench:
    """A line that sends 16 MB to a receiver with a small buffer, and a switchboard whose time the test sets."""

    def __init__(self) -> None:
        ours, self.other = socket.socketpair()
        for end in (ours, self.other):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, PIECE)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, PIECE)
        self.now_s = 0.0
        self.gone: list[str] = []
        stream: Stream = open_stream(ours, Endpoint("127.0.0.1", 1), None, "")
        stream.negotiate(0.0)
        ours.setblocking(False)
        board: Any = SimpleNamespace(
            settings=SETTINGS,
            awake=SimpleNamespace(read=lambda: self.now_s),
            buffer=memoryview(bytearray(1 << 16)),
            is_here=True,
            ask=lambda call: None,
            watch=lambda line, events: None,
            drop=lambda line: None,
        )
        self.line = Line(board, stream, "slow", lambda frame: None, lambda clean, reason: self.gone.append(reason))
        self.line.begin(0.0)
        self.line.send(pack_frame(FrameKind.CONTROL, [bytes(16 << 20)]))
        assert self.line._out, "the socket did not take all of it"

    def later(self, *, takes: bool) -> None:
        """Let time pass, in which the other end sends a heartbeat and takes some data, or none."""
        self.now_s += LOOK_S
        for part in pack_frame(FrameKind.HEARTBEAT):
            self.other.sendall(part)
        self.line.ready(1)
        if takes:
            self.other.recv(PIECE)
        self.line.ready(2)
        self.line.check_peer(self.now_s, self.now_s)


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.line.stream.close()
    made.other.close()


def test_a_receiver_that_is_slow_and_steady_is_not_lost(bench: Bench) -> None:
    """It takes a little in each interval, for ten times as long as a silent one is waited for."""
    for _ in range(25):
        bench.later(takes=True)
        assert bench.gone == []
    assert bench.line._out, "there was something to take all the time"


def test_a_receiver_that_takes_nothing_is_lost(bench: Bench) -> None:
    bench.later(takes=True)
    while not bench.gone:
        assert bench.now_s < 10
        bench.later(takes=False)
    assert TAKES_NOTHING in bench.gone[0]

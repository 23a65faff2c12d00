"""Ends to test against: an inbox with a deadline, and a peer that does only what the test says."""

from __future__ import annotations

import queue
import time
from typing import Any

import pytest

from kit.hosts.spark.wire.auth import DRIVER, Party, Purpose
from kit.hosts.spark.wire.control import ControlServer
from kit.hosts.spark.wire.endpoint import WireSettings, dial
from kit.hosts.spark.wire.stream import Endpoint, Stream
from kit.hosts.spark.wire.wire import Frame, FrameReader

SECRET = bytes(range(32))
OTHER_SECRET = bytes(32)
SETTINGS = WireSettings()
IMPATIENT = WireSettings(heartbeat_interval_ms=20, heartbeat_timeout_ms=300, handshake_timeout_ms=300)
"""For tests that wait for a limit to pass."""

PATIENCE_S = 20.0


class Inbox(queue.SimpleQueue[Any]):
    """An inbox whose `next` fails the test instead of waiting forever."""

    def next(self, type_: type = object) -> Any:
        item = self.get(timeout=PATIENCE_S)
        assert isinstance(item, type_), f"expected {type_.__name__}, found {item!r}"
        return item


def serving(inbox: Any, slots: int = 1, settings: WireSettings = SETTINGS) -> ControlServer:
    """A server that admits the slots 0 to `slots` - 1 of deployment 1."""
    server = ControlServer(SECRET, inbox, settings=settings)
    server.admit(1, range(slots))
    return server


class RawPeer:
    """An authenticated stream without threads or heartbeats."""

    def __init__(
        self, endpoint: Endpoint, purpose: Purpose, me: Party, expected_slot: int = DRIVER, secret: bytes = SECRET
    ) -> None:
        self.stream: Stream = dial([endpoint], secret, purpose, me, expected_slot, settings=SETTINGS)
        self.stream.set_timeouts(PATIENCE_S, PATIENCE_S)
        self._reader = FrameReader(self.stream.receive_into)

    def write(self, *buffers: Any) -> None:
        self.stream.send_buffers(buffers)

    def read(self) -> Frame | None:
        return self._reader.read()

    def close(self) -> None:
        self.stream.close()

    def __enter__(self) -> RawPeer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def deadline() -> float:
    return time.monotonic() + PATIENCE_S


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "kit.hosts.spark"]


def await_lines(caplog: pytest.LogCaptureFixture, count: int) -> None:
    """The line is written by the listener's thread, just after the stranger has seen his end."""
    until = deadline()
    while len(lines(caplog)) < count and time.monotonic() < until:
        time.sleep(0.005)

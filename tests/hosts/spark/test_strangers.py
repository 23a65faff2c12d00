"""Strangers on a job's ports: each is cut off, the job is unharmed, and one line in the log says whence and why."""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kit.hosts.spark.driver.driver_settings import DriverSettings
from kit.hosts.spark.job import SparkJob
from kit.hosts.spark.wire import strangers
from kit.hosts.spark.wire.auth import DRIVER, AuthenticationError, Party, Purpose, Verdict
from kit.hosts.spark.wire.control import SlotHello, SlotJoined, SlotLeft
from kit.hosts.spark.wire.endpoint import MAX_HANDSHAKES, Listener, WireSettings, dial
from kit.hosts.spark.wire.strangers import CutOffs
from kit.hosts.spark.wire.stream import Endpoint, Stream
from kit.hosts.spark.wire.wire import HEADER, MAGIC, VERSION, FrameKind
from tests.hosts.spark.jobs import ThreadGang, await_checkpoint, check_output, generator, totals_job
from tests.hosts.spark.sockets import (
    IMPATIENT,
    OTHER_SECRET,
    PATIENCE_S,
    SECRET,
    SETTINGS,
    Inbox,
    RawPeer,
    await_lines,
    deadline,
    lines,
    serving,
)

ME, LISTENER = Party(3, 7), Party(DRIVER, 7)
HELLO_BYTES, TAG_BYTES = 52, 32

Stranger = Callable[[Endpoint, Purpose], None]
"""What comes to an endpoint, and stays until it is cut off."""


def dialled(endpoint: Endpoint) -> socket.socket:
    return socket.create_connection((endpoint.host, endpoint.port), PATIENCE_S)


def stay(sock: socket.socket) -> None:
    """Until the other end is tired of us."""
    with contextlib.suppress(ConnectionResetError):
        while sock.recv(1 << 16):
            pass


def says(data: bytes) -> Stranger:
    def come(endpoint: Endpoint, purpose: Purpose) -> None:
        with dialled(endpoint) as sock:
            sock.sendall(data)
            stay(sock)

    return come


def leaves_half_way(endpoint: Endpoint, purpose: Purpose) -> None:
    with dialled(endpoint) as sock:
        sock.sendall(b"CKIT\x01")


def a_byte_at_a_time(endpoint: Endpoint, purpose: Purpose) -> None:
    """A hello that never ends, although bytes of it arrive all the time."""
    with dialled(endpoint) as sock, contextlib.suppress(ConnectionError):
        sock.settimeout(0.04)
        for byte in b"CKIT\x01" + bytes([purpose]) + bytes(HELLO_BYTES):
            sock.send(bytes([byte]))
            with contextlib.suppress(TimeoutError):
                if not sock.recv(1):
                    return


def has_another_secret(endpoint: Endpoint, purpose: Purpose) -> None:
    """One who does not mind that the listener has another one, too."""
    with dialled(endpoint) as sock:
        sock.sendall(_hello(purpose))
        Stream(sock, endpoint).receive_exactly(HELLO_BYTES + TAG_BYTES, deadline())
        sock.sendall(bytes(TAG_BYTES))
        stay(sock)


def _hello(purpose: Purpose) -> bytes:
    return b"CKIT\x01" + bytes([purpose, 0, 0]) + bytes(HELLO_BYTES - 8)


def repeats(recorded: bytes) -> Stranger:
    """Replay the hello and the proof that one of our processes has sent once."""
    return says(recorded)


A_FRAME = HEADER.pack(MAGIC, VERSION, FrameKind.BATCH, 0, 0, 1 << 40)
STRANGERS: dict[str, tuple[Stranger, str]] = {
    "a web browser": (
        says(b"GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: somebody with a long name\r\n\r\n"),
        r"begins with b'GET / HTTP/1', which is no hello of this kit",
    ),
    "noise": (says(bytes(range(255, 155, -1))), r"begins with b'\\xff\\xfe.*which is no hello"),
    "an oversized frame": (says(A_FRAME + bytes(HELLO_BYTES)), r"begins with b'\\xc4\\x01\\x03.*which is no hello"),
    "another version": (says(b"CKIT\x63" + bytes(HELLO_BYTES)), "speaks version 99 of the handshake, expected 1"),
    "another purpose": (says(b"CKIT\x01\x07" + bytes(HELLO_BYTES)), "comes for purpose 7, expected "),
    "a handshake cut half way": (leaves_half_way, "closed the connection after 5 of 52 bytes"),
    "another secret": (
        has_another_secret,
        r"claims to be slot 0 \(deployment 0\) and does not prove it: it has another sec",
    ),
    "silence": (says(b""), "it has not proved itself within [0-9]+ ms: 0 of 52 bytes came in time"),
    "a byte at a time": (
        a_byte_at_a_time,
        "it has not proved itself within [0-9]+ ms: [0-9]+ of 52 bytes came in time",
    ),
}


@pytest.fixture
def accepted() -> Inbox:
    return Inbox()


@pytest.fixture
def listener(nothing_left: None, accepted: Inbox) -> Iterator[Listener]:
    yield from listening(accepted, IMPATIENT)


def welcome(party: Party) -> Verdict:
    return Verdict.WELCOME


def welcome_later(party: Party) -> Verdict:
    """A listener that is busy."""
    time.sleep(0.05)
    return Verdict.WELCOME


def listening(
    accepted: Inbox, settings: WireSettings, judge: Callable[[Party], Verdict] = welcome
) -> Iterator[Listener]:
    def accept(stream: Stream, party: Party) -> None:
        accepted.put(party)
        stream.close()

    open_one = Listener(SECRET, Purpose.CONTROL, lambda: LISTENER, judge, accept, directory="", settings=settings)
    yield open_one
    open_one.close()


@pytest.mark.parametrize("name", STRANGERS)
def test_a_stranger_is_cut_off_and_one_line_says_whence_and_why(
    name: str, listener: Listener, accepted: Inbox, caplog: pytest.LogCaptureFixture
) -> None:
    come, why = STRANGERS[name]
    come(listener.endpoints[-1], Purpose.CONTROL)
    await_lines(caplog, 1)
    whence = f"driver (deployment 7) at {listener.endpoints[-1]} cut off a connection from 127.0.0.1:"
    (line,) = lines(caplog)
    assert re.fullmatch(f"{re.escape(whence)}[0-9]+: .*{why}.*", line)
    assert accepted.empty()


def test_a_handshake_that_was_overheard_opens_nothing(
    listener: Listener, accepted: Inbox, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[bytes] = []
    send = Stream.send_buffers
    monkeypatch.setattr(Stream, "send_buffers", lambda self, buffers: (sent.extend(buffers), send(self, buffers))[1])
    dial(listener.endpoints[1:], SECRET, Purpose.CONTROL, ME, DRIVER, settings=SETTINGS).close()
    assert accepted.next() == ME
    hello = next(data for data in sent if len(data) == HELLO_BYTES)
    proof = next(data for data in sent[sent.index(hello) + 1 :] if len(data) == TAG_BYTES and data != sent[2])
    repeats(hello + proof)(listener.endpoints[1], Purpose.CONTROL)
    await_lines(caplog, 1)
    assert (
        "claims to be slot 3 (deployment 7) and does not prove it: it has another secret, or repeats what it has"
        in (lines(caplog)[0])
    )
    assert accepted.empty()


def test_a_process_of_this_machine_is_named(listener: Listener, caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(listener.endpoints[0].path)
        sock.sendall(bytes(HELLO_BYTES))
        stay(sock)
    await_lines(caplog, 1)
    assert re.search(r"cut off a connection from process [0-9]+ of user [0-9]+: begins with", lines(caplog)[0])


@pytest.mark.usefixtures("nothing_left")
def test_many_connections_held_open_shut_nobody_out(accepted: Inbox, caplog: pytest.LogCaptureFixture) -> None:
    """None of them would be dropped for its silence while this test runs."""
    with contextlib.contextmanager(listening)(accepted, WireSettings(handshake_timeout_ms=60_000)) as listener:
        endpoint = listener.endpoints[-1]
        with contextlib.ExitStack() as stack:
            held = [stack.enter_context(dialled(endpoint)) for _ in range(MAX_HANDSHAKES + 3)]
            dial([endpoint], SECRET, Purpose.CONTROL, ME, DRIVER, settings=SETTINGS).close()
            assert accepted.next() == ME
            for first in held[:4]:
                stay(first)  # which would hang if it were not the one that has to go
            await_lines(caplog, 4)
            said = lines(caplog)
    assert len(said) == 4
    assert all(f"{MAX_HANDSHAKES} handshakes were open, most of them from 127.0.0.1, this" in line for line in said)


@pytest.mark.usefixtures("nothing_left")
def test_many_of_ours_that_come_at_once_are_all_let_in(accepted: Inbox, caplog: pytest.LogCaptureFixture) -> None:
    count = 3 * MAX_HANDSHAKES
    with contextlib.contextmanager(listening)(accepted, SETTINGS, welcome_later) as listener:
        begin = threading.Barrier(count)

        def come(slot: int) -> None:
            begin.wait()
            dial([listener.endpoints[-1]], SECRET, Purpose.CONTROL, Party(slot, 7), DRIVER, settings=SETTINGS).close()

        with ThreadPoolExecutor(count) as pool:
            list(pool.map(come, range(count)))
        assert {accepted.next().slot for _ in range(count)} == set(range(count))
    assert lines(caplog) == []


def test_the_log_is_not_flooded(caplog: pytest.LogCaptureFixture) -> None:
    now_s = 100.0
    cut_offs = CutOffs(lambda: "here", lambda: now_s)
    for number in range(50):
        cut_offs.say(logging.WARNING, f"10.0.0.{number}:1", "noise")
    assert len(lines(caplog)) == strangers.LINES_A_MINUTE
    assert repr(cut_offs) == "CutOffs(here, 20 lines this minute, 30 left out)"
    now_s += 60
    cut_offs.say(logging.WARNING, "10.0.0.99:1", "noise")
    assert lines(caplog)[-1] == (
        "here cut off a connection from 10.0.0.99:1: noise (and 30 more before, which were not written down)"
    )


@pytest.mark.usefixtures("nothing_left")
def test_a_frame_that_comes_a_byte_at_a_time_is_cut_off() -> None:
    """Each byte is a sign of life, so the limit of silence never passes."""
    inbox = Inbox()
    with (
        serving(inbox, slots=1, settings=IMPATIENT) as server,
        RawPeer(server.endpoint, Purpose.CONTROL, Party(0, 1)) as slow,
    ):
        slow.write(*SlotHello(0, 1, 0, "host").to_message().pack())
        inbox.next(SlotJoined)
        slow.write(HEADER.pack(MAGIC, VERSION, FrameKind.CONTROL, 0, 0, 1 << 10))
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < 1 << 10 and slow.read() is not None:  # its heartbeats are our clock: 20 ms each
                slow.write(b"x")
                sent += 1
        left = inbox.next(SlotLeft)
        assert not left.clean
        assert left.reason == "a frame of 1040 bytes has not arrived within 316 ms"
        assert sent < 1 << 10


def all_of_them(port: tuple[Endpoint, Purpose]) -> None:
    """Every kind of stranger, while others hold all the handshakes there are."""
    endpoint, purpose = port
    with contextlib.ExitStack() as stack:
        for _ in range(MAX_HANDSHAKES + 5):
            stack.enter_context(dialled(endpoint))
        for come, _ in STRANGERS.values():
            come(endpoint, purpose)
        with pytest.raises(AuthenticationError, match="does not hold this job's secret"):
            dial([endpoint], OTHER_SECRET, purpose, Party(0, 1), DRIVER, settings=SETTINGS)


@pytest.mark.usefixtures("nothing_left")
def test_a_job_is_unharmed_by_strangers_on_all_its_ports(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = DriverSettings(wire=WireSettings(handshake_timeout_ms=400))
    slowly = totals_job(tmp_path, generator(rows_per_second=1_000))
    with SparkJob(slowly, launch=ThreadGang, settings=settings) as job:
        job.start()
        await_checkpoint(job, 1)
        planes = [slot._plane for slot in ThreadGang.current.slots]
        ports = [(job._driver.slots.server.endpoint, Purpose.CONTROL)]
        ports += [(plane.endpoints[-1], Purpose.DATA) for plane in planes]
        with ThreadPoolExecutor(len(ports)) as pool:
            list(pool.map(all_of_them, ports))
        savepoint = job.stop(tmp_path / "savepoints")
    with SparkJob(totals_job(tmp_path), launch=ThreadGang, restore_path=savepoint) as rest:
        rest.start()
        assert rest.wait() == "FINISHED"
    check_output(tmp_path)
    assert len(job.look.stages) == 1
    said = lines(caplog)
    for place in ("driver (deployment 1)", "slot 0 (deployment 1)", "slot 1 (deployment 1)"):
        assert any(line.startswith(f"{place} at tcp://127.0.0.1:") for line in said)

"""Authentication: the peers that are accepted, the ones that are rejected, and what each side learns of it."""

from __future__ import annotations

import socket
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.hosts.spark.wire.auth import (
    DRIVER,
    AuthenticationError,
    FencedError,
    Party,
    Purpose,
    Verdict,
    admit,
    authenticate,
    new_secret,
)
from kit.hosts.spark.wire.endpoint import Listener, dial
from kit.hosts.spark.wire.stream import Endpoint, Stream
from tests.hosts.spark.sockets import IMPATIENT, OTHER_SECRET, SECRET, SETTINGS, Inbox, deadline

pytestmark = pytest.mark.usefixtures("nothing_left")

HERE = Endpoint("test", 1)
DIALLER = Party(3, 7)
LISTENER = Party(DRIVER, 7)


class Tape(Stream):
    """A stream that remembers what was sent."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock, HERE)
        self.sent = b""

    def send_buffers(self, buffers: Any) -> None:
        self.sent += b"".join(buffers)
        super().send_buffers(buffers)


@pytest.fixture
def pair() -> Iterator[tuple[Tape, Tape]]:
    left, right = (Tape(sock) for sock in socket.socketpair())
    yield left, right
    left.close()
    right.close()


def welcome(_: Party) -> Verdict:
    return Verdict.WELCOME


def in_background(call: Callable[[], Any]) -> Callable[[], Any]:
    """Runs the call on a thread; the function returned gives its result or raises its error."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(call())
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()

    def result() -> Any:
        thread.join()
        if isinstance(outcome[0], Exception):
            raise outcome[0]
        return outcome[0]

    return result


def listen_on(
    stream: Stream,
    secret: bytes = SECRET,
    me: Party = LISTENER,
    judge: Any = welcome,
    purpose: Purpose = Purpose.CONTROL,
) -> Callable[[], Any]:
    def run() -> Party:
        try:
            return admit(stream, secret, purpose, me, judge, deadline=deadline())
        finally:
            stream.shutdown()

    return in_background(run)


def dial_on(stream: Stream, secret: bytes = SECRET, me: Party = DIALLER, slot: int = DRIVER) -> Party:
    return authenticate(stream, secret, Purpose.CONTROL, me, slot, deadline=deadline())


def test_both_ends_learn_who_the_other_is(pair: tuple[Tape, Tape]) -> None:
    listening = listen_on(pair[1])
    assert dial_on(pair[0]) == LISTENER
    assert listening() == DIALLER
    assert (str(DIALLER), str(LISTENER)) == ("slot 3 (deployment 7)", "driver (deployment 7)")


def test_the_dialling_end_learns_of_a_wrong_secret(pair: tuple[Tape, Tape]) -> None:
    listening = listen_on(pair[1], secret=OTHER_SECRET)
    with pytest.raises(AuthenticationError, match=r"tcp://test:1 does not hold this job's secret"):
        dial_on(pair[0])
    pair[0].close()
    with pytest.raises(AuthenticationError, match="proves nothing: the other end closed the connection after 0 of 32"):
        listening()


def test_the_listening_end_refuses_a_wrong_proof(pair: tuple[Tape, Tape]) -> None:
    """A dialling end that does not care whether the listener proves itself."""
    listening = listen_on(pair[1])
    hello = struct.pack("!4sBBxxiQ32s", b"CKIT", 1, Purpose.CONTROL, 3, 7, bytes(32))
    pair[0].send_buffers([hello])
    pair[0].receive_exactly(len(hello) + 32, deadline())
    pair[0].send_buffers([bytes(32)])
    with pytest.raises(EOFError):
        pair[0].receive_exactly(1, deadline())
    with pytest.raises(AuthenticationError, match=r"claims to be slot 3 \(deployment 7\) and does not prove it"):
        listening()


def test_an_end_that_closes_is_named(pair: tuple[Tape, Tape]) -> None:
    pair[1].shutdown()
    with pytest.raises(AuthenticationError, match="tcp://test:1 closed the connection during authentication"):
        dial_on(pair[0])


def test_a_replayed_handshake_is_refused(pair: tuple[Tape, Tape]) -> None:
    listening = listen_on(pair[1])
    dial_on(pair[0])
    assert listening() == DIALLER
    recorded = pair[0].sent
    left, right = (Tape(sock) for sock in socket.socketpair())
    listening = listen_on(right)
    left.send_buffers([recorded])
    with pytest.raises(AuthenticationError, match="or repeats what it has overheard"):
        listening()
    assert right.sent != pair[1].sent
    left.close()
    right.close()


def test_a_reflected_proof_is_refused(pair: tuple[Tape, Tape]) -> None:
    """The attacker has no secret: it replays the listener's own messages."""
    listening = listen_on(pair[1])
    hello = struct.pack("!4sBBxxiQ32s", b"CKIT", 1, Purpose.CONTROL, DRIVER, 7, bytes(32))
    pair[0].send_buffers([hello])
    answer = pair[0].receive_exactly(len(hello) + 32, deadline())
    pair[0].send_buffers([answer[-32:]])
    with pytest.raises(AuthenticationError, match="does not prove it"):
        listening()


@pytest.mark.parametrize("offset", [8, 12, 19, 20, 51])
def test_slot_deployment_and_nonce_cannot_be_altered_on_the_way(offset: int) -> None:
    """A man in the middle flips one bit of the hello."""
    (left, middle_left), (middle_right, right) = socket.socketpair(), socket.socketpair()
    streams = [Tape(sock) for sock in (left, middle_left, middle_right, right)]
    listening = listen_on(streams[3])
    dialling = in_background(lambda: dial_on(streams[0]))
    hello = bytearray(streams[1].receive_exactly(52, deadline()))
    hello[offset] ^= 1
    streams[2].send_buffers([bytes(hello)])
    streams[1].send_buffers([streams[2].receive_exactly(84, deadline())])
    with pytest.raises(AuthenticationError):
        dialling()
    streams[0].shutdown()
    streams[2].shutdown()
    with pytest.raises(AuthenticationError, match="proves nothing"):
        listening()
    for stream in streams:
        stream.close()


def test_a_listener_of_another_slot_is_refused(pair: tuple[Tape, Tape]) -> None:
    """A port may be reused by another slot of the same job."""
    listen_on(pair[1], me=Party(5, 7))
    with pytest.raises(AuthenticationError, match=r"is slot 5 \(deployment 7\), expected slot 4 \(deployment 7\)"):
        dial_on(pair[0], slot=4)


def test_another_purpose_is_not_answered(pair: tuple[Tape, Tape]) -> None:
    listening = listen_on(pair[1], purpose=Purpose.DATA)
    with pytest.raises(AuthenticationError):
        dial_on(pair[0])
    with pytest.raises(AuthenticationError, match=r"comes for purpose 1, expected 2 \(data\)"):
        listening()
    assert pair[1].sent == b""


@pytest.mark.parametrize(
    ("verdict", "message", "rejected"),
    [
        (Verdict.FENCED, r"it is driver \(deployment 8\); leave", "comes too late or too early"),
        (Verdict.TAKEN, r"that slot is already connected to driver \(deployment 8\)", "comes twice"),
        (Verdict.UNKNOWN, r"driver \(deployment 8\) has no slot of that number", "is no slot of this deployment"),
    ],
)
def test_a_refusal_says_why(pair: tuple[Tape, Tape], verdict: Verdict, message: str, rejected: str) -> None:
    listening = listen_on(pair[1], me=Party(DRIVER, 8), judge=lambda _: verdict)
    with pytest.raises(FencedError, match=rf"refused slot 3 \(deployment 7\): {message}"):
        dial_on(pair[0])
    with pytest.raises(FencedError, match=rf"slot 3 \(deployment 7\) {rejected}: this is driver \(deployment 8\)"):
        listening()


def test_a_forged_verdict_is_refused(pair: tuple[Tape, Tape]) -> None:
    class Forger(Tape):
        def send_buffers(self, buffers: Any) -> None:
            data = b"".join(buffers)
            super().send_buffers([bytes([Verdict.WELCOME]) + data[1:]] if len(data) == 33 else buffers)

    left, right = socket.socketpair()
    dialler, forger = Tape(left), Forger(right)
    listen_on(forger, judge=lambda _: Verdict.FENCED)
    with pytest.raises(AuthenticationError, match="forged"):
        dial_on(dialler)
    dialler.close()
    forger.close()


def test_a_secret_must_be_long() -> None:
    assert len(new_secret()) == 32
    assert new_secret() != new_secret()
    with pytest.raises(ValueError, match="a secret of 4 bytes, expected 32 or more"):
        Listener(b"1234", Purpose.CONTROL, lambda: LISTENER, welcome, lambda *_: None, settings=SETTINGS)


# ---- the listener ----------------------------------------------------------------------------------------------------


@pytest.fixture
def accepted() -> Inbox:
    return Inbox()


@pytest.fixture
def listener(accepted: Inbox) -> Iterator[Listener]:
    def accept(stream: Stream, party: Party) -> None:
        accepted.put(party)
        stream.close()

    listening = Listener(SECRET, Purpose.CONTROL, lambda: LISTENER, welcome, accept, directory="", settings=IMPATIENT)
    yield listening
    listening.close()


def dial_listener(listener: Listener, secret: bytes = SECRET) -> None:
    dial(listener.endpoints, secret, Purpose.CONTROL, DIALLER, DRIVER, settings=SETTINGS).close()


def test_a_listener_goes_on_after_strangers(listener: Listener, accepted: Inbox) -> None:
    for endpoint in listener.endpoints:
        with pytest.raises(AuthenticationError, match=str(endpoint)):
            dial([endpoint], OTHER_SECRET, Purpose.CONTROL, DIALLER, DRIVER, settings=SETTINGS)
    with socket.create_connection(("127.0.0.1", listener.endpoints[1].port)) as noise:
        noise.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: somebody"[:52])
        assert noise.recv(1) == b""
    dial_listener(listener)
    assert accepted.next() == DIALLER


def test_a_silent_stranger_delays_nobody_and_is_dropped(listener: Listener, accepted: Inbox) -> None:
    with socket.create_connection(("127.0.0.1", listener.endpoints[1].port)) as silent:
        dial_listener(listener)
        assert accepted.next() == DIALLER
        assert silent.recv(1) == b""


def test_a_listener_prefers_a_private_unix_socket(listener: Listener, accepted: Inbox) -> None:
    unix, tcp = listener.endpoints
    assert str(unix).startswith("unix:/")
    assert str(tcp).startswith("tcp://127.0.0.1:")
    # Another host does not find the path, and dials TCP.
    elsewhere = [Endpoint(path=unix.path + "-elsewhere"), tcp]
    dial(elsewhere, SECRET, Purpose.CONTROL, DIALLER, DRIVER, settings=SETTINGS).close()
    assert accepted.next() == DIALLER


def test_a_path_too_long_for_a_unix_socket_leaves_tcp() -> None:
    directory = Path(tempfile.gettempdir(), "long" * 30)
    directory.mkdir()
    listening = Listener(
        SECRET, Purpose.CONTROL, lambda: LISTENER, welcome, lambda *_: None, directory=str(directory), settings=SETTINGS
    )
    assert [str(endpoint)[:4] for endpoint in listening.endpoints] == ["tcp:"]
    listening.close()
    directory.rmdir()  # which must be empty


def test_nobody_at_the_endpoint(listener: Listener) -> None:
    listener.close()
    with pytest.raises(
        ConnectionError, match=r"slot 3 \(deployment 7\) cannot reach driver \(deployment 7\) \(unix:.*; tcp://127"
    ):
        dial_listener(listener)


@pytest.mark.parametrize("text", ["tcp://127.0.0.1:80", "tcp://[::1]:80", "tcp://a.b.c:1", "unix:/tmp/a b"])
def test_endpoints_have_a_text_form(text: str) -> None:
    assert str(Endpoint.parse(text)) == text
    assert repr(Endpoint.parse(text)) == f"Endpoint({text!r})"


@pytest.mark.parametrize("text", ["", "127.0.0.1:80", "tcp://:80", "tcp://a", "tcp://a:b", "unix:relative"])
def test_other_text_is_no_endpoint(text: str) -> None:
    with pytest.raises(ValueError, match="an endpoint looks like"):
        Endpoint.parse(text)

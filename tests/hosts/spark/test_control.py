"""The driver's server and the slots' clients: joining, fencing, silence and leaving."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator

import pytest

from kit.hosts.spark.wire.auth import AuthenticationError, FencedError, Party, Purpose, Verdict
from kit.hosts.spark.wire.control import (
    ControlClient,
    ControlServer,
    DriverLeft,
    DriverMessage,
    SlotHello,
    SlotJoined,
    SlotLeft,
    SlotMessage,
)
from kit.hosts.spark.wire.stream import Endpoint
from kit.hosts.spark.wire.wire import ControlMessage, FrameKind, WireError, pack_frame
from tests.hosts.spark.sockets import IMPATIENT, OTHER_SECRET, SECRET, SETTINGS, Inbox, RawPeer, serving

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture
def server(inbox: Inbox) -> Iterator[ControlServer]:
    with serving(inbox, slots=3, settings=SETTINGS) as listening:
        yield listening


def join(server: ControlServer, slot: int, deployment: int = 1) -> tuple[ControlClient, Inbox]:
    inbox = Inbox()
    return ControlClient(server.endpoint, SECRET, slot, deployment, inbox), inbox


def test_a_slot_joins_and_both_sides_talk(server: ControlServer, inbox: Inbox) -> None:
    data = [Endpoint(path="/somewhere/s"), Endpoint("127.0.0.1", 5)]
    slot_inbox = Inbox()
    with ControlClient(server.endpoint, SECRET, 2, 1, slot_inbox, data_endpoints=data) as client:
        assert inbox.next() == SlotJoined(2, 1, SlotHello(2, 1, os.getpid(), socket.gethostname(), data))
        message = ControlMessage("ack", {"checkpoint": 1}, [b"state"])
        assert client.send(message)
        assert inbox.next() == SlotMessage(2, 1, message)
        assert server.send(2, message)
        assert slot_inbox.next() == DriverMessage(message)
        assert repr(server) == f"ControlServer({server.endpoint}, deployment=1, slots=[2])"
        assert repr(client) == f"ControlClient(slot=2, deployment=1, {server.endpoint})"


def test_messages_keep_their_order_whatever_their_size(server: ControlServer, inbox: Inbox) -> None:
    client, slot_inbox = join(server, 0)
    with client:
        inbox.next(SlotJoined)
        for number in range(200):
            server.send(0, ControlMessage("number", {"number": number}, [bytes((number % 7) * 30_000)]))
        assert [slot_inbox.next().message.fields["number"] for _ in range(200)] == list(range(200))


def test_broadcast_reaches_every_slot(server: ControlServer, inbox: Inbox) -> None:
    clients = [join(server, slot) for slot in range(3)]
    joined = {inbox.next(SlotJoined).slot for _ in clients}
    assert joined == {0, 1, 2}
    assert server.broadcast(ControlMessage("go")) == [0, 1, 2]
    for client, slot_inbox in clients:
        assert slot_inbox.next() == DriverMessage(ControlMessage("go"))
        client.close()


def test_a_message_to_nobody_is_not_sent(server: ControlServer) -> None:
    assert not server.send(9, ControlMessage("go"))


def test_a_message_that_is_not_json_fails_where_it_is_sent(server: ControlServer, inbox: Inbox) -> None:
    client, _ = join(server, 0)
    with client:
        inbox.next(SlotJoined)
        with pytest.raises(TypeError):
            client.send(ControlMessage("ack", {"handle": object()}))
        assert client.send(ControlMessage("ack"))
        assert inbox.next() == SlotMessage(0, 1, ControlMessage("ack"))


def test_a_slot_that_ends_is_told_from_one_that_dies(server: ControlServer, inbox: Inbox) -> None:
    client, _ = join(server, 0)
    inbox.next(SlotJoined)
    client.send(ControlMessage("finished"))
    client.close()
    assert inbox.next(SlotMessage).message.kind == "finished"
    assert inbox.next() == SlotLeft(0, 1, True, "ended")

    hello = SlotHello(1, 1, 0, "host").to_message()
    with RawPeer(server.endpoint, Purpose.CONTROL, Party(1, 1)) as dying:
        dying.write(*hello.pack())
        inbox.next(SlotJoined)
    left = inbox.next(SlotLeft)
    assert (left.slot, left.clean) == (1, False)
    assert left.reason == "closed the connection without END: its process died or was stopped"
    assert server.slots() == []


def test_a_slot_notices_that_the_driver_has_closed(inbox: Inbox) -> None:
    for _ in range(20):  # the slot may still be on the handshake's thread, or past it
        server = serving(inbox, slots=1)
        client, slot_inbox = join(server, 0)
        inbox.next(SlotJoined)
        server.close()
        assert slot_inbox.next() == DriverMessage(ControlMessage("leave", {"for_good": True}))
        assert slot_inbox.next() == DriverLeft(True, "ended")
        client.close()


def test_every_slot_notices_that_the_driver_has_closed(inbox: Inbox) -> None:
    server = serving(inbox, slots=3)
    joined = [join(server, slot) for slot in range(3)]
    for _ in joined:
        inbox.next(SlotJoined)
    server.close()
    for client, slot_inbox in joined:
        assert slot_inbox.next() == DriverMessage(ControlMessage("leave", {"for_good": True}))
        assert slot_inbox.next() == DriverLeft(True, "ended")
        client.close()


def test_a_slot_of_a_deployment_that_ends_is_told_to_leave(server: ControlServer, inbox: Inbox) -> None:
    client, slot_inbox = join(server, 0)
    inbox.next(SlotJoined)
    server.fence(1)
    assert slot_inbox.next() == DriverMessage(ControlMessage("leave", {"for_good": False}))
    assert slot_inbox.next(DriverLeft).clean
    assert not server.send(0, ControlMessage("go"))
    # What it still says carries its deployment, beside its successor's.
    client.send(ControlMessage("ack"))
    assert inbox.next() == SlotMessage(0, 1, ControlMessage("ack"))
    with pytest.raises(FencedError, match="the job continues in another deployment"):
        join(server, 0, deployment=2)
    server.admit(2, [0])
    successor, _ = join(server, 0, deployment=2)
    assert inbox.next(SlotJoined).deployment == 2
    client.close()
    assert inbox.next() == SlotLeft(0, 1, True, "ended")
    assert server.slots() == [0]
    successor.close()


@pytest.mark.parametrize("deployment", [1, 3])
def test_a_slot_of_another_deployment_is_refused(server: ControlServer, deployment: int) -> None:
    server.fence(1)
    server.admit(2, [0])
    said = rf"refused slot 0 \(deployment {deployment}\): it is driver \(deployment 2\)"
    with pytest.raises(FencedError, match=f"{server.endpoint} {said}"):
        join(server, 0, deployment=deployment)


def test_a_deployment_ends_beside_others(server: ControlServer, inbox: Inbox) -> None:
    server.admit(2, [3, 4])
    server.admit(3, [5])
    others = {slot: join(server, slot, deployment) for slot, deployment in ((0, 1), (3, 2), (5, 3))}
    for _ in others:
        inbox.next(SlotJoined)
    server.fence(2)
    assert others[3][1].next() == DriverMessage(ControlMessage("leave", {"for_good": False}))
    assert server.slots() == [0, 5]
    with pytest.raises(FencedError, match="the job continues in another deployment"):
        join(server, 4, deployment=2)
    for slot in (0, 5):
        assert server.send(slot, ControlMessage("go"))
        assert others[slot][1].next() == DriverMessage(ControlMessage("go"))
    late, _ = join(server, 1)  # of the first deployment, which is older and goes on
    assert inbox.next(SlotJoined).slot == 1
    for client in (late, *(client for client, _ in others.values())):
        client.close()


def _between_verdict_and_welcome(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Do something once, after the server has found a slot welcome and before it takes it in."""
    judge, acts = ControlServer._judge, [act]

    def judge_and_act(server: ControlServer, party: Party) -> Verdict:
        verdict = judge(server, party)
        if acts:
            acts.pop()()
        return verdict

    monkeypatch.setattr(ControlServer, "_judge", judge_and_act)


def test_a_deployment_that_ends_during_a_handshake_does_not_take_the_slot_in(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    _between_verdict_and_welcome(monkeypatch, lambda: server.fence(1))
    with serving(inbox, slots=3, settings=SETTINGS) as server:
        late, late_inbox = join(server, 0)
        assert not late_inbox.next(DriverLeft).clean
        assert server.slots() == []
        server.admit(2, [0])
        successor, _ = join(server, 0, deployment=2)
        assert inbox.next() == SlotJoined(0, 2, SlotHello(0, 2, os.getpid(), socket.gethostname(), []))
        assert inbox.empty()
        successor.close()
        late.close()


def test_a_twin_that_comes_first_during_a_handshake_keeps_the_slot(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    twins: list[ControlClient] = []

    def come_first() -> None:
        twins.append(join(server, 0)[0])
        inbox.next(SlotJoined)

    _between_verdict_and_welcome(monkeypatch, come_first)
    with serving(inbox, slots=3, settings=SETTINGS) as server:
        late, late_inbox = join(server, 0)
        assert not late_inbox.next(DriverLeft).clean
        (first,) = twins
        assert first.send(ControlMessage("ack"))
        assert inbox.next() == SlotMessage(0, 1, ControlMessage("ack"))
        assert inbox.empty()
        first.close()
        late.close()


def test_the_numbers_of_deployments_only_grow(server: ControlServer) -> None:
    with pytest.raises(ValueError, match="deployment 1 does not come after deployment 1"):
        server.admit(1, [0])


def test_two_processes_cannot_be_the_same_slot(server: ControlServer, inbox: Inbox) -> None:
    client, _ = join(server, 0)
    with client:
        inbox.next(SlotJoined)
        with pytest.raises(FencedError, match="already connected"):
            join(server, 0)
        assert client.send(ControlMessage("ack"))
        assert inbox.next() == SlotMessage(0, 1, ControlMessage("ack"))


@pytest.mark.parametrize("slot", [2, 9, 2**31 - 1, -1, -7])
def test_a_slot_that_the_deployment_does_not_have_is_refused(inbox: Inbox, slot: int) -> None:
    """Even if it holds the secret; the others are not affected, and a wider deployment has more slots."""
    with serving(inbox, slots=2, settings=SETTINGS) as server:
        last, _ = join(server, 1)
        inbox.next(SlotJoined)
        with pytest.raises(FencedError, match=r"refused .*: driver \(deployment 1\) has no slot of that number"):
            join(server, slot)
        assert server.slots() == [1]
        assert inbox.empty()
        server.fence(1)
        server.admit(2, range(3))
        if slot == 2:
            wider, _ = join(server, slot, deployment=2)
            assert inbox.next(SlotJoined).slot == slot
            wider.close()
        last.close()


def test_a_wrong_secret_disturbs_nobody(server: ControlServer, inbox: Inbox) -> None:
    client, _ = join(server, 0)
    with client:
        inbox.next(SlotJoined)
        with pytest.raises(AuthenticationError, match=str(server.endpoint)):
            ControlClient(server.endpoint, OTHER_SECRET, 1, 1, Inbox())
        assert client.send(ControlMessage("ack"))
        assert inbox.next() == SlotMessage(0, 1, ControlMessage("ack"))


def test_a_silent_slot_is_lost(inbox: Inbox) -> None:
    with (
        serving(inbox, slots=3, settings=IMPATIENT) as server,
        RawPeer(server.endpoint, Purpose.CONTROL, Party(0, 1)) as frozen,
    ):
        frozen.write(*SlotHello(0, 1, 0, "host").to_message().pack())
        inbox.next(SlotJoined)
        left = inbox.next(SlotLeft)
        assert not left.clean
        assert left.reason.startswith("no heartbeat for ")
        assert "(limit 300 ms)" in left.reason


def test_an_idle_connection_lives_by_its_heartbeats(inbox: Inbox) -> None:
    with (
        serving(inbox, slots=3, settings=IMPATIENT) as server,
        RawPeer(server.endpoint, Purpose.CONTROL, Party(0, 1)) as peer,
    ):
        peer.write(*SlotHello(0, 1, 0, "host").to_message().pack())
        inbox.next(SlotJoined)
        for _ in range(30):  # at 20 ms each, twice the limit
            frame = peer.read()
            assert frame is not None
            assert frame.kind is FrameKind.HEARTBEAT
            peer.write(*pack_frame(FrameKind.HEARTBEAT))
        assert server.slots() == [0]
        assert inbox.empty()


@pytest.mark.parametrize(
    ("buffers", "reason"),
    [
        ([b"nonsense" * 2], "not one of our slots"),
        (pack_frame(FrameKind.EVENT, [b""]), "a EVENT frame on a control connection"),
        (pack_frame(FrameKind.CONTROL, [b"x"]), "a control message of 1 bytes"),
        ([*pack_frame(FrameKind.END), *pack_frame(FrameKind.HEARTBEAT)], "a frame came after END"),
    ],
)
def test_a_slot_that_breaks_the_protocol_is_dropped(
    server: ControlServer, inbox: Inbox, buffers: list[bytes], reason: str
) -> None:
    with RawPeer(server.endpoint, Purpose.CONTROL, Party(0, 1)) as peer:
        peer.write(*SlotHello(0, 1, 0, "host").to_message().pack())
        inbox.next(SlotJoined)
        peer.write(*buffers)
        left = inbox.next(SlotLeft)
        assert not left.clean
        assert reason in left.reason


@pytest.mark.parametrize(
    "hello",
    [
        SlotHello(1, 1, 0, "host").to_message(),
        SlotHello(0, 2, 0, "host").to_message(),
        ControlMessage("ack"),
        ControlMessage("hello", {"slot": 0}),
    ],
)
def test_a_slot_is_joined_only_by_its_own_hello(server: ControlServer, inbox: Inbox, hello: ControlMessage) -> None:
    with RawPeer(server.endpoint, Purpose.CONTROL, Party(0, 1)) as peer:
        peer.write(*hello.pack())
        while peer.read() is not None:
            pass
    assert server.slots() == []
    assert inbox.empty()


def test_a_hello_with_a_bad_endpoint_is_refused() -> None:
    fields = SlotHello(0, 1, 0, "host").to_message().fields | {"endpoints": ["nowhere"]}
    with pytest.raises(WireError, match="a hello with a bad endpoint: an endpoint looks like"):
        SlotHello.from_message(ControlMessage("hello", fields))

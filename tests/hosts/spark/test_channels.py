"""The data plane: order, credits, and the loss of a peer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import permutations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kit.hosts.spark.wire.auth import AuthenticationError, FencedError, Party, Purpose
from kit.hosts.spark.wire.channels import (
    CreditArrived,
    DataPlane,
    ElementArrived,
    PeerEnded,
    PeerLost,
    Route,
)
from kit.hosts.spark.wire.endpoint import WireSettings
from kit.hosts.spark.wire.wire import Frame, FrameKind, pack_frame
from tests.hosts.spark.sockets import IMPATIENT, OTHER_SECRET, SECRET, SETTINGS, Inbox, RawPeer

pytestmark = pytest.mark.usefixtures("nothing_left")

FORTH, BACK, SECOND = 1, 2, 3
LARGE = pa.record_batch({"value": np.arange(2_000_000)})
"""More than a socket takes."""
ROUTES = [Route(FORTH, 0, 1), Route(BACK, 1, 0), Route(SECOND, 0, 1)]


@contextlib.contextmanager
def connected(count: int = 2, routes: list[Route] = ROUTES, **options: Any) -> Iterator[list[DataPlane]]:
    """Data planes of `count` slots, all connected."""
    with contextlib.ExitStack() as stack:
        planes = [stack.enter_context(DataPlane(slot, 1, SECRET, Inbox(), **options)) for slot in range(count)]
        endpoints = {plane.slot: plane.endpoints for plane in planes}
        for plane in planes:
            plane.connect(endpoints, routes)
        yield planes


def inbox_of(plane: DataPlane) -> Inbox:
    assert isinstance(plane.inbox, Inbox)
    return plane.inbox


def batch_of(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array(values, pa.int64())})


def arrivals(plane: DataPlane, count: int) -> list[ElementArrived]:
    return [inbox_of(plane).next(ElementArrived) for _ in range(count)]


@pytest.mark.parametrize("directory", ["", None], ids=["unix", "tcp"])
def test_elements_arrive_in_order(directory: str | None) -> None:
    with connected(directory=directory) as (sender, receiver):
        sent: list[Any] = []
        for number in range(100):
            sent.append(batch_of(*range(number * 50)))  # some small enough to be written directly, some not
            sent.append(b"watermark %d" % number)
        for element in sent:
            sender.send(FORTH, element)
        assert arrivals(receiver, 200) == [ElementArrived(FORTH, element) for element in sent]


def test_channels_of_one_pair_keep_their_own_order() -> None:
    with connected() as (sender, receiver):
        for number in range(100):
            sender.send(FORTH if number % 3 else SECOND, batch_of(*[number] * 20_000))
        arrived = arrivals(receiver, 100)
        for channel, numbers in ((FORTH, [n for n in range(100) if n % 3]), (SECOND, list(range(0, 100, 3)))):
            assert [item.element[0][0].as_py() for item in arrived if item.channel == channel] == numbers


def test_both_directions_share_a_connection() -> None:
    with connected() as (first, second):
        first.send(FORTH, b"there")
        second.send(BACK, b"back")
        assert arrivals(second, 1) == [ElementArrived(FORTH, b"there")]
        assert arrivals(first, 1) == [ElementArrived(BACK, b"back")]


def test_credits_go_to_the_sender() -> None:
    with connected() as (sender, receiver):
        receiver.grant(FORTH, 4)
        receiver.grant(SECOND, 1)
        sender.grant(BACK, 2, 200)
        assert [inbox_of(sender).next() for _ in range(2)] == [CreditArrived(FORTH, 4), CreditArrived(SECOND, 1)]
        assert inbox_of(receiver).next() == CreditArrived(BACK, 2, 200)


def test_credits_do_not_wait_behind_data() -> None:
    """The peer reads nothing while a batch too large for the socket is written and another is queued."""
    with one_plane_and_a_raw_peer() as (plane, peer):
        for _ in range(3):
            plane.send(FORTH, LARGE)
        plane.grant(BACK, 5)
        kinds = [frame.kind for frame in data_frames(peer, 4)]
        assert kinds.index(FrameKind.CREDIT) <= 1  # at most the batch under way is before it
        assert kinds.count(FrameKind.BATCH) == 3


def test_every_pair_of_three_slots_connects() -> None:
    routes = [Route(10 * producer + consumer, producer, consumer) for producer, consumer in permutations(range(3), 2)]
    with connected(3, routes) as planes:
        for route in routes:
            planes[route.producer].send(route.channel, b"%d" % route.channel)
        for plane in planes:
            arrived = {item.channel: item.element for item in arrivals(plane, 2)}
            assert arrived == {route.channel: b"%d" % route.channel for route in routes if route.consumer == plane.slot}
        assert repr(planes[1]) == "DataPlane(slot=1, deployment=1, peers=[0, 2])"


@contextlib.contextmanager
def one_plane_and_a_raw_peer(settings: WireSettings = SETTINGS) -> Iterator[tuple[DataPlane, RawPeer]]:
    """Slot 1's plane, and slot 0 as a peer that reads only when told to. FORTH and SECOND lead to the peer."""
    routes = [Route(FORTH, 1, 0), Route(SECOND, 1, 0), Route(BACK, 0, 1)]
    with (
        DataPlane(1, 1, SECRET, Inbox(), settings=settings) as plane,
        RawPeer(plane.endpoints[0], Purpose.DATA, Party(0, 1), expected_slot=1) as peer,
    ):
        plane.connect({}, routes)
        yield plane, peer


def data_frames(peer: RawPeer, count: int) -> list[Frame]:
    """The next `count` frames besides heartbeats and schemas."""
    frames: list[Frame] = []
    while len(frames) < count:
        frame = peer.read()
        assert frame is not None
        if frame.kind not in (FrameKind.HEARTBEAT, FrameKind.SCHEMA):
            frames.append(frame)
    return frames


def test_a_channel_that_is_not_ours_cannot_be_used() -> None:
    with connected() as (first, second):
        with pytest.raises(KeyError):
            second.send(FORTH, b"wrong way")
        with pytest.raises(KeyError):
            first.grant(FORTH, 1)
        with pytest.raises(KeyError):
            first.send(99, b"nowhere")


# ---- ends ------------------------------------------------------------------------------------------------------------


def test_an_end_flushes_everything_before_it() -> None:
    with connected() as (first, second):
        batch = pa.record_batch({"value": np.arange(500_000)})
        for _ in range(20):
            first.send(FORTH, batch)
        assert not first.end(timeout_s=0)  # the peer has not ended yet
        assert [item.element.num_rows for item in arrivals(second, 20)] == [500_000] * 20
        assert inbox_of(second).next() == PeerEnded(0)
        # The other direction still works.
        second.send(BACK, b"last")
        assert arrivals(first, 1) == [ElementArrived(BACK, b"last")]
        assert second.end()
        assert first.end()
        assert inbox_of(first).next() == PeerEnded(1)


def test_a_dead_peer_is_reported_and_sending_to_it_does_nothing() -> None:
    with one_plane_and_a_raw_peer() as (plane, peer):
        peer.write(*pack_frame(FrameKind.EVENT, [b"last words"], BACK))
        peer.close()
        assert arrivals(plane, 1) == [ElementArrived(BACK, b"last words")]
        assert inbox_of(plane).next() == PeerLost(
            0, "closed the connection without END: its process died or was stopped"
        )
        plane.send(FORTH, batch_of(1))
        plane.grant(BACK, 1)
        plane.send(FORTH, b"barrier")


def test_a_silent_peer_is_lost() -> None:
    with one_plane_and_a_raw_peer(IMPATIENT) as (plane, _):
        lost = inbox_of(plane).next(PeerLost)
        assert (lost.slot, lost.reason.startswith("no heartbeat for")) == (0, True)


def test_a_peer_that_takes_nothing_is_lost_though_it_sends_heartbeats() -> None:
    with one_plane_and_a_raw_peer(IMPATIENT) as (plane, peer):
        plane.send(FORTH, LARGE)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while inbox_of(plane).empty():
                peer.write(*pack_frame(FrameKind.HEARTBEAT))
        assert inbox_of(plane).next() == PeerLost(0, f"{plane.endpoints[-1]} takes nothing in time")


@pytest.mark.parametrize(
    ("buffers", "reason"),
    [
        (pack_frame(FrameKind.EVENT, [b"x"], FORTH), "slot 0 used channel 1, which does not lead from it to slot 1"),
        (pack_frame(FrameKind.CREDIT, [bytes(16)], BACK), "slot 0 used channel 2"),
        (pack_frame(FrameKind.EVENT, [b"x"], 77), "slot 0 used channel 77"),
        (pack_frame(FrameKind.BATCH, [b"x"], BACK), "a batch came before its schema on channel 2"),
        (pack_frame(FrameKind.SCHEMA, [b"x"], BACK), "channel 2: a SCHEMA frame is not Arrow's"),
        (pack_frame(FrameKind.CONTROL, [b"x"]), "a CONTROL frame on a data connection"),
        ([b"nonsense" * 2], "not one of our slots"),
    ],
)
def test_a_peer_that_breaks_the_protocol_is_dropped(buffers: list[Any], reason: str) -> None:
    with one_plane_and_a_raw_peer() as (plane, peer):
        peer.write(*buffers)
        assert reason in inbox_of(plane).next(PeerLost).reason


def test_a_frame_longer_than_allowed_drops_the_peer() -> None:
    with one_plane_and_a_raw_peer(WireSettings(max_frame_bytes=1000)) as (plane, peer):
        peer.write(*pack_frame(FrameKind.EVENT, [bytes(1001)], BACK))
        assert "announces 1001 bytes, more than max_frame_bytes=1000" in inbox_of(plane).next(PeerLost).reason


# ---- connecting ------------------------------------------------------------------------------------------------------


def test_a_slot_of_another_epoch_or_job_cannot_connect() -> None:
    with DataPlane(0, 1, SECRET, Inbox()) as old:
        with (
            DataPlane(1, 2, SECRET, Inbox()) as new,
            pytest.raises(FencedError, match=r"it is slot 1 \(deployment 2\); leave"),
        ):
            old.connect({1: new.endpoints}, ROUTES)
        with DataPlane(1, 1, OTHER_SECRET, Inbox()) as strange, pytest.raises(AuthenticationError, match="secret"):
            old.connect({1: strange.endpoints}, ROUTES)


def test_slots_that_do_not_come_are_named() -> None:
    routes = [Route(1, 0, 2), Route(2, 1, 2)]
    with DataPlane(2, 1, SECRET, Inbox()) as plane, pytest.raises(TimeoutError, match=r"slot 2 .* slots \[0, 1\]"):
        plane.connect({}, routes, timeout_s=0)


def test_a_slot_connects_once() -> None:
    with connected() as (_, second), pytest.raises(FencedError, match="already connected"):
        RawPeer(second.endpoints[0], Purpose.DATA, Party(0, 1), expected_slot=1)


def test_what_comes_before_connect_is_kept() -> None:
    with DataPlane(0, 1, SECRET, Inbox()) as first, DataPlane(1, 1, SECRET, Inbox()) as second:
        first.connect({1: second.endpoints}, ROUTES)
        first.send(FORTH, b"early")
        assert arrivals(second, 1) == [ElementArrived(FORTH, b"early")]
        second.connect({0: first.endpoints}, ROUTES)


def test_items_have_short_reprs() -> None:
    assert repr(ElementArrived(3, batch_of(1, 2))) == "ElementArrived(channel=3, 2 rows)"
    assert repr(ElementArrived(3, b"abc")) == "ElementArrived(channel=3, event of 3 bytes)"

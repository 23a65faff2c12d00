"""The queues at both ends of a channel, and the credits between them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.protocol.elements import (
    Buffer,
    CheckpointBarrier,
    DataElement,
    Element,
    EndOfData,
    EndOfPartition,
    Watermark,
    WatermarkStatus,
)
from kit.core.protocol.options import AlignmentType, CheckpointOptions
from kit.core.protocol.words import ProtocolError
from kit.core.state.handles import InputChannelInfo, ResultSubpartitionInfo
from kit.machines.channel.input_gate import InputGates
from kit.machines.channel.result_partition import MAX_QUEUED_BUFFERS, ResultPartition

BATCH = pa.RecordBatch.from_pydict({"n": [1, 2, 3]})


def buffer() -> Buffer:
    return Buffer(BATCH)


def gates() -> InputGates:
    return InputGates([[(4, "a/0"), (5, "a/1")], [(9, "b/0")]])


# --- inputs -----------------------------------------------------------------------------------------------------------


def test_channels_are_numbered_by_gate_and_place() -> None:
    inputs = gates()
    assert [channel.info for channel in inputs] == [
        InputChannelInfo(0, 0),
        InputChannelInfo(0, 1),
        InputChannelInfo(1, 0),
    ]
    assert inputs.channel(9).source_task == "b/0"
    assert len(inputs) == 3


def test_elements_come_out_as_they_went_in_with_their_causes() -> None:
    channel = gates().channel(4)
    channel.receive(Watermark(1), "x#1")
    channel.receive(Watermark(2), "x#2")
    assert channel.take() == (Watermark(1), "x#1")
    assert channel.take() == (Watermark(2), "x#2")


def test_every_channel_that_has_something_gets_its_turn() -> None:
    inputs = gates()
    for number in (4, 4, 4, 9):
        inputs.channel(number).receive(Watermark(number))
    taken = []
    while (channel := inputs.next_channel()) is not None:
        channel.take()
        taken.append(channel.number)
    assert taken == [4, 9, 4, 4]


def test_elements_with_priority_are_taken_from_each_channel_in_turn() -> None:
    inputs = gates()
    taken = []
    for checkpoint_id, numbers in ((1, (4,)), (2, (4, 5, 9)), (3, (9, 5)), (4, (4, 9))):
        for number in numbers:
            options = CheckpointOptions(alignment=AlignmentType.UNALIGNED)
            inputs.channel(number).receive(CheckpointBarrier(checkpoint_id, 0, options))
        for _ in numbers:
            channel = inputs.next_channel(only_priority=True)
            assert channel is not None
            channel.take()
            taken.append(channel.number)
    assert taken == [4, 5, 9, 4, 5, 9, 4, 9]
    assert inputs.next_channel() is None


def test_what_comes_behind_an_aligned_barrier_waits_for_resume() -> None:
    inputs = gates()
    channel = inputs.channel(5)
    barriers = [CheckpointBarrier(number, 0, CheckpointOptions()) for number in (1, 2)]
    elements = [Watermark(1), barriers[0], Watermark(2), barriers[1], Watermark(3)]
    for element in elements:
        channel.receive(element)
    assert channel.queue == elements
    assert channel.held == 3
    for one_alignment in (elements[:2], elements[2:4], elements[4:]):
        taken = []
        while (turn := inputs.next_channel()) is not None:
            taken.append(turn.take()[0])
        assert taken == one_alignment
        assert not inputs.available
        channel.block()
        inputs.validate()
        inputs.resume([channel])


def test_a_buffer_takes_a_credit_and_one_too_many_is_an_error() -> None:
    channel = gates().channel(4)
    channel.grant(1)
    channel.receive(buffer())
    assert channel.queued_bytes == BATCH.nbytes
    with pytest.raises(ProtocolError, match="a/0 sent a buffer on channel 4 without a credit"):
        channel.receive(buffer())


def test_ended_channels_are_open_no_more() -> None:
    inputs = gates()
    assert not inputs.all_ended
    for channel in inputs:
        channel.receive(EndOfPartition())
        assert channel in inputs.open_channels
        channel.take()
        assert channel not in inputs.open_channels
    assert inputs.all_ended
    assert InputGates([]).all_ended


# --- outputs ----------------------------------------------------------------------------------------------------------


class Wire:
    """Takes what a partition sends, and what it gives to checkpoints: (checkpoint, subpartition, data if known)."""

    def __init__(self, channels: int = 2, *, supports_unaligned: bool = True) -> None:
        self.sent: list[tuple[int, Element]] = []
        self.waiting: list[tuple[int, Element]] = []
        self.in_flight: list[tuple[int, int, Any]] = []
        self.decided: list[tuple[int, list[DataElement], str]] = []
        """The data that became known, by checkpoint, or why there is none."""
        self.partition = ResultPartition(
            0,
            [(number, f"t/{number}") for number in range(channels)],
            lambda *sent: self.sent.append(sent),
            lambda *waiting: self.waiting.append(waiting),
            self,
            supports_unaligned=supports_unaligned,
        )

    def add_output_data(
        self, checkpoint_id: int, info: ResultSubpartitionInfo, start_seq: int, buffers: Iterable[DataElement]
    ) -> None:
        self.in_flight.append((checkpoint_id, info.subpartition_idx, list(buffers)))

    def add_output_data_future(self, checkpoint_id: int, info: ResultSubpartitionInfo, start_seq: int) -> None:
        self.in_flight.append((checkpoint_id, info.subpartition_idx, None))

    def output_data_decided(
        self,
        checkpoint_id: int,
        info: ResultSubpartitionInfo,
        buffers: Iterable[DataElement],
        error: Exception | None = None,
    ) -> None:
        self.decided.append((checkpoint_id, list(buffers), str(error or "")))


def test_a_buffer_waits_for_a_credit_and_all_behind_it_wait_too() -> None:
    wire = Wire(1)
    (sub,) = wire.partition.subpartitions
    sub.add(Watermark(1))
    sub.add(buffer())
    sub.add(Watermark(2))
    assert [element for _, element in wire.sent] == [Watermark(1)]
    assert [type(element) for _, element in wire.waiting] == [Buffer, Watermark]
    sub.add_credits(1)
    assert len(wire.sent) == 3
    assert sub.credits == 0


def test_a_partition_is_writable_while_no_receiver_holds_it_back() -> None:
    wire = Wire()
    first, second = wire.partition.subpartitions
    for _ in range(MAX_QUEUED_BUFFERS):
        assert wire.partition.writable
        second.add(buffer())
    assert not wire.partition.writable
    assert first.writable
    second.add_credits(1)
    assert wire.partition.writable


def test_everybody_gets_what_is_broadcast() -> None:
    wire = Wire(3)
    wire.partition.broadcast(Watermark(7))
    assert wire.sent == [(0, Watermark(7)), (1, Watermark(7)), (2, Watermark(7))]


def test_all_is_taken_when_all_credits_are_back() -> None:
    wire = Wire(1)
    (sub,) = wire.partition.subpartitions
    assert not sub.all_taken(2), "the receiver has not given its credits yet"
    sub.add_credits(2)
    assert sub.all_taken(2)
    sub.add(buffer())
    assert not sub.all_taken(2)
    sub.add_credits(1)
    assert sub.all_taken(2)


UNALIGNED = CheckpointOptions(alignment=AlignmentType.UNALIGNED)
TIMED = CheckpointOptions(aligned_timeout_ms=100)


def barrier(checkpoint_id: int, options: CheckpointOptions) -> CheckpointBarrier:
    return CheckpointBarrier(checkpoint_id, 0, options)


def test_an_unaligned_barrier_overtakes_and_the_checkpoint_gets_what_it_overtook() -> None:
    wire = Wire(2)
    first, _ = wire.partition.subpartitions
    waiting = [buffer(), Watermark(1), WatermarkStatus(True), EndOfData(True)]
    for element in waiting:
        first.add(element)
    wire.partition.broadcast(barrier(1, UNALIGNED))
    assert wire.sent == [(0, barrier(1, UNALIGNED)), (1, barrier(1, UNALIGNED))]
    assert wire.in_flight == [(1, 0, waiting[:3])], "records and watermarks, no events, and nothing where nothing waits"
    first.add_credits(1)
    assert [element for _, element in wire.sent[2:]] == waiting


def test_where_in_flight_data_could_not_be_dealt_out_anew_barriers_stay_in_their_place() -> None:
    wire = Wire(1, supports_unaligned=False)
    wire.partition.subpartitions[0].add(buffer())
    for options in (UNALIGNED, TIMED):
        wire.partition.broadcast(barrier(1, options))
    assert wire.sent == []
    wire.partition.subpartitions[0].add_credits(1)
    assert [element.options.alignment for _, element in wire.sent[1:]] == [AlignmentType.FORCED_ALIGNED] * 2
    assert wire.in_flight == []


def timed(*before: Element) -> Wire:
    wire = Wire(1)
    (sub,) = wire.partition.subpartitions
    for element in before:
        sub.add(element)
    sub.add(barrier(1, TIMED))
    assert (wire.in_flight, wire.decided) == ([(1, 0, None)], [])
    return wire


def test_a_barrier_that_leaves_in_time_overtakes_nothing() -> None:
    wire = timed(buffer())
    (sub,) = wire.partition.subpartitions
    sub.add_credits(1)
    assert wire.decided == [(1, [], "")]
    sub.aligned_barrier_timeout(1)
    assert [type(element) for _, element in wire.sent] == [Buffer, CheckpointBarrier]


def test_a_barrier_whose_time_is_up_turns_unaligned_and_overtakes_what_is_before_it() -> None:
    before = [buffer(), Watermark(3)]
    wire = timed(*before)
    (sub,) = wire.partition.subpartitions
    sub.add(Watermark(4))
    sub.aligned_barrier_timeout(2)
    assert wire.sent == [], "of another checkpoint"
    sub.aligned_barrier_timeout(1)
    assert wire.sent == [(0, barrier(1, UNALIGNED))]
    assert wire.decided == [(1, before, "")]
    sub.add_credits(1)
    assert [element for _, element in wire.sent[1:]] == [*before, Watermark(4)]


def test_a_checkpoint_that_is_given_up_gets_nothing() -> None:
    wire = timed(buffer())
    (sub,) = wire.partition.subpartitions
    sub.abort_checkpoint(2, RuntimeError("another"))
    assert wire.decided == []
    sub.abort_checkpoint(1, RuntimeError("over"))
    assert wire.decided == [(1, [], "over")]
    sub.aligned_barrier_timeout(1)
    sub.add_credits(1)
    assert [type(element) for _, element in wire.sent] == [Buffer, CheckpointBarrier], "it goes on in its place"


def test_two_barriers_that_may_time_out_cannot_wait_at_once_and_a_release_leaves_nothing_open() -> None:
    wire = timed(buffer())
    (sub,) = wire.partition.subpartitions
    sub.add(barrier(2, TIMED))
    sub.release()
    sub.release()
    assert [(checkpoint, data) for checkpoint, data, _ in wire.decided] == [(1, []), (2, [])]
    assert "cannot overlap" in wire.decided[0][2]
    assert "was released" in wire.decided[1][2]


def test_reprs_say_what_waits() -> None:
    wire = Wire(1)
    wire.partition.subpartitions[0].add(buffer())
    assert repr(wire.partition) == "ResultPartition(0, 1 subpartitions)"
    assert repr(wire.partition.subpartitions[0]) == "ResultSubpartition(t/0, 1 queued, 0 credits)"


@given(st.lists(st.sampled_from(["buffer", "mark", "credit"]), max_size=50), st.integers(1, 3))
def test_order_is_kept_and_no_buffer_goes_without_a_credit(story: list[str], granted: int) -> None:
    wire = Wire(1)
    (sub,) = wire.partition.subpartitions
    sub.add_credits(granted)
    given_credits, added = granted, []
    for number, word in enumerate(story):
        if word == "credit":
            given_credits += 1
            sub.add_credits(1)
        else:
            element: Element = buffer() if word == "buffer" else Watermark(number)
            added.append(element)
            sub.add(element)
        sent = [element for _, element in wire.sent]
        assert [id(element) for element in sent] == [id(element) for element in added[: len(sent)]]
        assert sum(isinstance(element, Buffer) for element in sent) + sub.credits == given_credits
        assert not sub.queue or (isinstance(sub.queue[0], Buffer) and sub.credits == 0)

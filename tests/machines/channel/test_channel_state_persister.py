"""One channel's share of an unaligned checkpoint: the data that is written, and the barriers that count."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kit.core.protocol.elements import CheckpointBarrier, DataElement, EndOfData, Watermark, WatermarkStatus
from kit.core.protocol.options import CheckpointOptions
from kit.core.protocol.reasons import CheckpointException, CheckpointFailureReason
from kit.core.state.handles import InputChannelInfo
from kit.machines.channel.channel_state.channel_state_persister import (
    ChannelStatePersister,
    InputStateWriter,
    NoInputStateWriter,
)
from tests.machines.task.barrier_harness import data


class Recorder:
    """Counts what is written, by checkpoint."""

    def __init__(self) -> None:
        self.added: list[int] = []

    def add_input_data(
        self, checkpoint_id: int, info: InputChannelInfo, start_seq: int, buffers: Sequence[DataElement]
    ) -> None:
        assert info == InputChannelInfo(0, 0)
        self.added += [checkpoint_id] * len(buffers)


def persister_of(writer: InputStateWriter) -> ChannelStatePersister:
    return ChannelStatePersister(writer, InputChannelInfo(0, 0))


def barrier(checkpoint_id: int) -> CheckpointBarrier:
    return CheckpointBarrier(checkpoint_id, 1, CheckpointOptions())


@pytest.mark.flink("ChannelStatePersisterTest.testNewBarrierNotOverwrittenByStopPersisting")
def test_the_barrier_of_a_newer_checkpoint_outlives_the_end_of_the_older_one() -> None:
    writer = Recorder()
    persister = persister_of(writer)
    assert persister.check_for_barrier(barrier(1)) == 1
    persister.start_persisting(1, [data(0)])
    persister.maybe_persist(data(1))
    assert writer.added == [1]
    assert persister.check_for_barrier(barrier(2)) == 2
    persister.maybe_persist(data(2))
    persister.stop_persisting(1)
    persister.maybe_persist(data(3))
    assert writer.added == [1]
    assert persister.has_barrier_received


@pytest.mark.flink("ChannelStatePersisterTest.testNewBarrierNotOverwrittenByCheckForBarrier")
def test_an_older_barrier_does_not_end_a_newer_checkpoint() -> None:
    persister = persister_of(NoInputStateWriter())
    persister.start_persisting(1, [])
    persister.start_persisting(2, [])
    assert persister.check_for_barrier(barrier(1)) is None
    assert not persister.has_barrier_received


@pytest.mark.flink(
    "ChannelStatePersisterTest.testLateBarrierOnStartedAndCancelledCheckpoint",
    "ChannelStatePersisterTest.testLateBarrierOnCancelledCheckpoint",
    "ChannelStatePersisterTest.testLateBarrierOnNotYetCancelledCheckpoint",
)
@pytest.mark.parametrize(("started", "cancelled"), [(True, True), (False, True), (False, False)])
def test_a_late_barrier_of_another_checkpoint_is_no_hindrance(started: bool, cancelled: bool) -> None:
    writer = Recorder()
    persister = persister_of(writer)
    if started:
        persister.start_persisting(1, [])
    if cancelled:
        persister.stop_persisting(1)
    assert persister.check_for_barrier(barrier(1)) == (None if cancelled else 1)
    persister.start_persisting(2, [data(0)])
    persister.maybe_persist(data(1))
    assert persister.check_for_barrier(barrier(2)) == 2
    persister.maybe_persist(data(2))
    assert persister.has_barrier_received
    assert writer.added == [2, 2]


@pytest.mark.flink("ChannelStatePersisterTest.testLateBarrierTriggeringCheckpoint")
def test_a_checkpoint_older_than_a_barrier_that_came_cannot_begin() -> None:
    persister = persister_of(NoInputStateWriter())
    persister.check_for_barrier(barrier(2))
    with pytest.raises(CheckpointException, match="the barrier of checkpoint 2 came before checkpoint 1") as raised:
        persister.start_persisting(1, [])
    assert raised.value.reason is CheckpointFailureReason.CHECKPOINT_SUBSUMED


def test_watermarks_are_in_flight_data_and_events_are_not() -> None:
    writer = Recorder()
    persister = persister_of(writer)
    persister.start_persisting(7, [])
    for element in (data(0), Watermark(5), WatermarkStatus(idle=True), EndOfData(True)):
        persister.maybe_persist(element)
        assert persister.check_for_barrier(element) is None
    assert writer.added == [7, 7, 7]
    assert repr(persister) == "ChannelStatePersister(chk-7 BARRIER_PENDING)"

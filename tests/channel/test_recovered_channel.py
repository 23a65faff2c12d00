"""An input channel that recovers: what was restored first, then the live channel, and no checkpoint before."""

from __future__ import annotations

import pytest

from kit.channel.recovered_channel import FIRST_SEQUENCE_NUMBER, RecoveredInputChannel
from kit.protocol.elements import CheckpointBarrier
from kit.protocol.reasons import CheckpointException, CheckpointFailureReason
from tests.channel.channel_state import IN, OPTIONS, buffer, values


class Live:
    """The channel it becomes."""

    def __init__(self) -> None:
        self.stopped: list[int] = []

    def checkpoint_stopped(self, checkpoint_id: int) -> None:
        self.stopped.append(checkpoint_id)


def a_channel(*numbers: int) -> RecoveredInputChannel:
    channel = RecoveredInputChannel(IN)
    for number in numbers:
        channel.on_recovered_state_buffer(buffer(number))
    return channel


@pytest.mark.flink("RecoveredInputChannelTest.testConversionOnlyPossibleAfterConsumed")
def test_it_becomes_live_when_all_that_was_restored_is_taken() -> None:
    channel = a_channel(1, 2)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="not fully consumed"):
            channel.to_input_channel(Live())
        assert channel.next_element() is not None
    assert channel.next_element() is None
    channel.finish_read_recovered_state()
    with pytest.raises(RuntimeError, match="not fully consumed"):
        channel.to_input_channel(Live())
    assert channel.next_element() is None
    channel.checkpoint_stopped(4)
    assert channel.to_input_channel(Live()).stopped == [4]


@pytest.mark.flink("RecoveredInputChannelTest.testCheckpointStartImpossible")
def test_it_takes_no_part_in_a_checkpoint() -> None:
    with pytest.raises(CheckpointException, match="cannot take part in checkpoint 1") as raised:
        a_channel(1).checkpoint_started(CheckpointBarrier(1, 0, OPTIONS))
    assert raised.value.reason is CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_NOT_READY


def test_it_gives_what_was_restored_in_order_with_numbers_of_its_own() -> None:
    channel = a_channel(1, 2, 3)
    assert len(channel.queued) == 3
    assert values([channel.next_element() for _ in range(3)]) == [[1], [2], [3]]
    assert channel.sequence_number == FIRST_SEQUENCE_NUMBER + 3
    assert not channel.available


def test_released_it_keeps_nothing_and_gives_nothing() -> None:
    channel = a_channel(1)
    channel.release()
    channel.on_recovered_state_buffer(buffer(2))
    assert channel.queued == ()
    with pytest.raises(RuntimeError, match="released"):
        channel.next_element()

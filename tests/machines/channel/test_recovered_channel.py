"""An input channel that recovers: what was restored first, then the live channel."""

from __future__ import annotations

import pytest

from kit.machines.channel.recovered_channel import RecoveredInputChannel
from tests.machines.channel.channel_state import IN, buffer, values


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
            channel.check_consumed()
        assert channel.next_element() is not None
    assert channel.next_element() is None
    channel.finish_read_recovered_state()
    with pytest.raises(RuntimeError, match="not fully consumed"):
        channel.check_consumed()
    assert channel.next_element() is None
    channel.check_consumed()


def test_it_gives_what_was_restored_in_order() -> None:
    channel = a_channel(1, 2, 3)
    channel.finish_read_recovered_state()
    assert len(channel.queued) == 4
    assert values([channel.next_element() for _ in range(3)]) == [[1], [2], [3]]
    assert not channel.has_data

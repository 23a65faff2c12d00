"""Event time of several channels: the rules of the valve, and what a task makes of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kit.core.event_time import MAX_WATERMARK_MS, MIN_WATERMARK_MS
from kit.core.protocol.elements import Watermark, WatermarkStatus
from kit.machines.task.watermark_valve import InputWatermarks, WatermarkValve
from tests.machines.task.harness import TaskHarness, fan_in


def test_event_time_is_that_of_the_slowest_channel() -> None:
    valve = WatermarkValve([7, 9])
    assert valve.watermark(7, 10) is None
    assert valve.watermark(9, 5) == 5
    assert valve.watermark(9, 8) == 8
    assert valve.watermark(7, 9) is None
    assert valve.watermark(9, 20) == 10
    assert valve.current_ms == 10


def test_a_channel_never_goes_back() -> None:
    valve = WatermarkValve([0])
    assert valve.watermark(0, 5) == 5
    assert valve.watermark(0, 3) is None
    assert valve.watermark(0, 5) is None


def test_an_idle_channel_holds_nobody_back_and_is_not_heard() -> None:
    valve = WatermarkValve([0, 1])
    valve.watermark(0, 10)
    assert valve.status(1, idle=True) == 10
    assert valve.watermark(1, 50) is None
    assert valve.watermark(0, 12) == 12
    assert not valve.all_idle


def test_a_watermark_of_an_idle_channel_does_not_hold_the_others_back_later() -> None:
    valve = WatermarkValve([0, 1])
    valve.watermark(0, 10)
    valve.status(1, idle=True)
    assert valve.watermark(1, 50) is None
    assert valve.watermark(0, 100) == 100
    assert valve.status(1, idle=False) is None
    assert valve.watermark(0, 120) == 120, "the channel is active again, but still behind 100"


def test_event_time_does_not_end_while_an_idle_channel_may_still_send_rows() -> None:
    valve = WatermarkValve([0, 1, 2])
    valve.watermark(0, 10)
    valve.watermark(1, 20)
    valve.status(2, idle=True)
    assert valve.watermark(0, MAX_WATERMARK_MS) == 20, "the ended channel holds nobody back"
    assert valve.watermark(1, MAX_WATERMARK_MS) is None
    assert valve.all_idle, "nobody is left but an idle channel"
    assert valve.status(2, idle=False) is None
    assert not valve.all_idle
    assert valve.watermark(2, 30) == 30
    assert valve.watermark(2, MAX_WATERMARK_MS) == MAX_WATERMARK_MS


def test_a_channel_that_ends_leaves_event_time_to_the_active_ones_beside_idle_ones() -> None:
    valve = WatermarkValve([0, 1, 2, 3])
    for channel, at_ms in enumerate((10, 40, 20, 30)):
        valve.watermark(channel, at_ms)
    valve.status(1, idle=True)
    assert valve.watermark(0, MAX_WATERMARK_MS) == 20, "40 is of an idle channel"
    assert not valve.all_idle
    assert valve.status(2, idle=True) == 30
    assert not valve.all_idle
    assert valve.status(3, idle=True) == 40
    assert valve.all_idle


def test_an_idle_channel_that_ends_ends_event_time_with_the_others() -> None:
    """A task that is restored as finished sends the end of event time and no status."""
    valve = WatermarkValve([0, 1])
    valve.status(1, idle=True)
    assert valve.watermark(0, MAX_WATERMARK_MS) is None
    assert valve.watermark(1, MAX_WATERMARK_MS) == MAX_WATERMARK_MS
    assert not valve.all_idle


def test_an_input_that_has_ended_leaves_event_time_to_the_others() -> None:
    time = InputWatermarks({0: 0, 1: 1, 2: 2})
    time.watermark(0, MAX_WATERMARK_MS)
    time.watermark(1, 5)
    assert time.status(2, idle=True) == 5
    assert time.status(1, idle=True) is None
    assert time.all_idle
    assert time.watermark(1, MAX_WATERMARK_MS) is None
    assert time.watermark(2, MAX_WATERMARK_MS) == MAX_WATERMARK_MS
    assert not time.all_idle


STORIES = st.lists(st.tuples(st.integers(0, 2), st.one_of(st.booleans(), st.integers(0, 30))), max_size=60)
"""What channels say, one after another: that they are idle or active, or a watermark."""


@given(STORIES)
def test_without_the_watermarks_of_idle_channels_event_time_is_the_same(story: list[tuple[int, bool | int]]) -> None:
    valve, without = WatermarkValve(range(3)), WatermarkValve(range(3))
    idle: set[int] = set()
    for channel, said in story:
        if isinstance(said, bool):
            (idle.add if said else idle.discard)(channel)
            assert valve.status(channel, idle=said) == without.status(channel, idle=said)
        elif channel in idle:
            assert valve.watermark(channel, said) is None
        else:
            assert valve.watermark(channel, said) == without.watermark(channel, said)
        assert (valve.current_ms, valve.all_idle) == (without.current_ms, without.all_idle)
        assert valve.all_idle == (len(idle) == 3)


def test_the_last_one_to_become_idle_lets_time_go_on_to_the_highest_mark() -> None:
    valve = WatermarkValve([0, 1, 2])
    valve.watermark(0, 30)
    valve.watermark(1, 20)
    valve.watermark(2, 10)
    assert valve.status(0, idle=True) is None
    assert valve.status(1, idle=True) is None
    assert not valve.all_idle
    assert valve.status(2, idle=True) == 30
    assert valve.all_idle


def test_no_flush_when_the_last_one_did_not_hold_the_others_back() -> None:
    valve = WatermarkValve([0, 1])
    valve.watermark(0, 10)
    valve.watermark(1, 20)
    assert valve.status(0, idle=True) == 20
    assert valve.status(1, idle=True) is None


def test_a_channel_that_comes_back_counts_once_it_has_caught_up() -> None:
    valve = WatermarkValve([0, 1])
    valve.watermark(1, 5)
    valve.status(1, idle=True)
    valve.watermark(0, 20)
    assert valve.current_ms == 20
    assert valve.status(1, idle=False) is None
    assert valve.watermark(0, 25) == 25
    assert valve.watermark(1, 24) is None
    assert valve.watermark(0, 30) == 30
    assert valve.watermark(1, 31) is None
    assert valve.watermark(0, 40) == 31


def test_a_status_that_changes_nothing_says_nothing() -> None:
    valve = WatermarkValve([0, 1])
    assert valve.status(0, idle=False) is None
    valve.status(0, idle=True)
    valve.status(1, idle=True)
    assert valve.status(1, idle=True) is None
    valve.status(0, idle=False)
    assert not valve.all_idle


@given(STORIES)
def test_time_never_goes_back_and_never_beyond_the_highest_mark(story: list[tuple[int, bool | int]]) -> None:
    valve = WatermarkValve(range(3))
    told, heard = [MIN_WATERMARK_MS], [MIN_WATERMARK_MS]
    for channel, word in story:
        if isinstance(word, bool):
            time_ms = valve.status(channel, idle=word)
        else:
            heard.append(word)
            time_ms = valve.watermark(channel, word)
        if time_ms is not None:
            assert time_ms > told[-1]
            told.append(time_ms)
        assert valve.current_ms == told[-1] <= max(heard)


def test_a_task_hands_on_time_then_idleness_and_activity_once() -> None:
    task = TaskHarness(fan_in(2, chaining=False))
    task.watermark(0, 10)
    task.watermark(1, 20)
    task.status(0, idle=True)
    task.status(1, idle=True)
    task.status(0, idle=False)
    task.status(1, idle=False)
    assert task.sent() == [Watermark(10), Watermark(20), WatermarkStatus(True), WatermarkStatus(False)]


def test_event_time_of_two_inputs_is_the_minimum_over_those_that_are_not_idle() -> None:
    time = InputWatermarks({0: 0, 1: 0, 2: 1})
    assert time.watermark(0, 10) is None
    assert time.watermark(1, 20) is None
    assert time.watermark(2, 15) == 10
    assert time.status(0, idle=True) == 15, "the first input is at 20 now"
    assert time.status(2, idle=True) == 20
    assert not time.all_idle
    assert time.watermark(1, 30) == 30
    assert repr(time) == "InputWatermarks(30 ms, 2 inputs)"


def test_a_channel_that_comes_back_catches_up_with_its_own_input() -> None:
    time = InputWatermarks({0: 0, 1: 0, 2: 1})
    time.status(1, idle=True)
    time.watermark(0, 100)
    assert time.watermark(2, 20) == 20
    assert time.status(1, idle=False) is None
    assert time.watermark(1, 50) is None
    assert time.watermark(2, 120) == 100, "50 is behind what the first input has said, so it does not count"


def test_event_time_goes_on_to_the_mark_of_the_last_input_to_become_idle() -> None:
    time = InputWatermarks({0: 0, 1: 1, 2: 1})
    time.watermark(0, 10)
    time.status(0, idle=True)
    assert time.watermark(1, 20) is None
    time.status(1, idle=True)
    assert time.status(2, idle=True) == 20, "not 10, which the input said that was idle before"
    assert time.current_ms == 20


def test_what_the_last_active_input_said_counts_when_all_are_idle() -> None:
    time = InputWatermarks({0: 0, 1: 1, 2: 1})
    time.watermark(0, 10)
    time.status(0, idle=True)
    assert time.watermark(1, 5) is None
    time.status(1, idle=True)
    assert time.status(2, idle=True) == 5
    assert time.all_idle
    assert time.status(0, idle=True) is None
    assert time.status(0, idle=False) == 10
    assert not time.all_idle

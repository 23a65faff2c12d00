"""Aligned as long as that does not take too long, unaligned from then on; savepoints are always aligned.

The sequences are Flink's; `tests.machines.task.barrier_harness` says how they are written. Barriers `t` may time
out. What is `put` arrives, what is `take`n is processed, in turn.
"""

from __future__ import annotations

import pytest

from kit.core.protocol.elements import CheckpointBarrier
from kit.machines.channel.event_announcement import EventAnnouncement
from kit.machines.task.single_barrier_handler import alignment_due_ms
from tests.machines.task.barrier_harness import (
    CANCELLED,
    SAVEPOINT,
    SUBSUMED,
    UNALIGNED,
    BarrierHarness,
    data,
    with_timeout,
)

NEVER_MS = 2**31 - 1


def alternating(channels: int, timeout_ms: int = 100) -> BarrierHarness:
    return BarrierHarness(channels, "alternating", timeout_ms=timeout_ms, options=with_timeout(timeout_ms))


def announce(task: BarrierHarness, barrier: CheckpointBarrier, sequence_number: int, channel: int) -> None:
    task.handler.process_barrier_announcement(barrier, sequence_number, task.gates.channels[channel])


@pytest.mark.flink("AlternatingCheckpointsTest.testChannelResetOnNewBarrier")
def test_an_unaligned_checkpoint_after_a_savepoint_takes_in_flight_data_along() -> None:
    task = alternating(2)
    task.play("s0@0")
    assert task.blocked == [0]
    task.put("d1@0")
    task.play("u1@1")
    assert task.aborted == [f"0 {SUBSUMED}"]
    assert task.triggered == ["1 UNALIGNED"]
    assert task.in_flight() == ["1: d1@0"]


@pytest.mark.flink("AlternatingCheckpointsTest.testSwitchToUnalignedByUpstream")
def test_an_unaligned_barrier_after_an_announcement_begins_the_checkpoint_at_once() -> None:
    task = alternating(2, NEVER_MS)
    task.put("t1@0")
    assert task.take() == "a1@0"
    assert task.triggered == []
    task.put("u1@1")
    task.gates._turn = 1
    assert task.take() == "b1@1"
    assert task.triggered == ["1 UNALIGNED"]
    task.drain()
    assert task.calls == ["start 1", "trigger 1 UNALIGNED", "all 1"]
    assert task.blocked == []


@pytest.mark.flink("AlternatingCheckpointsTest.testCheckpointHandling")
def test_an_unaligned_checkpoint_is_taken_with_its_first_barrier() -> None:
    task = alternating(2)
    task.play("u123@0")
    assert task.triggered == ["123 UNALIGNED"]
    task.play("u123@1")
    assert task.calls == ["start 123", "trigger 123 UNALIGNED", "all 123"]


@pytest.mark.flink("AlternatingCheckpointsTest.testSavepointHandling")
def test_a_savepoint_is_taken_with_its_last_barrier_and_opens_the_channels() -> None:
    task = alternating(2)
    task.play("s123@0")
    assert (task.triggered, task.blocked) == ([], [0])
    task.play("s123@1")
    assert (task.triggered, task.blocked) == (["123 ALIGNED"], [])


@pytest.mark.flink("AlternatingCheckpointsTest.testAlternation")
def test_checkpoints_and_savepoints_take_turns() -> None:
    task = alternating(123)
    for number in range(123):
        task.play(" ".join(f"{'s' if number % 2 else 'u'}{number}@{channel}" for channel in range(123)))
    assert task.triggered_ids == list(range(123))
    assert task.aborted == []
    assert [call for call in task.calls if call.startswith("all")] == [f"all {number}" for number in range(123)]


@pytest.mark.flink("AlternatingCheckpointsTest.testAlignedAfterTimedOut")
def test_each_checkpoint_begins_aligned_again() -> None:
    task = alternating(1)
    task.put("t1@0")
    assert task.take() == "a1@0"
    task.advance(101)
    assert task.take() == "b1@0"
    assert task.triggered == ["1 UNALIGNED"]
    task.put("t2@0")
    assert task.take(2) == "a2@0 b2@0"
    assert task.triggered == ["1 UNALIGNED", "2 ALIGNED"]


@pytest.mark.flink("AlternatingCheckpointsTest.testAlignedNeverTimeoutableCheckpoint")
def test_without_a_time_limit_that_can_be_reached_it_stays_aligned() -> None:
    task = alternating(2, NEVER_MS)
    barrier = task.barrier(1)
    task.send(0, barrier)
    task.send(1, data(1, rows=125))
    task.advance(1_000_000)
    assert task.triggered == []
    task.send(1, barrier)
    assert task.triggered == ["1 ALIGNED"]


@pytest.mark.flink("AlternatingCheckpointsTest.testTimeoutAlignment")
@pytest.mark.flink("AlternatingCheckpointsTest.testTimeoutAlignmentAfterProcessingBarrier")
@pytest.mark.parametrize("processed_before", [False, True])
def test_when_time_is_up_announced_barriers_overtake(processed_before: bool) -> None:
    timeout_ms = NEVER_MS if processed_before else 10
    task = alternating(3 if processed_before else 2, timeout_ms)
    if processed_before:
        task.play("t1@2")
        assert task.blocked == [2]
    task.put("d1@0 d2@0 t1@0 d3@1 t1@1")
    assert task.triggered == []
    assert task.take() == "a1@0"
    task.advance(2 * timeout_ms)
    assert task.triggered == (["1 UNALIGNED"] if processed_before else [])
    assert task.take().startswith("a1@1")
    assert sorted(task.take(2).split()) == ["b1@0", "b1@1"]
    assert task.triggered == ["1 UNALIGNED"]
    assert sorted(task.take(3).split()) == ["d1@0", "d2@0", "d3@1"]
    assert sorted(task.in_flight()) == ["1: d1@0", "1: d2@0", "1: d3@1"]
    assert task.blocked == []


@pytest.mark.flink("AlternatingCheckpointsTest.testTimeoutAlignmentOnFirstBarrier")
def test_time_is_up_between_the_announcements_and_the_first_barrier() -> None:
    task = alternating(2)
    task.put("t1@0 t1@1")
    assert task.take(2) == "a1@0 a1@1"
    assert task.triggered == []
    task.advance(400)
    task.take()
    assert task.triggered == ["1 UNALIGNED"]


@pytest.mark.flink("AlternatingCheckpointsTest.testTimeoutAlignmentBeforeFirstBarrier")
def test_a_barrier_that_comes_too_late_begins_the_checkpoint_at_once() -> None:
    task = alternating(2)
    barrier = task.barrier(1)
    task.advance(101)
    task.receive_unannounced(0, barrier)
    assert task.take() == "b1@0"
    assert task.triggered == ["1 UNALIGNED"]


@pytest.mark.flink("AlternatingCheckpointsTest.testTimeoutAlignmentWhenLocalBarrierFirst")
def test_a_channel_that_announces_nothing_starts_the_clock_with_its_barrier() -> None:
    task = alternating(3)
    task.receive_unannounced(0, task.barrier(1))
    task.put("t1@1 t1@2")
    assert sorted(task.take(5).split()) == ["a1@1", "a1@2", "b1@0", "b1@1", "b1@2"]
    assert task.triggered == ["1 ALIGNED"]
    task.advance(101)
    barrier = task.barrier(2)
    task.receive_unannounced(0, barrier)
    assert task.take() == "b2@0"
    assert task.triggered == ["1 ALIGNED"]
    task.advance(101, fire=False)
    task.receive(1, barrier)
    assert task.take(2) == "a2@1 b2@1"
    assert task.triggered == ["1 ALIGNED", "2 UNALIGNED"]


@pytest.mark.flink("AlternatingCheckpointsTest.testActiveTimeoutAfterLocalBarrierPassiveTimeout")
def test_a_timer_that_fires_late_is_in_time_for_announced_barriers() -> None:
    task = alternating(2, 10)
    barrier = task.barrier(1)
    task.receive_unannounced(0, barrier)
    task.put("d2@0")
    assert task.take() == "b1@0"
    task.put("d1@1")
    task.receive(1, barrier)
    assert task.triggered == []
    task.advance(11, fire=False)
    assert task.take() == "a1@1"
    task.fire()
    assert task.triggered == ["1 UNALIGNED"]
    assert task.take() == "b1@1"
    assert sorted(task.take(2).split()) == ["d1@1", "d2@0"]
    assert task.triggered == ["1 UNALIGNED"]
    assert task.in_flight() == ["1: d1@1"]


@pytest.mark.flink("AlternatingCheckpointsTest.testTimeoutAlignmentOnAnnouncementForSecondCheckpoint")
def test_sequence_numbers_go_on_over_checkpoints() -> None:
    task = alternating(2)
    task.put("t1@0 t1@1")
    assert task.take(4) == "a1@0 a1@1 b1@0 b1@1"
    assert task.triggered == ["1 ALIGNED"]
    task.put("d1@0 t2@0 d2@1 t2@1")
    assert task.take(2) == "a2@0 a2@1"
    task.advance(400)
    assert task.triggered == ["1 ALIGNED"]
    assert task.take() == "b2@0"
    assert task.triggered == ["1 ALIGNED", "2 UNALIGNED"]
    assert task.in_flight() == ["2: d1@0", "2: d2@1"]


@pytest.mark.flink("AlternatingCheckpointsTest.testPassiveTimeoutAlignmentOnAnnouncement")
def test_without_the_timer_the_last_barrier_takes_the_checkpoint() -> None:
    task = alternating(2)
    barrier = task.barrier(1)
    task.receive(0, barrier)
    assert task.take(2) == "a1@0 b1@0"
    task.advance(400, fire=False)
    task.receive(1, barrier)
    assert task.take(2) == "a1@1 b1@1"
    assert len(task.triggered) == 1
    assert task.calls[-1] == "all 1"


@pytest.mark.flink("AlternatingCheckpointsTest.testActiveTimeoutAlignmentOnFirstBarrier")
def test_the_timer_alone_makes_it_unaligned() -> None:
    task = alternating(2)
    task.play("t1@0")
    task.advance(101)
    assert task.triggered == ["1 UNALIGNED"]
    assert task.notes[-1] == "AlignmentTimedOut 1"


@pytest.mark.flink("AlternatingCheckpointsTest.testAllChannelsUnblockedAfteralignedCheckpointTimeout")
def test_all_channels_are_open_again_also_those_that_were_closed_later() -> None:
    task = alternating(2)
    barrier = task.barrier(1)
    task.send(0, barrier)
    assert task.blocked == [0]
    task.advance(101)
    assert task.blocked == [0]
    task.receive(1, barrier)
    task.put("d1@0 d2@1")
    assert task.take() == "a1@1"
    assert task.take() == "b1@1"
    assert task.triggered == ["1 UNALIGNED"]
    assert task.blocked == []
    assert sorted(task.drain().split()) == ["d1@0", "d2@1"]


@pytest.mark.flink("AlternatingCheckpointsTest.testNoActiveTimeoutAlignmentAfterLastBarrier")
@pytest.mark.flink("AlternatingCheckpointsTest.testNoActiveTimeoutAlignmentAfterAbort")
@pytest.mark.parametrize(
    ("words", "calls"),
    [
        ("t1@0 t1@1", ["start 1", "trigger 1 ALIGNED", "all 1"]),
        ("t1@0 x1@0 x1@1", [f"abort 1 {CANCELLED}"]),
    ],
)
@pytest.mark.parametrize("taken_back", [True, False])
def test_a_timer_does_nothing_once_the_checkpoint_is_over(words: str, calls: list[str], taken_back: bool) -> None:
    task = alternating(2)
    task.direct(words)
    assert task.timer_due_ms is None
    if not taken_back:
        task.timer_due_ms = task.at + 100
    task.advance(101)
    assert task.calls == calls


@pytest.mark.flink("AlternatingCheckpointsTest.testNoActiveTimeoutAlignmentAfterClose")
def test_a_timer_does_nothing_once_the_task_has_left() -> None:
    task = alternating(2)
    task.play("t1@0")
    due_ms = task.timer_due_ms
    task.handler.close()
    task.timer_due_ms = due_ms
    task.advance(101)
    assert task.calls == []
    assert task.handler.has_all_barriers(1)


@pytest.mark.flink("AlternatingCheckpointsTest.testActiveTimeoutAlignmentOnAnnouncement")
def test_the_timer_fetches_barriers_forward_before_any_was_taken() -> None:
    task = alternating(2, 10)
    task.put("d1@0 d2@0 t1@0 d3@1 t1@1")
    assert task.take(2) == "a1@0 a1@1"
    task.advance(11)
    assert task.triggered == []
    assert task.take(2) == "b1@0 b1@1"
    assert task.triggered == ["1 UNALIGNED"]
    assert sorted(task.take(3).split()) == ["d1@0", "d2@0", "d3@1"]
    assert sorted(task.in_flight()) == ["1: d1@0", "1: d2@0", "1: d3@1"]


@pytest.mark.flink("AlternatingCheckpointsTest.testActiveTimeoutAfterAnnouncementPassiveTimeout")
@pytest.mark.flink("AlternatingCheckpointsTest.testActiveTimeoutBeforeFirstAnnouncementPassiveTimeout")
@pytest.mark.parametrize("announced_in_time", [True, False])
def test_the_timer_fires_late_among_the_announcements(announced_in_time: bool) -> None:
    task = alternating(2, 10)
    task.put("d1@0 t1@0 d3@1 t1@1")
    if announced_in_time:
        assert task.take() == "a1@0"
        task.advance(11, fire=False)
        assert task.take() == "a1@1"
        task.fire()
    else:
        task.advance(11, fire=False)
        assert task.take() == "a1@0"
        task.fire()
        assert task.take() == "a1@1"
    assert task.triggered == []
    assert sorted(task.take(2).split()) == ["b1@0", "b1@1"]
    assert task.triggered == ["1 UNALIGNED"]
    assert sorted(task.take(2).split()) == ["d1@0", "d3@1"]
    assert sorted(task.in_flight()) == ["1: d1@0", "1: d3@1"]


@pytest.mark.flink("AlternatingCheckpointsTest.testActiveTimeoutAfterBarrierPassiveTimeout")
def test_a_barrier_taken_too_late_makes_the_next_one_overtake() -> None:
    task = alternating(2, 10)
    barrier = task.barrier(1)
    task.put("d1@0 d2@0")
    task.receive(0, barrier)
    assert task.take(3) == "a1@0 d1@0 d2@0"
    task.advance(11, fire=False)
    assert task.take() == "b1@0"
    assert task.triggered == ["1 UNALIGNED"]
    task.fire()
    task.put("d3@1")
    task.receive(1, barrier)
    assert task.take(3) == "a1@1 b1@1 d3@1"
    assert task.triggered == ["1 UNALIGNED"]
    assert task.in_flight() == ["1: d3@1"]


@pytest.mark.flink("AlternatingCheckpointsTest.testTimeoutAlignmentOnUnalignedCheckpoint")
def test_an_upstream_task_that_gave_up_aligning_is_followed() -> None:
    task = alternating(3, NEVER_MS)
    task.put("t1@0")
    assert task.take(2) == "a1@0 b1@0"
    task.put("d1@1 d2@1 u1@1")
    assert task.take() == "b1@1"
    assert task.in_flight() == ["1: d1@1", "1: d2@1"]
    assert task.triggered == ["1 UNALIGNED"]


@pytest.mark.flink("AlternatingCheckpointsTest.testTimeoutAlignmentAfterReceivedEndOfPartition")
def test_the_end_of_a_channel_comes_too_late_as_well() -> None:
    task = alternating(3)
    task.put("t1@0")
    assert task.take(2) == "a1@0 b1@0"
    task.advance(101, fire=False)
    task.put("d1@1 e@1")
    assert task.take(2) == "d1@1 e@1"
    assert task.triggered == ["1 UNALIGNED"]
    task.put("d2@2 e@2")
    assert task.take(2) == "d2@2 e@2"
    assert task.calls == ["start 1", "trigger 1 UNALIGNED", "all 1"]
    assert task.in_flight() == ["1: d2@2"]


@pytest.mark.flink("AlternatingCheckpointsTest.testStartNewCheckpointViaAnnouncement")
def test_the_alignment_begins_with_the_first_channel_that_is_done() -> None:
    task = alternating(3, 10_000)
    barrier = task.barrier(1)
    task.receive(0, barrier)
    task.put("e@1")
    assert task.take() == "a1@0"
    assert not task.handler.is_during_alignment
    task.gates._turn = 1
    assert task.take() == "e@1"
    assert task.handler.is_during_alignment
    task.advance(7)
    assert task.take() == "b1@0"
    task.advance(5)
    task.receive(2, barrier)
    assert task.take(2) == "a1@2 b1@2"
    assert task.triggered == ["1 ALIGNED"]
    assert task.metrics[1].alignment_ms == 12


@pytest.mark.flink("AlternatingCheckpointsTest.testMetricsAlternation")
def test_what_is_measured_stays_right_when_the_kinds_alternate() -> None:
    task = alternating(2)
    for number, options, delay_ms, wait_ms in (
        (1, with_timeout(100), 10, 6),
        (2, SAVEPOINT, 5, 5),
        (3, UNALIGNED, 7, 10),
    ):
        barrier = CheckpointBarrier(number, task.at - delay_ms, options)
        task.send(0, barrier)
        for channel in (0, 1):
            task.send(channel, data(0, rows=100))
        if number == 3:
            assert not task.metrics[3].is_aligned
        task.advance(wait_ms)
        task.send(1, barrier)
        metrics = task.metrics[number]
        assert (metrics.alignment_ms, task.handler.alignment_ms) == (wait_ms, wait_ms)
        assert (metrics.start_delay_ms, task.handler.start_delay_ms) == (delay_ms, delay_ms)
        assert metrics.bytes_processed_during_alignment == (1600 if number == 3 else 800)
        task.send(0, data(0, rows=100))


@pytest.mark.flink("AlternatingCheckpointsTest.testMetricsSingleChannel")
def test_one_channel_aligns_in_no_time() -> None:
    task = alternating(1)
    for number, options, delay_ms in ((1, with_timeout(100), 10), (2, SAVEPOINT, 5), (3, UNALIGNED, 1)):
        task.send(0, data(0, rows=100))
        task.send(0, CheckpointBarrier(number, task.at - delay_ms, options))
        task.send(0, data(0, rows=100))
        task.advance(6)
        metrics = task.metrics[number]
        assert (metrics.alignment_ms, metrics.bytes_processed_during_alignment) == (0, 0)
        assert (metrics.start_delay_ms, task.handler.alignment_ms) == (delay_ms, 0)
        assert task.handler.current_checkpoint_id == number


@pytest.mark.flink("AlternatingCheckpointsTest.testPreviousHandlerReset")
def test_a_newer_checkpoint_of_the_other_kind_opens_what_the_older_one_closed() -> None:
    task = alternating(2)
    for number in range(4):
        channel = number % 2
        task.direct(f"{'u' if channel else 's'}{number}@{channel}")
        assert task.blocked == ([] if channel else [0])
        assert task.handler.pending_checkpoint_id == number
        assert not task.handler.has_all_barriers(number)


@pytest.mark.flink("AlternatingCheckpointsTest.testHasInflightDataBeforeProcessBarrier")
@pytest.mark.parametrize("kind", ["u", "s", "t"])
def test_barriers_are_waited_for_until_the_last_one(kind: str) -> None:
    task = alternating(2)
    task.direct(f"{kind}1@0")
    assert not task.handler.has_all_barriers(1)
    assert [channel.number for channel in task.handler.awaited_channels] == [1]
    task.direct(f"{kind}1@1")
    assert task.handler.has_all_barriers(1)
    assert task.handler.has_all_barriers(0)


@pytest.mark.flink("AlternatingCheckpointsTest.testOutOfOrderBarrier")
def test_an_older_savepoint_barrier_is_dropped_and_its_channel_goes_on() -> None:
    task = alternating(2)
    task.play("u10@0")
    task.put("s5@1 d1@1")
    assert task.gates.channels[1].held == 1
    assert task.take(2) == "b5@1 d1@1"
    assert task.handler.current_checkpoint_id == 10
    assert task.notes[-1] == "BarrierIgnored 5"
    assert task.blocked == []
    assert task.in_flight() == ["10: d1@1"]


@pytest.mark.flink("AlternatingCheckpointsTest.testNextFirstCheckpointBarrierOvertakesCancellationBarrier")
def test_the_alignment_of_the_newer_checkpoint_is_measured() -> None:
    task = alternating(2, 10_000)
    for word in ("t1@0", "t2@0", "x1@1", "t2@1"):
        task.direct(word)
        task.advance(1_000)
    assert task.metrics[2].alignment_ms == 2_000
    assert task.aborted == [f"1 {SUBSUMED}"]


@pytest.mark.flink("BarrierAlignmentUtilTest.testDelayableTimerNotHiddenException")
def test_an_error_in_a_checkpoint_that_the_timer_began_is_not_hidden() -> None:
    task = alternating(2)
    task.play("t1@0")

    def fail(checkpoint_id: int) -> None:
        raise ArithmeticError("in the synchronous part")

    task.on_trigger = fail
    task.at += 101
    with pytest.raises(ArithmeticError, match="in the synchronous part"):
        task.handler.on_alignment_timeout()


def test_the_time_limit_counts_from_the_checkpoint_not_from_its_arrival() -> None:
    barrier = CheckpointBarrier(1, 1_000, with_timeout(100))
    assert [alignment_due_ms(barrier, at) for at in (1_000, 1_040, 1_100, 1_200)] == [1_100, 1_100, 1_100, 1_200]
    task = alternating(2)
    task.play("t1@0")
    assert task.timer_due_ms == task.at + 100


def test_a_timer_of_an_older_checkpoint_that_still_fires_is_too_early() -> None:
    task = alternating(2)
    task.play("t1@0")
    task.advance(90)
    task.play("x1@1 t2@0")
    task.advance(20, fire=False)
    task.handler.on_alignment_timeout()
    assert task.triggered == []
    task.advance(80)
    assert task.triggered == ["2 UNALIGNED"]


def test_a_cancel_marker_gives_up_what_is_only_announced() -> None:
    task = alternating(2)
    task.put("d1@0 t1@0")
    assert task.take() == "a1@0"
    task.play("x1@1")
    assert task.aborted == [f"1 {CANCELLED}"]
    assert (task.taken[-2:], task.blocked, task.triggered) == (["d1@0", "b1@0"], [], [])
    assert task.timer_due_ms is None
    task.play("d2@0 t2@0 t2@1")
    assert task.triggered == ["2 ALIGNED"]


def test_an_announcement_of_what_is_over_is_dropped() -> None:
    task = alternating(2)
    task.play("x5@1")
    task.put("d1@0 t4@0 d2@0")
    assert task.drain() == "a4@0 d1@0 b4@0 d2@0"
    assert task.calls == [f"abort 5 {CANCELLED}"]
    announce(task, task.barrier(5), 0, 0)
    assert task.handler.pending_checkpoint_id is None


def test_an_announcement_reads_well() -> None:
    task = alternating(1)
    announcement = EventAnnouncement(task.barrier(3), 7)
    assert repr(announcement) == "EventAnnouncement(CheckpointBarrier(3, ALIGNED), number 7)"

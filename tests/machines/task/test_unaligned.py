"""Unaligned barriers: the checkpoint begins with the first one, and what the other channels still bring is in flight.

The sequences are Flink's; `tests.machines.task.barrier_harness` says how they are written.
"""

from __future__ import annotations

import pytest

from tests.machines.task.barrier_harness import CANCELLED, ENDED, SUBSUMED, BarrierHarness, data


def unaligned(channels: int, **settings: bool) -> BarrierHarness:
    return BarrierHarness(channels, "unaligned", **settings)


def data_of(words: str) -> list[str]:
    return [word for word in words.split() if word[0] == "d"]


@pytest.mark.flink("UnalignedCheckpointsTest.testSingleChannelNoBarriers")
@pytest.mark.flink("UnalignedCheckpointsTest.testMultiChannelNoBarriers")
@pytest.mark.parametrize(
    ("channels", "words"),
    [(1, "d0@0 d1@0 d2@0 e@0"), (4, "d0@2 d1@2 d2@0 d3@1 d4@0 e@0 d5@3 d6@1 e@3 d7@1 e@1 d8@2 e@2")],
)
def test_without_barriers_everything_passes_in_order_and_nothing_is_written(channels: int, words: str) -> None:
    task = unaligned(channels)
    task.play(words)
    assert task.taken == words.split()
    assert task.in_flight() == []
    assert task.calls == []


@pytest.mark.flink("UnalignedCheckpointsTest.testSingleChannelWithBarriers")
def test_one_channel_takes_a_checkpoint_with_each_barrier() -> None:
    task = unaligned(1)
    words = "d0@0 d1@0 d2@0 b1@0 d3@0 d4@0 d5@0 d6@0 b2@0 b3@0 d7@0 d8@0 b4@0 b5@0 b6@0 d9@0 e@0"
    task.play(words)
    assert task.data_taken == data_of(words)
    assert task.triggered_ids == [1, 2, 3, 4, 5, 6]
    assert [call for call in task.calls if call.endswith(" 1")] == ["start 1", "all 1"]
    assert task.in_flight() == []
    assert task.aborted == []


@pytest.mark.flink("UnalignedCheckpointsTest.testMultiChannelWithBarriers")
def test_data_of_a_channel_whose_barrier_is_still_to_come_is_in_flight() -> None:
    task = unaligned(3)
    steps = [
        (1, "d0@0 d1@2 d2@0 b1@1 b1@2 d3@2 d4@1 d5@0 b1@0", ["1: d5@0"]),
        (2, "d0@0 d1@0 d2@1 d3@1 d4@2 b2@0 b2@1 b2@2", []),
        (3, "d0@2 d1@2 b3@2 d2@2 d3@2 b3@0 b3@1", []),
        (4, "b4@1 b4@2 b4@0", []),
        (
            5,
            "d0@0 d1@2 d2@0 b5@1 d3@2 d4@0 d5@2 d6@1 b5@2 d7@1 d8@0 d9@2 d10@1 b5@0",
            ["5: d3@2", "5: d4@0", "5: d5@2", "5: d8@0"],
        ),
    ]
    for number, words, in_flight in steps:
        task.taken.clear()
        task.play(words)
        assert task.data_taken == data_of(words)
        assert task.last_started == number
        assert task.in_flight() == in_flight
        assert task.calls[-3:] == [f"start {number}", f"trigger {number} UNALIGNED", f"all {number}"]
    task.play("d0@0 e@0 e@1 e@2")
    assert task.in_flight() == []


@pytest.mark.flink("UnalignedCheckpointsTest.testMetrics")
def test_bytes_alignment_and_delay_are_known_when_the_last_barrier_has_come() -> None:
    task = unaligned(3)
    barrier = task.barrier(1)

    def one_buffer_each() -> None:
        for channel in range(3):
            task.send(channel, data(0, rows=10))

    task.advance(10)
    one_buffer_each()
    task.send(1, barrier)
    metrics = task.metrics[1]
    assert not metrics.is_aligned
    with pytest.raises(ValueError, match="the alignment is not over"):
        metrics.build()
    one_buffer_each()
    task.send(0, barrier)
    one_buffer_each()
    task.advance(10)
    assert (task.handler.start_delay_ms, task.handler.alignment_ms) == (10, 10)
    task.send(2, barrier)
    one_buffer_each()
    task.play("e@0 e@1 e@2")
    task.advance(5)
    assert metrics.bytes_processed_during_alignment == 6 * 80
    assert (metrics.start_delay_ms, metrics.alignment_ms) == (10, 10)
    assert (task.handler.start_delay_ms, task.handler.alignment_ms) == (10, 10)


@pytest.mark.flink("UnalignedCheckpointsTest.testMultiChannelTrailingInflightData")
def test_without_checkpoints_after_the_end_an_end_gives_up_the_pending_one() -> None:
    task = unaligned(3, after_finish=False)
    words = "d0@0 d1@1 d2@2 b1@1 b1@2 b1@0 d3@2 d4@1 d5@0 b2@1 d6@1 d7@1 e@1 d8@0 d9@2 b2@2 d10@2 e@2 d11@0 e@0"
    task.play(words)
    assert task.data_taken == data_of(words)
    assert task.last_started == 2
    assert task.triggered_ids == [1, 2]
    assert task.aborted == [f"2 {ENDED}"]
    assert task.in_flight() == []


@pytest.mark.flink("UnalignedCheckpointsTest.testMissingCancellationBarriers")
def test_a_cancel_of_a_newer_checkpoint_gives_up_the_pending_one() -> None:
    task = unaligned(2)
    task.play("b1@0 x2@0 x3@0 x3@1 d0@0 e@0 e@1")
    assert task.last_started == 1
    assert task.aborted == [f"2 {CANCELLED}", f"3 {CANCELLED}"]
    assert task.taken[-3:] == ["d0@0", "e@0", "e@1"]
    assert task.in_flight() == []


@pytest.mark.flink("UnalignedCheckpointsTest.testEarlyCleanup")
def test_nothing_is_written_once_a_checkpoint_was_given_up() -> None:
    task = unaligned(3, after_finish=False)
    task.play("d0@0 d1@1 d2@2 b1@1 b1@2 b1@0")
    assert (task.last_started, task.in_flight()) == (1, [])
    task.play("d3@2 d4@1 d5@0 b2@1 d6@1 d7@1 e@1 d8@0 d9@2 b2@2 d10@2 e@2 d11@0 e@0")
    assert (task.last_started, task.in_flight()) == (2, [])
    assert task.aborted == [f"2 {ENDED}"]


@pytest.mark.flink("UnalignedCheckpointsTest.testStartAlignmentWithClosedChannels")
def test_ended_channels_are_not_waited_for() -> None:
    task = unaligned(4)
    steps = [
        ("e@2 e@1 d0@0 d1@0 d2@3 b2@3 b2@0", 2, []),
        ("d3@3 d4@0 b3@3 d5@3 d6@0 b3@0", 3, ["3: d6@0"]),
        ("b4@0 b4@3", 4, []),
        ("d7@0 d8@0 d9@3 e@0", 4, []),
        ("d10@3 b5@3 d11@3 e@3", 5, []),
    ]
    for words, started, in_flight in steps:
        task.play(words)
        assert (task.last_started, task.in_flight()) == (started, in_flight)
    assert task.triggered_ids == [2, 3, 4, 5]
    assert [call for call in task.calls if call.startswith("all")] == ["all 2", "all 3", "all 4", "all 5"]


@pytest.mark.flink("UnalignedCheckpointsTest.testEndOfStreamWhileCheckpoint")
def test_the_end_of_the_last_missing_channel_completes_the_input() -> None:
    task = unaligned(3)
    task.play("b1@0 b1@1 b1@2")
    assert (task.last_started, task.in_flight()) == (1, [])
    task.play("d0@0 d1@0 d2@2 b2@2 b2@0 d3@0 d4@2 d5@1 e@2")
    assert task.calls[-1] == "trigger 2 UNALIGNED"
    task.play("e@1")
    assert task.calls[-1] == "all 2"
    task.play("d6@0 e@0")
    assert (task.last_started, task.in_flight()) == (2, ["2: d5@1"])


@pytest.mark.flink("UnalignedCheckpointsTest.testNotifyAbortCheckpointBeforeCancellingAsyncCheckpoint")
def test_the_task_hears_of_the_abort_while_the_barriers_are_still_waited_for() -> None:
    task = unaligned(2)
    waiting = []
    task.on_abort = lambda checkpoint_id: waiting.append(not task.handler.has_all_barriers(checkpoint_id))
    task.play("b1@0 x1@1")
    assert waiting == [True]
    assert task.handler.has_all_barriers(1)
    task.play("e@0 e@1")
    assert task.calls == ["start 1", "trigger 1 UNALIGNED", f"abort 1 {CANCELLED}"]


@pytest.mark.flink("UnalignedCheckpointsTest.testSingleChannelAbortCheckpoint")
def test_a_cancel_marker_alone_gives_up_what_has_not_begun() -> None:
    task = unaligned(1)
    task.play("d0@0 b1@0 d1@0 b2@0 x4@0")
    assert (task.last_started, task.aborted, task.in_flight()) == (2, [f"4 {CANCELLED}"], [])
    task.play("b5@0 d2@0 x6@0 d3@0 e@0")
    assert (task.last_started, task.aborted[1:], task.in_flight()) == (5, [f"6 {CANCELLED}"], [])
    assert task.data_taken == ["d0@0", "d1@0", "d2@0", "d3@0"]


@pytest.mark.flink("UnalignedCheckpointsTest.testMultiChannelAbortCheckpoint")
def test_a_cancel_marker_first_in_between_or_last() -> None:
    task = unaligned(3)
    steps = [
        ("d0@0 d1@2 d2@0 b1@1 b1@2 d3@2 d4@1 b1@0 d5@0 d6@2", [1], []),
        ("b2@0 b2@2 d0@0 d1@2 x2@1", [2], [f"2 {CANCELLED}"]),
        ("d0@2 d1@1 b3@1 b3@2 b3@0", [3], []),
        ("d0@0 d1@1 x4@1 b4@2 d2@0 b4@0", [], [f"4 {CANCELLED}"]),
        ("d0@0 d1@1 d2@2 b5@2 b5@1 b5@0 d3@0 d4@1", [5], []),
        ("x6@1 x6@2 b6@0 d0@0 e@0 e@1 e@2", [], [f"6 {CANCELLED}"]),
    ]
    for words, triggered, aborted in steps:
        task.calls.clear()
        task.taken.clear()
        task.play(words)
        assert (task.triggered_ids, task.aborted, task.in_flight()) == (triggered, aborted, [])
        assert task.data_taken == data_of(words)


@pytest.mark.flink("UnalignedCheckpointsTest.testProcessCancellationBarrierAfterProcessBarrier")
@pytest.mark.parametrize("cancelled", [1, 2])
def test_a_cancel_after_the_first_barrier_gives_up_the_pending_one(cancelled: int) -> None:
    task = unaligned(2)
    task.direct("b1@0")
    assert task.handler.pending_checkpoint_id == 1
    for number in (cancelled, cancelled + 1):
        task.direct(f"x{number}@0")
        assert task.handler.pending_checkpoint_id is None
        assert task.handler.current_checkpoint_id == number
        assert task.calls[-1] == f"abort {number} {CANCELLED}"


@pytest.mark.flink("UnalignedCheckpointsTest.testProcessCancellationBarrierBeforeProcessAndReceiveBarrier")
def test_a_barrier_behind_its_own_cancel_marker_begins_nothing() -> None:
    task = unaligned(1)
    for word in ("x1@0", "b1@0"):
        task.direct(word)
        assert task.handler.pending_checkpoint_id is None
        assert task.handler.current_checkpoint_id == 1
        assert task.calls == [f"abort 1 {CANCELLED}"]


@pytest.mark.flink("UnalignedCheckpointsTest.testEndOfStreamWithPendingCheckpoint")
def test_an_end_gives_up_the_pending_one_and_is_one_open_channel_fewer() -> None:
    task = unaligned(2, after_finish=False)
    task.direct("b1@0")
    assert task.handler.pending_checkpoint_id == 1
    assert len(task.gates.open_channels) == 2
    task.direct("e@0")
    assert task.handler.pending_checkpoint_id is None
    assert task.handler.current_checkpoint_id == 1
    assert len(task.gates.open_channels) == 1
    assert task.aborted == [f"1 {ENDED}"]


@pytest.mark.flink("UnalignedCheckpointsTest.testTriggerCheckpointsWithEndOfPartition")
def test_an_end_stands_in_for_the_missing_barrier() -> None:
    task = unaligned(3)
    task.play("b1@1 d1@0 b1@0 d3@1 e@2 e@0 e@1")
    assert task.calls == ["start 1", "trigger 1 UNALIGNED", "all 1"]
    assert task.in_flight() == ["1: d1@0"]


@pytest.mark.flink("UnalignedCheckpointsTest.testTriggerCheckpointsAfterReceivedEndOfPartition")
def test_checkpoints_go_on_with_the_channels_that_are_left() -> None:
    task = unaligned(3)
    task.play("e@0 b3@1 d2@1 d3@2 e@1 b3@2")
    assert task.in_flight() == ["3: d3@2"]
    assert (task.triggered_ids, task.aborted) == ([3], [])
    task.play("d0@2 b4@2 e@2")
    assert task.in_flight() == []
    assert (task.triggered_ids, task.aborted) == ([3, 4], [])


@pytest.mark.flink("UnalignedCheckpointsCancellationTest.test")
@pytest.mark.parametrize(
    ("channels", "words", "triggers", "aborts"),
    [
        (1, "x10 x20", False, True),
        (1, "x20 x10", False, True),
        (1, "x10 b10", False, True),
        (1, "x10 b20", True, True),
        (1, "x20 b10", False, True),
        (1, "b10 b10", True, False),
        (1, "b10 b20", True, False),
        (2, "b10 b20", True, True),
        (1, "b20 b10", True, False),
        (1, "b10 x10", True, False),
        (2, "b10 x10", True, True),
        (1, "b10 x20", True, True),
        (1, "b20 x10", True, False),
    ],
)
def test_barriers_and_cancel_markers_in_any_order(channels: int, words: str, triggers: bool, aborts: bool) -> None:
    task = unaligned(channels)
    task.direct(" ".join(f"{word}@0" for word in words.split()))
    assert bool(task.triggered) == triggers
    assert bool(task.aborted) == aborts


def test_a_newer_barrier_gives_up_the_pending_one_and_takes_its_own_data_along() -> None:
    task = unaligned(2)
    task.play("b1@0 d1@1 b2@0 d2@1 b1@1 d3@1 b2@1")
    assert task.aborted == [f"1 {SUBSUMED}"]
    assert task.triggered_ids == [1, 2]
    assert task.in_flight() == ["1: d1@1", "2: d2@1", "2: d3@1"]


def test_what_a_barrier_overtakes_in_the_queue_is_in_flight_and_still_taken_later() -> None:
    task = unaligned(2)
    task.put("d1@0 w5@0 d2@0 b1@0 d3@0 d4@1")
    assert task.take() == "b1@0"
    assert task.in_flight() == ["1: d1@0", "1: w5@0", "1: d2@0", "1: d4@1"]
    task.put("d5@1")
    assert task.in_flight() == ["1: d5@1"]
    task.put("b1@1 d6@1")
    assert task.in_flight() == []
    assert task.drain().split()[0] == "b1@1"
    assert sorted(task.data_taken) == ["d1@0", "d2@0", "d3@0", "d4@1", "d5@1", "d6@1"]
    assert task.in_flight() == []


def test_a_newer_barrier_that_came_meanwhile_subsumes_the_checkpoint_that_would_begin() -> None:
    task = unaligned(2)
    task.put("d1@0 b2@0")
    task.put("b1@1")
    task.gates._turn = 1
    assert task.take() == "b1@1"
    assert task.calls == ["start 1", "abort 1 CHECKPOINT_SUBSUMED"]
    assert task.in_flight() == []
    task.drain()
    assert task.triggered == ["2 UNALIGNED"]
    assert task.in_flight() == ["2: d1@0"]

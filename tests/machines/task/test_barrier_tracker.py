"""At least once: barriers are counted, nothing is blocked; Flink's own sequences.

A sequence is written as words: `b2@0` is the barrier of checkpoint 2 on channel 0, `x2@0` its cancel marker, `r@0` a
row, `e@0` the end of the channel. The outcome lists checkpoints as they are taken, aborted ones with a minus.
"""

from __future__ import annotations

import pytest

from kit.core.protocol.commands import WriteSnapshot
from kit.core.protocol.messages import DeclineCheckpoint
from kit.core.protocol.options import AlignmentType
from tests.machines.task.harness import TaskHarness, fan_in


def a_task(channels: int, **settings: object) -> TaskHarness:
    return TaskHarness(fan_in(channels, mode="at_least_once", **settings))


def play(task: TaskHarness, words: str, *, step_ms: int = 0) -> list[int]:
    """Let these arrive; returns the outcome. Nothing may ever wait."""
    for number_of_word, word in enumerate(words.split()):
        what, _, channel = word.partition("@")
        kind, number = what[0], int(what[1:] or 0)
        if kind == "b":
            task.barrier(number, int(channel), at=1_000, alignment=AlignmentType.AT_LEAST_ONCE)
        elif kind == "x":
            task.cancel_marker(number, int(channel))
        elif kind == "e":
            task.end(int(channel))
        else:
            task.rows(int(channel), {"k": "a", "n": number_of_word})
        assert task.blocked == []
        assert sum(task.queued) == 0
        task.at += step_ms
    return outcome(task)


def outcome(task: TaskHarness) -> list[int]:
    return [
        word.checkpoint_id if isinstance(word, WriteSnapshot) else -word.checkpoint_id
        for word in task.emitted
        if isinstance(word, WriteSnapshot | DeclineCheckpoint)
    ]


CASES = {
    "testSingleChannelNoBarriers": (1, "r@0 r@0 r@0", []),
    "testMultiChannelNoBarriers": (4, "r@2 r@2 r@0 r@1 r@0 r@3 r@1 r@1 r@2", []),
    "testSingleChannelWithBarriers": (1, "r@0 b1@0 r@0 b2@0 b3@0 r@0 b4@0 b5@0", [1, 2, 3, 4, 5]),
    "testSingleChannelWithSkippedBarriers": (1, "r@0 b1@0 b3@0 r@0 b4@0 b6@0 b7@0 b10@0", [1, 3, 4, 6, 7, 10]),
    "testMultiChannelWithBarriers": (
        3,
        "r@0 b1@1 b1@2 r@2 b1@0 r@0 b2@0 b2@1 b2@2 b3@2 r@0 b3@0 r@1 b3@1 b4@1 b4@2 b4@0 r@0",
        [1, 2, 3, 4],
    ),
    "testMultiChannelSkippingCheckpoints": (
        3,
        "r@0 b1@1 b1@2 r@1 b1@0 r@0 b2@0 b2@1 b2@2 r@2 b3@2 r@2 b4@0 r@0 b4@1 r@1 b4@2 r@0",
        [1, 2, 4],
    ),
    "testCompleteCheckpointsOnLateBarriers": (
        3,
        "b2@1 b2@0 b2@2 r@1 b3@1 b3@2 b4@2 b4@1 r@1 b3@0 r@0 b4@0 b5@1 b5@0 b5@2 b6@1 b6@0 b7@1 b7@2 r@2 b8@2 b8@1 "
        "b9@1 b7@0 b9@2 b10@2 b8@0 r@1 b9@0 r@2 b10@0 b10@1",
        [2, 3, 4, 5, 7, 8, 9, 10],
    ),
    "testSingleChannelAbortCheckpoint": (
        1,
        "r@0 b1@0 r@0 b2@0 x4@0 b5@0 r@0 x6@0 r@0",
        [1, 2, -4, 5, -6],
    ),
    "testMultiChannelAbortCheckpoint": (
        3,
        "b1@1 b1@2 r@1 b1@0 b2@0 b2@2 r@0 x2@1 b3@1 b3@2 b3@0 x4@1 b4@2 r@0 b4@0 b5@2 b5@1 b5@0 x6@1 x6@2 b6@0 r@0",
        [1, -2, 3, -4, 5, -6],
    ),
    "testInterleavedCancellationBarriers": (3, "b1@0 x2@0 x1@1 x2@1 x1@2 x2@2 r@0", [-1, -2]),
    "testTriggerCheckpointsWithEndOfPartition": (3, "b1@0 b2@0 b2@1 b3@0 b4@0 b4@1 b5@1 e@2", [4]),
    "testTriggerCheckpointsAfterReceivedEndOfPartition": (3, "e@2 b5@0 b6@0 b6@1 e@1 b7@0", [6, 7]),
    "testNoFastPathWithChannelFinishedDuringCheckpoints": (2, "b1@0 e@0 b1@1", [1]),
    "testCompleteAndRemoveAbortedCheckpointWithEndOfPartition": (3, "x4@0 b4@1 b5@1 e@2", [-4]),
    "testAbortCheckpointsAfterEndOfPartitionReceived": (3, "e@2 b5@0 b6@0 x6@1 e@1 x7@0", [-5, -6, -7]),
    "testNoFastPathWithChannelFinishedDuringCheckpointsCancel": (2, "b1@0 e@0 x1@1", [-1]),
}


@pytest.mark.flink(
    "CheckpointBarrierTrackerTest.testSingleChannelNoBarriers",
    "CheckpointBarrierTrackerTest.testMultiChannelNoBarriers",
    "CheckpointBarrierTrackerTest.testSingleChannelWithBarriers",
    "CheckpointBarrierTrackerTest.testSingleChannelWithSkippedBarriers",
    "CheckpointBarrierTrackerTest.testMultiChannelWithBarriers",
    "CheckpointBarrierTrackerTest.testMultiChannelSkippingCheckpoints",
    "CheckpointBarrierTrackerTest.testCompleteCheckpointsOnLateBarriers",
    "CheckpointBarrierTrackerTest.testSingleChannelAbortCheckpoint",
    "CheckpointBarrierTrackerTest.testMultiChannelAbortCheckpoint",
    "CheckpointBarrierTrackerTest.testInterleavedCancellationBarriers",
    "CheckpointBarrierTrackerTest.testTriggerCheckpointsWithEndOfPartition",
    "CheckpointBarrierTrackerTest.testTriggerCheckpointsAfterReceivedEndOfPartition",
    "CheckpointBarrierTrackerTest.testNoFastPathWithChannelFinishedDuringCheckpoints",
    "CheckpointBarrierTrackerTest.testCompleteAndRemoveAbortedCheckpointWithEndOfPartition",
    "CheckpointBarrierTrackerTest.testAbortCheckpointsAfterEndOfPartitionReceived",
    "CheckpointBarrierTrackerTest.testNoFastPathWithChannelFinishedDuringCheckpointsCancel",
)
@pytest.mark.parametrize(("channels", "words", "expected"), CASES.values(), ids=CASES)
def test_sequence(channels: int, words: str, expected: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    task = a_task(channels)
    seen: list[int] = []
    head = task.machine.chain.links[0].operator
    monkeypatch.setattr(head, "process_batch", lambda batch, input_index=0: seen.extend(batch.column("n").to_pylist()))
    assert play(task, words) == expected
    assert seen == [number for number, word in enumerate(words.split()) if word.startswith("r")]


@pytest.mark.flink(
    "CheckpointBarrierTrackerTest.testCompleteAndRemoveAbortedCheckpointWithEndOfPartition",
    "CheckpointBarrierTrackerTest.testTriggerCheckpointsWithEndOfPartition",
)
@pytest.mark.parametrize("words", ["x4@0 b4@1 b5@1 e@2", "b4@0 b4@1 b5@1 e@2"])
def test_only_what_still_misses_barriers_is_counted_on(words: str) -> None:
    task = a_task(3)
    play(task, words)
    assert task.machine.barriers.pending_checkpoint_id == 5
    assert repr(task.machine.barriers) == "CheckpointBarrierTracker(latest 5, 1 being counted)"


@pytest.mark.flink("CheckpointBarrierTrackerTest.testDeduplicateChannelsWithBothBarrierAndEndOfPartition")
def test_barrier_and_end_of_one_channel_count_once() -> None:
    task = a_task(3)
    assert play(task, "b2@0 b2@1 e@1") == []
    assert play(task, "b2@2") == [2]


@pytest.mark.flink("CheckpointBarrierTrackerTest.testMetrics")
def test_records_behind_a_barrier_are_processed_and_alignment_is_measured() -> None:
    task = a_task(3)
    task.at = 1_010
    play(task, "r@0 b1@1 r@1 r@2 b1@0 r@2 b1@2", step_ms=10)
    task.write(1)
    (ack,) = task.acknowledged()
    assert (ack.metrics.start_delay_ms, ack.metrics.alignment_ms) == (20, 50)


@pytest.mark.flink("CheckpointBarrierTrackerTest.testSingleChannelMetrics")
def test_one_channel_aligns_in_no_time() -> None:
    task = a_task(1)
    task.at = 1_025
    play(task, "r@0 b1@0")
    task.write(1)
    (ack,) = task.acknowledged()
    assert (ack.metrics.start_delay_ms, ack.metrics.alignment_ms) == (25, 0)


@pytest.mark.flink("CheckpointBarrierTrackerTest.testTwoLastBarriersOneByOne")
def test_of_two_that_overlap_the_newer_one_is_measured_from_its_own_first_barrier() -> None:
    task = a_task(2)
    play(task, "b1@1 b2@1 r@1 b1@0 r@0 r@0 b2@0", step_ms=1_000)
    task.write(1)
    task.write(2)
    assert [ack.metrics.alignment_ms for ack in task.acknowledged()] == [0, 5_000], "one is measured at a time"


@pytest.mark.flink(
    "CheckpointBarrierTrackerTest.testTwoLastBarriersOneByOne",
    "CheckpointBarrierTrackerTest.testNextFirstCheckpointBarrierOvertakesCancellationBarrier",
)
@pytest.mark.parametrize("words", ["b1@1 b2@1 b1@0 b2@0", "b1@1 b2@1 x1@0 b2@0"])
def test_the_alignment_of_the_newer_one_is_measured_from_its_own_first_barrier(words: str) -> None:
    task = a_task(2)
    play(task, words, step_ms=1_000)
    task.write(2)
    assert task.acknowledged()[-1].metrics.alignment_ms == 2_000


def test_without_checkpoints_after_the_end_an_end_gives_everything_up() -> None:
    task = a_task(3, checkpoints_after_tasks_finish=False)
    assert play(task, "b1@0 b2@0 e@1") == [-1, -2]


def test_old_barriers_are_dropped_and_not_too_many_are_counted() -> None:
    task = a_task(2)
    play(task, " ".join(f"b{number}@0" for number in range(1, 60)))
    assert play(task, "b1@1") == []
    assert play(task, "b59@1") == [59]


def test_of_several_that_are_counted_the_newest_is_pending_with_the_channels_it_awaits() -> None:
    task = a_task(3)
    assert play(task, "b1@0 b1@1 b2@0 b3@2") == []
    handler = task.machine.barriers
    assert handler.pending_checkpoint_id == 3
    assert [channel.number for channel in handler.awaited_channels] == [0, 1]
    assert play(task, "b3@0 b3@1") == [3]
    assert (handler.pending_checkpoint_id, handler.awaited_channels) == (None, [])

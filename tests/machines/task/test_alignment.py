"""Aligned barriers: which channels wait, when a checkpoint is taken, and when one is given up."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.core.protocol.commands import WriteSnapshot
from kit.core.protocol.elements import Buffer, CancelCheckpointMarker, CheckpointBarrier, EndOfData, EndOfPartition
from kit.core.protocol.messages import AcknowledgeCheckpoint
from kit.machines.channel.input_channel import InputChannel
from tests.machines.task.barrier_harness import BarrierHarness
from tests.machines.task.harness import SUSPEND, TaskHarness, buffer, fan_in, options

SUBSUMED = "CHECKPOINT_DECLINED_SUBSUMED"
CANCELLED = "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER"
ENDED = "CHECKPOINT_DECLINED_INPUT_END_OF_STREAM"


def a_task(senders: int = 3, **settings: Any) -> TaskHarness:
    return TaskHarness(fan_in(senders, **settings))


def totals(task: TaskHarness) -> int:
    """The rows that the task has counted."""
    table = task.machine.chain.link(task.head_id).keyed_state._tables["totals"]
    return sum(row["rows"] for row in table.get(table.entries()).to_pylist())


@pytest.mark.flink("AlignedCheckpointsTest.testSingleChannelNoBarriers")
@pytest.mark.flink("AlignedCheckpointsTest.testMultiChannelNoBarriers")
@pytest.mark.parametrize(
    ("senders", "arrivals"),
    [(1, [0, 0, 0, None]), (4, [2, 2, 0, 1, 0, None, 3, 1, -3, 1, -1, 2, -2])],
    ids=["one channel", "several"],
)
def test_without_barriers_records_pass_at_once_in_the_order_of_their_arrival(
    senders: int, arrivals: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number is a record on that channel, a negative one the channel's end, None the end of channel 0."""
    monkeypatch.setattr(InputChannel, "block", lambda channel: pytest.fail(f"{channel!r} was blocked"))
    task = a_task(senders)
    head = task.machine.chain.links[0].operator
    seen: list[int] = []
    monkeypatch.setattr(head, "process_batch", lambda batch, input_index=0: seen.extend(batch.column("n").to_pylist()))
    for number, channel in enumerate(arrivals):
        task.at += 10
        if channel is None or channel < 0:
            task.end(-(channel or 0))
        else:
            task.rows(channel, {"k": "a", "n": number})
            assert seen[-1] == number, "it does not wait"
    assert seen == [number for number, channel in enumerate(arrivals) if channel is not None and channel >= 0]
    assert task.triggered() == []
    assert task.machine.barriers.alignment_ms == 0


@pytest.mark.flink("AlignedCheckpointsTest.testSingleChannelWithBarriers")
def test_one_channel_never_waits() -> None:
    task = a_task(1)
    for checkpoint_id in (1, 2, 5):
        task.rows(0)
        task.barrier(checkpoint_id, 0)
        assert task.blocked == []
    assert task.triggered() == [1, 2, 5]
    assert totals(task) == 3


@pytest.mark.flink("AlignedCheckpointsTest.testMultiChannelWithBarriers")
def test_a_channel_waits_from_its_barrier_to_the_last_one() -> None:
    task = a_task()
    task.barrier(1, 1)
    assert task.blocked == [1]
    task.rows(1)
    task.rows(0)
    assert task.queued == [0, 1, 0]
    assert totals(task) == 1
    task.barrier(1, 2)
    assert task.blocked == [1, 2]
    assert task.triggered() == []
    task.barrier(1, 0)
    assert task.triggered() == [1]
    assert task.blocked == []
    assert task.queued == [0, 0, 0]
    assert totals(task) == 2


def test_what_waits_behind_a_barrier_is_not_in_the_snapshot() -> None:
    task = a_task(2)
    task.rows(0)
    task.barrier(1, 0)
    task.rows(0)
    at_barrier = totals(task)
    task.barrier(1, 1)
    assert at_barrier == 1
    assert totals(task) == 2


@pytest.mark.flink("AlignedCheckpointsTest.testMultiChannelJumpingOverCheckpoint")
def test_a_newer_barrier_gives_the_current_alignment_up() -> None:
    task = a_task(checkpoints_after_tasks_finish=False)
    task.barrier(1, 1, 2, 0)
    assert task.triggered() == [1]
    task.barrier(2, 1, 0)
    assert task.blocked == [0, 1]
    task.barrier(3, 2)
    assert task.declined() == [(2, SUBSUMED)]
    assert task.blocked == [2]
    task.barrier(3, 0)
    task.barrier(4, 1)
    assert task.declined() == [(3, SUBSUMED)]
    assert task.blocked == [1]
    task.end(0)
    assert task.declined() == [(4, ENDED)]
    assert task.blocked == []
    task.end(2, 1)
    assert task.triggered() == []
    assert task.declined() == []


@pytest.mark.flink("AlignedCheckpointsTest.testMetrics")
@pytest.mark.flink("AlignedCheckpointsTest.testSingleChannelWithBarriers")
def test_alignment_and_start_delay_are_measured() -> None:
    task = a_task(2)
    task.at = 1_100
    task.barrier(1, 0, at=1_000)
    task.at = 1_130
    task.barrier(1, 1, at=1_000)
    task.at = 1_200
    task.write(1)
    (ack,) = task.acknowledged()
    assert (ack.metrics.start_delay_ms, ack.metrics.alignment_ms, ack.metrics.async_ms) == (100, 30, 70)
    assert ack.metrics.unaligned is False


def test_one_channel_aligns_in_no_time() -> None:
    task = a_task(1)
    task.at = 1_040
    task.barrier(1, 0, at=1_000)
    task.write(1)
    assert (task.take(AcknowledgeCheckpoint)[0].metrics.alignment_ms) == 0


@pytest.mark.flink("AlignedCheckpointsTest.testMissingCancellationBarriers")
def test_a_cancel_of_a_newer_checkpoint_ends_the_older_one_too() -> None:
    task = a_task(2)
    task.barrier(1, 0)
    task.cancel_marker(3, 1)
    assert task.declined() == [(3, CANCELLED)]
    assert task.blocked == []
    task.cancel_marker(2, 0)
    task.cancel_marker(3, 0)
    task.rows(0)
    assert task.declined() == []
    assert task.triggered() == []
    assert totals(task) == 1


@pytest.mark.flink("AlignedCheckpointsTest.testStartAlignmentWithClosedChannels")
@pytest.mark.flink("AlignedCheckpointsTest.testTriggerCheckpointsAfterReceivedEndOfPartition")
def test_ended_channels_are_not_waited_for() -> None:
    task = a_task(4)
    task.end(2, 1)
    task.barrier(2, 3)
    assert task.blocked == [3]
    task.barrier(2, 0)
    assert task.triggered() == [2]
    task.end(3)
    task.barrier(3, 0)
    task.barrier(4, 0)
    assert task.triggered() == [3, 4]


@pytest.mark.flink("AlignedCheckpointsTest.testEndOfStreamWhileCheckpoint")
@pytest.mark.flink("AlignedCheckpointsTest.testTriggerCheckpointsWithEndOfPartition")
def test_the_end_of_the_last_missing_channel_ends_the_alignment() -> None:
    task = a_task()
    task.barrier(1, 0, 1, 2)
    task.barrier(2, 2, 0)
    task.rows(2)
    assert task.blocked == [0, 2]
    task.rows(1)
    task.end(1)
    assert task.triggered() == [1, 2]
    assert task.blocked == []
    assert totals(task) == 2


@pytest.mark.flink("AlignedCheckpointsTest.testDeduplicateChannelsWithBothBarrierAndEndOfPartition")
@pytest.mark.parametrize("kind", ["aligned", "unaligned", "alternating"])
def test_barrier_and_end_of_one_channel_count_once(kind: str) -> None:
    """Barriers of the JobMaster block no channel; behind a barrier from a sender the end is kept back."""
    job = BarrierHarness(3, kind)
    barrier, channels = job.barrier(2), job.gates.channels
    for channel in channels[:2]:
        job.handler.process_barrier(barrier, channel, is_rpc=True)
    job.direct("e@1")
    assert job.handler.pending_checkpoint_id == 2
    assert job.handler.awaited_channels == [channels[2]]
    assert "all 2" not in job.calls
    assert job.triggered_ids == [2] * (kind == "unaligned"), "an unaligned one is taken at its first barrier"
    job.handler.process_barrier(barrier, channels[2], is_rpc=True)
    assert job.triggered_ids == [2]
    assert job.calls[-1] == "all 2"
    assert job.handler.pending_checkpoint_id is None


def test_the_end_behind_a_barrier_whose_alignment_timed_out_counts_once() -> None:
    job = BarrierHarness(3, "alternating")
    job.play("t2@0 t2@1")
    job.advance(job.timeout_ms + 1)
    job.play("e@1")
    assert job.triggered == ["2 UNALIGNED"]
    assert "all 2" not in job.calls
    job.play("u2@2")
    assert job.triggered_ids == [2]
    assert job.calls[-1] == "all 2"


def test_the_end_behind_a_barrier_waits_for_the_others() -> None:
    task = a_task()
    task.barrier(2, 0)
    task.receive(0, EndOfData(True), EndOfPartition())
    assert task.blocked == [0]
    task.end(1)
    assert task.triggered() == []
    task.barrier(2, 2)
    assert task.triggered() == [2]
    assert [channel.number for channel in task.machine.inputs.open_channels] == [task.machine.inputs.channels[2].number]


@pytest.mark.flink("AlignedCheckpointsTest.testSingleChannelAbortCheckpoint")
def test_a_cancel_marker_alone_declines_and_is_passed_on() -> None:
    task = TaskHarness(fan_in(1, chaining=False))
    task.barrier(1, 0)
    task.barrier(2, 0)
    task.cancel_marker(4, 0)
    task.barrier(5, 0)
    task.cancel_marker(6, 0)
    assert task.declined() == [(4, CANCELLED), (6, CANCELLED)]
    assert task.triggered() == [1, 2, 5]
    assert [(type(element), element.checkpoint_id) for element in task.sent()] == [
        (CheckpointBarrier, 1),
        (CheckpointBarrier, 2),
        (CancelCheckpointMarker, 4),
        (CheckpointBarrier, 5),
        (CancelCheckpointMarker, 6),
    ]


@pytest.mark.flink("AlignedCheckpointsTest.testMultiChannelAbortCheckpoint")
@pytest.mark.flink("AlignedCheckpointsTest.testAbortOnCanceledBarriers")
@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_cancel_marker_first_in_between_or_last_frees_all_channels(position: int) -> None:
    task = a_task()
    channels = [0, 1, 2]
    cancelling = channels.pop(position)
    for number, channel in enumerate((*channels[:position], cancelling, *channels[position:])):
        if number == position:
            task.cancel_marker(1, cancelling)
            assert task.blocked == []
        else:
            task.barrier(1, channel)
    assert task.declined() == [(1, CANCELLED)]
    assert task.blocked == []
    task.barrier(2, 0)
    assert task.declined() == []
    task.barrier(2, 1, 2)
    assert task.triggered() == [2]


def test_repeated_cancel_markers_decline_once() -> None:
    task = a_task()
    task.cancel_marker(6, 1, 2)
    task.barrier(6, 0)
    assert task.declined() == [(6, CANCELLED)]
    assert task.blocked == []


@pytest.mark.flink("AlignedCheckpointsTest.testIgnoreCancelBarrierIfCheckpointSubsumed")
def test_a_cancel_of_a_subsumed_checkpoint_is_ignored() -> None:
    task = a_task()
    task.barrier(1, 0)
    task.barrier(2, 1)
    task.cancel_marker(1, 2)
    assert task.declined() == [(1, SUBSUMED)]
    task.barrier(2, 0, 2)
    assert task.triggered() == [2]
    assert task.declined() == []


def test_barriers_of_older_and_of_taken_checkpoints_are_dropped() -> None:
    task = a_task(2)
    task.barrier(3, 0, 1)
    task.barrier(2, 0)
    task.barrier(3, 1)
    assert task.blocked == []
    assert task.triggered() == [3]


@pytest.mark.flink("AlignedCheckpointsTest.testMultiChannelWithBarriers")
def test_channels_of_all_gates_are_aligned_together() -> None:
    task = TaskHarness(fan_in(2, sources=2))
    assert [channel.info.gate_idx for channel in task.machine.inputs] == [0, 0, 1, 1]
    task.barrier(1, 3, 0, 1)
    assert task.blocked == [0, 1, 3]
    assert task.triggered() == []
    task.barrier(1, 2)
    assert task.triggered() == [1]


def test_a_savepoint_aligns_like_a_checkpoint() -> None:
    task = a_task(2)
    task.barrier(1, 0, kind=SUSPEND)
    assert task.blocked == [0]
    task.barrier(1, 1, kind=SUSPEND)
    assert task.triggered() == [1]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_order_of_barriers_does_not_matter(order: tuple[int, ...]) -> None:
    task = a_task()
    for number in range(3):
        task.rows(order[number])
        task.barrier(1, order[number])
    (command,) = task.take(WriteSnapshot)
    assert command.checkpoint_id == 1
    assert totals(task) == 3


STREAMS = st.lists(
    st.lists(st.sampled_from(["row", "row", "barrier", "cancel", "skip"]), max_size=12), min_size=1, max_size=4
)


@pytest.mark.flink("AlignedCheckpointsMassiveRandomTest.testWithTwoChannelsAndRandomBarriers")
@given(STREAMS, st.randoms(use_true_random=False))
@settings(max_examples=80)
def test_random_barriers_never_leave_anything_blocked_or_behind(streams: list[list[str]], random: Any) -> None:
    task = a_task(len(streams))
    waiting, rows = [], 0
    for channel, stream in enumerate(streams):
        elements: list[Any] = []
        for number, word in enumerate(stream, 1):
            if word == "row":
                rows += 1
                elements.append(buffer())
            elif word == "barrier":
                elements.append(CheckpointBarrier(number, 0, options()))
            elif word == "cancel":
                elements.append(CancelCheckpointMarker(number))
        waiting.append((channel, [*elements, EndOfData(True), EndOfPartition()]))
    while waiting:
        channel, elements = random.choice(waiting)
        channel_state = task.machine.inputs.channels[channel]
        if isinstance(elements[0], Buffer) and not channel_state.credits_granted:
            assert channel_state.blocked
            others = [each for each in waiting if each[0] != channel]
            channel, elements = random.choice(others)
            if isinstance(elements[0], Buffer) and not task.machine.inputs.channels[channel].credits_granted:
                continue
        task.receive(channel, elements.pop(0))
        waiting = [each for each in waiting if each[1]]
    assert task.blocked == []
    assert task.queued == [0] * len(streams)
    assert (totals(task) if rows else 0) == rows
    taken, declined = task.triggered(), [checkpoint_id for checkpoint_id, _ in task.declined()]
    assert taken == sorted(set(taken))
    assert not set(taken) & set(declined)

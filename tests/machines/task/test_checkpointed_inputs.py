"""Inputs and barriers together: what is written of a channel and when, recovery, and a task that leaves."""

from __future__ import annotations

from typing import Any

import pytest

from kit.core.protocol.elements import Buffer, CheckpointBarrier, Element, EndOfChannelState, Watermark
from kit.core.protocol.events import ElementReceived, ProcessInput, TimerFired
from kit.core.protocol.messages import CancelTask
from kit.core.protocol.options import AlignmentType
from kit.core.protocol.words import ProtocolError
from kit.machines.channel.input_gate import InputGates
from kit.machines.task.barrier_handlers import create_barrier_handler
from kit.machines.task.stream_task import ALIGNMENT_TIMEOUT
from kit.machines.task.upstream_recovery import UpstreamRecoveryTracker
from kit.stream.settings.job_settings import CheckpointConfig
from tests.machines.task.barrier_harness import BarrierHarness
from tests.machines.task.harness import TaskHarness, fan_in, options


def written(task: BarrierHarness) -> list[int]:
    """Return the number of buffers of each channel that were written for checkpoint 2 so far."""
    assert all(entry.startswith("2: d") for entry in task.written)
    return [sum(entry.endswith(f"@{channel}") for entry in task.written) for channel in range(3)]


@pytest.mark.flink("CheckpointedInputGateTest.testPersisting")
@pytest.mark.flink("CheckpointedInputGateTest.testPersistingWithDrainingTheGate")
@pytest.mark.parametrize("drain", [False, True])
def test_of_each_channel_what_comes_before_its_barrier_is_written(drain: bool) -> None:
    """Barriers of an obsolete checkpoint, which come too, are no hindrance."""
    task = BarrierHarness(3, "alternating")
    task.put("d1@0 u2@0 d2@0 d1@1 u1@1 d2@1 d1@2")
    assert task.triggered == []
    assert task.take() == "b2@0"
    assert task.triggered == ["2 UNALIGNED"]
    assert written(task) == [1, 2, 1]
    for words, expected in (
        ("d3@0 d3@1 d2@2", [1, 3, 2]),
        ("u2@1 d4@1 u1@2 d3@2", [1, 3, 3]),
        ("u2@2 d4@2", [1, 3, 3]),
    ):
        task.put(words)
        if drain:
            task.drain()
        assert written(task) == expected
    task.drain()
    assert written(task) == [1, 3, 3]
    assert task.calls == ["start 2", "trigger 2 UNALIGNED", "all 2"]


@pytest.mark.flink("CheckpointedInputGateTest.testUpstreamResumedUponEndOfRecovery")
def test_all_channels_go_on_when_the_last_has_delivered_its_recovered_data() -> None:
    gates = InputGates([[(number, f"in/{number}") for number in range(11)]])
    tracker = UpstreamRecoveryTracker(gates.channels)
    for channel in gates.channels[:-1]:
        channel.receive(EndOfChannelState())
        channel.receive(Watermark(1))
        assert gates.next_channel() is channel
        assert channel.take()[0] == EndOfChannelState()
        tracker.handle_end_of_recovery(channel)
        gates.validate()
        assert not gates.available
        assert not tracker.all_channels_recovered
    with pytest.raises(ProtocolError, match="in/0 ended its recovered data twice"):
        tracker.handle_end_of_recovery(gates.channels[0])
    last = gates.channels[-1]
    last.receive(EndOfChannelState())
    assert last.take()[0] == EndOfChannelState()
    tracker.handle_end_of_recovery(last)
    assert tracker.all_channels_recovered
    assert [channel.available for channel in gates] == [True] * 10 + [False]


def test_a_task_holds_live_records_back_until_all_recovered_ones_have_come() -> None:
    task = TaskHarness(fan_in(2))
    task.receive(0, EndOfChannelState())
    task.rows(0)
    assert task.queued == [1, 0]
    task.rows(1)
    task.receive(1, EndOfChannelState())
    assert task.queued == [0, 0]


def an_unaligned_task(senders: int = 1) -> TaskHarness:
    """A task of a job with unaligned checkpoints."""
    return TaskHarness(fan_in(senders, unaligned=True, aligned_timeout_ms=100))


def a_barrier(task: TaskHarness, **settings: Any) -> CheckpointBarrier:
    return CheckpointBarrier(1, task.at, options(**settings))


@pytest.mark.flink("CheckpointedInputGateTest.testPriorityBeforeClose")
@pytest.mark.parametrize("cancelled_first", [True, False])
def test_a_task_that_leaves_takes_no_priority_element_any_more(cancelled_first: bool) -> None:
    task = an_unaligned_task()
    task.receive(0, a_barrier(task, alignment=AlignmentType.UNALIGNED), run=False)
    if not cancelled_first:
        task.run()
    task.to_task(CancelTask)
    assert not task.machine.available
    task.give(ProcessInput())
    assert task.triggered() == ([] if cancelled_first else [1])


def test_priority_elements_are_taken_while_the_outputs_are_full() -> None:
    task = TaskHarness(fan_in(1, chaining=False, unaligned=True), credits=False)
    while task.machine.outputs.writable:
        task.rows(0)
    task.rows(0)
    assert not task.machine.available
    task.receive(0, a_barrier(task, alignment=AlignmentType.UNALIGNED), run=False)
    assert task.machine.available
    task.give(ProcessInput())
    assert task.triggered() == [1]
    assert not task.machine.available
    assert task.queued == [1]


@pytest.mark.flink("UnalignedCheckpointsInterruptibleTimersTest.testWatermarkProgressWithNoTimers")
def test_watermarks_pass_at_once_where_no_timer_is_set() -> None:
    task = TaskHarness(fan_in(1, chaining=False, unaligned=True))
    for timestamp_ms in (1_000, 2_000):
        task.watermark(0, timestamp_ms)
        assert task.sent() == [Watermark(timestamp_ms)]


def test_the_timer_of_an_alignment_reaches_the_handler() -> None:
    task = an_unaligned_task(2)
    barrier = a_barrier(task, aligned_timeout_ms=100)
    task.give(ElementReceived(channel=task.machine.inputs.channels[0].number, element=barrier))
    task.give(ProcessInput())
    (timer,) = [word for word in task.emitted if type(word).__name__ == "ScheduleTimer"]
    assert (timer.timer, timer.due_ms) == (ALIGNMENT_TIMEOUT, task.at + 100)
    task.at += 100
    task.give(TimerFired(timer=ALIGNMENT_TIMEOUT))
    assert repr(task.machine.barriers.state) == "AlternatingWaitingForFirstBarrierUnaligned"
    task.receive(1, barrier, run=False)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"mode": "at_least_once"}, "CheckpointBarrierTracker"),
        ({}, "SingleCheckpointBarrierHandler(WaitingForFirstBarrier"),
        ({"unaligned": True}, "SingleCheckpointBarrierHandler(AlternatingWaitingForFirstBarrier,"),
        (
            {"unaligned": True, "aligned_timeout_ms": 50},
            "SingleCheckpointBarrierHandler(AlternatingWaitingForFirstBarrier,",
        ),
    ],
)
def test_the_settings_choose_the_handler(settings: dict[str, Any], expected: str) -> None:
    task = BarrierHarness(2, "aligned")
    assert repr(create_barrier_handler(CheckpointConfig(**settings), task.gates, task)).startswith(expected)


@pytest.mark.flink("AlignedCheckpointsTest.testMetrics")
@pytest.mark.flink("CheckpointBarrierTrackerTest.testMetrics")
@pytest.mark.parametrize(("kind", "processed"), [("aligned", 3), ("tracker", 6)])
def test_bytes_processed_during_the_alignment_are_counted(kind: str, processed: int) -> None:
    """In an aligned checkpoint, only open channels count: data behind a barrier waits."""
    task = BarrierHarness(3, kind)
    barrier = task.barrier(1)
    task.advance(10)
    task.play("d0@0 d0@1 d0@2")
    task.send(1, barrier)
    task.play("d0@0 d0@1 d0@2")
    task.send(0, barrier)
    task.play("d0@0 d0@1 d0@2")
    task.advance(20)
    task.send(2, barrier)
    task.play("d0@0 d0@1 d0@2")
    metrics = task.metrics[1].build()
    assert metrics.bytes_processed_during_alignment == 8 * processed
    assert (metrics.start_delay_ms, metrics.alignment_ms) == (10, 20)
    assert not task.handler.is_during_alignment


@pytest.mark.flink("CheckpointBarrierTrackerTest.testSingleChannelMetrics")
@pytest.mark.flink("AlignedCheckpointsTest.testSingleChannelWithBarriers")
@pytest.mark.parametrize("kind", ["aligned", "tracker"])
def test_one_channel_aligns_in_no_time_and_processes_nothing_meanwhile(kind: str) -> None:
    task = BarrierHarness(1, kind)
    barrier = task.barrier(1)
    task.advance(25)
    task.play("d0@0")
    task.send(0, barrier)
    task.play("d0@0")
    metrics = task.metrics[1].build()
    assert (metrics.alignment_ms, metrics.bytes_processed_during_alignment) == (0, 0)
    assert metrics.start_delay_ms == task.handler.start_delay_ms == 25
    assert task.handler.alignment_ms == 0


def test_only_the_newest_alignment_is_measured_at_least_once() -> None:
    task = BarrierHarness(2, "tracker")
    for word in ("b1@0", "b2@0", "b1@1", "b2@1"):
        task.play(word)
        task.advance(1_000)
    assert task.triggered_ids == [1, 2]
    assert [task.metrics[number].alignment_ms for number in (1, 2)] == [0, 2_000]
    assert [channel.number for channel in task.handler.awaited_channels] == []


def test_a_task_that_only_aligns_refuses_an_unaligned_barrier() -> None:
    task = BarrierHarness(2, "aligned")
    with pytest.raises(ProtocolError, match=r"in/0 sent .* to a task that only aligns"):
        task.direct("u1@0")
    with pytest.raises(ProtocolError, match="checkpoint 9 has not begun"):
        task.handler.has_all_barriers(9)


def test_a_checkpoint_that_the_job_master_triggers_closes_no_channel() -> None:
    task = BarrierHarness(2, "aligned")
    for channel in task.gates:
        task.handler.process_barrier(task.barrier(1), channel, is_rpc=True)
        task.handler.validate()
        assert task.blocked == []
    assert task.triggered == ["1 ALIGNED"]


def test_announcements_are_not_among_the_elements_that_wait() -> None:
    task = BarrierHarness(1, "alternating")
    task.put("d1@0 t1@0 d2@0")
    (channel,) = task.gates
    assert [type(element) for element in channel.queue] == [Buffer, CheckpointBarrier, Buffer]
    assert (channel.queued_buffers, channel.queued_bytes, channel.held) == (2, 16, 1)
    elements: list[Element] = [channel.take()[0] for _ in range(2)]
    assert isinstance(elements[1], Buffer)
    with pytest.raises(ProtocolError, match="holds no announced barrier with the number 7"):
        channel.convert_to_priority_event(7)
    channel.convert_to_priority_event(1)
    assert channel.has_priority
    with pytest.raises(ProtocolError, match="has priority already"):
        channel.convert_to_priority_event(1)

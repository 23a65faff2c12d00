"""A record in fragments, in one task: its credits, the checkpoints that begin in its middle, and what never does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from kit.core.protocol.commands import SendElement
from kit.core.protocol.elements import (
    Buffer,
    CheckpointBarrier,
    DataElement,
    Element,
    EndOfChannelState,
    EndOfData,
    EndOfPartition,
    RecordFragment,
    Watermark,
)
from kit.core.protocol.events import CreditReceived, ElementReceived, ProcessInput, TimerFired
from kit.core.protocol.messages import SubmitChannelState
from kit.core.protocol.options import AlignmentType
from kit.core.protocol.words import ProtocolError
from kit.machines.channel.channel_state.channel_state_requests import WriteInputRequest, WriteOutputRequest
from kit.machines.channel.record_writer import RecordWriter
from kit.machines.task.stream_task import ALIGNMENT_TIMEOUT
from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.settings.job_settings import CheckpointConfig
from tests.machines.task.harness import SCHEMA, TaskHarness, options

BUFFER_BYTES = 400
LONG = pa.RecordBatch.from_pylist([{"k": "a" * 1_000, "n": 1}], schema=SCHEMA)
FRAGMENTS = RecordWriter(BUFFER_BYTES).elements(LONG)
CREDITS = len(FRAGMENTS)
UNALIGNED = AlignmentType.UNALIGNED


def job() -> StreamEnvironment:
    """Return `rows` x2 -> `same` x1 -> `out` x1: every task by itself, every edge one that barriers may overtake on."""
    env = StreamEnvironment(
        "fragments",
        max_parallelism=16,
        chaining=False,
        checkpoint=CheckpointConfig(interval_ms=1_000, unaligned=True),
        buffer_bytes=BUFFER_BYTES,
        channel_credits=CREDITS,
    )
    rows = env.from_source(CollectionSource([], SCHEMA), uid="rows").set_parallelism(2)
    rows.rebalance().map(dict).uid("same").rebalance().sink_to(CollectSink("out"), uid="out")
    return env


class Task(TaskHarness):
    """The task `same/0`; tests put elements into its channels, and say how many it takes."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(job(), "same/0", **settings)
        self.emitted.clear()

    def put(self, channel: int, *elements: Element, turns: int = 0) -> None:
        """Let elements arrive, and give the task this many turns."""
        self.receive(channel, *elements, run=False)
        for _ in range(turns):
            self.give(ProcessInput())

    def unfinished(self, channel: int) -> int:
        """Return the number of fragments taken from a channel whose record is incomplete."""
        return len(self.machine.inputs.channels[channel].assembler.fragments)

    def in_flight(self) -> dict[int, list[DataElement]]:
        """Return the elements that were written to the checkpoint since the last call, by input channel."""
        found: dict[int, list[DataElement]] = {}
        for command in self.take(SubmitChannelState):
            if isinstance(command.request, WriteInputRequest):
                found.setdefault(command.request.info.input_channel_idx, []).extend(command.request.buffers)
        return found


def barrier(**settings: Any) -> CheckpointBarrier:
    return CheckpointBarrier(1, 1_000, options(**{"alignment": UNALIGNED} | settings))


def test_a_record_is_processed_with_its_last_fragment_and_each_gives_its_credit_back() -> None:
    task = Task()
    task.receive(0, *FRAGMENTS[:-1])
    assert task.sent() == []
    assert len(task.credits_back()) == CREDITS - 1
    task.receive(0, FRAGMENTS[-1])
    assert len(task.credits_back()) == 1
    assert task.sent() == list(FRAGMENTS)


def test_a_fragment_without_a_credit_is_an_error() -> None:
    task = Task()
    task.put(0, *FRAGMENTS)
    with pytest.raises(ProtocolError, match="rows/0 sent a buffer on channel 0 without a credit"):
        task.machine.handle(ElementReceived(channel=task.machine.inputs.channels[0].number, element=FRAGMENTS[0]), 1)


def test_channels_put_their_records_together_each_by_itself() -> None:
    task = Task()
    for fragment in FRAGMENTS[:-1]:
        task.receive(0, fragment)
        task.receive(1, fragment)
    assert (task.unfinished(0), task.unfinished(1)) == (CREDITS - 1, CREDITS - 1)
    task.receive(1, FRAGMENTS[-1])
    assert task.sent() == list(FRAGMENTS)
    assert (task.unfinished(0), task.unfinished(1)) == (CREDITS - 1, 0)


# --- checkpoints ------------------------------------------------------------------------------------------------------


def test_what_was_taken_of_a_record_is_in_flight_before_what_is_queued_and_what_still_comes() -> None:
    task = Task()
    task.put(0, *FRAGMENTS[:2], turns=2)
    task.put(0, FRAGMENTS[2])
    task.put(1, barrier(), turns=1)
    assert task.in_flight() == {0: list(FRAGMENTS[:3])}
    task.put(0, *FRAGMENTS[3:], Watermark(7), turns=1)
    assert task.in_flight() == {0: [*FRAGMENTS[3:], Watermark(7)]}
    task.put(0, barrier(), *FRAGMENTS[:1])
    task.run()
    assert task.in_flight() == {}


def test_a_barrier_overtakes_the_fragments_before_it_and_none_behind_it() -> None:
    task = Task()
    task.put(0, *FRAGMENTS[:1], turns=1)
    task.put(0, *FRAGMENTS[1:2], barrier(), *FRAGMENTS[2:3], turns=1)
    assert task.in_flight() == {0: list(FRAGMENTS[:2])}
    task.put(1, *FRAGMENTS[:1], barrier())
    task.run()
    assert task.in_flight() == {1: list(FRAGMENTS[:1])}


def test_when_alignment_times_out_only_the_channel_that_is_waited_for_is_in_the_middle_of_a_record() -> None:
    task = Task()
    timed = barrier(alignment=AlignmentType.ALIGNED, aligned_timeout_ms=10)
    task.put(0, *FRAGMENTS)
    task.put(0, timed)
    task.put(1, *FRAGMENTS[:3])
    task.run()
    assert task.blocked == [0]
    assert (task.unfinished(0), task.unfinished(1)) == (0, 3)
    task.at += 10
    task.give(TimerFired(timer=ALIGNMENT_TIMEOUT))
    assert task.in_flight() == {1: list(FRAGMENTS[:3])}


def test_an_aligned_barrier_comes_behind_whole_records() -> None:
    task = Task()
    aligned = barrier(alignment=AlignmentType.ALIGNED)
    task.put(1, aligned)
    task.put(0, *FRAGMENTS)
    task.put(0, aligned)
    task.run()
    assert task.in_flight() == {}
    assert task.sent() == [*FRAGMENTS, aligned]
    assert task.triggered() == [1]


def test_nothing_but_an_overtaking_barrier_comes_between_the_fragments_of_a_record_that_waits() -> None:
    """And what it overtakes of the record is in flight at the output; the rest has left before."""
    task = Task(credits=False)
    (number,) = task.output_channels
    task.give(CreditReceived(channel=number, credits=2))
    task.receive(0, *FRAGMENTS)
    task.watermark(0, 5)
    task.watermark(1, 5)
    assert task.sent() == list(FRAGMENTS[:2])
    task.put(0, barrier())
    task.put(1, barrier())
    task.run()
    requests = [command.request for command in task.emitted if isinstance(command, SubmitChannelState)]
    (output,) = [request for request in requests if isinstance(request, WriteOutputRequest)]
    assert output.buffers == FRAGMENTS[2:]
    assert [word.element for word in task.take(SendElement)] == [barrier()]
    task.give(CreditReceived(channel=number, credits=CREDITS))
    task.run()
    assert task.sent() == [*FRAGMENTS[2:], Watermark(5)]


# --- what may not be --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "element", [Buffer(LONG), EndOfPartition(), EndOfChannelState()], ids=lambda each: type(each).__name__
)
def test_a_record_without_its_end_is_an_error(element: Element) -> None:
    task = Task()
    task.receive(0, *FRAGMENTS[:2])
    if isinstance(element, EndOfPartition):
        task.receive(0, EndOfData(True))
    if isinstance(element, EndOfChannelState):
        task.receive(1, element)
    with pytest.raises(ProtocolError, match="came after 2 fragments of a record, without its end"):
        task.receive(0, element)


def test_a_fragment_says_how_long_it_is() -> None:
    assert repr(RecordFragment(b"abc", last=False)) == "RecordFragment(3 bytes)"
    assert repr(replace(FRAGMENTS[-1], data=b"")) == "RecordFragment(0 bytes, the last)"

"""Turns for which the host limits the rows: a longer buffer is taken in parts, and a source is read for fewer rows.

Senders are told of the limit, and then make their buffers and their own turns no longer than that.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.core.protocol.commands import GrantCredit, ReadSplit, SendElement
from kit.core.protocol.elements import Buffer, CheckpointBarrier
from kit.core.protocol.events import CreditReceived, ProcessInput, SplitRead
from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors import CollectionSource, CollectSink
from tests.machines.task.harness import TaskHarness, buffer, fan_in, options
from tests.machines.task.slot_harness import SlotHarness, unaligned_job


def rows(count: int, name: str = "a", first: int = 0) -> Buffer:
    """Return rows with numbers in order."""
    return buffer({"k": name, "n": number} for number in range(first, first + count))


def taken(task: TaskHarness, max_rows: int | None) -> int:
    """Give the task a turn; return the number of rows that it has taken in it."""
    before = task.machine.rows_processed
    task.give(ProcessInput(max_rows=max_rows))
    return task.machine.rows_processed - before


def test_a_longer_buffer_is_taken_in_parts_and_its_credit_returns_with_the_last() -> None:
    task = TaskHarness(fan_in(1, chaining=False))
    task.receive(0, rows(5), run=False)
    task.give_credits(3)
    task.credits_back()
    turns = [(taken(task, 2), len(task.credits_back())) for _ in range(3)]
    assert turns == [(2, 0), (2, 0), (1, 1)]
    assert not task.machine.available
    totals = [row for word in task.take(SendElement) for row in word.element.batch.to_pylist()]
    assert totals[-1] == {"k": "a", "rows": 5, "total": 10}


def test_a_barrier_waits_for_the_rest_of_a_buffer_before_it() -> None:
    task = TaskHarness(fan_in(1))
    task.receive(0, rows(3), run=False)
    assert taken(task, 2) == 2
    task.barrier(1, 0)  # with turns without a limit
    assert task.triggered() == [1]
    assert task.machine.rows_processed == 3


def test_the_rest_of_a_buffer_stays_before_what_stands_behind_it() -> None:
    """Two barriers and another buffer are in the queue already when the first part is taken."""
    task = TaskHarness(fan_in(1))
    barriers = [CheckpointBarrier(number, 0, options()) for number in (1, 2)]
    task.receive(0, rows(5), barriers[0], rows(3, first=5), barriers[1], run=False)
    rows_at = {}
    while task.machine.available:
        taken(task, 2)
        rows_at |= dict.fromkeys(task.triggered(), task.machine.rows_processed)
    assert rows_at == {1: 5, 2: 8}


def test_channels_take_turns_between_the_parts_of_their_buffers() -> None:
    task = TaskHarness(fan_in(2))
    for channel in (0, 1):
        task.receive(channel, rows(4), run=False)
    queued = []
    for _ in range(4):
        taken(task, 2)
        queued.append([sum(each.rows for each in channel.queue) for channel in task.machine.inputs])
    assert queued in ([[2, 4], [2, 2], [0, 2], [0, 0]], [[4, 2], [2, 2], [2, 0], [0, 0]])


def test_the_rest_of_a_buffer_is_in_flight_once_an_unaligned_barrier_overtakes_it(tmp_path: Path) -> None:
    task = SlotHarness(unaligned_job(), tmp_path)
    task.receive(0, rows(5), run=False)
    assert taken(task, 2) == 2
    task.receive_barrier(1, 0, 1)
    while task.machine.inputs.priority_available:
        assert taken(task, 2) == 0
    task.run()
    task.write_all(1)
    (ack,) = task.acknowledged()
    assert ack.state is not None
    (state,) = ack.state.subtask_states.values()
    in_flight = [element for channel in task.in_flight(state)["in"] for element in channel]
    assert [element.batch["n"].to_pylist() for element in in_flight if isinstance(element, Buffer)] == [[2, 3, 4]]


@pytest.mark.parametrize(("max_rows", "asked"), [(None, 4), (2, 2), (100, 4)])
def test_a_source_reads_what_fits_into_a_turn(max_rows: int | None, asked: int) -> None:
    env = StreamEnvironment("limited")
    env.from_source(CollectionSource([{"n": 1}] * 10, batch_rows=4), uid="rows").sink_to(CollectSink("out"), uid="out")
    task = TaskHarness(env, "rows/0")
    task.assign(10)
    task.carry_out(ReadSplit)
    task.give(ProcessInput(max_rows=max_rows))
    (read,) = task.reads()
    assert (read.position, read.max_rows) == (4, asked)


# --- what the receivers take ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_rows", [None, 7])
def test_senders_are_told_of_the_limit(max_rows: int | None) -> None:
    task = TaskHarness(fan_in(1))
    task.receive(0, rows(3), run=False)
    task.take(GrantCredit)
    taken(task, max_rows)
    assert [(grant.credits, grant.max_rows) for grant in task.take(GrantCredit)] == [(1, max_rows)]


def times(factor: int, receivers: int = 1) -> TaskHarness:
    """Return a source that makes each row this many, for the receivers, with a split of many rows to read."""
    env = StreamEnvironment("limited")
    source = env.from_source(CollectionSource([{"n": 1}] * 1_000, batch_rows=100), uid="rows")
    made = source.flat_map(lambda row: [row] * factor).rebalance()
    made.map_batches(lambda batch: batch).uid("behind").set_parallelism(receivers).sink_to(CollectSink("out"))
    task = TaskHarness(env, "rows/0", credits=False)
    task.assign(1_000)
    return task


def credits(task: TaskHarness, max_rows: int | None, count: int = 1_000) -> None:
    """Let every receiver give credits."""
    for number in task.output_channels:
        task.give(CreditReceived(channel=number, credits=count, max_rows=max_rows))


def test_no_buffer_is_longer_than_its_receiver_wants() -> None:
    task = times(1)
    credits(task, 30)
    task.carry_out(ReadSplit)
    assert [element.rows for element in task.sent() if isinstance(element, Buffer)] == [30, 30, 30, 10]


@pytest.mark.parametrize(("factor", "receivers", "asked"), [(1, 1, 30), (1, 2, 60), (3, 1, 10), (50, 1, 1)])
def test_a_turn_makes_about_a_buffer_for_each_receiver(factor: int, receivers: int, asked: int) -> None:
    task = times(factor, receivers)
    credits(task, 30)
    task.carry_out(ReadSplit)
    for limit in (None, 1_000):
        task.give(ProcessInput(max_rows=limit))
        (read,) = task.reads()
        assert read.max_rows == asked
        task.give(SplitRead(split_id=read.split["id"], batch=None, position=read.position + 1, finished=False))
    task.give(ProcessInput(max_rows=1))
    assert [read.max_rows for read in task.reads()] == [1]


def test_a_receiver_without_a_limit_lifts_that_of_the_others() -> None:
    """A slow subtask makes the task wait for credits; it need not make the batches of all the others small."""
    task = times(1, receivers=2)
    credits(task, 30)
    task.give(CreditReceived(channel=task.output_channels[0], credits=1, max_rows=None))
    task.carry_out(ReadSplit)
    task.give(ProcessInput())
    assert [read.max_rows for read in task.reads()] == [100]

"""The end of writing channel state: all tasks leave, or a request comes that should never come."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from kit.core.protocol.messages import ChannelStateFailed
from kit.core.protocol.reasons import CheckpointFailureReason
from kit.core.protocol.words import ProtocolMessage
from tests.machines.channel.channel_state import (
    TASK,
    Slot,
    abort,
    await_out,
    buffer,
    complete,
    complete_in,
    decided,
    release,
    start,
    watched,
    write_in,
    write_out,
)

LATE: list[Callable[[], ProtocolMessage]] = [write_out, complete_in, abort, partial(abort, priority=True)]


def told(failed: ChannelStateFailed) -> tuple[str, int, str, bool]:
    """Return the task and checkpoint that failed, the error, and whether the writing has ended."""
    return failed.task, failed.checkpoint_id, failed.error, failed.executor_ended


# --- all have left ----------------------------------------------------------------------------------------------------


@pytest.mark.flink(
    "ChannelStateWriteRequestExecutorImplTest.testCloseAfterSubmit",
    "ChannelStateWriteRequestExecutorImplTest.testCloseAfterSubmitPriority",
)
@pytest.mark.parametrize("late", LATE)
def test_nothing_can_be_submitted_after_the_end(late: Callable[[], ProtocolMessage]) -> None:
    slot = Slot().hear(start(), write_in(), release())
    assert [told(event) for _, event in slot.failures] == [(TASK, 1, "RuntimeError: all subtasks have left", True)]
    slot.hear(late())
    error = "RuntimeError: not running: all subtasks have left"
    assert [told(event) for _, event in slot.failures[1:]] == [(TASK, 1, error, True)]
    slot.hear(start(2))
    assert [told(event) for _, event in slot.failures[2:]] == [(TASK, 2, error, True)]


@pytest.mark.parametrize("end", [release, complete_in])
def test_what_comes_after_the_end_is_not_kept(end: Callable[[], ProtocolMessage]) -> None:
    slot = Slot().hear(end())
    data, is_held = watched(1)
    slot.hear(write_in(data.pop()))
    assert not is_held()


@pytest.mark.flink("ChannelStateWriteRequestExecutorImplTest.testCleanup")
def test_what_is_left_at_the_end_is_cancelled() -> None:
    slot = Slot().hear(start())
    collected, is_collected_held = watched(1)
    behind, is_behind_held = watched(2)
    slot.hear(write_in(collected.pop()), await_out(), write_in(behind.pop()))
    assert is_collected_held()
    assert is_behind_held()
    slot.hear(release())
    assert not is_collected_held()
    assert not is_behind_held()
    assert len(slot.failures) == 1
    slot.hear(decided(buffer(3)))
    assert len(slot.failures) == 1


def test_starts_that_are_left_at_the_end_are_answered() -> None:
    slot = Slot().hear(start(1), await_out(1), start(2), start(3), release())
    assert [(event.checkpoint_id, event.executor_ended) for _, event in slot.failures] == [
        (2, True),
        (3, True),
        (1, True),
    ]


@pytest.mark.flink("ChannelStateWriteRequestExecutorImplTest.testCanBeClosed")
def test_it_can_end_while_data_is_awaited() -> None:
    slot = Slot().hear(start(), await_out(), await_out())
    assert slot.answers == []
    slot.hear(release())
    assert [(task, event.checkpoint_id) for task, event in slot.failures] == [(TASK, 1)]


def test_a_file_that_is_written_when_all_leave_is_given_up() -> None:
    slot = Slot().hear(start(), write_in(), *complete())
    (job,) = slot.jobs
    answer = slot.answer_to(job)
    slot.hear(release())
    assert slot.cancelled == [job.file_name]
    assert [told(event) for _, event in slot.failures] == [(TASK, 1, "RuntimeError: all subtasks have left", True)]
    slot.hear(answer)
    assert slot.written() == {}


def test_one_that_leaves_while_its_data_is_awaited_still_counts_until_it_is_known() -> None:
    slot = Slot("a/0", "b/0").hear(start(1, "b/0"), await_out(1, "a/0"), release("a/0"), *complete("b/0"))
    assert slot.answers == []
    slot.hear(decided(task="a/0", error=ValueError("left")))
    assert [told(event) for _, event in slot.failures] == [("b/0", 1, "left", False)]
    slot.hear(start(2, "b/0"), *complete("b/0", checkpoint_id=2))
    assert list(slot.written()) == ["b/0"]


# --- a request that should never come ---------------------------------------------------------------------------------


@pytest.mark.flink(
    "ChannelStateWriteRequestExecutorImplTest.testSubmitFailure",
    "ChannelStateWriteRequestExecutorImplTest.testSubmitPriorityFailure",
)
@pytest.mark.parametrize("late", LATE)
def test_a_request_is_cancelled_when_an_error_had_ended_it_all(late: Callable[[], ProtocolMessage]) -> None:
    slot = Slot().hear(complete_in())
    (_, ended), *_ = slot.failures
    assert ended.error.startswith("CompleteInputRequest(a/0, chk-1) came, but")
    assert ended.executor_ended
    slot.hear(late())
    assert [told(event) for _, event in slot.failures[1:]] == [
        (TASK, 1, f"RuntimeError: not running: {ended.error}", True)
    ]


def test_a_start_is_told_the_error_itself() -> None:
    slot = Slot().hear(complete_in(), start(2))
    assert [event.error for _, event in slot.failures] == [slot.failures[0][1].error] * 2
    assert {event.reason for _, event in slot.failures} == {CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION}


def test_an_error_fails_what_waits_then_what_was_started_then_its_own_request() -> None:
    slot = Slot("a/0", "b/0", "c/0")
    slot.hear(start(1, "a/0"), start(1, "b/0"), write_in(task="a/0"), await_out(1, "a/0"), start(2, "a/0"))
    slot.hear(complete_in(1, "b/0"), complete_in(1, "b/0"))
    assert [(task, event.checkpoint_id, event.executor_ended) for task, event in slot.failures] == [
        ("a/0", 2, True),
        ("a/0", 1, True),
        ("b/0", 1, True),
        ("b/0", 1, True),
    ]
    assert len({event.error for _, event in slot.failures}) == 1


def test_an_error_behind_awaited_data_fails_what_was_ready_before_what_still_waits() -> None:
    slot = Slot("a/0", "b/0").hear(start(1, "a/0"), start(1, "b/0"), await_out(1, "a/0"), start(2, "a/0"))
    slot.hear(await_out(1, "b/0"), complete_in(9, "b/0"), start(3, "b/0"), await_out(3, "b/0"), start(4, "b/0"))
    slot.hear(decided(task="b/0"))
    assert [(task, event.checkpoint_id) for task, event in slot.failures] == [
        ("b/0", 3),
        ("a/0", 2),
        ("b/0", 4),
        ("a/0", 1),
        ("b/0", 1),
        ("b/0", 9),
    ]


def test_an_error_stops_files_that_are_being_written() -> None:
    slot = Slot().hear(start(), write_in(), *complete())
    (job,) = slot.jobs
    slot.hear(complete_in())
    assert slot.cancelled == [job.file_name]
    assert [event.checkpoint_id for _, event in slot.failures] == [1, 1]


@pytest.mark.flink("ChannelStateWriteRequestExecutorImplTest.testRecordsException")
def test_the_error_is_kept_and_told_to_the_last_who_leaves() -> None:
    slot = Slot("a/0", "b/0").hear(complete_in())
    ((_, ended),) = slot.failures
    slot.hear(release("a/0"))
    assert len(slot.failures) == 1
    slot.hear(release("b/0"))
    assert [told(event) for _, event in slot.failures[1:]] == [
        ("b/0", -1, f"channel state could not be written: {ended.error}", True)
    ]


def test_the_error_holds_no_buffers() -> None:
    data, is_held = watched(1)
    slot = Slot().hear(start(), complete_in(), write_in(data.pop(), buffer(2)))
    assert [event.executor_ended for _, event in slot.failures] == [False, True]
    assert not is_held()

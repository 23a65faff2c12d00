"""The order of a task's requests: those that are executed, that wait, or that are dropped with their checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from kit.core.protocol.elements import EndOfData
from kit.core.protocol.loggable import loggable
from kit.core.protocol.messages import SubmitChannelState
from kit.core.protocol.outages import may_pass
from kit.core.protocol.reasons import CheckpointFailureReason
from kit.core.protocol.words import ProtocolMessage
from kit.machines.channel.channel_state.channel_state_requests import ChannelStateWriteRequest
from kit.machines.channel.channel_state.slot_channel_state import SlotChannelState
from tests.machines.channel.channel_state import (
    TASK,
    Slot,
    abort,
    await_out,
    buffer,
    complete,
    complete_in,
    complete_out,
    decided,
    in_file,
    release,
    start,
    submit,
    watched,
    write_in,
    write_out,
)

SUBSUMED = CheckpointFailureReason.CHECKPOINT_DECLINED_SUBSUMED
SHARED = CheckpointFailureReason.CHANNEL_STATE_SHARED_STREAM_EXCEPTION
ASYNC = CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION

Make = Callable[[], ProtocolMessage]


def reason(slot: Slot, task: str = TASK) -> CheckpointFailureReason:
    """Return the reason of the task's last failure."""
    return slot.errors()[task].reason


# --- what may follow what ---------------------------------------------------------------------------------------------

LEGAL: list[list[Make]] = [
    [start, complete_in, complete_out],
    [start, write_in, complete_in],
    [start, write_out, complete_out],
    [start, await_out, decided, complete_out],
    [start, await_out, complete_out, decided],
    [start, complete_in, write_out],
    [start, complete_in, await_out, decided],
    [start, complete_out, write_in],
]
ILLEGAL: list[tuple[str, list[Make]]] = [
    ("was not started, or is finished already", [write_in]),
    ("was not started, or is finished already", [write_out]),
    ("was not started, or is finished already", [await_out, decided]),
    ("was not started, or is finished already", [complete_in]),
    ("was not started, or is finished already", [complete_out]),
    ("was not started, or is finished already", [start, complete_in, complete_out, write_in]),
    ("finished its input twice", [start, complete_in, complete_in]),
    ("finished its output twice", [start, complete_out, complete_out]),
    ("too late", [start, complete_in, write_in]),
    ("too late", [start, complete_out, write_out]),
    ("too late", [start, complete_out, await_out, decided]),
    ("twice", [start, start]),
]


def names(events: object) -> str:
    return "-".join(make.__name__ for make in events) if isinstance(events, list) else ""


@pytest.mark.flink("ChannelStateWriteRequestDispatcherTest.doRun")
@pytest.mark.parametrize("events", LEGAL, ids=names)
def test_legal_orders(events: list[Make]) -> None:
    assert Slot().hear(*(make() for make in events)).failures == []


@pytest.mark.flink("ChannelStateWriteRequestDispatcherTest.doRun")
@pytest.mark.parametrize(("error", "events"), ILLEGAL, ids=names)
def test_illegal_orders(error: str, events: list[Make]) -> None:
    slot = Slot().hear(*(make() for make in events[:-1]))
    assert slot.failures == []
    slot.hear(events[-1]())
    assert slot.failures
    assert error in slot.errors()[TASK].error
    assert slot.errors()[TASK].executor_ended


def test_each_start_is_answered_once() -> None:
    slot = Slot().hear(start(), start())
    assert [event.checkpoint_id for _, event in slot.failures] == [1, 1]


@pytest.mark.parametrize("late", [complete_in, complete_out, write_in, write_out])
def test_a_checkpoint_that_has_failed_ignores_what_is_illegal(late: Callable[..., ProtocolMessage]) -> None:
    slot = Slot("a/0", "b/0").hear(start(), await_out(), decided(error=ValueError("no")))
    slot.hear(late(), late(), late(task="b/0"))
    assert [event.error for _, event in slot.failures] == ["no"]


def test_requests_of_unknown_kinds_are_refused() -> None:
    slot = Slot().hear(submit(ChannelStateWriteRequest(task=TASK, checkpoint_id=1)))
    assert "unknown kind of request" in slot.errors()[TASK].error


@pytest.mark.flink("ChannelStateWriteRequestExecutorImplTest.testSubmitRequestOfUnregisteredSubtask")
@pytest.mark.parametrize("priority", [False, True])
def test_only_who_registered_may_submit(priority: bool) -> None:
    with pytest.raises(ValueError, match="b/0, which is not yet registered"):
        Slot("a/0").state.handle(abort(1, "b/0", priority=priority), 0)


# --- a checkpoint that is over ----------------------------------------------------------------------------------------


@pytest.mark.flink(
    "ChannelStateWriteRequestDispatcherImplTest.testPartialInputChannelStateWrite",
    "ChannelStateWriteRequestDispatcherImplTest.testPartialResultSubpartitionStateWrite",
)
@pytest.mark.parametrize("write", [write_in, write_out])
@pytest.mark.parametrize("over", ["failed", "refused"])
def test_a_write_to_a_checkpoint_that_is_over_holds_no_buffer(write: Callable[..., ProtocolMessage], over: str) -> None:
    slot = Slot().hear(start())
    slot.hear(*([abort()] if over == "refused" else [await_out(), decided(error=ValueError("no"))]))
    assert reason(slot) is ASYNC
    data, is_held = watched(1, 2)
    slot.hear(write(data.pop()))
    assert not is_held()
    assert len(slot.failures) == 1


def test_a_write_that_fails_midway_holds_no_buffer() -> None:
    slot = Slot().hear(start())
    data, is_held = watched(1, 2)
    slot.hear(write_in(data.pop(), EndOfData(drain=True)))  # type: ignore[arg-type]
    assert "is an event" in slot.errors()[TASK].error
    assert not is_held()


@pytest.mark.flink("CheckpointInProgressRequestTest.testNoCancelTwice")
def test_ten_aborts_act_once() -> None:
    slot = Slot().hear(start(), await_out())
    data, is_held = watched(1, 2)
    slot.hear(write_in(data.pop()))
    assert is_held()
    for _ in range(10):
        slot.hear(abort(priority=True), abort(priority=False))
    assert [failure.error for _, failure in slot.failures] == ["given up"]
    slot.hear(decided())
    assert not is_held()
    slot.hear(start(2), write_in(checkpoint_id=2), *complete(checkpoint_id=2))
    assert [in_file(job) for job in slot.jobs] == [[[1]]]
    assert len(slot.failures) == 1


@pytest.mark.flink(
    "ChannelStateWriteRequestDispatcherImplTest.testStartNewCheckpointForSameSubtask",
    "ChannelStateWriteRequestDispatcherImplTest.testStartNewCheckpointForDifferentSubtask",
)
@pytest.mark.parametrize("other", ["a/0", "b/0"])
def test_a_newer_checkpoint_ends_the_older_one(other: str) -> None:
    data, is_held = watched(1)
    slot = Slot("a/0", "b/0").hear(start(1), write_in(data.pop()))
    assert slot.answers == []
    slot.hear(start(2, other))
    assert [(task, event.checkpoint_id, event.reason) for task, event in slot.failures] == [("a/0", 1, SUBSUMED)]
    assert not is_held()
    slot.hear(write_in(), *complete("a/0"))
    assert len(slot.answers) == 1


@pytest.mark.flink(
    "ChannelStateWriteRequestDispatcherImplTest.testStartOldCheckpointForSameSubtask",
    "ChannelStateWriteRequestDispatcherImplTest.testStartOldCheckpointForDifferentSubtask",
)
@pytest.mark.parametrize("other", ["a/0", "b/0"])
@pytest.mark.parametrize("newer", [abort, start])
def test_a_checkpoint_older_than_an_aborted_one_or_a_started_one_does_not_start(
    other: str, newer: Callable[[int, str], ProtocolMessage]
) -> None:
    slot = Slot("a/0", "b/0").hear(newer(2, "a/0"), start(1, other))
    assert (slot.errors()[other].checkpoint_id, reason(slot, other)) == (1, SUBSUMED)


@pytest.mark.flink("ChannelStateWriteRequestDispatcherImplTest.testAbortCheckpointAndCheckAllException")
@pytest.mark.parametrize("count", [1, 2, 3, 5, 10])
@pytest.mark.parametrize("which", [0, -1])
def test_an_abort_before_the_start_fails_one_with_its_cause_and_the_others_for_sharing(count: int, which: int) -> None:
    tasks = [f"{letter}/0" for letter in "abcdefghij"[:count]]
    slot = Slot(*tasks, max_subtasks_per_file=10)
    slot.hear(abort(1, tasks[which]), *(start(1, task) for task in tasks))
    assert {task: reason(slot, task) for task in tasks} == dict.fromkeys(tasks, SHARED) | {tasks[which]: ASYNC}
    assert all("given up" in error.error for error in slot.errors().values())


def test_an_abort_after_the_start_fails_one_with_its_cause_and_the_others_for_sharing() -> None:
    slot = Slot("a/0", "b/0", "c/0").hear(start(1, "a/0"), start(1, "b/0"), abort(1, "b/0"), start(1, "c/0"))
    assert {task: reason(slot, task) for task in slot.errors()} == {"a/0": SHARED, "b/0": ASYNC, "c/0": SHARED}


def test_the_first_abort_of_a_checkpoint_is_the_one_that_is_remembered() -> None:
    slot = Slot("a/0", "b/0").hear(abort(1, "a/0", cause="first"), abort(1, "b/0", cause="second"))
    slot.hear(start(1, "a/0"), start(1, "b/0"))
    assert {task: (error.reason, error.error) for task, error in slot.errors().items()} == {
        "a/0": (ASYNC, "first"),
        "b/0": (SHARED, "first"),
    }


def test_an_abort_of_a_newer_checkpoint_ends_the_older_one() -> None:
    slot = Slot().hear(start(1), abort(2))
    assert reason(slot) is SUBSUMED
    slot.hear(start(3), *complete(checkpoint_id=3))
    assert slot.written()[TASK].checkpoint_id == 3


def test_an_abort_of_an_older_checkpoint_ends_nothing() -> None:
    slot = Slot().hear(start(2), abort(1), *complete(checkpoint_id=2))
    assert (slot.failures, slot.written()[TASK].checkpoint_id) == ([], 2)


def test_an_abort_while_the_file_is_written_fails_all_that_share_it_and_stops_the_host() -> None:
    slot = Slot("a/0", "b/0").hear(start(1, "a/0"), start(1, "b/0"), write_in(), *complete("a/0", "b/0"))
    (job,) = slot.jobs
    answer = slot.answer_to(job)
    slot.hear(abort(1, "b/0"))
    assert slot.cancelled == [job.file_name]
    assert {task: reason(slot, task) for task in slot.errors()} == {"a/0": SHARED, "b/0": ASYNC}
    slot.hear(answer)
    assert slot.written() == {}


def test_an_old_file_is_stopped_although_a_newer_checkpoint_was_aborted() -> None:
    slot = Slot().hear(start(1), write_in(), *complete(), abort(2), abort(1))
    assert (slot.cancelled, slot.errors()[TASK].checkpoint_id) == (["id-of-a-0-1-channel-state"], 1)


def test_an_outage_that_fails_one_is_one_to_those_that_share() -> None:
    slot = Slot("a/0", "b/0").hear(start(1, "a/0"), start(1, "b/0"), await_out(), decided(error=TimeoutError("slow")))
    assert may_pass(TimeoutError("slow"))
    assert all(error.may_pass for error in slot.errors().values())


# --- data that is awaited ---------------------------------------------------------------------------------------------


@pytest.mark.flink("ChannelStateWriteRequestExecutorImplTest.testSkipUnreadyDataFuture")
def test_data_that_is_awaited_holds_back_its_own_subtask_only() -> None:
    slot = Slot("a/0", "b/0").hear(
        start(1, "b/0"),
        start(1, "a/0"),
        write_in(buffer(10), task="b/0"),
        write_in(buffer(1), task="a/0"),
        await_out(task="a/0"),
        write_in(buffer(3), task="a/0"),
        write_in(buffer(11), task="b/0"),
        write_in(buffer(4), task="a/0"),
        *complete("a/0", "b/0"),
    )
    assert (slot.jobs, slot.answers) == ([], [])
    slot.hear(decided(buffer(2), task="a/0"))
    assert [in_file(job) for job in slot.jobs] == [[[10], [1], [11], [2], [3], [4]]]


def test_a_second_awaited_request_holds_back_again() -> None:
    slot = Slot().hear(start(1), await_out(1), *complete(), start(2), await_out(2), *complete(checkpoint_id=2))
    slot.hear(decided(buffer(2), checkpoint_id=2))
    assert slot.jobs == []
    slot.hear(decided(buffer(1), checkpoint_id=1))
    assert [(job.checkpoint_id, in_file(job)) for job in slot.jobs] == [(1, [[1]]), (2, [[2]])]


def test_each_awaited_request_of_an_output_takes_one_decision() -> None:
    slot = Slot().hear(start(), await_out(), await_out(), *complete(), decided(buffer(1)))
    assert slot.jobs == []
    slot.hear(decided(buffer(2)))
    assert [in_file(job) for job in slot.jobs] == [[[1], [2]]]


def test_a_decision_that_nothing_waits_for_is_ignored() -> None:
    slot = Slot().hear(start(), decided(buffer(1)), await_out(), decided(buffer(2), checkpoint_id=2), *complete())
    assert (slot.jobs, slot.answers) == ([], [])
    slot.hear(decided(buffer(3)))
    assert [in_file(job) for job in slot.jobs] == [[[3]]]


def test_data_that_will_never_be_known_fails_its_checkpoint_only() -> None:
    slot = Slot().hear(start(), await_out(), *complete(), start(2), *complete(checkpoint_id=2))
    slot.hear(decided(error=ValueError("no barrier")))
    assert (slot.errors()[TASK].checkpoint_id, slot.errors()[TASK].error) == (1, "no barrier")
    assert (slot.written()[TASK].checkpoint_id, slot.jobs) == (2, [])


def test_a_request_with_priority_goes_first() -> None:
    slot = Slot().hear(start(), await_out(), *complete(), start(2), abort(1, cause="first", priority=True))
    assert [(task, event.checkpoint_id, event.error) for task, event in slot.failures] == [(TASK, 1, "first")]
    slot.hear(abort(2, cause="behind the start"))
    assert len(slot.failures) == 1
    slot.hear(decided())
    assert [event.error for _, event in slot.failures] == ["first", "behind the start"]


def test_an_abort_without_priority_waits_its_turn() -> None:
    slot = Slot().hear(start(1), await_out(1), start(2), abort(2))
    assert slot.failures == []
    slot.hear(decided())
    assert [(event.checkpoint_id, event.reason) for _, event in slot.failures] == [(1, SUBSUMED), (2, ASYNC)]


@pytest.mark.flink("ChannelStateWriteRequestExecutorImplTest.testSubmitPriorityUnreadyRequest")
@pytest.mark.parametrize("request_", [write_in(), write_out(), await_out(), complete_in(), start()], ids=repr)
def test_a_request_with_priority_must_be_ready(request_: SubmitChannelState) -> None:
    """Only an abort can have priority, and it never needs data."""
    with pytest.raises(TypeError, match="priority"):
        replace(request_.request, priority=True)


# --- traces -----------------------------------------------------------------------------------------------------------


def test_a_trace_counts_buffers() -> None:
    told = {"type": "WriteInputRequest", "channel": [0, 0], "elements": 2}
    for event, expected in [
        (write_in(buffer(1), buffer(2)), told),
        (start(), {"type": "CheckpointStartRequest"}),
        (await_out(), {"type": "WriteOutputFutureRequest", "channel": [0, 0]}),
        (abort(), {"type": "CheckpointAbortRequest"}),
        (release(), {"type": "SubtaskReleaseRequest"}),
    ]:
        assert isinstance(event, SubmitChannelState)
        assert loggable(event.request) == expected
    assert "CheckpointStartRequest(a/0, chk-3)" in repr(start(3))


def test_the_machine_knows_its_events() -> None:
    assert SlotChannelState(0, 1).known_events() == {
        "SubmitChannelState",
        "OutputDataDecided",
        "ChannelStateFileWritten",
        "ChannelStateFileFailed",
        "SubtasksRedeployed",
    }

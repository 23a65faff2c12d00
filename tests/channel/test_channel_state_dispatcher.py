"""Which writer a request goes to, and what becomes of those whose checkpoint is over."""

from __future__ import annotations

import pytest

from kit.core.protocol.elements import EndOfData
from kit.core.protocol.reasons import CheckpointFailureReason
from kit.machines.channel.channel_state.channel_state_checkpoint_writer import ChannelStateFile
from kit.machines.channel.channel_state.channel_state_dispatcher import ChannelStateWriteRequestDispatcher
from kit.machines.channel.channel_state.channel_state_requests import (
    ChannelStateWriteRequest,
    RequestState,
    SubtaskReleaseRequest,
)
from kit.machines.channel.channel_state.data_future import DataFuture
from tests.channel.channel_state import (
    TASK,
    Outbox,
    a_storage,
    abort,
    complete_in,
    complete_out,
    register,
    start,
    watched,
    write_in,
    write_out,
    write_out_future,
    written,
)

SUBSUMED = CheckpointFailureReason.CHECKPOINT_DECLINED_SUBSUMED
SHARED = CheckpointFailureReason.CHANNEL_STATE_SHARED_STREAM_EXCEPTION
ASYNC = CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION


class Dispatch:
    """A dispatcher with these subtasks."""

    def __init__(self, *tasks: str) -> None:
        self.outbox = Outbox()
        self.dispatcher = ChannelStateWriteRequestDispatcher(ChannelStateFile(TASK, "id", 0), self.outbox)
        self.all(*(register(task) for task in tasks or (TASK,)))

    def all(self, *requests: ChannelStateWriteRequest) -> Dispatch:
        """Carry these out."""
        for request in requests:
            self.dispatcher.dispatch(request)
        return self

    def reason(self, task: str = TASK) -> CheckpointFailureReason:
        """Why the task's checkpoint failed."""
        return self.outbox.errors()[task].reason


@pytest.mark.flink(
    "ChannelStateWriteRequestDispatcherImplTest.testPartialInputChannelStateWrite",
    "ChannelStateWriteRequestDispatcherImplTest.testPartialResultSubpartitionStateWrite",
)
@pytest.mark.parametrize("write", [write_in, write_out])
@pytest.mark.parametrize("over", ["failed", "refused"])
def test_a_write_to_a_checkpoint_that_is_over_holds_no_buffer(write: type, over: str) -> None:
    failed = DataFuture()
    failed.fail(ValueError("no"))
    dispatch = Dispatch().all(start(), abort() if over == "refused" else write_out_future(failed))
    assert dispatch.reason() is ASYNC
    data, is_held = watched(1, 2)
    request = write(data.pop())
    dispatch.all(request)
    assert not is_held()
    assert request.state is (RequestState.CANCELLED if over == "refused" else RequestState.COMPLETED)


def test_a_write_that_fails_midway_holds_no_buffer() -> None:
    dispatch = Dispatch().all(start())
    data, is_held = watched(1, 2)
    with pytest.raises(ValueError, match="is an event"):
        dispatch.all(write_in(data.pop(), EndOfData(drain=True)))  # type: ignore[arg-type]
    dispatch.dispatcher.fail(ValueError("the executor ends"))
    assert not is_held()


@pytest.mark.flink(
    "ChannelStateWriteRequestDispatcherImplTest.testStartNewCheckpointForSameSubtask",
    "ChannelStateWriteRequestDispatcherImplTest.testStartNewCheckpointForDifferentSubtask",
)
@pytest.mark.parametrize("other", ["a/0", "b/0"])
def test_a_newer_checkpoint_ends_the_older_one(other: str) -> None:
    dispatch = Dispatch("a/0", other).all(start(1))
    assert not dispatch.outbox
    dispatch.all(start(2, other))
    assert dispatch.reason("a/0") is SUBSUMED
    assert dispatch.outbox.errors()["a/0"].checkpoint_id == 1
    assert len(dispatch.outbox.errors()) == 1


@pytest.mark.flink(
    "ChannelStateWriteRequestDispatcherImplTest.testStartOldCheckpointForSameSubtask",
    "ChannelStateWriteRequestDispatcherImplTest.testStartOldCheckpointForDifferentSubtask",
)
@pytest.mark.parametrize("other", ["a/0", "b/0"])
def test_a_checkpoint_older_than_an_aborted_one_does_not_start(other: str) -> None:
    dispatch = Dispatch("a/0", other).all(abort(2), start(1, other))
    assert dispatch.reason(other) is SUBSUMED


@pytest.mark.flink("ChannelStateWriteRequestDispatcherImplTest.testAbortCheckpointAndCheckAllException")
@pytest.mark.parametrize("count", [1, 2, 3, 5, 10])
@pytest.mark.parametrize("which", [0, -1])
def test_an_abort_before_the_start_fails_one_with_its_cause_and_the_others_for_sharing(count: int, which: int) -> None:
    tasks = [f"{letter}/0" for letter in "abcdefghij"[:count]]
    dispatch = Dispatch(*tasks).all(abort(1, tasks[which]), *(start(1, task) for task in tasks))
    expected = dict.fromkeys(tasks, SHARED) | {tasks[which]: ASYNC}
    errors = dispatch.outbox.errors()
    assert {task: errors[task].reason for task in tasks} == expected
    assert all("given up" in error.error for error in errors.values())


def test_an_abort_after_the_start_fails_one_with_its_cause_and_the_others_for_sharing() -> None:
    dispatch = Dispatch("a/0", "b/0", "c/0").all(start(1, "a/0"), start(1, "b/0"), abort(1, "b/0"), start(1, "c/0"))
    errors = dispatch.outbox.errors()
    assert {task: error.reason for task, error in errors.items()} == {"a/0": SHARED, "b/0": ASYNC, "c/0": SHARED}


def test_an_abort_of_a_newer_checkpoint_ends_the_older_one() -> None:
    dispatch = Dispatch().all(start(1), abort(2))
    assert dispatch.reason() is SUBSUMED
    dispatch.all(start(3), complete_in(3), complete_out(3))
    assert dispatch.outbox.written_to()[TASK].checkpoint_id == 3


LEGAL = [
    [start, complete_in, complete_out],
    [start, write_in, complete_in],
    [start, write_out, complete_out],
    [start, write_out_future, complete_out],
    [start, complete_in, write_out],
    [start, complete_in, write_out_future],
    [start, complete_out, write_in],
]
ILLEGAL = [
    (ValueError, [write_in]),
    (ValueError, [write_out]),
    (ValueError, [write_out_future]),
    (ValueError, [complete_in]),
    (ValueError, [complete_out]),
    (ValueError, [start, complete_in, complete_in]),
    (ValueError, [start, complete_out, complete_out]),
    (RuntimeError, [start, complete_in, write_in]),
    (RuntimeError, [start, complete_out, write_out]),
    (RuntimeError, [start, complete_out, write_out_future]),
    (RuntimeError, [start, start]),
]


def names(requests: object) -> str:
    return "-".join(make.__name__ for make in requests) if isinstance(requests, list) else ""


@pytest.mark.flink("ChannelStateWriteRequestDispatcherTest.doRun")
@pytest.mark.parametrize("requests", LEGAL, ids=names)
def test_legal_orders(requests: list[type]) -> None:
    dispatch = Dispatch().all(*(make() for make in requests))
    assert dispatch.outbox.errors() == {}


@pytest.mark.flink("ChannelStateWriteRequestDispatcherTest.doRun")
@pytest.mark.parametrize(("error", "requests"), ILLEGAL, ids=names)
def test_illegal_orders(error: type[Exception], requests: list[type]) -> None:
    dispatch = Dispatch().all(*(make() for make in requests[:-1]))
    with pytest.raises(error):
        dispatch.all(requests[-1]())
    assert dispatch.outbox.executor_ended


def test_requests_of_unknown_kinds_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown kind of request"):
        Dispatch().all(ChannelStateWriteRequest(task=TASK, subtask=0, checkpoint_id=1))


def test_a_subtask_that_has_left_is_not_waited_for() -> None:
    dispatch = Dispatch("a/0", "b/0").all(start(1, "a/0"), complete_in(1), complete_out(1))
    assert dispatch.outbox.written_to() == {}
    dispatch.all(SubtaskReleaseRequest(task="b/0", subtask=0))
    assert set(dispatch.outbox.written_to()) == {"a/0"}
    dispatch.all(start(2, "a/0"), complete_in(2), complete_out(2))
    assert dispatch.outbox.written_to()["a/0"].checkpoint_id == 2


def test_a_file_of_another_or_one_given_up_is_no_concern() -> None:
    dispatch = Dispatch().all(start(), write_in(), complete_in(), complete_out())
    (job,) = dispatch.outbox.jobs()
    answer = written(job, a_storage())
    dispatch.all(abort())
    assert dispatch.outbox.cancelled() == [job.file_name]
    dispatch.dispatcher.file_written(answer)
    assert dispatch.outbox.written_to() == {}
    assert dispatch.reason() is ASYNC

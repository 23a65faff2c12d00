"""The queues of the subtasks that share a file: who may join, what holds back whom, and how it ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.protocol.messages import ChannelStateFailed, SubmitChannelState
from kit.core.protocol.words import Word
from kit.machines.channel.channel_state.channel_state_executor import (
    ChannelStateWriteRequestExecutor,
    ChannelStateWriteRequestExecutorFactory,
)
from kit.machines.channel.channel_state.channel_state_requests import (
    ChannelStateWriteRequest,
    SubtaskRegisterRequest,
    SubtaskReleaseRequest,
    WriteInputRequest,
)
from kit.machines.channel.channel_state.data_future import DataFuture
from kit.machines.channel.channel_state.slot_channel_state import SlotChannelState
from kit.stream.settings.job_settings import CheckpointConfig
from tests.channel.channel_state import TASK, Outbox, buffer, complete_in, start, watched, write_in, write_out_future
from tests.task.harness import fan_in

Submit = Callable[[ChannelStateWriteRequestExecutor, ChannelStateWriteRequest], None]

SUBMIT = ChannelStateWriteRequestExecutor.submit
SUBMIT_PRIORITY = ChannelStateWriteRequestExecutor.submit_priority


class Recorder:
    """A dispatcher that notes what it is given; an error ends it."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.requests: list[ChannelStateWriteRequest] = []
        self.stopped_by: Exception | None = None

    def dispatch(self, request: ChannelStateWriteRequest) -> None:
        if self.error is not None:
            raise self.error
        if not isinstance(request, SubtaskRegisterRequest):
            self.requests.append(request)

    def fail(self, cause: Exception) -> None:
        self.stopped_by = cause


def executor(
    *tasks: str, dispatcher: Recorder | None = None, most: int = 5, told: list[object] | None = None
) -> ChannelStateWriteRequestExecutor:
    made = ChannelStateWriteRequestExecutor(
        dispatcher or Recorder(), Outbox(), most, None if told is None else told.append
    )
    for task in tasks or (TASK,):
        made.register_subtask(task, 0)
    return made


def is_cancelled(request: WriteInputRequest) -> bool:
    return request.state.name == "CANCELLED" and request.buffers == ()


# --- the end ----------------------------------------------------------------------------------------------------------


@pytest.mark.flink(
    "ChannelStateWriteRequestExecutorImplTest.testCloseAfterSubmit",
    "ChannelStateWriteRequestExecutorImplTest.testCloseAfterSubmitPriority",
)
@pytest.mark.parametrize("submit", [SUBMIT, SUBMIT_PRIORITY])
def test_nothing_can_be_submitted_after_the_end(submit: Submit) -> None:
    closing = executor()
    submit(closing, write_in())
    closing.release_subtask(TASK)
    assert not closing.has_work
    late = write_in()
    with pytest.raises(RuntimeError, match="not running: all subtasks have left"):
        submit(closing, late)
    assert is_cancelled(late)
    assert not closing.has_work


@pytest.mark.flink(
    "ChannelStateWriteRequestExecutorImplTest.testSubmitFailure",
    "ChannelStateWriteRequestExecutorImplTest.testSubmitPriorityFailure",
)
@pytest.mark.parametrize("submit", [SUBMIT, SUBMIT_PRIORITY])
def test_a_request_is_cancelled_when_the_executor_had_ended_with_an_error(submit: Submit) -> None:
    dead = executor(dispatcher=Recorder(ValueError("no")))
    dead.run()
    request = write_in()
    with pytest.raises(RuntimeError, match="not running: no") as raised:
        submit(dead, request)
    assert isinstance(raised.value.__cause__, ValueError)
    assert is_cancelled(request)


@pytest.mark.flink("ChannelStateWriteRequestExecutorImplTest.testCleanup")
def test_what_is_left_at_the_end_is_cancelled() -> None:
    dispatcher = Recorder()
    closing = executor(dispatcher=dispatcher)
    ready, behind, held_back = write_in(), write_in(), write_out_future(DataFuture())
    for request in (ready, held_back, behind):
        closing.submit(request)
    closing.release_subtask(TASK)
    closing.run()
    assert dispatcher.stopped_by is not None
    assert dispatcher.requests == []
    assert is_cancelled(ready)
    assert is_cancelled(behind)
    assert held_back.future is None


def test_a_start_that_is_left_at_the_end_is_answered() -> None:
    outbox = Outbox()
    closing = ChannelStateWriteRequestExecutor(Recorder(), outbox)
    closing.register_subtask(TASK, 0)
    closing.submit(start(3))
    closing.release_subtask(TASK)
    assert outbox.errors()[TASK].checkpoint_id == 3
    assert outbox.errors()[TASK].executor_ended


def submit(state: SlotChannelState, request: ChannelStateWriteRequest) -> list[Word]:
    """The slot's machine takes a request; give what it says."""
    return state.handle(SubmitChannelState(task=request.task, request=request), 0)


@pytest.mark.flink("ChannelStateWriteRequestExecutorImplTest.testCanBeClosed")
def test_it_can_end_while_data_is_awaited() -> None:
    state = SlotChannelState(0, 1)
    state.register(TASK, 0, "id")
    for request in (start(), write_out_future(DataFuture()), write_out_future(DataFuture())):
        assert submit(state, request) == []
    (answer,) = submit(state, SubtaskReleaseRequest(task=TASK, subtask=0))
    assert isinstance(answer, ChannelStateFailed)
    assert (answer.task, answer.checkpoint_id) == (TASK, 1)
    state.validate()


@pytest.mark.flink("ChannelStateWriteRequestExecutorImplTest.testRecordsException")
def test_the_error_is_kept_and_told_to_the_last_who_leaves() -> None:
    error = ValueError("no")
    dead = executor("a/0", "b/0", dispatcher=Recorder(error))
    dead.run()
    assert dead.thrown is error
    dead.release_subtask("a/0")
    with pytest.raises(OSError, match="could not be written: no") as raised:
        dead.release_subtask("b/0")
    assert raised.value.__cause__ is error


def test_the_error_holds_no_buffers() -> None:
    state = SlotChannelState(0, 1)
    state.register(TASK, 0, "id")
    data, is_held = watched(1)
    submit(state, start())
    submit(state, complete_in())
    answers = submit(state, write_in(data.pop(), buffer(2)))
    assert [answer.executor_ended for answer in answers] == [False, True]  # type: ignore[attr-defined]
    assert not is_held()


# --- order ------------------------------------------------------------------------------------------------------------


@pytest.mark.flink("ChannelStateWriteRequestExecutorImplTest.testSkipUnreadyDataFuture")
def test_data_that_is_awaited_holds_back_its_own_subtask_only() -> None:
    dispatcher = Recorder()
    worker = executor("a/0", "b/0", dispatcher=dispatcher)
    future = DataFuture()
    first = [
        write_in(task="b/0"),
        write_in(task="a/0"),
        write_out_future(future, task="a/0"),
        write_in(task="a/0"),
        write_in(task="b/0"),
        write_in(task="b/0"),
    ]
    for request in first:
        worker.submit(request)
    worker.run()
    assert Counter(request.task for request in dispatcher.requests) == {"a/0": 1, "b/0": 3}
    for task in ("a/0", "b/0"):
        worker.submit(write_in(task=task))
    assert worker.has_work
    worker.run()
    assert not worker.has_work
    future.complete([])
    assert worker.has_work
    worker.run()
    assert Counter(request.task for request in dispatcher.requests) == {"a/0": 4, "b/0": 4}
    of_a = [request for request in dispatcher.requests if request.task == "a/0"]
    assert of_a[:3] == [first[1], first[2], first[3]]


def test_a_second_awaited_request_holds_back_again() -> None:
    dispatcher = Recorder()
    worker = executor(dispatcher=dispatcher)
    futures = [DataFuture(), DataFuture()]
    for future in futures:
        worker.submit(write_out_future(future))
    futures[1].complete([])
    worker.run()
    assert dispatcher.requests == []
    futures[0].complete([])
    worker.run()
    assert len(dispatcher.requests) == 2


def test_a_request_with_priority_goes_first() -> None:
    dispatcher = Recorder()
    worker = executor(dispatcher=dispatcher)
    worker.run()
    later, first = write_in(), write_in()
    worker.submit(later)
    worker.submit_priority(first)
    worker.run()
    assert dispatcher.requests == [first, later]


@pytest.mark.flink("ChannelStateWriteRequestExecutorImplTest.testSubmitPriorityUnreadyRequest")
def test_a_request_with_priority_must_be_ready() -> None:
    worker = executor()
    worker.submit_priority(write_in())
    with pytest.raises(RuntimeError, match="must be ready"):
        worker.submit_priority(write_out_future(DataFuture()))


@pytest.mark.flink("ChannelStateWriteRequestExecutorImplTest.testSubmitRequestOfUnregisteredSubtask")
@pytest.mark.parametrize("submit", [SUBMIT, SUBMIT_PRIORITY])
def test_only_who_registered_may_submit(submit: Submit) -> None:
    worker = executor()
    submit(worker, write_in())
    with pytest.raises(ValueError, match="b/0 is not yet registered"):
        submit(worker, write_in(task="b/0"))


# --- registration -----------------------------------------------------------------------------------------------------


@pytest.mark.flink("ChannelStateWriteRequestExecutorImplTest.testRegisterSubtaskAfterRegisterCompleted")
def test_only_so_many_share_a_file() -> None:
    told: list[object] = []
    worker = ChannelStateWriteRequestExecutor(Recorder(), Outbox(), 5, told.append)
    for letter in "abcde":
        assert worker.is_registering
        worker.register_subtask(f"{letter}/0", 0)
    assert not worker.is_registering
    assert told == [worker]
    with pytest.raises(RuntimeError, match="f/0 is too late"):
        worker.register_subtask("f/0", 0)


@pytest.mark.flink("ChannelStateWriteRequestExecutorImplTest.testSubmitStartRequestBeforeRegisterCompleted")
def test_the_first_start_ends_registration() -> None:
    told: list[object] = []
    worker = executor(told=told)
    assert worker.is_registering
    worker.submit(start())
    worker.run()
    assert not worker.is_registering
    assert told == [worker]
    with pytest.raises(RuntimeError, match="too late"):
        worker.register_subtask("b/0", 0)


@pytest.mark.flink("ChannelStateWriteRequestExecutorImplTest.testReleaseSubtaskBeforeRegisterCompleted")
def test_the_first_who_leaves_ends_registration() -> None:
    told: list[object] = []
    worker = executor("a/0", "b/0", told=told)
    worker.release_subtask("a/0")
    assert not worker.is_registering
    assert not worker.is_closed
    assert told == [worker]
    with pytest.raises(RuntimeError, match="too late"):
        worker.register_subtask("c/0", 0)


def test_nobody_registers_twice() -> None:
    with pytest.raises(RuntimeError, match="already"):
        executor("a/0", "a/0")


@pytest.mark.flink("ChannelStateWriteRequestExecutorFactoryTest.testReuseExecutorForSameJobId")
@pytest.mark.parametrize("most", [1, 2, 3, 5, 10])
def test_so_many_share_an_executor(most: int) -> None:
    factory = ChannelStateWriteRequestExecutorFactory(most)
    given = [factory.get_or_create_executor(f"{number}/0", 0, f"id{number}") for number in range(3 * most)]
    assert [given.index(shared) for shared in given] == [number - number % most for number in range(3 * most)]


@pytest.mark.flink("ChannelStateWriteRequestExecutorFactoryTest.testSomeSubtasksCloseDuringOtherSubtasksStarting")
@given(st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=60), st.integers(1, 4))
def test_registering_and_leaving_in_any_order_stays_consistent(deeds: list[int | None], most: int) -> None:
    factory = ChannelStateWriteRequestExecutorFactory(most)
    present: dict[str, ChannelStateWriteRequestExecutor] = {}
    for number, deed in enumerate(deeds):
        if deed is None:
            task = f"{number}/0"
            present[task] = factory.get_or_create_executor(task, 0, "id").executor
        elif present:
            task = list(present)[deed % len(present)]
            present.pop(task).release_subtask(task)
        for task, found in present.items():
            assert task in found.subtasks
            assert not found.is_closed
            assert len(found.subtasks) <= most
        assert sum(e.is_registering for e in set(present.values())) <= 1


# --- a slot -----------------------------------------------------------------------------------------------------------


def test_a_slot_shares_files_as_the_settings_say() -> None:
    env = fan_in(2, chaining=False, unaligned=True, max_subtasks_per_channel_state_file=2)
    slot = SlotChannelState.of(env.execution_graph(), 0, 1)
    assert repr(slot) == "SlotChannelState(slot 0, 3 tasks, 2 executors)"
    assert CheckpointConfig().max_subtasks_per_channel_state_file == 5
    assert repr(SlotChannelState.of(env.execution_graph(), 1, 1)) == "SlotChannelState(slot 1, 1 tasks, 1 executors)"
    assert (
        repr(SlotChannelState.of(fan_in().execution_graph(), 0, 1)) == "SlotChannelState(slot 0, 0 tasks, 0 executors)"
    )

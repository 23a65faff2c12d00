"""A task's writer of channel state, with the slot's machine behind it."""

from __future__ import annotations

import copy

import pytest

from kit.core.protocol.elements import CheckpointBarrier, EndOfData, Watermark
from kit.core.protocol.messages import ChannelStateFailed, ChannelStateWritten, SubmitChannelState
from kit.core.protocol.reasons import CheckpointException, CheckpointFailureReason
from kit.machines.channel.channel_state.channel_state_writer import ChannelStateWriter, ChannelStateWriteResult
from tests.machines.channel.channel_state import IN, OPTIONS, OUT, Slot, buffer, read_back, values, watched

CP = 42


class GivenUpError(Exception):
    """A cause of an abort."""


def reason(result: ChannelStateWriteResult) -> CheckpointFailureReason:
    assert isinstance(result.error, CheckpointException)
    return result.error.reason


def what(result: ChannelStateWriteResult) -> str:
    assert isinstance(result.error, CheckpointException)
    return result.error.detail


# --- what is stored ---------------------------------------------------------------------------------------------------


def test_what_was_added_can_be_taken_when_both_sides_are_finished() -> None:
    slot = Slot()
    slot.writer.start(CP, OPTIONS)
    slot.writer.add_input_data(CP, IN, 0, [buffer(1), buffer(2, 3)])
    slot.writer.add_output_data(CP, OUT, 0, [buffer(4)])
    slot.writer.finish_input(CP)
    result = slot.writer.take_result(CP)
    assert not slot.do().disk.paths()
    slot.writer.finish_output(CP)
    slot.do()
    assert result.done
    assert result.error is None
    assert [(h.info, len(h.offsets)) for h in result.input_handles] == [(IN, 2)]
    assert [(h.info, len(h.offsets)) for h in result.output_handles] == [(OUT, 1)]
    assert result.size_bytes == sum(h.size for h in (*result.input_handles, *result.output_handles)) > 0


def test_data_that_is_known_later_is_stored_when_it_is() -> None:
    slot = Slot()
    slot.writer.start(CP, OPTIONS)
    slot.writer.add_output_data_future(CP, OUT, 0)
    result = slot.finish(CP).writer.take_result(CP)
    slot.do()
    assert not result.done
    slot.writer.output_data_decided(CP, OUT, [buffer(1), Watermark(7)])
    slot.do()
    assert [len(h.offsets) for h in result.output_handles] == [2]


def test_data_that_cannot_be_known_fails_the_checkpoint_and_no_other() -> None:
    slot = Slot()
    slot.writer.start(CP, OPTIONS)
    slot.writer.add_output_data_future(CP, OUT, 0)
    result = slot.finish(CP).writer.take_result(CP)
    slot.writer.output_data_decided(CP, OUT, (), GivenUpError("no barrier"))
    slot.do()
    assert result.error is not None
    assert "GivenUpError: no barrier" in what(result)
    slot.writer.start(CP + 1, OPTIONS)
    assert slot.finish(CP + 1).do().writer.take_result(CP + 1).error is None


def test_a_result_is_taken_once() -> None:
    slot = Slot()
    slot.writer.start(CP, OPTIONS)
    slot.writer.take_result(CP)
    with pytest.raises(ValueError, match="no channel state of checkpoint 42"):
        slot.writer.take_result(CP)


def test_a_checkpoint_is_started_once() -> None:
    slot = Slot()
    slot.writer.start(CP, OPTIONS)
    with pytest.raises(ValueError, match="already"):
        slot.writer.start(CP, OPTIONS)


# --- what must not be -------------------------------------------------------------------------------------------------


@pytest.mark.flink("ChannelStateWriterImplTest.testAddEventBuffer")
@pytest.mark.parametrize("event", [EndOfData(drain=True), CheckpointBarrier(1, 0, OPTIONS)])
@pytest.mark.parametrize("output", [False, True], ids=["input", "output"])
def test_events_are_refused_and_the_data_beside_them_is_let_go(event: object, output: bool) -> None:
    slot = Slot()
    data, is_held = watched(1)
    slot.writer.start(CP, OPTIONS)
    result = slot.writer.take_result(CP)
    if output:
        slot.writer.add_output_data(CP, OUT, 1, [data.pop(), event])  # type: ignore[list-item]
    else:
        slot.writer.add_input_data(CP, IN, 1, [event, data.pop()])  # type: ignore[list-item]
    assert is_held()
    slot.run()
    assert not is_held()
    assert "is an event" in what(result)


@pytest.mark.flink("ChannelStateWriterImplTest.testNoAddDataAfterFinished")
def test_no_data_comes_after_the_end() -> None:
    slot = Slot()
    slot.writer.start(CP, OPTIONS)
    slot.finish(CP).run()
    slot.writer.add_input_data(CP, IN, 1, [])
    slot.run()
    with pytest.raises(RuntimeError, match="is finished already"):
        slot.writer.add_input_data(CP, IN, 1, [])


@pytest.mark.flink(
    "ChannelStateWriterImplTest.testAddDataNotStarted", "ChannelStateWriterImplTest.testFinishNotStarted"
)
@pytest.mark.parametrize("early", ["add_input_data", "add_output_data", "finish_input", "finish_output"])
def test_nothing_comes_before_the_start(early: str) -> None:
    slot = Slot()
    arguments = {"add_input_data": (IN, 1, [buffer(1)]), "add_output_data": (OUT, 1, [buffer(1)])}
    getattr(slot.writer, early)(CP, *arguments.get(early, ()))
    slot.run()
    with pytest.raises(RuntimeError, match="was not started"):
        slot.writer.start(CP, OPTIONS)


@pytest.mark.flink("ChannelStateWriterImplTest.testRethrowOnClose")
def test_what_ended_the_executor_is_told_when_the_task_leaves() -> None:
    slot = Slot()
    slot.writer.finish_input(CP)
    slot.run()
    with pytest.raises(RuntimeError, match="was not started"):
        slot.writer.close()
    slot.writer.close()


@pytest.mark.flink("ChannelStateWriterImplTest.testRethrowOnNextCall")
def test_what_ended_the_executor_is_told_at_the_next_call() -> None:
    slot = Slot("a/0", "b/0")
    slot.writers["b/0"].start(CP, OPTIONS)
    slot.writers["a/0"].finish_input(CP)
    slot.run()
    assert [(task, event.executor_ended) for task, event in slot.failures] == [("b/0", True), ("a/0", True)]
    with pytest.raises(RuntimeError, match="cannot be carried out") as raised:
        slot.writers["b/0"].start(CP + 1, OPTIONS)
    assert isinstance(raised.value.__cause__, CheckpointException)


@pytest.mark.flink("ChannelStateWriterImplTest.testLimit")
def test_so_many_checkpoints_may_be_open() -> None:
    asked: list[object] = []
    writer = ChannelStateWriter("a/0", asked.append, max_checkpoints=3)
    for checkpoint_id in range(3):
        writer.start(checkpoint_id, OPTIONS)
    with pytest.raises(RuntimeError, match="3 writes are open but the limit is 3"):
        writer.start(3, OPTIONS)
    assert len(asked) == 3
    writer.take_result(0)
    writer.start(3, OPTIONS)


# --- giving up --------------------------------------------------------------------------------------------------------


@pytest.mark.flink("ChannelStateWriterImplTest.testAbort")
def test_an_abort_ends_the_result_and_lets_buffers_go() -> None:
    slot = Slot()
    data, is_held = watched(1)
    slot.writer.start(CP, OPTIONS)
    result = slot.writer.take_result(CP)
    slot.writer.add_input_data(CP, IN, 1, [data.pop()])
    slot.writer.abort(CP, GivenUpError("no"), clean_up=False)
    slot.run()
    assert result.done
    assert "GivenUpError: no" in what(result)
    assert not is_held()


def test_an_abort_lets_go_of_what_was_collected_already() -> None:
    slot = Slot()
    data, is_held = watched(1)
    slot.writer.start(CP, OPTIONS)
    slot.writer.add_input_data(CP, IN, 1, [data.pop()])
    slot.run()
    assert is_held()
    slot.writer.abort(CP, GivenUpError("no"), clean_up=True)
    slot.run()
    assert not is_held()


@pytest.mark.flink("ChannelStateWriterImplTest.testAbortClearsResults")
def test_an_abort_that_cleans_up_leaves_no_result() -> None:
    slot = Slot()
    slot.writer.start(CP, OPTIONS)
    slot.writer.abort(CP, GivenUpError("no"), clean_up=True)
    with pytest.raises(ValueError, match="no channel state"):
        slot.writer.take_result(CP)


@pytest.mark.flink("ChannelStateWriterImplTest.testAbortDoesNotClearsResults")
def test_an_abort_that_does_not_leaves_it() -> None:
    slot = Slot()
    slot.writer.start(CP, OPTIONS)
    slot.writer.abort(CP, GivenUpError("no"), clean_up=False)
    slot.run()
    assert slot.writer.take_result(CP).done


def test_an_abort_is_asked_for_ahead_of_what_waits_and_behind_it() -> None:
    slot = Slot()
    slot.writer.start(CP, OPTIONS)
    slot.writer.add_output_data_future(CP, OUT, 0)
    result = slot.finish(CP).run().writer.take_result(CP)
    slot.writer.abort(CP, GivenUpError("no"), clean_up=False)
    requests = [word.request for word in slot.asked if isinstance(word, SubmitChannelState)]
    assert [(request.checkpoint_id, request.priority) for request in requests] == [(CP, True), (CP, False)]
    slot.run()
    assert "GivenUpError: no" in what(result)


@pytest.mark.flink("ChannelStateWriterImplTest.testAbortIgnoresMissing")
def test_what_was_never_started_can_be_aborted() -> None:
    slot = Slot()
    slot.writer.abort(CP, GivenUpError("no"), clean_up=False)
    slot.run()
    assert slot.answers == []
    slot.writer.start(CP + 1, OPTIONS)
    slot.finish(CP + 1).do()
    assert slot.writer.take_result(CP + 1).error is None


@pytest.mark.flink("ChannelStateWriterImplTest.testAbortOldAndStartNewCheckpoint")
def test_the_next_checkpoint_goes_on_when_one_is_aborted() -> None:
    slot = Slot()
    slot.writer.start(42, OPTIONS)
    slot.writer.abort(42, GivenUpError("the old one"), clean_up=False)
    slot.writer.start(43, OPTIONS)
    slot.run()
    old = slot.writer.take_result(42)
    assert old.done
    assert "GivenUpError: the old one" in what(old)
    assert not slot.writer.take_result(43).done


def test_a_checkpoint_that_is_aborted_while_it_is_written_leaves_no_file() -> None:
    slot = Slot()
    slot.writer.start(CP, OPTIONS)
    slot.writer.add_input_data(CP, IN, 1, [buffer(1)])
    result = slot.finish(CP).run().writer.take_result(CP)
    assert len(slot.jobs) == 1
    slot.writer.abort(CP, GivenUpError("no"), clean_up=True)
    slot.do()
    assert "GivenUpError" in what(result)
    assert slot.disk.paths() == []


def test_an_old_checkpoint_can_be_aborted_while_it_is_written_and_a_new_one_has_begun() -> None:
    slot = Slot()
    slot.writer.start(CP, OPTIONS)
    slot.writer.add_input_data(CP, IN, 1, [buffer(1)])
    old = slot.finish(CP).run().writer.take_result(CP)
    slot.writer.start(CP + 1, OPTIONS)
    slot.writer.abort(CP, GivenUpError("too old"), clean_up=True)
    slot.finish(CP + 1).do()
    assert "too old" in what(old)
    assert slot.writer.take_result(CP + 1).error is None


def test_an_answer_after_the_abort_finds_its_own_result() -> None:
    writer = ChannelStateWriter("a/0", lambda word: None)
    writer.start(CP, OPTIONS)
    first = writer.take_result(CP)
    writer.start(CP, OPTIONS)
    second = writer.take_result(CP)
    writer.failed(ChannelStateFailed(task="a/0", checkpoint_id=CP, error="aborted"))
    assert (first.done, second.done) == (True, False)
    writer.written(ChannelStateWritten(task="a/0", checkpoint_id=CP))
    assert (first.error is None, second.done, second.error) == (False, True, None)
    writer.written(ChannelStateWritten(task="a/0", checkpoint_id=CP))


# --- leaving ----------------------------------------------------------------------------------------------------------


@pytest.mark.flink("ChannelStateWriterImplTest.testResultCompletion")
def test_results_are_done_when_the_task_leaves() -> None:
    slot = Slot()
    slot.writer.start(CP, OPTIONS)
    result = slot.writer.take_result(CP)
    assert not result.done
    slot.writer.close()
    assert result.done
    assert reason(result) is CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_CLOSING


@pytest.mark.flink("ChannelStateWriterImplTest.testBuffersRecycledOnError")
def test_a_request_that_cannot_be_submitted_holds_nothing() -> None:
    def refuse(word: object) -> None:
        raise GivenUpError("no executor")

    writer = ChannelStateWriter("a/0", refuse)
    data, is_held = watched(1)
    with pytest.raises(RuntimeError, match="no executor") as raised:
        writer.add_input_data(CP, IN, 1, [data.pop()])
    assert isinstance(raised.value.__cause__, GivenUpError)
    del raised
    assert not is_held()


@pytest.mark.flink("ChannelStateWriterImplTest.testBuffersRecycledOnClose")
@pytest.mark.parametrize("collected", [False, True])
def test_a_task_that_leaves_leaves_no_buffers(collected: bool) -> None:
    slot = Slot()
    data, is_held = watched(1)
    slot.writer.start(CP, OPTIONS)
    slot.writer.add_input_data(CP, IN, 1, [data.pop()])
    if collected:
        slot.run()
    assert is_held()
    slot.writer.close()
    slot.run()
    assert not is_held()


@pytest.mark.flink(
    "ChannelStateWriterImplTest.testNoStartAfterClose", "ChannelStateWriterImplTest.testNoAddDataAfterClose"
)
def test_closed_means_closed() -> None:
    slot = Slot()
    slot.writer.start(CP, OPTIONS)
    slot.writer.close()
    with pytest.raises(RuntimeError, match="has closed"):
        slot.writer.start(CP + 1, OPTIONS)
    with pytest.raises(RuntimeError, match="has closed"):
        slot.writer.add_input_data(CP, IN, 1, [buffer(1)])
    slot.run().writer.output_data_decided(CP, OUT, [buffer(1)])
    assert slot.asked == []


# --- copies -----------------------------------------------------------------------------------------------------------


def test_a_copy_goes_on_by_itself_and_shares_the_buffers() -> None:
    slot = Slot("a/0", "b/0")
    for writer in slot.writers.values():
        writer.start(CP, OPTIONS)
    slot.writer.add_input_data(CP, IN, 0, [buffer(1)])
    slot.writer.add_output_data_future(CP, OUT, 0)
    slot.run()
    memo = {id(slot.files): slot.files, id(slot.storage): slot.storage}
    other = copy.deepcopy(slot, memo)
    for each, data in ((slot, 2), (other, 3)):
        each.writer.output_data_decided(CP, OUT, [buffer(data)])
        each.finish(CP).do()
        result = each.writer.take_result(CP)
        assert result.error is None
        (part,) = each.parts("result_subpartition", result.output_handles)
        assert values(read_back(part)) == [[data]]


def test_what_was_handed_over_stays_as_it_was() -> None:
    """The same words, handed to another slot, lead to the same: executing a request leaves the word alone."""
    slot, other = Slot(), Slot()
    slot.writer.start(CP, OPTIONS)
    slot.writer.add_input_data(CP, IN, 0, [buffer(1)])
    slot.writer.add_output_data_future(CP, OUT, 0)
    slot.writer.output_data_decided(CP, OUT, [buffer(2)])
    said = [*slot.finish(CP).asked]
    slot.run()
    other.asked = said
    other.run()
    assert len(other.jobs) == len(slot.jobs) == 1
    assert other.jobs[0].encode() == slot.jobs[0].encode()

"""One checkpoint's file of in-flight data: its content, the tasks that share it, and the tasks that fail together."""

from __future__ import annotations

import pytest

from kit.core.protocol.elements import Buffer
from kit.core.protocol.events import ChannelStateFileFailed
from kit.core.protocol.reasons import CheckpointFailureReason
from kit.core.state.handles import ByteStreamStateHandle, InputChannelInfo, RelativeFileStateHandle
from tests.machines.channel.channel_state import (
    IN,
    LOCATION,
    OPTIONS,
    OUT,
    TASK,
    Slot,
    await_out,
    buffer,
    complete,
    complete_in,
    complete_out,
    decided,
    encode_element,
    in_file,
    release,
    start,
    watched,
    write_in,
    write_out,
)

SHARED = CheckpointFailureReason.CHANNEL_STATE_SHARED_STREAM_EXCEPTION
ASYNC = CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION
FILE = "id-of-a-0-1-channel-state"


def names(count: int) -> list[str]:
    return [f"{letter}/0" for letter in "abcdefghij"[:count]]


def size(of: Buffer) -> int:
    return 4 + encode_element(of).size


def started(*tasks: str, absent: tuple[str, ...] = (), threshold_bytes: int = 0) -> Slot:
    """A slot of these tasks, of which all but those in `absent` have begun checkpoint 1; they share one file."""
    slot = Slot(*tasks, threshold_bytes=threshold_bytes, max_subtasks_per_file=10)
    return slot.hear(*(start(1, task) for task in slot.writers if task not in absent))


# --- what is in the file ----------------------------------------------------------------------------------------------


@pytest.mark.flink("ChannelStateCheckpointWriterTest.testFileHandleSize")
def test_a_handles_size_is_that_of_its_channels_bytes() -> None:
    slot = started()
    channels = [InputChannelInfo(0, number) for number in range(3)]
    for number in range(4):
        slot.hear(*(write_in(buffer(number), info=channel) for channel in channels))
    slot.hear(*complete()).write_files()
    event = slot.written()[TASK]
    assert [handle.info for handle in event.input_handles] == channels
    assert {handle.size for handle in event.input_handles} == {4 * size(buffer(0))}
    (delegate,) = {handle.delegate for handle in event.input_handles}
    assert isinstance(delegate, RelativeFileStateHandle)
    assert delegate.size == 4 + 12 * size(buffer(0))
    assert event.bytes_written == 12 * size(buffer(0))
    assert slot.storage.read(delegate).size == delegate.size


@pytest.mark.flink("ChannelStateCheckpointWriterTest.testSmallFilesNotWritten")
def test_a_small_file_is_not_written() -> None:
    slot = started(threshold_bytes=10_000).hear(write_in(), *complete()).write_files()
    (handle,) = slot.written()[TASK].input_handles
    assert isinstance(handle.delegate, ByteStreamStateHandle)
    assert slot.disk.paths() == []


@pytest.mark.flink("ChannelStateCheckpointWriterTest.testEmptyState")
def test_without_data_there_is_neither_file_nor_handle() -> None:
    slot = started("a/0", "b/0").hear(*complete("a/0", "b/0"))
    assert slot.jobs == []
    for event in slot.written().values():
        assert (event.input_handles, event.output_handles, event.bytes_written) == ((), (), 0)
    assert list(slot.written()) == ["a/0", "b/0"]


@pytest.mark.flink("ChannelStateCheckpointWriterTest.testRecyclingBuffers")
def test_the_machine_holds_no_buffer_once_the_host_has_them() -> None:
    data, is_held = watched(1)
    slot = started().hear(write_in(data.pop()), *complete())
    assert is_held()
    answer = slot.answer_to(slot.jobs.pop())
    slot.hear(start(2))
    assert not is_held()
    slot.hear(answer)
    assert list(slot.written()) == [TASK]


@pytest.mark.flink("ChannelStateCheckpointWriterTest.testFlush")
def test_all_that_was_given_is_in_the_file_when_the_result_is_done() -> None:
    given = [buffer(number) for number in range(5)]
    slot = started().hear(*map(write_out, given), *complete()).write_files()
    (handle,) = slot.written()[TASK].output_handles
    assert handle.delegate.state_size == 4 + handle.size
    data = slot.storage.read(handle.delegate).to_pybytes()
    assert data == b"\0\0\0\0" + b"".join(
        encode_element(each).size.to_bytes(4, "big") + encode_element(each).to_pybytes() for each in given
    )


@pytest.mark.flink("ChannelStateCheckpointWriterTest.testRecordingOffsets")
@pytest.mark.parametrize("inline", [False, True])
def test_offsets_list_every_write_in_order(inline: bool) -> None:
    slot = started(threshold_bytes=100_000 if inline else 0)
    counts = {InputChannelInfo(1, 1): 1, InputChannelInfo(1, 2): 2, InputChannelInfo(1, 3): 5}
    for channel, count in counts.items():
        slot.hear(*(write_in(info=channel) for _ in range(count)))
    slot.hear(*complete()).write_files()
    step, at = size(buffer(1)), 4
    for handle in slot.written()[TASK].input_handles:
        count = counts.pop(handle.info)
        if inline:
            assert handle.offsets == (4,)
            assert handle.size == handle.delegate.state_size == 4 + 4 + count * (step - 4)
        else:
            assert handle.offsets == tuple(at + number * step for number in range(count))
            at += count * step
    assert counts == {}


def test_handles_are_in_the_order_of_channels_whatever_that_of_the_data() -> None:
    slot = started()
    channels = [InputChannelInfo(1, 0), InputChannelInfo(0, 1), InputChannelInfo(1, 0), InputChannelInfo(0, 0)]
    slot.hear(*(write_in(buffer(number), info=channel) for number, channel in enumerate(channels)), *complete())
    assert in_file(slot.jobs[0]) == [[0], [1], [2], [3]]
    slot.write_files()
    handles = slot.written()[TASK].input_handles
    step = size(buffer(0))
    assert [(handle.info, handle.offsets) for handle in handles] == [
        (InputChannelInfo(0, 0), (4 + 3 * step,)),
        (InputChannelInfo(0, 1), (4 + step,)),
        (InputChannelInfo(1, 0), (4, 4 + 2 * step)),
    ]


def test_small_streams_of_several_channels_have_names_of_their_own() -> None:
    slot = Slot("a/0", "b/0", threshold_bytes=100_000)
    for writer in slot.writers.values():
        writer.start(1, OPTIONS)
        writer.add_input_data(1, IN, 0, [buffer(1)])
        writer.add_output_data(1, OUT, 0, [buffer(2)])
    slot.finish(1).do()
    names = [handle.delegate.physical_id for handle in slot.states()]  # type: ignore[attr-defined]
    assert names == [f"{FILE}-{position}" for position in range(4)]


def test_a_file_is_named_by_its_first_subtask_and_the_checkpoint() -> None:
    slot = Slot("a/0", "b/0")
    for name, writer in slot.writers.items():
        writer.start(7, OPTIONS)
        writer.add_input_data(7, IN, 0, [buffer(1, 2)] * (1 + (name == "b/0")))
    slot.finish(7).run()
    assert [(job.task, job.checkpoint_id, job.location) for job in slot.jobs] == [("a/0", 7, LOCATION)]
    slot.do()
    assert slot.disk.paths() == [f"{LOCATION}/id-of-a-0-7-channel-state"]


# --- who shares it ----------------------------------------------------------------------------------------------------


@pytest.mark.flink("ChannelStateCheckpointWriterTest.testResultCompletion")
@pytest.mark.parametrize("count", range(1, 10))
@pytest.mark.parametrize("data", [False, True])
def test_all_are_done_when_the_last_one_is(count: int, data: bool) -> None:
    slot = started(*names(count))
    for task in names(count):
        if data:
            slot.hear(write_in(task=task))
        slot.hear(complete_in(task=task))
        assert (slot.jobs, slot.answers) == ([], [])
        slot.hear(complete_out(task=task))
    if data:
        assert slot.answers == []
        slot.write_files()
    assert list(slot.written()) == names(count)
    assert slot.errors() == {}


def test_answers_are_in_the_order_of_the_starts() -> None:
    slot = started("a/0", "b/0", "c/0", absent=("a/0", "b/0", "c/0"))
    slot.hear(start(1, "c/0"), start(1, "a/0"), start(1, "b/0"), *complete("a/0", "b/0", "c/0"))
    assert list(slot.written()) == ["c/0", "a/0", "b/0"]


@pytest.mark.flink("ChannelStateCheckpointWriterTest.testTaskUnregister")
@pytest.mark.parametrize("count", [2, 3, 5, 10])
def test_a_subtask_that_leaves_holds_nobody_up(count: int) -> None:
    leaving, *others = names(count)
    slot = started(*names(count), absent=(leaving,)).hear(*complete(*others))
    assert slot.answers == []
    slot.hear(release(leaving))
    assert list(slot.written()) == others
    slot.hear(*(start(2, task) for task in others), *complete(*others, checkpoint_id=2))
    assert [event.checkpoint_id for event in slot.written().values()] == [2] * len(others)


def test_a_subtask_that_leaves_does_not_complete_what_has_failed() -> None:
    slot = started("a/0", "b/0", absent=("b/0",)).hear(*complete("a/0"))
    slot.hear(await_out(task="b/0"), decided(task="b/0", error=ValueError("no")), release("b/0"))
    assert [(task, event.reason) for task, event in slot.failures] == [("a/0", SHARED)]
    assert slot.written() == {}


def test_a_subtask_that_leaves_after_its_start_is_waited_for() -> None:
    slot = started("a/0", "b/0").hear(*complete("b/0"), release("a/0"))
    assert slot.answers == []
    slot.hear(*complete("a/0"))
    assert list(slot.written()) == ["a/0", "b/0"]


@pytest.mark.flink("ChannelStateCheckpointWriterTest.testTaskFailThenCompleteOtherTask")
@pytest.mark.parametrize("count", [2, 3, 5, 10])
def test_what_fails_for_one_fails_for_all_that_share(count: int) -> None:
    failing, *others = names(count)
    data, is_held = watched(1)
    slot = started(*names(count)).hear(
        write_in(data.pop(), task=failing), await_out(task=failing), await_out(task=others[0])
    )
    assert is_held()
    slot.hear(decided(task=failing, error=ValueError("no")))
    assert not is_held()
    slot.hear(decided(task=others[0], error=ValueError("me too")), *complete(*others))
    errors = slot.errors()
    assert {task: errors[task].reason for task in errors} == dict.fromkeys(others, SHARED) | {failing: ASYNC}
    assert {error.error for error in errors.values()} == {"no"}
    assert len(slot.failures) == count
    assert (slot.written(), slot.jobs, slot.cancelled) == ({}, [], [])


@pytest.mark.flink("ChannelStateCheckpointWriterTest.testCloseGetHandleThrowException")
@pytest.mark.parametrize("reason", [ASYNC, CheckpointFailureReason.IO_EXCEPTION])
@pytest.mark.parametrize("may_pass", [False, True])
def test_a_file_that_cannot_be_written_fails_for_all(reason: CheckpointFailureReason, may_pass: bool) -> None:
    slot = started(*names(5))
    slot.hear(*(write_in(task=task) for task in names(5)), *complete(*names(5)))
    slot.hear(
        ChannelStateFileFailed(checkpoint_id=1, file_name=FILE, reason=reason, error="disk full", may_pass=may_pass)
    )
    errors = slot.errors()
    assert list(errors) == names(5)
    assert {(each.reason, each.error, each.may_pass) for each in errors.values()} == {(reason, "disk full", may_pass)}
    assert not any(each.executor_ended for each in errors.values())
    assert slot.cancelled == []
    slot.hear(*(start(2, task) for task in names(5)), *complete(*names(5), checkpoint_id=2))
    assert list(slot.written()) == names(5)


def test_a_failed_file_is_the_end_of_one_checkpoint_whatever_comes_later() -> None:
    slot = started().hear(write_in(), *complete())
    (job,) = slot.jobs
    answer = slot.answer_to(job)
    slot.hear(ChannelStateFileFailed(checkpoint_id=1, file_name=FILE, error="disk full"), answer)
    assert (list(slot.errors()), slot.written()) == ([TASK], {})


def test_several_checkpoints_may_be_written_at_once() -> None:
    slot = started().hear(write_in(), *complete(), start(2), write_in(checkpoint_id=2), *complete(checkpoint_id=2))
    first, second = slot.jobs
    slot.hear(slot.answer_to(second), slot.answer_to(first))
    assert [event.checkpoint_id for event in slot.answers] == [2, 1]


@pytest.mark.flink("ChannelStateCheckpointWriterTest.testRegisterSubtaskAfterWriterDone")
def test_nobody_begins_when_it_is_done() -> None:
    slot = started("a/0", "b/0", "c/0", absent=("b/0", "c/0"))
    slot.hear(await_out(task="a/0"), decided(task="a/0", error=ValueError("no")))
    slot.hear(start(1, "b/0"))
    assert slot.errors()["b/0"].executor_ended
    assert "b/0 cannot begin" in slot.errors()["b/0"].error
    assert "the write is done" in slot.errors()["b/0"].error
    slot.hear(start(1, "c/0"))
    assert slot.errors()["c/0"].error == slot.errors()["b/0"].error


def test_nobody_writes_who_has_not_begun() -> None:
    slot = started("a/0", "b/0", absent=("b/0",)).hear(write_in(task="b/0"))
    assert "b/0 has not begun" in slot.errors()["b/0"].error
    assert all(error.executor_ended for error in slot.errors().values())


def test_a_write_of_one_that_has_not_begun_is_ignored_when_the_checkpoint_has_failed() -> None:
    slot = started("a/0", "b/0", absent=("b/0",))
    slot.hear(await_out(task="a/0"), decided(task="a/0", error=ValueError("no")), write_in(task="b/0"))
    assert list(slot.errors()) == ["a/0"]

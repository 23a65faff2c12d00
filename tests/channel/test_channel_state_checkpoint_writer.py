"""One checkpoint's file of in-flight data: what is in it, who shares it, and what fails with whom."""

from __future__ import annotations

import pytest

from kit.core.protocol.elements import Buffer
from kit.core.protocol.events import ChannelStateFileFailed
from kit.core.protocol.reasons import CheckpointFailureReason
from kit.core.state.handles import ByteStreamStateHandle, InputChannelInfo, RelativeFileStateHandle
from kit.machines.channel.channel_state.channel_state_checkpoint_writer import (
    ChannelStateCheckpointWriter,
    ChannelStateFile,
    WriterState,
)
from tests.channel.channel_state import (
    IN,
    LOCATION,
    OPTIONS,
    OUT,
    TASK,
    Outbox,
    Slot,
    a_storage,
    buffer,
    encode_element,
    watched,
    written,
)

SHARED = CheckpointFailureReason.CHANNEL_STATE_SHARED_STREAM_EXCEPTION
ASYNC = CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION
FILE = ChannelStateFile(TASK, "id", 0)


class Checkpoint:
    """A writer with these subtasks; all but those in `absent` have begun."""

    def __init__(self, *tasks: str, absent: tuple[str, ...] = (), threshold_bytes: int = 0) -> None:
        self.tasks = tasks or (TASK,)
        self.outbox = Outbox()
        self.completed: list[ChannelStateCheckpointWriter] = []
        self.storage = a_storage(threshold_bytes)
        self.writer = ChannelStateCheckpointWriter(self.tasks, 1, LOCATION, FILE, self.outbox, self.completed.append)
        for task in self.tasks:
            if task not in absent:
                self.writer.register_subtask_result(task, 0)

    def complete(self, *tasks: str) -> Checkpoint:
        """These subtasks, or all, have given all."""
        for task in tasks or self.tasks:
            self.writer.complete_input(task)
            self.writer.complete_output(task)
        return self

    def write_file(self) -> Checkpoint:
        """Have the host write the file."""
        (job,) = self.outbox.jobs()
        self.writer.file_written(written(job, self.storage))
        return self


def names(count: int) -> list[str]:
    return [f"{letter}/0" for letter in "abcdefghij"[:count]]


def size(of: Buffer) -> int:
    return 4 + encode_element(of).size


# --- what is in the file ----------------------------------------------------------------------------------------------


@pytest.mark.flink("ChannelStateCheckpointWriterTest.testFileHandleSize")
def test_a_handles_size_is_that_of_its_channels_bytes() -> None:
    checkpoint = Checkpoint()
    channels = [InputChannelInfo(0, number) for number in range(3)]
    for number in range(4):
        for channel in channels:
            checkpoint.writer.write_input(TASK, channel, buffer(number))
    checkpoint.complete().write_file()
    event = checkpoint.outbox.written_to()[TASK]
    assert [handle.info for handle in event.input_handles] == channels
    assert {handle.size for handle in event.input_handles} == {4 * size(buffer(0))}
    (delegate,) = {handle.delegate for handle in event.input_handles}
    assert isinstance(delegate, RelativeFileStateHandle)
    assert delegate.size == 4 + 12 * size(buffer(0))
    assert event.bytes_written == 12 * size(buffer(0))
    assert checkpoint.storage.read(delegate).size == delegate.size


@pytest.mark.flink("ChannelStateCheckpointWriterTest.testSmallFilesNotWritten")
def test_a_small_file_is_not_written() -> None:
    checkpoint = Checkpoint(threshold_bytes=10_000)
    checkpoint.writer.write_input(TASK, IN, buffer(1))
    checkpoint.complete().write_file()
    (handle,) = checkpoint.outbox.written_to()[TASK].input_handles
    assert isinstance(handle.delegate, ByteStreamStateHandle)
    assert checkpoint.storage.names(LOCATION) == []


@pytest.mark.flink("ChannelStateCheckpointWriterTest.testEmptyState")
def test_without_data_there_is_neither_file_nor_handle() -> None:
    checkpoint = Checkpoint("a/0", "b/0").complete()
    assert checkpoint.outbox.jobs() == []
    for event in checkpoint.outbox.written_to().values():
        assert (event.input_handles, event.output_handles, event.bytes_written) == ((), (), 0)
    assert checkpoint.writer.state is WriterState.COMPLETED
    assert checkpoint.completed == [checkpoint.writer]


@pytest.mark.flink("ChannelStateCheckpointWriterTest.testRecyclingBuffers")
def test_the_writer_holds_no_buffer_once_the_host_has_them() -> None:
    checkpoint = Checkpoint()
    data, is_held = watched(1)
    checkpoint.writer.write_input(TASK, IN, data.pop())
    checkpoint.complete()
    assert is_held()
    checkpoint.write_file().outbox.take()
    assert not is_held()


@pytest.mark.flink("ChannelStateCheckpointWriterTest.testFlush")
def test_all_that_was_given_is_in_the_file_when_the_result_is_done() -> None:
    checkpoint = Checkpoint(threshold_bytes=0)
    given = [buffer(number) for number in range(5)]
    for each in given:
        checkpoint.writer.write_output(TASK, OUT, each)
    checkpoint.complete().write_file()
    (handle,) = checkpoint.outbox.written_to()[TASK].output_handles
    data = checkpoint.storage.read(handle.delegate).to_pybytes()
    assert data == b"\0\0\0\0" + b"".join(
        encode_element(each).size.to_bytes(4, "big") + encode_element(each).to_pybytes() for each in given
    )


@pytest.mark.flink("ChannelStateCheckpointWriterTest.testRecordingOffsets")
@pytest.mark.parametrize("inline", [False, True])
def test_offsets_list_every_write_in_order(inline: bool) -> None:
    checkpoint = Checkpoint(threshold_bytes=100_000 if inline else 0)
    counts = {InputChannelInfo(1, 1): 1, InputChannelInfo(1, 2): 2, InputChannelInfo(1, 3): 5}
    for channel, count in counts.items():
        for _ in range(count):
            checkpoint.writer.write_input(TASK, channel, buffer(1))
    checkpoint.complete().write_file()
    step, at = size(buffer(1)), 4
    for handle in checkpoint.outbox.written_to()[TASK].input_handles:
        count = counts.pop(handle.info)
        if inline:
            assert handle.offsets == (4,)
            assert handle.size == handle.delegate.state_size == 4 + 4 + count * (step - 4)
        else:
            assert handle.offsets == tuple(at + number * step for number in range(count))
            at += count * step
    assert counts == {}


def test_small_streams_of_several_channels_have_names_of_their_own() -> None:
    slot = Slot("a/0", "b/0", threshold_bytes=100_000)
    for writer in slot.writers.values():
        writer.start(1, OPTIONS)
        writer.add_input_data(1, IN, 0, [buffer(1)])
        writer.add_output_data(1, OUT, 0, [buffer(2)])
    slot.finish(1).do()
    names = [handle.delegate.physical_id for handle in slot.states()]  # type: ignore[attr-defined]
    assert len(set(names)) == len(names) == 4


def test_a_file_is_named_by_its_first_subtask_and_the_checkpoint() -> None:
    slot = Slot("a/0", "b/0")
    for name, writer in slot.writers.items():
        writer.start(7, OPTIONS)
        writer.add_input_data(7, IN, 0, [buffer(1, 2)] * (1 + (name == "b/0")))
    slot.finish(7).do()
    assert slot.disk.paths() == [f"{LOCATION}/id-of-a-0-7-channel-state"]


# --- who shares it ----------------------------------------------------------------------------------------------------


@pytest.mark.flink("ChannelStateCheckpointWriterTest.testResultCompletion")
@pytest.mark.parametrize("count", range(1, 10))
@pytest.mark.parametrize("data", [False, True])
def test_all_are_done_when_the_last_one_is(count: int, data: bool) -> None:
    checkpoint = Checkpoint(*names(count))
    for task in names(count):
        assert not checkpoint.writer.is_done
        if data:
            checkpoint.writer.write_input(task, IN, buffer(1))
        checkpoint.writer.complete_input(task)
        assert not checkpoint.writer.is_done
        assert checkpoint.outbox.written_to() == {}
        checkpoint.writer.complete_output(task)
    assert checkpoint.writer.is_done
    if data:
        assert checkpoint.outbox.written_to() == {}
        checkpoint.write_file()
    assert list(checkpoint.outbox.written_to()) == names(count)
    assert checkpoint.outbox.errors() == {}


@pytest.mark.flink("ChannelStateCheckpointWriterTest.testTaskUnregister")
@pytest.mark.parametrize("count", [2, 3, 5, 10])
def test_a_subtask_that_leaves_holds_nobody_up(count: int) -> None:
    leaving, *others = names(count)
    checkpoint = Checkpoint(*names(count), absent=(leaving,)).complete(*others)
    assert not checkpoint.writer.is_done
    checkpoint.writer.release_subtask(leaving)
    assert list(checkpoint.outbox.written_to()) == others
    assert checkpoint.completed == [checkpoint.writer]


@pytest.mark.flink("ChannelStateCheckpointWriterTest.testTaskFailThenCompleteOtherTask")
@pytest.mark.parametrize("count", [2, 3, 5, 10])
@pytest.mark.parametrize("when", ["collecting", "writing"])
def test_what_fails_for_one_fails_for_all_that_share(count: int, when: str) -> None:
    failing, *others = names(count)
    checkpoint = Checkpoint(*names(count))
    data, is_held = watched(1)
    checkpoint.writer.write_input(failing, IN, data.pop())
    if when == "writing":
        checkpoint.complete()
    checkpoint.writer.fail_subtask(failing, ValueError("no"))
    checkpoint.writer.fail_subtask(others[0], ValueError("me too"))
    errors = checkpoint.outbox.errors()
    assert {task: errors[task].reason for task in errors} == dict.fromkeys(others, SHARED) | {failing: ASYNC}
    assert all("no" in error.error for error in errors.values())
    assert checkpoint.outbox.cancelled() == ([FILE.name(1)] if when == "writing" else [])
    if when == "collecting":
        checkpoint.complete(*others)
        assert not is_held()
    assert checkpoint.outbox.written_to() == {}


@pytest.mark.flink("ChannelStateCheckpointWriterTest.testCloseGetHandleThrowException")
@pytest.mark.parametrize("reason", [ASYNC, CheckpointFailureReason.IO_EXCEPTION])
def test_a_file_that_cannot_be_written_fails_for_all(reason: CheckpointFailureReason) -> None:
    checkpoint = Checkpoint(*names(5))
    for task in names(5):
        checkpoint.writer.write_input(task, InputChannelInfo(1, 2), buffer(1))
    for task in names(5):
        assert not checkpoint.writer.is_done
        checkpoint.complete(task)
    failed = ChannelStateFileFailed(checkpoint_id=1, file_name=FILE.name(1), reason=reason, error="disk full")
    checkpoint.writer.file_failed(failed)
    errors = checkpoint.outbox.errors()
    assert list(errors) == names(5)
    assert {(error.reason, error.error) for error in errors.values()} == {(reason, "disk full")}
    assert checkpoint.outbox.cancelled() == []


@pytest.mark.flink("ChannelStateCheckpointWriterTest.testRegisterSubtaskAfterWriterDone")
def test_nobody_begins_when_it_is_done() -> None:
    checkpoint = Checkpoint("a/0", "b/0", absent=("a/0", "b/0"))
    checkpoint.writer.fail_subtask("c/0", ValueError("no"))
    for task in ("a/0", "b/0"):
        with pytest.raises(RuntimeError, match="the write is done"):
            checkpoint.writer.register_subtask_result(task, 0)


def test_there_is_somebody() -> None:
    with pytest.raises(ValueError, match="no subtask"):
        ChannelStateCheckpointWriter((), 1, LOCATION, FILE, Outbox(), lambda writer: None)


def test_nobody_writes_who_has_not_begun() -> None:
    checkpoint = Checkpoint("a/0", "b/0", absent=("b/0",))
    with pytest.raises(ValueError, match="b/0 has not begun"):
        checkpoint.writer.write_input("b/0", IN, buffer(1))
    checkpoint.writer.fail(ValueError("no"))
    checkpoint.writer.write_input("b/0", IN, buffer(1))

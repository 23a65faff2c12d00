"""In-flight data of a slot's tasks: one file of all, written in the background, or nothing of it."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pytest

from kit.core.protocol.attempts import Attempts
from kit.core.protocol.commands import ReadState
from kit.core.protocol.duties import Command
from kit.core.protocol.elements import Buffer, CheckpointBarrier
from kit.core.protocol.events import (
    ChannelStateFileFailed,
    ChannelStateFileWritten,
    ProcessInput,
    SnapshotWritten,
    StateRead,
)
from kit.core.protocol.messages import (
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    DeployTask,
    JobMessage,
    NotifyCheckpointAborted,
    TriggerTaskCheckpoint,
)
from kit.core.protocol.options import AlignmentType, CheckpointOptions
from kit.core.protocol.reasons import CheckpointFailureReason
from kit.core.protocol.tasks import TaskRestore
from kit.core.protocol.words import Envelope, ProtocolMessage
from kit.core.state.handles import (
    ByteStreamStateHandle,
    InputChannelInfo,
    InputChannelStateHandle,
    KeyGroupRange,
    RelativeFileStateHandle,
    ResultSubpartitionInfo,
    ResultSubpartitionStateHandle,
)
from kit.core.state.operator_state import TaskStateSnapshot
from kit.core.state.restored_state import RestoredSubtaskState
from kit.files.storage import CheckpointLocation
from kit.files.task_files import TaskFiles
from kit.hosts.spark.edge import SparkOutput, open_storage
from kit.hosts.spark.slot.task_host import TaskHost
from kit.machines.channel.channel_state.channel_state_reader import SequentialChannelStateReader
from kit.machines.channel.recovered_channel import RecoveredInputChannel
from kit.machines.task.stream_task import StreamTask
from kit.stream.graph.execution_graph import ExecutionGraph
from tests.hosts.spark.jobs import generator, totals_job
from tests.hosts.spark.test_slot import Held, Wires

M = TypeVar("M", bound=JobMessage)

ROWS = pa.RecordBatch.from_pydict({"key": [4], "value": [3]})


class UnalignedSlot:
    """Slot 0 of two: `rows/0`, `copy/0` and `totals/0`, which share a file; `rows/1` is played by the test."""

    def __init__(self, directory: Path) -> None:
        job = totals_job(directory, generator(4_000), unaligned=True, memory_threshold_bytes=0).job_graph()
        self.location = directory / "chk-1"
        self.said: list[JobMessage] = []
        self.wires, self.background, self.at_ms = Wires(), Held(), 1_000
        self.graph = ExecutionGraph(job)
        self.files = TaskFiles(job, open_storage(job, str(directory / "checkpoints")), SparkOutput(""))
        self.host = TaskHost(
            self.graph, 0, Attempts(1), self.files, self.wires, self._say, self.background, lambda: self.at_ms
        )
        for task in self.host.tasks:
            self.host.message(DeployTask(task=task, attempt=1, restore=None))
        self.host.work()

    def _say(self, envelope: Envelope) -> None:
        self.said.append(envelope.word)

    def checkpoint(self) -> UnalignedSlot:
        """Take checkpoint 1; on each channel from the other slot a buffer comes before the barrier."""
        options = CheckpointOptions(location=str(self.location), alignment=AlignmentType.UNALIGNED)
        self.host.message(
            TriggerTaskCheckpoint(task="rows/0", attempt=1, checkpoint_id=1, timestamp_ms=900, options=options)
        )
        self.host.work()
        for route in self.host.routes:
            if (route.producer, route.consumer) == (1, 0):
                self.host.element(route.channel, Buffer(ROWS))
                self.host.element(route.channel, CheckpointBarrier(1, 900, options))
        self.host.work()
        return self

    def count_turns(self, task: StreamTask, turns: list[str], each_ms: int) -> None:
        """Record every turn of the task from now on, and let it take `each_ms`."""
        handle = task.handle

        def slow(event: ProtocolMessage, at: int, cause: str) -> list[ProtocolMessage]:
            if isinstance(event, ProcessInput):
                turns.append(task.name)
                self.at_ms += each_ms
            return handle(event, at, cause)

        task.handle = slow  # type: ignore[method-assign]

    def heard(self, kind: type[M]) -> dict[str, M]:
        """Return what the tasks said of this kind, by task."""
        return {message.task: message for message in self.said if isinstance(message, kind)}  # type: ignore[attr-defined]

    @property
    def on_disk(self) -> list[str]:
        """Files of in-flight data."""
        return [path.name for path in self.location.parent.rglob("*channel-state*")]


@pytest.fixture
def slot(tmp_path: Path) -> UnalignedSlot:
    return UnalignedSlot(tmp_path).checkpoint()


def test_what_was_in_flight_is_in_one_file_and_the_tasks_answer_when_it_is_there(slot: UnalignedSlot) -> None:
    assert slot.heard(AcknowledgeCheckpoint) == {}
    answers = slot.background.work(slot.host)
    (written,) = [answer for answer in answers if isinstance(answer, ChannelStateFileWritten)]
    assert {type(answer) for answer in answers} == {SnapshotWritten, ChannelStateFileWritten}
    slot.host.work()
    acks = slot.heard(AcknowledgeCheckpoint)
    assert set(acks) == {"rows/0", "copy/0", "totals/0"}
    assert slot.on_disk == [written.file_name]
    handles = [
        handle
        for ack in acks.values()
        if ack.state
        for s in ack.state.subtask_states.values()
        for handle in s.input_channel_state
    ]
    assert {type(handle.delegate) for handle in handles} == {RelativeFileStateHandle}
    assert len(handles) >= 2
    assert {handle.delegate.path for handle in handles} == {str(slot.location / written.file_name)}


def test_what_was_in_flight_comes_back_to_its_channel(slot: UnalignedSlot) -> None:
    slot.background.work(slot.host)
    slot.host.work()
    state = slot.heard(AcknowledgeCheckpoint)["totals/0"].state
    assert state is not None
    answer = slot.files.carry_out(ReadState(restore=TaskRestore(1, state), key_group_range=KeyGroupRange(0, 7)))
    assert isinstance(answer, StateRead)
    channels = [RecoveredInputChannel(channel.info) for channel in slot.host.tasks["totals/0"].inputs]
    SequentialChannelStateReader(answer.parts).read_input_data([channels])
    from_other = [element for element in channels[1].queued if isinstance(element, Buffer)]
    assert [buffer.batch for buffer in from_other] == [ROWS]


def test_a_checkpoint_that_is_aborted_before_its_file_is_written_leaves_none(slot: UnalignedSlot) -> None:
    slot.host.message(
        NotifyCheckpointAborted(task="copy/0", attempt=1, checkpoint_id=1, timestamp_ms=900, latest_completed_id=0)
    )
    slot.host.work()
    answers = slot.background.work(slot.host)
    assert not any(isinstance(answer, ChannelStateFileWritten) for answer in answers)
    assert slot.on_disk == []
    slot.host.work()
    reasons = {task: message.reason for task, message in slot.heard(DeclineCheckpoint).items()}
    assert reasons == dict.fromkeys(
        ("rows/0", "totals/0"), CheckpointFailureReason.CHANNEL_STATE_SHARED_STREAM_EXCEPTION
    )


def test_a_checkpoint_that_is_aborted_while_its_file_is_written_leaves_none(slot: UnalignedSlot) -> None:
    carry_out = slot.files.carry_out

    def interrupted(command: Command, sync_ms: int = 0) -> ProtocolMessage | None:
        answer = carry_out(command, sync_ms)
        if isinstance(answer, ChannelStateFileWritten):
            assert slot.on_disk == [answer.file_name]
            slot.host.message(
                NotifyCheckpointAborted(
                    task="copy/0", attempt=1, checkpoint_id=1, timestamp_ms=900, latest_completed_id=0
                )
            )
            slot.host.work()
        return answer

    slot.files.carry_out = interrupted  # type: ignore[method-assign]
    answers = slot.background.work(slot.host)
    assert not any(isinstance(answer, ChannelStateFileWritten) for answer in answers)
    assert slot.on_disk == []


def test_a_file_that_cannot_be_written_fails_the_checkpoint_of_all_that_share_it(slot: UnalignedSlot) -> None:
    slot.location.write_bytes(b"in the way")
    answers = slot.background.work(slot.host)
    assert any(isinstance(answer, ChannelStateFileFailed) for answer in answers)
    slot.host.work()
    declined = slot.heard(DeclineCheckpoint)
    assert set(declined) == {"rows/0", "copy/0", "totals/0"}
    assert {message.reason for message in declined.values()} == {CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION}


# --- turns ------------------------------------------------------------------------------------------------------------


def test_a_turn_that_takes_long_ends_the_round_and_a_barrier_that_overtakes_is_next(tmp_path: Path) -> None:
    slot = UnalignedSlot(tmp_path)
    while slot.host.work():
        pass
    slot.background.jobs.clear()
    turns: list[str] = []
    for task in slot.host.tasks.values():
        slot.count_turns(task, turns, each_ms=50)
    from_other = [route.channel for route in slot.host.routes if (route.producer, route.consumer) == (1, 0)]
    for channel in from_other * 2:
        slot.host.element(channel, Buffer(ROWS))
    assert slot.host.work()
    assert turns == ["totals/0"]
    assert slot.host.work()
    assert turns == ["totals/0", "copy/0"]
    options = CheckpointOptions(location=str(slot.location), alignment=AlignmentType.UNALIGNED)
    (to_copy,) = [channel for channel in from_other if slot.graph.channel(channel).target_task == "copy/0"]
    slot.host.element(to_copy, CheckpointBarrier(1, 900, options))
    assert slot.host.work()
    assert turns == ["totals/0", "copy/0", "copy/0"]
    assert slot.host.tasks["copy/0"].checkpoints.last_checkpoint_id == 1


# --- on disk ----------------------------------------------------------------------------------------------------------


def test_a_stream_that_holds_many_channels_is_read_once(tmp_path: Path) -> None:
    job = totals_job(tmp_path, generator(4_000)).job_graph()
    storage = open_storage(job, str(tmp_path / "checkpoints"))
    read: list[object] = []
    original = storage.read
    storage.read = lambda handle: read.append(handle) or original(handle)  # type: ignore[func-returns-value, method-assign]
    stream = storage.to_handle(b"\0" * 30_000, CheckpointLocation(str(tmp_path / "chk-1")), "channel-state")
    small = ByteStreamStateHandle("small", b"\0\0\0\0")
    state = RestoredSubtaskState(
        input_channel_state=tuple(
            InputChannelStateHandle(0, InputChannelInfo(0, n), (4,), 8, stream) for n in range(3)
        ),
        result_subpartition_state=(ResultSubpartitionStateHandle(0, ResultSubpartitionInfo(0, 0), (4,), 8, stream),),
        upstream_output_buffer_state=(InputChannelStateHandle(1, InputChannelInfo(0, 0), (4,), 8, small),),
    )
    files = TaskFiles(job, storage, SparkOutput(""))
    answer = files.carry_out(
        ReadState(restore=TaskRestore(1, TaskStateSnapshot({"op": state})), key_group_range=KeyGroupRange(0, 7))
    )
    assert isinstance(answer, StateRead)
    assert [part.kind for part in answer.parts] == [
        *["input_channel"] * 3,
        "result_subpartition",
        "upstream_output_buffer",
    ]
    assert read == [stream, small]
    assert {len(part.data) for part in answer.parts[:4]} == {30_000}

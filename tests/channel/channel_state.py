"""A slot's channel state by hand: writers of several tasks, their executors, and a disk in memory."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from kit.core.protocol.commands import CancelChannelStateFile, WriteChannelStateFile
from kit.core.protocol.elements import Buffer, DataElement
from kit.core.protocol.events import ChannelStateFileWritten
from kit.core.protocol.messages import ChannelStateFailed, ChannelStateWritten, OutputDataDecided, SubmitChannelState
from kit.core.protocol.options import AlignmentType, CheckpointOptions
from kit.core.protocol.snapshots import RestoredPart
from kit.core.protocol.words import Word
from kit.core.state.handles import InputChannelInfo, ResultSubpartitionInfo, StateObject
from kit.files.memory import MemoryFiles
from kit.files.memory_output import MemoryOutput
from kit.files.storage import CheckpointStorage
from kit.files.task_files import TaskFiles
from kit.machines.channel.channel_state.channel_state_outbox import ChannelStateOutbox
from kit.machines.channel.channel_state.channel_state_requests import (
    ChannelStateWriteRequest,
    CheckpointAbortRequest,
    CheckpointStartRequest,
    CompleteInputRequest,
    CompleteOutputRequest,
    SubtaskRegisterRequest,
    WriteInputRequest,
    WriteOutputFutureRequest,
    WriteOutputRequest,
)
from kit.machines.channel.channel_state.channel_state_serializer import ChannelStateSerializer
from kit.machines.channel.channel_state.channel_state_writer import ChannelStateWriter
from kit.machines.channel.channel_state.data_future import DataFuture
from kit.machines.channel.channel_state.slot_channel_state import SlotChannelState
from tests.task.harness import fan_in

LOCATION = "/checkpoints/chk"
OPTIONS = CheckpointOptions(location=LOCATION, alignment=AlignmentType.UNALIGNED)
IN = InputChannelInfo(0, 0)
OUT = ResultSubpartitionInfo(0, 0)
TASK = "a/0"


def buffer(*values: int) -> Buffer:
    """Give a buffer of a column of its own."""
    return Buffer(pa.RecordBatch.from_pydict({"n": list(values)}))


def watched(*values: int) -> tuple[list[Buffer], Callable[[], bool]]:
    """Give a buffer in a list to take it from, and whether anybody still holds it."""
    made = buffer(*values)
    seen = weakref.ref(made.batch)
    return [made], lambda: seen() is not None


def values(elements: Iterable[Any]) -> list[Any]:
    """Give each buffer's column, and other elements as they are."""
    return [e.batch.column(0).to_pylist() if isinstance(e, Buffer) else e for e in elements]


class Slot:
    """Tasks of one slot, each with a writer. `run` does all but files, `write_files` those."""

    def __init__(self, *tasks: str, threshold_bytes: int = 0, max_subtasks_per_file: int = 5) -> None:
        self.disk = MemoryFiles()
        job = fan_in().job_graph()
        storage = CheckpointStorage("/checkpoints", job.job_id, None, threshold_bytes, self.disk.filesystem)
        self.storage = storage
        self.files = TaskFiles(job, storage, MemoryOutput())
        self.state = SlotChannelState(0, 1, max_subtasks_per_file)
        self.asked: list[SubmitChannelState | OutputDataDecided] = []
        names = tasks or (TASK,)
        for name in names:
            self.state.register(name, 0, f"id-of-{name[0]}")
        self.writers = {name: ChannelStateWriter(name, 0, self.ask) for name in names}
        self.writer = self.writers[names[0]]
        self.jobs: list[WriteChannelStateFile] = []
        self.answers: list[ChannelStateWritten | ChannelStateFailed] = []

    def ask(self, word: SubmitChannelState | OutputDataDecided) -> None:
        """What a writer says waits until `run`."""
        self.asked.append(word)

    def run(self) -> Slot:
        """Carry out what the writers asked for; their answers go to them, files wait."""
        while self.asked:
            self.hear(self.asked.pop(0))
        return self

    def hear(self, event: Word) -> None:
        """Let the slot's machine handle an event; answers go to the writers, files wait."""
        for command in self.state.handle(event, 0):
            if isinstance(command, CancelChannelStateFile):
                self.jobs = [waiting for waiting in self.jobs if not command.stops(waiting)]
            elif isinstance(command, WriteChannelStateFile):
                self.jobs.append(command)
            elif isinstance(command, ChannelStateWritten):
                self.answers.append(command)
                self.writers[command.task].written(command)
            elif isinstance(command, ChannelStateFailed):
                self.answers.append(command)
                self.writers[command.task].failed(command)
        self.state.validate()

    def write_files(self) -> Slot:
        """Write the files that wait, and tell."""
        while self.jobs:
            answer = self.files.carry_out(self.jobs.pop(0))
            assert answer is not None
            self.hear(answer)
            self.run()
        return self

    def do(self) -> Slot:
        """Carry everything out."""
        return self.run().write_files()

    def finish(self, checkpoint_id: int, *tasks: str) -> Slot:
        """Finish both sides for these tasks, or all."""
        for name in tasks or self.writers:
            self.writers[name].finish_input(checkpoint_id)
            self.writers[name].finish_output(checkpoint_id)
        return self

    def parts(self, kind: str, handles: Iterable[Any]) -> list[RestoredPart]:
        """What a restore hands back for these handles."""
        return [RestoredPart("operator", kind, handle, self.storage.read(handle.delegate)) for handle in handles]

    @property
    def failures(self) -> list[tuple[str, ChannelStateFailed]]:
        """What tasks were told that is not stored."""
        return [(event.task, event) for event in self.answers if isinstance(event, ChannelStateFailed)]

    def states(self) -> list[StateObject]:
        """Every handle that was given."""
        written = [event for event in self.answers if isinstance(event, ChannelStateWritten)]
        return [handle for event in written for handle in (*event.input_handles, *event.output_handles)]


def encode_element(element: DataElement) -> pa.Buffer:
    """Give an element's bytes."""
    return ChannelStateSerializer().encode([element])[0][8:]


def read_back(part: RestoredPart) -> list[DataElement]:
    """Give the elements behind a channel's handle."""
    source, serializer = pa.BufferReader(part.data), ChannelStateSerializer()
    elements: list[DataElement] = []
    for offset in part.handle.offsets:
        source.seek(offset)
        elements += serializer.read_data(source, serializer.read_length(source))
    return elements


class Outbox(ChannelStateOutbox):
    """An outbox to look into: `errors` by task, what each was told."""

    def written_to(self) -> dict[str, ChannelStateWritten]:
        """Give what each task was told that is stored."""
        return {word.task: word for word in self._words if isinstance(word, ChannelStateWritten)}

    def errors(self) -> dict[str, ChannelStateFailed]:
        """Give what each task was told that failed."""
        return {word.task: word for word in self._words if isinstance(word, ChannelStateFailed)}

    def jobs(self) -> list[WriteChannelStateFile]:
        """Give the files that are to be written."""
        return [job for job in self._words if isinstance(job, WriteChannelStateFile)]

    def cancelled(self) -> list[str]:
        """Give the files that are not to be written after all."""
        return [job.file_name for job in self._words if isinstance(job, CancelChannelStateFile)]


# --- requests of a task, by name -------------------------------------------------------------------------------------


def start(checkpoint_id: int = 1, task: str = TASK) -> ChannelStateWriteRequest:
    """Give a start request."""
    return CheckpointStartRequest(task=task, subtask=0, checkpoint_id=checkpoint_id, location=LOCATION)


def register(task: str = TASK) -> ChannelStateWriteRequest:
    """Give a register request."""
    return SubtaskRegisterRequest(task=task, subtask=0)


def abort(checkpoint_id: int = 1, task: str = TASK, cause: Exception | None = None) -> ChannelStateWriteRequest:
    """Give an abort request."""
    return CheckpointAbortRequest(
        task=task, subtask=0, checkpoint_id=checkpoint_id, cause=cause or ValueError("given up")
    )


def write_in(*elements: DataElement, checkpoint_id: int = 1, task: str = TASK) -> WriteInputRequest:
    """Give a request to take input along."""
    return WriteInputRequest(
        task=task, subtask=0, checkpoint_id=checkpoint_id, info=IN, start_seq=0, buffers=elements or (buffer(1),)
    )


def write_out(*elements: DataElement, checkpoint_id: int = 1, task: str = TASK) -> WriteOutputRequest:
    """Give a request to take output along."""
    return WriteOutputRequest(
        task=task, subtask=0, checkpoint_id=checkpoint_id, info=OUT, start_seq=0, buffers=elements or (buffer(1),)
    )


def write_out_future(
    future: DataFuture | None = None, checkpoint_id: int = 1, task: str = TASK
) -> WriteOutputFutureRequest:
    """Give a request to take output along that is known later; or, without a future, already."""
    if future is None:
        future = DataFuture()
        future.complete([buffer(1)])
    return WriteOutputFutureRequest(
        task=task, subtask=0, checkpoint_id=checkpoint_id, info=OUT, start_seq=0, future=future
    )


def complete_in(checkpoint_id: int = 1, task: str = TASK) -> ChannelStateWriteRequest:
    """Give a request that ends the input."""
    return CompleteInputRequest(task=task, subtask=0, checkpoint_id=checkpoint_id)


def complete_out(checkpoint_id: int = 1, task: str = TASK) -> ChannelStateWriteRequest:
    """Give a request that ends the output."""
    return CompleteOutputRequest(task=task, subtask=0, checkpoint_id=checkpoint_id)


def written(job: WriteChannelStateFile, storage: CheckpointStorage) -> ChannelStateFileWritten:
    """Give what the host would answer to a file job."""
    files = TaskFiles(fan_in().job_graph(), storage, MemoryOutput())
    answer = files.carry_out(job)
    assert isinstance(answer, ChannelStateFileWritten), answer
    return answer


def a_storage(threshold_bytes: int = 0) -> CheckpointStorage:
    """Give storage in memory."""
    return CheckpointStorage("/checkpoints", "0" * 32, None, threshold_bytes, MemoryFiles().filesystem)

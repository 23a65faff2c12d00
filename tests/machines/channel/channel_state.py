"""A slot's channel state by hand: writers of several tasks, the machine that they share, and a disk in memory."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any, Self

import pyarrow as pa

from kit.core.protocol.commands import CancelChannelStateFile, WriteChannelStateFile
from kit.core.protocol.elements import Buffer, DataElement
from kit.core.protocol.messages import ChannelStateFailed, ChannelStateWritten, OutputDataDecided, SubmitChannelState
from kit.core.protocol.options import AlignmentType, CheckpointOptions
from kit.core.protocol.snapshots import RestoredPart
from kit.core.protocol.words import ProtocolMessage
from kit.core.state.handles import InputChannelInfo, ResultSubpartitionInfo, StateObject
from kit.core.state.subtask_state_kind import SubtaskStateKind
from kit.files.memory_output import MemoryOutput
from kit.files.storage import CheckpointStorage
from kit.files.task_files import TaskFiles
from kit.filesystems.memory import MemoryFiles
from kit.machines.channel.channel_state.channel_state_requests import (
    ChannelStateWriteRequest,
    CheckpointAbortRequest,
    CheckpointStartRequest,
    CompleteInputRequest,
    CompleteOutputRequest,
    SubtaskReleaseRequest,
    WriteInputRequest,
    WriteOutputFutureRequest,
    WriteOutputRequest,
)
from kit.machines.channel.channel_state.channel_state_serializer import ChannelStateSerializer
from kit.machines.channel.channel_state.channel_state_writer import ChannelStateWriter
from kit.machines.channel.channel_state.slot_channel_state import SlotChannelState
from tests.machines.task.harness import fan_in

LOCATION = "/checkpoints/chk"
OPTIONS = CheckpointOptions(location=LOCATION, alignment=AlignmentType.UNALIGNED)
IN = InputChannelInfo(0, 0)
OUT = ResultSubpartitionInfo(0, 0)
TASK = "a/0"


def buffer(*values: int) -> Buffer:
    """Return a buffer of a column of its own."""
    return Buffer(pa.RecordBatch.from_pydict({"n": list(values)}))


def watched(*values: int) -> tuple[list[Buffer], Callable[[], bool]]:
    """Return a buffer in a list to take it from, and whether anybody still holds it."""
    made = buffer(*values)
    seen = weakref.ref(made.batch)
    return [made], lambda: seen() is not None


def values(elements: Iterable[Any]) -> list[Any]:
    """Return each buffer's column, and other elements as they are."""
    return [e.batch.column(0).to_pylist() if isinstance(e, Buffer) else e for e in elements]


class Slot:
    """The tasks of one slot, each with a writer; `run` does everything but files, and `write_files` writes those.

    Events of a task can also be given directly: `hear(start(), write_in(), ...)`.
    """

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
        self.writers = {name: ChannelStateWriter(name, self.ask) for name in names}
        self.writer = self.writers[names[0]]
        self.jobs: list[WriteChannelStateFile] = []
        self.cancelled: list[str] = []
        """The names of files that the host must not write after all."""
        self.answers: list[ChannelStateWritten | ChannelStateFailed] = []

    def ask(self, word: SubmitChannelState | OutputDataDecided) -> None:
        """Queue a writer's command until `run`."""
        self.asked.append(word)

    def run(self) -> Slot:
        """Carry out the writers' requests; writers receive the answers, and files stay pending."""
        while self.asked:
            self.hear(self.asked.pop(0))
        return self

    def hear(self, *events: ProtocolMessage) -> Self:
        """Let the slot's machine handle events; writers receive the answers, and files stay pending."""
        for event in events:
            for command in self.state.handle(event, 0):
                self._carry_out(command)
            self.state.validate()
        return self

    def _carry_out(self, command: ProtocolMessage) -> None:
        if isinstance(command, CancelChannelStateFile):
            self.cancelled.append(command.file_name)
            self.jobs = [waiting for waiting in self.jobs if not command.stops(waiting)]
        elif isinstance(command, WriteChannelStateFile):
            self.jobs.append(command)
        elif isinstance(command, ChannelStateWritten):
            self.answers.append(command)
            self.writers[command.task].written(command)
        elif isinstance(command, ChannelStateFailed):
            self.answers.append(command)
            self.writers[command.task].failed(command)

    def write_files(self) -> Slot:
        """Write the pending files, and report them to the machine."""
        while self.jobs:
            self.hear(self.answer_to(self.jobs.pop(0))).run()
        return self

    def answer_to(self, job: WriteChannelStateFile) -> ProtocolMessage:
        """Write a file, and return the host's answer."""
        answer = self.files.carry_out(job)
        assert answer is not None
        return answer

    def do(self) -> Slot:
        """Carry out all requests, and write all files."""
        return self.run().write_files()

    def finish(self, checkpoint_id: int, *tasks: str) -> Slot:
        """Finish both sides for these tasks, or all."""
        for name in tasks or self.writers:
            self.writers[name].finish_input(checkpoint_id)
            self.writers[name].finish_output(checkpoint_id)
        return self

    def parts(self, kind: SubtaskStateKind, handles: Iterable[Any]) -> list[RestoredPart]:
        """Return what a restore reads from these handles."""
        return [RestoredPart("operator", kind, handle, self.storage.read(handle.delegate)) for handle in handles]

    @property
    def failures(self) -> list[tuple[str, ChannelStateFailed]]:
        """Return the failures to store in-flight data that tasks received."""
        return [(event.task, event) for event in self.answers if isinstance(event, ChannelStateFailed)]

    def errors(self) -> dict[str, ChannelStateFailed]:
        """Return the last failure of each task, in the order of their first ones."""
        return dict(self.failures)

    def written(self) -> dict[str, ChannelStateWritten]:
        """Return the last success of each task, in the order of their first ones."""
        return {event.task: event for event in self.answers if isinstance(event, ChannelStateWritten)}

    def states(self) -> list[StateObject]:
        """Every handle that was given."""
        written = [event for event in self.answers if isinstance(event, ChannelStateWritten)]
        return [handle for event in written for handle in (*event.input_handles, *event.output_handles)]


def encode_element(element: DataElement) -> pa.Buffer:
    """Return an element's bytes."""
    return ChannelStateSerializer().encode([element])[0][8:]


def read_back(part: RestoredPart) -> list[DataElement]:
    """Return the elements behind a channel's handle."""
    source, serializer = pa.BufferReader(part.data), ChannelStateSerializer()
    elements: list[DataElement] = []
    for offset in part.handle.offsets:
        source.seek(offset)
        elements += serializer.read_data(source, serializer.read_length(source))
    return elements


def in_file(job: WriteChannelStateFile) -> list[Any]:
    """Return the values of all elements that are to be written to a file, in order."""
    data, offsets = job.encode()
    source, serializer = pa.BufferReader(data), ChannelStateSerializer()
    elements: list[DataElement] = []
    for offset in offsets[:-1]:
        source.seek(offset)
        elements += serializer.read_data(source, serializer.read_length(source))
    return values(elements)


# --- events of a task, by name ---------------------------------------------------------------------------------------


def submit(request: ChannelStateWriteRequest) -> SubmitChannelState:
    """Return the message with a request."""
    return SubmitChannelState(task=request.task, request=request)


def start(checkpoint_id: int = 1, task: str = TASK) -> SubmitChannelState:
    """Return a start request."""
    return submit(CheckpointStartRequest(task=task, checkpoint_id=checkpoint_id, location=LOCATION))


def release(task: str = TASK) -> SubmitChannelState:
    """Return a request of a task that leaves."""
    return submit(SubtaskReleaseRequest(task=task))


def abort(
    checkpoint_id: int = 1, task: str = TASK, *, cause: str = "given up", priority: bool = False
) -> SubmitChannelState:
    """Return an abort request."""
    return submit(
        CheckpointAbortRequest(task=task, checkpoint_id=checkpoint_id, cause=ValueError(cause), priority=priority)
    )


def write_in(
    *elements: DataElement, checkpoint_id: int = 1, task: str = TASK, info: InputChannelInfo = IN
) -> SubmitChannelState:
    """Return a request to take input along."""
    return submit(
        WriteInputRequest(
            task=task,
            checkpoint_id=checkpoint_id,
            info=info,
            start_seq=0,
            buffers=elements or (buffer(1),),
        )
    )


def write_out(*elements: DataElement, checkpoint_id: int = 1, task: str = TASK) -> SubmitChannelState:
    """Return a request to take output along."""
    return submit(
        WriteOutputRequest(
            task=task, checkpoint_id=checkpoint_id, info=OUT, start_seq=0, buffers=elements or (buffer(1),)
        )
    )


def await_out(checkpoint_id: int = 1, task: str = TASK) -> SubmitChannelState:
    """Return a request to take output along that is known when it is `decided`."""
    return submit(WriteOutputFutureRequest(task=task, checkpoint_id=checkpoint_id, info=OUT, start_seq=0))


def decided(
    *elements: DataElement, checkpoint_id: int = 1, task: str = TASK, error: Exception | None = None
) -> ProtocolMessage:
    """Return the message with the output that an `await_out` waits for, or why there is none."""
    buffers = () if error else elements or (buffer(1),)
    return OutputDataDecided(task=task, checkpoint_id=checkpoint_id, info=OUT, buffers=buffers, error=error)


def complete_in(checkpoint_id: int = 1, task: str = TASK) -> SubmitChannelState:
    """Return a request that ends the input."""
    return submit(CompleteInputRequest(task=task, checkpoint_id=checkpoint_id))


def complete_out(checkpoint_id: int = 1, task: str = TASK) -> SubmitChannelState:
    """Return a request that ends the output."""
    return submit(CompleteOutputRequest(task=task, checkpoint_id=checkpoint_id))


def complete(*tasks: str, checkpoint_id: int = 1) -> list[ProtocolMessage]:
    """Return the requests that end input and output of these tasks, or of one."""
    return [end(checkpoint_id, task) for task in tasks or (TASK,) for end in (complete_in, complete_out)]

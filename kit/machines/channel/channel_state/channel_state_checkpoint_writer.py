"""The file of one checkpoint's in-flight data, shared by several subtasks.

The writer collects elements in the order in which they come, and remembers the channel and subtask of each. Once every
subtask has given all its input and output, the host gets the elements to encode and write, and the writer releases
them. When the file is written, the writer creates the handles of each subtask. A failure of one subtask fails all that
share the file: that subtask with its own cause, the others with CHANNEL_STATE_SHARED_STREAM_EXCEPTION.

Follows `ChannelStateCheckpointWriter` and `ChannelStatePendingResult`. Flink encodes as it goes and so fails in the
middle of a write. Here the host encodes, and failures occur at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from functools import partial

from kit.core.protocol.commands import CancelChannelStateFile, WriteChannelStateFile
from kit.core.protocol.elements import DataElement
from kit.core.protocol.events import ChannelStateFileFailed, ChannelStateFileWritten
from kit.core.protocol.messages import ChannelStateWritten
from kit.core.protocol.outages import may_pass
from kit.core.protocol.reasons import CheckpointException, CheckpointFailureReason
from kit.core.state.channel_handles import ChannelInfoT
from kit.core.state.file_names import state_file_name
from kit.core.state.handles import (
    ByteStreamStateHandle,
    InputChannelInfo,
    InputChannelStateHandle,
    ResultSubpartitionInfo,
    ResultSubpartitionStateHandle,
    StreamStateHandle,
)
from kit.machines.channel.channel_state.channel_state_outbox import ChannelStateOutbox
from kit.machines.channel.channel_state.channel_state_serializer import HEADER_LENGTH, ChannelStateSerializer

FILE_PART = "channel-state"

Positions = dict[ChannelInfoT, list[int]]


@dataclass(frozen=True, slots=True)
class ChannelStateFile:
    """The naming of shared files: by their first subtask, and by the head of its chain (`operator_id`)."""

    task: str
    operator_id: str
    subtask: int

    def name(self, checkpoint_id: int) -> str:
        """Return the name of one checkpoint's file."""
        return state_file_name(self.operator_id, self.subtask, checkpoint_id, FILE_PART)


class WriterState(Enum):
    """The state of a checkpoint's file."""

    COLLECTING = "COLLECTING"
    WRITING = "WRITING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


class ChannelStatePendingResult:
    """One subtask's part of a checkpoint's file: for each channel, the positions of its elements."""

    __slots__ = ("all_inputs_received", "all_outputs_received", "inputs", "outputs", "subtask", "task")

    def __init__(self, task: str, subtask: int) -> None:
        self.task = task
        self.subtask = subtask
        self.all_inputs_received = False
        self.all_outputs_received = False
        self.inputs: Positions[InputChannelInfo] = {}
        self.outputs: Positions[ResultSubpartitionInfo] = {}

    def complete_input(self) -> None:
        """Mark all input as added. Raises ValueError if it was already."""
        if self.all_inputs_received:
            raise ValueError(f"{self.task} has finished its input twice")
        self.all_inputs_received = True

    def complete_output(self) -> None:
        """Mark all output as added. Raises ValueError if it was already."""
        if self.all_outputs_received:
            raise ValueError(f"{self.task} has finished its output twice")
        self.all_outputs_received = True

    @property
    def complete(self) -> bool:
        """True if all input and output was added."""
        return self.all_inputs_received and self.all_outputs_received

    def __repr__(self) -> str:
        return f"ChannelStatePendingResult({self.task}, {len(self.inputs)} inputs, {len(self.outputs)} outputs)"


class ChannelStateCheckpointWriter:
    """The collector of the in-flight data of `subtasks` (names of tasks) for one checkpoint.

    `on_complete` is called when everything is collected. Like all callbacks here it must survive a copy, so it must not
    be a closure.
    """

    def __init__(
        self,
        subtasks: Iterable[str],
        checkpoint_id: int,
        location: str,
        file: ChannelStateFile,
        outbox: ChannelStateOutbox,
        on_complete: Callable[[ChannelStateCheckpointWriter], None],
    ) -> None:
        self._to_register = set(subtasks)
        if not self._to_register:
            raise ValueError(f"checkpoint {checkpoint_id} has no subtask whose channel state could be written")
        self.checkpoint_id = checkpoint_id
        self.state = WriterState.COLLECTING
        self._location = location
        self._owner = file.task
        self._file_name = file.name(checkpoint_id)
        self._outbox = outbox
        self._on_complete = on_complete
        self._serializer = ChannelStateSerializer()
        self._results: dict[str, ChannelStatePendingResult] = {}
        self._elements: list[DataElement] = []

    @property
    def is_done(self) -> bool:
        """True if it no longer collects."""
        return self.state is not WriterState.COLLECTING

    # --- collecting -----------------------------------------------------------------------------------------------

    def register_subtask_result(self, task: str, subtask: int) -> None:
        """Add this subtask to the checkpoint. Raises RuntimeError if it was added before, or if the write is done."""
        if self.is_done:
            raise RuntimeError(f"{task} cannot begin {self!r}: the write is done")
        if task in self._results:
            raise RuntimeError(f"{task} has begun the channel state of checkpoint {self.checkpoint_id} twice")
        self._to_register.discard(task)
        self._results[task] = ChannelStatePendingResult(task, subtask)

    def release_subtask(self, task: str) -> None:
        """Remove this subtask; if it has not begun, the file no longer waits for it."""
        if task in self._to_register:
            self._to_register.discard(task)
            self._try_finish()

    def write_input(self, task: str, info: InputChannelInfo, element: DataElement) -> None:
        """Add an element of an input channel, unless the write is done. RuntimeError after `complete_input`."""
        if not self.is_done:
            result = self._result(task)
            self._write(result.inputs, info, element, task, result.all_inputs_received)

    def write_output(self, task: str, info: ResultSubpartitionInfo, element: DataElement) -> None:
        """Add an element of an output channel, unless the write is done. RuntimeError after `complete_output`."""
        if not self.is_done:
            result = self._result(task)
            self._write(result.outputs, info, element, task, result.all_outputs_received)

    def _write(
        self, positions: Positions[ChannelInfoT], info: ChannelInfoT, element: DataElement, task: str, finished: bool
    ) -> None:
        if finished:
            error = RuntimeError(f"{task} adds {element!r} to {info!r} of checkpoint {self.checkpoint_id} too late")
            self.fail(error)
            raise error
        positions.setdefault(info, []).append(len(self._elements))
        self._elements.append(element)

    def complete_input(self, task: str) -> None:
        """End the subtask's input, unless the write is done. Raises ValueError the second time."""
        if not self.is_done:
            self._result(task).complete_input()
            self._try_finish()

    def complete_output(self, task: str) -> None:
        """End the subtask's output, unless the write is done. Raises ValueError the second time."""
        if not self.is_done:
            self._result(task).complete_output()
            self._try_finish()

    def _result(self, task: str) -> ChannelStatePendingResult:
        result = self._results.get(task)
        if result is None:
            raise ValueError(f"{task} has not begun the channel state of checkpoint {self.checkpoint_id}")
        return result

    # --- finishing ------------------------------------------------------------------------------------------------

    def _try_finish(self) -> None:
        if self._to_register or not all(result.complete for result in self._results.values()):
            return
        if not self.is_done:
            self._finish()
        self._on_complete(self)

    def _finish(self) -> None:
        if not self._elements:
            self.state = WriterState.COMPLETED
            for task in self._results:
                self._outbox.say(ChannelStateWritten(task=task, checkpoint_id=self.checkpoint_id))
            return
        self.state = WriterState.WRITING
        elements, self._elements = tuple(self._elements), []
        self._outbox.say(
            WriteChannelStateFile(
                task=self._owner,
                checkpoint_id=self.checkpoint_id,
                location=self._location,
                file_name=self._file_name,
                encode=partial(self._serializer.encode, elements),
            )
        )

    def file_written(self, event: ChannelStateFileWritten) -> None:
        """Send each subtask the positions of its channels in the file, which is written."""
        self.state = WriterState.COMPLETED
        for task, result in self._results.items():
            inputs = tuple(
                InputChannelStateHandle(result.subtask, info, *self._place(event, result.inputs[info]))
                for info in sorted(result.inputs)
            )
            outputs = tuple(
                ResultSubpartitionStateHandle(result.subtask, info, *self._place(event, result.outputs[info]))
                for info in sorted(result.outputs)
            )
            size_bytes = sum(handle.size for handle in (*inputs, *outputs))
            self._outbox.say(
                ChannelStateWritten(
                    task=task,
                    checkpoint_id=self.checkpoint_id,
                    input_handles=inputs,
                    output_handles=outputs,
                    bytes_written=size_bytes,
                )
            )

    def _place(
        self, event: ChannelStateFileWritten, positions: list[int]
    ) -> tuple[tuple[int, ...], int, StreamStateHandle]:
        """Return offsets, size and stream of one channel: inside the file, or by itself if it is small."""
        offsets = tuple(event.offsets[position] for position in positions)
        if isinstance(event.handle, ByteStreamStateHandle):
            data = self._serializer.extract_and_merge(event.handle.data, offsets)
            return (HEADER_LENGTH,), len(data), ByteStreamStateHandle(f"{self._file_name}-{positions[0]}", data)
        size = sum(event.offsets[position + 1] - event.offsets[position] for position in positions)
        return offsets, size, event.handle

    def file_failed(self, event: ChannelStateFileFailed) -> None:
        """Fail all subtasks, because the file could not be written."""
        self.state = WriterState.FAILED
        self._fail_all(CheckpointException(event.reason, event.error, event.may_pass))

    # --- failing --------------------------------------------------------------------------------------------------

    def fail_subtask(self, task: str, cause: Exception) -> None:
        """Fail one subtask, and with it all that share the file."""
        if self.state in (WriterState.COLLECTING, WriterState.WRITING):
            shared = CheckpointException(
                CheckpointFailureReason.CHANNEL_STATE_SHARED_STREAM_EXCEPTION, str(cause), may_pass(cause)
            )
            self._fail_all(shared, {task: cause})

    def fail(self, cause: Exception) -> None:
        """Fail all subtasks."""
        if self.state in (WriterState.COLLECTING, WriterState.WRITING):
            self._fail_all(cause)

    def _fail_all(self, cause: Exception, causes: dict[str, Exception] | None = None) -> None:
        if self.state is WriterState.WRITING:
            self._outbox.say(CancelChannelStateFile(checkpoint_id=self.checkpoint_id, file_name=self._file_name))
        self.state = WriterState.FAILED
        self._elements.clear()
        for task in self._results:
            self._outbox.failed(task, self.checkpoint_id, (causes or {}).get(task, cause))

    def __repr__(self) -> str:
        return f"ChannelStateCheckpointWriter(chk-{self.checkpoint_id}, {self.state.name}, {sorted(self._results)})"

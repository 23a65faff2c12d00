"""One checkpoint's file of in-flight data, shared by several subtasks.

It collects elements in the order in which they come, and remembers the channel and subtask of each. Once every subtask
has given all its input and output, the host gets the elements to encode and write. When the file is written, each
subtask gets the handles of its channels.

Follows `ChannelStateCheckpointWriter` and `ChannelStatePendingResult`. Flink encodes as it goes and so fails in the
middle of a write. Here the host encodes, and failures occur at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from kit.core.protocol.commands import WriteChannelStateFile
from kit.core.protocol.elements import DataElement
from kit.core.protocol.events import ChannelStateFileWritten
from kit.core.protocol.messages import ChannelStateWritten
from kit.core.state.channel_handles import ChannelInfoT
from kit.core.state.handles import (
    ByteStreamStateHandle,
    InputChannelInfo,
    InputChannelStateHandle,
    ResultSubpartitionInfo,
    ResultSubpartitionStateHandle,
    StreamStateHandle,
)
from kit.machines.channel.channel_state.channel_state_serializer import HEADER_LENGTH, ChannelStateSerializer

Positions = dict[ChannelInfoT, list[int]]


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
    """The in-flight data of `subtasks` (names of tasks) for one checkpoint, until its file is written.

    `owner` is the task after which the file is named. `results` has the subtasks that have started the checkpoint, in
    this order. A checkpoint that `has_failed` holds no data and accepts none.
    """

    def __init__(self, subtasks: Iterable[str], owner: str, checkpoint_id: int, location: str, file_name: str) -> None:
        self.checkpoint_id = checkpoint_id
        self.file_name = file_name
        self.results: dict[str, ChannelStatePendingResult] = {}
        self.has_failed = False
        self._owner = owner
        self._location = location
        self._to_register = set(subtasks)
        self._elements: list[DataElement] = []

    def register_subtask_result(self, task: str, subtask: int) -> None:
        """Add this subtask to the checkpoint. Raises RuntimeError if it was added before, or if the write has failed.

        Flink: `registerSubtaskResult`.
        """
        if self.has_failed:
            raise RuntimeError(f"{task} cannot begin {self!r}: the write is done")
        if task in self.results:
            raise RuntimeError(f"{task} has begun the channel state of checkpoint {self.checkpoint_id} twice")
        self._to_register.discard(task)
        self.results[task] = ChannelStatePendingResult(task, subtask)

    def release_subtask(self, task: str) -> None:
        """Remove this subtask; if it has not begun, the file no longer waits for it."""
        self._to_register.discard(task)

    def forget(self, task: str) -> None:
        """Remove this subtask with what it has written: a new attempt of it does not know the checkpoint."""
        self._to_register.discard(task)
        self.results.pop(task, None)

    def result_of(self, task: str) -> ChannelStatePendingResult:
        """Return the part of a subtask. Raises ValueError if it has not begun the checkpoint."""
        result = self.results.get(task)
        if result is None:
            raise ValueError(f"{task} has not begun the channel state of checkpoint {self.checkpoint_id}")
        return result

    def write(
        self, task: str, info: InputChannelInfo | ResultSubpartitionInfo, elements: Iterable[DataElement]
    ) -> None:
        """Add elements of a subtask's channel, unless the checkpoint has failed.

        Raises ValueError for an event and for a subtask that has not begun, RuntimeError if this side is complete.
        """
        for element in elements:
            if not isinstance(element, DataElement):
                raise ValueError(f"{element!r} is an event: a checkpoint stores records and watermarks, never events")
            if self.has_failed:
                continue
            result = self.result_of(task)
            if isinstance(info, InputChannelInfo):
                is_late, positions = result.all_inputs_received, result.inputs.setdefault(info, [])
            else:
                is_late, positions = result.all_outputs_received, result.outputs.setdefault(info, [])
            if is_late:
                raise RuntimeError(f"{task} adds {element!r} to {info!r} of checkpoint {self.checkpoint_id} too late")
            positions.append(len(self._elements))
            self._elements.append(element)

    @property
    def is_complete(self) -> bool:
        """True if every subtask has begun, and has given all its input and output."""
        return not self._to_register and all(result.complete for result in self.results.values())

    def fail(self) -> None:
        """Drop the data."""
        self.has_failed = True
        self._elements.clear()

    # --- the file -------------------------------------------------------------------------------------------------

    def finish(self) -> WriteChannelStateFile | None:
        """Give the elements to the host, which writes them; return None if there are none."""
        elements, self._elements = tuple(self._elements), []
        if not elements:
            return None
        return WriteChannelStateFile(
            task=self._owner,
            checkpoint_id=self.checkpoint_id,
            location=self._location,
            file_name=self.file_name,
            encode=partial(ChannelStateSerializer().encode, elements),
        )

    def written(self, event: ChannelStateFileWritten) -> Iterator[ChannelStateWritten]:
        """Yield the answer to each subtask: the places of its channels in the file, which is written."""
        for task, result in self.results.items():
            inputs = tuple(
                InputChannelStateHandle(result.subtask, info, *self._place(event, result.inputs[info]))
                for info in sorted(result.inputs)
            )
            outputs = tuple(
                ResultSubpartitionStateHandle(result.subtask, info, *self._place(event, result.outputs[info]))
                for info in sorted(result.outputs)
            )
            yield ChannelStateWritten(
                task=task,
                checkpoint_id=self.checkpoint_id,
                input_handles=inputs,
                output_handles=outputs,
                bytes_written=sum(handle.size for handle in (*inputs, *outputs)),
            )

    def _place(
        self, event: ChannelStateFileWritten, positions: list[int]
    ) -> tuple[tuple[int, ...], int, StreamStateHandle]:
        """Return offsets, size and stream of one channel: inside the file, or by itself if it is small."""
        offsets = tuple(event.offsets[position] for position in positions)
        if isinstance(event.handle, ByteStreamStateHandle):
            data = ChannelStateSerializer().extract_and_merge(event.handle.data, offsets)
            return (HEADER_LENGTH,), len(data), ByteStreamStateHandle(f"{self.file_name}-{positions[0]}", data)
        size = sum(event.offsets[position + 1] - event.offsets[position] for position in positions)
        return offsets, size, event.handle

    def __repr__(self) -> str:
        state = "FAILED" if self.has_failed else "COLLECTING"
        return f"ChannelStateCheckpointWriter(chk-{self.checkpoint_id}, {state}, {sorted(self.results)})"

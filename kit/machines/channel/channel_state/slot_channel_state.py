"""The third machine: it writes the in-flight data of one slot's tasks into files that they share.

A task submits requests (`SubmitChannelState`) and reports when undecided data is known (`OutputDataDecided`); the host
reports the outcome of each file. The machine starts and stops the writing of files, and sends each task the outcome for
its in-flight data. Its parts are the executors, each for the subtasks that share files. It takes requests in the order
in which Flink's single thread does; a request that waits for a task's data delays that task's requests only.

Without unaligned checkpoints no task registers, and the machine never receives anything.
"""

from __future__ import annotations

from kit.core.protocol.events import ChannelStateFileFailed, ChannelStateFileWritten
from kit.core.protocol.messages import OutputDataDecided, SubmitChannelState
from kit.core.protocol.words import Machine, handles
from kit.machines.channel.channel_state.channel_state_executor import (
    DEFAULT_MAX_SUBTASKS_PER_FILE,
    ChannelStateWriteRequestExecutorFactory,
    SharedExecutor,
)
from kit.machines.channel.channel_state.channel_state_requests import SubtaskReleaseRequest
from kit.stream.graph.execution_graph import ExecutionGraph


class SlotChannelState(Machine):
    """The channel state executors of slot `slot`, in the epoch `attempt`."""

    def __init__(self, slot: int, attempt: int, max_subtasks_per_file: int = DEFAULT_MAX_SUBTASKS_PER_FILE) -> None:
        super().__init__(slot_name(slot), f"{slot_name(slot)}@{attempt}")
        self.slot = slot
        self._factory = ChannelStateWriteRequestExecutorFactory(max_subtasks_per_file)
        self._of_task: dict[str, SharedExecutor] = {}
        self._shared: list[SharedExecutor] = []

    @classmethod
    def of(cls, graph: ExecutionGraph, slot: int, attempt: int) -> SlotChannelState:
        """Create the machine of a slot's tasks, which register if there may be unaligned checkpoints."""
        settings = graph.job_graph.settings.checkpoint
        machine = cls(slot, attempt, settings.max_subtasks_per_channel_state_file)
        for task in graph.tasks_with_index(slot):
            if settings.unaligned:
                machine.register(task.task, slot, task.vertex.operators[0].operator_id)
        return machine

    def register(self, task: str, subtask: int, operator_id: str) -> None:
        """Register a task of the slot, in order of deployment; `operator_id` is the head of its chain."""
        shared = self._of_task[task] = self._factory.get_or_create_executor(task, subtask, operator_id)
        if shared not in self._shared:
            self._shared.append(shared)
        shared.executor.run()

    @handles(SubmitChannelState)
    def _submitted(self, event: SubmitChannelState) -> None:
        shared = self._of_task[event.task]
        shared.submit(event.request.received())
        if isinstance(event.request, SubtaskReleaseRequest):
            shared.release(event.task)
        self._work(shared)

    @handles(OutputDataDecided)
    def _decided(self, event: OutputDataDecided) -> None:
        shared = self._of_task[event.task]
        shared.executor.decided(event)
        self._work(shared)

    @handles(ChannelStateFileWritten, ChannelStateFileFailed)
    def _file_answered(self, event: ChannelStateFileWritten | ChannelStateFileFailed) -> None:
        for shared in self._shared:
            if isinstance(event, ChannelStateFileWritten):
                shared.dispatcher.file_written(event)
            else:
                shared.dispatcher.file_failed(event)
            self._work(shared)

    def _work(self, shared: SharedExecutor) -> None:
        """Execute what is ready, and emit the content of the outbox."""
        shared.executor.run()
        for word in shared.outbox.take():
            self.emit(word)

    def validate(self) -> None:
        """Check that everything that is ready has been executed, and that the outbox has been emitted."""
        for shared in self._shared:
            shared.executor.validate()
            assert not shared.outbox, f"{self.name} has not emitted {shared.outbox!r}"

    def __repr__(self) -> str:
        return f"SlotChannelState({self.name}, {len(self._of_task)} tasks, {len(self._shared)} executors)"


def slot_name(slot: int) -> str:
    """Return the name of this slot's machine."""
    return f"slot {slot}"

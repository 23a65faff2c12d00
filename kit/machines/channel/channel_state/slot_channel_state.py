"""The third machine: what the tasks of one slot have in flight goes through it into files that they share.

A task submits requests (`SubmitChannelState`) and says when data that was not yet decided is known
(`OutputDataDecided`); the host says what came of a file. The machine has files written or not, and tells each task what
became of its in-flight data. Its parts are the executors, each with the subtasks that share files. Word for word it
takes requests as Flink's one thread does; what waits for a task's data holds back that task's requests only.

Without unaligned checkpoints nobody registers, and nothing ever reaches the machine.
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
        """The machine of the tasks with subtask index `slot`, which have registered if there will be unaligned
        checkpoints.
        """
        settings = graph.job_graph.settings.checkpoint
        machine = cls(slot, attempt, settings.max_subtasks_per_channel_state_file)
        for task in graph.tasks_with_index(slot):
            if settings.unaligned:
                machine.register(task.task, slot, task.vertex.operators[0].operator_id)
        return machine

    def register(self, task: str, subtask: int, operator_id: str) -> None:
        """A task of the slot, `operator_id` the head of its chain; in the order in which they are deployed."""
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
        """Carry out what can be, and give what is to be said."""
        shared.executor.run()
        for word in shared.outbox.take():
            self.emit(word)

    def validate(self) -> None:
        """Everything that can be carried out has been, and all that is to be said was given."""
        for shared in self._shared:
            shared.executor.validate()
            assert not shared.outbox, f"{self.name} keeps {shared.outbox!r} to itself"

    def __repr__(self) -> str:
        return f"SlotChannelState({self.name}, {len(self._of_task)} tasks, {len(self._shared)} executors)"


def slot_name(slot: int) -> str:
    """The name of the machine of this slot."""
    return f"slot {slot}"

"""A task by hand in its slot: what is in flight is really written, to a disk that tests look at.

`SlotHarness(fan_in(..., rebalance=True, chaining=False, unaligned=True))` carries out what the task asks of its channel
state: requests at once, files when the test says so (`write_channel_state`), or never.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyarrow import fs

from kit.core.protocol.commands import (
    CancelChannelStateFile,
    CancelSnapshot,
    DiscardSnapshot,
    WriteChannelStateFile,
    WriteSnapshot,
)
from kit.core.protocol.elements import CheckpointBarrier, DataElement
from kit.core.protocol.events import ChannelStateFileFailed, ChannelStateFileWritten
from kit.core.protocol.messages import SlotMessage, SubmitChannelState
from kit.core.protocol.options import AlignmentType
from kit.core.protocol.snapshots import RestoredPart
from kit.core.protocol.tasks import TaskRestore
from kit.core.protocol.words import ProtocolMessage
from kit.core.state.operator_state import OperatorSubtaskState
from kit.core.state.subtask_state_kind import SubtaskStateKind
from kit.files.storage import CheckpointStorage
from kit.files.task_files import TaskFiles
from kit.machines.channel.channel_state.slot_channel_state import SlotChannelState
from kit.stream.api.environment import StreamEnvironment
from tests.machines.channel.channel_state import read_back
from tests.machines.task.harness import TaskHarness, fan_in, options

UNALIGNED = AlignmentType.UNALIGNED
ALONE: dict[str, Any] = {"max_subtasks_per_channel_state_file": 1}
FORCED_ALIGNED = AlignmentType.FORCED_ALIGNED


def unaligned_job(senders: int = 2, **settings: Any) -> StreamEnvironment:
    """Return `fan_in` with unaligned checkpoints, which can overtake on both sides of `sums`; no task shares its file
    of in-flight data with others.
    """
    return fan_in(senders, **{"rebalance": True, "chaining": False, "unaligned": True} | ALONE | settings)


class SlotHarness(TaskHarness):
    """A task, its slot's channel state, and the files of both in `directory`."""

    def __init__(
        self,
        env: StreamEnvironment,
        directory: Path,
        task: str = "sums/0",
        *,
        restore: TaskRestore | None = None,
        credits: bool = True,
        deploy: bool = True,
    ) -> None:
        super().__init__(env, task, deploy=False)
        self.directory = directory
        job = self.graph.job_graph
        storage = CheckpointStorage(str(directory), job.job_id, None, 0, fs.LocalFileSystem())
        self.storage = storage
        self.files = TaskFiles(job, storage, self.output)
        self.slot = SlotChannelState.of(self.graph, self.machine.subtask, self.machine.attempt)
        self.channel_files: list[WriteChannelStateFile] = []
        self.requests: list[str] = []
        """The kinds of what was asked of the channel state, in order."""
        if deploy:
            self.deploy(restore, credits=credits)

    # --- what goes in ---------------------------------------------------------------------------------------------

    def options(self, **settings: Any) -> dict[str, Any]:
        """Return settings for checkpoints in the directory."""
        return {"alignment": UNALIGNED, "location": str(self.directory / "chk")} | settings

    def barrier(self, checkpoint_id: int, *channels: int, at: int | None = None, **settings: Any) -> None:
        """An unaligned barrier arrives on these channels, one after the other; `settings` make it another kind."""
        self.receive_barrier(checkpoint_id, *channels, at=at, **settings)
        self.run()

    def receive_barrier(self, checkpoint_id: int, *channels: int, at: int | None = None, **settings: Any) -> None:
        """It arrives, and the task has no turn yet."""
        timestamp_ms = self.at if at is None else at
        barrier = CheckpointBarrier(checkpoint_id, timestamp_ms, options(**self.options(**settings)))
        for channel in channels:
            self.receive(channel, barrier, run=False)

    # --- the slot -------------------------------------------------------------------------------------------------

    def give(self, event: ProtocolMessage) -> list[ProtocolMessage]:
        """Let the task handle an event, and its slot do what it then can."""
        commands = super().give(event)
        for command in self.take(SlotMessage):
            if isinstance(command, SubmitChannelState):
                self.requests.append(type(command.request).__name__)
            self.tell_slot(command)
        return commands

    def tell_slot(self, event: ProtocolMessage) -> None:
        """Let the slot carry out what it can; files wait for `write_channel_state`."""
        for command in self.slot.handle(event, self.at):
            if isinstance(command, CancelChannelStateFile):
                self.channel_files = [each for each in self.channel_files if not command.stops(each)]
            elif isinstance(command, WriteChannelStateFile):
                self.channel_files.append(command)
            else:
                self.give(command)
        self.slot.validate()

    def write_channel_state(self, *, error: str = "") -> None:
        """Write the files of in-flight data that wait, or with `error` fail to."""
        waiting, self.channel_files = self.channel_files, []
        for job in waiting:
            answer = self.files.carry_out(job)
            assert isinstance(answer, ChannelStateFileWritten | ChannelStateFileFailed)
            if error:
                assert isinstance(answer, ChannelStateFileWritten)
                self.files.undo(job, answer)
                answer = ChannelStateFileFailed(checkpoint_id=job.checkpoint_id, file_name=job.file_name, error=error)
            self.tell_slot(answer)

    def write_all(self, checkpoint_id: int) -> None:
        """Write both parts of a checkpoint."""
        self.write(checkpoint_id)
        self.write_channel_state()

    def clean_up(self) -> None:
        """Carry out what the task asked the host to give up."""
        for command in self.take(CancelSnapshot):
            self.emitted = [
                word
                for word in self.emitted
                if not (isinstance(word, WriteSnapshot) and word.checkpoint_id == command.checkpoint_id)
            ]
        self.carry_out(DiscardSnapshot)

    # --- where it stands --------------------------------------------------------------------------------------------

    @property
    def disk(self) -> list[str]:
        """The names of the files."""
        return sorted(path.name for path in self.directory.rglob("*") if path.is_file())

    def assert_nothing_leaks(self) -> None:
        """No file, nothing being written, no result that nobody takes, no request that waits for its data."""
        self.clean_up()
        assert self.disk == []
        assert self.machine.checkpoints.running == ()
        assert self.machine.checkpoints._open_inputs == set()
        assert self.machine.channel_state._results == {}
        assert self.machine.channel_state._unanswered == {}
        assert self.channel_files == []
        self.slot.validate()
        for files in self.slot._shared:
            assert not any(files.waiting.values())
            assert files.being_written == {}
        assert all(subpartition._in_flight is None for subpartition in self.machine.outputs.subpartitions())

    def in_flight(self, state: OperatorSubtaskState) -> dict[str, list[list[DataElement]]]:
        """Read back what is in flight in an acknowledged state: of inputs and of outputs, channel by channel."""
        return {
            side: [read_back(RestoredPart("", kind, handle, self.storage.read(handle.delegate))) for handle in handles]
            for side, kind, handles in (
                ("in", SubtaskStateKind.INPUT_CHANNEL, state.input_channel_state),
                ("out", SubtaskStateKind.RESULT_SUBPARTITION, state.result_subpartition_state),
            )
        }

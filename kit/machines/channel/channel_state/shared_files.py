"""The subtasks of a slot that share files of in-flight data, one file for each checkpoint."""

from __future__ import annotations

from collections import deque

from kit.core.protocol.reasons import CheckpointException, CheckpointFailureReason
from kit.core.state.file_names import state_file_name
from kit.machines.channel.channel_state.channel_state_checkpoint_writer import ChannelStateCheckpointWriter
from kit.machines.channel.channel_state.channel_state_requests import ChannelStateWriteRequest, CheckpointAbortRequest

FILE_PART = "channel-state"


class SharedFiles:
    """The state of subtasks that share files; `SlotChannelState` changes it.

    The files are named after the first subtask, the `owner`, and the head of its chain (`operator_id`). At most one
    `checkpoint` collects at a time. One that has collected everything is `being_written`, by the name of its file,
    until the host has answered.
    """

    def __init__(self, owner: str, subtask: int, operator_id: str) -> None:
        self.owner = owner
        self.is_registering = True
        """True if the next task of the slot joins these."""
        self.subtasks: dict[str, int] = {}
        """The subtask index of each task that has registered."""
        self.waiting: dict[str, deque[ChannelStateWriteRequest]] = {}
        """Each task's requests from the first one on whose data is not known yet."""
        self.present: set[str] = set()
        """The tasks that have not left."""
        self.awaited: set[str] = set()
        """The tasks that a new checkpoint waits for; one that leaves is awaited until its release is executed."""
        self.ongoing_id = -1
        self.checkpoint: ChannelStateCheckpointWriter | None = None
        self.being_written: dict[str, ChannelStateCheckpointWriter] = {}
        self.newest_abort: CheckpointAbortRequest | None = None
        self.has_ended = False
        """True if all tasks have left, or an `error` has ended the writing."""
        self.error: Exception | None = None
        self._subtask = subtask
        self._operator_id = operator_id

    def file_name(self, checkpoint_id: int) -> str:
        """Return the name of one checkpoint's file."""
        return state_file_name(self._operator_id, self._subtask, checkpoint_id, FILE_PART)

    def add(self, task: str, subtask: int) -> None:
        """Add a subtask."""
        self.subtasks[task] = subtask
        self.waiting[task] = deque()
        self.present.add(task)
        self.awaited.add(task)

    def forget(self, task: str) -> None:
        """Forget a task that has left, so that no answer about its files reaches its next attempt."""
        for checkpoint in (self.checkpoint, *self.being_written.values()):
            if checkpoint is not None:
                checkpoint.forget(task)
        self.waiting.pop(task, None)
        self.present.discard(task)
        self.awaited.discard(task)

    def why_over(self, request: ChannelStateWriteRequest) -> Exception | None:
        """Return why the checkpoint of a request is over, or None if it is not.

        A checkpoint is over if it is older than the ongoing one, or not newer than the newest that was aborted.
        """
        aborted = self.newest_abort
        aborted_id = -1 if aborted is None else aborted.checkpoint_id
        if request.checkpoint_id >= self.ongoing_id and request.checkpoint_id > aborted_id:
            return None
        if aborted is None or request.checkpoint_id != aborted_id:
            return CheckpointException(CheckpointFailureReason.CHECKPOINT_DECLINED_SUBSUMED)
        if request.task == aborted.task:
            return aborted.cause
        return CheckpointException(CheckpointFailureReason.CHANNEL_STATE_SHARED_STREAM_EXCEPTION, str(aborted.cause))

    def validate(self) -> None:
        """Check that no waiting request is ready, and that nothing waits or is written after the end."""
        for task, waiting in self.waiting.items():
            assert not (waiting and waiting[0].ready), f"{self!r} has not executed {waiting[0]!r}"
            strangers = [request for request in waiting if request.task != task]
            assert not strangers, f"{strangers} wait among the requests of {task}"
            assert not (self.has_ended and waiting), f"{self!r}, but {list(waiting)} still wait"
        assert not (self.has_ended and (self.checkpoint or self.being_written)), f"{self!r} still has data"

    def __repr__(self) -> str:
        state = "ended" if self.has_ended else f"ongoing chk-{self.ongoing_id}"
        return f"SharedFiles({', '.join(self.subtasks)}, {state})"

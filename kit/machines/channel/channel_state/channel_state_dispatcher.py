"""The dispatcher of requests to the writer of their checkpoint; it knows which checkpoints are over.

At most one writer collects at a time; a newer checkpoint ends an older one (CHECKPOINT_DECLINED_SUBSUMED). The
dispatcher remembers the newest abort, with its task and cause, and cancels later requests for that checkpoint or an
older one. A writer that has collected everything is kept by the name of its file until the host has answered.

Follows `ChannelStateWriteRequestDispatcherImpl`.
"""

from __future__ import annotations

from kit.core.protocol.events import ChannelStateFileFailed, ChannelStateFileWritten
from kit.core.protocol.reasons import CheckpointException, CheckpointFailureReason
from kit.machines.channel.channel_state.channel_state_checkpoint_writer import (
    ChannelStateCheckpointWriter,
    ChannelStateFile,
    WriterState,
)
from kit.machines.channel.channel_state.channel_state_outbox import ChannelStateOutbox
from kit.machines.channel.channel_state.channel_state_requests import (
    ChannelStateWriteRequest,
    CheckpointAbortRequest,
    CheckpointInProgressRequest,
    CheckpointStartRequest,
    SubtaskRegisterRequest,
    SubtaskReleaseRequest,
)


class ChannelStateWriteRequestDispatcher:
    """The executor of the requests of the subtasks that share the files named after `file`.

    Follows Flink's `ChannelStateWriteRequestDispatcher`.
    """

    def __init__(self, file: ChannelStateFile, outbox: ChannelStateOutbox) -> None:
        self._file = file
        self._outbox = outbox
        self._registered: dict[str, None] = {}
        self._ongoing_id = -1
        self._writer: ChannelStateCheckpointWriter | None = None
        self._being_written: dict[str, ChannelStateCheckpointWriter] = {}
        self._max_aborted_id = -1
        self._aborted_by = ""
        self._abort_cause: Exception = CheckpointException(CheckpointFailureReason.CHECKPOINT_DECLINED_SUBSUMED)

    def dispatch(self, request: ChannelStateWriteRequest) -> None:
        """Execute the request.

        A request that is not allowed now is cancelled, and raises ValueError or RuntimeError, which ends the executor.

        Flink: `ChannelStateWriteRequestDispatcher.dispatch`.
        """
        try:
            self._dispatch(request)
        except Exception as error:
            self._outbox.executor_ended = True
            self._outbox.cancel(request, error)
            raise

    def _dispatch(self, request: ChannelStateWriteRequest) -> None:
        if isinstance(request, SubtaskRegisterRequest):
            self._registered[request.task] = None
        elif isinstance(request, SubtaskReleaseRequest):
            self._release(request)
        else:
            if isinstance(request, CheckpointAbortRequest):
                self._abort_writing(request)
            self._dispatch_of_checkpoint(request)

    def _dispatch_of_checkpoint(self, request: ChannelStateWriteRequest) -> None:
        if request.checkpoint_id < self._ongoing_id or request.checkpoint_id <= self._max_aborted_id:
            self._refuse(request)
        elif isinstance(request, CheckpointStartRequest):
            self._start(request)
        elif isinstance(request, CheckpointInProgressRequest):
            self._execute(request)
        elif isinstance(request, CheckpointAbortRequest):
            self._abort(request)
        else:
            raise ValueError(f"unknown kind of request: {request!r}")

    def _release(self, request: SubtaskReleaseRequest) -> None:
        self._registered.pop(request.task, None)
        if self._writer is not None:
            self._writer.release_subtask(request.task)

    def _refuse(self, request: ChannelStateWriteRequest) -> None:
        """Cancel a request of a checkpoint that is over."""
        if request.checkpoint_id != self._max_aborted_id:
            self._outbox.cancel(request, _subsumed())
        elif request.task == self._aborted_by:
            self._outbox.cancel(request, self._abort_cause)
        else:
            shared = CheckpointFailureReason.CHANNEL_STATE_SHARED_STREAM_EXCEPTION
            self._outbox.cancel(request, CheckpointException(shared, str(self._abort_cause)))

    def _start(self, request: CheckpointStartRequest) -> None:
        if request.checkpoint_id > self._ongoing_id:
            self._fail_writer(_subsumed())
        if self._writer is None:
            self._ongoing_id = request.checkpoint_id
            self._writer = ChannelStateCheckpointWriter(
                self._registered, request.checkpoint_id, request.location, self._file, self._outbox, self._completed
            )
        self._writer.register_subtask_result(request.task, request.subtask)

    def _execute(self, request: CheckpointInProgressRequest) -> None:
        if self._writer is None or self._ongoing_id != request.checkpoint_id:
            raise ValueError(f"{request!r} came, but the checkpoint was not started, or is finished already")
        request.execute(self._writer)

    def _abort(self, request: CheckpointAbortRequest) -> None:
        if request.checkpoint_id > self._max_aborted_id:
            self._max_aborted_id = request.checkpoint_id
            self._aborted_by, self._abort_cause = request.task, request.cause
        if request.checkpoint_id > self._ongoing_id:
            self._fail_writer(_subsumed())
        elif self._writer is not None:
            self._writer.fail_subtask(request.task, request.cause)
            self._writer = None

    def _abort_writing(self, request: CheckpointAbortRequest) -> None:
        """Stop the host, if it is writing this checkpoint's file."""
        writer = self._being_written.pop(self._file.name(request.checkpoint_id), None)
        if writer is not None:
            writer.fail_subtask(request.task, request.cause)

    def _completed(self, writer: ChannelStateCheckpointWriter) -> None:
        self._writer = None
        if writer.state is WriterState.WRITING:
            self._being_written[self._file.name(writer.checkpoint_id)] = writer

    def _fail_writer(self, cause: Exception) -> None:
        if self._writer is not None:
            self._writer.fail(cause)
            self._writer = None

    # --- answers of the host --------------------------------------------------------------------------------------

    def file_written(self, event: ChannelStateFileWritten) -> None:
        """Handle a file that was written; ignore it if it was aborted meanwhile, or belongs to another dispatcher."""
        writer = self._being_written.pop(event.file_name, None)
        if writer is not None:
            writer.file_written(event)

    def file_failed(self, event: ChannelStateFileFailed) -> None:
        """Handle a file that failed; ignore it if it was aborted meanwhile, or belongs to another dispatcher."""
        writer = self._being_written.pop(event.file_name, None)
        if writer is not None:
            writer.file_failed(event)

    def fail(self, cause: Exception) -> None:
        self._fail_writer(cause)
        for writer in self._being_written.values():
            writer.fail(cause)
        self._being_written.clear()

    def __repr__(self) -> str:
        return f"ChannelStateWriteRequestDispatcher({self._file.task}, ongoing chk-{self._ongoing_id})"


def _subsumed() -> CheckpointException:
    return CheckpointException(CheckpointFailureReason.CHECKPOINT_DECLINED_SUBSUMED)

"""The third machine: it writes the in-flight data of one slot's tasks into files that they share.

A task submits requests (`SubmitChannelState`) and reports when undecided data is known (`OutputDataDecided`); the host
reports the outcome of each file. The machine starts and stops the writing of files, and sends each task the outcome for
its in-flight data: every start of a checkpoint is answered exactly once.

Flink passes each request to a thread (`ChannelStateWriteRequestExecutorImpl`) and its dispatcher
(`ChannelStateWriteRequestDispatcherImpl`), so that no task waits for the disk. Here the host encodes and writes, so no
thread is needed: the machine executes each request when it arrives, in the order in which Flink's thread does. A
request whose data is not known yet delays the later ones of its own task only.

Without unaligned checkpoints no task registers, and the machine never receives anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from kit.core.protocol.commands import CancelChannelStateFile
from kit.core.protocol.elements import DataElement
from kit.core.protocol.events import ChannelStateFileFailed, ChannelStateFileWritten, SubtasksRedeployed
from kit.core.protocol.messages import ChannelStateFailed, ChannelStateWritten, OutputDataDecided, SubmitChannelState
from kit.core.protocol.outages import may_pass
from kit.core.protocol.reasons import CheckpointException, CheckpointFailureReason, reason_of
from kit.core.protocol.tasks import split_task_name
from kit.core.protocol.words import Machine, handles
from kit.machines.channel.channel_state.channel_state_checkpoint_writer import ChannelStateCheckpointWriter
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
from kit.machines.channel.channel_state.shared_files import SharedFiles
from kit.stream.graph.execution_graph import ExecutionGraph

WriteRequest = WriteInputRequest | WriteOutputRequest | WriteOutputFutureRequest

DEFAULT_MAX_SUBTASKS_PER_FILE = 5
"""Flink's execution.checkpointing.unaligned.max-subtasks-per-channel-state-file."""


class SlotChannelState(Machine):
    """The in-flight data of the tasks of slot `slot`, in the epoch `attempt`.

    Does what Flink's `ChannelStateWriteRequestExecutor` and `ChannelStateWriteRequestDispatcher` do.
    """

    def __init__(self, slot: int, attempt: int, max_subtasks_per_file: int = DEFAULT_MAX_SUBTASKS_PER_FILE) -> None:
        super().__init__(slot_name(slot), f"{slot_name(slot)}@{attempt}")
        self.slot = slot
        self._max_subtasks_per_file = max_subtasks_per_file
        self._of_task: dict[str, SharedFiles] = {}
        self._shared: list[SharedFiles] = []
        self._heads: dict[str, str] = {}
        """The head of each task's chain."""

    @classmethod
    def of(
        cls, graph: ExecutionGraph, slot: int, attempt: int, tasks: Collection[str] | None = None
    ) -> SlotChannelState:
        """Create the machine of a slot's tasks, which register if there may be unaligned checkpoints.

        With `tasks`, only these are deployed now; the slot's other tasks have finished, or follow.
        """
        settings = graph.job_graph.settings.checkpoint
        machine = cls(slot, attempt, settings.max_subtasks_per_channel_state_file)
        for task in graph.tasks_in_slot(slot):
            machine._heads[task.task] = head = task.vertex.operators[0].operator_id
            if settings.unaligned and (tasks is None or task.task in tasks):
                machine.register(task.task, task.subtask_index, head)
        return machine

    # --- who shares files -----------------------------------------------------------------------------------------

    def register(self, task: str, subtask: int, operator_id: str) -> None:
        """Register a task of the slot, in order of deployment; `operator_id` is the head of its chain.

        It shares files with the tasks before it, unless `max_subtasks_per_file` do, or one of them has started a
        checkpoint or left. Raises RuntimeError if the task has registered before.

        Follows `ChannelStateWriteRequestExecutorFactory`.
        """
        if task in self._of_task:
            raise RuntimeError(f"{task} has registered for channel state already")
        if not self._shared or not self._shared[-1].is_registering:
            self._shared.append(SharedFiles(task, subtask, operator_id))
        self._heads[task] = operator_id
        files = self._of_task[task] = self._shared[-1]
        files.add(task, subtask)
        files.is_registering = len(files.subtasks) < self._max_subtasks_per_file

    def _files_of(self, event: SubmitChannelState | OutputDataDecided) -> SharedFiles:
        files = self._of_task.get(event.task)
        if files is None:
            raise ValueError(f"{type(event).__name__} came from {event.task}, which is not yet registered")
        return files

    def _left(self, files: SharedFiles, task: str) -> None:
        """Handle a task that leaves; with the last one the writing ends, and that task gets the error, if any."""
        files.is_registering = False
        files.present.discard(task)
        if files.present:
            return
        self._end(files, RuntimeError("all subtasks have left"))
        if files.error is not None:
            self._failed(task, -1, OSError(f"channel state could not be written: {files.error}"))

    # --- events ---------------------------------------------------------------------------------------------------

    @handles(SubtasksRedeployed)
    def _redeployed(self, event: SubtasksRedeployed) -> None:
        """Register the new attempts of tasks that have left, and forget what the old ones had begun."""
        for task in event.tasks:
            for files in self._shared:
                files.forget(task)
            self._of_task.pop(task, None)
        self._shared = [files for files in self._shared if files.present or files.being_written]
        for task in event.tasks:
            self.register(task, split_task_name(task)[1], self._heads[task])

    @handles(SubmitChannelState)
    def _submitted(self, event: SubmitChannelState) -> None:
        """Execute a request, or let it wait; an abort with priority does not wait (Flink's `submitPriority`)."""
        files = self._files_of(event)
        request: ChannelStateWriteRequest = event.request
        waiting = files.waiting[event.task]
        if files.has_ended:
            self._reject(files, request)
        elif isinstance(request, CheckpointAbortRequest) and request.priority:
            self._execute_all(files, request)
        elif waiting or not request.ready:
            waiting.append(request)
        else:
            self._execute_all(files, request)
        if isinstance(request, SubtaskReleaseRequest):
            self._left(files, event.task)

    @handles(OutputDataDecided)
    def _decided(self, event: OutputDataDecided) -> None:
        """Execute what waited for this data; nothing happens if the request was cancelled meanwhile."""
        files = self._files_of(event)
        waiting = files.waiting[event.task]
        for position, request in enumerate(waiting):
            if isinstance(request, WriteOutputFutureRequest) and request.waits_for(event):
                waiting[position] = replace(request, decided=event)
                break
        ready = []
        while waiting and waiting[0].ready:
            ready.append(waiting.popleft())
        self._execute_all(files, *ready)

    @handles(ChannelStateFileWritten)
    def _file_written(self, event: ChannelStateFileWritten) -> None:
        checkpoint = self._answered(event.file_name)
        if checkpoint is not None:
            for answer in checkpoint.written(event):
                self.emit(answer)

    @handles(ChannelStateFileFailed)
    def _file_failed(self, event: ChannelStateFileFailed) -> None:
        checkpoint = self._answered(event.file_name)
        if checkpoint is not None:
            self._fail(checkpoint, CheckpointException(event.reason, event.error, event.may_pass))

    def _answered(self, file_name: str) -> ChannelStateCheckpointWriter | None:
        """Return the checkpoint whose file this is; None if it was aborted meanwhile."""
        for files in self._shared:
            if file_name in files.being_written:
                return files.being_written.pop(file_name)
        return None

    # --- requests -------------------------------------------------------------------------------------------------

    def _execute_all(self, files: SharedFiles, *requests: ChannelStateWriteRequest) -> None:
        """Execute the requests in order; one that should never come ends the writing of these files."""
        for position, request in enumerate(requests):
            try:
                self._execute(files, request)
            except Exception as error:
                files.error = error.with_traceback(None)  # the frames of its traceback hold buffers
                self._end(files, error, *requests[position:])
                if not isinstance(request, CheckpointStartRequest):
                    self._failed(request.task, request.checkpoint_id, error)
                return

    def _execute(self, files: SharedFiles, request: ChannelStateWriteRequest) -> None:
        """Execute a request (Flink's `ChannelStateWriteRequestDispatcher.dispatch`).

        One whose checkpoint is over is cancelled. Raises ValueError or RuntimeError for one that is not allowed now.
        """
        if isinstance(request, SubtaskReleaseRequest):
            self._release(files, request)
            return
        if isinstance(request, CheckpointStartRequest):
            files.is_registering = False
        elif isinstance(request, CheckpointAbortRequest):
            self._stop_writing(files, files.file_name(request.checkpoint_id), request.cause, request.task)
        over = files.why_over(request)
        if over is not None:
            self._cancel(request, over)
            return
        match request:
            case WriteInputRequest() | WriteOutputRequest():
                self._write(files, request, request.buffers)
            case WriteOutputFutureRequest():
                self._write_decided(files, request)
            case CheckpointStartRequest():
                self._start(files, request)
            case CompleteInputRequest() | CompleteOutputRequest():
                self._complete(files, request)
            case CheckpointAbortRequest():
                self._abort(files, request)
            case _:
                raise ValueError(f"unknown kind of request: {request!r}")

    def _release(self, files: SharedFiles, request: SubtaskReleaseRequest) -> None:
        files.awaited.discard(request.task)
        if files.checkpoint is not None:
            files.checkpoint.release_subtask(request.task)
            self._finish_if_complete(files, files.checkpoint)

    def _start(self, files: SharedFiles, request: CheckpointStartRequest) -> None:
        """Add a task to its checkpoint; a newer checkpoint ends an older one."""
        if request.checkpoint_id > files.ongoing_id:
            self._fail_ongoing(files, _subsumed())
        if files.checkpoint is None:
            files.ongoing_id = request.checkpoint_id
            files.checkpoint = ChannelStateCheckpointWriter(
                files.awaited,
                files.owner,
                request.checkpoint_id,
                request.location,
                files.file_name(request.checkpoint_id),
            )
        files.checkpoint.register_subtask_result(request.task, files.subtasks[request.task])

    def _abort(self, files: SharedFiles, request: CheckpointAbortRequest) -> None:
        files.newest_abort = request
        if request.checkpoint_id > files.ongoing_id:
            self._fail_ongoing(files, _subsumed())
        else:
            self._fail_ongoing(files, request.cause, request.task)

    def _started(self, files: SharedFiles, request: ChannelStateWriteRequest) -> ChannelStateCheckpointWriter:
        """Return the ongoing checkpoint. Raises ValueError if the request is not about it."""
        if files.checkpoint is None or files.ongoing_id != request.checkpoint_id:
            raise ValueError(f"{request!r} came, but the checkpoint was not started, or is finished already")
        return files.checkpoint

    def _write(self, files: SharedFiles, request: WriteRequest, elements: Iterable[DataElement]) -> None:
        """Add elements to the checkpoint, which fails if they come too late."""
        checkpoint = self._started(files, request)
        try:
            checkpoint.write(request.task, request.info, elements)
        except RuntimeError as error:
            self._fail(checkpoint, error)
            raise

    def _write_decided(self, files: SharedFiles, request: WriteOutputFutureRequest) -> None:
        """Add the elements that were awaited; if there will be none, fail the checkpoint."""
        decided = request.decided
        assert decided is not None, f"{request!r} was executed before its data was there"
        if decided.error is None:
            self._write(files, request, decided.buffers)
        else:
            self._fail(self._started(files, request), decided.error, request.task)

    def _complete(self, files: SharedFiles, request: CompleteInputRequest | CompleteOutputRequest) -> None:
        """End a task's input or output. Raises ValueError the second time."""
        checkpoint = self._started(files, request)
        if checkpoint.has_failed:
            return
        result = checkpoint.result_of(request.task)
        if isinstance(request, CompleteInputRequest):
            result.complete_input()
        else:
            result.complete_output()
        self._finish_if_complete(files, checkpoint)

    def _finish_if_complete(self, files: SharedFiles, checkpoint: ChannelStateCheckpointWriter) -> None:
        """Let the host write the file once all data has been collected; without data, there is no file."""
        if not checkpoint.is_complete:
            return
        files.checkpoint = None
        if checkpoint.has_failed:
            return
        job = checkpoint.finish()
        if job is not None:
            files.being_written[checkpoint.file_name] = checkpoint
            self.emit(job)
            return
        for task in checkpoint.results:
            self.emit(ChannelStateWritten(task=task, checkpoint_id=checkpoint.checkpoint_id))

    # --- failures -------------------------------------------------------------------------------------------------

    def _end(self, files: SharedFiles, cause: Exception, *requests: ChannelStateWriteRequest) -> None:
        """End the writing of these files: cancel these requests and all that wait, and fail what was started.

        After the first time, nothing is left to cancel.
        """
        files.has_ended = True
        waiting = [request for queue in files.waiting.values() for request in queue]
        for queue in files.waiting.values():
            queue.clear()
        for request in (*requests, *waiting):
            self._cancel(request, cause)
        self._fail_ongoing(files, cause)
        for file_name in [*files.being_written]:
            self._stop_writing(files, file_name, cause)

    def _reject(self, files: SharedFiles, request: ChannelStateWriteRequest) -> None:
        """Answer a request that comes after the end."""
        late = RuntimeError(f"not running: {files.error or 'all subtasks have left'}")
        if isinstance(request, CheckpointStartRequest):
            self._failed(request.task, request.checkpoint_id, files.error or late)
        elif not isinstance(request, SubtaskReleaseRequest):
            self._failed(request.task, request.checkpoint_id, late)

    def _cancel(self, request: ChannelStateWriteRequest, cause: Exception) -> None:
        """Drop a request, and notify the task if it waits for an answer."""
        if isinstance(request, CheckpointStartRequest):
            self._failed(request.task, request.checkpoint_id, cause)

    def _stop_writing(self, files: SharedFiles, file_name: str, cause: Exception, by: str | None = None) -> None:
        """Stop the host, if it is writing this file, and fail its checkpoint."""
        checkpoint = files.being_written.pop(file_name, None)
        if checkpoint is not None:
            self.emit(CancelChannelStateFile(checkpoint_id=checkpoint.checkpoint_id, file_name=file_name))
            self._fail(checkpoint, cause, by)

    def _fail_ongoing(self, files: SharedFiles, cause: Exception, by: str | None = None) -> None:
        checkpoint, files.checkpoint = files.checkpoint, None
        if checkpoint is not None:
            self._fail(checkpoint, cause, by)

    def _fail(self, checkpoint: ChannelStateCheckpointWriter, cause: Exception, by: str | None = None) -> None:
        """Fail a checkpoint, once, for all that have started it.

        With `by`, only that task fails with `cause` itself, the others because they share its file.
        """
        if checkpoint.has_failed:
            return
        checkpoint.fail()
        shared = CheckpointException(
            CheckpointFailureReason.CHANNEL_STATE_SHARED_STREAM_EXCEPTION, str(cause), may_pass(cause)
        )
        for task in checkpoint.results:
            self._failed(task, checkpoint.checkpoint_id, cause if by in (None, task) else shared)

    def _failed(self, task: str, checkpoint_id: int, cause: Exception) -> None:
        """Answer that this task's in-flight data of a checkpoint is not stored."""
        reason, error = reason_of(cause, CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION)
        self.emit(
            ChannelStateFailed(
                task=task,
                checkpoint_id=checkpoint_id,
                error=error,
                reason=reason,
                executor_ended=self._of_task[task].has_ended,
                may_pass=may_pass(cause),
            )
        )

    def validate(self) -> None:
        """Check that everything that is ready has been executed, and that nothing is left after an end."""
        for files in self._shared:
            files.validate()

    def __repr__(self) -> str:
        return f"SlotChannelState({self.name}, {len(self._of_task)} tasks that share {len(self._shared)} files)"


def _subsumed() -> CheckpointException:
    return CheckpointException(CheckpointFailureReason.CHECKPOINT_DECLINED_SUBSUMED)


def slot_name(slot: int) -> str:
    """Return the name of this slot's machine."""
    return f"slot {slot}"

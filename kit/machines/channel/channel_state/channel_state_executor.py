"""The executor of the channel state requests of the subtasks that share files, one request after the other.

An executor has no thread: `submit` queues a request, and `run` executes what can be executed. A request whose data is
not available yet delays those of its own subtask only, in a separate queue. A request that should never happen (a write
before its start) ends the executor: all waiting requests are cancelled, and later requests raise the cause.

Subtasks register until the executor has as many as may share a file, or the first checkpoint starts, or one of them
leaves; the next subtask gets a new executor. `SlotChannelState`, the machine, does that for the tasks of a slot.

Follows `ChannelStateWriteRequestExecutorImpl` and `ChannelStateWriteRequestExecutorFactory`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from kit.core.protocol.messages import OutputDataDecided
from kit.machines.channel.channel_state.channel_state_checkpoint_writer import ChannelStateFile
from kit.machines.channel.channel_state.channel_state_dispatcher import ChannelStateWriteRequestDispatcher
from kit.machines.channel.channel_state.channel_state_outbox import ChannelStateOutbox
from kit.machines.channel.channel_state.channel_state_requests import (
    ChannelStateWriteRequest,
    CheckpointAbortRequest,
    CheckpointStartRequest,
    SubtaskRegisterRequest,
    SubtaskReleaseRequest,
    WriteOutputFutureRequest,
)

DEFAULT_MAX_SUBTASKS_PER_FILE = 5
"""Flink's execution.checkpointing.unaligned.max-subtasks-per-channel-state-file."""


class Dispatcher(Protocol):
    """The interface of what executes a request."""

    def dispatch(self, request: ChannelStateWriteRequest) -> None:
        """Execute the request now."""

    def fail(self, cause: Exception) -> None:
        """Abort everything that was started."""


class ChannelStateWriteRequestExecutor:
    """The queues of the subtasks that share files; `on_registered` is called when no more may join.

    Follows Flink's `ChannelStateWriteRequestExecutor`.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        outbox: ChannelStateOutbox,
        max_subtasks_per_file: int = DEFAULT_MAX_SUBTASKS_PER_FILE,
        on_registered: Callable[[ChannelStateWriteRequestExecutor], None] | None = None,
    ) -> None:
        self.is_registering = True
        self.is_closed = False
        self.thrown: Exception | None = None
        self.subtasks: dict[str, None] = {}
        self._dispatcher = dispatcher
        self._outbox = outbox
        self._max_subtasks_per_file = max_subtasks_per_file
        self._on_registered = on_registered
        self._ready: deque[ChannelStateWriteRequest] = deque()
        self._unready: dict[str, deque[ChannelStateWriteRequest]] = {}

    # --- subtasks -------------------------------------------------------------------------------------------------

    def register_subtask(self, task: str, subtask: int) -> None:
        """Let this subtask submit requests. Raises RuntimeError if it is registered, or if no more may join."""
        if not self.is_registering:
            raise RuntimeError(f"{task} is too late: the subtasks that share a file are {', '.join(self.subtasks)}")
        if task in self.subtasks:
            raise RuntimeError(f"{task} has registered for channel state already")
        self.subtasks[task] = None
        self._unready[task] = deque()
        self._ready.append(SubtaskRegisterRequest(task=task, subtask=subtask))
        if len(self.subtasks) == self._max_subtasks_per_file:
            self._complete_registration()

    def release_subtask(self, task: str) -> None:
        """Remove this subtask; with the last one the executor closes. Raises OSError if it had ended with an error."""
        self._complete_registration()
        self.subtasks.pop(task, None)
        if self.subtasks:
            return
        if not self.is_closed:
            self._close(RuntimeError("all subtasks have left"))
        if self.thrown is not None:
            raise OSError(f"channel state could not be written: {self.thrown}") from self.thrown

    def _complete_registration(self) -> None:
        if self.is_registering:
            self.is_registering = False
            if self._on_registered is not None:
                self._on_registered(self)

    # --- requests -------------------------------------------------------------------------------------------------

    def submit(self, request: ChannelStateWriteRequest) -> None:
        """Queue the request.

        Raises ValueError if its subtask has not registered, and RuntimeError if the executor has ended; in both cases
        the request is cancelled.
        """
        unready = self._unready_of(request)
        (self._ready if request.ready and not unready else unready).append(request)
        self._ensure_running()

    def submit_priority(self, request: ChannelStateWriteRequest) -> None:
        """Queue the request as the next one. Raises as `submit` does, and RuntimeError if the request is not ready.

        Flink: `submitPriority`.
        """
        self._unready_of(request)
        if not request.ready:
            raise RuntimeError(f"{request!r} cannot go first: a request with priority must be ready")
        self._ready.appendleft(request)
        self._ensure_running()

    def decided(self, event: OutputDataDecided) -> None:
        """Pass the data that a request waits for; nothing happens if the request was cancelled meanwhile."""
        for request in self._unready.get(event.task, ()):
            if isinstance(request, WriteOutputFutureRequest) and request.is_for(event.checkpoint_id, event.info):
                assert request.future is not None
                if event.error is not None:
                    request.future.fail(event.error)
                else:
                    request.future.complete(event.buffers)
                return

    def _unready_of(self, request: ChannelStateWriteRequest) -> deque[ChannelStateWriteRequest]:
        unready = self._unready.get(request.task)
        if unready is None:
            raise ValueError(f"{request!r} was submitted, but {request.task} is not yet registered")
        return unready

    def _ensure_running(self) -> None:
        if self.is_closed:
            cause = RuntimeError(f"not running: {self.thrown or 'all subtasks have left'}")
            self._cancel_all(self.thrown or cause)
            raise cause from self.thrown

    @property
    def has_work(self) -> bool:
        """True if `run` would do something."""
        return bool(self._ready) or any(unready and unready[0].ready for unready in self._unready.values())

    def run(self) -> None:
        """Execute all requests that are ready, in order; an error ends the executor and is kept in `thrown`."""
        self._collect_ready()
        while self._ready and not self.is_closed:
            request = self._ready.popleft()
            try:
                if isinstance(request, CheckpointStartRequest):
                    self._complete_registration()
                self._dispatcher.dispatch(request)
            except Exception as error:
                self.thrown = error.with_traceback(None)  # the frames of its traceback hold buffers
                self._close(error)
                if not isinstance(request, CheckpointStartRequest):
                    self._outbox.failed(request.task, request.checkpoint_id, error)

    def _collect_ready(self) -> None:
        for unready in self._unready.values():
            while unready and unready[0].ready:
                self._ready.append(unready.popleft())

    def _close(self, cause: Exception) -> None:
        self.is_closed = True
        self._outbox.executor_ended = True
        self._cancel_all(cause)
        self._dispatcher.fail(cause)

    def _cancel_all(self, cause: Exception) -> None:
        for queue in (self._ready, *self._unready.values()):
            while queue:
                self._outbox.cancel(queue.popleft(), cause)

    def validate(self) -> None:
        """Check that no waiting request is ready, and that none belongs to a subtask that has left."""
        assert not self.has_work, f"{self!r} has not carried out {[*self._ready][:1] or self._unready}"
        for task, unready in self._unready.items():
            strangers = [request for request in unready if request.task != task]
            assert not strangers, f"{strangers} wait among the requests of {task}"
            assert not (self.is_closed and unready), f"{self!r}, but {list(unready)} still wait"

    def __repr__(self) -> str:
        state = "ended" if self.is_closed else "registering" if self.is_registering else "running"
        return f"ChannelStateWriteRequestExecutor({', '.join(self.subtasks)}, {state})"


class ChannelStateWriteRequestExecutorFactory:
    """A factory that gives each subtask the executor that it shares with those before and after it."""

    def __init__(self, max_subtasks_per_file: int = DEFAULT_MAX_SUBTASKS_PER_FILE) -> None:
        self._max_subtasks_per_file = max_subtasks_per_file
        self._current: SharedExecutor | None = None

    def get_or_create_executor(self, task: str, subtask: int, operator_id: str) -> SharedExecutor:
        """Register the subtask with the executor that still accepts subtasks, or with a new one.

        `operator_id` is the head of its chain.
        """
        if self._current is None:
            self._current = SharedExecutor(
                ChannelStateFile(task, operator_id, subtask), self._max_subtasks_per_file, self._registered
            )
        shared = self._current
        shared.executor.register_subtask(task, subtask)
        return shared

    def _registered(self, executor: ChannelStateWriteRequestExecutor) -> None:
        found = self._current and self._current.executor
        assert found is executor, f"{executor!r} takes no more subtasks, but {found!r} is the one that does"
        self._current = None


class SharedExecutor:
    """An executor and its parts, for the subtasks that share the files named after `file`."""

    def __init__(
        self,
        file: ChannelStateFile,
        max_subtasks_per_file: int,
        on_registered: Callable[[ChannelStateWriteRequestExecutor], None],
    ) -> None:
        self.outbox = ChannelStateOutbox()
        self.dispatcher = ChannelStateWriteRequestDispatcher(file, self.outbox)
        self.executor = ChannelStateWriteRequestExecutor(
            self.dispatcher, self.outbox, max_subtasks_per_file, on_registered
        )

    def submit(self, request: ChannelStateWriteRequest) -> None:
        """Queue the request; if that fails, the task is notified."""
        try:
            if isinstance(request, CheckpointAbortRequest) and request.priority:
                self.executor.submit_priority(request)
            else:
                self.executor.submit(request)
        except RuntimeError as error:
            if not isinstance(request, CheckpointStartRequest | SubtaskReleaseRequest):
                self.outbox.failed(request.task, request.checkpoint_id, error)

    def release(self, task: str) -> None:
        """Release a task that leaves."""
        try:
            self.executor.run()
            self.executor.release_subtask(task)
        except OSError as error:
            self.outbox.failed(task, -1, error)

    def __repr__(self) -> str:
        return f"SharedExecutor({self.executor!r})"

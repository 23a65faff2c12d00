"""The requests of a task to the executor that writes its channel state.

On its way a request is an immutable value, like all messages. The executor works on its own copy (`received`), which
has a life cycle: it holds buffers until it is executed or cancelled, and none afterwards. `CheckpointInProgressRequest`
ensures that it is executed once, and cancelled at most once. Follows `ChannelStateWriteRequest` and its classes.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from enum import Enum
from typing import Any, Protocol, Self

from kit.core.protocol.elements import DataElement
from kit.core.state.handles import InputChannelInfo, ResultSubpartitionInfo
from kit.machines.channel.channel_state.data_future import DataFuture


class CheckpointWriter(Protocol):
    """A checkpoint as a request sees it; see `kit.machines.channel.channel_state.channel_state_checkpoint_writer`."""

    def write_input(self, task: str, info: InputChannelInfo, element: DataElement) -> None:
        """Add an element of an input channel."""

    def write_output(self, task: str, info: ResultSubpartitionInfo, element: DataElement) -> None:
        """Add an element of an output channel."""

    def complete_input(self, task: str) -> None:
        """End the task's input."""

    def complete_output(self, task: str) -> None:
        """End the task's output."""

    def fail_subtask(self, task: str, cause: Exception) -> None:
        """Fail the checkpoint for this task and for those that share its file."""


@dataclass(slots=True, eq=False, kw_only=True)
class ChannelStateWriteRequest:
    """A request of the task named `task`, subtask `subtask` of its vertex."""

    task: str
    subtask: int
    checkpoint_id: int

    def received(self) -> Self:
        """Return a copy for the executor, whose life cycle then does not affect the message that carried it."""
        return replace(self)

    @property
    def ready(self) -> bool:
        """True if it can be executed; later requests of the same task wait until it is."""
        return True

    def cancel(self, cause: Exception) -> None:
        """Cancel the request and release its buffers."""

    def to_loggable(self) -> dict[str, Any]:
        """Return the request's description in a trace: buffers are counted, not kept."""
        told: dict[str, Any] = {"type": type(self).__name__}
        info, buffers = getattr(self, "info", None), getattr(self, "buffers", None)
        if info is not None:
            told["channel"] = list(astuple(info))
        if buffers is not None:
            told["elements"] = len(buffers)
        return told

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.task}, chk-{self.checkpoint_id})"


@dataclass(slots=True, eq=False, kw_only=True, repr=False)
class CheckpointStartRequest(ChannelStateWriteRequest):
    """Start a checkpoint whose files are written below `location`."""

    location: str


@dataclass(slots=True, eq=False, kw_only=True, repr=False)
class CheckpointAbortRequest(ChannelStateWriteRequest):
    """Abort a checkpoint because of `cause`; with `priority`, before all waiting requests."""

    cause: Exception
    priority: bool = False


@dataclass(slots=True, eq=False, kw_only=True, repr=False)
class SubtaskRegisterRequest(ChannelStateWriteRequest):
    """Let every later checkpoint wait for this subtask."""

    checkpoint_id: int = 0


@dataclass(slots=True, eq=False, kw_only=True, repr=False)
class SubtaskReleaseRequest(ChannelStateWriteRequest):
    """Let no checkpoint wait for this subtask any longer."""

    checkpoint_id: int = 0


class RequestState(Enum):
    """The life of a request about a checkpoint in progress (`CheckpointInProgressRequestState`)."""

    NEW = "NEW"
    EXECUTING = "EXECUTING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


@dataclass(slots=True, eq=False, kw_only=True, repr=False)
class CheckpointInProgressRequest(ChannelStateWriteRequest):
    """A request that needs its checkpoint to have been started."""

    state: RequestState = RequestState.NEW

    def execute(self, writer: CheckpointWriter) -> None:
        """Execute the request once. Raises RuntimeError the second time."""
        if self.state is not RequestState.NEW:
            raise RuntimeError(f"{self!r} is {self.state.name} and cannot be executed")
        self.state = RequestState.EXECUTING
        try:
            self._act(writer)
        except Exception:
            self.state = RequestState.FAILED
            raise
        self.state = RequestState.COMPLETED
        self._let_go()

    def cancel(self, cause: Exception) -> None:
        """Release the buffers, unless the request was executed or cancelled before."""
        if self.state in (RequestState.NEW, RequestState.FAILED):
            self.state = RequestState.CANCELLED
            self._let_go()

    def _act(self, writer: CheckpointWriter) -> None:
        raise NotImplementedError

    def _let_go(self) -> None:
        """Do nothing: only subclasses hold buffers."""


@dataclass(slots=True, eq=False, kw_only=True, repr=False)
class WriteInputRequest(CheckpointInProgressRequest):
    """Add these elements of an input channel; the first has number `start_seq`."""

    info: InputChannelInfo
    start_seq: int
    buffers: tuple[DataElement, ...]

    def _act(self, writer: CheckpointWriter) -> None:
        for element in self.buffers:
            _check_is_data(element)
            writer.write_input(self.task, self.info, element)

    def _let_go(self) -> None:
        self.buffers = ()


@dataclass(slots=True, eq=False, kw_only=True, repr=False)
class WriteOutputRequest(CheckpointInProgressRequest):
    """Add these elements of an output channel; the first has number `start_seq`."""

    info: ResultSubpartitionInfo
    start_seq: int
    buffers: tuple[DataElement, ...]

    def _act(self, writer: CheckpointWriter) -> None:
        _write_output(writer, self.task, self.info, self.buffers)

    def _let_go(self) -> None:
        self.buffers = ()


@dataclass(slots=True, eq=False, kw_only=True, repr=False)
class WriteOutputFutureRequest(CheckpointInProgressRequest):
    """Add the content of `future` once it is known. If the future fails, so does this task's checkpoint.

    Flink passes the task's future. Here the executor's copy has its own future, and the task reports the content when
    it is known (`OutputDataDecided`); a request on its way has none.
    """

    info: ResultSubpartitionInfo
    start_seq: int
    future: DataFuture | None = None

    def received(self) -> Self:
        return replace(self, future=DataFuture())

    def is_for(self, checkpoint_id: int, info: ResultSubpartitionInfo) -> bool:
        """Return True if it waits for what this output has in flight for this checkpoint."""
        return (self.checkpoint_id, self.info) == (checkpoint_id, info) and not self.ready

    @property
    def ready(self) -> bool:
        """True if the future is done."""
        return self.future is None or self.future.done

    def _act(self, writer: CheckpointWriter) -> None:
        future = self.future
        if future is None or not future.done:
            raise RuntimeError(f"{self!r} was executed before its data was there")
        if future.error is not None:
            writer.fail_subtask(self.task, future.error)
        else:
            _write_output(writer, self.task, self.info, future.buffers)

    def _let_go(self) -> None:
        self.future = None


@dataclass(slots=True, eq=False, kw_only=True, repr=False)
class CompleteInputRequest(CheckpointInProgressRequest):
    """End the task's input."""

    def _act(self, writer: CheckpointWriter) -> None:
        writer.complete_input(self.task)


@dataclass(slots=True, eq=False, kw_only=True, repr=False)
class CompleteOutputRequest(CheckpointInProgressRequest):
    """End the task's output."""

    def _act(self, writer: CheckpointWriter) -> None:
        writer.complete_output(self.task)


def _write_output(
    writer: CheckpointWriter, task: str, info: ResultSubpartitionInfo, buffers: tuple[DataElement, ...]
) -> None:
    for element in buffers:
        _check_is_data(element)
        writer.write_output(task, info, element)


def _check_is_data(element: object) -> None:
    if not isinstance(element, DataElement):
        raise ValueError(f"{element!r} is an event: a checkpoint stores records and watermarks, never events")

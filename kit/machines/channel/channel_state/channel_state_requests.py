"""What a task asks of the executor that writes its channel state, request by request.

On its way a request is a value, as all words are. The executor works on its own one (`received`), which has a life:
it holds buffers until it has been executed or cancelled, and none afterwards. `CheckpointInProgressRequest` sees to
that: it is executed once, and cancelled at most once. Follows `ChannelStateWriteRequest` and its classes.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from enum import Enum
from typing import Any, Protocol, Self

from kit.core.protocol.elements import DataElement
from kit.core.state.handles import InputChannelInfo, ResultSubpartitionInfo
from kit.machines.channel.channel_state.data_future import DataFuture


class CheckpointWriter(Protocol):
    """What a request does to a checkpoint; see `kit.machines.channel.channel_state.channel_state_checkpoint_writer`."""

    def write_input(self, task: str, info: InputChannelInfo, element: DataElement) -> None:
        """Take an element of an input channel along."""

    def write_output(self, task: str, info: ResultSubpartitionInfo, element: DataElement) -> None:
        """Take an element of an output channel along."""

    def complete_input(self, task: str) -> None:
        """The task has no more input to add."""

    def complete_output(self, task: str) -> None:
        """The task has no more output to add."""

    def fail_subtask(self, task: str, cause: Exception) -> None:
        """This task gives the checkpoint up, and so do those that share its file."""


@dataclass(slots=True, eq=False, kw_only=True)
class ChannelStateWriteRequest:
    """A request of the task named `task`, subtask `subtask` of its vertex."""

    task: str
    subtask: int
    checkpoint_id: int

    def received(self) -> Self:
        """The same for whoever executes it: what becomes of that is nothing to the word that brought it."""
        return replace(self)

    @property
    def ready(self) -> bool:
        """Whether it can be executed; those of the same task wait behind one that cannot."""
        return True

    def cancel(self, cause: Exception) -> None:
        """It will not be executed: let go of its buffers."""

    def to_loggable(self) -> dict[str, Any]:
        """What a trace says of it: buffers are counted, not kept."""
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
    """Begin a checkpoint whose files go below `location`."""

    location: str


@dataclass(slots=True, eq=False, kw_only=True, repr=False)
class CheckpointAbortRequest(ChannelStateWriteRequest):
    """Give a checkpoint up because of `cause`; with `priority` before all requests that wait."""

    cause: Exception
    priority: bool = False


@dataclass(slots=True, eq=False, kw_only=True, repr=False)
class SubtaskRegisterRequest(ChannelStateWriteRequest):
    """From now on every checkpoint waits for this subtask."""

    checkpoint_id: int = 0


@dataclass(slots=True, eq=False, kw_only=True, repr=False)
class SubtaskReleaseRequest(ChannelStateWriteRequest):
    """No checkpoint waits for this subtask any more."""

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
        """Do it, once; RuntimeError the second time."""
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
        """Let go of the buffers, unless it was executed or cancelled before."""
        if self.state in (RequestState.NEW, RequestState.FAILED):
            self.state = RequestState.CANCELLED
            self._let_go()

    def _act(self, writer: CheckpointWriter) -> None:
        raise NotImplementedError

    def _let_go(self) -> None:
        """Nothing is held unless a subclass says so."""


@dataclass(slots=True, eq=False, kw_only=True, repr=False)
class WriteInputRequest(CheckpointInProgressRequest):
    """Take these elements of an input channel along; the first has number `start_seq`."""

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
    """Take these elements of an output channel along; the first has number `start_seq`."""

    info: ResultSubpartitionInfo
    start_seq: int
    buffers: tuple[DataElement, ...]

    def _act(self, writer: CheckpointWriter) -> None:
        _write_output(writer, self.task, self.info, self.buffers)

    def _let_go(self) -> None:
        self.buffers = ()


@dataclass(slots=True, eq=False, kw_only=True, repr=False)
class WriteOutputFutureRequest(CheckpointInProgressRequest):
    """Take along what `future` will hold. If it fails, so does this task's checkpoint.

    Flink hands the task's future over. Here the one who executes the request has its own, and the task says what it
    holds when that is known (`OutputDataDecided`); a request on its way has none.
    """

    info: ResultSubpartitionInfo
    start_seq: int
    future: DataFuture | None = None

    def received(self) -> Self:
        return replace(self, future=DataFuture())

    def is_for(self, checkpoint_id: int, info: ResultSubpartitionInfo) -> bool:
        """Whether it waits for what this output has in flight for this checkpoint."""
        return (self.checkpoint_id, self.info) == (checkpoint_id, info) and not self.ready

    @property
    def ready(self) -> bool:
        """Whether the future is done."""
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
    """All of the task's input has been added."""

    def _act(self, writer: CheckpointWriter) -> None:
        writer.complete_input(self.task)


@dataclass(slots=True, eq=False, kw_only=True, repr=False)
class CompleteOutputRequest(CheckpointInProgressRequest):
    """All of the task's output has been added."""

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
        raise ValueError(f"{element!r} is an event: a checkpoint takes records and watermarks along, never events")

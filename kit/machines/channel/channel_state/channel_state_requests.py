"""The requests of a task to its slot's machine, which writes the channel state.

A request is an immutable value, like the message that carries it (`SubmitChannelState`). The machine drops it once it
is executed or cancelled, and with it the buffers. Follows `ChannelStateWriteRequest` and its classes; Flink gives a
request a state (`CheckpointInProgressRequestState`), because there two threads may execute and cancel it.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any, Self

from kit.core.protocol.elements import DataElement
from kit.core.protocol.messages import OutputDataDecided
from kit.core.state.handles import InputChannelInfo, ResultSubpartitionInfo


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ChannelStateWriteRequest:
    """A request of the task named `task`."""

    task: str
    checkpoint_id: int

    @property
    def ready(self) -> bool:
        """True if it can be executed; later requests of the same task wait until it is."""
        return True

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the request itself: it is immutable, so copies of a world share it."""
        return self

    def to_loggable(self) -> dict[str, Any]:
        """Return the request's description in a trace: buffers are counted, not kept."""
        facts: dict[str, Any] = {"type": type(self).__name__}
        info, buffers = getattr(self, "info", None), getattr(self, "buffers", None)
        if info is not None:
            facts["channel"] = list(astuple(info))
        if buffers is not None:
            facts["elements"] = len(buffers)
        return facts

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.task}, chk-{self.checkpoint_id})"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class CheckpointStartRequest(ChannelStateWriteRequest):
    """Start a checkpoint whose files are written below `location`."""

    location: str


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class CheckpointAbortRequest(ChannelStateWriteRequest):
    """Abort a checkpoint because of `cause`; with `priority`, before all waiting requests."""

    cause: Exception
    priority: bool = False


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class SubtaskReleaseRequest(ChannelStateWriteRequest):
    """Let no checkpoint wait for this subtask any longer."""

    checkpoint_id: int = 0


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class WriteInputRequest(ChannelStateWriteRequest):
    """Add these elements of an input channel; the first has number `start_seq`."""

    info: InputChannelInfo
    start_seq: int
    buffers: tuple[DataElement, ...]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class WriteOutputRequest(ChannelStateWriteRequest):
    """Add these elements of an output channel; the first has number `start_seq`."""

    info: ResultSubpartitionInfo
    start_seq: int
    buffers: tuple[DataElement, ...]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class WriteOutputFutureRequest(ChannelStateWriteRequest):
    """Add elements of an output channel that are not known yet; without them, this task's checkpoint fails.

    Flink passes the task's future. Here the task reports the content later, and the machine then replaces the request
    that waits for it by one with `decided`.
    """

    info: ResultSubpartitionInfo
    start_seq: int
    decided: OutputDataDecided | None = None

    def waits_for(self, event: OutputDataDecided) -> bool:
        """Return True if it waits for what this event reports: an output's data in flight for a checkpoint."""
        return not self.ready and (self.checkpoint_id, self.info) == (event.checkpoint_id, event.info)

    @property
    def ready(self) -> bool:
        """True if the elements are known, or never will be."""
        return self.decided is not None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class CompleteInputRequest(ChannelStateWriteRequest):
    """End the task's input."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class CompleteOutputRequest(ChannelStateWriteRequest):
    """End the task's output."""

"""A task's interface to its channel state: what was in flight, checkpoint by checkpoint.

The task says what belongs to a checkpoint (`start`, `add_...`, `finish_...`, or `abort`); each call becomes a request
to the slot's machine. The outcome is a `ChannelStateWriteResult`, which is done when the answer arrives. Every `start`
is answered once, in order, so an answer finds its result even if a checkpoint's id was aborted and used again.

`give` must survive a copy of the task: it is a bound method, not a closure. Follows `ChannelStateWriterImpl`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kit.core.protocol.elements import DataElement
from kit.core.protocol.messages import ChannelStateFailed, ChannelStateWritten, OutputDataDecided, SubmitChannelState
from kit.core.protocol.options import CheckpointOptions
from kit.core.protocol.reasons import CheckpointException, CheckpointFailureReason
from kit.core.state.handles import (
    InputChannelInfo,
    InputChannelStateHandle,
    ResultSubpartitionInfo,
    ResultSubpartitionStateHandle,
)
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

DEFAULT_MAX_CHECKPOINTS = 1000
"""The maximum number of checkpoints in progress, or finished and not taken, including those to be aborted.

Flink: `DEFAULT_MAX_CHECKPOINTS`.
"""

SEQUENCE_NUMBER_RESTORED = -1
"""The elements were recovered and have not been consumed since. Flink: `SEQUENCE_NUMBER_RESTORED`."""

SEQUENCE_NUMBER_UNKNOWN = -2
"""The elements have no number of their own. Flink: `SEQUENCE_NUMBER_UNKNOWN`."""


class ChannelStateWriteResult:
    """The outcome for one checkpoint's in-flight data: handles, or an `error`. Source: `ChannelStateWriteResult`."""

    __slots__ = ("done", "error", "input_handles", "output_handles", "size_bytes")

    def __init__(self) -> None:
        self.done = False
        self.error: Exception | None = None
        self.input_handles: tuple[InputChannelStateHandle, ...] = ()
        self.output_handles: tuple[ResultSubpartitionStateHandle, ...] = ()
        self.size_bytes = 0

    @classmethod
    def empty(cls) -> ChannelStateWriteResult:
        """Return the result of a checkpoint without in-flight data."""
        result = cls()
        result.done = True
        return result

    def complete(self, event: ChannelStateWritten) -> None:
        """Complete the result: the data is stored."""
        if not self.done:
            self.done = True
            self.input_handles, self.output_handles = event.input_handles, event.output_handles
            self.size_bytes = event.bytes_written

    def fail(self, error: Exception) -> None:
        """Fail the result: the data is not stored."""
        if not self.done:
            self.done, self.error = True, error

    def __repr__(self) -> str:
        state = f"failed: {self.error}" if self.error else f"{self.size_bytes} B" if self.done else "open"
        return f"ChannelStateWriteResult({state})"


class ChannelStateWriter:
    """The writer of one task's in-flight data.

    Follows Flink's `ChannelStateWriter`, a task's `channelStateWriter`.
    """

    def __init__(
        self,
        task: str,
        give: Callable[[SubmitChannelState | OutputDataDecided], None],
        max_checkpoints: int = DEFAULT_MAX_CHECKPOINTS,
    ) -> None:
        self.task = task
        self._give = give
        self._max_checkpoints = max_checkpoints
        self._results: dict[int, ChannelStateWriteResult] = {}
        self._unanswered: dict[int, list[ChannelStateWriteResult]] = {}
        self._closed = False
        self._ended_by: Exception | None = None

    # --- calls of the task ----------------------------------------------------------------------------------------

    def start(self, checkpoint_id: int, options: CheckpointOptions) -> None:
        """Start a checkpoint.

        Raises ValueError if it was started before, RuntimeError for too many checkpoints and after `close`.
        """
        if checkpoint_id in self._results:
            raise ValueError(f"{self.task} has begun the channel state of checkpoint {checkpoint_id} already")
        if len(self._results) >= self._max_checkpoints:
            raise RuntimeError(
                f"{self.task} cannot begin the channel state of checkpoint {checkpoint_id}: "
                f"{len(self._results)} writes are open but the limit is {self._max_checkpoints}"
            )
        result = ChannelStateWriteResult()
        self._request(CheckpointStartRequest(task=self.task, checkpoint_id=checkpoint_id, location=options.location))
        self._results[checkpoint_id] = result
        self._unanswered.setdefault(checkpoint_id, []).append(result)

    def add_input_data(
        self, checkpoint_id: int, info: InputChannelInfo, start_seq: int, buffers: Iterable[DataElement]
    ) -> None:
        """Add elements that had arrived on an input channel, in order; after `start` and before `finish_input`.

        Flink: `addInputData`.
        """
        buffers = tuple(buffers)
        self._request(
            WriteInputRequest(
                task=self.task, checkpoint_id=checkpoint_id, info=info, start_seq=start_seq, buffers=buffers
            )
        )

    def add_output_data(
        self, checkpoint_id: int, info: ResultSubpartitionInfo, start_seq: int, buffers: Iterable[DataElement]
    ) -> None:
        """Add elements that had not left an output channel, in order; after `start` and before `finish_output`.

        Flink: `addOutputData`.
        """
        buffers = tuple(buffers)
        self._request(
            WriteOutputRequest(
                task=self.task, checkpoint_id=checkpoint_id, info=info, start_seq=start_seq, buffers=buffers
            )
        )

    def add_output_data_future(self, checkpoint_id: int, info: ResultSubpartitionInfo, start_seq: int) -> None:
        """Add elements of an output channel that are not known yet: an aligned barrier may time out there.

        All later requests of this task, for any checkpoint, wait for `output_data_decided`, which must follow
        eventually. Flink's `addOutputDataFuture` takes a `CompletableFuture` instead.
        """
        self._request(
            WriteOutputFutureRequest(task=self.task, checkpoint_id=checkpoint_id, info=info, start_seq=start_seq)
        )

    def output_data_decided(
        self,
        checkpoint_id: int,
        info: ResultSubpartitionInfo,
        buffers: Iterable[DataElement],
        error: Exception | None = None,
    ) -> None:
        """Report the elements that were not known, in order, or the `error` that ends the checkpoint.

        The requests that wait for them can then proceed. Nothing is reported after `close`.
        """
        if not self._closed:
            self._give(
                OutputDataDecided(
                    task=self.task, checkpoint_id=checkpoint_id, info=info, buffers=tuple(buffers), error=error
                )
            )

    def finish_input(self, checkpoint_id: int) -> None:
        """End the input of the checkpoint. Flink: `finishInput`."""
        self._request(CompleteInputRequest(task=self.task, checkpoint_id=checkpoint_id))

    def finish_output(self, checkpoint_id: int) -> None:
        """End the output of the checkpoint. Flink: `finishOutput`."""
        self._request(CompleteOutputRequest(task=self.task, checkpoint_id=checkpoint_id))

    def abort(self, checkpoint_id: int, cause: Exception, clean_up: bool) -> None:
        """Abort the checkpoint, known or not; with `clean_up` its result will not be taken.

        The abort is requested twice: ahead of all waiting requests, for what has started, and behind them, for what has
        not.

        Flink: `ChannelStateWriter.abort`.
        """
        for priority in (True, False):
            self._request(
                CheckpointAbortRequest(task=self.task, checkpoint_id=checkpoint_id, cause=cause, priority=priority)
            )
        if clean_up:
            self._results.pop(checkpoint_id, None)

    def take_result(self, checkpoint_id: int) -> ChannelStateWriteResult:
        """Return the result of a checkpoint, once; it may be done later. Raises ValueError if there is none.

        Flink: `getAndRemoveWriteResult`.
        """
        result = self._results.pop(checkpoint_id, None)
        if result is None:
            raise ValueError(f"{self.task} has no channel state of checkpoint {checkpoint_id} to take")
        return result

    def close(self) -> None:
        """Release the task: open results fail. Raises RuntimeError if the writing had ended with an error."""
        if self._closed:
            return
        self._results.clear()
        for results in self._unanswered.values():
            for result in results:
                result.fail(CheckpointException(CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_CLOSING, self.task))
        self._unanswered.clear()
        try:
            self._request(SubtaskReleaseRequest(task=self.task))
        finally:
            self._closed = True

    def _request(self, request: ChannelStateWriteRequest) -> None:
        if self._closed:
            raise RuntimeError(f"{self.task} has closed its channel state writer and cannot ask for {request!r}")
        if self._ended_by is not None:
            raise RuntimeError(f"{request!r} cannot be carried out: {self._ended_by}") from self._ended_by
        try:
            self._give(SubmitChannelState(task=self.task, request=request))
        except Exception as error:
            raise RuntimeError(f"{request!r} cannot be carried out: {error}") from error

    # --- answers of the host --------------------------------------------------------------------------------------

    def written(self, event: ChannelStateWritten) -> None:
        """Handle the answer that the channel state of a checkpoint is stored."""
        result = self._answered(event.checkpoint_id)
        if result is not None:
            result.complete(event)

    def failed(self, event: ChannelStateFailed) -> None:
        """Handle the answer that it is not; if no data will be stored any longer, the next call raises."""
        error = CheckpointException(event.reason, event.error, event.may_pass)
        if event.executor_ended:
            self._ended_by = error
        result = self._answered(event.checkpoint_id)
        if result is not None:
            result.fail(error)

    def _answered(self, checkpoint_id: int) -> ChannelStateWriteResult | None:
        results = self._unanswered.get(checkpoint_id)
        if not results:
            return None
        result = results.pop(0)
        if not results:
            del self._unanswered[checkpoint_id]
        return result

    def __repr__(self) -> str:
        return f"ChannelStateWriter({self.task}, {len(self._unanswered)} open)"

"""An operator's coordinator: the part of an operator that lives beside the JobMaster, once per job.

It hears from the operator's subtasks and speaks to them through gateways, is snapshotted before they are and told what
became of the checkpoint. Like everything below the hosts it is pure: a call in, calls on its context and gateways out.

The life of a coordinator: made with a context; `reset_to_checkpoint` if the job begins from a snapshot; `start`; for
each attempt of a subtask `execution_attempt_ready` with its gateway, then events, then `execution_attempt_failed`
unless it finished. When the whole job goes back to a checkpoint a *new* coordinator is made, reset (to the
checkpoint's bytes, or to none) and started; the old one is closed and whatever it still says is dropped. `close` is
the last call.

Raising in any of these calls fails the job. Follows Flink's `OperatorCoordinator`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

Payload = dict[str, Any]

NO_CHECKPOINT = -1
"""Instead of a checkpoint's id: back to the beginning (`OperatorCoordinator.NO_CHECKPOINT`)."""


class OperatorCoordinatorContext(Protocol):
    """What the JobMaster lends to a coordinator (`OperatorCoordinator.Context`)."""

    @property
    def operator_id(self) -> str:
        """The operator's id."""

    @property
    def name(self) -> str:
        """The operator's name."""

    @property
    def parallelism(self) -> int:
        """How many subtasks the operator has now (`currentParallelism`)."""

    @property
    def splits(self) -> Sequence[Payload]:
        """What the host found to read, for a coordinator with `needs_splits`."""

    def set_is_processing_backlog(self, is_processing: bool) -> None:
        """Say whether the operator works through a backlog: while any does, `interval_during_backlog_ms` holds. False
        until it is called (`SplitEnumeratorContext.setIsProcessingBacklog`).
        """

    def fail_job(self, error: str) -> None:
        """Fail the job; only a coordinator's first call counts."""


class SubtaskGateway(Protocol):
    """A line to one attempt of a subtask (`OperatorCoordinator.SubtaskGateway`)."""

    @property
    def subtask(self) -> int:
        """The subtask's index."""

    @property
    def attempt(self) -> int:
        """The attempt it belongs to; what is sent after the attempt's end is dropped."""

    def send_event(self, payload: Payload) -> None:
        """Send something JSON-like. Events arrive in order; held back while the subtask's side of a checkpoint whose
        coordinator's side is taken has not begun.
        """


class CoordinatorSnapshot(Protocol):
    """A snapshot that a coordinator was asked for: to be completed, or failed, then or later."""

    @property
    def checkpoint_id(self) -> int:
        """The checkpoint."""

    def complete(self, state: bytes | None) -> None:
        """The state as of now: what is sent from here on comes after the checkpoint."""

    def fail(self, error: str) -> None:
        """There will be no snapshot; the checkpoint fails, the job goes on."""


class OperatorCoordinator:
    """Base of all coordinators: every hook does nothing unless it is overridden."""

    needs_splits: ClassVar[bool] = False
    """Whether the host is to enumerate splits before the job begins."""

    def __init__(self, context: OperatorCoordinatorContext) -> None:
        self.context = context

    def start(self) -> None:
        """Begin; the state is there."""

    def handle_event(self, subtask: int, attempt: int, payload: Payload) -> None:
        """A subtask said something (`handleEventFromOperator`)."""

    def checkpoint_coordinator(self, snapshot: CoordinatorSnapshot) -> None:
        """Take a snapshot, now or when the coordinator gets to it."""
        snapshot.complete(None)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """The checkpoint is stored for good.

        Flink: `OperatorCoordinator.notifyCheckpointComplete`, in 1.11 `checkpointComplete`.
        """

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """The checkpoint will not complete."""

    def reset_to_checkpoint(self, checkpoint_id: int, state: bytes | None) -> None:
        """Begin from a checkpoint's state: None where it has none of this operator, and when there is no checkpoint
        at all (`NO_CHECKPOINT`).
        """

    def execution_attempt_ready(self, subtask: int, attempt: int, gateway: SubtaskGateway) -> None:
        """An attempt runs and can be spoken to."""

    def execution_attempt_failed(self, subtask: int, attempt: int, reason: str | None) -> None:
        """An attempt failed for `reason`, or was cancelled (None)."""

    def close(self) -> None:
        """The last call."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.context.name})"

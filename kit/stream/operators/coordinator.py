"""An operator's coordinator: the part of an operator that lives beside the JobMaster, once per job.

It receives events from the operator's subtasks and sends them events through gateways. It is snapshotted before they
are, and notified of the checkpoint's outcome. Like everything below the hosts it is pure: it is called, and calls its
context and gateways.

The life of a coordinator: it is created with a context; `reset_to_checkpoint` if the job starts from a snapshot;
`start`; for each attempt of a subtask `execution_attempt_ready` with its gateway, then events, then
`execution_attempt_failed` unless it finished. When the whole job goes back to a checkpoint, a *new* coordinator is
created, reset (to the checkpoint's bytes, or to none) and started; the old one is closed and ignored from then on. When
only some subtasks go back, the coordinator stays, and `subtask_reset` names each of them after its
`execution_attempt_failed` and before its next `execution_attempt_ready`.
`close` is the last call.

An exception in any of these calls fails the job. Follows Flink's `OperatorCoordinator`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

Payload = dict[str, Any]

NO_CHECKPOINT = -1
"""The id for a reset without a checkpoint (`OperatorCoordinator.NO_CHECKPOINT`)."""


class OperatorCoordinatorContext(Protocol):
    """The services of the JobMaster for a coordinator (`OperatorCoordinator.Context`)."""

    @property
    def operator_id(self) -> str:
        """The operator's id."""

    @property
    def name(self) -> str:
        """The operator's name."""

    @property
    def parallelism(self) -> int:
        """The present number of the operator's subtasks (`currentParallelism`)."""

    @property
    def splits(self) -> Sequence[Payload]:
        """The splits that the host found, for a coordinator with `needs_splits`."""

    def set_is_processing_backlog(self, is_processing: bool) -> None:
        """Report if the operator processes a backlog; False until the first call.

        While any operator does, `interval_during_backlog_ms` applies (`SplitEnumeratorContext.setIsProcessingBacklog`).
        """

    def discover_splits(self, after_ms: int) -> None:
        """Have the host list the data to read after `after_ms`; `splits_discovered` follows. A later call replaces
        one that is not due yet.
        """

    def fail_job(self, error: str) -> None:
        """Fail the job; only a coordinator's first call counts."""


class SubtaskGateway(Protocol):
    """A connection to one attempt of a subtask (`OperatorCoordinator.SubtaskGateway`)."""

    @property
    def subtask(self) -> int:
        """The subtask's index."""

    @property
    def attempt(self) -> int:
        """The attempt it belongs to; events after the attempt's end are dropped."""

    def send_event(self, payload: Payload) -> None:
        """Send a JSON-like event. Events arrive in order.

        They are held back after the coordinator's snapshot for a checkpoint until the subtask's snapshot has begun.
        """


class CoordinatorSnapshot(Protocol):
    """A snapshot requested from a coordinator, to be completed or failed, at once or later."""

    @property
    def checkpoint_id(self) -> int:
        """The checkpoint."""

    def complete(self, state: bytes | None) -> None:
        """Complete with the present state: events sent from now on come after the checkpoint."""

    def fail(self, error: str) -> None:
        """Fail the snapshot and the checkpoint; the job continues."""


class OperatorCoordinator:
    """The base of all coordinators: every hook does nothing unless it is overridden."""

    needs_splits: ClassVar[bool] = False
    """True if the host must enumerate splits before the job starts."""

    def __init__(self, context: OperatorCoordinatorContext) -> None:
        self.context = context

    def start(self) -> None:
        """Start; the state has been restored."""

    def handle_event(self, subtask: int, attempt: int, payload: Payload) -> None:
        """Handle an event of a subtask (`handleEventFromOperator`)."""

    def splits_discovered(self, splits: Sequence[Payload]) -> None:
        """The host has listed the data to read, as `discover_splits` asked."""

    def checkpoint_coordinator(self, snapshot: CoordinatorSnapshot) -> None:
        """Take a snapshot, now or later."""
        snapshot.complete(None)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Handle the completion of a checkpoint.

        Flink: `OperatorCoordinator.notifyCheckpointComplete`, in 1.11 `checkpointComplete`.
        """

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Handle the abort of a checkpoint."""

    def reset_to_checkpoint(self, checkpoint_id: int, state: bytes | None) -> None:
        """Restore from a checkpoint's state.

        `state` is None if the checkpoint has none of this operator, and if there is no checkpoint at all
        (`NO_CHECKPOINT`).
        """

    def subtask_reset(self, subtask: int, checkpoint_id: int) -> None:
        """Handle a subtask that goes back to this checkpoint (`NO_CHECKPOINT`: to its beginning); the others keep
        running.

        What was sent to the subtask since then is lost, and the coordinator must do it again.

        Flink: `OperatorCoordinator.subtaskReset`.
        """

    def execution_attempt_ready(self, subtask: int, attempt: int, gateway: SubtaskGateway) -> None:
        """Handle an attempt that runs and can receive events."""

    def execution_attempt_failed(self, subtask: int, attempt: int, reason: str | None) -> None:
        """Handle an attempt that failed for `reason`, or was cancelled (None)."""

    def close(self) -> None:
        """Close; this is the last call."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.context.name})"

"""The life of a checkpoint from the moment it has an id, as a table.

The first four states are the steps until its tasks are triggered (`kit.machines.coordinator.triggering`), then acks are
collected (`acknowledging`), then it is written and stored (`completing`). Whoever aborts it, it ends in the ledger
(`kit.machines.coordinator.ledger`).
"""

from __future__ import annotations

from enum import Enum

from kit.core.protocol.transitions import Transitions


class CheckpointState(Enum):
    """Where a checkpoint stands."""

    LOCATING = "LOCATING"
    """The host makes its directory."""
    COORDINATORS = "COORDINATORS"
    """Operator coordinators take their snapshots."""
    HOOKS = "HOOKS"
    """Master hooks are called."""
    TRIGGERING = "TRIGGERING"
    """The tasks are next; those that are about to finish are waited for."""
    COLLECTING = "COLLECTING"
    """The tasks have been triggered and acknowledge."""
    ACKNOWLEDGED = "ACKNOWLEDGED"
    """All have; it waits for its turn to be written."""
    WRITING = "WRITING"
    """The host writes `_metadata`."""
    STORING = "STORING"
    """The metadata is written and the store is told: the checkpoint will soon be complete, or not, and nobody can abort
    it.
    """
    COMPLETED = "COMPLETED"
    ABORTED = "ABORTED"

    @property
    def is_triggering(self) -> bool:
        """Whether the checkpoint is on its way to the tasks."""
        return self in _TRIGGERING

    @property
    def is_completing(self) -> bool:
        """Whether everybody has acked, and it is not yet known whether the checkpoint is complete."""
        return self in _COMPLETING

    @property
    def is_disposed(self) -> bool:
        """Whether nothing is acknowledged any more, and nothing can abort it."""
        return self in _DISPOSED


class CheckpointEvent(Enum):
    """What happens to a checkpoint."""

    LOCATED = "its directory is made"
    COORDINATORS_ACKED = "the last operator coordinator acked"
    HOOKS_ACKED = "the last master hook acked"
    TRIGGERED = "its tasks are triggered"
    TASKS_ACKED = "the last task acked"
    FINALIZED = "its metadata is put together"
    WRITTEN = "its metadata is written"
    STORED = "it is stored"
    NOT_STORED = "it cannot be stored"
    ABORT = "it is aborted"


_TRIGGERING = frozenset(
    {CheckpointState.LOCATING, CheckpointState.COORDINATORS, CheckpointState.HOOKS, CheckpointState.TRIGGERING}
)
_COMPLETING = frozenset({CheckpointState.ACKNOWLEDGED, CheckpointState.WRITING, CheckpointState.STORING})
_DISPOSED = frozenset({CheckpointState.STORING, CheckpointState.COMPLETED, CheckpointState.ABORTED})

TRANSITIONS = Transitions(
    "a checkpoint",
    CheckpointState.LOCATING,
    {
        CheckpointState.LOCATING: {
            CheckpointEvent.LOCATED: CheckpointState.COORDINATORS,
            CheckpointEvent.ABORT: CheckpointState.ABORTED,
        },
        CheckpointState.COORDINATORS: {
            CheckpointEvent.COORDINATORS_ACKED: CheckpointState.HOOKS,
            CheckpointEvent.ABORT: CheckpointState.ABORTED,
        },
        CheckpointState.HOOKS: {
            CheckpointEvent.HOOKS_ACKED: CheckpointState.TRIGGERING,
            CheckpointEvent.ABORT: CheckpointState.ABORTED,
        },
        CheckpointState.TRIGGERING: {
            CheckpointEvent.TRIGGERED: CheckpointState.COLLECTING,
            CheckpointEvent.ABORT: CheckpointState.ABORTED,
        },
        CheckpointState.COLLECTING: {
            CheckpointEvent.TASKS_ACKED: CheckpointState.ACKNOWLEDGED,
            CheckpointEvent.ABORT: CheckpointState.ABORTED,
        },
        CheckpointState.ACKNOWLEDGED: {
            CheckpointEvent.FINALIZED: CheckpointState.WRITING,
            CheckpointEvent.ABORT: CheckpointState.ABORTED,
        },
        CheckpointState.WRITING: {
            CheckpointEvent.WRITTEN: CheckpointState.STORING,
            CheckpointEvent.ABORT: CheckpointState.ABORTED,
        },
        CheckpointState.STORING: {
            CheckpointEvent.STORED: CheckpointState.COMPLETED,
            CheckpointEvent.NOT_STORED: CheckpointState.ABORTED,
        },
        CheckpointState.COMPLETED: {},
        CheckpointState.ABORTED: {},
    },
)

"""The life of a checkpoint from the moment it has an id, as a table.

The first four states are the steps until its tasks are triggered (`kit.machines.coordinator.triggering`). Then
acknowledgements are collected (`acknowledging`), and finally it is written and stored (`completing`). Every abort goes
through the ledger (`kit.machines.coordinator.ledger`).
"""

from __future__ import annotations

from enum import Enum

from kit.core.protocol.transitions import Transitions


class CheckpointState(Enum):
    """The state of a checkpoint."""

    LOCATING = "LOCATING"
    """The host creates its directory."""
    COORDINATORS = "COORDINATORS"
    """Operator coordinators take their snapshots."""
    HOOKS = "HOOKS"
    """Master hooks are called."""
    TRIGGERING = "TRIGGERING"
    """The tasks are triggered next; those that are about to finish are awaited first."""
    COLLECTING = "COLLECTING"
    """The tasks have been triggered and acknowledge."""
    ACKNOWLEDGED = "ACKNOWLEDGED"
    """All have acknowledged; it waits for its turn to be written."""
    WRITING = "WRITING"
    """The host writes `_metadata`."""
    STORING = "STORING"
    """The metadata is written and is being stored: the checkpoint can no longer be aborted."""
    COMPLETED = "COMPLETED"
    ABORTED = "ABORTED"

    @property
    def is_triggering(self) -> bool:
        """True if the checkpoint's tasks have not been triggered yet."""
        return self in _TRIGGERING

    @property
    def is_completing(self) -> bool:
        """True if everything is acknowledged, and the checkpoint is not yet known to be complete."""
        return self in _COMPLETING

    @property
    def is_disposed(self) -> bool:
        """True if no acknowledgement counts any longer, and nothing can abort it."""
        return self in _DISPOSED


class CheckpointEvent(Enum):
    """The events in the life of a checkpoint."""

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

_IS_ABORTED = {CheckpointEvent.ABORT: CheckpointState.ABORTED}

TRANSITIONS = Transitions(
    "a checkpoint",
    CheckpointState.LOCATING,
    {
        CheckpointState.LOCATING: {CheckpointEvent.LOCATED: CheckpointState.COORDINATORS, **_IS_ABORTED},
        CheckpointState.COORDINATORS: {CheckpointEvent.COORDINATORS_ACKED: CheckpointState.HOOKS, **_IS_ABORTED},
        CheckpointState.HOOKS: {CheckpointEvent.HOOKS_ACKED: CheckpointState.TRIGGERING, **_IS_ABORTED},
        CheckpointState.TRIGGERING: {CheckpointEvent.TRIGGERED: CheckpointState.COLLECTING, **_IS_ABORTED},
        CheckpointState.COLLECTING: {CheckpointEvent.TASKS_ACKED: CheckpointState.ACKNOWLEDGED, **_IS_ABORTED},
        CheckpointState.ACKNOWLEDGED: {CheckpointEvent.FINALIZED: CheckpointState.WRITING, **_IS_ABORTED},
        CheckpointState.WRITING: {CheckpointEvent.WRITTEN: CheckpointState.STORING, **_IS_ABORTED},
        CheckpointState.STORING: {
            CheckpointEvent.STORED: CheckpointState.COMPLETED,
            CheckpointEvent.NOT_STORED: CheckpointState.ABORTED,
        },
        CheckpointState.COMPLETED: {},
        CheckpointState.ABORTED: {},
    },
)

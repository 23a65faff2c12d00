"""Errors of a durable store, independent of where it keeps its records."""

from __future__ import annotations

from kit.core.protocol.reasons import PossibleInconsistentStateError


class StoreError(OSError):
    """The store cannot be reached, or its content is invalid; nothing was changed."""


class InconsistentStoreError(StoreError, PossibleInconsistentStateError):
    """The store cannot be reached, and it is unknown if the change was made."""


class LeadershipLostError(StoreError):
    """Another driver has taken over the job: nothing was read or changed, and this driver must stop."""

"""Errors of a durable store, wherever it keeps its records."""

from __future__ import annotations

from kit.core.protocol.reasons import PossibleInconsistentStateError


class StoreError(OSError):
    """The store cannot be reached, or holds what makes no sense; nothing was changed."""


class InconsistentStoreError(StoreError, PossibleInconsistentStateError):
    """The store cannot be reached, and nobody knows whether the change was made."""


class LeadershipLostError(StoreError):
    """Another driver has taken over the job: nothing was read or changed, and this driver must stop."""

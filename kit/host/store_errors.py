"""What goes wrong with a durable store, wherever it keeps its records."""

from __future__ import annotations


class StoreError(OSError):
    """The store cannot be reached, or holds what makes no sense; nothing was changed."""


class InconsistentStoreError(StoreError):
    """Nobody knows whether the change was made (Flink's `PossibleInconsistentStateException`)."""

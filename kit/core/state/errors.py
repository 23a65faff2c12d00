"""Errors about state. Each message says what was found, what was expected and what to do."""

from __future__ import annotations


class StateError(Exception):
    """Any error of keyed or operator state, or of the storage below it."""


class StateDescriptorError(StateError):
    """A descriptor that is invalid, or contradicts the one with which its state was registered or stored."""


class StateTypeError(StateError, TypeError):
    """A key, namespace or value that does not fit the Arrow type of its state."""


class StateOverflowError(StateError, OverflowError):
    """A sum that its Arrow type cannot hold."""


class StateRestoreError(StateError):
    """State that cannot be read back."""


class StorageError(StateError, OSError):
    """The checkpoint storage cannot be read or written."""


class StateLostError(StorageError):
    """A file of a checkpoint that is missing, or shorter than it was written: no retry will read it."""


class SavepointNotFoundError(StorageError, FileNotFoundError):
    """A path without a checkpoint or savepoint."""


class CheckpointError(StateError, ValueError):
    """A checkpoint, or a file of it, that cannot be opened or decoded."""

"""What can go wrong with state. Each message says what was found, what was expected and what to do."""

from __future__ import annotations


class StateError(Exception):
    """Any error of keyed or operator state, or of the storage below it."""


class StateDescriptorError(StateError):
    """A descriptor that makes no sense, or contradicts the one its state was registered or stored with."""


class StateTypeError(StateError, TypeError):
    """A key, namespace or value that does not fit the Arrow type of its state."""


class StateOverflowError(StateError, OverflowError):
    """A sum that its Arrow type cannot hold."""


class StateRestoreError(StateError):
    """State that was written cannot be read back."""


class StorageError(StateError, OSError):
    """The checkpoint storage cannot be read or written."""


class SavepointNotFoundError(StorageError, FileNotFoundError):
    """No checkpoint or savepoint where one was looked for."""

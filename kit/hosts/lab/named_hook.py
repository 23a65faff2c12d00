"""Master hooks of ready and random jobs. Each checks that it gets its own state back, and not another's or none."""

from __future__ import annotations

from collections.abc import Sequence

NAMES = ("log", "LOG", "Log")
"""Names that differ in case only."""


class NamedHook:
    """A master hook whose state is its name and the number of the checkpoint."""

    version = 1

    def __init__(self, identifier: str) -> None:
        self.identifier = identifier
        self._has_begun = False
        """True once the hook was reset or restored."""

    @property
    def serializer(self) -> NamedHook:
        """The hook itself."""
        return self

    def serialize(self, value: str) -> bytes:
        """Return the state as bytes."""
        return value.encode()

    def deserialize(self, version: int, data: bytes) -> str:
        """Return the state."""
        return data.decode()

    def trigger_checkpoint(self, checkpoint_id: int, timestamp_ms: int) -> str:
        """Return its state. Raises RuntimeError if the hook was neither reset nor restored."""
        if not self._has_begun:
            raise RuntimeError(f"master hook {self.identifier!r} was neither reset nor restored")
        return self.state_of(checkpoint_id)

    def state_of(self, checkpoint_id: int) -> str:
        """Return the state for a checkpoint."""
        return f"{self.identifier} at {checkpoint_id}"

    def restore_checkpoint(self, checkpoint_id: int, value: str | None) -> None:
        """Check the state. Raises ValueError for that of another hook or checkpoint, or for none."""
        self._has_begun = True
        mine = self.state_of(checkpoint_id)
        if value != mine:
            raise ValueError(f"master hook {self.identifier!r} was given {value!r}, but should be given {mine!r}")

    def reset(self) -> None:
        """Start without state."""
        self._has_begun = True

    def close(self) -> None:
        """Do nothing: the hook holds no resources."""


def named_hooks(number: int) -> Sequence[NamedHook]:
    """Return this number of hooks, with names that differ in case only."""
    return [NamedHook(name) for name in NAMES[:number]]

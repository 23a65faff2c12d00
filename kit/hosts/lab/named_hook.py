"""Master hooks of a swarm's random jobs: each is given its own state back, or says whose it was given, or that it was
given none.
"""

from __future__ import annotations

from collections.abc import Sequence

NAMES = ("log", "LOG", "Log")
"""They differ in case only."""


class NamedHook:
    """A master hook whose state is its name and the number of the checkpoint."""

    version = 1

    def __init__(self, identifier: str) -> None:
        self.identifier = identifier
        self._has_begun = False
        """True once the hook was reset or restored."""

    @property
    def serializer(self) -> NamedHook:
        """It is its own."""
        return self

    def serialize(self, value: str) -> bytes:
        """The state as bytes."""
        return value.encode()

    def deserialize(self, version: int, data: bytes) -> str:
        """The state again."""
        return data.decode()

    def trigger_checkpoint(self, checkpoint_id: int, timestamp_ms: int) -> str:
        """Give its state; RuntimeError before the hook was reset or restored."""
        if not self._has_begun:
            raise RuntimeError(f"master hook {self.identifier!r} was neither reset nor restored")
        return self._state_of(checkpoint_id)

    def _state_of(self, checkpoint_id: int) -> str:
        return f"{self.identifier} at {checkpoint_id}"

    def restore_checkpoint(self, checkpoint_id: int, value: str | None) -> None:
        """Check the state that it is given; ValueError for that of another hook or checkpoint, or for none."""
        self._has_begun = True
        mine = self._state_of(checkpoint_id)
        if value != mine:
            raise ValueError(f"master hook {self.identifier!r} was given {value!r}, but should be given {mine!r}")

    def reset(self) -> None:
        """Begin from nothing."""
        self._has_begun = True

    def close(self) -> None:
        """Do nothing: it holds nothing open."""


def named_hooks(number: int) -> Sequence[NamedHook]:
    """As many hooks, with names that differ in case only."""
    return [NamedHook(name) for name in NAMES[:number]]

"""The past of a lab, as values that another lab can repeat: `lab.past`."""

from __future__ import annotations

from typing import Any

from kit.core.protocol.words import ProtocolMessage
from kit.hosts.lab.recordings.following import FollowingWorld
from kit.hosts.lab.recordings.recording import Agreement
from kit.hosts.lab.world.actions import Action


class Past:
    """The steps that led a lab to where it is."""

    def __init__(self, lab: Any) -> None:
        self._lab = lab

    @property
    def actions(self) -> tuple[Action | ProtocolMessage, ...]:
        """All steps so far; `lab.replay` repeats them in another lab of the same job and seed."""
        return tuple(self._lab._done)

    @property
    def last_action(self) -> Action | ProtocolMessage:
        """The last step."""
        return self._lab._done[-1]

    @property
    def seed(self) -> int:
        """The seed of all random choices."""
        return self._lab._seed

    def position_of(self, records: int) -> int:
        """Return the step after which the trace had this many records."""
        return self._lab._keyframes.position_of(records, len(self._lab._done))

    @property
    def agreement(self) -> Agreement | None:
        """The agreement with the recording that this lab follows; None if it follows none."""
        world = self._lab._world
        return world.agreement if isinstance(world, FollowingWorld) else None

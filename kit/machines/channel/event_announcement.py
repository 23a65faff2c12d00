"""The announcement of a barrier further back in the same queue that may still turn unaligned."""

from __future__ import annotations

from dataclasses import dataclass

from kit.core.protocol.elements import CheckpointBarrier


@dataclass(frozen=True, slots=True)
class EventAnnouncement:
    """An announcement that `barrier` waits as element `sequence_number` of its channel (`EventAnnouncement`).

    The receiving channel creates it and puts it in front of its queue; it never crosses the network.
    """

    barrier: CheckpointBarrier
    sequence_number: int

    def __repr__(self) -> str:
        return f"EventAnnouncement({self.barrier!r}, number {self.sequence_number})"

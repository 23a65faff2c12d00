"""News that a barrier which may yet turn unaligned is further back in the same queue."""

from __future__ import annotations

from dataclasses import dataclass

from kit.core.protocol.elements import CheckpointBarrier


@dataclass(frozen=True, slots=True)
class EventAnnouncement:
    """`barrier` has arrived as element `sequence_number` of its channel and waits for its turn (`EventAnnouncement`).

    The receiving channel makes it and puts it in front of its queue; it never travels.
    """

    barrier: CheckpointBarrier
    sequence_number: int

    def __repr__(self) -> str:
        return f"EventAnnouncement({self.barrier!r}, number {self.sequence_number})"

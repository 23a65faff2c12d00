"""The rules for when a driver counts the slots, and what it reports to the JobMaster.

The JobMaster of a reactive job receives every change as long as the job runs. Any other job needs all slots that it
requests: its JobMaster is notified if there are too few slots after an epoch, and from then on until the next epoch is
deployed. On a cluster the driver also counts slots while such a job runs, because counting warms up
new slots (`kit.hosts.spark.driver.warm_slots`).
"""

from __future__ import annotations

from collections.abc import Callable

from kit.core.protocol.events import SlotsChanged

EVERY_MS = 1_000
WAITING_EVERY_MS = 100
"""The interval between two epochs, when the job may be waiting for slots."""


class SlotWatch:
    """The knowledge of one job's JobMaster about its slots."""

    def __init__(self, *, reactive: bool) -> None:
        self.count: Callable[[], int | None] = lambda: None
        """A function that returns the number of slots for the job; None if unknown."""
        self.always = reactive
        """True if slots are counted while the job runs."""
        self.reactive = reactive
        self._reported: int | None = None

    def news(self, least: int, *, deployed: bool) -> SlotsChanged | None:
        """Return the event for the JobMaster, if any, of a job that needs `least` slots and may be deployed on them."""
        slots = self.count()
        is_news = self.reactive or (
            not deployed and (self._reported is not None or (slots is not None and slots < least))
        )
        if slots is None or slots == self._reported or not is_news:
            return None
        self._reported = slots
        return SlotsChanged(slots=slots)

    def again_ms(self, *, deployed: bool) -> int | None:
        """Return the time until the next check; None if there is none before the epoch is over."""
        if not deployed:
            return WAITING_EVERY_MS
        return EVERY_MS if self.always else None

    def deployed(self) -> None:
        """Note that an epoch begins: without `reactive`, the number of slots is irrelevant until it is over."""
        if not self.reactive:
            self._reported = None

    def __repr__(self) -> str:
        return f"SlotWatch({self._reported})"

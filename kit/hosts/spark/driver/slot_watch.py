"""When a driver looks how many slots there are, and what it tells the JobMaster of them.

A reactive job is told of every change, as long as it lives. Any other needs all slots that it wants: it is told when
an epoch is over and there are too few for the next one, and from then on until that is deployed. On a cluster the
driver looks for its sake too while it runs, since whoever counts warms up what is new
(`kit.hosts.spark.driver.warm_slots`).
"""

from __future__ import annotations

from collections.abc import Callable

from kit.core.protocol.events import SlotsChanged

EVERY_MS = 1_000
WAITING_EVERY_MS = 100
"""Between two epochs the job may stand still for want of slots."""


class SlotWatch:
    """What the JobMaster of one job knows of its slots."""

    def __init__(self, *, reactive: bool) -> None:
        self.count: Callable[[], int | None] = lambda: None
        """How many slots there are for the job; None when nobody knows."""
        self.always = reactive
        """Whether to look while the job runs."""
        self.reactive = reactive
        self._told: int | None = None

    def news(self, least: int, *, deployed: bool) -> SlotsChanged | None:
        """What the JobMaster is to hear now, of a job that needs `least` slots and may be deployed on them."""
        slots = self.count()
        is_news = self.reactive or (not deployed and (self._told is not None or (slots is not None and slots < least)))
        if slots is None or slots == self._told or not is_news:
            return None
        self._told = slots
        return SlotsChanged(slots=slots)

    def again_ms(self, *, deployed: bool) -> int | None:
        """After how long to look again; None: not before the epoch is over."""
        if not deployed:
            return WAITING_EVERY_MS
        return EVERY_MS if self.always else None

    def deployed(self) -> None:
        """An epoch begins: without `reactive` the number is of no interest until it is over."""
        if not self.reactive:
            self._told = None

    def __repr__(self) -> str:
        return f"SlotWatch({self._told})"

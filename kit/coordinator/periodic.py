"""The timer behind periodic checkpoints, and the two intervals it may go by.

While any source reports that it works off a backlog, `interval_during_backlog_ms` holds instead of `interval_ms`. The
trigger that is set when a backlog begins stays as it is; those after it keep the longer distance. When the backlog is
over the next one comes an interval later, or sooner where it was set so. With "never" for the interval nothing is
triggered during a backlog.

Follows `ScheduledTrigger` and `setIsProcessingBacklog` of Flink's `CheckpointCoordinator`. There the first trigger
comes at random between pause and interval, so that jobs do not move in step, here after the interval; and a trigger
that was set before is carried out there even where the backlog allows none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.graph.settings import DISABLED_CHECKPOINT_INTERVAL_MS
from kit.protocol.commands import CancelTimer, ScheduleTimer

if TYPE_CHECKING:
    from kit.coordinator.coordinator import CheckpointCoordinator

PERIODIC_TIMER = "checkpoint-trigger"
"""The name of the timer (Flink's `ScheduledTrigger`)."""


class PeriodicTrigger:
    """The part of the coordinator that asks for a checkpoint whenever the interval is over."""

    def __init__(self, coordinator: CheckpointCoordinator) -> None:
        self._coordinator = coordinator
        self._due_ms: int | None = None
        self._backlogs: set[str] = set()

    @property
    def interval_ms(self) -> int:
        """The interval at present, DISABLED_CHECKPOINT_INTERVAL_MS when there are to be no checkpoints."""
        config = self._coordinator.config
        return config.interval_during_backlog_ms if self._backlogs else config.interval_ms

    def start(self) -> None:
        """Set the first trigger, an interval from now."""
        if not self._is_disabled:
            self._schedule(self._coordinator.context.at + self._coordinator.config.interval_ms)

    def cancel(self) -> None:
        """There is no trigger any more."""
        if self._due_ms is not None:
            self._due_ms = None
            self._coordinator.context.emit(CancelTimer(timer=PERIODIC_TIMER))

    def reschedule(self, now_ms: int, delay_ms: int) -> None:
        """Set the trigger anew: a request came too soon after the last completion."""
        self._schedule(now_ms + delay_ms)

    def on_timer(self) -> None:
        """The timer fired; one that was set before the present one is ignored."""
        due_ms = self._due_ms
        if due_ms is None or self._coordinator.context.at < due_ms:
            return
        if self._is_disabled:
            self._due_ms = None
            return
        self._schedule(due_ms + self.interval_ms)
        self._coordinator.request_periodic()

    def set_is_processing_backlog(self, operator_id: str, is_processing: bool) -> None:
        """A source works off a backlog, or has done so: the last word of each counts."""
        (self._backlogs.add if is_processing else self._backlogs.discard)(operator_id)
        if not self._coordinator.is_periodic_scheduling or self._is_disabled:
            return
        due_ms = self._coordinator.context.at + self.interval_ms
        if self._due_ms is None or due_ms < self._due_ms:
            self._schedule(due_ms)

    @property
    def _is_disabled(self) -> bool:
        return self.interval_ms == DISABLED_CHECKPOINT_INTERVAL_MS

    def _schedule(self, due_ms: int) -> None:
        owner = self._coordinator
        self._due_ms = due_ms
        owner.context.emit(ScheduleTimer(timer=PERIODIC_TIMER, due_ms=max(due_ms, owner.context.at)))
        owner.note("PeriodicTriggerScheduled", due_ms=due_ms)

    def __repr__(self) -> str:
        backlog = f", backlog of {len(self._backlogs)} sources" * bool(self._backlogs)
        return f"PeriodicTrigger({'not set' if self._due_ms is None else f'due at {self._due_ms} ms'}{backlog})"

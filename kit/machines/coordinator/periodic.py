"""The timer of periodic checkpoints, and its two intervals.

While any source reports that it processes a backlog, `interval_during_backlog_ms` applies instead of `interval_ms`. A
trigger that is set when a backlog begins is kept; those after it use the longer interval. After the backlog the next
one comes an interval later, or earlier if it was already set so. If the interval is "never", nothing is triggered
during a backlog.

Follows `ScheduledTrigger` and `setIsProcessingBacklog` of Flink's `CheckpointCoordinator`. There the first trigger
comes at random between pause and interval, so that jobs do not run in lockstep; here it comes after the interval. Flink
also carries out a trigger that was set before, even if the backlog allows none. 1.11 has one interval, and its timer
runs at a fixed rate.
"""

from __future__ import annotations

from collections.abc import Callable

from kit.core.protocol.commands import CancelTimer, ScheduleTimer
from kit.core.protocol.notes import PeriodicTriggerScheduled
from kit.machines.coordinator.context import CoordinatorContext
from kit.stream.settings.job_settings import DISABLED_CHECKPOINT_INTERVAL_MS, CheckpointCoordinatorConfiguration

PERIODIC_TIMER = "checkpoint-trigger"
"""The name of the timer (Flink's `ScheduledTrigger`)."""


class PeriodicTrigger:
    """The part of the coordinator that calls `ask` for a checkpoint after each interval.

    Follows Flink's `ScheduledTrigger`.
    """

    def __init__(
        self, config: CheckpointCoordinatorConfiguration, context: CoordinatorContext, ask: Callable[[], None]
    ) -> None:
        self._config = config
        self._context = context
        self._ask = ask
        self.is_scheduling = False
        """True while periodic checkpoints are enabled."""
        self._due_ms: int | None = None
        self._backlogs: set[str] = set()

    @property
    def interval_ms(self) -> int:
        """The present interval; DISABLED_CHECKPOINT_INTERVAL_MS if there are no checkpoints.

        Flink: `baseInterval`.
        """
        return self._config.interval_during_backlog_ms if self._backlogs else self._config.interval_ms

    def start(self) -> None:
        """Start, with the first trigger an interval from now. Flink: `startCheckpointScheduler`.

        Flink's `getRandomInitDelay` chooses a delay between the minimum pause and the interval; here it is fixed, so
        that a run can be repeated.
        """
        self.is_scheduling = True
        if not self._is_disabled:
            self._schedule(self._context.at + self._config.interval_ms)

    def stop(self) -> None:
        """Cancel the trigger."""
        self.is_scheduling = False
        if self._due_ms is not None:
            self._due_ms = None
            self._context.emit(CancelTimer(timer=PERIODIC_TIMER))

    def reschedule(self, now_ms: int, delay_ms: int) -> None:
        """Set the trigger again, because a request came too soon after a completion. Flink: `rescheduleTrigger`."""
        self._schedule(now_ms + delay_ms)

    def on_timer(self) -> None:
        """Handle the timer.

        It is early if it was set before the present one, or if the clock was turned back since; then the trigger stays
        set.
        """
        due_ms = self._due_ms
        if due_ms is None:
            return
        if self._context.at < due_ms:
            self._context.emit(ScheduleTimer(timer=PERIODIC_TIMER, due_ms=due_ms))
            return
        if self._is_disabled:
            self._due_ms = None
            return
        self._schedule(due_ms + self.interval_ms)
        self._ask()

    def set_is_processing_backlog(self, operator_id: str, is_processing: bool) -> None:
        """Record that a source processes a backlog, or no longer does; the last report of each source counts."""
        (self._backlogs.add if is_processing else self._backlogs.discard)(operator_id)
        if not self.is_scheduling or self._is_disabled:
            return
        due_ms = self._context.at + self.interval_ms
        if self._due_ms is None or due_ms < self._due_ms:
            self._schedule(due_ms)

    @property
    def _is_disabled(self) -> bool:
        return self.interval_ms == DISABLED_CHECKPOINT_INTERVAL_MS

    def _schedule(self, due_ms: int) -> None:
        """Set the timer. Flink: `scheduleTriggerWithDelay`, at a fixed rate."""
        self._due_ms = due_ms
        self._context.emit(ScheduleTimer(timer=PERIODIC_TIMER, due_ms=max(due_ms, self._context.at)))
        rules = {"interval_ms": self.interval_ms, "min_pause_ms": self._config.min_pause_ms}
        self._context.emit(PeriodicTriggerScheduled(due_ms=due_ms, **rules))

    def __repr__(self) -> str:
        backlog = f", backlog of {len(self._backlogs)} sources" * bool(self._backlogs)
        return f"PeriodicTrigger({'not set' if self._due_ms is None else f'due at {self._due_ms} ms'}{backlog})"

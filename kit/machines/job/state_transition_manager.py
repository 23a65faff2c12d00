"""When a running job goes on at another parallelism: the phases between a change and the moment it is acted on.

A *change* is that there are more slots, or fewer, or that the user wants other numbers of subtasks. A *trigger* is a
good moment: a checkpoint has just completed, so that nothing is done twice. Between the two lie

    COOLDOWN       the job was deployed a moment ago: a change is kept in mind
    IDLING         nothing has changed
    STABILIZING    something has: more may follow. A trigger counts if all that is desired is there
    STABILIZED     long enough: a trigger counts if there is enough to run on
    TRANSITIONING  the job is being deployed anew

and a trigger that never comes is made up for: `max_trigger_delay_ms` after the change the manager triggers itself.

It is made anew with each deployment, and is part of the JobMaster: it speaks through its `context`, and time is the
host's. A cooldown in which nothing changes needs no timer. Follows Flink's `DefaultStateTransitionManager`; ASKED, a
user who will not wait for the times, is the kit's own.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from kit.core.protocol.commands import CancelTimer, Note, ScheduleTimer
from kit.core.protocol.transitions import Transitions
from kit.core.protocol.words import Word
from kit.stream.settings.job_settings import RescaleConfig

COOLDOWN_TIMER = "rescale-cooldown"
STABILIZATION_TIMER = "rescale-stabilization"
EVALUATION_TIMER = "rescale-evaluation"
MAX_DELAY_TIMER = "rescale-max-delay"
NEVER_MS = 100 * 365 * 24 * 60 * 60 * 1000
"""A delay this long has no timer."""


class RescalePhase(Enum):
    """How far a rescale has come (Flink's `DefaultStateTransitionManager.Phase`)."""

    COOLDOWN = "COOLDOWN"
    IDLING = "IDLING"
    STABILIZING = "STABILIZING"
    STABILIZED = "STABILIZED"
    TRANSITIONING = "TRANSITIONING"


class RescaleEvent(Enum):
    """What leads from one phase to the next."""

    COOLED_DOWN = "the cooldown is over"
    CHANGED = "slots or wishes change"
    STABLE = "the stabilization time is over"
    ASKED = "the user will not wait"
    DESIRED = "a trigger, all that is desired is there"
    SUFFICIENT = "a trigger, there is enough"
    INSUFFICIENT = "a trigger, there is not enough"


_P, _E = RescalePhase, RescaleEvent
RESCALE_PHASES = Transitions(
    "a rescale",
    _P.COOLDOWN,
    {
        _P.COOLDOWN: {_E.COOLED_DOWN: (_P.IDLING, _P.STABILIZING), _E.ASKED: _P.STABILIZED},
        _P.IDLING: {_E.CHANGED: _P.STABILIZING, _E.ASKED: _P.STABILIZED},
        _P.STABILIZING: {_E.STABLE: _P.STABILIZED, _E.ASKED: _P.STABILIZED, _E.DESIRED: _P.TRANSITIONING},
        _P.STABILIZED: {_E.SUFFICIENT: _P.TRANSITIONING, _E.INSUFFICIENT: _P.IDLING},
        _P.TRANSITIONING: {},
    },
)


class RescaleContext(Protocol):
    """The job, as the manager sees it."""

    @property
    def at(self) -> int:
        """The host's time of the event being handled, in ms."""

    def emit(self, word: Word) -> None:
        """Give a command to the host."""

    def has_desired_resources(self) -> bool:
        """Whether the job would run otherwise than it does, and exactly as wished."""

    def has_sufficient_resources(self) -> bool:
        """Whether the job would run otherwise than it does, on slots that are enough."""


class StateTransitionManager:
    """The phases of one deployment, which began at `context.at`; `max_trigger_delay_ms` is what the settings come to.

    When `phase` is TRANSITIONING it is time, and nothing follows.
    """

    def __init__(self, context: RescaleContext, settings: RescaleConfig, max_trigger_delay_ms: int) -> None:
        self.phase = RescalePhase.COOLDOWN
        self._context = context
        self._settings = settings
        self._max_trigger_delay_ms = max_trigger_delay_ms
        self._cooled_down_ms = context.at + settings.cooldown_ms
        self._first_change_ms: int | None = None
        self._timers: set[str] = set()

    def on_change(self) -> None:
        """There are other slots, or other wishes (`onChange`)."""
        at = self._context.at
        if self.phase is _P.COOLDOWN and at >= self._cooled_down_ms:
            self._enter(_P.IDLING, _E.COOLED_DOWN)
        if self.phase is _P.STABILIZING:
            self._evaluate_later(at)
        elif self.phase in (_P.COOLDOWN, _P.IDLING) and self._context.has_sufficient_resources():
            if self.phase is _P.IDLING:
                self._first_change_ms = at
                self._stabilize(_E.CHANGED)
            elif self._first_change_ms is None:
                self._first_change_ms = at
                self._note()
                self._schedule(COOLDOWN_TIMER, self._cooled_down_ms)

    def on_trigger(self) -> None:
        """It is a good moment: a checkpoint has completed, or too many have failed (`onTrigger`)."""
        if self.phase is _P.STABILIZING and self._context.has_desired_resources():
            self._enter(_P.TRANSITIONING, _E.DESIRED)
        elif self.phase is _P.STABILIZED:
            if self._context.has_sufficient_resources():
                self._enter(_P.TRANSITIONING, _E.SUFFICIENT)
            else:
                self._enter(_P.IDLING, _E.INSUFFICIENT)

    def on_asked(self) -> None:
        """The user will not wait: the next trigger counts. The cooldown and the stabilization time are passed over."""
        if self.phase in (_P.COOLDOWN, _P.IDLING, _P.STABILIZING):
            self._enter(_P.STABILIZED, _E.ASKED)

    def on_timer(self, timer: str) -> bool:
        """Take note of a timer that fired; False for one that is not the manager's, or not awaited any more."""
        if timer not in self._timers:
            return False
        self._timers.discard(timer)
        if timer == COOLDOWN_TIMER:
            self._stabilize(_E.COOLED_DOWN)
        elif timer == STABILIZATION_TIMER:
            self._enter(_P.STABILIZED, _E.STABLE)
            assert self._first_change_ms is not None
            self._schedule(MAX_DELAY_TIMER, self._first_change_ms + self._max_trigger_delay_ms)
        else:
            self.on_trigger()
        return True

    def close(self) -> None:
        """The deployment is over."""
        for timer in sorted(self._timers):
            self._context.emit(CancelTimer(timer=timer))
        self._timers.clear()

    def _stabilize(self, event: RescaleEvent) -> None:
        assert self._first_change_ms is not None
        self._enter(_P.STABILIZING, event)
        self._schedule(STABILIZATION_TIMER, self._first_change_ms + self._settings.stabilization_ms)
        self._evaluate_later(self._first_change_ms)

    def _evaluate_later(self, changed_ms: int) -> None:
        if EVALUATION_TIMER not in self._timers:
            self._schedule(EVALUATION_TIMER, changed_ms + self._max_trigger_delay_ms)

    def _schedule(self, timer: str, due_ms: int) -> None:
        at = self._context.at
        if due_ms - at < NEVER_MS:
            self._timers.add(timer)
            self._context.emit(ScheduleTimer(timer=timer, due_ms=max(at, due_ms)))

    def _enter(self, phase: RescalePhase, event: RescaleEvent) -> None:
        """Timers belong to the phase that set them (`runIfPhase`)."""
        RESCALE_PHASES.check(self, self.phase, phase, event)
        self.phase = phase
        self.close()
        self._note(event.value)

    def _note(self, why: str = _E.CHANGED.value) -> None:
        self._context.emit(Note(kind="RescalePhaseChanged", data={"phase": self.phase.name, "why": why}))

    def __repr__(self) -> str:
        return f"StateTransitionManager({self.phase.name})"

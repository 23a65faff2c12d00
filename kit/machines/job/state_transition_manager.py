"""The phases of a rescale, from a change to the moment at which the running job is redeployed.

A *change* means more slots, fewer slots, or parallelisms that the user requests. A *trigger* is a good moment: a
checkpoint has just completed, so that nothing is processed twice. Between the two are these phases:

    COOLDOWN       the job was deployed a moment ago: a change is only remembered
    IDLING         nothing has changed
    STABILIZING    something has changed, and more may follow: a trigger counts if all desired slots are available
    STABILIZED     long enough: a trigger counts if there are enough slots to run on
    TRANSITIONING  the job is being redeployed

If no trigger comes, the manager triggers itself `max_trigger_delay_ms` after the change.

A new manager is created for each deployment. It is part of the JobMaster: it uses its `context`, and time is the
host's. A cooldown in which nothing changes needs no timer. Follows Flink's `DefaultStateTransitionManager`; ASKED, for
a user who does not want to wait, exists only here.
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar, Protocol

from kit.core.protocol.commands import CancelTimer, ScheduleTimer
from kit.core.protocol.notes import RescalePhaseChanged
from kit.core.protocol.transitions import Transitions
from kit.core.protocol.words import ProtocolMessage
from kit.stream.settings.job_settings import RescaleConfig

COOLDOWN_TIMER = "rescale-cooldown"
STABILIZATION_TIMER = "rescale-stabilization"
EVALUATION_TIMER = "rescale-evaluation"
MAX_DELAY_TIMER = "rescale-max-delay"
NEVER_MS = 100 * 365 * 24 * 60 * 60 * 1000
"""A delay this long has no timer."""


class RescalePhase(Enum):
    """The phase of a rescale (Flink's `DefaultStateTransitionManager.Phase`)."""

    COOLDOWN = "COOLDOWN"
    IDLING = "IDLING"
    STABILIZING = "STABILIZING"
    STABILIZED = "STABILIZED"
    TRANSITIONING = "TRANSITIONING"


class RescaleEvent(Enum):
    """The events that lead from one phase to the next."""

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

    def emit(self, word: ProtocolMessage) -> None:
        """Give a command to the host."""

    def has_desired_resources(self) -> bool:
        """Return True if the job would run exactly as desired, and differently from now."""

    def has_sufficient_resources(self) -> bool:
        """Return True if the job would run on enough slots, and differently from now."""


class StateTransitionManager:
    """The phases of one deployment, which began at `context.at`.

    `max_trigger_delay_ms` is derived from the settings. In the phase TRANSITIONING the job must be redeployed, and
    nothing follows.
    """

    without_effect: ClassVar = frozenset({"_cooled_down_ms"})

    def __init__(self, context: RescaleContext, settings: RescaleConfig, max_trigger_delay_ms: int) -> None:
        self.phase = RescalePhase.COOLDOWN
        self._context = context
        self._settings = settings
        self._max_trigger_delay_ms = max_trigger_delay_ms
        self._cooled_down_ms = context.at + settings.cooldown_ms
        self._first_change_ms: int | None = None
        self._timers: set[str] = set()

    def on_change(self) -> None:
        """Handle a change of slots or of requests (`onChange`)."""
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
        """Handle a good moment: a checkpoint has completed, or too many have failed (`onTrigger`)."""
        if self.phase is _P.STABILIZING and self._context.has_desired_resources():
            self._enter(_P.TRANSITIONING, _E.DESIRED)
        elif self.phase is _P.STABILIZED:
            if self._context.has_sufficient_resources():
                self._enter(_P.TRANSITIONING, _E.SUFFICIENT)
            else:
                self._enter(_P.IDLING, _E.INSUFFICIENT)

    def on_asked(self) -> None:
        """Skip the cooldown and the stabilization time: the next trigger counts."""
        if self.phase in (_P.COOLDOWN, _P.IDLING, _P.STABILIZING):
            self._enter(_P.STABILIZED, _E.ASKED)

    def on_timer(self, timer: str) -> bool:
        """Handle a timer that fired; return False for one that the manager has not set, or no longer awaits."""
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
        """End with the deployment."""
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
        """Enter a phase; timers belong to the phase that set them (`runIfPhase`)."""
        RESCALE_PHASES.check(self, self.phase, phase, event)
        self.phase = phase
        self.close()
        self._note(event.value)

    def _note(self, why: str = _E.CHANGED.value) -> None:
        self._context.emit(RescalePhaseChanged(phase=self.phase.name, why=why))

    def __repr__(self) -> str:
        return f"StateTransitionManager({self.phase.name})"

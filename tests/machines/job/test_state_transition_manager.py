"""The phases of a rescale, compared with the cases in `DefaultStateTransitionManagerTest`."""

from __future__ import annotations

import pytest

from kit.core.protocol.commands import CancelTimer, ScheduleTimer
from kit.core.protocol.words import ProtocolMessage
from kit.machines.job.state_transition_manager import RescalePhase, StateTransitionManager
from kit.stream.settings.job_settings import RescaleConfig

COOLDOWN_MS, STABILIZATION_MS, MAX_DELAY_MS = 100, 50, 200
COOLDOWN, IDLING, STABILIZING, STABILIZED, TRANSITIONING = RescalePhase


class Deployment:
    """A deployment at 0 ms, its clock and its timers; `sufficient` and `desired` say what slots there are."""

    def __init__(self, max_delay_ms: int = MAX_DELAY_MS) -> None:
        self.at = 0
        self.sufficient = self.desired = False
        self.timers: dict[str, int] = {}
        settings = RescaleConfig(cooldown_ms=COOLDOWN_MS, stabilization_ms=STABILIZATION_MS)
        self.manager = StateTransitionManager(self, settings, max_delay_ms)

    def emit(self, word: ProtocolMessage) -> None:
        if isinstance(word, ScheduleTimer):
            self.timers[word.timer] = word.due_ms
        elif isinstance(word, CancelTimer):
            del self.timers[word.timer]

    def has_sufficient_resources(self) -> bool:
        return self.sufficient or self.desired

    def has_desired_resources(self) -> bool:
        return self.desired

    def change(self, *, sufficient: bool = False, desired: bool = False) -> Deployment:
        """Slots or wishes change so that there is this."""
        self.sufficient, self.desired = sufficient, desired
        self.manager.on_change()
        return self

    def trigger(self) -> Deployment:
        self.manager.on_trigger()
        return self

    def to(self, at: int) -> Deployment:
        """Time passes, and timers fire when they are due."""
        while self.timers and min(self.timers.values()) <= at:
            timer = min(self.timers, key=lambda name: (self.timers[name], name))
            self.at = max(self.at, self.timers.pop(timer))
            assert self.manager.on_timer(timer)
        self.at = at
        return self

    @property
    def phase(self) -> RescalePhase:
        return self.manager.phase


def stabilizing() -> Deployment:
    """A deployment long cooled down, in which something changed at 1,000 ms that is enough."""
    return Deployment().to(1_000).change(sufficient=True)


def test_a_trigger_without_a_change_does_nothing() -> None:
    assert Deployment().trigger().phase is COOLDOWN
    idling = stabilizing().to(1_000 + STABILIZATION_MS)
    idling.sufficient = False
    assert idling.trigger().phase is IDLING
    assert idling.trigger().phase is IDLING


def test_a_change_within_the_cooldown_waits_for_its_end() -> None:
    early = Deployment().to(10).change(desired=True).trigger()
    assert early.phase is COOLDOWN
    assert early.to(COOLDOWN_MS - 1).phase is COOLDOWN
    assert early.to(COOLDOWN_MS).phase is STABILIZED, "it changed longer ago than it takes to settle"
    assert early.trigger().phase is TRANSITIONING


def test_a_change_late_in_the_cooldown_still_has_to_settle() -> None:
    late = Deployment().to(90).change(sufficient=True).to(COOLDOWN_MS)
    assert late.phase is STABILIZING
    assert late.to(90 + STABILIZATION_MS).phase is STABILIZED


def test_a_change_that_is_not_enough_changes_nothing() -> None:
    assert Deployment().change().timers == {}
    assert Deployment().to(1_000).change().phase is IDLING


def test_all_that_is_desired_needs_no_stabilization() -> None:
    assert stabilizing().trigger().phase is STABILIZING
    assert stabilizing().change(desired=True).trigger().phase is TRANSITIONING


def test_after_the_stabilization_enough_is_enough() -> None:
    settled = stabilizing().to(1_000 + STABILIZATION_MS)
    assert settled.phase is STABILIZED
    assert settled.trigger().phase is TRANSITIONING
    assert settled.timers == {}


def test_a_change_that_is_taken_back_comes_to_nothing() -> None:
    back = stabilizing().change().to(1_000 + STABILIZATION_MS)
    assert back.trigger().phase is IDLING
    assert back.to(10_000).phase is IDLING


def test_a_change_that_is_taken_back_and_comes_again_counts() -> None:
    again = stabilizing().change().to(1_000 + STABILIZATION_MS).change(sufficient=True)
    assert again.trigger().phase is TRANSITIONING


def test_a_trigger_that_never_comes_is_made_up_for() -> None:
    assert stabilizing().to(1_000 + MAX_DELAY_MS - 1).phase is STABILIZED
    assert stabilizing().to(1_000 + MAX_DELAY_MS).phase is TRANSITIONING


def test_the_longest_delay_may_come_before_the_stabilization() -> None:
    quick = Deployment(max_delay_ms=20).to(1_000).change(sufficient=True)
    assert quick.to(1_020).phase is STABILIZING, "not all is there that is desired"
    assert quick.change(desired=True).to(1_039).phase is STABILIZING
    assert quick.to(1_040).phase is TRANSITIONING


@pytest.mark.parametrize("at", [0, 1_000])
def test_a_user_who_does_not_wait_needs_a_trigger_only(at: int) -> None:
    asked = Deployment().to(at)
    asked.sufficient = True
    asked.manager.on_asked()
    assert asked.phase is STABILIZED
    assert asked.trigger().phase is TRANSITIONING


def test_nothing_follows_a_transition() -> None:
    over = stabilizing().change(desired=True).trigger()
    assert over.change(desired=True).trigger().to(10_000).phase is TRANSITIONING
    assert not over.manager.on_timer("rescale-stabilization")

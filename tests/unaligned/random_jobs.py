"""Random jobs, and what may happen to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from kit.hosts.lab.lab import LabError
from kit.hosts.lab.world.actions import FireTimer, LetTimePass
from kit.machines.job.status import JobStatus
from tests.unaligned.driver import EVERYTHING, Driver
from tests.unaligned.jobs import MODES, Plan
from tests.unaligned.topologies import TOPOLOGIES

WIDEST = 3
"""The largest parallelism of a random job's operators by default; some have twice that."""

PLANS = st.builds(
    Plan,
    topology=st.sampled_from(sorted(TOPOLOGIES)),
    parallelism=st.integers(1, WIDEST),
    splits=st.integers(1, 4),
    rows=st.integers(4, 16),
    batch_rows=st.integers(1, 3),
    credits=st.integers(1, 3),
    buffer_bytes=st.sampled_from([60, 200, 1 << 20]),
    chaining=st.booleans(),
    mode=st.sampled_from(sorted(MODES)),
)

EXACTLY_ONCE = [mode for mode in MODES if mode != "at_least_once"]

SETTINGS = st.fixed_dictionaries(
    {
        "interval_ms": st.sampled_from([None, 60, 200, 500]),
        "max_concurrent": st.integers(1, 3),
        "max_retained": st.integers(1, 3),
        "max_subtasks_per_channel_state_file": st.integers(1, 5),
        "memory_threshold_bytes": st.sampled_from([0, 0, 20_480]),
        "local_recovery": st.booleans(),
    }
)

SLOW_TASKS = st.lists(
    st.sampled_from(
        ["source", "global", "upscale", "keyby", "keyed", "failing-map", "joined", "min", "verified", "sink"]
    ),
    max_size=3,
    unique=True,
)

WHAT = st.sampled_from(
    [
        ("checkpoint", 0),
        ("savepoint", 0),
        *(("let time pass", timers) for timers in (1, 2, 4)),
        *(("kill", worker) for worker in range(WIDEST)),
        *(("break the disk", files) for files in range(0, 12, 3)),
        ("hold the sink", 0),
        ("let the sink go on", 0),
        *(("cancel and rescale", parallelism) for parallelism in range(1, WIDEST + 1)),
        *(("stop and rescale", parallelism) for parallelism in range(1, WIDEST + 1)),
    ]
)
DEEDS = st.lists(st.tuples(st.integers(1, 20), WHAT), min_size=2, max_size=8)
"""How long after the one before, in steps of each task, what happens."""


@dataclass(frozen=True)
class Story:
    """A job, how it is driven, and what happens to it."""

    plan: Plan
    slow: list[str]
    deeds: list[tuple[int, tuple[str, int]]]
    settings: dict[str, Any]
    burst: int
    seed: int

    def play(self) -> Driver:
        """Take all actions; returns the last run, which has not ended if no action ended it."""
        settings = settings_for(self.plan, self.settings)
        driver = Driver(self.plan, self.seed, slow=self.slow, burst=self.burst, **settings)
        for wait, (deed, argument) in self.deeds:
            driver.advance(wait * len(driver.lab.look.master.graph.tasks))
            if not driver.lab.ended:
                driver = DEEDS_BY_NAME[deed](driver, argument, self.settings)
        return driver


STORIES = st.builds(
    Story,
    plan=PLANS,
    slow=SLOW_TASKS,
    deeds=DEEDS,
    settings=SETTINGS,
    burst=st.sampled_from([3, EVERYTHING]),
    seed=st.integers(0, 2**32 - 1),
)


def settings_for(plan: Plan, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings that a job may have: unaligned checkpoints come one at a time."""
    return settings | {"max_concurrent": 1} if plan.unaligned else settings


# ---- the actions ------------------------------------------------------------------------------------------------


def _checkpoint(driver: Driver, _: int, settings: dict[str, Any]) -> Driver:
    driver.lab.trigger_checkpoint()
    return driver


def _savepoint(driver: Driver, _: int, settings: dict[str, Any]) -> Driver:
    driver.lab.savepoint()
    return driver


def _let_time_pass(driver: Driver, timers: int, settings: dict[str, Any]) -> Driver:
    """The next timers are due before anything else happens; where no checkpoint is periodic, one that is pending
    expires.
    """
    for _ in range(timers):
        for action in driver.enabled():
            if isinstance(action, LetTimePass):
                driver.perform(action)
                break
        for action in driver.enabled():
            if isinstance(action, FireTimer) and driver._is_possible(action):
                driver.perform(action)
    return driver


def _kill(driver: Driver, worker: int, settings: dict[str, Any]) -> Driver:
    driver.kill(worker)
    return driver


def _break_the_disk(driver: Driver, files: int, settings: dict[str, Any]) -> Driver:
    driver.disk.breaks_in = files
    return driver


def _hold_the_sink(driver: Driver, _: int, settings: dict[str, Any]) -> Driver:
    driver.held = lambda task: task.startswith(("verified", "sink"))
    return driver


def _let_go_on(driver: Driver, _: int, settings: dict[str, Any]) -> Driver:
    driver.held = lambda task: False
    return driver


def _cancel_and_rescale(driver: Driver, parallelism: int, settings: dict[str, Any]) -> Driver:
    driver.held = lambda task: False
    if driver.newest() is None or driver.lab.look.master._is_over:
        return driver
    driver.cancel()
    return _rescaled(driver, parallelism, driver.newest(), settings)


def _stop_and_rescale(driver: Driver, parallelism: int, settings: dict[str, Any]) -> Driver:
    driver.held = lambda task: False
    request = driver.lab.stop()
    try:
        driver.run_until(lambda: driver.lab.ended or driver.lab.look.answer(request) is not None)
        path = driver.lab.look.answer(request)
    except LabError:
        return driver
    if path is None:
        return driver
    driver.settle()
    assert driver.lab.look.master.status is JobStatus.FINISHED
    driver.check_nothing_left()
    return _rescaled(driver, parallelism, path, settings)


def _rescaled(driver: Driver, parallelism: int, path: str | None, settings: dict[str, Any]) -> Driver:
    """Resume the job, perhaps with another checkpointing mode of the same guarantee."""
    mode = driver.random.choice(EXACTLY_ONCE) if driver.plan.exactly_once else driver.plan.mode
    plan = driver.plan.rescaled(parallelism, mode)
    return driver.rescaled(parallelism, path, mode, **settings_for(plan, settings))


DEEDS_BY_NAME = {
    "checkpoint": _checkpoint,
    "savepoint": _savepoint,
    "let time pass": _let_time_pass,
    "kill": _kill,
    "break the disk": _break_the_disk,
    "hold the sink": _hold_the_sink,
    "let the sink go on": _let_go_on,
    "cancel and rescale": _cancel_and_rescale,
    "stop and rescale": _stop_and_rescale,
}

"""The names that Tab completes after `lab.` and `job.`: the everyday ones, and groups for all others."""

from __future__ import annotations

import pytest

from kit import SparkJob
from kit.hosts.lab import Lab, ready_job

VERBS = {"step", "run", "run_until", "wait_until", "back", "goto", "fork", "replay"}
ASKS = {"trigger_checkpoint", "savepoint", "dispose_savepoint", "rescale", "stop", "cancel"}
SHOWS = {"output", "checkpoints", "show", "why", "status", "ended", "error", "trace", "job", "statistics", "metrics"}
GROUPS = {"faults", "look"}
OF_A_LAB = {"enabled", "position", "scheduler", "past", "follow", "state", "queue", "moment"}


def public(thing: object) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


@pytest.fixture(scope="module")
def lab() -> Lab:
    lab = Lab(ready_job("keyed-sum"))
    lab.run_until(checkpoint=1)
    return lab


def test_a_lab_has_everyday_names_and_groups(lab: Lab) -> None:
    assert public(lab) == VERBS | ASKS | SHOWS | GROUPS | OF_A_LAB
    assert len(public(lab)) <= 35


def test_a_job_on_spark_answers_to_the_same_names() -> None:
    job = SparkJob(ready_job("keyed-sum"))
    assert public(job) >= ASKS | SHOWS | GROUPS
    assert {"answer", "restores", "stages"} <= public(job.look) & public(Lab.look.fget(Lab))  # type: ignore[attr-defined]
    assert public(job.faults) == {"kill"}


@pytest.mark.parametrize(
    ("name", "sign"),
    [
        ("kill", "it is lab.faults.kill"),
        ("tasks", "it is lab.look.tasks"),
        ("actions", "it is lab.past.actions"),
        ("finished", "read lab.ended"),
        ("scenario", "write open_scenario"),
        ("kill_worker", "lab.faults.kill"),
    ],
)
def test_a_name_that_is_in_a_group_says_in_which(lab: Lab, name: str, sign: str) -> None:
    with pytest.raises(AttributeError, match=sign):
        getattr(lab, name)


def test_a_group_looks_at_the_lab_as_it_is_now(lab: Lab) -> None:
    look, past, faults = lab.look, lab.past, lab.faults
    before, there = look.at_ms, len(past.actions)
    lab.step()
    assert look.at_ms > before
    assert len(past.actions) == there + 1 == lab.position
    faults.freeze(0)
    assert past.last_action == lab.past.actions[-1]
    assert "worker 0 is frozen already" in [why for _, why in faults.possible().refused]
    assert repr(faults) == repr(faults.possible())

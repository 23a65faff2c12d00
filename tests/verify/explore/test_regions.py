"""Every schedule of small jobs of two regions: a failure restarts one of them, and each row counts once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from kit.verify.explore import (
    Property,
    always,
    complete_checkpoints,
    consistent_checkpoints,
    eventually,
    exactly_once,
    expected_output,
    explore,
    others_keep_running,
    sometimes,
)
from kit.verify.explore.properties import LabSituation, Situation
from tests.verify.explore.jobs import copies, counts, pair

IN_FLIGHT: dict[str, Any] = {"unaligned": True}


def _restarted(now: Situation) -> dict[str, int]:
    """Return the attempts of the tasks that were restarted alone; slots have attempts as well."""
    return {name: attempt for name, attempt in now.master.attempts.restarted.items() if "/" in name}


@pytest.mark.parametrize(
    ("job", "kind", "asked"),
    [
        (copies, "kill", 0),
        (copies, "fail", 0),
        (pair, "fail", 0),
        (pair, "kill", 0),
        (partial(copies, **IN_FLIGHT), "kill", 0),
        pytest.param(partial(pair, **IN_FLIGHT), "fail", 0, marks=pytest.mark.soak),
        pytest.param(copies, "kill", 1, marks=pytest.mark.soak),
        pytest.param(pair, "fail", 1, marks=pytest.mark.soak),
        pytest.param(partial(pair, sources=2), "kill", 0, marks=pytest.mark.soak),
    ],
)
def test_each_row_counts_once_whichever_region_fails(job: Callable[[], Any], kind: str, asked: int) -> None:
    rows = expected_output(job())
    wanted = (*exactly_once(rows), *others_keep_running(), consistent_checkpoints(rows), complete_checkpoints(rows))
    found = explore(job(), wanted, checkpoints=asked, kinds=[kind])
    assert found.holds, found


def test_a_worker_that_dies_at_any_moment_restarts_its_own_region_alone() -> None:
    """Both regions are never restarted, and a restart adds one attempt."""

    def alone(now: Situation) -> bool:
        restarted = _restarted(now)
        return now.master.epoch <= 1 and len(restarted) <= 1 and {*restarted.values()} <= {2}

    def restarts(task: str) -> Property:
        return sometimes(task, lambda now: [*_restarted(now)] == [task])

    tasks = ("rows/0", "rows/1")
    found = explore(copies(), [always("one region restarts", alone), *map(restarts, tasks)], checkpoints=0)
    assert found.holds, found
    for task in tasks:
        assert _restarted(LabSituation(found.witnesses[task].lab())) == {task: 2}


def test_either_region_restarts_while_the_other_runs() -> None:
    """Both are of one worker; a failing file concerns one task."""
    wanted = [
        sometimes("steady restarts", lambda now: _restarted(now) == {"steady/0": 2} and now.master.epoch == 1),
        sometimes("shaky restarts", lambda now: _restarted(now) == {"shaky/0": 2, "shaky-out/0": 2}),
        always("not both", lambda now: len(_restarted(now)) < 3),
    ]
    assert explore(pair(), wanted, checkpoints=0, kinds=["fail"]).holds


def _seen(visible: set[object]) -> list[Property]:
    """Properties that hold everywhere, and record the situations that they see, with the attempts."""

    def facts(now: Situation) -> tuple[object, ...]:
        master = now.master
        attempts = (master.epoch, *sorted(master.attempts.restarted.items()))
        return now.status, now.completed, tuple(now.output()), bool(master.checkpoints.pending), attempts

    def note(now: Situation) -> bool:
        visible.add(facts(now))
        return True

    def note_end(now: Situation) -> bool:
        visible.add(("end", *facts(now), tuple(now.files())))
        return True

    return [always("noted", note), eventually("noted at the end", note_end)]


@pytest.mark.parametrize(
    ("job", "kind", "asked"),
    [
        (copies, "kill", 0),
        (copies, "fail", 0),
        pytest.param(partial(copies, **IN_FLIGHT), "kill", 0, marks=pytest.mark.soak),
        pytest.param(pair, "fail", 0, marks=pytest.mark.soak),
        pytest.param(copies, "expire", 0, marks=pytest.mark.soak),
        pytest.param(copies, "lose", 0, marks=pytest.mark.soak),
        pytest.param(copies, "kill", 1, marks=pytest.mark.soak),
        pytest.param(pair, "kill", 0, marks=pytest.mark.soak),
        pytest.param(partial(pair, **IN_FLIGHT), "fail", 0, marks=pytest.mark.soak),
    ],
)
def test_the_reduction_misses_no_end(job: Callable[[], Any], kind: str, asked: int) -> None:
    """The tasks of the other region hear that checkpoints are aborted, may leave or read on: each end is reached.

    On the way only states in which all tasks run may be left out.
    """
    all_of_them: set[Any] = set()
    reduced: set[Any] = set()
    exact = explore(job(), _seen(all_of_them), checkpoints=asked, kinds=[kind], exact=True)
    fewer = explore(job(), _seen(reduced), checkpoints=asked, kinds=[kind])
    assert exact.complete
    assert fewer.states * 5 < exact.states
    assert {each for each in all_of_them if each[0] == "end"} == {each for each in reduced if each[0] == "end"}
    assert reduced <= all_of_them
    assert {each[0] for each in all_of_them - reduced} <= {"RUNNING"}


@pytest.mark.parametrize("kind", ["kill", "fail"])
def test_a_job_of_one_region_has_the_same_states_whatever_the_setting(kind: str) -> None:
    """Its failures concern all regions, so the whole job restarts."""
    found = [explore(counts(failover=each), checkpoints=0, kinds=[kind]) for each in ("full", "region")]
    assert found[0].complete
    assert found[0].to_pandas().drop(columns="seconds").equals(found[1].to_pandas().drop(columns="seconds"))

"""The swarm: some hundred random trials in which all must hold, and that it notices, shrinks and says what does not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from kit.hosts.lab import LabError, Scenario, open_scenario
from kit.hosts.lab.jobs.random_jobs import MODES, RandomJob
from kit.hosts.lab.jobs.ready_jobs import job_of, random_job, ready_job
from kit.hosts.lab.named_hook import named_hooks
from kit.hosts.lab.random_stages import STAGES
from kit.hosts.lab.safety import Safety, Violation
from kit.hosts.lab.scenarios.scenario_text import ScenarioError
from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.operators.aggregates import sum_
from kit.stream.settings.job_settings import CheckpointConfig, FixedDelay
from kit.verify.swarm import swarm
from kit.verify.swarm.shrinking import Shrinking, least_of
from kit.verify.swarm.swarm import drawn
from kit.verify.swarm.trial_scenarios import scenario_of_trial
from kit.verify.swarm.trials import Intervention, Trial
from tests.mutants.planting import planted
from tests.mutants.table import MUTANTS


def test_whatever_happens_all_holds() -> None:
    result = swarm(range(70, 120))
    assert not result.failures, str(result)
    frame = result.to_pandas()
    assert len(frame) == 50
    assert (frame["violation"] == "").all()
    assert frame["lives"].max() > 2
    interventions = (
        "KillWorker",
        "savepoint",
        "stop",
        "cancel",
        "rescale",
        "time",
        "driver dies",
        "ReplaceDriver",
        "FreezeWorker",
        "DelayMessage",
    )
    for what in interventions:
        assert result.happened[what] > 0, f"nothing was found out about {what}: {result!r}"


@pytest.mark.soak
def test_whatever_happens_for_long_all_holds() -> None:
    result = swarm(range(1_000, 6_000))
    assert not result.failures, str(result)


def test_a_seed_gives_the_same_trial_again() -> None:
    once, again = drawn(17).run(), drawn(17).run()
    assert [lab.past.actions for lab in once.labs] == [lab.past.actions for lab in again.labs]
    assert [lab.past.actions for lab in drawn(18).run().labs] != [lab.past.actions for lab in once.labs]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("restored-output-not-published", 20),
        pytest.param("id-given-out-again", 25, marks=pytest.mark.soak),
        pytest.param("one-channel-not-aligned", 20, marks=pytest.mark.soak),
    ],
)
def test_what_is_found_is_a_scenario_that_fails_until_the_fault_is_mended(
    name: str, lines: int, tmp_path: Path
) -> None:
    with planted(MUTANTS[name]):
        result = swarm(range(66, 266), shrink=150)
        (failure,) = result.failures
        again = failure.smallest.trial.run()
        path = failure.save_scenario(tmp_path / "found.scenario")
        assert path.read_text() == str(failure.scenario)
        with pytest.raises(ScenarioError, match=re.escape(failure.error)):
            open_scenario(path).run()
    scenario = open_scenario(path).run()
    assert scenario.block_runs[-1].outcome[-1] == "all holds"
    assert len(str(failure.scenario).splitlines()) <= lines
    assert failure.smallest.violation.kind == failure.first.violation.kind
    assert failure.steps < failure.first.steps
    assert again.violation.args == failure.smallest.violation.args
    assert [lab.past.actions for lab in again.labs] == [lab.past.actions for lab in failure.smallest.labs]
    assert f"seed {failure.seed}: {failure.error}" in failure.text
    assert str(failure.scenario) in failure.text
    assert result.to_pandas()["violation"].iloc[-1] != ""
    assert repr(failure) in repr(result)


def test_lives_and_faults_are_in_the_scenario_as_they_were() -> None:
    for seed in (0, 3, 27, 80):
        run = drawn(seed).run()
        scenario = Scenario(scenario_of_trial(run, "it")).run()
        assert [list(lab.trace) for lab in scenario.labs] == [list(lab.trace) for lab in run.labs]
        assert scenario.block_runs[-1].outcome[-1] == "all holds" or "damage told" in run.happened


def test_a_driver_that_is_replaced_is_followed_by_another_in_the_trial_and_in_its_scenario() -> None:
    job = RandomJob(rows=10, settings={"interval_ms": 20, "store": "filesystem"})
    replaced = 0
    for seed in range(12):
        run = Trial(
            job, seed, (Intervention(seed, "replace driver", 0, "CheckpointPending"), Intervention(9, "kill"))
        ).run()
        assert run.violation is None, f"{seed}: {run.violation}"
        statuses = [lab.look.master.status.name for lab in run.labs]
        assert statuses[-1] == "FINISHED"
        assert ("SUSPENDED" in statuses) == (run.happened["ReplaceDriver"] > 0)
        scenario = Scenario(scenario_of_trial(run, "it")).run()
        assert [list(lab.trace) for lab in scenario.labs] == [list(lab.trace) for lab in run.labs]
        replaced += run.happened["ReplaceDriver"]
    assert replaced > 6


def test_a_scenario_of_ones_own_job_is_opened_with_it(tmp_path: Path) -> None:
    with planted(MUTANTS["restored-output-not-published"]):
        (failure,) = swarm(range(60), job=own_job, faults=["kill", "stop"], shrink=10).failures
        path = failure.save_scenario(tmp_path / "own.scenario")
        with pytest.raises(ScenarioError, match="rows lost"):
            open_scenario(path, own_job).run()
    assert open_scenario(path, own_job).run().block_runs[-1].outcome[-1] == "all holds"


def test_lives_at_other_parallelisms_are_counted_and_named_one_by_one() -> None:
    job = RandomJob(rows=60, parallelism=2, settings={"interval_ms": 20})
    end_of_life = Intervention(0, "checkpoint", awaits="nothing that happens")
    stops = [Intervention(4, "stop", argument, "AllTasksRunning") for argument in (4, 4, 2)]
    run = Trial(job, 5, tuple(each for stop in stops for each in (stop, end_of_life))).run()
    assert run.violation is None
    assert run.parallelisms == [2, 3, 3, 2]
    lines = str(scenario_of_trial(run, "it")).splitlines()
    assert [line for line in lines if line.startswith("go on")] == [
        "go on with parallelism=3",
        "go on",
        "go on with parallelism=2",
    ]
    completed = [len(lab.trace.story(kind="CheckpointCompleted")) for lab in run.labs]
    assert sum(many > 0 for many in completed) > 1
    assert run.happened["checkpoint completed"] == sum(completed)
    assert run.happened["restored"] == 3


# --- files and clocks -------------------------------------------------------------------------------------------------


def test_a_damaged_file_is_told_by_its_name_or_not_needed() -> None:
    settings = {"interval_ms": 20, "memory_threshold_bytes": 0}
    job = RandomJob(rows=10, mode="unaligned", failover="full", settings=settings)  # so each file is read again
    told = 0
    for argument in range(0, 36, 3):
        interventions = (Intervention(2, "damage", argument, "CheckpointCompleted"), Intervention(1, "kill"))
        run = Trial(job, argument, interventions).run()
        assert run.violation is None, f"{interventions}: {run.violation}"
        told += run.happened["damage told"]
    assert told > 5


def test_damage_that_nobody_tells_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Safety, "check_error", lambda safety, error: None)
    job = RandomJob(rows=10, settings={"interval_ms": 20, "memory_threshold_bytes": 0})
    interventions = (Intervention(2, "damage", 8, "CheckpointCompleted"), Intervention(1, "kill"))
    assert Trial(job, 0, interventions).run().violation.kind in ("ends", "failed")


@pytest.mark.parametrize("argument", range(5))
def test_a_clock_that_is_turned_breaks_nothing(argument: int) -> None:
    job = RandomJob(rows=10, settings={"interval_ms": 20, "timeout_ms": 2_000})
    run = Trial(job, argument, (Intervention(2, "clock", argument, "CheckpointPending"), Intervention(9, "kill"))).run()
    assert run.violation is None
    assert run.happened["TurnClock"] == 1


# --- shrinking --------------------------------------------------------------------------------------------------------


def test_delta_debugging_finds_the_things_that_matter() -> None:
    tried: list[int] = []

    def holds(things: list[int]) -> bool:
        tried.append(len(things))
        return {3, 77} <= set(things)

    assert least_of(list(range(100)), holds) == [3, 77]
    assert len(tried) < 60


class Scripted(Trial):
    """A trial that runs nothing: it has one violation with two certain interventions, and another one with either."""

    def run(self) -> Any:
        killed = any(each.what == "kill" and each.after > 2 and each.argument == 7 for each in self.interventions)
        stopped = any(
            each.what == "stop" and each.after > 2 and each.awaits == "CheckpointPending" for each in self.interventions
        )
        kind = "output" if killed and stopped else "ends" if killed or stopped else ""
        return SimpleNamespace(trial=self, violation=Violation(kind, "it") if kind else None, steps=10, wild=[1, 2])


def test_shrinking_keeps_what_the_violation_takes_and_makes_the_rest_of_each_intervention_smaller() -> None:
    interventions = (
        Intervention(90, "savepoint", 3),
        Intervention(48, "kill", 7, "CheckpointCompleted"),
        Intervention(90, "cancel"),
        Intervention(48, "stop", 5, "CheckpointPending"),
        Intervention(90, "time"),
    )
    trial = Scripted(RandomJob(rows=20, parallelism=3), 1, interventions, ("map",))
    shrunk = Shrinking(trial.run()).run()
    assert shrunk.violation.kind == "output"
    assert shrunk.trial.interventions == (Intervention(4, "kill", 7), Intervention(4, "stop", 0, "CheckpointPending"))
    assert shrunk.trial.slow == ()
    assert shrunk.trial.wild == frozenset()


# --- the user's own job -----------------------------------------------------------------------------------------------

ROWS = [{"k": "abc"[n % 3], "n": n} for n in range(12)]


def own_job(parallelism: int) -> StreamEnvironment:
    env = StreamEnvironment(
        "own",
        parallelism=parallelism,
        max_parallelism=8,
        checkpoint=CheckpointConfig(interval_ms=30, timeout_ms=2_000, tolerable_failures=100),
        restart=FixedDelay(100, 10),
    )
    rows = env.from_source(CollectionSource(ROWS, splits=2, batch_rows=1), uid="rows")
    rows.key_by("k").aggregate(total=sum_("n")).uid("totals").sink_to(CollectSink("totals"), uid="totals-out")
    rows.rebalance().map(dict).uid("same").sink_to(CollectSink("rows"), uid="rows-out")
    return env


def test_a_job_of_ones_own_is_compared_with_runs_that_nothing_was_done_to() -> None:
    result = swarm(range(8), job=own_job)
    assert not result.failures, str(result)
    with planted(MUTANTS["restored-output-not-published"]):
        found = swarm(range(60), job=own_job, faults=["kill", "stop"], shrink=10)
    assert "rows lost" in found.failures[0].error


def test_a_job_that_is_no_function_keeps_its_parallelism() -> None:
    result = swarm(range(5), job=own_job(2), faults=["stop", "kill"])
    assert not result.failures, str(result)


def test_what_is_wrong_with_the_output_may_be_ones_own_question() -> None:
    def check(output: object) -> Iterator[str]:
        frame: pd.DataFrame = output("rows")
        if len(frame) == 12:
            yield "twelve is too many"

    result = swarm(range(3), job=own_job, faults=[], check=check, shrink=0)
    assert [failure.error for failure in result.failures] == ["output: twelve is too many"]


def test_a_swarm_ends_with_the_last_failure_that_it_may_have_and_adds_up_all_trials() -> None:
    def check(output: object) -> Iterator[str]:
        seen.append(len(output("rows")))
        if len(seen) in (2, 3, 5):
            yield f"the {len(seen)} runs"

    seen: list[int] = []
    result = swarm(range(10, 20), job=own_job, faults=[], check=check, shrink=0, most_failures=3)
    assert [failure.seed for failure in result.failures] == [11, 12, 14]
    assert [failure.error for failure in result.failures] == [f"output: the {each} runs" for each in (2, 3, 5)]
    frame = result.to_pandas()
    assert frame["seed"].tolist() == [10, 11, 12, 13, 14]
    assert result.trials == 5
    assert result.steps == frame["steps"].sum()
    completed = [happened["checkpoint completed"] for happened in frame["happened"]]
    assert result.happened["checkpoint completed"] == sum(completed)


def test_misuse_is_refused() -> None:
    with pytest.raises(LabError, match="'earthquake' is not a known kind of fault: expected checkpoint, savepoint, "):
        swarm(range(1), faults=["earthquake"])
    with pytest.raises(LabError, match="job is a int, but must be an environment, or a function that makes one"):
        swarm(range(1), job=3)


# --- random jobs ------------------------------------------------------------------------------------------------------


def test_random_jobs_notice_what_is_wrong_with_their_output() -> None:
    job = RandomJob(rows=6, stages=("numbered", "tally split"), branch="totals")
    lab = drawn(0, (), job).run().lab
    sound = {name: lab.output(name) for name in ("rows", "totals")}
    assert not list(job.problems(sound.__getitem__))
    rows = sound["rows"]
    own = rows[rows["n"] >= 0]
    for wrong, what in [
        (rows.drop(own.index[0]), "rows lost"),
        (pd.concat([rows, own.tail(1)]), "rows twice"),
        (rows.assign(number=rows["number"] + 1), "value state"),
        (rows[rows["n"] >= 0], "operator state"),
    ]:
        assert what in " ".join(job.problems((sound | {"rows": wrong}).__getitem__))
    fewer = sound["totals"].assign(total=0)
    assert "totals are" in " ".join(job.problems((sound | {"totals": fewer}).__getitem__))


def test_random_jobs_notice_sessions_and_event_time_that_are_wrong() -> None:
    job = RandomJob(rows=30, splits=3, stages=("paced",), branch="sessions")
    lab = drawn(0, (), job).run().lab
    sound = {name: lab.output(name) for name in ("rows", "sessions")}
    assert not list(job.problems(sound.__getitem__))
    rows, sessions = sound["rows"], sound["sessions"]
    assert sessions["rows"].max() == 3, "rows of a key that are near each other are one session"
    assert len(sessions) > 5, "and others are not"
    heard = rows[rows["k"] == "heard"]
    for name, wrong, what in [
        ("sessions", sessions.iloc[1:], "sessions: lost"),
        ("sessions", sessions.assign(rows=1), "sessions: lost"),
        ("rows", rows.drop(heard.index[3]), "event time"),
        ("rows", pd.concat([rows, heard.head(1)]), "event time"),
    ]:
        assert what in " ".join(job.problems((sound | {name: wrong}).__getitem__))


def test_the_trials_of_this_file_have_every_class_of_input() -> None:
    jobs = [RandomJob.drawn(Random(seed)) for seed in range(120)]
    drawn_stages = {stage for job in jobs for stage in job.stages}
    assert {stage.partition(" ")[0] for stage in drawn_stages} == STAGES.keys()
    assert "held idle" in drawn_stages
    assert {job.branch for job in jobs} == {"", "totals", "windows", "sessions"}
    two_phases = [job for job in jobs if job.two_phase]
    assert {(job.branch, job.mode.partition(" ")[0]) for job in two_phases} >= {
        (branch, mode) for branch in ("totals", "windows") for mode in ("aligned", "unaligned")
    }
    assert {job.hooks for job in jobs} == {0, 2}
    assert {job.settings["tolerable_failures"] for job in jobs} == {1, 2, 1_000}
    with_side_outputs = [job for job in jobs if any(stage.startswith("aside") for stage in job.stages)]
    assert any(job.mode.startswith("unaligned") for job in with_side_outputs)


def test_random_jobs_have_every_size_and_setting() -> None:
    jobs = [RandomJob.drawn(Random(seed)) for seed in range(300)]
    fields = {name: {getattr(job, name) for job in jobs} for name in ("rows", "splits", "batch_rows", "parallelism")}
    assert fields["rows"] == set(range(31))
    assert (fields["splits"], fields["batch_rows"], fields["parallelism"]) == ({1, 2, 3}, {1, 2, 3, 4}, {1, 2, 3})
    assert {(job.chaining, job.credits) for job in jobs} == {(True, 1), (True, 2), (False, 1), (False, 2)}
    assert {job.buffer_bytes for job in jobs} == {60, 200, 4_194_304}
    assert {(job.beside, job.failover) for job in jobs} == {(n, way) for n in (0, 6, 12) for way in ("full", "region")}
    assert {job.mode for job in jobs} == MODES.keys()
    assert {name: {job.settings.get(name) for job in jobs} for job in jobs for name in job.settings} == {
        "interval_ms": {None, 20, 40, 80},
        "timeout_ms": {2_000, 10_000},
        "min_pause_ms": {0, 20},
        "max_retained": {1, 2, 3},
        "max_subtasks_per_channel_state_file": {1, 2, 3, 4, 5},
        "memory_threshold_bytes": {0, 20_480},
        "local_recovery": {True, False},
        "store": {"memory", "filesystem"},
        "tolerable_failures": {1, 2, 1_000},
        "incremental": {None, True},
        "most_runs": {None, 2, 3, 64},
    }
    assert {len(job.stages) for job in jobs} == {0, 1, 2}


def test_a_random_job_says_all_that_it_is() -> None:
    assert str(RandomJob()) == (
        "source -> sink; 12 rows in 2 splits, 2 at once; parallelism 2, 2 credits, buffers of 4194304 B; aligned"
    )
    stages = ("numbered", "tally split")
    shape = {
        "chaining": False,
        "hooks": 2,
        "beside": 3,
        "failover": "full",
        "settings": {"a": 1, "b": None, "c": "x"},
    }
    assert str(RandomJob(stages=stages, branch="totals", two_phase=True, **shape)) == (
        "source -> numbered -> tally split -> sink, and totals in two phases; 12 rows in 2 splits, 2 at once; "
        "parallelism 2, unchained, 2 credits, buffers of 4194304 B, 2 hooks, 3 rows beside, failover of all tasks; "
        "aligned, a=1, c='x'"
    )


@pytest.mark.parametrize("given", ["log at 7", "LOG at 6", None])
def test_a_hook_says_when_it_is_given_what_is_not_its_own(given: str | None) -> None:
    log, upper = named_hooks(2)
    assert log.identifier.upper() == upper.identifier
    with pytest.raises(RuntimeError, match="'LOG' was neither reset nor restored"):
        upper.trigger_checkpoint(6, 0)
    upper.reset()
    assert upper.trigger_checkpoint(7, 0) == "LOG at 7"
    with pytest.raises(ValueError, match=r"'LOG' was given .*, but should be given 'LOG at 7'"):
        upper.restore_checkpoint(7, given)


def test_every_simpler_job_is_another_one_that_runs() -> None:
    job = RandomJob.drawn(Random(5))
    simpler = list(job.simpler())
    assert len(simpler) > 5
    assert len({str(each) for each in [job, *simpler]}) == 1 + len(simpler)
    assert not drawn(0, (), simpler[0]).run().violation


def test_a_random_job_is_a_ready_one_by_its_text() -> None:
    for seed in range(30):
        job = RandomJob.drawn(Random(seed))
        assert random_job(job_of(job.text)[1]) == job
    with pytest.raises(LabError, match="the job of a swarm has no setting 'row'; did you mean rows"):
        ready_job("random", row=3)


def test_what_depends_on_the_order_is_no_fault_of_a_job() -> None:
    """Three random orders of two sources' running totals agree only by chance; another order may differ."""
    job = ready_job("two-sources", rows=12, interval_ms=20, restart=100)
    found = swarm(range(10), job=job, faults=["kill"])
    assert found.failures == []
    assert found.happened["KillWorker"] > 10

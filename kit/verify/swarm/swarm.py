"""A swarm: many random trials of a job in the lab, each with its own order of actions and its own faults.

    swarm(range(1000))                       # random jobs
    swarm(range(1000), job=env)              # your job
    found = swarm(range(100), job=lambda parallelism: make_env(parallelism))
    found.to_pandas()                        # one row for each trial
    found.failures[0]                        # the first violation, shrunk
    found.failures[0].lab                    # the lab at the violation; lab.back() goes back
    found.failures[0].save_scenario("it.scenario")   # open_scenario("it.scenario").run() repeats it

`kit.hosts.lab.safety` has the properties that must hold. A seed gives the same trial everywhere.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from random import Random

import pandas as pd

from kit.core.trace.json_lines import file_of
from kit.hosts.lab.errors import Interrupted, LabError, several, whole_number
from kit.hosts.lab.jobs.random_jobs import RandomJob
from kit.hosts.lab.jobs.user_jobs import Check, UserJob
from kit.hosts.lab.lab import Lab
from kit.hosts.lab.safety import TriedJob
from kit.hosts.lab.scenarios.scenario_text import ScenarioText
from kit.stream.api.environment import StreamEnvironment
from kit.stream.graph.job_graph import JobGraph
from kit.verify.swarm.shrinking import MOST_RUNS, Shrinking
from kit.verify.swarm.trial_scenarios import scenario_of_trial
from kit.verify.swarm.trials import INTERVENTIONS, Trial, TrialRun


@dataclass(frozen=True)
class Failure:
    """A trial that violated a property, shrunk; `first` is the original trial."""

    seed: int
    first: TrialRun
    smallest: TrialRun

    @property
    def lab(self) -> Lab:
        """The last life of the shrunk trial, at the violation."""
        return self.smallest.lab

    @property
    def steps(self) -> int:
        """The number of steps of the shrunk trial."""
        return self.smallest.steps

    @property
    def error(self) -> str:
        """The text of the violation."""
        return str(self.smallest.violation)

    @cached_property
    def scenario(self) -> ScenarioText:
        """The shrunk trial as a scenario; its last command, `check`, reports the violation."""
        return scenario_of_trial(self.smallest, f"seed-{self.seed}")

    def save_scenario(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Write the scenario to a file (`*.scenario`, by default `seed-<n>.scenario` in the working directory) and
        return its path.

        `open_scenario(path)` opens it; for your own job, `open_scenario(path, job)`. The scenario passes once the bug
        is fixed.
        """
        file = file_of(f"{self.scenario.name}.scenario" if path is None else path)
        file.write_text(str(self.scenario), encoding="utf-8")
        return file

    @property
    def text(self) -> str:
        """The violation, the job, the interventions, and all of these as a scenario."""
        trial = self.smallest.trial
        lives = f" in {len(self.smallest.labs)} lives" if len(self.smallest.labs) > 1 else ""
        lines = [
            f"seed {self.seed}: {self.error}",
            f"after {self.steps} steps{lives} of {trial.job}",
            *(f"  {intervention}" for intervention in trial.interventions),
            "",
            str(self.scenario),
        ]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Failure(seed {self.seed}, {self.steps} steps, {self.error})"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.text)}</pre>"


@dataclass
class Swarm:
    """The results of the trials: `happened` counts interventions, `failures` has the trials that violate a property."""

    rows: list[dict[str, object]] = field(default_factory=list)
    happened: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    @property
    def trials(self) -> int:
        """The number of trials."""
        return len(self.rows)

    @property
    def steps(self) -> int:
        """The number of steps of all trials."""
        return sum(int(str(row["steps"])) for row in self.rows)

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per trial: seed, job, steps, lives, its interventions, and the violation."""
        return pd.DataFrame(self.rows, columns=["seed", "job", "steps", "lives", "happened", "violation"])

    def __repr__(self) -> str:
        return f"Swarm({self._summary}{f': {self.failures}' if self.failures else ''})"

    @property
    def _summary(self) -> str:
        done = ", ".join(f"{count} {what}" for what, count in self.happened.most_common()) or "no faults"
        found = f"{len(self.failures)} failed" if self.failures else "all held"
        return f"{self.trials} trials, {self.steps} steps; {done}; {found}"

    def _repr_html_(self) -> str:
        return f"<p>{escape(self._summary)}</p>" + "".join(failure._repr_html_() for failure in self.failures)


def swarm(
    seeds: Iterable[int] = range(100),
    job: StreamEnvironment | JobGraph | Callable[[int], StreamEnvironment | JobGraph] | None = None,
    *,
    faults: Iterable[str] | None = None,
    check: Check | None = None,
    most_failures: int = 1,
    shrink: int = MOST_RUNS,
    progress: Callable[[Swarm], None] | None = None,
) -> Swarm:
    """Run one trial for each seed; stop after `most_failures` violations.

    `job` is a job, or a function that makes it for a parallelism (then it is rescaled as well), or None for random
    jobs. `faults` are the kinds of interventions to choose from (`kit.verify.swarm.trials.INTERVENTIONS`), by default
    all. `check` takes a function from a sink's name to its rows, and yields the errors in them; without it, the rows
    are compared with those of runs without faults. `shrink` is the number of runs to spend on shrinking a failing
    trial, 0 for none. `progress` is called after each trial.

    Raises LabError for an unknown kind of fault, and Interrupted if the user interrupts it; its `found` is the swarm so
    far.
    """
    kinds = tuple(INTERVENTIONS) if faults is None else tuple(several("faults", faults, "('kill', 'stop')"))
    seeds = seeds if isinstance(seeds, Iterator) else several("seeds", seeds, "range(100)")
    whole_number("most_failures", most_failures, "the number of trials that may violate something", least=1)
    whole_number("shrink", shrink, "the number of runs to make a failing trial smaller", least=0)
    for name, function in (("check", check), ("progress", progress)):
        if not (function is None or callable(function)):
            raise LabError(f"{name} is {function!r}, but must be a function, or None")
    unknown = [kind for kind in kinds if kind not in INTERVENTIONS]
    if unknown:
        raise LabError(f"{unknown[0]!r} is not a known kind of fault: expected {', '.join(INTERVENTIONS)}")
    user_job = None if job is None else UserJob.of(job, check)
    result = Swarm()
    is_interrupted = False
    try:
        for seed in seeds:
            _try(result, drawn(seed, kinds, user_job), shrink)
            if progress is not None:
                progress(result)
            if len(result.failures) == most_failures:
                break
    except KeyboardInterrupt:
        is_interrupted = True
    if is_interrupted:  # not in `except`: the exception's context would keep the trial in memory
        raise Interrupted(result)
    return result


def _try(result: Swarm, trial: Trial, shrink: int) -> None:
    """Add one trial. If the shrinking of a failing trial is interrupted, the smallest so far is added."""
    run = trial.run()
    result.happened += run.happened
    result.rows.append(
        {
            "seed": trial.seed,
            "job": str(run.trial.job),
            "steps": run.steps,
            "lives": len(run.labs),
            "happened": dict(run.happened),
            "violation": "" if run.violation is None else str(run.violation),
        }
    )
    if run.violation is None:
        return
    shrinking = Shrinking(run, shrink)
    try:
        if shrink:
            shrinking.run()
    finally:
        result.failures.append(Failure(trial.seed, run, shrinking.smallest))


def drawn(seed: int, kinds: tuple[str, ...] = tuple(INTERVENTIONS), job: TriedJob | None = None) -> Trial:
    """Return the trial of a seed."""
    chance = Random(seed)
    return Trial.drawn(RandomJob.drawn(chance) if job is None else job, seed, chance, kinds)

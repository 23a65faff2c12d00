"""A swarm: many random trials of a job in the lab, each with an order, and with faults, of its own.

    swarm(range(1000))                       # random jobs
    swarm(range(1000), job=env)              # yours
    found = swarm(range(100), job=lambda parallelism: make_env(parallelism))
    found.to_pandas()                        # one row for each trial
    found.failures[0]                        # the first that violated something, made as small as it gets
    found.failures[0].lab                    # stands where it was noticed; lab.back() goes back
    found.failures[0].save_play("it.play")   # open_play("it.play").run() does it again, and says the same

What must hold whatever happens is in `kit.hosts.lab.safety`. A seed gives the same trial everywhere.
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

from kit.core.protocol.json_lines import file_of
from kit.hosts.lab.errors import Interrupted, LabError
from kit.hosts.lab.jobs.given_jobs import Check, GivenJob
from kit.hosts.lab.jobs.random_jobs import RandomJob
from kit.hosts.lab.lab import Lab
from kit.hosts.lab.safety import TriedJob
from kit.hosts.lab.scenarios.play_text import PlayText
from kit.stream.api.environment import StreamEnvironment
from kit.stream.graph.job_graph import JobGraph
from kit.verify.swarm.shrinking import MOST_RUNS, Shrinking
from kit.verify.swarm.trial_plays import play_of_trial
from kit.verify.swarm.trials import DEEDS, Telling, Trial


@dataclass(frozen=True)
class Failure:
    """A trial that violated something, made smaller; `first` is how it was found."""

    seed: int
    first: Telling
    telling: Telling

    @property
    def lab(self) -> Lab:
        """The last life of the shrunk trial, where the violation was noticed."""
        return self.telling.lab

    @property
    def steps(self) -> int:
        """How many steps the shrunk trial takes."""
        return self.telling.steps

    @property
    def error(self) -> str:
        """What was violated."""
        return str(self.telling.violation)

    @cached_property
    def play(self) -> PlayText:
        """The shrunk trial as a play: `check`, its last command, says what is violated."""
        return play_of_trial(self.telling, f"seed-{self.seed}")

    def save_play(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Write the play to a file (`*.play`, by default `seed-<n>.play` here), which `open_play(path)` opens; a play
        of a job of one's own is opened with that, `open_play(path, job)`. Once the fault is mended the play passes.
        """
        file = file_of(f"{self.play.name}.play" if path is None else path)
        file.write_text(str(self.play), encoding="utf-8")
        return file

    @property
    def text(self) -> str:
        """What was violated, by what job, with what was done to it, and all of that as a play."""
        trial = self.telling.trial
        lives = f" in {len(self.telling.labs)} lives" if len(self.telling.labs) > 1 else ""
        lines = [
            f"seed {self.seed}: {self.error}",
            f"after {self.steps} steps{lives} of {trial.job}",
            *(f"  {deed}" for deed in trial.deeds),
            "",
            str(self.play),
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
    """What came of the trials: `happened` counts what was done to the jobs, `failures` are the trials that violated
    something.
    """

    rows: list[dict[str, object]] = field(default_factory=list)
    happened: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    @property
    def trials(self) -> int:
        """How many there were."""
        return len(self.rows)

    @property
    def steps(self) -> int:
        """How many steps they took together."""
        return sum(int(str(row["steps"])) for row in self.rows)

    def to_pandas(self) -> pd.DataFrame:
        """One row for each trial: seed, job, steps, lives, what was done to it, and the violation."""
        return pd.DataFrame(self.rows, columns=["seed", "job", "steps", "lives", "happened", "violation"])

    def __repr__(self) -> str:
        return f"Swarm({self._told}{f': {self.failures}' if self.failures else ''})"

    @property
    def _told(self) -> str:
        done = ", ".join(f"{count} {what}" for what, count in self.happened.most_common()) or "no faults"
        found = f"{len(self.failures)} failed" if self.failures else "all held"
        return f"{self.trials} trials, {self.steps} steps; {done}; {found}"

    def _repr_html_(self) -> str:
        return f"<p>{escape(self._told)}</p>" + "".join(failure._repr_html_() for failure in self.failures)


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
    """Run one trial for each seed; stops after `most_failures` that violate something.

    `job` is yours, or a function that makes it for a parallelism (then it is rescaled as well), or None for random
    ones. `faults` are the kinds of deed that may be done to it (`kit.verify.swarm.trials.DEEDS`), all unless given.
    `check` takes a function from a sink's name to its rows and gives what is wrong with them; without it they are
    compared with runs that nothing was done to. `shrink` is how many runs may be spent on making a failing trial
    smaller, 0 for none. `progress` is called after each trial.

    Raises LabError for a kind of fault that there is not, and Interrupted when the user interrupts it: `found` then is
    the swarm so far.
    """
    kinds = tuple(DEEDS) if faults is None else tuple(faults)
    unknown = [kind for kind in kinds if kind not in DEEDS]
    if unknown:
        raise LabError(f"{unknown[0]!r} is nothing that may be done to a job: {', '.join(DEEDS)} are")
    given = None if job is None else GivenJob.of(job, check)
    result = Swarm()
    is_interrupted = False
    try:
        for seed in seeds:
            _try(result, drawn(seed, kinds, given), shrink)
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
    """Add one trial; one that fails is added even if its shrinking is interrupted, as small as it is by then."""
    telling = trial.run()
    _add(result, trial.seed, telling)
    if telling.violation is None:
        return
    shrinking = Shrinking(telling, shrink)
    try:
        if shrink:
            shrinking.run()
    finally:
        result.failures.append(Failure(trial.seed, telling, shrinking.smallest))


def drawn(seed: int, kinds: tuple[str, ...] = tuple(DEEDS), job: TriedJob | None = None) -> Trial:
    """The trial of a seed."""
    chance = Random(seed)
    return Trial.drawn(RandomJob.drawn(chance) if job is None else job, seed, chance, kinds)


def _add(result: Swarm, seed: int, telling: Telling) -> None:
    result.happened += telling.happened
    result.rows.append(
        {
            "seed": seed,
            "job": str(telling.trial.job),
            "steps": telling.steps,
            "lives": len(telling.labs),
            "happened": dict(telling.happened),
            "violation": "" if telling.violation is None else str(telling.violation),
        }
    )


def summary(result: Swarm) -> Iterator[str]:
    """What `make swarm` prints."""
    yield repr(result)
    for failure in result.failures:
        yield str(failure)

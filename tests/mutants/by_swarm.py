"""The swarm in a process of its own: `python -m tests.mutants.by_swarm 200` prints what it found, as JSON.

The jobs can be limited by settings, as in the text of a random job, and the interventions by their kinds:
`python -m tests.mutants.by_swarm 200 "stages=paced, mode=unaligned" kill,time`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from random import Random

from kit.hosts.lab.jobs.random_jobs import RandomJob
from kit.hosts.lab.jobs.ready_jobs import settings_of
from kit.verify.swarm.shrinking import Shrinking
from kit.verify.swarm.trials import INTERVENTIONS, Trial, TrialRun

RUNS = 60
"""So many runs may make a counterexample smaller: fewer than for a person who has to read it."""


def first_failure(seeds: int, job: str = "", kinds: str = "") -> TrialRun | None:
    """Return the first of this number of trials that violates something, None when none does."""
    narrowed = RandomJob.of(settings_of(job))
    names = {name for name in settings_of(job) if name in vars(narrowed)}
    for seed in range(seeds):
        chance = Random(seed)
        drawn = RandomJob.drawn(chance)
        settings = drawn.settings | narrowed.settings
        tried = replace(drawn, settings=settings, **{name: getattr(narrowed, name) for name in names})
        run = Trial.drawn(tried, seed, chance, tuple(kinds.split(",")) if kinds else tuple(INTERVENTIONS)).run()
        if run.violation is not None:
            return run
    return None


def main(seeds: int, job: str = "", kinds: str = "") -> None:
    run = first_failure(seeds, job, kinds)
    if run is None:
        print(json.dumps({"found": False, "how": f"{seeds} trials held"}))
        return
    shrinking = Shrinking(run, RUNS)
    shrinking.run()
    how = f"seed {run.trial.seed}: {shrinking.smallest.violation}"
    print(json.dumps({"found": True, "how": how, "steps": shrinking.smallest.steps}))


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])

"""The swarm in a process of its own: `python -m tests.mutants.by_swarm 200` prints what it found, as JSON.

Settings, as the text of a random job has them, narrow the jobs, and kinds of deed what is done to them:
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
from kit.verify.swarm.trials import DEEDS, Telling, Trial

RUNS = 60
"""So many runs may make a counterexample smaller: fewer than for a person who has to read it."""


def first_failure(seeds: int, job: str = "", kinds: str = "") -> Telling | None:
    """Return the first of this number of trials that violates something, None when none does."""
    narrowed = RandomJob.of(settings_of(job))
    names = {name for name in settings_of(job) if name in vars(narrowed)}
    for seed in range(seeds):
        chance = Random(seed)
        drawn = RandomJob.drawn(chance)
        settings = drawn.settings | narrowed.settings
        tried = replace(drawn, settings=settings, **{name: getattr(narrowed, name) for name in names})
        telling = Trial.drawn(tried, seed, chance, tuple(kinds.split(",")) if kinds else tuple(DEEDS)).run()
        if telling.violation is not None:
            return telling
    return None


def main(seeds: int, job: str = "", kinds: str = "") -> None:
    telling = first_failure(seeds, job, kinds)
    if telling is None:
        print(json.dumps({"found": False, "how": f"{seeds} trials held"}))
        return
    shrinking = Shrinking(telling, RUNS)
    shrinking.run()
    how = f"seed {telling.trial.seed}: {shrinking.smallest.violation}"
    print(json.dumps({"found": True, "how": how, "steps": shrinking.smallest.steps}))


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])

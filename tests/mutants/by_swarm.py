"""The swarm in a process of its own: `python -m tests.mutants.by_swarm 200` prints what it found, as JSON."""

from __future__ import annotations

import json
import sys

from kit.verify.swarm.swarm import swarm

RUNS = 60
"""So many runs may make a counterexample smaller: fewer than for a person who has to read it."""


def main(seeds: int) -> None:
    result = swarm(range(seeds), shrink=RUNS)
    if not result.failures:
        print(json.dumps({"found": False, "how": f"{result.trials} trials held"}))
        return
    failure = result.failures[0]
    how = f"seed {failure.seed}: {failure.error}"
    print(json.dumps({"found": True, "how": how, "steps": failure.steps}))


if __name__ == "__main__":
    main(int(sys.argv[1]))

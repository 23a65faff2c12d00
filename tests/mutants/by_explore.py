"""An exploration in a process of its own: `python -m tests.mutants.by_explore counts 1 kill` prints its find, as JSON.

Without the last word nothing fails. What is expected is what the sound kit publishes, whatever is planted.
"""

from __future__ import annotations

import json
import sys

from kit.verify.explore import (
    Exploration,
    complete_checkpoints,
    consistent_checkpoints,
    exactly_once,
    explore,
    others_keep_running,
)
from kit.verify.explore.properties import Row
from tests.verify.explore import jobs

COUNTED: list[Row] = [(("k", "a"), ("rows", 1))]
ONE: Row = (("n", 0),)
EXPECTED: dict[str, list[Row]] = {
    "counts": COUNTED,
    "overtakes": COUNTED,
    "collects": [ONE],
    "copies": [ONE, (("n", 1),)],
    "pair": [ONE, ONE],
}
"""The rows of a run of each job in which nothing goes wrong."""


def look(job: str, checkpoints: int, fault: str) -> Exploration:
    """Explore a job."""
    kinds = [fault] if fault else []
    rows = EXPECTED[job]
    wanted = (*exactly_once(rows), *others_keep_running())
    if job == "overtakes":
        wanted = (*wanted, consistent_checkpoints(rows), complete_checkpoints(rows))
    return explore(getattr(jobs, job)(), wanted, faults=len(kinds), checkpoints=checkpoints, kinds=kinds)


def main(job: str, checkpoints: int, fault: str = "") -> None:
    found = look(job, checkpoints, fault)
    example = found.counterexample
    how = repr(found) if example is None else f"{example.property}: {example.actions[-1]}"
    print(json.dumps({"found": example is not None, "how": how, "steps": None if example is None else len(example)}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])

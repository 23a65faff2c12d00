"""How many states a small job has, and how long it takes to see them all: mode by mode, fault by fault.

The job has two sources that may be held up by each other, one task that counts by key and collects, and one checkpoint
that is asked for at any moment. The last rows are the job with a keyed exchange to two subtasks, a sink, two
checkpoints at a time and a failure: searched for as long as `PATIENCE_STATES` allows.
"""

from __future__ import annotations

import resource
from typing import Any

import pandas as pd

from kit.explore import exactly_once, expected_output, explore
from tests.explore.jobs import counts

PATIENCE_STATES = 2_000_000
SMALL = {"rows": 2, "sources": 2}
LARGE = {"rows": 2, "sources": 2, "keyed": 2, "sinks": 1}
ROWS: tuple[tuple[str, dict[str, Any], int, int], ...] = (
    ("one sink, nothing fails", SMALL, 1, 0),
    ("one sink, a worker dies", SMALL, 0, 1),
    ("one sink, at least once, a worker dies", SMALL | {"mode": "at_least_once"}, 1, 1),
    ("two keyed subtasks, nothing fails", LARGE, 1, 0),
    ("two keyed subtasks, two checkpoints, a worker dies", LARGE, 2, 1),
)


def main() -> int:
    """Print a row for each search."""
    found = []
    for name, shape, checkpoints, faults in ROWS:
        env = counts(**shape)
        searched = explore(
            env,
            exactly_once(expected_output(env)),
            checkpoints=checkpoints,
            faults=faults,
            most_states=PATIENCE_STATES,
        )
        example = searched.counterexample
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        violated = "" if example is None else f"{example.property} ({len(example)} steps)"
        facts = (searched.states, searched.transitions, searched.depth, round(searched.seconds, 1), searched.complete)
        found.append((name, *facts, peak_mb, violated))
    columns = ["job", "states", "transitions", "depth", "seconds", "complete", "peak MB", "violated"]
    print(pd.DataFrame(found, columns=columns).to_string(index=False))
    return 0

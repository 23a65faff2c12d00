"""How many states a small job has, and how much processor time it takes to see them all: mode by mode, fault by fault.

The small job has two sources that may be held up by each other, and one task that counts by key and collects. The large
one has two sources, a keyed exchange to two subtasks, and a sink. Each source has one row, so that a barrier stands in
front of it or behind it. Beside the checkpoints that are asked for, at any moment, there is the last one, which the
JobMaster asks for: with one checkpoint two are under way at a time, with two there are three. The last one takes
ten minutes of processor time; it is left out unless `WHICH_ROWS=8`.
"""

from __future__ import annotations

import os
import resource
import time
from typing import Any

import pandas as pd

from kit.explore import exactly_once, expected_output, explore
from tests.explore.jobs import counts

SMALL = {"rows": 2, "sources": 2}
LARGE = {"rows": 2, "sources": 2, "keyed": 2, "sinks": 1}
ROWS: tuple[tuple[str, dict[str, Any], int, str], ...] = (
    ("small, nothing fails", SMALL, 1, ""),
    ("small, a worker dies", SMALL, 1, "kill"),
    ("small, at least once, a worker dies", SMALL | {"mode": "at_least_once"}, 1, "kill"),
    ("large, nothing fails", LARGE, 1, ""),
    ("large, an acknowledgement comes twice", LARGE, 1, "repeat"),
    ("large, a worker dies", LARGE, 1, "kill"),
    ("large, nothing fails", LARGE, 2, ""),
    ("large, a worker dies", LARGE, 2, "kill"),
)


def main() -> int:
    """Print a row for each search."""
    found = []
    for name, shape, checkpoints, fault in ROWS[: int(os.environ.get("WHICH_ROWS", len(ROWS) - 1))]:
        env = counts(**shape)
        kinds = [fault] if fault else []
        began_s = time.process_time()
        searched = explore(
            env, exactly_once(expected_output(env)), checkpoints=checkpoints, faults=len(kinds), kinds=kinds
        )
        example = searched.counterexample
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        violated = "" if example is None else f"{example.property} ({len(example)} steps)"
        facts = (searched.states, searched.transitions, searched.depth, round(time.process_time() - began_s, 1))
        found.append((name, checkpoints, *facts, searched.complete, peak_mb, violated))
    columns = ["job", "asked", "states", "transitions", "depth", "cpu_s", "complete", "peak_mb", "violated"]
    print(pd.DataFrame(found, columns=columns).to_string(index=False))
    return 0

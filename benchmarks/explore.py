"""The number of states of a small job, and the processor time to explore them all, for each mode and each fault.

The small job has two sources that may be held up by each other, and one task that counts by key and collects. The large
one has two sources, a keyed exchange to two subtasks, and a sink. Each source has one row, so that a barrier stands in
front of it or behind it. Beside the checkpoints that are asked for, at any moment, there is the last one, which the
JobMaster asks for: with one checkpoint two are under way at a time. Where barriers overtake there is one at a time. The
rows after the eighth take minutes each; they are left out unless `WHICH_ROWS` says how many rows are wanted.
"""

from __future__ import annotations

import os
import resource
import time
from typing import Any

import pandas as pd

from benchmarks._options import options
from kit.verify.explore import consistent_checkpoints, exactly_once, expected_output, explore
from tests.verify.explore.jobs import counts

SMALL = {"rows": 2, "sources": 2}
OVERTAKES: dict[str, Any] = {"unaligned": True, "max_concurrent": 1}
LARGE = {"rows": 2, "sources": 2, "keyed": 2, "sinks": 1}
ROWS: tuple[tuple[str, dict[str, Any], int, str], ...] = (
    ("small, nothing fails", SMALL, 1, ""),
    ("small, at least once, nothing fails", SMALL | {"mode": "at_least_once"}, 1, ""),
    ("large, at least once, nothing fails", LARGE | {"mode": "at_least_once"}, 1, ""),
    ("large, nothing fails", LARGE, 1, ""),
    ("small, barriers overtake, nothing fails", SMALL | OVERTAKES, 1, ""),
    ("one source, barriers overtake, a worker dies", OVERTAKES, 1, "kill"),
    ("large, an acknowledgement comes twice", LARGE, 1, "repeat"),
    ("large, an acknowledgement is lost", LARGE, 1, "lose"),
    ("large, a worker dies", LARGE, 1, "kill"),
    ("large, a checkpoint expires", LARGE, 1, "expire"),
    ("large, a file fails", LARGE, 1, "fail"),
    ("large, nothing fails", LARGE, 2, ""),
    ("large, a worker dies", LARGE, 2, "kill"),
)
FEW = 8
SMALLEST: tuple[tuple[str, dict[str, Any], int, str], ...] = (
    ("one row, nothing fails", {"rows": 1}, 0, ""),
    ("one row, a worker dies", {"rows": 1}, 0, "kill"),
)


def main() -> int:
    """Print a row for each search."""
    smallest, found = options(__doc__).parse_args().smallest, []
    for name, shape, checkpoints, fault in SMALLEST if smallest else ROWS[: int(os.environ.get("WHICH_ROWS", FEW))]:
        env = counts(**shape)
        kinds = [fault] if fault else []
        expected = expected_output(counts(**shape))
        wanted = exactly_once(expected) if fault else (*exactly_once(expected), consistent_checkpoints(expected))
        began_s = time.process_time()
        searched = explore(env, wanted, checkpoints=checkpoints, faults=len(kinds), kinds=kinds)
        example = searched.counterexample
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        violated = "" if example is None else f"{example.property} ({len(example)} steps)"
        facts = (searched.states, searched.transitions, searched.depth, round(time.process_time() - began_s, 1))
        found.append((name, checkpoints, *facts, searched.complete, peak_mb, violated))
    columns = ["job", "asked", "states", "transitions", "depth", "cpu_s", "complete", "peak_mb", "violated"]
    print(pd.DataFrame(found, columns=columns).to_string(index=False))
    return 0

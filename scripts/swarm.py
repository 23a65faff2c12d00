"""`make swarm`: thousands of random trials of jobs in the lab, two at a time; prints what they did and what failed.

python -m scripts.swarm [first] [last]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from multiprocessing import get_context

from kit.lab.swarm import swarm

SEEDS = 3_000
AT_ONCE = 2
PART = 50
"""So many seeds are one process's share at a time."""


def main() -> int:
    """Run them; the number of those that failed."""
    parser = argparse.ArgumentParser(prog="python -m scripts.swarm")
    parser.add_argument("first", nargs="?", type=int, default=0)
    parser.add_argument("last", nargs="?", type=int)
    arguments = parser.parse_args()
    last = arguments.first + SEEDS if arguments.last is None else arguments.last
    parts = [range(at, min(at + PART, last)) for at in range(arguments.first, last, PART)]
    began, trials, steps, failed = time.monotonic(), 0, 0, 0
    happened: Counter[str] = Counter()
    with get_context("spawn").Pool(AT_ONCE) as pool:
        for done, part_steps, part_happened, failures in pool.imap_unordered(_run, parts):
            trials, steps, happened = trials + done, steps + part_steps, happened + part_happened
            failed += len(failures)
            print(*failures, sep="\n\n", end="\n\n" if failures else "")
            print(f"\r{trials} trials, {steps} steps", end="", file=sys.stderr, flush=True)
    print(f"\n{trials} trials, {steps} steps, {time.monotonic() - began:.0f} s; {failed} failed")
    print(", ".join(f"{count} {what}" for what, count in happened.most_common()))
    return min(failed, 1)


def _run(seeds: range) -> tuple[int, int, Counter[str], list[str]]:
    result = swarm(seeds, most_failures=len(seeds))
    return result.trials, result.steps, result.happened, [str(failure) for failure in result.failures]


if __name__ == "__main__":
    sys.exit(main())

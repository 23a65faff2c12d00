"""`make swarm`: thousands of random trials of jobs in the lab, two at a time; prints what they did and what failed.

python -m scripts.swarm [first] [last] [--at-once 1]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from multiprocessing import get_context
from pathlib import Path

from kit.verify.swarm.swarm import swarm

SEEDS = 3_000
AT_ONCE = 2
DIRECTORY = Path("build/swarm")
"""Here is the scenario of each seed that failed."""
PART = 50
"""So many seeds are one process's share at a time."""


def main() -> int:
    """Run them; the number of those that failed."""
    parser = argparse.ArgumentParser(prog="python -m scripts.swarm")
    parser.add_argument("first", nargs="?", type=int, default=0)
    parser.add_argument("last", nargs="?", type=int)
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="so many processes")
    arguments = parser.parse_args()
    last = arguments.first + SEEDS if arguments.last is None else arguments.last
    parts = [range(at, min(at + PART, last)) for at in range(arguments.first, last, PART)]
    began, trials, steps, failed = time.monotonic(), 0, 0, 0
    happened: Counter[str] = Counter()
    with get_context("spawn").Pool(arguments.at_once) as pool:
        for done, part_steps, part_happened, failures in pool.imap_unordered(_run, parts):
            trials, steps, happened = trials + done, steps + part_steps, happened + part_happened
            failed += len(failures)
            for text, path in failures:
                print(
                    f"\n{text}\n{path} has it: make scenarios ARGS={path} runs it; open_scenario({path!r}) opens it\n"
                )
            print(f"\r{trials} trials, {steps} steps", end="", file=sys.stderr, flush=True)
    print(f"\n{trials} trials, {steps} steps, {time.monotonic() - began:.0f} s; {failed} failed")
    print(", ".join(f"{count} {what}" for what, count in happened.most_common()))
    return min(failed, 1)


def _run(seeds: range) -> tuple[int, int, Counter[str], list[tuple[str, str]]]:
    result = swarm(seeds, most_failures=len(seeds))
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    failures = [
        (str(failure), str(failure.save_scenario(DIRECTORY / f"{failure.scenario.name}.scenario")))
        for failure in result.failures
    ]
    return result.trials, result.steps, result.happened, failures


if __name__ == "__main__":
    sys.exit(main())

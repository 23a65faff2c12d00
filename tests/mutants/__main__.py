"""Plant every mutant, or those named, and look for each: `python -m tests.mutants [name ...] [--at-once 1]`.

`make mutants` plants all. Each mutant gets its own process, two at a time. First, every finder must find nothing
in the unchanged kit. The exit status is 1 if a mutant survives, or if a finder finds something without one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from difflib import get_close_matches

from tests.mutants.finders import ByExplore, BySwarm, ByTest, Found, all_pass
from tests.mutants.planting import Mutant, environment
from tests.mutants.table import MUTANTS

AT_ONCE = 2


def main(names: Sequence[str], at_once: int = AT_ONCE) -> int:
    unknown = [name for name in names if name not in MUTANTS]
    if unknown:
        print(f"no mutant is called {unknown[0]!r}; {', '.join(get_close_matches(unknown[0], MUTANTS, 3, 0.3))}?")
        return 2
    mutants = [MUTANTS[name] for name in names] if names else list(MUTANTS.values())
    began = time.monotonic()
    survivors = []
    print(_row("area", "mutant", "steps", "found by", "what it breaks"))
    with ThreadPoolExecutor(at_once) as pool:
        sound = pool.submit(_finds_nothing, mutants)
        for mutant, found in zip(mutants, pool.map(_look, mutants), strict=True):
            by = str(mutant.found_by) if found.found else "NOBODY"
            steps = "" if found.steps is None else str(found.steps)
            print(_row(mutant.area, mutant.name, steps, by, mutant.breaks), flush=True)
            survivors += [] if found.found else [mutant.name]
    print(
        f"{len(mutants) - len(survivors)} of {len(mutants)} mutants found, {time.monotonic() - began:.0f} s"
        + (f"; survivors: {', '.join(survivors)}" if survivors else "")
    )
    if sound.result():
        print(f"without any mutant these find something too: {sound.result()}")
    return 1 if survivors or sound.result() else 0


def _look(mutant: Mutant) -> Found:
    return mutant.found_by.look(environment(mutant))


def _finds_nothing(mutants: Sequence[Mutant]) -> str:
    """Return what the finders find in the unchanged kit; "" if they find nothing."""
    tests = sorted({mutant.found_by.node for mutant in mutants if isinstance(mutant.found_by, ByTest)})
    failed = all_pass(tests, environment(None)) if tests else ""
    swarms = {mutant.found_by for mutant in mutants if isinstance(mutant.found_by, BySwarm)}
    swarmed = [each.look(environment(None)) for each in swarms]
    explorers = {mutant.found_by for mutant in mutants if isinstance(mutant.found_by, ByExplore)}
    explored = [each.look(environment(None)) for each in explorers]
    return failed + " ".join(found.how for found in (*swarmed, *explored) if found.found)


def _row(area: str, name: str, steps: str, found_by: str, breaks: str) -> str:
    test, _, function = found_by.partition("::")
    return f"{area:<12} {name:<32} {steps:>5}  {function or test:<60} {breaks}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="so many processes")
    arguments = parser.parse_args()
    sys.exit(main(arguments.names, arguments.at_once))

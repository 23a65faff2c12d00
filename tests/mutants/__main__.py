"""Plant every mutant, or those named, and look for each: `python -m tests.mutants [name ...]` (`make mutants`).

Each is looked for in a process of its own, two at a time. First every finder must find nothing in the kit as it is.
Ends with status 1 when a mutant survives, or a finder finds something where there is nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from difflib import get_close_matches

from tests.mutants.finders import BySwarm, ByTest, Found, all_pass
from tests.mutants.planting import Mutant, environment
from tests.mutants.table import MUTANTS

AT_ONCE = 2


def main(names: Sequence[str]) -> int:
    unknown = [name for name in names if name not in MUTANTS]
    if unknown:
        print(f"no mutant is called {unknown[0]!r}; {', '.join(get_close_matches(unknown[0], MUTANTS, 3, 0.3))}?")
        return 2
    mutants = [MUTANTS[name] for name in names] if names else list(MUTANTS.values())
    began = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        sound = pool.submit(_finds_nothing, mutants)
        found = dict(zip(mutants, pool.map(_look, mutants), strict=True))
    for row in _table(found):
        print(row)
    survivors = [mutant.name for mutant, what in found.items() if not what.found]
    print(
        f"{len(found) - len(survivors)} of {len(found)} mutants found, {time.monotonic() - began:.0f} s"
        + (f"; survivors: {', '.join(survivors)}" if survivors else "")
    )
    if sound.result():
        print(f"without any mutant these find something too: {sound.result()}")
    return 1 if survivors or sound.result() else 0


def _look(mutant: Mutant) -> Found:
    return mutant.found_by.look(environment(mutant))


def _finds_nothing(mutants: Sequence[Mutant]) -> str:
    """What the finders find in the kit as it is: "" when all is well."""
    tests = sorted({mutant.found_by.node for mutant in mutants if isinstance(mutant.found_by, ByTest)})
    seeds = max((mutant.found_by.seeds for mutant in mutants if isinstance(mutant.found_by, BySwarm)), default=0)
    failed = all_pass(tests, environment(None)) if tests else ""
    swarm = BySwarm(seeds).look(environment(None)) if seeds else Found(False, "")
    return failed + (swarm.how if swarm.found else "")


def _table(found: dict[Mutant, Found]) -> list[str]:
    rows = [("area", "mutant", "breaks", "found by", "steps")]
    for mutant, what in found.items():
        by = str(mutant.found_by) if what.found else "nobody"
        rows.append((mutant.area, mutant.name, mutant.breaks, by, "" if what.steps is None else str(what.steps)))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

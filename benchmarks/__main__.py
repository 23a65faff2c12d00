"""Measure: `python -m benchmarks` runs every benchmark, `python -m benchmarks <name> ...` those named.

What begins with a dash, and all behind it, is passed on. Every benchmark knows `--smallest`: it then runs once at its
smallest size, as in the tests, to show that it runs.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path


def names() -> list[str]:
    """The benchmarks there are: modules beside this one without an underscore before their name, and packages."""
    here = Path(__file__).parent
    packages = [path.parent.name for path in here.glob("*/__main__.py")]
    return sorted(packages + [path.stem for path in here.glob("*.py") if not path.stem.startswith("_")])


def module(name: str) -> str:
    """What is imported for a benchmark."""
    package = Path(__file__).parent / name / "__main__.py"
    return f"benchmarks.{name}.__main__" if package.exists() else f"benchmarks.{name}"


def main() -> int:
    """Runs them one after the other; gives how many failed, or 2 for a name that is none."""
    given = sys.argv[1:]
    own = next((at for at, word in enumerate(given) if word.startswith("-")), len(given))
    wanted = given[:own] or names()
    unknown = [name for name in wanted if name not in names()]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are {', '.join(names())}", file=sys.stderr)
        return 2
    failed = 0
    sys.argv = [sys.argv[0], *given[own:]]
    for name in wanted:
        print(f"--- {name}", flush=True)
        failed += bool(import_module(module(name)).main())
    return failed


if __name__ == "__main__":
    sys.exit(main())

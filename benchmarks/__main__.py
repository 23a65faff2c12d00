"""Measure: `python -m benchmarks` runs every benchmark, `python -m benchmarks <name> ...` those named.

The first argument that begins with a dash, and all after it, are passed to the benchmark. With `--smallest`, every
benchmark runs once at its smallest size, as in the tests, to show that it runs.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path


def names() -> list[str]:
    """Return the names of the benchmarks: the packages and modules beside this one, except those with an underscore."""
    here = Path(__file__).parent
    packages = [path.parent.name for path in here.glob("*/__main__.py")]
    return sorted(packages + [path.stem for path in here.glob("*.py") if not path.stem.startswith("_")])


def module(name: str) -> str:
    """Return the name of the module of a benchmark."""
    package = Path(__file__).parent / name / "__main__.py"
    return f"benchmarks.{name}.__main__" if package.exists() else f"benchmarks.{name}"


def main() -> int:
    """Run the benchmarks one after the other; return the number that failed, or 2 for an unknown name."""
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

"""Measure: `python -m benchmarks` runs every benchmark, `python -m benchmarks <name> ...` those named."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path


def names() -> list[str]:
    """The benchmarks there are: every module beside this one that does not begin with an underscore."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))


def main() -> int:
    """Runs them one after the other; gives how many failed, or 2 for a name that is none."""
    wanted = sys.argv[1:] or names()
    unknown = [name for name in wanted if name not in names()]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are {', '.join(names())}", file=sys.stderr)
        return 2
    failed = 0
    sys.argv = sys.argv[:1]
    for name in wanted:
        print(f"--- {name}", flush=True)
        failed += bool(import_module(f"benchmarks.{name}").main())
    return failed


if __name__ == "__main__":
    sys.exit(main())

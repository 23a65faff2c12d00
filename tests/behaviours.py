"""The behaviours pinned by Flink's tests that our tests pin too: `make behaviours`.

The catalogue is tests/data/flink/behaviours.csv: one row for each test method of Flink that concerns checkpointing. A
test of ours says what it pins with `@pytest.mark.flink("Class.method")` (several names in one mark are fine, and a mark
may be on a module, a class, a function or a `pytest.param`). Marks are read from the source, without a test run.
Behaviours that cannot be pinned, because the kit lacks the feature, are in behaviours_not_pinned.csv with the reasons.
"""

from __future__ import annotations

import argparse
import ast
import csv
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
CATALOGUE = HERE / "data" / "flink" / "behaviours.csv"
NOT_PINNED = HERE / "behaviours_not_pinned.csv"


@dataclass(frozen=True, slots=True)
class Mark:
    """One name in one `flink` mark, and where it stands; name None: not written out."""

    where: str
    name: str | None


def catalogue() -> dict[str, str]:
    """Map each behaviour, `Class.method`, to its area, in the catalogue's order."""
    with CATALOGUE.open(encoding="utf-8", newline="") as rows:
        return {f"{row['class']}.{row['method']}": row["area"] for row in csv.DictReader(rows)}


def reasons() -> dict[str, str]:
    """Map each behaviour that cannot be pinned here to the reason."""
    with NOT_PINNED.open(encoding="utf-8", newline="") as rows:
        return {f"{row['class']}.{row['method']}": row["reason"] for row in csv.DictReader(rows)}


def marks_in(path: str, source: str) -> Iterator[Mark]:
    """Find the `pytest.mark.flink(...)` in one source file."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.flink":
            where = f"{path}:{node.lineno}"
            names = [argument.value if isinstance(argument, ast.Constant) else None for argument in node.args]
            if not names or node.keywords:
                names.append(None)
            for name in names:
                yield Mark(where, name if isinstance(name, str) else None)


def marks() -> list[Mark]:
    """Find all marks under tests/."""
    found: list[Mark] = []
    for path in sorted(HERE.rglob("*.py")):
        found += marks_in(path.relative_to(HERE.parent).as_posix(), path.read_text(encoding="utf-8"))
    return found


def mistakes(found: list[Mark], known: dict[str, str], not_pinned: Collection[str] = ()) -> list[str]:
    """Say which marks, and which reasons for none, name no behaviour of the catalogue; and which have both."""
    wrong = [
        f"{mark.where}: {mark.name or 'a mark whose name is not a plain string'} is not in {CATALOGUE.name}"
        for mark in found
        if mark.name not in known
    ]
    pinned = {mark.name for mark in found}
    wrong += [f"{NOT_PINNED.name}: {name} is not in {CATALOGUE.name}" for name in not_pinned if name not in known]
    wrong += [f"{NOT_PINNED.name}: {name} is pinned all the same" for name in not_pinned if name in pinned]
    return wrong


def report(
    found: list[Mark], known: dict[str, str], why_not: Mapping[str, str] | None = None, *, name_missing: bool = False
) -> str:
    """Return a table of behaviours pinned, area by area; `why_not` gives reasons where there are some.

    With `name_missing`, those that are not pinned are named, with the reason.
    """
    why_not = why_not or {}
    pinned = {mark.name for mark in found}
    by_area: dict[str, list[str]] = defaultdict(list)
    for name, area in known.items():
        by_area[area].append(name)
    lines = []
    for area, names in by_area.items():
        missing = [name for name in names if name not in pinned]
        excused = sum(name in why_not for name in missing)
        lines.append(f"{_counts(len(names) - len(missing), len(names), excused)}  {area}")
        lines += [f"{'':15}{name}{': ' * (name in why_not)}{why_not.get(name, '')}" for name in missing if name_missing]
    together = _counts(len(pinned & known.keys()), len(known), len(why_not.keys() - pinned))
    return "\n".join([*lines, f"{together}  together"])


def _counts(pinned: int, all_: int, excused: int) -> str:
    return f"{pinned:4} of {all_:4}{f', {excused:3} cannot be' if excused else '':16}"


def main() -> int:
    """Print the report; 1 when a mark names what is not in the catalogue."""
    parser = argparse.ArgumentParser(prog="python -m tests.behaviours", description=main.__doc__)
    parser.add_argument("-v", "--verbose", action="store_true", help="name the behaviours that no test pins")
    arguments = parser.parse_args()
    found, known, why_not = marks(), catalogue(), reasons()
    print(report(found, known, why_not, name_missing=arguments.verbose))
    wrong = mistakes(found, known, why_not)
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Plant random faults of the kinds that tests with only one of a thing miss: `make hunt ARGS="kit/run --seed 7"`.

One fault at a time is planted, in a copy of the tree, and the tests next to it run until one fails. What was found out
is kept in `build/hunt`, so a hunt that was interrupted resumes. A survivor is printed with its change: strengthen the
tests, or simplify code that makes a difference which nothing observes. A fault that changes nothing is no survivor.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from difflib import unified_diff
from functools import cache
from itertools import islice
from pathlib import Path

from tests.mutants.fragments import Fragment
from tests.mutants.kinds import KINDS, Kind
from tests.mutants.planting import Fault, MutantError, environment

ROOT = Path(__file__).parents[2]
PATIENCE = 500
"""So many draws in a row may give no new fault."""
SKIPPED = re.compile(r"tests/(mutants|house|interop|benchmarks)/|jupyterlab")
"""Tests of the tree itself, and those that are too slow to be run for each fault."""


@dataclass(frozen=True)
class Place:
    """A fault that can be planted, with the line that it changes."""

    path: str
    line: int
    kind: str
    where: str
    old: str
    new: str

    def fault(self, reached: Path | None = None) -> Fault:
        """Return the fault; the changed code leaves a file in the place `reached` when it runs."""
        new = self.new
        if reached is not None:
            mark = f"open({str(reached)!r}, 'w').close()"
            is_expression = isinstance(ast.parse(self.new).body[0], ast.Expr)
            new = f"{mark} or ({new})" if is_expression else f"{mark}\n{new}"
        return Fault(name=f"{self.path}:{self.line}", where=self.where, old=self.old, new=new)

    def __str__(self) -> str:
        changes = unified_diff(self.old.splitlines(), self.new.splitlines(), n=0, lineterm="")
        lines = [f"{line[0]} {line[1:]}" for line in changes if not line.startswith(("---", "+++", "@@"))]
        head = f"{self.path}:{self.line} {self.where.partition(':')[2]} ({self.kind.replace('_', ' ')})"
        return "\n    ".join([head, *lines])


@cache
def places(path: str) -> list[Place]:
    """Return every fault that can be planted in the functions of a file."""
    source = (ROOT / path).read_text("utf-8")
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    try:
        known = vars(importlib.import_module(module))
    except ImportError:  # a module of an extra that is not installed
        return []
    return [
        Place(path, line, kind.__name__, f"{module}:{name}", old, new)
        for name, function in _functions(ast.parse(source), "")
        for line, kind, old, new in _faults(function, known)
        if _can_be_planted(Fault(name=path, where=f"{module}:{name}", old=old, new=new))
    ]


def _functions(within: ast.Module | ast.ClassDef, prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in within.body:
        if isinstance(node, ast.FunctionDef):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")


def _faults(function: ast.FunctionDef, known: dict[str, object]) -> Iterator[tuple[int, Kind, str, str]]:
    """Yield each fault with its line: the smallest fragment around it that is in the function once, and what it
    becomes.
    """
    for body in function.body:
        above = {child: (owner, name) for owner in ast.walk(body) for name, child in _children(owner)}
        for node in ast.walk(body):
            for kind in KINDS:
                for changed in kind(node, function):
                    old, new = node, changed
                    while old is not None and not _is_once(old, function, known):
                        old, new = _widened(old, new, above)
                    if old is not None and ast.unparse(old) != ast.unparse(new):
                        yield node.lineno, kind, ast.unparse(old), ast.unparse(new)


def _children(owner: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for name, value in ast.iter_fields(owner):
        yield from (
            (name, each) for each in (value if isinstance(value, list) else [value]) if isinstance(each, ast.AST)
        )


def _is_once(node: ast.AST, function: ast.FunctionDef, known: dict[str, object]) -> bool:
    if not isinstance(node, ast.expr | ast.stmt) or isinstance(node, ast.Starred | ast.Slice | ast.FormattedValue):
        return False
    return len(Fragment(ast.unparse(node), known).places(function)) == 1


def _widened(old: ast.AST, new: ast.AST, above: dict[ast.AST, tuple[ast.AST, str]]) -> tuple[ast.AST | None, ast.AST]:
    """Return the node around `old`, and what it becomes; None above a statement."""
    if isinstance(old, ast.stmt) or old not in above:
        return None, new
    owner, name = above[old]
    changed, value = copy.copy(owner), getattr(owner, name)
    setattr(changed, name, [new if each is old else each for each in value] if isinstance(value, list) else new)
    return owner, changed


def _can_be_planted(fault: Fault) -> bool:
    try:
        return fault.code() != fault.function().__code__
    except (MutantError, SyntaxError, TypeError, ValueError, AssertionError, OSError):
        return False


def drawn(paths: Sequence[str], seed: int) -> Iterator[Place]:
    """Yield different faults, each from a file by its number of lines, then of a kind; end when none is new."""
    chance, seen, in_vain = random.Random(seed), set(), 0
    every = sorted(str(each.relative_to(ROOT)) for each in ROOT.rglob("*.py"))
    files = [path for path in every if path.startswith(tuple(paths))]
    lines = [len((ROOT / path).read_text("utf-8").splitlines()) for path in files]
    while files and in_vain < PATIENCE:
        path, kind = chance.choices(files, lines)[0], chance.choice(KINDS).__name__
        of_kind = [each for each in places(path) if each.kind == kind]
        place = chance.choice(of_kind) if of_kind else None
        in_vain = 0 if of_kind and place not in seen else in_vain + 1
        if place is not None and place not in seen:
            seen.add(place)
            yield place


def nearest_tests(path: str) -> list[list[str]]:
    """Return the files of tests for a file, the nearest group first: its namesakes, its package's, those that import
    it, and those that use its names.
    """
    stem, module = Path(path).stem, path.removesuffix(".py").replace("/", ".")
    package = Path("tests", *Path(path).parent.parts[path.startswith("kit/") :])
    while not (ROOT / package).is_dir():
        package = package.parent
    named = {each.name for each in ast.parse((ROOT / path).read_text("utf-8")).body if hasattr(each, "name")}
    names = re.compile(rf"\b({'|'.join(sorted(each for each in named if not each.startswith('_'))) or module})\b")
    groups: list[list[str]] = [[], [], [], []]
    for test in sorted(str(each.relative_to(ROOT)) for each in (ROOT / "tests").rglob("test_*.py")):
        text = (ROOT / test).read_text("utf-8")
        is_near = test.startswith(f"{package}/") and package != Path("tests")
        conditions = (is_near and (stem in test or f"{module} import" in text), is_near, f"{module} import" in text)
        rank = next((rank for rank, holds in enumerate((*conditions, names.search(text))) if holds), None)
        if rank is not None and not SKIPPED.search(test):
            groups[rank].append(test)
    return [group for group in groups if group]


def look(place: Place, limit_s: float) -> tuple[str, str]:
    """Run the nearest tests with the fault: "killed" and by which test, "survived", "not reached" or "out of time"."""
    with tempfile.TemporaryDirectory() as directory:
        reached = Path(directory) / "reached"
        planted = environment(place.fault(reached))
        for tests in nearest_tests(place.path):
            began = os.times().elapsed
            output = _pytest(tests, planted, limit_s)
            failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", output or "", re.M)
            if output is not None and failed and _pytest([failed[1]], environment(None), limit_s + 60) != "":
                return "broken without it", failed[1]
            if failed:
                return "killed", failed[1]
            limit_s -= os.times().elapsed - began
            if output is None or limit_s <= 0:
                return ("out of time" if reached.exists() else "not reached in time"), ""
        return ("survived" if reached.exists() else "not reached"), ""


def _pytest(tests: Sequence[str], variables: dict[str, str], limit_s: float) -> str | None:
    """Run tests until one fails; "" if they pass, None if the time is over."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    command += ["-m", "not soak and not spark and not signals"]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**variables, "HYPOTHESIS_PROFILE": "ci"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return None
    return "" if process.returncode in (0, 5) else output


def hunt(paths: Sequence[str], seed: int, count: int, limit_s: float, results: Path) -> int:
    """Look for `count` faults, but not again for those in `results`; return how many were not found."""
    results.parent.mkdir(parents=True, exist_ok=True)
    lines = results.read_text("utf-8").splitlines() if results.exists() else []
    known = {Place(**each["place"]): (each["verdict"], each["by"]) for each in map(json.loads, lines)}
    verdicts: Counter[str] = Counter()
    for place in islice(drawn(paths, seed), count):
        if place not in known:
            known[place] = verdict, by = look(place, limit_s)
            with results.open("a", encoding="utf-8") as out:
                print(json.dumps({"place": asdict(place), "verdict": verdict, "by": by}), file=out)
        verdict, by = known[place]
        verdicts[verdict] += 1
        print(f"{verdict:<12} {place if verdict != 'killed' else str(place).splitlines()[0]} {by}", flush=True)
    print(", ".join(f"{number} {verdict}" for verdict, number in verdicts.most_common()))
    return sum(verdicts.values()) - verdicts["killed"]


def main() -> int:
    """Copy the tree's files, and hunt in the copy."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.hunt")
    parser.add_argument("paths", nargs="*", default=["kit", "widgets"], help="what the paths of the files begin with")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=40, help="so many faults")
    parser.add_argument("--limit", type=float, default=120, help="seconds for each fault")
    parser.add_argument("--results", type=Path, help="a file of results; only in the copy")
    arguments = parser.parse_args()
    if arguments.results:
        return min(hunt(arguments.paths, arguments.seed, arguments.count, arguments.limit, arguments.results), 1)
    results = ROOT / "build/hunt" / f"{'+'.join(arguments.paths).replace('/', '.')}-{arguments.seed}.jsonl"
    with tempfile.TemporaryDirectory(prefix="hunt-") as copied:
        for path in subprocess.check_output(
            ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True
        ).split("\n"):
            if (ROOT / path).is_file():
                (Path(copied) / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / path, Path(copied) / path)
        command = [sys.executable, "-m", "tests.mutants.hunt", *sys.argv[1:], "--results", str(results)]
        return subprocess.run(command, cwd=copied, env={**os.environ, "PYTHONPATH": copied}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

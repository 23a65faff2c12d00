"""The grading of a submitted notebook: the student's cells run in their process, and the checks in this one.

A graded cell is `check.<name>(...)`, with names and plain values as arguments. It is read, not executed: so a notebook
cannot replace a check. Cells that are neither locked nor graded are the student's; an error in one is reported by the
checks that miss its names.
"""

from __future__ import annotations

import ast
import hashlib
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from kit.course.classroom.checking import NotYet, Passed
from kit.course.classroom.searching import use_seed
from kit.course.grading.parts import part_of
from kit.course.grading.student import Student, StudentError

MAGIC = re.compile(r"^\s*[%!]")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Verdict:
    """The result of one check: its points, and what it says."""

    name: str
    points: float
    most: float
    text: str

    @property
    def passed(self) -> bool:
        """True if the check has passed."""
        return self.points > 0


def seed_of(student_id: str, course: str = "") -> int:
    """Return the seed of the hidden tests of a student; `course` should be known to teachers only."""
    return int.from_bytes(hashlib.blake2b(f"{course}/{student_id}".encode(), digest_size=6).digest(), "big") | 1


def grade(notebook: Mapping[str, Any], checks: str, *, seed: int = 0) -> dict[str, Verdict]:
    """Grade a notebook whose locked cells are the teacher's, with the checks of `kit.course.classroom.<checks>`.

    `seed` chooses the hidden tests; 0 leaves them out. Raises ValueError for a notebook without graded cells: it would
    have no points, whatever it says.
    """
    if not any(map(_is_graded, notebook["cells"])):
        raise ValueError(
            f"no cell of this notebook has a mark of nbgrader, so nothing in it can be graded: expected a copy of the "
            f"lab {checks.replace('_', '-')} as `kit course` or nbgrader hands it out. Put the answers into such a copy"
        )
    module = import_module(f"kit.course.classroom.{checks}")
    verdicts: dict[str, Verdict] = {}
    use_seed(seed)
    try:
        with Student() as student:
            errors = list(_run(student, notebook))
            for cell in notebook["cells"]:
                mark = _mark(cell)
                if not _is_graded(cell):
                    continue
                most = float(mark["points"])
                text, passed = _checked(module, checks, student, _text(cell), errors)
                verdicts[mark["grade_id"]] = Verdict(mark["grade_id"], most if passed else 0, most, text)
    finally:
        use_seed(0)
    return verdicts


def _run(student: Student, notebook: Mapping[str, Any]) -> Iterator[str]:
    """Run the imports of the teacher's cells and all of the student's, in order; yield the errors."""
    for number, cell in enumerate(notebook["cells"], 1):
        if cell["cell_type"] != "code" or _mark(cell).get("grade"):
            continue
        locked = _mark(cell).get("locked")
        text = _imports(_text(cell)) if locked else _text(cell)
        lines = ["" if MAGIC.match(line) else line for line in text.splitlines()]
        try:
            student.run("\n".join(lines), f"cell {number}")
        except Exception as error:
            if _mark(cell).get("solution") and "is not written yet" not in str(error):
                yield str(error) if isinstance(error, StudentError) else f"{type(error).__name__}: {error}"


def _imports(text: str) -> str:
    """Return the imports of a cell."""
    found = [node for node in ast.parse(text).body if isinstance(node, ast.Import | ast.ImportFrom)]
    return "\n".join(ast.unparse(node) for node in found)


def _checked(module: Any, checks: str, student: Student, text: str, errors: list[str]) -> tuple[str, bool]:
    """Carry out a check; return what it says, and whether it has passed."""
    try:
        check, names = _read(module, text)
        given = [part_of(student, checks, each.id) if isinstance(each, ast.Name) else each.value for each in names]
        found = check(*given)
    except Exception as error:
        return "\n".join([str(error), *(f"Before that: {each}" for each in errors[:3])]), False
    if not isinstance(found, Passed):
        return "The check has no result.", False
    return repr(found), True


def _read(module: Any, text: str) -> tuple[Callable[..., Passed], list[Any]]:
    """Return the check that a graded cell calls, and its arguments. Raises NotYet for a cell that is something else."""
    try:
        (statement,) = ast.parse(text).body
        call: Any = statement.value  # type: ignore[attr-defined]
        assert isinstance(call, ast.Call)
        assert not call.keywords
        name = ast.unparse(call.func).removeprefix("check.")
        assert ast.unparse(call.func) == f"check.{name}"
        assert not name.startswith("_")
        assert all(isinstance(each, ast.Name | ast.Constant) for each in call.args)
        found = getattr(module, name)
        assert found.__module__ == module.__name__
    except (AssertionError, AttributeError, SyntaxError, ValueError):
        raise NotYet(f"The graded cell is {text!r}. Expected: `check.<name>(...)`, as in the lab.") from None
    return found, call.args


def _is_graded(cell: Any) -> bool:
    """Return True for a check of the teacher's. A cell that a student has added lost its id to nbgrader."""
    return cell["cell_type"] == "code" and bool(_mark(cell).get("grade") and _mark(cell).get("grade_id"))


def _mark(cell: Any) -> Any:
    return cell["metadata"].get("nbgrader", {})


def _text(cell: Any) -> str:
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)

"""The labs and their answers: the solution and other right ones, nothing, and about ten wrong ones each.

`notebooks/labs/source/<lab>/<lab>.ipynb` is a lab with its solution, in nbgrader's format.
`tests/course/classroom/answers/<lab>.toml` has the answers: right ones written in another way, and wrong ones, each
with a check that it fails and a part of the message. `graded` runs a notebook's cells in this process and counts the
points: tests do so with every answer, and `make classroom` with nbgrader itself.
"""

from __future__ import annotations

import ast
import copy
import json
import re
import sys
import tomllib
import zlib
from base64 import b85encode
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LABS = ROOT / "notebooks" / "labs"
ANSWERS = ROOT / "tests" / "course" / "classroom" / "answers"
PLANTED = LABS / "teacher" / "planted_bugs.py"
LOST = LABS / "teacher" / "lost_euro.py"
LOST_EURO = "lost-euro"
JOBS = LABS / "source" / "find-the-bug" / "jobs.py"
TEACHING = ROOT / "docs" / "TEACHING.md"
BEGIN, END = "<!-- labs: written by python -m scripts.labs -->", "<!-- end of labs -->"
SOLUTION = re.compile(r"^(?P<indent> *)### BEGIN SOLUTION\n.*?### END SOLUTION$", re.DOTALL | re.MULTILINE)
SOLUTION_MARK = re.compile(r"^ *### (?:BEGIN|END) SOLUTION\n?", re.MULTILINE)
EMPTY = r"\g<indent># YOUR CODE HERE\n\g<indent>raise NotImplementedError()"
"""What students get in place of the solution."""
NOTHING = "nothing"
RIGHT = "solution"


@dataclass(frozen=True)
class Answer:
    """An answer to a lab: the solution with `edits` (old and new text), or all of it written as `code`.

    A wrong answer gets `points`; `check` is one that fails, with a message that contains `says`. `thinks` is the idea
    behind it. Right answers get all points.
    """

    name: str
    points: int = 0
    edits: Sequence[Sequence[str]] = ()
    code: str = ""
    check: str = ""
    says: str = ""
    thinks: str = ""


@dataclass
class Lab:
    """A lab: its source notebook, and the answers to grade it with."""

    name: str
    notebook: dict[str, Any]
    right: list[Answer]
    wrong: list[Answer]

    @property
    def points(self) -> dict[str, int]:
        """The points of each check, by its name."""
        return _points(self.notebook)

    @property
    def checks(self) -> str:
        """The module of the lab's checks."""
        return self.name.replace("-", "_")

    @property
    def title(self) -> str:
        """The lab's title."""
        return text_of(self.notebook["cells"][0]).partition("\n")[0].removeprefix("# ")

    @property
    def number(self) -> int:
        """The lab's number in the course."""
        return int(self.title.removeprefix("Lab ").partition(":")[0])

    @property
    def answers(self) -> list[Answer]:
        """The solution, no answer, the other right ones, and the wrong ones."""
        return [Answer(RIGHT, sum(self.points.values())), Answer(NOTHING), *self.right, *self.wrong]

    def of(self, seed: int) -> Lab:
        """Return the lab with the solution of the student with this seed, if each student has a case of their own."""
        if self.name != LOST_EURO:
            return self
        notebook = copy.deepcopy(self.notebook)
        for cell in notebook["cells"]:
            if cell["metadata"].get("nbgrader", {}).get("solution"):
                answer = teachers(LOST)["answer_to"](seed).as_code
                cell["source"] = SOLUTION.sub(f"### BEGIN SOLUTION\n{answer}### END SOLUTION", text_of(cell))
        return replace(self, notebook=notebook)

    def is_right(self, answer: Answer) -> bool:
        """Return True if the answer deserves all points."""
        return answer.name == RIGHT or answer in self.right

    def handed_in(self, answer: Answer) -> dict[str, Any]:
        """Return the notebook with this answer. Raises ValueError if an edit does not fit the solution once."""
        notebook = copy.deepcopy(self.notebook)
        found = [0] * len(answer.edits)
        for cell in notebook["cells"]:
            if not cell["metadata"].get("nbgrader", {}).get("solution"):
                continue
            text = text_of(cell)
            if answer.name == NOTHING:
                text = SOLUTION.sub(EMPTY, text)
            elif answer.code:
                text = answer.code.strip("\n")
            else:
                for number, (old, new) in enumerate(answer.edits):
                    old = old if old in text else SOLUTION_MARK.sub("", old)
                    found[number] += text.count(old)
                    text = text.replace(old, new)
                text = SOLUTION_MARK.sub("", text)
            cell["source"] = text
        wrong = [number for number, times in enumerate(found) if times != 1 and not answer.code]
        if wrong:
            old = answer.edits[wrong[0]][0]
            raise ValueError(f"{self.name}, {answer.name}: the solution has {found[wrong[0]]} times {old!r}, not once")
        return notebook


@dataclass(frozen=True)
class Cheat:
    """A cheater's submission for a lab: `code` in the solution's cell, after a cell `before`; or edits.

    It gets no points for `check`, or for any check. Its process has `seconds` of CPU time, and is waited for `waits`
    seconds in all. `mark` is nbgrader's metadata of the cell `before`.
    """

    name: str
    lab: str
    code: str = ""
    before: str = ""
    edits: Sequence[Sequence[str]] = ()
    check: str = ""
    seconds: int = 60
    waits: int = 600
    mark: Mapping[str, Any] = field(default_factory=dict)

    def handed_in(self, lab: Lab) -> dict[str, Any]:
        """Return the notebook with the cheat."""
        if self.edits:
            return lab.handed_in(Answer(self.name, edits=self.edits))
        notebook = lab.handed_in(Answer(NOTHING))
        empty = next(cell for cell in notebook["cells"] if cell["metadata"].get("nbgrader", {}).get("solution"))
        empty["source"] = self.code.replace("{empty}", text_of(empty)).replace("{root}", str(ROOT))
        if self.before:
            metadata = {"nbgrader": dict(self.mark)} if self.mark else {}
            notebook["cells"].insert(0, {"cell_type": "code", "metadata": metadata, "source": self.before})
        return notebook


@dataclass
class Graded:
    """The result of an answer: the points of each check, and the messages of those that failed."""

    points: dict[str, int] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """All points."""
        return sum(self.points.values())


def _points(notebook: dict[str, Any]) -> dict[str, int]:
    marks = [cell["metadata"].get("nbgrader", {}) for cell in notebook["cells"]]
    return {mark["grade_id"]: mark["points"] for mark in marks if mark.get("grade")}


def labs() -> Iterator[Lab]:
    """All labs, in their order in the course."""
    found = []
    for path in LABS.glob("source/*/*.ipynb"):
        if path.parent.name != path.stem:
            continue
        notebook = json.loads(path.read_text("utf-8"))
        answers = tomllib.loads((ANSWERS / f"{path.stem}.toml").read_text("utf-8"))
        full = sum(_points(notebook).values())
        right = [Answer(points=full, **each) for each in answers.get("right", [])]
        found.append(Lab(path.stem, notebook, right, [Answer(**each) for each in answers["wrong"]]))
    yield from sorted(found, key=lambda lab: lab.number)


def cheats() -> Iterator[Cheat]:
    """Return all cheats."""
    found = tomllib.loads((ANSWERS / "cheats.toml").read_text("utf-8"))["cheat"]
    return (Cheat(**each) for each in found)


def text_of(cell: dict[str, Any]) -> str:
    """A cell's source."""
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)


def released(lab: Lab) -> str:
    """Return a lab's notebook as students get it: what they write is left out.

    The marks of nbgrader stay: by them a grader finds the cells of a submission that was made from this copy.
    """
    notebook = json.loads(json.dumps(lab.notebook))
    for cell in notebook["cells"]:
        cell["source"] = SOLUTION.sub(EMPTY, text_of(cell))
        # By its tag, a check that fails lets "Run All" continue.
        cell["metadata"] = {key: cell["metadata"][key] for key in ("tags", "nbgrader") if key in cell["metadata"]}
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    return json.dumps(notebook, ensure_ascii=False)


def use_teachers_answers() -> None:
    """Let the checks of labs 8 and 10 know the answers, as a grader does."""
    from kit.course.classroom.find_the_bug import use_jobs
    from kit.course.classroom.lost_euro import use_cases

    use_jobs(*jobs_and_answers())
    use_cases(teachers(LOST)["answer_to"])


@cache
def teachers(path: Path) -> dict[str, Any]:
    """Return the names of a module that only teachers have."""
    module = ModuleType(path.stem)
    sys.modules[path.stem] = module  # its dataclasses look for it there
    exec(compile(path.read_text("utf-8"), str(path), "exec"), module.__dict__)
    return module.__dict__


def jobs_and_answers() -> tuple[Any, dict[str, tuple[str, str]]]:
    """Return the function that makes the jobs of lab 8, and what is wrong in each."""
    module = teachers(PLANTED)
    return module["make"], module["ANSWERS"]


def graded(notebook: dict[str, Any], only: Collection[str] | None = None) -> Graded:
    """Run the notebook's cells in this process, with all checks or `only` some; an error ends its cell."""
    names: dict[str, Any] = {"__name__": "__main__"}
    found = Graded()
    if str(JOBS.parent) not in sys.path:
        sys.path.append(str(JOBS.parent))  # a notebook imports what is beside it
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] != "code":
            continue
        mark = cell["metadata"].get("nbgrader", {})
        if only is not None and ((mark.get("grade") and mark["grade_id"] not in only) or "explored(" in text_of(cell)):
            continue
        try:
            exec(compile(text_of(cell), f"cell {number}", "exec"), names)
        except Exception as error:
            if mark.get("grade"):
                found.points[mark["grade_id"]] = 0
                found.said[mark["grade_id"]] = " ".join(f"{type(error).__name__}: {error}".split())
        else:
            if mark.get("grade"):
                found.points[mark["grade_id"]] = mark["points"]
    return found


def guide() -> str:
    """Return what a teacher needs to know of each lab, as Markdown: the points, what students think, what they see."""
    lines: list[str] = []
    for lab in labs():
        points = ", ".join(f"`{name}` {worth}" for name, worth in lab.points.items())
        lines += [f"### {lab.title}", "", f"Points: {points}.", ""]
        lines += ["| wrong answer | what the student thinks | a check that fails | what it says |", "|---|---|---|---|"]
        for answer in lab.wrong:
            cells = (answer.name, answer.thinks, f"`{answer.check}`", f"… {answer.says} …")
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    return "\n".join(lines)


def with_guide(text: str) -> str:
    """Return the teacher's guide with the present part about the labs."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    return f"{before}{begin}\n\n{guide()}\n{end}{after}"


def packed(source: str) -> str:
    """Return a module as students get it: without docstrings, comments, answers and the names of its classes."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    tree.body = [
        node
        for node in tree.body
        if not (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ANSWERS")
        and not isinstance(node, ast.Expr)
    ]
    text = ast.unparse(tree)
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    for number, name in enumerate(sorted(classes, key=len, reverse=True)):
        text = re.sub(rf"\b{name}\b", f"Part{number}", text)
    data = b85encode(zlib.compress(text.encode(), 9)).decode()
    lines = "\n".join(f'    b"{data[at : at + 100]}"' for at in range(0, len(data), 100))
    return f'''"""The jobs of the lab "find the bug": run it, do not read it. The lab is to find what is wrong."""

import zlib
from base64 import b85decode

DATA = (
{lines}
)
exec(zlib.decompress(b85decode(DATA)))
'''


if __name__ == "__main__":
    JOBS.write_text(packed(PLANTED.read_text("utf-8")), "utf-8")
    TEACHING.write_text(with_guide(TEACHING.read_text("utf-8")), "utf-8")

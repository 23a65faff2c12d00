"""The labs and what is handed in for them: the solution, nothing, and five typical wrong answers each.

`notebooks/labs/source/<lab>/<lab>.ipynb` is a lab with its solution, as nbgrader has it;
`notebooks/labs/wrong/<lab>.toml` has the wrong answers, each the solution with one place written otherwise, the
points that it gets, and what the check says that it fails. `graded` runs a notebook's cells in this process, as a
grader would, and counts: tests do so with every answer; `make classroom` does the same with nbgrader itself.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LABS = ROOT / "notebooks" / "labs"
TEACHING = ROOT / "docs" / "TEACHING.md"
BEGIN, END = "<!-- labs: written by python -m scripts.labs -->", "<!-- end of labs -->"
SOLUTION = re.compile(r"^(?P<indent> *)### BEGIN SOLUTION\n.*?### END SOLUTION$", re.DOTALL | re.MULTILINE)
SOLUTION_MARK = re.compile(r"^ *### (?:BEGIN|END) SOLUTION\n?", re.MULTILINE)
NOTHING = "nothing"
RIGHT = "solution"


@dataclass(frozen=True)
class Answer:
    """What somebody hands in: the solution with `old` written as `new`, or nothing. Worth `points`; `check` fails and
    its message has `says` in it. `thinks` is the idea behind it.
    """

    name: str
    points: int
    old: str = ""
    new: str = ""
    check: str = ""
    says: str = ""
    thinks: str = ""


@dataclass
class Lab:
    """A lab: its source notebook and what is handed in."""

    name: str
    notebook: dict[str, Any]
    wrong: list[Answer]

    @property
    def points(self) -> dict[str, int]:
        """What each check is worth, by its name."""
        marks = [cell["metadata"].get("nbgrader", {}) for cell in self.notebook["cells"]]
        return {mark["grade_id"]: mark["points"] for mark in marks if mark.get("grade")}

    @property
    def title(self) -> str:
        """The lab's title."""
        return text_of(self.notebook["cells"][0]).partition("\n")[0].removeprefix("# ")

    @property
    def answers(self) -> list[Answer]:
        """The solution, nothing, and the wrong ones."""
        return [Answer(RIGHT, sum(self.points.values())), Answer(NOTHING, 0), *self.wrong]

    def handed_in(self, answer: Answer) -> dict[str, Any]:
        """The notebook with this answer. Raises ValueError where the solution does not read as the answer says."""
        notebook = copy.deepcopy(self.notebook)
        found = 0
        for cell in notebook["cells"]:
            if not cell["metadata"].get("nbgrader", {}).get("solution"):
                continue
            text = text_of(cell)
            if answer.name == NOTHING:
                text = SOLUTION.sub(r"\g<indent># YOUR CODE HERE\n\g<indent>raise NotImplementedError()", text)
            else:
                text = SOLUTION_MARK.sub("", text)
                found += text.count(answer.old) if answer.old else 0
                text = text.replace(answer.old, answer.new) if answer.old else text
            cell["source"] = text
        if answer.old and found != 1:
            raise ValueError(
                f"{self.name}, {answer.name}: the solution has {found} times {answer.old!r}, expected once"
            )
        return notebook


@dataclass
class Graded:
    """What an answer came to: the points of each check, and what the checks said that failed."""

    points: dict[str, int] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """All points."""
        return sum(self.points.values())


def labs() -> Iterator[Lab]:
    """All labs, in their order in the course."""
    found = []
    for path in LABS.glob("source/*/*.ipynb"):
        if path.parent.name != path.stem:
            continue
        notebook = json.loads(path.read_text("utf-8"))
        wrong = tomllib.loads((LABS / "wrong" / f"{path.stem}.toml").read_text("utf-8"))["answer"]
        found.append(Lab(path.stem, notebook, [Answer(**each) for each in wrong]))
    yield from sorted(found, key=lambda lab: lab.title)


def text_of(cell: dict[str, Any]) -> str:
    """A cell's source."""
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)


def graded(notebook: dict[str, Any]) -> Graded:
    """Run the notebook's cells in this process; an error ends a cell, not the notebook."""
    names: dict[str, Any] = {"__name__": "__main__"}
    found = Graded()
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] != "code":
            continue
        mark = cell["metadata"].get("nbgrader", {})
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
    """What a teacher has to know of each lab, as Markdown: the points, what students think, what they see."""
    lines: list[str] = []
    for lab in labs():
        points = ", ".join(f"`{name}` {worth}" for name, worth in lab.points.items())
        lines += [f"### {lab.title}", "", f"Points: {points}.", ""]
        lines += ["| wrong answer | what the student thinks | points | check | what it says |", "|---|---|---|---|---|"]
        for answer in lab.wrong:
            cells = (answer.name, answer.thinks, str(answer.points), f"`{answer.check}`", f"… {answer.says} …")
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    return "\n".join(lines)


def with_guide(text: str) -> str:
    """The teacher's guide with the labs' part as it is now."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    return f"{before}{begin}\n\n{guide()}\n{end}{after}"


if __name__ == "__main__":
    TEACHING.write_text(with_guide(TEACHING.read_text("utf-8")), "utf-8")

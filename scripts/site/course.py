"""The pages about the course: the index of notebooks, and the labs as students get them.

`docs/site/course.toml` has the question, the goal and the prerequisites of each notebook.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scripts.labs import Lab, labs, released, text_of
from scripts.site import notebooks
from scripts.site.api import ROOT

COURSE = ROOT / "docs" / "site" / "course.toml"
WORDS_PER_MINUTE, MINUTES_PER_CELL, ROUNDED_TO = 180, 0.5, 5
LABS_PAGE = """# The labs

In a lab you write one part of the protocol, or find a bug in it. Each is a class hour and ten points. A check explains
what is wrong, and shows the run in which it happened.

`kit course DIRECTORY` copies the notebooks from the wheel. In a class with nbgrader, a teacher hands them out.
[In a class](../guide/classroom.md) says how to install what they need, and [the teacher's guide](../guide/teaching.md)
how they are graded.
"""
MINUTES = re.compile(r"\{\{minutes ([\d ]+)\}\}")


def index(course: list[Path]) -> str:
    """Return the page that lists the notebooks: question, minutes, goal, and what comes before."""
    about = tomllib.loads(COURSE.read_text("utf-8"))
    rows = "\n".join(_row(path, about[path.stem]) for path in course)
    toc = "\n".join(path.stem for path in course)
    return (
        "# The course\n\nEach notebook opens with a question, and ends with questions and with what to try. Here you "
        "read them. `make lab` opens them in a checkout, and `kit course DIRECTORY` copies them from the wheel. The "
        "minutes are those of reading the text and the cells; the experiments at the end come on top.\n\n"
        "New to checkpointing? Read 00 to 04 and 08 in this order: about three hours. In production? Begin with 16 and "
        "17. The [labs](../labs/index.md) go with the notebooks.\n\n"
        "| notebook | question | minutes | afterwards you can | read before |\n|---|---|---|---|---|\n"
        f"{rows}\n\n```{{toctree}}\n:hidden:\n\n{toc}\n```\n"
    )


def _row(path: Path, about: dict[str, Any]) -> str:
    before = "<br>".join(f"[{name.partition('-')[0]}]({name}.ipynb)" for name in about["needs"])
    number, title = path.stem.partition("-")[0], notebooks.title_of(path)
    cells = (
        f"[{number} {title}]({path.name})",
        about["question"],
        str(minutes(path)),
        about["goal"],
        before or "nothing",
    )
    return f"| {' | '.join(cells)} |"


def minutes(path: Path) -> int:
    """Return the minutes that a notebook takes: its words at a calm pace, and its cells, rounded."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    words = sum(len(text_of(cell).split()) for cell in cells if cell["cell_type"] == "markdown")
    code = sum(cell["cell_type"] == "code" for cell in cells)
    exact = words / WORDS_PER_MINUTE + code * MINUTES_PER_CELL
    return max(ROUNDED_TO, round(exact / ROUNDED_TO) * ROUNDED_TO)


def with_minutes(text: str) -> str:
    """Return a page with the sum of the minutes of notebooks, by their numbers, for each `{{minutes 02 03}}`."""
    by_number = {path.stem.partition("-")[0]: path for path in (ROOT / "notebooks").glob("*.ipynb")}
    return MINUTES.sub(lambda found: str(sum(minutes(by_number[each]) for each in found[1].split())), text)


def lab_pages() -> Iterator[tuple[str, str]]:
    """Yield the labs as students get them, without their solutions, and the page that lists them."""
    found = list(labs())
    for lab in found:
        yield f"labs/{lab.name}.ipynb", released(lab)
    rows = "\n".join(f"| [{lab.title}]({lab.name}.ipynb) | {question_of(lab)} | {_checks(lab)} |" for lab in found)
    toc = "\n".join(lab.name for lab in found)
    yield (
        "labs/index.md",
        f"{LABS_PAGE}\n| lab | question | checks |\n|---|---|---|\n{rows}\n\n```{{toctree}}\n:hidden:\n\n{toc}\n```\n",
    )


def question_of(lab: Lab) -> str:
    """Return the question with which a lab begins."""
    return text_of(lab.notebook["cells"][0]).split("\n\n")[1].replace("\n", " ")


def _checks(lab: Lab) -> str:
    return ", ".join(f"`{name}`" for name in lab.points)

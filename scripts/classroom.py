"""Give out the labs, hand in every answer and grade them with nbgrader itself: `make classroom`.

    build/classroom/course/release/      what students get: generated from notebooks/labs/source
    build/classroom/course/submitted/    that, with each answer in place of what it asks for
    build/classroom/course/autograded/   what nbgrader made of it; feedback/ is what a student gets back

Prints the points of each answer, check by check, and ends in an error when they are not those that the answers say.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scripts.labs import LABS, NOTHING, RIGHT, ROOT, Answer, Graded, Lab, labs, text_of

COURSE = ROOT / "build" / "classroom" / "course"
CONFIG = """\
c = get_config()  # noqa
c.CourseDirectory.course_id = "checkpoints"
c.ExecutePreprocessor.timeout = 120
"""


def nbgrader(*arguments: str) -> None:
    """Run nbgrader in the course; what it says is shown when it fails."""
    environ = os.environ | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(ROOT),
        "TQDM_DISABLE": "1",  # what is written to stderr costs all points of its cell
    }
    command = [sys.executable, "-m", "nbgrader", *arguments]
    ran = subprocess.run(command, cwd=COURSE, env=environ, capture_output=True, check=False, text=True)
    if ran.returncode:
        print(ran.stderr[-4000:], file=sys.stderr)
        raise SystemExit(f"nbgrader {' '.join(arguments)} failed")


def student(answer: Answer) -> str:
    """Who hands this in."""
    return answer.name.replace(" ", "-")


def given_out(chosen: list[Lab]) -> None:
    """Make the course anew, and the students' versions."""
    shutil.rmtree(COURSE, ignore_errors=True)
    COURSE.mkdir(parents=True)
    (COURSE / "nbgrader_config.py").write_text(CONFIG, "utf-8")
    for lab in chosen:
        shutil.copytree(LABS / "source" / lab.name, COURSE / "source" / lab.name)
        nbgrader("generate_assignment", lab.name, "--create", "--force")


def handed_in(lab: Lab, answer: Answer) -> None:
    """A student's version, with the answer where it asks for one."""
    notebook = json.loads((COURSE / "release" / lab.name / f"{lab.name}.ipynb").read_text("utf-8"))
    if answer.name != NOTHING:
        answered = {_id(cell): text_of(cell) for cell in lab.handed_in(answer)["cells"] if _is_solution(cell)}
        for cell in notebook["cells"]:
            if _is_solution(cell):
                cell["source"] = answered[_id(cell)]
    path = COURSE / "submitted" / student(answer) / lab.name / f"{lab.name}.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(notebook), "utf-8")


def _is_solution(cell: dict[str, Any]) -> bool:
    return bool(cell["metadata"].get("nbgrader", {}).get("solution"))


def _id(cell: dict[str, Any]) -> str:
    return str(cell["metadata"]["nbgrader"]["grade_id"])


def came_to(lab: Lab, answer: Answer) -> Graded:
    """What nbgrader's gradebook has, and what the checks said in the notebook that it ran."""
    from nbgrader.api import Gradebook

    found = Graded()
    with Gradebook(f"sqlite:///{COURSE / 'gradebook.db'}") as book:
        submission = book.find_submission_notebook(lab.name, lab.name, student(answer))
        for grade in submission.grades:
            found.points[grade.name] = int(grade.score)
    ran = json.loads((COURSE / "autograded" / student(answer) / lab.name / f"{lab.name}.ipynb").read_text("utf-8"))
    for cell in ran["cells"]:
        for output in cell.get("outputs", []):
            if output["output_type"] == "error":
                found.said[_id(cell)] = " ".join(output["evalue"].split())
    return found


def faults(lab: Lab, answer: Answer, found: Graded) -> Iterator[str]:
    """Say where nbgrader and the answer differ."""
    if found.total != answer.points:
        yield f"{lab.name}, {answer.name}: {found.total} points, expected {answer.points}: {found.said}"
    if answer.says not in found.said.get(answer.check, ""):
        said = found.said.get(answer.check)
        yield f"{lab.name}, {answer.name}: {answer.check} says {said!r}, expected {answer.says!r}"


def main(names: list[str]) -> None:
    """Give out, hand in, grade, and print."""
    chosen = [lab for lab in labs() if not names or lab.name in names]
    given_out(chosen)
    wrong: list[str] = []
    for lab in chosen:
        for answer in lab.answers:
            handed_in(lab, answer)
        nbgrader("autograde", lab.name)
        nbgrader("generate_feedback", lab.name)
        print(f"\n{lab.title}\n  {'':36}{''.join(f'{name:>16}' for name in lab.points)}{'points':>10}")
        for answer in lab.answers:
            found = came_to(lab, answer)
            row = "".join(f"{found.points[name]:>12} / {most}" for name, most in lab.points.items())
            print(f"  {answer.name:36}{row}{found.total:>10}")
            wrong += faults(lab, answer, found)
    print(f"\n{len(chosen)} labs; student versions in {COURSE.relative_to(ROOT)}/release")
    if wrong:
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main([name for name in sys.argv[1:] if name not in (RIGHT, NOTHING)])

"""Give out the labs, submit every answer and every cheat, and grade them with nbgrader itself: `make classroom`.

    build/classroom/courses/<lab>/release/      what students get: generated from notebooks/labs/source
    build/classroom/courses/<lab>/submitted/    that, with each answer in place of what it asks for
    build/classroom/courses/<lab>/autograded/   what nbgrader made of it; feedback/ is what a student gets back

Prints the points of each answer, check by check, and the seconds. Ends in an error if a right answer does not get all
points, if a wrong answer passes its check or receives another message, or if a cheat gets a point. Labs are graded in
parallel.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kit.course.grading.notebooks import seed_of
from scripts.labs import LABS, NOTHING, RIGHT, ROOT, Graded, Lab, cheats, labs, text_of

COURSES = ROOT / "build" / "classroom" / "courses"
CONFIG = """\
import sys

c = get_config()  # noqa
sys.path.insert(0, {root!r})
from kit.course.grading import student
from kit.course.grading.nbgrader import use
from scripts.labs import use_teachers_answers

student.CPU_SECONDS, student.WAIT_SECONDS = {limits}
use_teachers_answers()
use(c, course={secret!r})
c.CourseDirectory.course_id = "checkpoints"
c.CourseDirectory.root = {course!r}
"""
COURSE = "a secret of make classroom"
"""What the hidden tests of each student depend on."""
LIMITS = (40, 90)
"""The seconds of CPU time and of waiting for a submission: some cheats take all they get."""
AT_ONCE = 2
LONGEST = "find-the-bug"
"""The lab that takes longest: the others are graded beside it."""


def nbgrader(course: Path, *arguments: str, may_reject: bool = False) -> None:
    """Run nbgrader in a course; its messages are shown if it fails. With `may_reject`, it may reject submissions."""
    environ = os.environ | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-m", "nbgrader", *arguments]
    ran = subprocess.run(command, cwd=course, env=environ, capture_output=True, check=False, text=True)
    if ran.returncode and not may_reject:
        print(ran.stderr[-4000:], file=sys.stderr)
        raise SystemExit(f"nbgrader {' '.join(arguments)} failed")


def student(name: str) -> str:
    """Return the id of the student who submits this."""
    return "".join(letter if letter.isalnum() else "-" for letter in name)


def seed(name: str) -> int:
    """Return the seed of the student who submits this."""
    return seed_of(student(name), COURSE)


def submissions(lab: Lab) -> dict[str, dict[str, Any]]:
    """Return the notebook that each student submits, by the name of the answer or cheat."""
    found = {answer.name: lab.of(seed(answer.name)).handed_in(answer) for answer in lab.answers}
    return found | {cheat.name: cheat.handed_in(lab) for cheat in cheats() if cheat.lab == lab.name}


def prepare(lab: Lab) -> Path:
    """Make a course of this lab, its student version, and all submissions; return its directory."""
    course = COURSES / lab.name
    course.mkdir(parents=True)
    (course / "nbgrader_config.py").write_text(
        CONFIG.format(root=str(ROOT), course=str(course), secret=COURSE, limits=LIMITS), "utf-8"
    )
    shutil.copytree(LABS / "source" / lab.name, course / "source" / lab.name)
    nbgrader(course, "generate_assignment", lab.name, "--create", "--force")
    release = course / "release" / lab.name / f"{lab.name}.ipynb"
    assert "BEGIN SOLUTION" not in release.read_text("utf-8"), f"{release} has a solution"
    for name, notebook in submissions(lab).items():
        if name not in _rejected(lab):
            submit(course, lab, name, json.loads(release.read_text("utf-8")), notebook)
    return course


def _rejected(lab: Lab) -> list[str]:
    """Return the cheats with graded cells of their own: nbgrader rejects them, and all others in the same call."""
    return [cheat.name for cheat in cheats() if cheat.lab == lab.name and cheat.mark]


def submit_rejected(course: Path, lab: Lab) -> None:
    """Submit and grade, each by itself, what nbgrader may reject; a submission that it rejects has no points."""
    release = course / "release" / lab.name / f"{lab.name}.ipynb"
    for name in _rejected(lab):
        submit(course, lab, name, json.loads(release.read_text("utf-8")), submissions(lab)[name])
        nbgrader(course, "autograde", lab.name, f"--student={student(name)}", may_reject=True)


def submit(course: Path, lab: Lab, name: str, released: dict[str, Any], answered: dict[str, Any]) -> None:
    """Write a submission: the student's version with the answer's cells, and the cells that the answer adds."""
    texts = {_id(cell): text_of(cell) for cell in answered["cells"] if _is_solution(cell)}
    added = [cell for cell in answered["cells"] if "id" not in cell]
    for cell in released["cells"]:
        if _is_solution(cell) and name != NOTHING:
            cell["source"] = texts[_id(cell)]
    for number, cell in enumerate(added):
        full = {"id": f"added-{number}", "execution_count": None, "outputs": []} | cell
        released["cells"].insert(number, full)
    path = course / "submitted" / student(name) / lab.name / f"{lab.name}.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(released), "utf-8")


def _is_solution(cell: dict[str, Any]) -> bool:
    return bool(cell["metadata"].get("nbgrader", {}).get("solution"))


def _id(cell: dict[str, Any]) -> str:
    return str(cell["metadata"]["nbgrader"]["grade_id"])


def graded(course: Path, lab: Lab, name: str) -> Graded:
    """Return what nbgrader's gradebook has, and what the checks said in the graded notebook."""
    from nbgrader.api import Gradebook, MissingEntry

    found = Graded()
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as book:
        try:
            submission = book.find_submission_notebook(lab.name, lab.name, student(name))
        except MissingEntry:
            return found
        for grade in submission.grades:
            found.points[grade.name] = int(grade.score)
    path = course / "autograded" / student(name) / lab.name / f"{lab.name}.ipynb"
    cells = json.loads(path.read_text("utf-8"))["cells"] if path.exists() else []
    for cell in cells:
        for output in cell.get("outputs", []):
            if output["output_type"] == "error":
                found.said[_id(cell)] = " ".join(output["evalue"].split())
    return found


def faults(lab: Lab, name: str, found: Graded) -> Iterator[str]:
    """Yield where the points or messages are not those that the submission deserves."""
    here = f"{lab.name}, {name}:"
    cheat = next((each for each in cheats() if each.name == name), None)
    if cheat is not None:
        if found.points.get(cheat.check, found.total):
            yield f"{here} a cheat has {found.total} points"
        return
    answer = next(each for each in lab.answers if each.name == name)
    if lab.is_right(answer):
        if found.points != lab.points:
            yield f"{here} {found.total} points, expected all: {found.said}"
    elif name == NOTHING:
        if found.total:
            yield f"{here} {found.total} points, expected none"
    elif found.points.get(answer.check) or answer.says not in found.said.get(answer.check, ""):
        yield f"{here} {answer.check} says {found.said.get(answer.check)!r}, expected {answer.says!r}"


def grade(lab: Lab) -> tuple[str, list[str]]:
    """Grade all submissions of a lab; return the table, and what is wrong."""
    begun = time.monotonic()
    course = prepare(lab)
    nbgrader(course, "autograde", lab.name)
    submit_rejected(course, lab)
    nbgrader(course, "generate_feedback", lab.name, f"--student={student(NOTHING)}")
    table = [f"\n{lab.title}\n  {'':44}{''.join(f'{name:>16}' for name in lab.points)}{'points':>10}"]
    wrong: list[str] = []
    for name in submissions(lab):
        found = graded(course, lab, name)
        row = "".join(f"{found.points.get(check, 0):>12} / {most}" for check, most in lab.points.items())
        table.append(f"  {name:44}{row}{found.total:>10}")
        wrong += faults(lab, name, found)
    table.append(f"  {len(submissions(lab))} submissions in {time.monotonic() - begun:.0f} s")
    return "\n".join(table), wrong


def main(names: list[str]) -> None:
    """Give out, submit, grade, and print."""
    begun = time.monotonic()
    shutil.rmtree(COURSES, ignore_errors=True)
    chosen = [lab for lab in labs() if not names or lab.name in names]
    wrong: list[str] = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        first = sorted(chosen, key=lambda lab: lab.name != LONGEST)
        running = {lab.name: pool.submit(grade, lab) for lab in first}
        for lab in chosen:
            table, faulty = running[lab.name].result()
            print(table, flush=True)
            wrong += faulty
    where = COURSES.relative_to(ROOT)
    print(f"\n{len(chosen)} labs in {time.monotonic() - begun:.0f} s; student versions in {where}/<lab>/release")
    if wrong:
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main([name for name in sys.argv[1:] if name not in (RIGHT, NOTHING)])

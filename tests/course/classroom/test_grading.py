"""Grading in a process of its own: cheats get no points, and messages on stderr cost none.

`make classroom` does the same with nbgrader, with every answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kit.course.grading import student
from kit.course.grading.notebooks import grade, seed_of
from scripts.labs import NOTHING, RIGHT, Answer, Cheat, Lab, cheats, labs, released, use_teachers_answers

LABS = {lab.name: lab for lab in labs()}
CHEATS = list(cheats())


@pytest.fixture(autouse=True)
def _answers() -> None:
    use_teachers_answers()


def _graded(lab: Lab, notebook: dict[str, Any], only: str = "", seed: int = 0) -> dict[str, Any]:
    if only:
        cells = notebook["cells"]
        notebook = {
            "cells": [each for each in cells if _mark(each).get("grade_id") == only or not _mark(each).get("grade")]
        }
    return grade(notebook, lab.checks, seed=seed)


def _mark(cell: dict[str, Any]) -> dict[str, Any]:
    return cell["metadata"].get("nbgrader", {})


@pytest.mark.parametrize("cheat", CHEATS, ids=[cheat.name for cheat in CHEATS])
def test_a_cheat_gets_no_points(cheat: Cheat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(student, "CPU_SECONDS", cheat.seconds)
    monkeypatch.setattr(student, "WAIT_SECONDS", cheat.waits, raising=False)
    lab = LABS[cheat.lab]
    found = _graded(lab, cheat.handed_in(lab), only=cheat.check)
    assert found
    assert all(verdict.points == 0 for verdict in found.values()), found


def _quick() -> Iterator[Any]:
    for lab in LABS.values():
        for answer in [lab.answers[0], *lab.right]:
            check = {"find-the-bug": "third"}.get(lab.name, next(iter(lab.points)))
            yield pytest.param(lab, answer, check, id=f"{lab.name}, {answer.name}")


@pytest.mark.parametrize(("lab", "answer", "check"), list(_quick()))
def test_a_right_answer_passes_whatever_it_logs(lab: Lab, answer: Answer, check: str) -> None:
    seed = seed_of("anna")
    found = _graded(lab, lab.of(seed).handed_in(answer), only=check, seed=seed)
    assert found[check].points == lab.points[check], found[check].text


def test_what_is_not_written_is_told_with_its_line() -> None:
    lab = LABS["master-hook"]
    nothing = next(answer for answer in lab.answers if answer.name == NOTHING)
    found = grade(lab.handed_in(nothing), lab.checks)
    assert {verdict.points for verdict in found.values()} == {0}
    assert "`trigger_checkpoint`, line 17 of its cell, is not written yet." in found["value"].text


def test_a_helper_in_a_cell_of_the_students_own_counts() -> None:
    lab = LABS["pending-checkpoint"]
    notebook = lab.handed_in(
        Answer("uses a helper", edits=[['            return "DUPLICATE"', "            return again()"]])
    )
    helper = {"cell_type": "code", "metadata": {}, "source": "%matplotlib inline\ndef again():\n    return 'DUPLICATE'"}
    notebook["cells"].insert(2, helper)
    assert _graded(lab, notebook, only="duplicate")["duplicate"].points == 2


def handed_out(lab: Lab, answer: Answer) -> dict[str, Any]:
    """Return the copy of `kit course` with the cells of an answer."""
    texts = {_mark(cell).get("grade_id"): cell["source"] for cell in lab.handed_in(answer)["cells"]}
    notebook: dict[str, Any] = json.loads(released(lab))
    for cell in notebook["cells"]:
        if _mark(cell).get("solution"):
            cell["source"] = texts[_mark(cell)["grade_id"]]
    return notebook


@pytest.mark.parametrize("name", LABS)
def test_a_copy_that_the_course_hands_out_is_graded(name: str) -> None:
    lab = LABS[name]
    copy = handed_out(lab, Answer(RIGHT))
    assert {_mark(cell)["grade_id"] for cell in copy["cells"] if _mark(cell).get("grade")} == lab.points.keys()
    check = {"find-the-bug": "third"}.get(name, next(iter(lab.points)))
    assert _graded(lab, copy, only=check)[check].points == lab.points[check]


def test_a_copy_without_marks_is_refused() -> None:
    lab = LABS["master-hook"]
    copy = handed_out(lab, Answer(RIGHT))
    for cell in copy["cells"]:
        cell["metadata"].pop("nbgrader", None)
    with pytest.raises(ValueError, match=r"no cell of this notebook has a mark of nbgrader.*the lab master-hook"):
        grade(copy, lab.checks)


def test_each_student_has_a_seed() -> None:
    assert seed_of("anna", "2026") != seed_of("ben", "2026")
    assert seed_of("anna", "2026") != seed_of("anna", "2027")
    assert seed_of("anna") == seed_of("anna") != 0


def test_a_graded_cell_is_read_and_not_run() -> None:
    lab = LABS["pending-checkpoint"]
    notebook = json.loads(json.dumps(lab.handed_in(Answer(RIGHT))))
    for cell in notebook["cells"]:
        if _mark(cell).get("grade"):
            cell["source"] = "print('passed')"
    assert {verdict.points for verdict in grade(notebook, lab.checks).values()} == {0}


REFUSED = (
    "import gc",
    "import _posixsubprocess",
    "import readline",
    "import resource",
    "import signal",
    "import numpy",
    "open('/etc/passwd')",
    "import os\nopen(os.__file__)",
    "import os\nos.remove('/tmp/none')",
    "import os\nos.rename('/tmp/none', '/tmp/other')",
    "import os\nos.fork()",
    "import os\nos.mkfifo('/tmp/none/none')",
    "import os\nos.pidfd_open(os.getppid())",
    "import os\nos.kill(os.getppid(), 9)",
    "import os\nos.setuid(0)",
    "import sys\nsys.modules['_signal'].raise_signal(9)",
    "import sys\nsys.modules['_imp'].create_builtin",
    "import sys\nsys.meta_path.clear()\nimport gc",
)


def test_a_part_computes_and_does_nothing_else() -> None:
    with student.Student() as process:
        for code in REFUSED:
            with pytest.raises(
                student.StudentError, match=r"raised (ImportError|ModuleNotFoundError|PermissionError|AttributeError)"
            ):
                process.run(code, "cell")
        process.run("import random, math, collections, re, logging, dataclasses, heapq, sys, os", "cell")
        process.run(
            "LOADED = [each for each in ('gc', 'subprocess', 'socket', 'ctypes') if each in sys.modules]", "cell"
        )
        assert process.value("LOADED") == []


@pytest.mark.parametrize(
    "call", ["1 / 0", "check.first(undefined)", "check.no_such_check()", "check.", "raise SystemError"]
)
def test_an_error_outside_the_check_gives_no_points(call: str) -> None:
    """The graded cell was changed, or its arguments cannot be made: no check has said that the answer is right."""
    lab = next(each for each in LABS.values() if each.right)
    notebook = lab.of(seed_of("anna")).handed_in(lab.right[0])
    changed = 0
    for cell in notebook["cells"]:
        if _mark(cell).get("grade") and cell["cell_type"] == "code":
            cell["source"] = call
            changed += 1
    found = _graded(lab, notebook, seed=seed_of("anna"))
    assert len(found) == changed > 0
    assert all(verdict.points == 0 for verdict in found.values()), found

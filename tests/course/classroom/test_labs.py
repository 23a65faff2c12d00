"""The labs as a class hands them in: right answers get all points, no answer gets none, wrong ones fail their check.

Cells run in this process; `make classroom` does the same with nbgrader. Slow explorations are left to the longer run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from kit.course.classroom.checking import NotYet
from kit.course.classroom.find_the_bug import Steps, explored, job, names, wanted
from kit.hosts.lab.lab import Lab as KitLab
from kit.stream.graph.job_graph import JobGraph
from kit.verify.explore import Exploration, always, explore
from scripts.labs import (
    JOBS,
    NOTHING,
    PLANTED,
    RIGHT,
    SOLUTION,
    TEACHING,
    Answer,
    Lab,
    graded,
    labs,
    packed,
    text_of,
    use_teachers_answers,
    with_guide,
)

LABS = list(labs())
EXPLORES = "find-the-bug"
QUICK = ("witness", "third", "third-step")
"""The checks of the lab that explores which take less than a second or two."""
LONG = ("align-barriers", "two-phase-sink", "unaligned-capture")
"""The labs whose checks run many jobs: there only the solution passes all checks each time."""
BUGS = ("first", "second", "third")


@pytest.fixture(autouse=True)
def _answers() -> None:
    use_teachers_answers()


def _wrong() -> Iterator[ParameterSet]:
    for lab in LABS:
        for answer in lab.wrong:
            late = lab.name == EXPLORES and answer.check not in QUICK
            yield pytest.param(lab, answer, id=f"{lab.name}, {answer.name}", marks=[pytest.mark.soak] if late else [])


def _right() -> Iterator[ParameterSet]:
    for lab in LABS:
        for answer in lab.answers:
            if lab.is_right(answer):
                late = lab.name == EXPLORES or (lab.name in LONG and answer.name != RIGHT)
                yield pytest.param(
                    lab, answer, id=f"{lab.name}, {answer.name}", marks=[pytest.mark.soak] if late else []
                )


@pytest.mark.parametrize(("lab", "answer"), list(_wrong()))
def test_a_wrong_answer_fails_with_its_message(lab: Lab, answer: Answer) -> None:
    found = graded(lab.handed_in(answer), only=[answer.check])
    assert found.points == {answer.check: 0}
    assert found.said[answer.check].startswith("NotYet: "), found.said
    assert answer.says in found.said[answer.check], found.said


@pytest.mark.filterwarnings("ignore:a b:UserWarning")
@pytest.mark.parametrize(("lab", "answer"), list(_right()))
def test_a_right_answer_gets_all_points(lab: Lab, answer: Answer) -> None:
    found = graded(lab.handed_in(answer))
    assert not found.said
    assert found.points == lab.points


@pytest.mark.parametrize("lab", LABS, ids=[lab.name for lab in LABS])
def test_no_answer_gets_no_points_and_is_told_what_is_missing(lab: Lab) -> None:
    nothing = next(answer for answer in lab.answers if answer.name == NOTHING)
    found = graded(lab.handed_in(nothing))
    assert found.total == 0
    assert set(found.said) == set(lab.points)
    assert all("not written yet" in said for said in found.said.values()), found.said


def test_what_is_explored_before_it_is_written_is_told_in_words() -> None:
    def find(job: JobGraph) -> Exploration:
        raise NotImplementedError

    with pytest.raises(NotYet, match=r"`find`, line [0-9]+ of its cell, is not written yet"):
        explored(find, "first")


@pytest.mark.parametrize("lab", LABS, ids=[lab.name for lab in LABS])
def test_a_lab_is_ten_points_and_about_ten_wrong_answers(lab: Lab) -> None:
    assert sum(lab.points.values()) == 10
    assert len(lab.right) >= 2
    assert len(lab.wrong) >= 10
    assert len({answer.name for answer in lab.answers}) == len(lab.answers)
    cells = lab.notebook["cells"]
    assert any(SOLUTION.search(text_of(cell)) for cell in cells)
    assert any("<details>" in text_of(cell) for cell in cells)
    marks = [cell["metadata"]["nbgrader"] for cell in cells if "nbgrader" in cell["metadata"]]
    assert len({mark["grade_id"] for mark in marks}) == len(marks)
    assert all(mark["locked"] for mark in marks if mark["grade"])


@pytest.mark.parametrize("lab", LABS, ids=[lab.name for lab in LABS])
def test_run_all_continues_behind_a_check_that_fails(lab: Lab) -> None:
    cells = [cell for cell in lab.notebook["cells"] if cell["metadata"].get("nbgrader", {}).get("grade")]
    assert all("raises-exception" in cell["metadata"].get("tags", []) for cell in cells)


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_does_not_show_in_an_ordinary_run(name: str) -> None:
    for seed in range(4):
        lab = KitLab(job(name), seed=seed)
        lab.run()
        assert Counter(tuple(row.items()) for row in lab.output().to_dict("records")) == wanted(name)


def test_steps_of_a_counterexample_have_the_numbers_of_the_lab() -> None:
    never = always("two rows are published", lambda now: len(now.output()) == 0)
    found = explore(job("third"), [never], checkpoints=1, faults=0, progress=False)
    assert found.counterexample is not None
    steps = Steps("third", found.counterexample)
    last = int(steps.text.splitlines()[-2].split()[0])
    assert steps.lab().position == last
    assert steps.lab(last - 3).position == last - 3


def test_a_counterexample_that_the_bug_does_not_cause_is_told() -> None:
    def find(job: JobGraph) -> Exploration:
        return explore(job, [always("never runs", lambda now: now.status != "RUNNING")], checkpoints=0, faults=0)

    with pytest.raises(NotYet, match="sound job breaks «never runs» as well"):
        names(find, "third", 5, "sink")


def test_the_jobs_that_students_get_have_no_answers() -> None:
    assert packed(PLANTED.read_text("utf-8")) == JOBS.read_text("utf-8"), "python -m scripts.labs writes it again"
    module: dict[str, Any] = {}
    exec(compile(JOBS.read_text("utf-8"), "jobs", "exec"), module)
    assert "ANSWERS" not in module
    assert not {"Pending", "Handler", "WrongSink"} & set(module)
    for name in BUGS:
        parts = [module["make"](name, sound).parts.names for sound in (True, False)]
        assert parts[0] == parts[1]


def test_the_teachers_guide_has_them_all() -> None:
    text = TEACHING.read_text("utf-8")
    assert with_guide(text) == text, "python -m scripts.labs writes it again"

"""The labs as a class hands them in: the solution gets all points, nothing gets none, wrong answers what they deserve.

Cells run in this process, one notebook after another; `make classroom` does the same with nbgrader.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from _pytest.mark import ParameterSet

from kit.course.classroom.checking import NotYet
from kit.course.classroom.find_the_bug import explored, job, wanted
from kit.course.classroom.planted_bugs import BUGS
from kit.hosts.lab.lab import Lab as KitLab
from kit.stream.graph.job_graph import JobGraph
from kit.verify.explore import Exploration
from scripts.labs import NOTHING, RIGHT, SOLUTION, TEACHING, Answer, Lab, graded, labs, text_of, with_guide

LABS = list(labs())
EXPLORED = ("find-the-bug",)
ALWAYS = 3
"""So many answers are handed in each time for a lab that explores, which takes some seconds; all in the longer run."""


def _cases() -> Iterator[ParameterSet]:
    for lab in LABS:
        for number, answer in enumerate(lab.answers):
            late = lab.name in EXPLORED and number >= ALWAYS
            yield pytest.param(lab, answer, id=f"{lab.name}, {answer.name}", marks=[pytest.mark.soak] if late else [])


@pytest.mark.parametrize(("lab", "answer"), list(_cases()))
def test_an_answer_gets_its_points_and_a_message(lab: Lab, answer: Answer) -> None:
    found = graded(lab.handed_in(answer))
    assert set(found.points) == set(lab.points)
    assert found.total == answer.points, found.said
    if answer.name == RIGHT:
        assert not found.said
    elif answer.name == NOTHING:
        assert all("not written yet" in said for said in found.said.values()), found.said
    else:
        assert answer.says in found.said[answer.check], found.said
        assert all(said.startswith("NotYet: ") for said in found.said.values()), found.said


def test_what_is_explored_before_it_is_written_is_told_in_words() -> None:
    def find(job: JobGraph) -> Exploration:
        raise NotImplementedError

    with pytest.raises(NotYet, match=r"`find`, line [0-9]+ of its cell, is not written yet"):
        explored(find, "first")


@pytest.mark.parametrize("lab", LABS, ids=[lab.name for lab in LABS])
def test_a_lab_is_ten_points_and_five_wrong_answers(lab: Lab) -> None:
    assert sum(lab.points.values()) == 10
    assert len(lab.wrong) == 5
    assert len({answer.name for answer in lab.wrong}) == 5
    cells = lab.notebook["cells"]
    assert any(SOLUTION.search(text_of(cell)) for cell in cells)
    assert any("<details>" in text_of(cell) for cell in cells)
    marks = [cell["metadata"]["nbgrader"] for cell in cells if "nbgrader" in cell["metadata"]]
    assert len({mark["grade_id"] for mark in marks}) == len(marks)
    assert all(mark["locked"] for mark in marks if mark["grade"])


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_does_not_show_in_an_ordinary_run(name: str) -> None:
    for seed in range(4):
        lab = KitLab(job(name), seed=seed)
        lab.run()
        assert Counter(tuple(row.items()) for row in lab.output().to_dict("records")) == wanted(name)


def test_the_teachers_guide_has_them_all() -> None:
    text = TEACHING.read_text("utf-8")
    assert with_guide(text) == text, "python -m scripts.labs writes it anew"

"""The cases of the lab "find the lost euro": one posting is wrong in each, and its books show which."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.course.bank import balances
from kit.course.classroom import lost_euro
from kit.course.classroom.checking import NotYet
from kit.course.classroom.lost_euro import CAUSES, Answer, Case, file_name, open_case
from scripts.labs import LABS, LOST, teachers

SEEDS = (0, 3, 5)
PRACTICE = LABS / "source" / "lost-euro" / "cases" / file_name("practice")


@pytest.fixture(autouse=True)
def _without_a_grader() -> Iterator[None]:
    lost_euro._answer_to.clear()
    lost_euro._open.clear()
    yield
    lost_euro._answer_to.clear()


def _solved(seed: int) -> tuple[Case, Answer]:
    found: Any = teachers(LOST)["solved"](seed)
    return found.case, found.answer


@pytest.mark.parametrize("seed", SEEDS)
def test_the_money_differs_by_the_posting(seed: int) -> None:
    case, answer = _solved(seed)
    assert balances(case.output)["all accounts"] == 400 + answer.euros
    assert abs(answer.euros) == abs(answer.posting[2])
    assert answer.cause in CAUSES.values()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_first_checkpoint_whose_books_are_wrong_has_one_posting_too_many_or_too_few(seed: int) -> None:
    case, answer = _solved(seed)
    wrong = {
        checkpoint: int(case.state(checkpoint)["postings"].sum())
        + len(case.in_flight(checkpoint))
        - 2 * int(case.positions(checkpoint)["position"].sum())
        for checkpoint in case.checkpoints
    }
    assert {checkpoint for checkpoint, by in wrong.items() if checkpoint < answer.checkpoint and by} == set()
    assert abs(wrong[answer.checkpoint]) == 1
    restored = [record.checkpoint_id for record in case.trace if record.kind == "CheckpointRestored"]
    assert restored == [answer.checkpoint]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_event_is_in_the_trace_in_the_task_of_the_account(seed: int) -> None:
    case, answer = _solved(seed)
    state = case.state(answer.checkpoint).set_index("account")
    assert answer.event.startswith(f"{state['task'][answer.posting[1]]}@1#")
    assert any(record.id.startswith(f"{answer.event}.") for record in case.trace)


def test_a_case_in_a_file_is_the_case() -> None:
    case, _ = _solved(0)
    stored = Case.load(PRACTICE)
    again = "python notebooks/labs/teacher/lost_euro.py writes it again"
    assert stored.tables["checkpoints"] == case.tables["checkpoints"], again
    assert [record.id for record in stored.trace] == [record.id for record in case.trace], again


def test_a_students_case_is_not_called_by_the_students_name(tmp_path: Path) -> None:
    paths = list(teachers(LOST)["write"](tmp_path, "a secret", ["anna"]))
    assert [path.name for path in paths] == [file_name("practice"), file_name("anna")]
    assert "anna" not in file_name("anna")
    assert open_case(" Anna", tmp_path).checkpoints
    assert (tmp_path / file_name("anna")).read_bytes() != (tmp_path / file_name("practice")).read_bytes()


def test_a_case_that_is_missing_is_told() -> None:
    with pytest.raises(NotYet, match="is 'nobody' your id"):
        open_case("nobody")


def test_without_a_grader_the_books_of_the_case_decide_and_the_rest_is_left_open() -> None:
    _, answer = _solved(0)
    open_case("practice", PRACTICE.parent)
    assert "destroyed" in repr(lost_euro.counts_the_money(answer.euros))
    assert "is the first one that is wrong" in repr(lost_euro.names_the_checkpoint(answer.checkpoint))
    with pytest.raises(NotYet, match="books are right"):
        lost_euro.names_the_checkpoint(answer.checkpoint - 1)
    for passed in (
        lost_euro.names_the_posting(("east", "ann", -30)),
        lost_euro.names_the_event("accounts/0@1#12"),
        lost_euro.names_the_cause("state not kept"),
    ):
        assert lost_euro.LATER in repr(passed)
    with pytest.raises(NotYet, match="no such record"):
        lost_euro.names_the_event("accounts/0@7#12")


def test_neither_the_package_nor_a_case_has_the_answer() -> None:
    _, answer = _solved(0)
    stored = Case.load(PRACTICE)
    assert set(stored.tables) == {"checkpoints", "output"}
    assert answer.event not in Path(lost_euro.__file__).read_text("utf-8")

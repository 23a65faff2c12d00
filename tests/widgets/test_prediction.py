"""A question with answers to choose from: the right one is shown after the reader has committed to one."""

from __future__ import annotations

import pytest

from kit.course.predictions import QUESTIONS, Question
from widgets import Prediction, predict

BANK = Question("Does the bank still hold < 400 euros?", ("yes", "no"), "no", "Postings were on their way.")


@pytest.mark.parametrize(("chosen", "verdict"), [("no", "Yes."), ("yes", "No: no.")])
def test_the_answer_is_shown_after_the_reader_has_committed_to_one(chosen: str, verdict: str) -> None:
    prediction = Prediction(BANK)
    assert prediction.commit.disabled
    prediction.answers.value = chosen
    assert prediction.verdict.value == "", "nothing is told before the reader commits"
    assert prediction.chosen is None
    prediction.commit.click()
    assert f"<b>{verdict}</b> {BANK.why}</p>" in prediction.verdict.value
    assert repr(prediction) == f"Prediction({BANK.text!r}, chosen: {chosen!r})"
    assert prediction.answers.disabled, "an answer is given once"


def test_without_a_kernel_the_answer_is_in_a_fold() -> None:
    form = Prediction(BANK)._repr_mimebundle_()["text/html"]
    before, _, fold = form.partition("<details>")
    assert "hold &lt; 400 euros?" in before
    assert "<li>yes</li><li>no</li>" in before
    assert BANK.why not in before
    assert f"<b>no.</b> {BANK.why}" in fold


@pytest.mark.parametrize(("answers", "right"), [(["yes"], "yes"), (["yes", "yes"], "yes"), (["yes", "no"], "perhaps")])
def test_a_question_without_a_choice_is_an_error(answers: list[str], right: str) -> None:
    with pytest.raises(ValueError, match="give at least two different answers, with the right one among them"):
        Question("Yes?", tuple(answers), right, "")


def test_an_unknown_question_is_an_error_that_names_the_others() -> None:
    assert predict("a copy of one moment").asked is QUESTIONS["a copy of one moment"]
    with pytest.raises(ValueError, match="no question is called 'a copy': there are 'a copy of one moment', "):
        predict("a copy")

"""A question of the course whose answer is shown once the reader has committed to one.

    predict("a copy of one moment")

Without a kernel it is a list of the answers above a fold.
"""

from __future__ import annotations

import ipywidgets

from kit.core.markup import element
from kit.course.predictions import Question, question
from widgets.base.buttons import button
from widgets.base.static_form import StaysInNotebook

FOLD = "Commit to an answer, then open it"


def predict(name: str) -> Prediction:
    """Return a question of the course to answer. Raises ValueError for an unknown name."""
    return Prediction(question(name))


class Prediction(StaysInNotebook, ipywidgets.VBox):
    """A question with answers to choose from; `chosen` is the one that the reader committed to, None before."""

    def __init__(self, asked: Question) -> None:
        self.asked = asked
        self.chosen: str | None = None
        self.answers = ipywidgets.RadioButtons(options=asked.answers, value=None, layout={"width": "max-content"})
        self.commit = button("Commit", "Show the right answer", self._commit)
        self.commit.disabled = True
        self.verdict = ipywidgets.HTML()
        self.answers.observe(self._choose, "value")
        super().__init__([ipywidgets.HTML(str(element("b", asked.text))), self.answers, self.commit, self.verdict])

    def _choose(self, change: object) -> None:
        self.commit.disabled = self.answers.value is None

    def _commit(self) -> None:
        self.chosen = self.answers.value
        self.answers.disabled = self.commit.disabled = True
        verdict = "Yes." if self.chosen == self.asked.right else f"No: {self.asked.right}."
        self.verdict.value = str(element("p", element("b", verdict), f" {self.asked.why}", style="line-height: 1.5"))

    def _still(self) -> dict[str, str]:
        asked = element("p", element("b", self.asked.text))
        answers = element("ul", *(element("li", answer) for answer in self.asked.answers))
        right = element("p", element("b", f"{self.asked.right}."), f" {self.asked.why}")
        return {"text/html": str(element("div", asked, answers, element("details", element("summary", FOLD), right)))}

    def __repr__(self) -> str:
        chosen = "" if self.chosen is None else f", chosen: {self.chosen!r}"
        return f"Prediction({self.asked.text!r}{chosen})"

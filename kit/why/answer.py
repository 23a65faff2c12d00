"""The answer to a question about a run, as text, as a table and as a picture."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from kit.core.display import Picture, display
from kit.core.html_tables import notebook_html, rows_html
from kit.core.markup import Markup, element
from kit.run.captions import lower_first
from kit.run.durations import duration
from kit.why.fact import Fact, NumberedFact, story

COLUMNS = ["number", "because_of", "at_ms", "machine", "says", "kind", "checkpoint_id", "is_root", "record_id"]


@dataclass(frozen=True, slots=True)
class Why:
    """The answer to a question about a run.

    `str` and `print` give the story, from the question down to the first causes (`roots`); `to_pandas` gives the table,
    `svg` and `dot` the picture.
    """

    question: str
    answer: Fact
    began_ms: int = 0
    """The time at which the run began; times in the story and the picture are relative to it."""
    numbered: tuple[NumberedFact, ...] = field(init=False, repr=False)
    """The facts with their numbers, in the order of the story. A fact occurs once for each fact that it explains."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbered", tuple(story(self.answer, self.began_ms)))

    @property
    def facts(self) -> list[Fact]:
        """All facts, each once, in the order of the story."""
        return [each.fact for each in self.numbered if not each.before]

    @property
    def roots(self) -> list[Fact]:
        """The first causes, in the order of the story."""
        return [fact for fact in self.facts if fact.is_root]

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per fact: number, because_of (the number of the fact that it explains, 0 for the answer),
        at_ms, machine, kind, checkpoint_id and record_id of its record, says, is_root. A fact without a record has
        neither time nor machine.
        """
        frame = pd.DataFrame(map(_row, self.numbered), columns=COLUMNS)
        return frame.astype({"at_ms": "Int64", "checkpoint_id": "Int64"})

    def __str__(self) -> str:
        lines, width = [self.question], len(str(len(self.numbered)))
        for each in self.numbered:
            record = each.fact.record
            when = "" if record is None else f"[{duration(each.at_ms)}, {record.machine}] "
            lines.append(f"{'   ' * each.depth}{each.number:>{width}}. {each.link}{when}{each.says}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Why({self.question!r}, {len(self.facts)} facts)"

    def html(self, *, most: int | None = None, machines: bool = True) -> Markup:
        """Return the story as a table with a row per fact, further to the right if its effect has several causes.

        With `most`, the facts after that many are folded away. Without `machines`, the table has no column for them and
        is narrow enough for a panel.
        """
        first, rest = self.numbered[:most], () if most is None else self.numbered[most:]
        question = element("p", element("b", _with_arrows(self.question)))
        more = element("details", element("summary", f"{len(rest)} more"), _table(rest, machines)) if rest else ""
        return question + _table(first, machines) + more

    def _repr_html_(self) -> str:
        return notebook_html("", self.html())

    def svg(self) -> Picture:
        """Return the picture: the question at the top, each fact in a box below the one that it explains."""
        picture: Picture = display("answer_svg", self)
        return picture

    def dot(self) -> Any:
        """Return the picture as an object of the `graphviz` package, which a notebook shows; `.source` is its text."""
        return display("answer_dot", self)


def _row(each: NumberedFact) -> tuple[object, ...]:
    record, is_root = each.fact.record, each.fact.is_root
    if record is None:
        return each.number, each.because_of, None, "", each.says, "", None, is_root, ""
    at = (record.at_ms, record.machine, each.says, record.kind, record.checkpoint_id)
    return each.number, each.because_of, *at, is_root, record.id


def _table(facts: Iterable[NumberedFact], machines: bool) -> Markup:
    names = ("machine",) if machines else ()
    return rows_html(("", "at", *names, "fact (first causes in bold)"), (_html_row(each, machines) for each in facts))


def _html_row(each: NumberedFact, machines: bool) -> tuple[object, ...]:
    record, says = each.fact.record, _with_arrows(lower_first(each.says) if each.link else each.says)
    at, machine = ("", "") if record is None else (duration(each.at_ms), record.machine)
    shown = element("b", says) if each.fact.is_root else says
    if machines:
        return each.number, at, machine, element("div", each.link, shown, style=f"padding-left:{2 * each.depth}em")
    at = element("span", at, style="white-space:nowrap")
    return each.number, at, element("div", each.link, shown, style=f"padding-left:{each.depth}em")


def _with_arrows(text: str) -> str:
    """Return a text with the arrows of channels as pictures draw them."""
    return text.replace(" -> ", " → ")

"""A block of a play that was played: its prose, what was done and what came of it, and how the job stands then.

In a notebook it is one card to read: the prose, the commands, what each machine took, gave and noted because of them,
and the job at the end of the block.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from html import escape
from itertools import groupby
from operator import itemgetter

from kit.draw.frames import moment_svg
from kit.draw.picture import in_theme
from kit.draw.run import Run
from kit.draw.view_html import fold, view_html
from kit.lab.play_text import Block

STYLE = "played.css"
SIGNS = {"<": "takes", ">": "gives", "*": "notes", "!": "fault"}
"""What the signs of an outcome's lines mean (`kit.lab.play_outcome`)."""
MOST_LINES = 14
"""More lines than this of what came of a block are folded away."""
_LINE = re.compile(r"(\S.*?) +([<>*!]) (.+)")
_CHECKPOINT = re.compile(r"chk-(\d+)")
_KIND = re.compile(r"\b(?!JobMaster\b)(?:[A-Z][a-z]+){2,}\b")
_CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class Played:
    """A block that was played: what stands in the play, what came of it, and the records of the trace (of its last
    lab) from `begin` to `end`. `run` is that lab's run until then, `title` the play's with the number of the block.
    """

    block: Block
    outcome: tuple[str, ...]
    begin: int
    end: int
    run: Run = field(repr=False, compare=False)
    title: str = ""

    @property
    def is_as_told(self) -> bool:
        """Whether the play says what came of it."""
        return self.outcome == self.block.outcome

    def __str__(self) -> str:
        return str(replace(self.block, outcome=self.outcome))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """The card, in the theme's colours; a long list of what came of it is folded away."""
        done = "".join(f"<li>{_marked(command.text)}</li>" for command in self.block.commands)
        did = f'<ol class="p-done" aria-label="what is done">{done}</ol>'
        came, lines = _came(self.outcome), len(self.outcome)
        if lines > MOST_LINES:
            came = fold("What came of it", f"{lines} lines", came)
        picture = in_theme(moment_svg(self.run))
        return view_html(
            self.title or "A block of a play", _prose(self.block.prose), did, came, picture, styles=(STYLE,)
        )


def _prose(text: str) -> str:
    return f'<p class="v-answer">{_CODE.sub(_code, escape(text))}</p>' if text else ""


def _code(found: re.Match[str]) -> str:
    return f"<code>{found[1]}</code>"


def _came(outcome: Sequence[str]) -> str:
    """The records as rows, who beside what; what is not a record (an answer, what was shown) as lines."""
    parts = []
    for who, lines in groupby(map(_split, outcome), key=itemgetter(0)):
        if who:
            told = "".join(f'<div class="p-{sign}"><i>{sign}</i> {_marked(what)}</div>' for _, sign, what in lines)
            parts.append(f'<tr><th scope="row">{escape(who)}</th><td>{told}</td></tr>')
        else:
            said = "".join(f'<p class="p-said">{_marked(what)}</p>' for *_, what in lines)
            parts.append(f'<tr><td colspan="2">{said}</td></tr>')
    return f'<div class="v-scroll"><table class="p-came" aria-label="what comes of it">{"".join(parts)}</table></div>'


def _split(line: str) -> tuple[str, str, str]:
    """Who, takes or gives, and what; a line that is no record's is all "what"."""
    found = _LINE.fullmatch(line)
    return (found[1], SIGNS[found[2]], found[3]) if found else ("", "", line)


def _marked(text: str) -> str:
    """Checkpoints in their colours, Flink's words in bold."""
    shown = _KIND.sub(lambda found: f"<b>{found[0]}</b>", escape(text))
    return _CHECKPOINT.sub(lambda found: f'<span class="p-chk cp{int(found[1]) % 4}">{found[0]}</span>', shown)

"""A block of a play that was played: its prose, what was done and what came of it, and how the job stands then.

In a notebook it is one picture to read: the prose, the job at the end of the block, and the commands with what came of
them for whoever wants to know how it was brought about.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from html import escape

from kit.draw.frames import moment_svg
from kit.draw.run import Run
from kit.draw.view_html import answer, fold, table, view_html
from kit.lab.play_text import Block

SIGNS = {">": "asks", "<": "hears", "*": "notes", "!": "fault"}
"""What the signs in an outcome mean (`kit.lab.play_outcome`)."""


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
        done = "".join(f"<li><code>{escape(command.text)}</code></li>" for command in self.block.commands)
        came = table(["who", "", "what"], [_told(line) for line in self.outcome])
        about = f"{len(self.block.commands)} commands of the play, {len(self.outcome)} lines"
        return view_html(
            self.title or "A block of a play",
            answer(self.block.prose),
            str(moment_svg(self.run)),
            fold("What was done, and what came of it", about, f"<ol>{done}</ol>{came}"),
        )


_LINE = re.compile(r"(\w[\w /,.-]*?) +([<>*!]) (.+)")


def _told(line: str) -> tuple[str, str, str]:
    """A line of an outcome as a row: who, whether that is asked for, heard or noted, and what. What `show` and `why`
    say has no such parts.
    """
    found = _LINE.fullmatch(line)
    return ("", "", line) if found is None else (found[1], SIGNS[found[2]], found[3])

"""A block of a play that was played: its prose, what was done and what came of it, and how the job stands then.

In a notebook it is one card to read: the prose, the commands, what each machine took, gave and noted because of them,
and the job at the end of the block.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kit.core.display import display
from kit.hosts.lab.scenarios.play_text import Block
from kit.run.run import Run


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
        return str(display("played_html", self))

"""A block that was run: its prose, its commands, their outcome, and the state of the job after it.

A notebook shows it as one card: the prose, the commands, the events, commands and notes of each machine that they led
to, and the job at the end of the block.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kit.core.display import display
from kit.hosts.lab.scenarios.scenario_text import Block
from kit.run.run import Run


@dataclass(frozen=True, slots=True)
class BlockRun:
    """A block that was run: its text, its outcome, and the records of its last lab's trace from `begin` to `end`. `run`
    is that lab's run so far, `title` the scenario's title with the number of the block.
    """

    block: Block
    outcome: tuple[str, ...]
    begin: int
    end: int
    run: Run = field(repr=False, compare=False)
    title: str = ""

    def __str__(self) -> str:
        return str(replace(self.block, outcome=self.outcome))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return str(display("block_run_html", self))

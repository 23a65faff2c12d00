"""`docs/state-machines.md`, made from the tables that the machines follow.

    python -m tests.house.figures        writes it

A test compares the file with the present tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kit.core.protocol import tasks
from kit.core.protocol.transitions import Transitions
from kit.machines.coordinator import checkpoint_state
from kit.machines.job import state_transition_manager, status
from kit.machines.task import barrier_states
from tests.house.files import ROOT

PAGE = ROOT / "docs" / "state-machines.md"
TABLES: Mapping[str, Transitions[Any]] = {
    "A job": status.PHASES,
    "A rescale": state_transition_manager.RESCALE_PHASES,
    "A checkpoint": checkpoint_state.TRANSITIONS,
    "A task": tasks.TRANSITIONS,
    "A barrier handler that aligns, overtakes, or does one after the other": barrier_states.TRANSITIONS,
}
"""The tables on the page, by heading."""
INTRODUCTION = """# State machines

Each figure on this page is drawn from the table that the code follows (`kit.core.protocol.transitions`).
`python -m tests.house.figures` writes the page. `table.dot()` returns a figure for Graphviz, `table.to_pandas()` its
transitions as rows. `kit.draw.state_machines(run)` draws the machines and highlights the present states of a run.
[The protocol on one page](protocol.svg) adds the messages, the rules of their recipients and the reasons to abort.
"""


def page() -> str:
    """Return the page of the present tables."""
    return INTRODUCTION + "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    for heading, table in TABLES.items():
        yield ""
        yield f"## {heading}"
        yield ""
        yield "```mermaid"
        yield table.mermaid().rstrip()
        yield "```"
        yield ""
        yield "| state | event | becomes |"
        yield "|---|---|---|"
        for state, event, target in table.to_pandas().itertuples(index=False):
            yield f"| {state} | {event} | {target} |"


if __name__ == "__main__":
    PAGE.write_text(page())
    print(PAGE)

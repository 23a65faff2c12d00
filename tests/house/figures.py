"""`docs/state-machines.md`, made from the tables that the machines go by.

    python -m tests.house.figures        writes it

A test compares the file with what the tables give now.
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
"""What the page shows, by the heading it goes under."""
INTRODUCTION = """# State machines

Each figure is drawn from the table that the code goes by (`kit.core.protocol.transitions`), and so is this page:
`python -m tests.house.figures` writes it anew. `table.dot()` gives a figure to Graphviz, `table.to_pandas()` its steps
as rows. `kit.draw.state_machines(run)` draws them with the states lit that a run is in.
"""


def page() -> str:
    """The page as the tables are now."""
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

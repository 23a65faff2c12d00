"""What a lab shows of a run with several of everything: `python -m tests.hosts.lab.several` writes `several.txt`
again.

At each of its moments: what may happen next, what waits, the faults that may be injected, the state of all tasks, the
queues of all channels, and the summary. After a change, read the output of `git diff`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from kit.hosts.lab import Lab
from kit.hosts.lab.summary import summary
from tests.several_run import moments
from tests.stored_parts import Part, store

STORED = Path(__file__).with_suffix(".txt")


def parts() -> Iterator[Part]:
    """Each part with its lines."""
    for moment, lab, _ in moments():
        yield from ((f"{moment}: {title}", lines) for title, lines in _shown(lab))


def _shown(lab: Lab) -> Iterator[Part]:
    yield "enabled", _rows(lab.enabled().to_pandas())
    yield "waiting", _rows(lab.look.waiting().to_pandas())
    yield "summary", _rows(summary(lab._world))
    yield "checkpoints", _rows(lab.checkpoints())
    faults = lab.faults.possible().to_pandas()
    yield "faults", _rows(faults.iloc[::7])
    for table in lab.state():
        yield f"state {table.title}", _rows(table.to_pandas())
    for number in range(len(lab.look.master.graph.channels)):
        if len(queue := lab.queue(number)):
            yield f"channel {number}", _rows(queue.drop(columns=["timestamp_ms"]))


def _rows(table: pd.DataFrame) -> list[str]:
    return [line.rstrip(",") for line in table.to_csv(index=False).splitlines()]


if __name__ == "__main__":
    store(STORED, parts())

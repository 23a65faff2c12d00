"""A line that shows how far a lab has come, where a run takes longer than a second and somebody looks.

Somebody looks at a terminal, or at a notebook; nobody at a file or a pipe, nor where TQDM_DISABLE is set, as for
notebooks whose output is compared. Nothing of it is in the trace. In a notebook the line empties itself when the run
is over: what is stored then does not tell how slow the machine was, as tqdm's own widget would.
"""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from typing import Any

from kit.files.onlooker import NotebookLine, in_notebook, progress_is_off
from kit.hosts.lab.world.world import World

AFTER_S = 1.0
LOOK_EVERY = 128
"""The clock is read once in this many steps."""
NOTEBOOK_COLUMNS = 100


class Progress:
    """Shows the steps of one run of `world`, from `position` on; a context manager."""

    def __init__(self, world: World, position: int) -> None:
        self._world = world
        self._first = position
        self._next_look = position + LOOK_EVERY
        self._began_s = time.monotonic()
        self._bar: Any = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def step(self, position: int) -> None:
        """One more step was taken."""
        if position >= self._next_look:
            self._next_look = position + LOOK_EVERY
            self._look(position)

    def _look(self, position: int) -> None:
        if self._bar is None:
            if time.monotonic() - self._began_s < AFTER_S or not somebody_looks():
                return
            self._bar = passing_line(
                desc=f"lab {self._world.job.name}",
                unit=" steps",
                initial=position - self._first,
                postfix=told(self._world),
            )
            return
        self._bar.set_postfix_str(told(self._world), refresh=False)
        self._bar.update(position - self._first - self._bar.n)


def told(world: World) -> str:
    """Where the job stands, in a few words."""
    completed = world.master.checkpoints.statistics.counts.completed
    restarts = max(0, world.master.epoch - 1)
    parts = [f"{world.at_ms:,} ms", f"{completed} checkpoint" + "s" * (completed != 1)]
    return ", ".join([*parts, f"{restarts} restart" + "s" * (restarts != 1)] if restarts else parts)


def passing_line(**settings: Any) -> Any:
    """A line of tqdm's that is gone when it is closed; `settings` are tqdm's."""
    from tqdm import tqdm  # not before there is something to show

    if in_notebook():
        return tqdm(file=NotebookLine(), leave=False, ncols=NOTEBOOK_COLUMNS, **settings)
    return tqdm(leave=False, dynamic_ncols=True, **settings)


def somebody_looks() -> bool:
    """Whether this is a terminal or a notebook, and progress is not switched off."""
    if progress_is_off() or find_spec("tqdm") is None:
        return False
    return in_notebook() or (sys.stderr is not None and sys.stderr.isatty())

"""A progress line for runs in the lab that take longer than a second.

It appears in a terminal or a notebook, but not in a file or a pipe, nor if TQDM_DISABLE is set, as for notebooks whose
output is compared. The trace has nothing of it. In a notebook the line is cleared at the end of the run. So, unlike
tqdm's own widget, it does not store the speed of the machine in the notebook.
"""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from typing import Any

from kit.hosts.lab.world.world import World
from kit.hosts.notebook_output import NotebookLine, in_notebook, progress_is_off

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
        """Count one more step."""
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
                postfix=progress_text(self._world),
            )
            return
        self._bar.set_postfix_str(progress_text(self._world), refresh=False)
        self._bar.update(position - self._first - self._bar.n)


def progress_text(world: World) -> str:
    """Return the progress of the job in a few words."""
    completed = world.master.checkpoints.statistics.counts.completed
    restarts = world.master.restarts
    parts = [f"{world.at_ms:,} ms", f"{completed} checkpoint" + "s" * (completed != 1)]
    return ", ".join([*parts, f"{restarts} restart" + "s" * (restarts != 1)] if restarts else parts)


def passing_line(**settings: Any) -> Any:
    """Return a tqdm progress line that is cleared when it is closed; `settings` are tqdm's."""
    from tqdm import tqdm  # import tqdm only when there is something to show

    if in_notebook():
        return tqdm(file=NotebookLine(), leave=False, ncols=NOTEBOOK_COLUMNS, **settings)
    return tqdm(leave=False, dynamic_ncols=True, **settings)


def somebody_looks() -> bool:
    """Return True in a terminal or a notebook, unless progress is disabled."""
    if progress_is_off() or find_spec("tqdm") is None:
        return False
    return in_notebook() or (sys.stderr is not None and sys.stderr.isatty())

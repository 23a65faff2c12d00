"""The cell of a notebook that is running, and its current line.

In a notebook a cell is run more than once, changed or not, and each run replaces everything that its earlier run added.
In a script there are no cells, and every line that adds an operator adds another one.

The information comes from IPython, through the function that it adds to Python's builtins while it runs; nothing of it
is imported.
"""

from __future__ import annotations

import builtins
import linecache
import sys
from dataclasses import dataclass
from types import FrameType
from typing import Any

_LONGEST_LINE = 80


@dataclass(frozen=True, slots=True)
class CellRun:
    """One execution of a cell.

    `cell` stays the same when the cell is run again, `run` differs each time. `number` is IPython's `In [number]`,
    `line` the line that is being executed, `text` its content.
    """

    cell: str
    run: str
    number: int
    line: int
    text: str

    def is_before(self, other: CellRun | None) -> bool:
        """Return True if this is another execution of the same cell."""
        return other is not None and self.cell == other.cell and self.run != other.run

    def __str__(self) -> str:
        return f"In [{self.number}], line {self.line}: {self.text}"


def current_cell() -> CellRun | None:
    """Return the cell being executed; None outside a notebook, and where it is unknown, as in a callback."""
    shell: Any = getattr(builtins, "get_ipython", lambda: None)()
    frame = _frame_of_cell(shell)
    if frame is None:
        return None
    parent = shell.get_parent() if hasattr(shell, "get_parent") else {}
    file, count = frame.f_code.co_filename, int(shell.execution_count)
    # A front end without ids for cells: the file is named after the text of the cell.
    cell = str(parent.get("metadata", {}).get("cellId") or file)
    run = str(parent.get("header", {}).get("msg_id") or count)
    text = linecache.getline(file, frame.f_lineno).strip()
    text = text if len(text) <= _LONGEST_LINE else f"{text[:_LONGEST_LINE]}..."
    return CellRun(cell, run, count, frame.f_lineno, text)


def callers_level() -> int:
    """Return the `stacklevel` at which a warning, given by the calling function, points at the user's own line."""
    package = __name__.partition(".")[0]
    level, frame = 0, sys._getframe(0).f_back
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        level, frame = level + 1, frame.f_back
    return level + 1


def _frame_of_cell(shell: Any) -> FrameType | None:
    """Return the frame of the cell itself, however many functions were called from it."""
    frame: FrameType | None = sys._getframe(1) if shell is not None else None
    while frame is not None and not (frame.f_code.co_name == "<module>" and frame.f_globals is shell.user_ns):
        frame = frame.f_back
    return frame

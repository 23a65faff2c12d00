"""Progress in a notebook: the line that shows it, and when it is not shown."""

from __future__ import annotations

import os
import sys
from typing import Any


def in_notebook() -> bool:
    """Return True if this process is a Jupyter kernel, which continues when a cell is interrupted."""
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


def progress_is_off() -> bool:
    """Return True if TQDM_DISABLE is set: stored output then has no line that only a slow machine shows."""
    return os.environ.get("TQDM_DISABLE", "") not in ("", "0")


class NotebookLine:
    """A line below a cell, as a file: text after a carriage return replaces the previous text.

    It is a display of its own, not the cell's standard error, which a notebook shows in red like a failure.
    """

    def __init__(self) -> None:
        self._handle: Any = None

    def write(self, text: str) -> None:
        """Show `text` in place of the previous one."""
        shown = {"text/plain": text.replace("\r", "").rstrip()}
        if self._handle is None:
            ipython: Any = sys.modules["IPython"]  # a notebook has IPython
            self._handle = ipython.display.display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)

    def flush(self) -> None:
        """Do nothing: text is shown at once."""

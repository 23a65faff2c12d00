"""Whether somebody looks on: what progress is shown by, and where it is not."""

from __future__ import annotations

import os
import sys
from typing import Any


def in_notebook() -> bool:
    """Whether this process is a Jupyter kernel, which goes on when a cell is interrupted."""
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


def progress_is_off() -> bool:
    """Whether TQDM_DISABLE is set: what is stored of a run then has no line that only a slow machine shows."""
    return os.environ.get("TQDM_DISABLE", "") not in ("", "0")


class NotebookLine:
    """A line below a cell, as a file: what follows a carriage return is shown in place of what was there.

    It is a display of its own, not the cell's standard error, which a notebook shows in red as if something had failed.
    """

    def __init__(self) -> None:
        self._handle: Any = None

    def write(self, text: str) -> None:
        """Show `text` in place of the last one."""
        shown = {"text/plain": text.replace("\r", "").rstrip()}
        if self._handle is None:
            ipython: Any = sys.modules["IPython"]  # where there is a notebook there is IPython
            self._handle = ipython.display.display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)

    def flush(self) -> None:
        """All is shown at once."""

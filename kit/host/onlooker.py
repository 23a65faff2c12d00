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

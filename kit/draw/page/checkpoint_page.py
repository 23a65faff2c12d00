"""The browser of a checkpoint as one HTML file that works offline."""

from __future__ import annotations

import posixpath
from os import PathLike
from pathlib import Path

from kit.core.trace.json_lines import file_of
from kit.draw.assets import asset
from kit.draw.page.page import document_html
from kit.draw.views.checkpoints.browser import browser_html
from kit.snapshots.checkpoints.checkpoint import Checkpoint


def export_checkpoint(checkpoint: Checkpoint, path: str | PathLike[str]) -> Path:
    """Write the browser of a checkpoint as one HTML file and return its path.

    The file has the first rows of each state, and its search looks at these. Raises FileNotFoundError when the file's
    directory does not exist.
    """
    target = file_of(path)
    title = posixpath.basename(checkpoint.directory) or checkpoint.title
    page = document_html(title, "", browser_html(checkpoint), [asset("page_theme.js")])
    target.write_text(page, encoding="utf-8")
    return target

"""The browser of a checkpoint in a notebook, with a kernel: it searches all values, checks and compares.

The page is that of `kit.draw.views.checkpoints.browser`. Its forms send requests, and the kernel answers each of them
with HTML. A page of values reads a bounded number of key groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import traitlets

from kit.draw.assets import joined
from kit.draw.page.checkpoint_page import export_checkpoint
from kit.draw.views.checkpoints.browser import browser_html
from kit.draw.views.checkpoints.browser_answers import answered
from kit.snapshots.checkpoints.checkpoint import Checkpoint
from widgets.base.listening import ListeningWidget, listening
from widgets.base.static_form import StaysInNotebook


class CheckpointBrowser(StaysInNotebook, ListeningWidget):
    """The browser of a checkpoint. In a closed notebook its page stays, with the first rows of each state."""

    _esm = listening(joined(["browser.js", Path(__file__).with_name("checkpoint_browser.js")]))
    page = traitlets.Unicode("").tag(sync=True)

    def __init__(self, checkpoint: Checkpoint, **traits: Any) -> None:
        self.checkpoint = checkpoint
        super().__init__(page=browser_html(checkpoint, is_live=True), **traits)
        self.on_msg(self._asked)

    def answer(self, request: Mapping[str, str]) -> str:
        """Return the answer to a request of a form as HTML; an error is a sentence in it.

        `ask` is `values` (with `operator`, `state`, `query`, `key_groups`, `at`), `check`, `diff` or `storage`.
        """
        return answered(self.checkpoint, request)

    def export(self, path: str | PathLike[str]) -> Path:
        """Write the browser as one HTML file that works offline, and return its path."""
        return export_checkpoint(self.checkpoint, path)

    def _asked(self, _: Any, content: Any, __: Any) -> None:
        place = content.pop("place", None)
        self.send({"place": place, "html": self.answer(content)})

    def _still(self) -> dict[str, str]:
        return {"text/html": browser_html(self.checkpoint)}

    def __repr__(self) -> str:
        return f"CheckpointBrowser({self.checkpoint.title})"

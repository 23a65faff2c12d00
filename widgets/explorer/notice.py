"""The message about the last action, shown where the user clicked.

Each explorer has one from its start, so it brings the style sheet of all its parts.
"""

from __future__ import annotations

from pathlib import Path

import traitlets

from kit.draw.assets import asset, joined
from widgets.base.listening import ListeningWidget, listening


class Notice(ListeningWidget):
    """One message over the explorer, next to the last click; it takes no room."""

    _esm = listening(joined(["elements.js", "scrollers.js", Path(__file__).with_name("notice.js")]))
    _css = asset("theme.css") + (Path(__file__).parent / "explorer.css").read_text(encoding="utf-8")
    text = traitlets.Unicode("").tag(sync=True)
    is_error = traitlets.Bool(True).tag(sync=True)

    def show(self, text: str, *, is_error: bool = True) -> None:
        """Show this message instead of the last one; "" removes it."""
        with self.hold_sync():
            self.text, self.is_error = text, is_error

    def __repr__(self) -> str:
        return f"Notice({self.text!r})"

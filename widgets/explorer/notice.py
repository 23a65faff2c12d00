"""The message about the last action, shown where the user clicked."""

from __future__ import annotations

from pathlib import Path

import traitlets

from widgets.base.listening import ListeningWidget, listening


class Notice(ListeningWidget):
    """One message over the explorer, next to the last click; it takes no room."""

    _esm = listening((Path(__file__).parent / "notice.js").read_text(encoding="utf-8"))
    text = traitlets.Unicode("").tag(sync=True)
    is_error = traitlets.Bool(True).tag(sync=True)

    def show(self, text: str, *, is_error: bool = True) -> None:
        """Show this message instead of the last one; "" removes it."""
        with self.hold_sync():
            self.text, self.is_error = text, is_error

    def __repr__(self) -> str:
        return f"Notice({self.text!r})"

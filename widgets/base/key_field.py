"""A field for a key, with a list of existing keys to click on."""

from __future__ import annotations

from collections.abc import Iterable

import ipywidgets

from widgets.base.buttons import ROW, button
from widgets.base.closing import replace_children

MOST_LISTED, MOST_BUTTONS = 200, 16


class KeyField:
    """The field. `key` is the key typed or chosen; `offer` lists keys. The choice is kept when the list changes."""

    def __init__(self, description: str, hint: str) -> None:
        self.key = ipywidgets.Combobox(
            description=description,
            tooltip=hint,
            continuous_update=False,
            style={"description_width": "initial"},
            layout={"width": "18em"},
        )
        self.buttons: tuple[ipywidgets.Button, ...] = ()
        """A button for each of the first keys; a click searches for it."""
        self._row = ipywidgets.HBox(layout=ROW | {"grid_gap": "2px 4px"})
        self.widget = ipywidgets.HBox([self.key, self._row], layout=ROW | {"grid_gap": "2px 10px"})

    @property
    def value(self) -> str:
        """The key as typed; "" if none was."""
        return str(self.key.value).strip()

    def offer(self, keys: Iterable[object]) -> None:
        """List these keys."""
        listed = list(dict.fromkeys(map(str, keys)))[:MOST_LISTED]
        if list(self.key.options) == listed:
            return
        self.key.options = listed
        self.key.placeholder = listed[0] if listed else ""
        self.buttons = tuple(self._button(key) for key in listed[:MOST_BUTTONS])
        replace_children(self._row, *self.buttons)

    def _button(self, key: str) -> ipywidgets.Button:
        def choose() -> None:
            self.key.value = key

        return button(key, f"look for the key {key}", choose)

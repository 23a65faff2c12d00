"""The tabs of the explorer. A panel is made when it is first shown: a run opens without waiting for the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ipywidgets

from widgets.panels.panels import Panel
from widgets.panels.place import Place


class PanelTabs:
    """One tab for each panel: its place and the function that makes it, by title. `widget` shows the first of them."""

    def __init__(self, kinds: Mapping[str, tuple[Place, Callable[[], Panel]]]) -> None:
        self._kinds = kinds
        self._made: dict[str, Panel] = {}
        self._boxes = {title: ipywidgets.VBox() for title in self._kinds}
        self.widget = ipywidgets.Tab([*self._boxes.values()], titles=self.titles, selected_index=0)

    @property
    def titles(self) -> list[str]:
        """The titles of all tabs."""
        return [*self._kinds]

    @property
    def shown(self) -> Panel:
        """The panel whose tab is chosen."""
        return self.panel(self._chosen)

    @property
    def place(self) -> Place:
        """The place of the panel whose tab is chosen."""
        return self._kinds[self._chosen][0]

    @property
    def _chosen(self) -> str:
        return self.titles[self.widget.selected_index or 0]

    @property
    def opened(self) -> tuple[Panel, ...]:
        """The panels that have been made."""
        return tuple(self._made.values())

    def panel(self, title: str) -> Any:
        """Return the panel with this title. Raises KeyError for an unknown one."""
        _, make = self._kinds[title]
        if title not in self._made:
            self._made[title] = make()
            self._boxes[title].children = (self._made[title].widget,)
        return self._made[title]

    def turn_to(self, title: str) -> None:
        """Choose the tab with this title. Raises ValueError for an unknown one."""
        self.widget.selected_index = self.titles.index(title)

"""The planner of the explorer: the effect of another parallelism, or maximum, on the keys of the lab.

The keys are those in the lab's state at the cursor, so there are none before the first record.
"""

from __future__ import annotations

from typing import Any

import ipywidgets

from widgets.base.buttons import ROW, button
from widgets.panels.app import App
from widgets.pictures.rescale_planner import RescalePlanner


class PlannerPanel:
    """The rescale planner for the keys at the cursor; `planner` is None before it is made."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.planner: RescalePlanner | None = None
        self._of: object = None
        self.again = button("Read the keys again", "take the keys as they are at the cursor", self._again, "refresh")
        self.note = ipywidgets.HTML()
        self._shown = ipywidgets.VBox()
        self.widget = ipywidgets.VBox([ipywidgets.HBox([self.again, self.note], layout=ROW), self._shown])

    def _again(self) -> None:
        self._of = None
        self._app.guarded(self.update)

    def update(self) -> None:
        """Make the planner when it is first visible, and for another run; moved sliders keep their values."""
        branch = self._app.branch
        if self._of is branch:
            return
        self.planner = None
        lab: Any = branch.there
        if lab is None:
            self.note.value = "A recorded run has no state to read keys from: widgets.RescalePlanner(keys) takes keys."
        else:
            try:
                self.planner = RescalePlanner(lab)
                self.note.value = f"The keys at {branch.at}."
                self._of = branch
            except ValueError:
                self.note.value = "No task holds keyed state now: go back in the slider to when one did, or go on."
        self._shown.children = () if self.planner is None else (self.planner,)

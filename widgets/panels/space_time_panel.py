"""The space-time diagram as a panel of the explorer, made when it is first visible, with the stage's cursor."""

from __future__ import annotations

import ipywidgets

from widgets.panels.app import App, Place
from widgets.pictures.space_time import SpaceTimeWidget
from widgets.runs.branch import Branch


class SpaceTimePanel:
    """A diagram for each run; that of the present run is visible."""

    title = "Space-time"
    place = Place.INSTEAD

    def __init__(self, app: App) -> None:
        self._app = app
        self._made: dict[Branch, SpaceTimeWidget] = {}
        self.widget = ipywidgets.Box(layout={"display": "block"})

    @property
    def diagram(self) -> SpaceTimeWidget | None:
        """The diagram of the run that is shown, if it was made."""
        return self._made.get(self._app.branch)

    def update(self) -> None:
        """Read the progress of the run; the cursor is the stage's."""
        branch = self._app.branch
        made = self._made.get(branch)
        if made is None:
            made = self._made[branch] = SpaceTimeWidget(branch.thing, n=branch.n, stage=branch.stepper)
            for name in ("n", "picked"):
                ipywidgets.link((branch.stepper, name), (made, name))
        else:
            made.refresh()
        if self.widget.children != (made,):
            self.widget.children = (made,)

    def close(self) -> None:
        """Remove the diagrams from the page."""
        for made in self._made.values():
            made.close()

"""The space-time diagram in the notebook: each checkpoint's cut through the tasks of a run, to pan and zoom.

The run's data travel to the browser once; later data are sent separately. `n`, the cursor in records of the run, and
`selected` are as in the stepper, so `ipywidgets.jslink((stepper, "n"), (diagram, "n"))` lets one follow the other.
"""

from __future__ import annotations

from typing import Any

import traitlets
from ipywidgets import widget_serialization

from kit.draw.picture import Svg
from kit.draw.space_time.space_time import SpaceTime, space_time
from kit.draw.space_time.space_time_data import SpaceTimeFeed
from kit.draw.space_time.space_time_page import space_time_module, space_time_styles
from kit.run.run import run_of
from widgets.base.deferred import AfterEachCell
from widgets.base.listening import ListeningWidget, listening
from widgets.base.static_form import StaysInNotebook


class SpaceTimeWidget(StaysInNotebook, ListeningWidget):
    """The space-time diagram of a Lab, a SparkJob, a Trace or a scenario.

    `n` is the cursor, a number of records. `selected` names the item that was clicked, as in the stepper. `checkpoint`
    is the one whose cut divides the records; 0: the one at the cursor. The progress of a lab or a job is read after
    each cell, and by `refresh()`. Raises TypeError for anything but a run.
    """

    _esm = listening(space_time_module())
    _css = space_time_styles()
    data = traitlets.Dict().tag(sync=True)
    more = traitlets.Dict().tag(sync=True)
    """The data that followed `data`, piece by piece; `part` counts the pieces."""
    n = traitlets.Int(0).tag(sync=True)
    selected = traitlets.Unicode("").tag(sync=True)
    checkpoint = traitlets.Int(0).tag(sync=True)
    stage: Any = traitlets.Any(None).tag(sync=True, **widget_serialization)
    """A stepper of the same run whose cursor this one follows in the browser."""

    def __init__(self, run: Any, **traits: Any) -> None:
        self._run = run
        self._feed = SpaceTimeFeed(run)
        self._part = 0
        data = self._feed.changes()
        super().__init__(data=data, **{"n": data["n"], **traits})
        self.on_msg(self._heard)
        self._follower = AfterEachCell(self.refresh)

    def refresh(self) -> SpaceTimeWidget:
        """Read the progress of the run. A cursor at the end of the run moves to its new end."""
        if not self._feed.is_stale:
            return self
        shown = self._records
        changes = self._feed.changes()
        self._part += 1
        with self.hold_sync():
            self.more = changes | {"part": self._part}
            if self.n >= min(shown, changes["n"]):
                self.n = changes["n"]
        return self

    @property
    def _records(self) -> int:
        return int((self.more or self.data)["n"])

    def _heard(self, _: Any, content: Any, __: Any) -> None:
        """Answer a page that has missed a piece and requests all data."""
        if content.get("wanted") == "all":
            self._feed = SpaceTimeFeed(self._run)
            self._part = 0
            with self.hold_sync():
                self.data = self._feed.changes()
                self.more = {}

    @property
    def diagram(self) -> SpaceTime:
        """The diagram as a static picture, around the chosen checkpoint or the one at the cursor."""
        return space_time(run_of(self._run), self.checkpoint or None)

    def svg(self) -> Svg:
        """The static picture."""
        return self.diagram.svg()

    def close(self) -> None:
        """Remove the diagram from the page, and stop observing the run."""
        if self.comm is not None:  # otherwise it is closed already, or was not given a run
            self._follower.stop()
        super().close()

    @traitlets.observe("n", "checkpoint", "more")
    def _changed(self, _: Any) -> None:
        self._keep()

    def _still(self) -> dict[str, str]:
        return self.svg().forms()

    def __repr__(self) -> str:
        return f"SpaceTimeWidget({self._records} records, at {self.n})"

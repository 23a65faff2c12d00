"""The common base of a Lab, a SparkJob, a Trace and a scenario: `show`."""

from __future__ import annotations

from typing import Any

from kit.core.display import display


class Showing:
    """The common base of Lab, SparkJob, Trace and scenarios: the explorer opens on them."""

    _reading: Any = None
    """The one reading of the run (`kit.run.reading.reading_of`), made when it is first needed."""

    def show(self, *, tab: bool = False) -> Any:
        """Open the explorer on this run, in a JupyterLab tab of its own with `tab`.

        The explorer shows the stage to step through, the actions and faults that are possible next, and views that
        answer one question each. `export(path)` of the returned object writes the same as one HTML file that works
        offline.
        """
        return display("show", self, tab=tab)

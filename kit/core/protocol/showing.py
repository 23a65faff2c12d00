"""What a Lab, a SparkJob, a Trace and a play have in common: `show`."""

from __future__ import annotations

from typing import Any

from kit.core.display import display


class Showing:
    """What a Lab, a SparkJob, a Trace and a play have in common: the explorer opens on them."""

    def show(self, *, tab: bool = False) -> Any:
        """Open the explorer on this run: the stage to step through, what may happen next, what may be made to fail,
        and the views, each of which answers one question. With `tab` it gets a tab of its own in JupyterLab.

        `export(path)` of what is returned writes the same as one HTML file that works offline.
        """
        return display("explorer", self, tab=tab)

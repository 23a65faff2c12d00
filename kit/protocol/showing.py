"""How runs and jobs are shown: by packages above this one, which are imported when something is to be shown."""

from __future__ import annotations

from typing import Any

from kit.lazily import Later

EXPLORE = Later("open the explorer")
"""Opens the explorer on anything that it knows (`kit.show`)."""
DRAW_JOB = Later("draw a job")
"""Draws a job in the making. Raises ImportError where it cannot."""
EXPLAIN = Later("explain a run")
"""Answers a question about a trace (`Trace.why`)."""


class Showing:
    """What a Lab, a SparkJob, a Trace and a play have in common: the explorer opens on them."""

    def show(self, *, tab: bool = False) -> Any:
        """Open the explorer on this run: the stage to step through, what may happen next, what may be made to fail,
        and the views, each of which answers one question. With `tab` it gets a tab of its own in JupyterLab.

        `export(path)` of what is returned writes the same as one HTML file that works offline.
        """
        return EXPLORE(self, tab=tab)

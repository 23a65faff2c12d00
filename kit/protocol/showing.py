"""`show()`: the door of a run to the explorer, which is built at the top of the house and says here how to open it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Showing:
    """What a Lab, a SparkJob, a Trace and a play have in common: the explorer opens on them."""

    def show(self, *, tab: bool = False) -> Any:
        """Open the explorer on this run: the stage to step through, what may happen next, what may be made to fail,
        and the views, each of which answers one question. With `tab` it gets a tab of its own in JupyterLab.

        `export(path)` of what is returned writes the same as one HTML file that works offline.
        """
        return show(self, tab=tab)


_show: list[Callable[..., Any]] = []


def show(thing: Any, *, tab: bool = False) -> Any:
    """Open the explorer on anything that it knows."""
    (opened,) = _show
    return opened(thing, tab=tab)


def show_with(opened: Callable[..., Any]) -> None:
    """Let `opened` show runs (`widgets.explorer`)."""
    _show[:] = [opened]

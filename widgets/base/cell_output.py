"""The outputs of cells that show a widget. The widget is closed when the last of them is cleared.

Jupyter clears the output of a cell that is run again, but keeps the widgets in it. A widget that was shown there is no
longer visible, so it is closed, unless a variable of the notebook still has it: the user may show that again.

Jupyter does not say that a cell was deleted or a tab was closed. So a widget that was shown there stays until it is
closed, as does one that is part of another widget.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterable
from typing import Any

from IPython.core.getipython import get_ipython
from ipywidgets.widgets.widget import _instances

from widgets.base.closing import close_with_parts
from widgets.base.deferred import Deferred

_OF_IPYTHON = re.compile(r"_+|_\d+|Out|_oh")
"""The names under which IPython itself keeps the results of cells."""
_LAST = ("_", "__", "___")
"""Those of the last results, which always exist."""
LATER_S = 1.0
"""The time after which the memory of a closed widget is freed: Python itself may wait for very long."""


def _collect() -> None:
    gc.collect()


_collecting = Deferred(_collect, LATER_S)


class CellOutput:
    """The cells in whose output a widget is shown. `note` notes the one that is running."""

    def __init__(self, widget: Any) -> None:
        self._widget = widget
        self._cells: set[str | None] = set()
        """The ids of the cells; None stands for a place that is never known to be cleared."""
        self._shell = get_ipython()
        if self._shell is not None:
            self._shell.events.register("pre_run_cell", self._cell_begins)
            self._shell.events.register("post_run_cell", self._cell_ran)

    def note(self) -> None:
        """Note that the running cell shows the widget."""
        self._cells.add(None if self._shell is None or _is_captured() else running_cell(self._shell))

    def stop(self) -> None:
        """Stop observing the cells."""
        if self._shell is not None:
            self._shell.events.unregister("pre_run_cell", self._cell_begins)
            self._shell.events.unregister("post_run_cell", self._cell_ran)
            self._shell = None

    def _cell_begins(self, info: Any) -> None:
        cell = getattr(info, "cell_id", None)
        if cell is not None:
            self._cells.discard(cell)

    def _cell_ran(self, _: object) -> None:
        shell = self._shell
        if not self._cells and not any(_has(value, self._widget) for value in _variables(shell)):
            _forget_result(shell, self._widget)
            close_with_parts(self._widget)
            _collecting.ask()


def running_cell(shell: Any) -> str | None:
    """Return the id of the cell that is running, if the front end tells it."""
    parent = shell.get_parent() if hasattr(shell, "get_parent") else {}
    cell = parent.get("metadata", {}).get("cellId")
    return None if cell is None else str(cell)


def _is_captured() -> bool:
    """Return True if a widget such as a tab (`Sidecar`) or an `Output` takes what is shown now."""
    return any(getattr(each, "msg_id", "") for each in list(_instances.values()))


def _variables(shell: Any) -> Iterable[object]:
    return [value for name, value in shell.user_ns.items() if not _OF_IPYTHON.fullmatch(name)]


def _has(value: object, widget: Any) -> bool:
    """Return True if a variable has the widget, itself or in a collection."""
    if isinstance(value, dict):
        value = [*value.values()]
    return value is widget or (isinstance(value, list | tuple | set) and any(each is widget for each in value))


def _forget_result(shell: Any, widget: Any) -> None:
    """Remove a widget from the results that IPython keeps: `_`, `_3`, `Out[3]` and so on."""
    for names in (*shell.all_ns_refs, shell.user_ns.get("_oh", {}), vars(shell.displayhook)):
        for name in [name for name, value in names.items() if value is widget]:
            if name in _LAST:
                names[name] = ""
            else:
                del names[name]

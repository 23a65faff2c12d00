"""The static form of a widget, for places that cannot show one: a closed notebook, a page, a plain terminal.

Without a kernel, JupyterLab replaces a widget with a line that it could not be loaded. So a cell with such a widget has
three outputs: the latest picture; the widget; and style rules that hide the picture while the widget is alive, and that
line afterwards. The rules apply in trusted notebooks, such as your own.
"""

from __future__ import annotations

from typing import Any

from IPython.display import display

from widgets.base.cell_output import CellOutput
from widgets.base.closing import close_parts
from widgets.base.deferred import Deferred

LATER_S = 1.0
"""The time without changes after which the static picture is updated."""
MARK, ALIVE, RULES = "kit-still", "kit-alive", "kit-still-rules"
_CHILD = ".jp-OutputArea-child"
_STILL = f'{_CHILD}:has(:is(img[src*="{MARK}"], .{MARK}))'
HIDING = (
    f'<style class="{RULES}">{_STILL}:has(+ {_CHILD} .{ALIVE}), '
    f"{_STILL} + {_CHILD}:not(:has(.{ALIVE})), "
    f"{_CHILD}:has(.{RULES}) {{ display: none !important; }}</style>"
)


class StaysInNotebook:
    """A mixin for widgets that leave a picture in the notebook; it comes before the widget's class.

    `_still` returns the picture: `{"image/svg+xml": …}` or `{"text/html": …}`. Call `_keep` after each visible change.
    The widget is closed when the notebook no longer shows it and no variable has it (`cell_output`).
    """

    _kept: Any = None
    _keeping: Deferred | None = None
    _output: CellOutput | None = None

    def _still(self) -> dict[str, str]:
        raise NotImplementedError

    def _keep(self) -> None:
        """Update the picture in the notebook, a little later."""
        if self._kept is not None:
            self._keeping = self._keeping or Deferred(self._keep_now, LATER_S)
            self._keeping.ask()

    def _keep_now(self) -> None:
        if self._kept is not None:
            self._kept.update(self._marked(), raw=True)

    def close(self) -> None:
        """Remove the widget with its parts from the page; the picture stays in the notebook, unchanged."""
        if self._keeping is not None:
            self._keeping.cancel()
        if self._output is not None:
            self._output.stop()
        self._kept = self._keeping = self._output = None
        close_parts(self)
        super().close()  # type: ignore[misc]

    def _marked(self) -> dict[str, str]:
        marked = {"text/plain": repr(self)}
        for kind, form in self._still().items():
            svg = kind == "image/svg+xml"
            marked[kind] = (
                form.replace("<svg ", f'<svg id="{MARK}" ', 1) if svg else f'<div class="{MARK}">{form}</div>'
            )
        return marked

    def _ipython_display_(self) -> None:
        widget: Any = self
        widget.add_class(ALIVE)
        self._output = self._output or CellOutput(self)
        self._output.note()
        self._kept = display(self._marked(), raw=True, display_id=True)
        bundle = super()._repr_mimebundle_()  # type: ignore[misc]
        display({**_data(bundle), "text/plain": repr(self)}, raw=True)
        display({"text/html": HIDING}, raw=True)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Return the widget and its picture, for front ends that choose among them."""
        bundle = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        data = {**_data(bundle), **self._still(), "text/plain": repr(self)}
        return (data, *bundle[1:]) if isinstance(bundle, tuple) else data


def _data(bundle: Any) -> dict[str, Any]:
    """Return the data that ipywidgets provides for a widget, without its metadata."""
    return dict((bundle[0] if isinstance(bundle, tuple) else bundle) or {})

"""Closing widgets with their parts. ipywidgets keeps every widget, and what it refers to, until it is closed itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

PARTS = ("children", "layout", "style")
"""The traits with the widgets that belong to a widget."""


def close_with_parts(*widgets: Any) -> None:
    """Close these widgets with everything inside them."""
    for widget in widgets:
        if widget.comm is not None:
            close_parts(widget)
            widget.close()


def close_parts(widget: Any) -> None:
    """Close everything inside a widget, but not the widget."""
    close_with_parts(*_parts(widget))


def replace_children(box: Any, *children: Any) -> None:
    """Show other widgets in a box, and close those that it had."""
    before, box.children = box.children, children
    close_with_parts(*(each for each in before if each not in children))


def _parts(widget: Any) -> Iterator[Any]:
    for name in PARTS:
        value = getattr(widget, name, None)
        if isinstance(value, tuple):
            yield from value
        elif value is not None:
            yield value

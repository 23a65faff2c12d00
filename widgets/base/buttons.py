"""Buttons and drop-downs with a name, and the layout of a row of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets

ROW = {"flex_flow": "row wrap", "align_items": "center"}


def button(label: str, hint: str, act: Callable[[], object], icon: str = "", style: str = "") -> ipywidgets.Button:
    """Return a button with a name, as wide as its text."""
    new_button = ipywidgets.Button(
        description=label,
        tooltip=hint,
        icon=icon,
        button_style=style,
        layout={"width": "auto", "min_width": "34px", "align_self": "flex-start"},
    )
    new_button.on_click(lambda _: act())
    return new_button


def icon_button(label: str, icon: str, hint: str, act: Callable[[], object]) -> ipywidgets.Button:
    """Return a button that shows an icon, and its name and purpose on hover."""
    new_button = button(label, f"{label}: {hint}", act, icon)
    new_button.layout.width = "32px"
    new_button.add_class("kit-icon-only")  # the name stays in the page, for screen readers
    return new_button


def dropdown(name: str, hint: str) -> ipywidgets.Dropdown:
    """Return an empty drop-down with a name before it."""
    return ipywidgets.Dropdown(
        description=name,
        tooltip=hint,
        layout={"width": "auto", "max_width": "100%"},
        style={"description_width": "initial"},
    )


def number_field(name: str, value: int, least: int, most: int, hint: str = "") -> ipywidgets.BoundedIntText:
    """Return a field for a number from `least` to `most`; without a `hint`, it shows these."""
    return ipywidgets.BoundedIntText(
        value,
        least,
        most,
        description=name,
        tooltip=hint or f"{least} to {most}",
        layout={"width": "auto", "max_width": "22em"},
        style={"description_width": "initial"},
    )


def named(widget: Any, name: str) -> Any:
    """Give a field without a visible name one for screen readers, and return it."""
    widget.description = name
    widget.add_class("kit-named")
    return widget

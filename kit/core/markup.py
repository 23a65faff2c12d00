"""The one builder of HTML and SVG: elements and tables, with every text escaped.

element("text", "a < b", x=1.5, class_="label")     <text x="1.5" class="label">a &lt; b</text>
element("g", element("title", name), drawn)         markup stays unchanged, other text is escaped
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


class Markup(str):
    """Text that is HTML or SVG already."""

    __slots__ = ()

    def __add__(self, other: str) -> Markup:
        return Markup(super().__add__(markup(other)))


def markup(content: object) -> Markup:
    """Return markup unchanged, and anything else as escaped text."""
    return content if isinstance(content, Markup) else Markup(escape(str(content)))


def element(name: str, /, *inside: object, **attributes: str | float | None) -> Markup:
    """Return an element. Numbers have two decimals at most; an attribute that is None or "" is left out.

    An underscore at the end of an attribute's name is dropped (`class_`); any other becomes a hyphen (`text_anchor`).
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
        if value is not None and value != ""
    )
    return Markup(f"<{name}{written}>{''.join(map(markup, inside))}</{name}>")


def _value(value: str | float) -> str:
    return escape(value) if isinstance(value, str) else f"{round(value, 2):.10g}"


def cells(values: Iterable[object], name: str = "td", **attributes: str | None) -> Markup:
    """Return one cell per value."""
    return Markup("".join(element(name, value, **attributes) for value in values))


def table(head: Iterable[object], rows: Iterable[Iterable[object]], **attributes: str | None) -> Markup:
    """Return a table. The head and a row are values, or markup: the cells of the head, a whole row."""
    top = head if isinstance(head, Markup) else cells(head, "th")
    body = (each if isinstance(each, Markup) else element("tr", cells(each)) for each in rows)
    return element("table", element("thead", element("tr", top)), element("tbody", *body), **attributes)


__all__ = ["Markup", "cells", "element", "markup", "table"]

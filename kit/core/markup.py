"""The one builder of HTML and SVG: elements, with every text escaped. `kit.core.html_tables` builds tables of them.

element("text", "a < b", x=1.5, class_="label")     <text x="1.5" class="label">a &lt; b</text>
element("g", element("title", name), drawn)         markup stays unchanged, other text is escaped
"""

from __future__ import annotations

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


__all__ = ["Markup", "element", "markup"]

"""The frame of a picture in the glossary: small, in the colours of the page, and described in words."""

from __future__ import annotations

from html import escape

from kit.core.markup import Markup
from kit.draw import shapes
from kit.draw.stage.layout import Box

WIDTH = 300.0
"""The width of every picture, in px."""


def framed(look: str, box: Box, drawn: str, says: str) -> str:
    """Return the picture as an SVG element of a page whose style sheets define its colours."""
    view = f"{box.x:g} {box.y:g} {box.width:g} {box.height:g}"
    return (
        f'<svg class="kit-picture kit-term {look}" viewBox="{view}" width="{WIDTH:g}" '
        f'height="{box.height * WIDTH / box.width:g}" role="img" aria-label="{escape(says)}">{drawn}</svg>'
    )


def mark(x: float, y: float, width: float, height: float) -> Markup:
    """Return the ring around what the term means."""
    return shapes.rect("term-mark", round(x, 1), round(y, 1), round(width, 1), round(height, 1), rx=6)

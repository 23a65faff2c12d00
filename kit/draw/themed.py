"""The frame of every picture: one element of the class `kit-picture` that carries the theme, or an SVG of its own.

A picture inside a page follows the page's theme. A static SVG, shown as an image, includes the light colours.
"""

from __future__ import annotations

from html import escape

from kit.draw.assets import asset, light_block
from kit.draw.picture import CARD, LEAST_WIDTH, MOST_GROWTH, Svg

THEME = "theme.css"


def themed(body: str, *styles: str, label: str = "") -> str:
    """Return a fragment of HTML in the theme's colours; `styles` are files of this package."""
    rules = "".join(asset(name) for name in (THEME, *styles))
    named = f' role="group" aria-label="{escape(label)}"' if label else ""
    return f'<div class="kit-picture"{named}><style>{rules}</style>{body}</div>'


def light_svg(width: float, height: float, drawn: str, title: str, *styles: str) -> Svg:
    """Return an SVG document of its own, on a light card."""
    rules = light_block() + "".join(asset(name) for name in styles)
    most = width if width < LEAST_WIDTH else width * MOST_GROWTH
    return Svg.of(
        f'<svg xmlns="http://www.w3.org/2000/svg" class="kit-picture" viewBox="0 0 {width:g} {height:g}" '
        f'width="100%" style="max-width:{most:g}px" role="img" aria-label="{escape(title)}">'
        f"<style>{rules}</style>{CARD}{drawn}</svg>",
        title,
    )

"""The frame of every picture: one element of the class `kit-picture` that carries the theme, or an SVG of its own.

What stands in a page follows the page's theme. What is shown as an image (a static SVG) has the light colours inside.
"""

from __future__ import annotations

import re
from functools import cache
from html import escape

from kit.draw.picture import CARD, Svg
from kit.draw.svg import asset

THEME = "theme.css"


def themed(body: str, *styles: str, label: str = "") -> str:
    """A fragment of HTML in the theme's colours; `styles` are files beside this one."""
    rules = "".join(asset(name) for name in (THEME, *styles))
    named = f' role="group" aria-label="{escape(label)}"' if label else ""
    return f'<div class="kit-picture"{named}><style>{rules}</style>{body}</div>'


def light_svg(width: float, height: float, drawn: str, title: str, *styles: str) -> Svg:
    """A document that stands alone, on a light card."""
    rules = light_block() + "".join(asset(name) for name in styles)
    return Svg.of(
        f'<svg xmlns="http://www.w3.org/2000/svg" class="kit-picture" viewBox="0 0 {width:g} {height:g}" '
        f'width="100%" style="max-width:{width:g}px" role="img" aria-label="{escape(title)}">'
        f"<style>{rules}</style>{CARD}{drawn}</svg>",
        title,
    )


@cache
def light_block() -> str:
    """The theme's first block: the light colours, for what cannot know the page."""
    text = asset(THEME)
    return text[text.index(".kit-picture") : text.index("}") + 1]


@cache
def light_colours() -> dict[str, str]:
    """The light colours by name, for what knows no CSS: `light_colours()["accent"]`."""
    return dict(re.findall(r"--kit-([\w-]+): (#[0-9a-f]{6})", light_block()))

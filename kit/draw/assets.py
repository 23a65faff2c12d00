"""The scripts and style sheets of this package that pages are made of, wherever in it they are.

The stage's script is one module for browsers and several files for people: each holds one concept, and they are put
together in this order.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

STAGE_JS = (
    "durations.js",
    "scenes.js",
    "picture.js",
    "camera.js",
    "details.js",
    "job_panel.js",
    "player.js",
    "stage.js",
)
STAGE_CSS = ("theme.css", "stage.css", "player.css")


@cache
def asset(name: str) -> str:
    """The text of a file: `stage.css`, `theme.css`."""
    return _assets()[name].read_text(encoding="utf-8")


@cache
def _assets() -> dict[str, Path]:
    return {path.name: path for path in Path(__file__).parent.rglob("*.*s") if path.suffix in (".js", ".css")}


@cache
def stage_js() -> str:
    """The module that steps through a film; it exports what a widget's front end does."""
    return "\n".join(map(asset, STAGE_JS))


@cache
def stage_css() -> str:
    """All that the stage's page needs to look right."""
    return "".join(map(asset, STAGE_CSS))


@cache
def light_block() -> str:
    """The theme's first block: the light colours, for what cannot know the page."""
    text = asset("theme.css")
    return text[text.index(".kit-picture") : text.index("}") + 1]


@cache
def light_theme() -> str:
    """The light colours for the class `kit-still`: a picture on a card, whatever the page's theme is."""
    return light_block().replace(".kit-picture", ".kit-still", 1)


@cache
def light_colours() -> dict[str, str]:
    """The light colours by name, for what knows no CSS: `light_colours()["accent"]`."""
    return dict(re.findall(r"--kit-([\w-]+): (#[0-9a-f]{6})", light_block()))

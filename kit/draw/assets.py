"""The scripts and style sheets of this package, from which pages are made.

Browsers load the stage's script as one module. Its source is several files, one concept each; `stage_js` joins them in
the order given here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from kit.core.html_tables import TABLE_CSS

STAGE_JS = (
    "elements.js",
    "durations.js",
    "scenes.js",
    "picture.js",
    "camera.js",
    "scrollers.js",
    "details.js",
    "job_panel.js",
    "player.js",
    "stage.js",
)
STAGE_CSS = ("theme.css", "stage.css", "player.css")


@cache
def asset(name: str) -> str:
    """Return the text of a file such as `stage.css` or `theme.css`."""
    return _assets()[name].read_text(encoding="utf-8")


@cache
def _assets() -> dict[str, Path]:
    return {path.name: path for path in Path(__file__).parent.rglob("*.*s") if path.suffix in (".js", ".css")}


def joined(files: Iterable[str | Path]) -> str:
    """Return the script of these files, each of which uses those before it. No two of them declare the same name.

    A name is that of a file of this package.
    """
    return "\n".join(each.read_text(encoding="utf-8") if isinstance(each, Path) else asset(each) for each in files)


@cache
def stage_js() -> str:
    """Return the module that steps through a film. It exports the functions of a widget's front end."""
    return joined(STAGE_JS)


@cache
def stage_css() -> str:
    """Return the style sheets of the stage's page, joined."""
    return "".join([*map(asset, STAGE_CSS), TABLE_CSS])


@cache
def light_block() -> str:
    """Return the theme's first block, the light colours, for pictures that cannot see the page's theme."""
    text = asset("theme.css")
    return text[text.index(".kit-picture") : text.index("}") + 1]


@cache
def light_theme() -> str:
    """Return the light colours for the class `kit-still`: a picture on a card, whatever the page's theme."""
    return light_block().replace(".kit-picture", ".kit-still", 1)


@cache
def light_colours() -> dict[str, str]:
    """Return the light colours by name, for libraries without CSS: `light_colours()["accent"]`."""
    return dict(re.findall(r"--kit-([\w-]+): (#[0-9a-f]{6})", light_block()))

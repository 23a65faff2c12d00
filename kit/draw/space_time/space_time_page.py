"""The space-time diagram's script and styles, each as one text, and a page with the diagram alone.

`kit/draw/space_time/space_time.js` is the pane. Its parts are separate files, which are placed before it.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from kit.core.trace.json_lines import file_of
from kit.draw.assets import asset, joined
from kit.draw.space_time.space_time_data import space_time_data

PARTS = (
    "durations.js",
    "space_time_run.js",
    "space_time_lanes.js",
    "space_time_pen.js",
    "space_time_drawing.js",
    "space_time.js",
)
_PAGE_CSS = "body { margin: 12px; } [data-theme=dark] { background: #0d1117; }"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


@cache
def space_time_script() -> str:
    """Return a script that declares the class `SpaceTimePane`, and otherwise only its parts."""
    return joined(PARTS)


@cache
def space_time_module() -> str:
    """Return the module of the notebook's widget."""
    return joined([*PARTS, "space_time_widget.js"])


@cache
def space_time_styles() -> str:
    """Return the theme and the pane's own styles."""
    return asset("theme.css") + asset("space_time_pane.css")


def export_space_time(run: Any, path: str | Path) -> Path:
    """Write a page with only the diagram of a Lab, a SparkJob or a Trace, which works offline; returns its path.

    Raises FileNotFoundError if its directory does not exist.
    """
    target = file_of(path)
    data = json.dumps(space_time_data(run), separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/")
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width"><title>Space-time diagram</title>'
        f"<style>{_PAGE_CSS}{space_time_styles()}</style></head>"
        f'<body><main id="run"></main><script type="application/json" id="data">{data}</script>'
        f'<script type="module">{space_time_script()}\n'
        'const data = JSON.parse(document.getElementById("data").textContent);'
        'window.pane = new SpaceTimePane(document.getElementById("run"), data,'
        " { go(n) { window.went = n; }, pick(name) { window.selected = name; } });</script></body></html>"
    )
    target.write_text(page, encoding="utf-8")
    return target

"""The notebooks as the site shows them: with the outputs that are stored in them.

A picture becomes part of the page, so that it takes the page's colours, light or dark; a widget is shown by the picture
it left in the notebook.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scripts.site.places import relinked
from widgets.base.static_form import MARK

WIDGET, PICTURE, HTML = "application/vnd.jupyter.widget-view+json", "image/svg+xml", "text/html"


def as_shown(path: Path) -> str:
    """The text of a notebook as the site shows it."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = _shown(cell["outputs"])
            cell["metadata"] = {}
        elif cell["cell_type"] == "markdown":
            text = "".join(cell["source"])
            cell["source"] = relinked(text, path.parent, f"notebooks/{path.name}")
    return json.dumps(notebook, ensure_ascii=False)


def _shown(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    has_form = any(_is_form(output.get("data", {})) for output in outputs)
    return [_in_page(output) for output in outputs if not (has_form and _is_bare_widget(output))]


def _is_form(data: dict[str, Any]) -> bool:
    """True for the picture or the text that a widget left."""
    return PICTURE in data or f'class="{MARK}"' in "".join(data.get(HTML, ""))


def _is_bare_widget(output: dict[str, Any]) -> bool:
    data = output.get("data", {})
    return WIDGET in data and PICTURE not in data and HTML not in data


def _in_page(output: dict[str, Any]) -> dict[str, Any]:
    data = {kind: value for kind, value in output.get("data", {}).items() if kind != WIDGET}
    if PICTURE in data:
        svg = data.pop(PICTURE)
        picture = svg if isinstance(svg, str) else "".join(svg)
        data[HTML] = f'<div class="kit-shown">{picture}</div>'
    return {**output, "data": data} if "data" in output else output


def title_of(path: Path) -> str:
    """A notebook's title."""
    first = json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"]
    return "".join(first).partition("\n")[0].removeprefix("# ")

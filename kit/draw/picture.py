"""Pictures as objects: a notebook shows them by itself, and `save` writes them to a file.

A picture has two forms. As a document of its own (SVG) it is drawn on a light card: a file, paper, and whatever shows
images cannot tell it the theme. As a part of a page (HTML) it takes the colours of the theme around it, and tells
what is cut off when it is pointed at; JupyterLab chooses this one. There it is hidden until its own rules are read, so
that of a notebook that is not trusted, where JupyterLab takes rules and drawings out and leaves the words, a line is
shown that says so. Nothing here touches pyplot: no figure is shown twice, none is kept.
"""

from __future__ import annotations

import re
from html import escape
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

from kit.core.protocol.json_lines import file_of
from kit.draw.assets import asset, light_block, light_colours, light_theme

if TYPE_CHECKING:
    from matplotlib.figure import Figure


LEAST_WIDTH = 840
"""All pictures are at least so wide, in px, so that texts are about the same size in all: that is a laptop's cell."""
MOST_GROWTH = 1.25
"""So much larger may a picture be shown than it is drawn; on a page it is never smaller, so its texts can be read."""
CARD = '<rect width="100%" height="100%" rx="8" fill="#ffffff"/>'
"""What a picture of its own is drawn on: it is light in a dark theme as well."""
UNTRUSTED = "kit-untrusted"
"""The class of what is said where a picture cannot be shown."""


def in_theme(picture: str) -> str:
    """The same drawing as a part of a page: it follows the theme of the element around it, as that does the page."""
    for light in (light_theme(), light_block()):
        picture = picture.replace(light, "", 1)
    return picture.replace(" kit-still", "", 1).replace(CARD, CARD.replace("#ffffff", "var(--kit-paper)"), 1)


def recoloured(picture: str) -> str:
    """A drawing by a library that knows no themes, in the theme's colours where it has the light ones, or black."""
    names = {"#000000": "ink"} | {value: name for name, value in reversed(light_colours().items())}
    return re.sub("#[0-9a-f]{6}", lambda found: _variable(names, found[0]), picture)


def _variable(names: dict[str, str], colour: str) -> str:
    return f"var(--kit-{names[colour]})" if colour in names else colour


def page_html(drawing: str, caption: str, least_width: float = 0.0) -> str:
    """A drawing in the theme's colours as one complete fragment, at least so many px wide: where there is less room it
    is scrolled. Its ids are its own on a page with several. `hidden` has a value: a sanitiser takes empty ones out.
    """
    own = f"{crc32(drawing.encode()):08x}"
    drawing = re.sub(r'(\bid="|url\(#|href="#)(kit-[\w-]+)', rf"\1\2-{own}", drawing)
    drawing = re.sub(r'(<svg[^>]*?style=")', rf"\1min-width:{least_width:g}px;", drawing, count=1)
    rules = f".{UNTRUSTED} {{ display: none; }} .kit-picture[hidden] {{ display: block !important; }}"
    told = escape(f"{caption}: to see the picture, run the cell or trust the notebook (File, Trust Notebook)")
    inside = f'<div style="overflow-x:auto">{drawing}</div>'
    picture = f'<div class="kit-picture" hidden="hidden"><style>{asset("theme.css")}{rules}</style>{inside}</div>'
    return f'<div><p class="{UNTRUSTED}">{told}</p>{picture}</div>'


class Svg(str):
    """An SVG document that a notebook shows as a picture; it is its own text. `caption` says in words what is drawn."""

    caption = ""

    @classmethod
    def of(cls, text: str, caption: str) -> Svg:
        """The document with its caption."""
        made = cls(text)
        made.caption = caption
        return made

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the picture to a file, whose name must end in .svg; returns its path.

        Raises ValueError for another name, FileNotFoundError when the file's directory does not exist.
        """
        target = file_of(path)
        if target.suffix != ".svg":
            raise ValueError(f"{target.name!r}: this picture is saved as SVG, so the file's name must end in .svg")
        target.write_text(self, encoding="utf-8")
        return target

    def _repr_svg_(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        drawn = re.search(r'viewBox="0 0 ([\d.]+)', self)
        return page_html(in_theme(self), self.caption, float(drawn[1]) if drawn else LEAST_WIDTH)

    def forms(self) -> dict[str, str]:
        """Both forms by their media types, as a notebook stores them."""
        return {"text/html": self._repr_html_(), "image/svg+xml": str(self)}

    def __repr__(self) -> str:
        return f"Svg({self.caption!r})"


class Chart:
    """A chart that a notebook shows as a picture; `figure` is matplotlib's, to change or to save it further."""

    def __init__(self, figure: Figure, caption: str) -> None:
        self.figure = figure
        self.caption = caption

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the chart to a file, as what its name ends in: .svg, .png, .pdf and what else matplotlib knows.

        Raises FileNotFoundError when the file's directory does not exist.
        """
        target = file_of(path)
        self.figure.savefig(target)
        return target

    def _repr_svg_(self) -> str:
        from matplotlib import rc_context

        written = BytesIO()
        # the same chart is the same text: neither a date nor random ids are in it
        with rc_context({"svg.hashsalt": "kit"}):
            self.figure.savefig(written, format="svg", facecolor="none", metadata={"Date": None, "Creator": None})
        _, _, svg = written.getvalue().decode().partition("<svg")
        head, _, drawn = svg.partition(">")
        head = re.sub(
            r'width="[\d.]+pt" height="[\d.]+pt"',
            f'width="100%" style="max-width:{LEAST_WIDTH * MOST_GROWTH:g}px"',
            head,
        )
        return f"<svg{head}>{CARD}{drawn}"

    def _repr_html_(self) -> str:
        # matplotlib's rules are for all that is on the page; here they are for its own drawing
        own = (
            self._repr_svg_()
            .replace("*{", ".kit-chart *{", 1)
            .replace("<svg", '<svg class="kit-chart" fill="var(--kit-ink)"', 1)
        )
        return page_html(in_theme(recoloured(own)), self.caption, LEAST_WIDTH)

    def __repr__(self) -> str:
        return f"Chart({self.caption!r})"

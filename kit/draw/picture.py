"""Pictures as objects: a notebook shows them by itself, and `save` writes them to a file.

A picture has two forms. A document of its own (SVG) is drawn on a light card, because files, paper and image viewers
have no theme. A part of a page (HTML) takes the colours of the theme around it, and shows texts that were cut off on
hover; JupyterLab chooses this form. In a notebook that is not trusted, JupyterLab removes style rules and drawings and
keeps the words. So the picture is hidden until its own rules apply, and until then a line says why. Nothing here uses
pyplot, which would show figures twice and keep them.
"""

from __future__ import annotations

import re
from html import escape
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

from kit.core.trace.json_lines import file_of
from kit.draw.assets import asset, light_block, light_colours, light_theme

if TYPE_CHECKING:
    from matplotlib.figure import Figure


LEAST_WIDTH = 840
"""The least width of a picture, in px: that of a cell on a laptop. It makes texts about equally large in all."""
MOST_GROWTH = 1.25
"""The most that a picture may be enlarged. On a page it is never made smaller, so its texts stay readable."""
CARD = '<rect width="100%" height="100%" rx="8" fill="#ffffff"/>'
"""The card under a picture that is a document of its own; it is light in a dark theme as well."""
UNTRUSTED = "kit-untrusted"
"""The class of the line that is shown where a picture cannot be shown."""


def in_theme(picture: str) -> str:
    """Return the drawing as a part of a page; it follows the theme of the element around it."""
    for light in (light_theme(), light_block()):
        picture = picture.replace(light, "", 1)
    return picture.replace(" kit-still", "", 1).replace(CARD, CARD.replace("#ffffff", "var(--kit-paper)"), 1)


def recoloured(picture: str) -> str:
    """Replace black and the light theme's colours, in a drawing by another library, with the theme's variables."""
    variables = {value: f"var(--kit-{name})" for name, value in reversed(light_colours().items())}
    variables["#000000"] = "var(--kit-ink)"
    return re.sub("#[0-9a-f]{6}", lambda found: variables.get(found[0], found[0]), picture)


def page_html(drawing: str, caption: str, least_width: float = 0.0) -> str:
    """Return a drawing in the theme's colours as one complete fragment.

    It scrolls where there is less than `least_width` px. Its ids are unique on a page with several pictures. `hidden`
    has a value because a sanitiser removes attributes without one.
    """
    own = f"{crc32(drawing.encode()):08x}"
    drawing = re.sub(r'(\bid="|url\(#|href="#)(kit-[\w-]+)', rf"\1\2-{own}", drawing)
    drawing = re.sub(r'(<svg[^>]*?style=")', rf"\1min-width:{least_width:g}px;", drawing, count=1)
    rules = f".{UNTRUSTED} {{ display: none; }} .kit-picture[hidden] {{ display: block !important; }}"
    alternative = escape(f"{caption}: to see the picture, run the cell or trust the notebook (File, Trust Notebook)")
    inside = f'<div style="overflow-x:auto">{drawing}</div>'
    picture = f'<div class="kit-picture" hidden="hidden"><style>{asset("theme.css")}{rules}</style>{inside}</div>'
    return f'<div><p class="{UNTRUSTED}">{alternative}</p>{picture}</div>'


def resolved(picture: str) -> str:
    """Return the drawing with the light colours in place of the theme's variables, which many viewers do not know."""
    values = dict(re.findall(r"--kit-([\w-]+): ([^;]+);", light_block()))
    drawn = re.sub(r"--kit-[\w-]+: [^;]+;", "", picture)
    return re.sub(r"var\(--kit-([\w-]+)\)", lambda found: values[found[1]], drawn)


class Svg(str):
    """An SVG document as text, which a notebook shows as a picture. `caption` describes the picture in words."""

    caption = ""

    @classmethod
    def of(cls, text: str, caption: str) -> Svg:
        """Return the document with its caption."""
        picture = cls(text)
        picture.caption = caption
        return picture

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the picture to a file, whose name must end in .svg; returns its path. The file has the light colours.

        Raises ValueError for another name, FileNotFoundError when the file's directory does not exist.
        """
        target = file_of(path)
        if target.suffix != ".svg":
            raise ValueError(f"{target.name!r}: this picture is saved as SVG, so the file's name must end in .svg")
        target.write_text(resolved(self), encoding="utf-8")
        return target

    def _repr_svg_(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        drawn = re.search(r'viewBox="0 0 ([\d.]+)', self)
        return page_html(in_theme(self), self.caption, float(drawn[1]) if drawn else LEAST_WIDTH)

    def forms(self) -> dict[str, str]:
        """Return both forms by media type, as a notebook stores them."""
        return {"text/html": self._repr_html_(), "image/svg+xml": str(self)}

    def __repr__(self) -> str:
        return f"Svg({self.caption!r})"


def light_svg(width: float, height: float, drawn: str, title: str, *styles: str) -> Svg:
    """Return a drawing as a document of its own, on a light card; `styles` are files of this package."""
    rules = light_block() + "".join(asset(name) for name in styles)
    most = width if width < LEAST_WIDTH else width * MOST_GROWTH
    return Svg.of(
        f'<svg xmlns="http://www.w3.org/2000/svg" class="kit-picture" viewBox="0 0 {width:g} {height:g}" '
        f'width="100%" style="max-width:{most:g}px" role="img" aria-label="{escape(title)}">'
        f"<style>{rules}</style>{CARD}{drawn}</svg>",
        title,
    )


class Chart:
    """A chart that a notebook shows as a picture; `figure` is the matplotlib figure."""

    def __init__(self, figure: Figure, caption: str) -> None:
        self.figure = figure
        self.caption = caption

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the chart to a file in the format of its suffix: .svg, .png, .pdf or another that matplotlib knows.

        Raises FileNotFoundError when the file's directory does not exist.
        """
        target = file_of(path)
        self.figure.savefig(target)
        return target

    def _repr_svg_(self) -> str:
        from matplotlib import rc_context

        written = BytesIO()
        # no date and no random ids, so the same chart gives the same text
        with rc_context({"svg.hashsalt": "kit"}):
            self.figure.savefig(written, format="svg", facecolor="none", metadata={"Date": None, "Creator": None})
        _, _, svg = written.getvalue().decode().partition("<svg")
        head, _, drawn = svg.partition(">")
        alternative = f'role="img" aria-label="{escape(self.caption)}"'
        size = f'width="100%" style="max-width:{LEAST_WIDTH * MOST_GROWTH:g}px"'
        head = re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', f"{size} {alternative}", head)
        return f"<svg{head}>{CARD}{drawn}"

    def _repr_html_(self) -> str:
        # matplotlib's rules would apply to the whole page; limit them to this drawing
        own = self._repr_svg_().replace("*{", ".kit-chart *{", 1)
        own = own.replace("<svg", '<svg class="kit-chart" fill="var(--kit-ink)"', 1)
        return page_html(in_theme(recoloured(own)), self.caption, LEAST_WIDTH)

    def __repr__(self) -> str:
        return f"Chart({self.caption!r})"

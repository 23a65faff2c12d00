"""Pictures as objects: a notebook shows them by itself, and `save` writes them to a file.

A picture is drawn on a light card of its own, so it reads the same in a light and in a dark theme, on paper, and where
a notebook is shown without a kernel. Nothing here touches pyplot: no figure is shown twice, none is kept.
"""

from __future__ import annotations

import re
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


LEAST_WIDTH = 1100
"""All pictures are at least so wide, in px, so that texts are about the same size in all."""
CARD = '<rect width="100%" height="100%" rx="8" fill="#ffffff"/>'
"""What pictures are drawn on: it is light in a dark theme as well."""


class Svg(str):
    """An SVG document that a notebook shows as a picture; it is its own text. `caption` says in words what is drawn."""

    caption = ""

    @classmethod
    def of(cls, text: str, caption: str) -> Svg:
        """The document with its caption."""
        made = cls(text)
        made.caption = caption
        return made

    def save(self, path: str | Path) -> Path:
        """Write the picture to a file, whose name must end in .svg; returns its path."""
        target = Path(path)
        if target.suffix != ".svg":
            raise ValueError(f"{target.name!r}: this picture is saved as SVG, so the file's name must end in .svg")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(self, encoding="utf-8")
        return target

    def _repr_svg_(self) -> str:
        return str(self)

    def __repr__(self) -> str:
        return f"Svg({self.caption!r})"


class Chart:
    """A chart that a notebook shows as a picture; `figure` is matplotlib's, to change or to save it further."""

    def __init__(self, figure: Figure, caption: str) -> None:
        self.figure = figure
        self.caption = caption

    def save(self, path: str | Path) -> Path:
        """Write the chart to a file, as what its name ends in: .svg, .png, .pdf and what else matplotlib knows."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
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
        head = re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', f'width="100%" style="max-width:{LEAST_WIDTH}px"', head)
        return f"<svg{head}>{CARD}{drawn}"

    def __repr__(self) -> str:
        return f"Chart({self.caption!r})"

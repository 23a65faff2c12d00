"""The words of a picture or a page, in the order of the document, and the numbers of its shapes; no coordinates."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser

SAYING = ("aria-label", "title", "alt")
SILENT = ("style", "script")
DRAWING = frozenset({"path", "rect", "circle", "ellipse", "line", "polygon", "polyline", "use", "image"})


class _Reader(HTMLParser):
    """Collects what is said. Comments count: where matplotlib draws letters as shapes, it writes the text into one."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.said: list[str] = []
        self.shapes: Counter[str] = Counter()
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._silent += tag in SILENT
        if tag in DRAWING:
            self.shapes[" ".join([tag, *(dict(attrs).get("class") or "").split()[:1]])] += 1
        for name, value in attrs:
            if name in SAYING:
                self._say(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self._silent -= tag in SILENT

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in SILENT

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self._say(data)

    def handle_comment(self, data: str) -> None:
        self._say(data)

    def _say(self, text: str) -> None:
        line = " ".join(text.split())
        if line:
            self.said.append(line)


def words(markup: str | list[str]) -> list[str]:
    """Return the texts of an SVG or HTML document; a notebook may store the document as a list of lines."""
    return _read(markup).said


def shapes(markup: str | list[str]) -> list[str]:
    """Return how many shapes of each kind a document draws, by tag and first class: "4 path g-edge"."""
    return [f"{count} {kind}" for kind, count in sorted(_read(markup).shapes.items())]


def _read(markup: str | list[str]) -> _Reader:
    reader = _Reader()
    reader.feed(markup if isinstance(markup, str) else "".join(markup))
    reader.close()
    return reader

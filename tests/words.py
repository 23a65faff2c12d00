"""The words of a picture or a page: its texts, titles and labels in the order of the document, and no coordinates."""

from __future__ import annotations

from html.parser import HTMLParser

SAYING = ("aria-label", "title", "alt")
SILENT = ("style", "script")


class _Reader(HTMLParser):
    """Collects what is said. Comments count: where matplotlib draws letters as shapes, it writes the text into one."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.said: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._silent += tag in SILENT
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
    reader = _Reader()
    reader.feed(markup if isinstance(markup, str) else "".join(markup))
    reader.close()
    return reader.said

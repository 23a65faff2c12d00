"""The pictures of the run with several of everything: `python -m tests.draw.several` writes `several.txt` again.

The file has the words of each picture, with `#` for each duration, which depends on the order of messages. After a
change of words or of a picture, read the output of `git diff`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

from kit.draw import compare
from kit.draw.page.page import checkpoints_table
from kit.draw.stage.drawing import graph
from kit.draw.stage.film import film_layout
from kit.draw.stage.frames import last_frame
from kit.draw.views.views import VIEWS
from kit.hosts.lab import Lab
from kit.run.subject import Subject
from tests.several_run import moments

STORED = Path(__file__).with_suffix(".txt")
SHOWN = {
    "worker 0 is lost": ("life", "at-risk"),
    "6 and 7 are pending": ("barriers", "phases", "life"),
    "the job stops": ("phases", "rescaling", "snapshot", "shared-state"),
}
"""The views that are shown at a moment, besides the job itself."""
PLACED = ("rescaling", "shared-state")
"""The views whose shapes are where sizes put them, not times."""
CLOSED = frozenset({"left", "totals"})
_HIDDEN = re.compile(r"<(style|script|title)\b.*?</\1>", re.DOTALL)
_PLACE = re.compile(r' (?:x|y|x1|x2|y1|y2|cx|cy|r|d|width|height)="[^"]*"')
_LETTER = re.compile("[a-z]")
_LENGTH = re.compile(r"(\d+ min )?\d[\d,.]*\s?(ms|s)\b")


def pictures() -> Iterator[tuple[str, list[str]]]:
    """Each picture with its lines."""
    for moment, lab, _ in moments():
        yield f"{moment}: the job", list(_job(lab))
        if lab.moment().pending:
            yield f"{moment}: the job with closed vertices", list(_job(lab, CLOSED))
        for view in VIEWS:
            if view.name in SHOWN.get(moment, ()):
                drawn = view.draw(Subject(lab))
                html = drawn._repr_html_()
                yield f"{moment}: {view.name}", _words(html) + (_shapes(html) if view.name in PLACED else [])
                table = drawn.to_pandas()
                untimed = [name for name in table.columns if not str(name).endswith("_ms")]
                yield f"{moment}: {view.name}, its table", table[untimed].to_csv(index=False).splitlines()
    table = checkpoints_table(lab.moment()).drop(columns=["triggered_ms", "duration_ms"])
    yield "the end: checkpoints", table.to_csv(index=False).splitlines()
    yield "the end: compared", _words(compare({"one": lab, "again": lab.trace})._repr_html_())


def _job(lab: Lab, closed: frozenset[str] = frozenset()) -> Iterator[str]:
    """The lines on the picture of the job at present, while checkpoints are pending with all that is drawn."""
    frame = last_frame(lab)
    for name, sprite in graph(film_layout(frame.stage, closed), frame.moment).items():
        if frame.moment.pending:
            shown = (f"{key}={each}" for key, each in sprite.items() if key not in ("tag", "layer", "title"))
            yield f"{name} {sprite['tag']} {' '.join(shown)}"
        elif sprite.get("text") or sprite.get("title"):
            yield f"{name} ({sprite['class']}): {sprite.get('text', '')} {sprite.get('title', '')}".rstrip()


def _words(html: str) -> list[str]:
    """The words of a picture, a line for each of its parts."""
    parts = re.sub(r"<[^>]+>", "\n", _HIDDEN.sub("", html)).splitlines()
    return [unescape(each.strip()) for each in parts if _LETTER.search(_LENGTH.sub("#", each))]


def _shapes(html: str) -> list[str]:
    """The places of all shapes, one per line."""
    shapes = re.findall(r"<(rect|path|text|line|circle)\b([^>]*?)/?>", _HIDDEN.sub("", html))
    return [f"{kind}{' '.join(_PLACE.findall(places))}" for kind, places in shapes]


def written() -> str:
    """The pictures as they are stored."""
    return "\n".join(f"# {title}\n{_LENGTH.sub('#', chr(10).join(lines))}\n" for title, lines in pictures())


if __name__ == "__main__":
    STORED.write_text(written(), encoding="utf-8")

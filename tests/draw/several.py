"""The pictures of two runs with several of everything: `python -m tests.draw.several` writes `several.txt` again.

The file has the words of each picture, with `#` for each duration, which depends on the order of messages. After a
change of words or of a picture, read the output of `git diff`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from itertools import chain
from pathlib import Path

from kit.draw import barriers, chains, compare, rescaling, state_machines
from kit.draw.graphs import Graph
from kit.draw.page.page import checkpoints_table
from kit.draw.stage.drawing import graph
from kit.draw.stage.film import Film, FilmBuilder, film_layout
from kit.draw.stage.frames import last_frame
from kit.draw.views.views import VIEWS
from kit.hosts.lab import Lab
from kit.run.run import run_of
from kit.run.subject import Subject
from tests.several_run import moments
from tests.timed_run import timed_moments

STORED = Path(__file__).with_suffix(".txt")
SHOWN = {
    "worker 0 is lost": ("life", "at-risk"),
    "6 and 7 are pending": ("barriers", "phases", "life"),
    "the job stops": ("phases", "rescaling", "snapshot", "shared-state"),
    "readers are paused": ("barriers", "phases", "life"),
    "two are complete": ("at-risk", "snapshot"),
    "a region restores": ("life",),
    "rescaled": ("rescaling", "barriers"),
    "it stops": ("phases",),
}
"""The views that are shown at a moment, besides the job itself."""
WAITING = ("6 and 7 are pending", "readers are paused")
"""The moments at which the ways of barriers are shown as graphs."""
RESTORED = ("the job stops", "rescaled")
"""The moments at which the job, its states and its last restore are shown as graphs."""
PLACED = ("rescaling", "shared-state")
"""The views whose shapes are where sizes put them, not times."""
CLOSED = frozenset({"left", "totals", "fast", "copies"})
_HIDDEN = re.compile(r"<(style|script|title)\b.*?</\1>", re.DOTALL)
_PLACE = re.compile(r' (?:x|y|x1|x2|y1|y2|cx|cy|r|d|width|height)="[^"]*"')
_LETTER = re.compile("[a-z]")
_LENGTH = re.compile(r"(\d+ min )?\d[\d,.]*\s?(ms|s)\b")


def pictures() -> Iterator[tuple[str, list[str]]]:
    """Each picture with its lines."""
    ends: dict[str, Lab] = {}
    for moment, lab, _ in chain(moments(), timed_moments()):
        ends[lab.job.name] = lab
        if moment in SHOWN or lab.job.name == "several":
            yield f"{moment}: the job", list(_job(lab))
        if moment in SHOWN and lab.moment().pending:
            yield f"{moment}: the job with closed vertices", list(_job(lab, CLOSED))
        for view in VIEWS:
            if view.name in SHOWN.get(moment, ()):
                drawn = view.draw(Subject(lab))
                html = drawn._repr_html_()
                yield f"{moment}: {view.name}", _words(html) + (_shapes(html) if view.name in PLACED else [])
                table = drawn.to_pandas()
                untimed = [name for name in table.columns if not str(name).endswith("_ms")]
                yield f"{moment}: {view.name}, its table", table[untimed].to_csv(index=False).splitlines()
        for name, shown in _graphs(moment, lab):
            yield f"{moment}: graph of {name}", list(_lines(shown))
    for name, lab in ends.items():
        table = checkpoints_table(lab.moment()).drop(columns=["triggered_ms", "duration_ms"])
        yield f"{name}, at its end: checkpoints", table.to_csv(index=False).splitlines()
        yield f"{name}, at its end: film", list(_film(lab))
    compared = compare({**ends, "several again": ends["several"].trace})._repr_html_()
    yield "both at their ends: compared", _words(compared) + _shapes(compared)


def _graphs(moment: str, lab: Lab) -> Iterator[tuple[str, Graph]]:
    """The graphs that are shown at a moment."""
    if moment in WAITING:
        yield "waits", barriers(lab).graph()
        yield "propagation", barriers(lab).propagation()
    if moment in RESTORED:
        yield "redistribution", rescaling(lab).graph()
        layers = chains(lab)
        yield "job graph", layers.job_graph()
        yield "stream graph", layers.stream_graph()
        yield "execution graph", layers.execution_graph.graph()
        yield from ((f"machine {name}", each.graph()) for name, each in state_machines(lab).items())


def _lines(graph: Graph) -> Iterator[str]:
    """The boxes and arrows of a graph, and what the `graphviz` package gets of them."""
    yield graph.caption
    yield from (f"{each.name}: {' | '.join(each.lines)} {each.meaning} {each.tip}".rstrip() for each in graph.nodes)
    for each in graph.edges:
        yield f"{each.source} -> {each.target}: {' | '.join(each.lines)} {each.meaning} {each.tip}".rstrip()
    yield from (f"{group.title}: {' '.join(group.members)}" for group in graph.groups)
    yield from (f"row: {' '.join(row)}" for row in graph.rows)


def _film(lab: Lab) -> Iterator[str]:
    """Each 20th frame of the film, and what becomes of the last and of the first gap when they get frames."""
    builder = FilmBuilder()
    builder.take(run_of(lab))
    frames = builder.film["frames"]
    yield from map(_told, frames[::20])
    gaps = [number for number, frame in enumerate(frames) if frame.get("skipped")]
    for gap in (gaps[-1], gaps[0]):
        before, after = frames[gap - 1]["n"], frames[gap]["n"]
        yield f"before frame {gap}, of {after - before} records:"
        count = len(builder.insert(gap, (before + after) // 2)["frames"])
        yield from map(_told, frames[gap - 1 : gap + count + 1])


def _told(frame: Film) -> str:
    shown = [
        f"{name}={frame[name]}"
        for name in ("stage", "n", "in_story", "step", "mark", "skipped", "by", "about")
        if name in frame
    ]
    drawn = f"{len(frame['set'])} sprites" + " in all" * ("whole" in frame)
    return f"{' '.join(shown)}: {frame['words'][0]}; {drawn}"


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

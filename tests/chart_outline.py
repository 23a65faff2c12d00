"""The stable part of a chart of measured times: its words without durations, its axes, their marks and lanes.

A job on Spark takes another time in each run. So a bar has another length, an axis other ticks, and a phase that took
no time has neither a bar nor an entry in the legend. `outline` leaves these out and keeps the rest:

- the texts in order, with "TIME" for each duration, without those at the ticks;
- for each axes, the marks in order by kind and colour ("3 areas #0b9f74"), and the legend of the figure;
- if ticks name lanes (the subtasks of a checkpoint), the lanes from top to bottom in place of these. For each lane it
  says if it has bars, and if a gap is between them. Of the legend, it lists the colours that no bar has, or only bars.

It reads the SVG of matplotlib, where each text is a comment and each mark of the data is clipped to its axes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby, pairwise
from xml.etree import ElementTree as ET

from tests.words import words

DURATION = re.compile(r"\d[\d,.]* (?:ms|s|min|h)\b(?: \d[\d,.]* (?:s|min)\b)*")
NUMBER = re.compile(r"[\d,.−-]+")
HREF = "{http://www.w3.org/1999/xlink}href"
TOUCHING = 0.01
"""The distance, in units of the drawing, of two bars that touch."""


def without_times(text: str) -> str:
    """Return the text with "TIME" in place of each duration, as `kit.run.durations` writes them."""
    return DURATION.sub("TIME", text)


def outline(markup: str | list[str]) -> list[str]:
    """Return what stays the same in a document with at most one chart, from run to run."""
    text = markup if isinstance(markup, str) else "".join(markup)
    begin, end = text.find("<svg"), text.rfind("</svg>")
    if begin < 0:
        return list(map(without_times, words(text)))
    end += len("</svg>")
    around = words(text[:begin] + text[end:])
    parser = ET.XMLParser(target=ET.TreeBuilder(insert_comments=True))
    drawn = ET.fromstring(text[begin:end], parser)
    said = [*around, drawn.get("aria-label", ""), *_chart(drawn)]
    return list(map(without_times, said))


def _chart(drawn: ET.Element) -> Iterator[str]:
    """Yield the lines of each axes, and then those of the figure's legend."""
    figure = next(iter(_groups(drawn, "figure_")))
    entries = [each for legend in figure if legend.get("id", "").startswith("legend_") for each in _entries(legend)]
    has_lanes = False
    for number, axes in enumerate(_groups(figure, "axes_"), 1):
        yield f"axes {number}"
        lanes = dict(_lanes(axes))
        at_ticks = {text for tick in _groups(axes, "xtick_", "ytick_") for text in tick.iter(ET.Comment)}
        yield from (_text(each) for each in axes.iter(ET.Comment) if each not in at_ticks)
        marks = list(_marks(axes))
        if lanes:
            has_lanes = True
            yield from _bars(lanes, marks, _box(axes[0][0])[0])
            inks = {_ink(mark) for mark in marks} ^ {ink for ink, _ in entries}
            yield f"colours only in the bars or only in the legend: {sorted(inks)}"
        else:
            for kind, same in groupby(marks, _kind):
                yield f"{len(list(same))} {kind}"
    if not has_lanes:
        yield from (f"legend: {ink} {text}" for ink, text in entries)


def _groups(parent: ET.Element, *prefixes: str) -> Iterator[ET.Element]:
    return (each for each in parent.iterfind(".//{*}g") if each.get("id", "").startswith(prefixes))


def _text(comment: ET.Element) -> str:
    return " ".join((comment.text or "").split())


def _entries(legend: ET.Element) -> Iterator[tuple[str, str]]:
    """Yield the colour and the text of each entry; its sign and its text are neighbours."""
    for sign, text in pairwise(legend):
        if text.get("id", "").startswith("text_"):
            yield _ink(sign), " ".join(map(_text, text.iter(ET.Comment)))


def _style(element: ET.Element) -> dict[str, str]:
    return dict(re.findall(r"([\w-]+): ([^;]+)", element.get("style", "")))


def _ink(element: ET.Element) -> str:
    """Return the colour of the first shape."""
    for each in element.iter():
        style = _style(each)
        if found := next((style[name] for name in ("fill", "stroke") if style.get(name, "none") != "none"), ""):
            return found
    return ""


def _marks(axes: ET.Element) -> Iterator[ET.Element]:
    """Yield the shapes that are clipped to the axes: those of the data, and not spines, ticks and legends."""
    for each in axes.iter():
        if each.get("clip-path"):
            yield from each if each.tag.endswith("}g") else (each,)


def _kind(mark: ET.Element) -> str:
    if mark.get(HREF):
        return f"markers {_ink(mark)}"
    kind = "lines" if _style(mark).get("fill") == "none" else "areas"
    return f"{kind} {_ink(mark)}"


def _lanes(axes: ET.Element) -> Iterator[tuple[str, float]]:
    """Yield the name and the height of each tick of the vertical axis that is not a number."""
    for tick in _groups(axes, "ytick_"):
        for text in map(_text, tick.iter(ET.Comment)):
            if not NUMBER.fullmatch(text):
                yield text, next(float(use.get("y", "")) for use in tick.iterfind(".//{*}use") if use.get("y"))


def _bars(lanes: dict[str, float], marks: list[ET.Element], start: float) -> Iterator[str]:
    """Yield each lane, from the top, and whether its bars follow each other from `start` without a gap."""
    boxes = [_box(mark) for mark in marks]
    for name, at in sorted(lanes.items(), key=lambda lane: lane[1]):
        own = sorted((left, right) for left, right, top, bottom in boxes if top <= at <= bottom)
        is_whole = all(abs(right - left) < TOUCHING for (_, right), (left, _) in pairwise([(start, start), *own]))
        yield f"lane {name}: {'bars' if own else 'no bar'}{'' if is_whole else ' with a gap'}"


def _box(mark: ET.Element) -> tuple[float, float, float, float]:
    """Return the left, right, top and bottom end of a path."""
    numbers = [float(each) for each in re.findall(r"-?\d+(?:\.\d+)?", mark.get("d", ""))]
    across, down = numbers[::2], numbers[1::2]
    return min(across), max(across), min(down), max(down)

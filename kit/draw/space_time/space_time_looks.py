"""The looks of everything in the space-time diagram: one table, which the document of a run carries.

The picture (`space_time_drawing.py`) and the page (`space_time_drawing.js`) take from it the shape, the colours, the
lines, the sizes and the words of what they draw. An ink is a colour of the theme; `CP` stands for the colour of the
checkpoint that the drawing belongs to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from html import escape
from typing import Any

from kit.draw.views.phase_rows import LOOK_INKS, OPEN_WORDS, SLOW_WORDS
from kit.run.checkpoint_path import BARRIER, EITHER, PHASE_WORDS, TRIGGER, WHOLE_ASYNC
from kit.run.journeys import Crossing

CP = "cp"
CHOSEN = "var(--kit-st-chosen)"
"""The colour of the chosen checkpoint in a legend; the page sets it, the picture replaces it."""


@dataclass(frozen=True, slots=True)
class Style:
    """How a line, an area or a text is drawn; the first ink that is given is the stroke's, the other the fill's."""

    stroke: str = ""
    fill: str = ""
    width: float = 1.0
    dash: tuple[float, ...] = ()
    opacity: float = 1.0
    fill_opacity: float = 1.0
    is_butt: bool = False
    size: float = 0.0
    """The size of a text's letters, in px."""
    weight: int = 400
    has_halo: bool = False
    """Whether a text has a rim in the colour of the paper, because lines run below it."""

    def css(self, checkpoint: str = CHOSEN) -> str:
        """Return the declarations of a style sheet; `checkpoint` is the value for `CP`."""
        inks = [checkpoint if ink == CP else f"var(--kit-{ink})" if ink else "none" for ink in (self.stroke, self.fill)]
        hint = {"stroke": inks[0], "fill": inks[1]}
        if self.stroke:
            hint |= {"stroke-width": f"{self.width:g}", "stroke-opacity": f"{self.opacity:g}"}
            hint["stroke-linecap"] = "butt" if self.is_butt else "round"
            if self.dash:
                hint["stroke-dasharray"] = " ".join(f"{each:g}" for each in self.dash)
        if self.fill:
            hint["fill-opacity"] = f"{self.opacity * self.fill_opacity:g}"
        if self.size:
            hint |= {"font-size": f"{self.size:g}px", "font-weight": str(self.weight)}
        if self.has_halo:
            hint |= {"stroke": "var(--kit-paper)", "stroke-width": "3", "stroke-opacity": "0.85"}
            hint["paint-order"] = "stroke"
        return ";".join(f"{name}:{value}" for name, value in hint.items())


@dataclass(frozen=True, slots=True)
class Look:
    """The look of one kind of thing.

    `shape` names the function that draws it, with the styles of the look's name and, for parts, of `"NAME PART"`.
    `layer` orders marks from the ground up. `legend` names its entries in the legend. `hint` is the template of its
    hint, and `picks` the type of what a click chooses.
    """

    shape: str
    layer: int = 0
    legend: tuple[str, ...] = ()
    hint: str = ""
    picks: str = ""
    only_chosen: bool = False
    """Whether it is drawn only for the checkpoint that is chosen."""
    has_other: bool = False
    """Whether there is a style `"other NAME"` for checkpoints that are not chosen."""
    head: float = 0.0
    """The size of an arrow's head, in px."""
    waits: bool = False
    """Whether an arrow runs along the lines on which it waits."""
    crosses: bool = False
    """Whether an arrow crosses the cut: it is drawn as it is, among however many."""
    times: tuple[str, ...] = ()
    """The names of an arrow's times: queued, sent, received, taken, and the words for one that is not taken."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the legend: its sign as SVG, 26 by 14 px, and its words. `together` is the entry that replaces it if
    several with the same `together` occur.
    """

    sign: str
    words: str
    together: str = ""


SIZES: Mapping[str, Any] = {
    "ruler": 34,
    "job": 26,
    "rows": ((7, 46), (14, 36), (24, 28), (None, 20)),
    "header": 20,
    "gap": 12,
    "narrow_gap": 3,
    "most_lines": 8,
    "most_open": 24,
    "least_tick": 110,
    "letter": 0.58,
    "close": 12,
    "wait": 4.5,
    "cut_end": 12,
    "below": 8,
    "bar": (8, 0.2),
    "square": (5, 3.5),
    "plate": (18, 9, 7, 3),
    "small_plate": (14, 6, 7, 2),
    "dot": 4,
    "end_words": -17,
    "triangle": (-6.5, -7, 6.5, -7, 0, 6),
    "room_for_bars": 20,
    "room_for_captions": 28,
    "most_captions": 6,
    "numbered": 16,
    "crowd": 150,
    "faintest": 0.22,
    "thin": (60, 1.4),
    "plain": 250,
    "many": 900,
    "apart": 1.5,
    "margin": 0.2,
    "least_margin": 4,
}
"""Sizes in px, and numbers of things.

- `rows`: the distance of lines, by the largest number of lines. `most_lines` of a vertex, and `most_open` of a job, are
  drawn without a header. `close`: the distance below which lines are faint.
- `letter`: the width of a letter, as a fraction of the font size. `wait`: the distance between a queue and its task's
  line. `cut_end`: how far a cut reaches beyond its ends.
- A bar is `below` its line; `bar` is its height, and at most a fraction of the lines' distance. `square`: half its
  side, for the chosen checkpoint and for others. A plate has a height, a width, a width for each digit, and a radius.
- Bars have a `room_for_bars`, their captions a `room_for_captions`, and no more than `most_captions` are drawn, because
  more would hide their subjects. No more than `numbered` barriers have a number.
- More than `crowd` arrows of a look are fainter. `thin`: from how many on they are no wider. More than `plain` are
  solid as well, because dashes and width take most of a frame. Of more than `many` a part is drawn, `apart` from each
  other.
- `margin`, at least `least_margin` ms or records, is seen beside a checkpoint.
"""

ELEMENT_TIMES = ("queued", "sent", "received", "taken", "not taken yet")
LETTER_TIMES = ("", "sent", "", "received", "on its way")
ARROWS: Mapping[str, tuple[Style, float, float]] = {
    "letter": (Style("line", opacity=0.9, dash=(4, 3)), 0, 5),
    "sign": (Style("line", opacity=0.9, dash=(1.5, 3)), 2, 5.5),
    "AFTER": (Style("line", opacity=0.9, dash=(8, 4)), 3, 5.5),
    "records": (Style("line", opacity=0.75), 3, 5.5),
    "BEFORE": (Style("ink-2", width=1.5), 3, 5.5),
    "barrier": (Style(CP, width=2.6), 5, 7),
    "IN_FLIGHT": (Style("in-flight", width=2), 4.5, 7),
    "AGAINST": (Style("against", width=2.2, dash=(6, 3)), 4.5, 7),
}
"""The arrows in the order in which they are drawn: their line, its width while they wait, and the size of the head.

Buffers of records are drawn by their side of the chosen cut, and as "records" if it is unknown.
"""
_DARK_WAITS = ("barrier", "IN_FLIGHT", "AGAINST")


def _arrow_styles() -> dict[str, Style]:
    styles = {}
    for name, (line, wait, _) in ARROWS.items():
        styles[name] = line
        styles[f"{name} plain"] = Style(line.stroke, opacity=line.opacity)
        waits = 0.85 if name in _DARK_WAITS else 0.5
        styles[f"{name} wait"] = Style(line.stroke, width=wait, opacity=line.opacity * waits, is_butt=True)
        styles[f"{name} head"] = Style(fill=line.stroke, opacity=line.opacity)
    return styles


def phase_look(look: str, *, is_open: bool = False) -> str:
    """Return the look of a bar, from that of a span; an open one is not finished."""
    return f"phase {look}{' open' if is_open else ''}"


def _phase_styles() -> dict[str, Style]:
    styles = {}
    for look, ink in LOOK_INKS.items():
        styles[phase_look(look)] = Style(fill=ink, opacity=0.9)
        styles[phase_look(look, is_open=True)] = Style(ink, ink, width=1.4, dash=(3, 2), fill_opacity=0.25)
    return styles


STYLES: Mapping[str, Style] = {
    "grid": Style("faint"),
    "tick": Style(fill="quiet", size=10.5, has_halo=True),
    "epoch": Style("quiet", dash=(2, 4)),
    "epoch words": Style(fill="ink-2", size=10.5, weight=600, has_halo=True),
    "band": Style(fill="card"),
    "region": Style(fill=CP, opacity=0.07),
    "lane": Style("line", width=1.2),
    "close lane": Style("line", width=0.5, opacity=0.3),
    "job": Style("ink-2", width=1.6),
    "cut": Style(CP, width=9, opacity=0.34),
    "other cut": Style(CP, width=5, opacity=0.2),
    "copy": Style(fill=CP),
    "other copy": Style(fill=CP, opacity=0.5),
    "life": Style(CP, width=6, opacity=0.5),
    "other life": Style(CP, width=3, opacity=0.3),
    "flag": Style(fill=CP),
    "flag words": Style(fill="on-cp", size=11, weight=700),
    "barrier flag": Style(fill=CP),
    "barrier flag words": Style(fill="on-cp", size=10, weight=700),
    "done": Style(fill="good-solid"),
    "done words": Style(fill="good", size=11, weight=700, has_halo=True),
    "failed": Style(fill="bad-solid"),
    "failed words": Style(fill="bad", size=11, weight=700, has_halo=True),
    "lost words": Style(fill="bad", size=12, weight=700, has_halo=True),
    "lost sign": Style(fill="bad", size=10, has_halo=True),
    "failure": Style("paper", "bad-solid", width=1.2),
    "fault": Style("paper", "bad-solid", width=1.2),
    "restore": Style("paper", "accent", width=1.2),
    "slow": Style("bad", width=1.6),
    "caption": Style(fill="bad", size=10.5, has_halo=True),
    "wait sign": Style("line", width=4, is_butt=True),
    "open sign": Style("quiet", dash=(3, 2)),
    **_phase_styles(),
    **_arrow_styles(),
}


def _of_checkpoint(shape: str, *, has_other: bool = False) -> Look:
    return Look(shape, 3, hint="{about}", picks="checkpoint", has_other=has_other)


def _bar(words: str, *legend: str) -> Look:
    return Look("bar", 1, legend, "{lane} " + words + ": {length}{note}", picks="checkpoint", only_chosen=True)


LOOKS: Mapping[str, Look] = {
    "epoch": Look("epoch", hint="{words}: all tasks are deployed again"),
    **{phase_look(look): _bar(words, phase_look(look)) for look, words in PHASE_WORDS.items()},
    **{phase_look(look, is_open=True): _bar(words, phase_look(look), "open") for look, words in PHASE_WORDS.items()},
    "slow": Look("bar", 1, ("slow",), "{lane} {note}", picks="checkpoint", only_chosen=True),
    "copy": Look(
        "square",
        2,
        hint="{lane} copies its state for checkpoint {id}, at {when}",
        picks="checkpoint",
        has_other=True,
    ),
    "lost": Look("words", 2, hint="{lane} is lost, at {when}", picks="task"),
    "life": _of_checkpoint("span", has_other=True),
    "flag": _of_checkpoint("plate"),
    "done": _of_checkpoint("end"),
    "failed": _of_checkpoint("end"),
    **{
        kind: Look("triangle", 4, (kind,), hint="{words}, at {when}", picks="job")
        for kind in ("failure", "fault", "restore")
    },
    **{
        name: Look(
            "arrow",
            legend=(name,),
            hint="{what}, {source} → {target}",
            picks="message" if name == "letter" else "channel",
            head=head,
            waits=wait > 0,
            crosses=name in ("IN_FLIGHT", "AGAINST"),
            times=LETTER_TIMES if name == "letter" else ELEMENT_TIMES,
        )
        for name, (_, wait, head) in ARROWS.items()
    },
}
NAMES = tuple(LOOKS)
"""The looks by number, for the columns of the document."""
LAYERS = 5


def _sign(shape: str, style: str, geometry: str) -> str:
    return f'<{shape} {geometry} style="{escape(STYLES[style].css())}"/>'


def _line_entry(style: str, words: str) -> Entry:
    return Entry(_sign("path", style, 'd="M2 7H24"'), words)


_TOGETHER = {TRIGGER: EITHER, EITHER: EITHER, BARRIER: EITHER, "async": WHOLE_ASYNC, WHOLE_ASYNC: WHOLE_ASYNC}
"""For phases that share a colour, the one whose words fit all of them."""


def _phase_entry(look: str) -> Entry:
    sign = _sign("rect", phase_look(look), 'x="2" y="3" width="22" height="7"')
    together = _TOGETHER.get(look)
    return Entry(sign, PHASE_WORDS[look], phase_look(together) if together else "")


def _triangle_entry(style: str, words: str) -> Entry:
    return Entry(_sign("path", style, 'd="M6 2h12l-6 9z"'), words)


LEGEND: Mapping[str, Entry] = {
    "cut": Entry(
        _sign("path", "cut", 'd="M4 7H22"') + _sign("rect", "copy", 'x="9" y="3" width="8" height="8"'),
        "cut: each task copies its state; shaded, what is in the checkpoint",
    ),
    "other cuts": Entry(
        f'<path d="M4 7H22" style="{escape(STYLES["other cut"].css("var(--kit-quiet)"))}"/>',
        "cuts of other checkpoints",
    ),
    "barrier": _line_entry("barrier", "barrier"),
    "IN_FLIGHT": _line_entry("IN_FLIGHT", "in flight: sent before the cut, taken after it"),
    "AGAINST": _line_entry("AGAINST", "against the cut: sent after it, taken before it"),
    "BEFORE": _line_entry("BEFORE", "records in the checkpoint"),
    "AFTER": _line_entry("AFTER", "records not in it"),
    "records": _line_entry("records", "records"),
    "sign": _line_entry("sign", "watermark or end of input"),
    "wait": Entry(_sign("path", "wait sign", 'd="M2 7H24"'), "along a line: waits in a queue there"),
    "letter": _line_entry("letter", "message from or to the JobMaster"),
    "lost": Entry(
        f'<text x="13" y="10.5" text-anchor="middle" style="{escape(STYLES["lost sign"].css())}">✗</text>',
        "lost on its way",
    ),
    **{phase_look(look): _phase_entry(look) for look in PHASE_WORDS},
    "open": Entry(_sign("rect", "open sign", 'x="2" y="3" width="22" height="7"'), OPEN_WORDS),
    "slow": Entry(_sign("rect", "slow", 'x="2" y="2" width="22" height="9"'), SLOW_WORDS),
    "failure": _triangle_entry("failure", "failure"),
    "fault": _triangle_entry("fault", "fault made in the lab"),
    "restore": _triangle_entry("restore", "restore"),
}
"""The entries in the order of the legend, which has those that occur."""


def _changed_fields(each: Style | Look | Entry) -> dict[str, Any]:
    """Return the fields that differ from their defaults."""
    return {one.name: getattr(each, one.name) for one in fields(each) if getattr(each, one.name) != one.default}


TABLE: Mapping[str, Any] = {
    "sizes": SIZES,
    "styles": {name: _changed_fields(style) for name, style in STYLES.items()},
    "looks": {name: _changed_fields(look) for name, look in LOOKS.items()},
    "arrows": tuple(ARROWS),
    "layers": LAYERS,
    "legend": {name: _changed_fields(entry) for name, entry in LEGEND.items()},
    "crossings": {crossing.name: crossing.value for crossing in Crossing},
}
"""The whole table, JSON-like."""

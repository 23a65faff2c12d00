"""The legend of a stage: the meaning of each sign. A picture's legend has only the signs that occur in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from kit.draw.stage.scene import Scene

LEGEND_ROW = 24
OF_A_CHECKPOINT = "cp0"
"""The colour of signs in a checkpoint's colour; in a picture, that of its first checkpoint."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A sign, shown if some sprite has all these `classes`; `indent` is the width of its drawing."""

    classes: str
    sign: str
    indent: float
    says: str


def _rect(look: str, width: float, height: float, radius: float) -> str:
    return f'<rect x="0" y="{-height / 2:g}" width="{width:g}" height="{height:g}" rx="{radius:g}" class="{look}"/>'


def _flag(look: str) -> str:
    return _rect(look, 12, 14, 1.5) + '<text x="6" y="3.6" text-anchor="middle" class="barrier-number">n</text>'


def _sign(text: str) -> str:
    return f'<text x="5" y="3.6" text-anchor="middle" class="sign">{text}</text>'


def _badge(phase: str, sign: str, says: str, width: int = 22) -> Entry:
    text = f'<text x="{width / 2:g}" y="3.8" text-anchor="middle" class="badge-text {phase}">{sign}</text>'
    return Entry(f"badge {phase}", _rect(f"badge {phase}", width, 16, 8) + text, width + 5, says)


def _cell(phase: str, says: str) -> Entry:
    look = f"cell-task {phase}"
    return Entry(look, f'<rect x="0" y="-6" width="11" height="11" rx="2" class="{look}"/>', 16, f"subtask{says}")


LEGEND = (
    Entry("buffer before", _rect("buffer before", 12, 12, 2), 17, "buffer, and how many records are in it"),
    Entry("buffer after", _rect("buffer after", 12, 12, 2), 17, "records behind a barrier: not in its checkpoint"),
    Entry("barrier", _flag("barrier cp0"), 17, "barrier of checkpoint n"),
    Entry("barrier unaligned", _flag("barrier cp0 unaligned"), 17, "barrier that overtakes"),
    Entry("cancel", _flag("cancel"), 17, "cancel marker: checkpoint n is cancelled"),
    Entry(
        "lock",
        '<path d="M0 0H26" class="lane blocked"/><use href="#kit-lock" x="20" y="0" class="lock"/>',
        31,
        "blocked until the other barriers came",
    ),
    Entry(
        "ring",
        _rect("ring cp0", 18, 13, 6.5) + '<text x="9" y="3.4" text-anchor="middle" class="ring-text">n?</text>',
        23,
        "barrier n is awaited here",
    ),
    Entry("sign watermark", _sign("w"), 14, "watermark"),
    Entry("sign status", _sign("z"), 14, "idle, or active again"),
    Entry("sign from", _sign("↪"), 14, "a recovered buffer follows"),
    Entry("sign recovered", _sign("◂"), 14, "end of what was recovered"),
    Entry("sign end", _sign("▪"), 14, "end of data"),
    Entry("sign last", _sign("■"), 14, "end of the stream"),
    _badge("aligning", "…", "barriers come in"),
    _badge("writing", "✎", "writes its state"),
    _badge("capturing", "✎…", "captures in-flight data", 32),
    _badge("sent", "▴", "has sent its acknowledgement"),
    _badge("acknowledged", "✓", "acknowledged"),
    _badge("unheard", "?", "its acknowledgement was lost"),
    _badge("declined", "✗", "declined"),
    _cell("aligning", ": barriers come in"),
    _cell("writing", " writes its state"),
    _cell("capturing", " captures in-flight data"),
    _cell("sent", " has sent its acknowledgement"),
    _cell("acknowledged", " has acknowledged"),
    _cell("running", " runs"),
    Entry("task failed", _rect("task failed", 14, 14, 3), 19, "failed"),
    Entry("mail in", _rect("mail in", 18, 13, 6.5), 23, "message to a task"),
    Entry("mail out", _rect("mail out", 18, 13, 6.5), 23, "message from a task"),
    Entry("times", '<text x="0" y="3.6" class="times">×3</text>', 20, "in this number of channels"),
    Entry("more", '<text x="0" y="3.6" class="more">+3</text>', 20, "so many more"),
)


def legend_svg(sprites: Scene, width: float, top: float) -> tuple[str, float]:
    """Return the legend of these sprites, in rows below `top`, and the height of the picture with it."""
    # the JobMaster's panel has its own words
    drawn = (each for each in sprites.values() if each.get("layer") != "panel")
    classes = dict.fromkeys(frozenset(str(sprite.get("class", "")).split()) for sprite in drawn)
    found = ((entry, next((e for e in classes if e >= set(entry.classes.split())), None)) for entry in LEGEND)
    shown = [(entry, like) for entry, like in found if like is not None]
    if not shown:
        return "", top
    parts, x, y = [], 24.0, top + 14
    for entry, like in shown:
        room = entry.indent + 6.1 * len(entry.says) + 20
        if x + room > width - 12 and x > 24:
            x, y = 24.0, y + LEGEND_ROW
        words = f'<text x="{entry.indent:g}" y="3.8" class="legend">{escape(entry.says)}</text>'
        colour = next((each for each in like if each.startswith("cp")), OF_A_CHECKPOINT)
        sign = entry.sign.replace(OF_A_CHECKPOINT, colour)
        parts.append(f'<g transform="translate({x:g} {y:g})">{sign}{words}</g>')
        x += room
    return "".join(parts), y + LEGEND_ROW


def legend_data() -> list[Mapping[str, object]]:
    """Return all entries for a page, which shows those that occur at the moment: `{"has", "svg", "width", "says"}`."""
    return [
        {"has": "." + ".".join(e.classes.split()), "svg": e.sign, "width": e.indent - 4, "says": e.says} for e in LEGEND
    ]

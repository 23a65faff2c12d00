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


def _sign(text: str) -> str:
    return f'<text x="5" y="3.6" text-anchor="middle" class="sign">{text}</text>'


def _badge(phase: str, sign: str, width: int = 22) -> str:
    return (
        f'<rect x="0" y="-8" width="{width}" height="16" rx="8" class="badge {phase}"/>'
        f'<text x="{width / 2:g}" y="3.8" text-anchor="middle" class="badge-text {phase}">{sign}</text>'
    )


LEGEND = (
    Entry(
        "buffer before",
        '<rect x="0" y="-6" width="12" height="12" rx="2" class="buffer before"/>',
        17,
        "buffer, and how many records are in it",
    ),
    Entry(
        "buffer after",
        '<rect x="0" y="-6" width="12" height="12" rx="2" class="buffer after"/>',
        17,
        "records behind a barrier: not in its checkpoint",
    ),
    Entry(
        "barrier",
        '<rect x="0" y="-7" width="12" height="14" rx="1.5" class="barrier cp0"/>'
        '<text x="6" y="3.6" text-anchor="middle" class="barrier-number">n</text>',
        17,
        "barrier of checkpoint n",
    ),
    Entry(
        "barrier unaligned",
        '<rect x="0" y="-7" width="12" height="14" rx="1.5" class="barrier cp0 unaligned"/>'
        '<text x="6" y="3.6" text-anchor="middle" class="barrier-number">n</text>',
        17,
        "barrier that overtakes",
    ),
    Entry(
        "cancel",
        '<rect x="0" y="-7" width="12" height="14" rx="1.5" class="cancel"/>'
        '<text x="6" y="3.6" text-anchor="middle" class="barrier-number">n</text>',
        17,
        "cancel marker: checkpoint n is off",
    ),
    Entry(
        "lock",
        '<path d="M0 0H26" class="lane blocked"/><use href="#kit-lock" x="20" y="0" class="lock"/>',
        31,
        "blocked until the other barriers came",
    ),
    Entry(
        "ring",
        '<rect x="0" y="-6.5" width="18" height="13" rx="6.5" class="ring cp0"/>'
        '<text x="9" y="3.4" text-anchor="middle" class="ring-text">n?</text>',
        23,
        "barrier n is awaited here",
    ),
    Entry("sign watermark", _sign("w"), 14, "watermark"),
    Entry("sign status", _sign("z"), 14, "idle, or active again"),
    Entry("sign from", _sign("↪"), 14, "a recovered buffer follows"),
    Entry("sign recovered", _sign("◂"), 14, "end of what was recovered"),
    Entry("sign end", _sign("▪"), 14, "end of data"),
    Entry("sign last", _sign("■"), 14, "end of the stream"),
    Entry("badge aligning", _badge("aligning", "…"), 27, "barriers come in"),
    Entry("badge writing", _badge("writing", "✎"), 27, "writes its state"),
    Entry("badge capturing", _badge("capturing", "✎…", 32), 37, "captures in-flight data"),
    Entry("badge sent", _badge("sent", "▴"), 27, "has sent its acknowledgement"),
    Entry("badge acknowledged", _badge("acknowledged", "✓"), 27, "acknowledged"),
    Entry("badge unheard", _badge("unheard", "?"), 27, "its acknowledgement was lost"),
    Entry("badge declined", _badge("declined", "✗"), 27, "declined"),
    Entry(
        "cell-task aligning",
        '<rect x="0" y="-6" width="11" height="11" rx="2" class="cell-task aligning"/>',
        16,
        "subtask: barriers come in",
    ),
    Entry(
        "cell-task writing",
        '<rect x="0" y="-6" width="11" height="11" rx="2" class="cell-task writing"/>',
        16,
        "subtask writes its state",
    ),
    Entry(
        "cell-task capturing",
        '<rect x="0" y="-6" width="11" height="11" rx="2" class="cell-task capturing"/>',
        16,
        "subtask captures in-flight data",
    ),
    Entry(
        "cell-task sent",
        '<rect x="0" y="-6" width="11" height="11" rx="2" class="cell-task sent"/>',
        16,
        "subtask has sent its acknowledgement",
    ),
    Entry(
        "cell-task acknowledged",
        '<rect x="0" y="-6" width="11" height="11" rx="2" class="cell-task acknowledged"/>',
        16,
        "subtask has acknowledged",
    ),
    Entry(
        "cell-task running",
        '<rect x="0" y="-6" width="11" height="11" rx="2" class="cell-task running"/>',
        16,
        "subtask runs",
    ),
    Entry("task failed", '<rect x="0" y="-7" width="14" height="14" rx="3" class="task failed"/>', 19, "failed"),
    Entry("mail in", '<rect x="0" y="-6.5" width="18" height="13" rx="6.5" class="mail in"/>', 23, "message to a task"),
    Entry(
        "mail out", '<rect x="0" y="-6.5" width="18" height="13" rx="6.5" class="mail out"/>', 23, "message from a task"
    ),
    Entry("times", '<text x="0" y="3.6" class="times">×3</text>', 20, "in so many channels"),
    Entry("more", '<text x="0" y="3.6" class="more">+3</text>', 20, "so many more"),
)


def legend_svg(sprites: Scene, width: float, top: float) -> tuple[str, float]:
    """Return the legend of these sprites, in rows below `top`, and the height of the picture with it."""
    drawn = (
        each for each in sprites.values() if each.get("layer") != "panel"
    )  # the JobMaster's panel has its own words
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

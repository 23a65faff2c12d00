"""The drawing of a space-time diagram: lines, cuts, phases, arrows, marks, and a legend of what is there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from html import escape
from typing import TypeVar

from kit.draw.checkpoint_path import Span, legend_of
from kit.draw.durations import duration
from kit.draw.gantt import PHASE_INKS, waits_for
from kit.draw.job_state import COMPLETED, CheckpointMoment
from kit.draw.journeys import Crossing, Journey, Letter
from kit.draw.picture import LEAST_WIDTH
from kit.draw.round_numbers import round_step
from kit.draw.scene import colour, fit
from kit.draw.space_time import SpaceTime
from kit.draw.themed import light_svg

T = TypeVar("T")

LEFT, RIGHT, TOP = 148.0, 24.0, 130.0
JOB = "job"
ROW_HEIGHTS = ((10, 50.0), (24, 36.0), (60, 24.0))
"""How far lines are apart: the first entry that has room for so many; `LEAST_ROW` with more."""
LEAST_ROW = 15.0
WAIT = 4.0
"""A queue is drawn so far beside its task's line, on the side where the channel is."""
TICKS = 8
FAINT = ((60, ""), (600, "faint"))
"""With more arrows in a layer they are drawn fainter; beyond the last entry "faintest"."""
NUMBERED = 12
"""So many barriers, at most, carry their number."""
SIGN_WIDTH = 92.0

_CROSSING_LOOKS = {Crossing.IN_FLIGHT: "in_flight", Crossing.AGAINST: "against"}


def space_time_svg(diagram: SpaceTime) -> str:
    """The diagram as SVG."""
    return _Drawing(diagram).svg()


class _Drawing:
    def __init__(self, shown: SpaceTime) -> None:
        self._shown = shown
        self._rows = {name: row for row, name in enumerate((JOB, *shown.machines))}
        self._row_height = next((height for most, height in ROW_HEIGHTS if len(self._rows) <= most), LEAST_ROW)
        self._numbered = len(shown.barriers) <= NUMBERED
        self._seen: set[str] = set()
        """What has been drawn, for the legend."""
        self._bars: list[Span] = []
        """The phases that have been drawn."""

    def svg(self) -> str:
        """The document: what belongs to a time is cut off at the ends of the axis."""
        shown, width = self._shown, float(LEAST_WIDTH)
        bottom = self._y(len(self._rows) - 1) + 0.29 * self._row_height + 12
        parts = [
            _text(24, 30, "title", fit(shown.caption[:1].upper() + shown.caption[1:], width - 48, 16, bold=True)),
            _text(24, 51, "under", fit(shown.outcome, width - 48, 12.5)),
            _text(24, 70, "under", fit(shown.left_out, width - 48, 12.5)),
            *self._axis(bottom),
            *self._lines(),
            '<g clip-path="url(#kit-space-time-clip)">',
            *self._cuts(),
            *self._phases(),
            *self._layer(shown.letters, self._letter),
            *self._layer(shown.other_elements, self._element),
            *self._layer(shown.crossing_buffers, self._element),
            *self._layer(shown.barriers, self._element),
            *self._copies(),
            "</g>",
            *self._outliers(),
            *self._checkpoints(),
            *self._losses(),
        ]
        legend, height = self._legend(bottom + 42)
        clip = (
            f'<clipPath id="kit-space-time-clip"><rect x="{LEFT:g}" y="{TOP - 30:g}" '
            f'width="{width - LEFT - RIGHT:g}" height="{height:g}"/></clipPath>'
        )
        drawn = f'<g class="kit-space-time"><defs>{clip}</defs>{"".join([*parts, *legend])}</g>'
        return str(light_svg(width, height, drawn, shown.caption, "space_time.css"))

    def _x(self, at_ms: float) -> float:
        since, until = self._shown.since_ms, self._shown.until_ms
        return LEFT + (at_ms - since) / max(until - since, 1e-9) * (LEAST_WIDTH - LEFT - RIGHT)

    def _y(self, row: int) -> float:
        return TOP + row * self._row_height

    def _is_inside(self, at_ms: float) -> bool:
        return self._shown.since_ms <= at_ms <= self._shown.until_ms

    # --- what does not move ---------------------------------------------------------------------------------------

    def _axis(self, bottom: float) -> Iterator[str]:
        began = self._shown.found.last.began_ms
        for at_ms in _ticks(self._shown.since_ms - began, self._shown.until_ms - began):
            x = self._x(at_ms + began)
            yield f'<path class="grid" d="M{x:.1f} {TOP - 14:g}V{bottom:g}"/>'
            yield _text(x, bottom + 14, "tick", duration(at_ms), "middle")

    def _lines(self) -> Iterator[str]:
        size = 12.0 if self._row_height > LEAST_ROW else 10.0
        for name, row in self._rows.items():
            y, label = self._y(row), "JobMaster" if name == JOB else name
            yield f'<path class="line {JOB if name == JOB else ""}" d="M{LEFT:g} {y:g}H{LEAST_WIDTH - RIGHT:g}"/>'
            yield (
                f'<text class="machine" x="{LEFT - 12:g}" y="{y + 4:g}" text-anchor="end" style="font-size:{size:g}px">'
                f"{escape(fit(label, LEFT - 36, size, bold=True))}<title>{escape(label)}</title></text>"
            )

    # --- checkpoints ----------------------------------------------------------------------------------------------

    def _cuts(self) -> Iterator[str]:
        for number, cut in self._shown.found.cuts.items():
            tasks = [task for task in self._shown.machines if task in cut.instants]
            points = [(self._x(cut.instants[task].at_ms), self._y(self._rows[task])) for task in tasks]
            path = "M" + "L".join(f"{x:.1f} {y:g}" for x, y in points)
            if number == self._shown.checkpoint and any(self._is_inside(at.at_ms) for at in cut.instants.values()):
                self._seen.add("cut")
            yield f'<path class="cut {self._of(number)}" d="{path}">{_title(f"the cut of checkpoint {number}")}</path>'

    def _of(self, number: int) -> str:
        """The classes of what belongs to a checkpoint: only one is in the foreground."""
        return colour(number) if number == self._shown.checkpoint else f"{colour(number)} other"

    def _copies(self) -> Iterator[str]:
        """A square where a task copied its state."""
        half = min(5.0, 0.3 * self._row_height)
        for number, cut in self._shown.found.cuts.items():
            for task, instant in cut.instants.items():
                if task not in self._rows or not self._is_inside(instant.at_ms):
                    continue
                x, y = self._x(instant.at_ms) - half, self._y(self._rows[task]) - half
                yield (
                    f'<rect class="mark {self._of(number)}" x="{x:.1f}" y="{y:.1f}" width="{2 * half:g}" '
                    f'height="{2 * half:g}">{_title(f"{task} copies its state for checkpoint {number}")}</rect>'
                )

    def _phases(self) -> Iterator[str]:
        """Bars below the lines."""
        if self._row_height > LEAST_ROW:
            for task in self._shown.machines:
                for span in self._shown.spans(task):
                    if span.start_ms > self._shown.until_ms or span.end_ms < self._shown.since_ms:
                        continue
                    yield self._bar(task, span)
                    self._bars.append(span)
                    if span.open and task in self._shown.waits:
                        yield self._waits(task, span)

    def _bar(self, task: str, span: Span) -> str:
        start, end = self._x(span.start_ms), self._x(span.end_ms)
        hue = f"var(--kit-{PHASE_INKS[span.phase]})"
        look = f'class="open" style="stroke:{hue}"' if span.open else f'style="fill:{hue}"'
        unfinished = ", not finished" if span.open else ""
        told = _title(f"{task}: {span.words}, {duration(span.end_ms - span.start_ms)}{unfinished}")
        y = self._y(self._rows[task]) + 0.16 * self._row_height
        height = 0.13 * self._row_height
        return f'<rect {look} x="{start:.1f}" y="{y:.1f}" width="{end - start:.1f}" height="{height:.1f}">{told}</rect>'

    def _waits(self, task: str, span: Span) -> str:
        """What a task waits for, below its open bar."""
        x = min(self._x(span.end_ms), LEAST_WIDTH - RIGHT) - 2
        what = self._shown.waits[task]
        told = f"waits for {what}" if self._shown.known is None else waits_for(self._shown.known, what)
        text = escape(fit(told, x - LEFT, 10))
        y = self._y(self._rows[task]) + 0.29 * self._row_height + 11
        return f'<text class="slow" x="{x:.1f}" y="{y:.1f}" text-anchor="end">{text}{_title(told)}</text>'

    def _outliers(self) -> Iterator[str]:
        if self._row_height <= LEAST_ROW:
            return
        for task, (took_ms, usual_ms) in self._shown.outliers.items():
            if task in self._rows and self._shown.known is not None:
                x = min(self._x(self._shown.known.triggered_ms + took_ms) + 4, LEAST_WIDTH - RIGHT - 150)
                y = self._y(self._rows[task]) + 0.36 * self._row_height
                yield _text(x, y, "slow", f"{duration(took_ms)}, the others {duration(usual_ms)}")

    def _checkpoints(self) -> Iterator[str]:
        """On the JobMaster's line: a flag with the number at the trigger, a sign at the end."""
        y = self._y(0)
        taken: list[float] = []
        for known in self._shown.found.last.checkpoints.values():
            if self._is_inside(known.triggered_ms):
                x, hue = self._x(known.triggered_ms), colour(known.checkpoint_id)
                yield f'<rect class="mark {hue}" x="{x - 9:.1f}" y="{y - 8:g}" width="18" height="16" rx="2"/>'
                yield _text(x, y + 3.8, "number", str(known.checkpoint_id), "middle")
            if known.finished_ms is not None and self._is_inside(known.finished_ms):
                x = self._x(known.finished_ms)
                row = sum(abs(x - other) < SIGN_WIDTH for other in taken[-2:])
                taken.append(x)
                yield _sign(x, y - 13 - 14 * row, *_end_of(known))

    def _losses(self) -> Iterator[str]:
        for task, instant in self._shown.found.losses:
            if task in self._rows and self._is_inside(instant.at_ms):
                yield _sign(self._x(instant.at_ms), self._y(self._rows[task]) + 4, "failed", "✗ lost")

    # --- arrows ---------------------------------------------------------------------------------------------------

    def _layer(self, things: list[T], drawn: Callable[[T], Iterator[str]]) -> Iterator[str]:
        """Arrows of one kind; the more there are the fainter they are."""
        look = next((name for most, name in FAINT if len(things) <= most), "faintest")
        yield f'<g class="{look}">' if look else "<g>"
        for each in things:
            yield from drawn(each)
        yield "</g>"

    def _element(self, each: Journey) -> Iterator[str]:
        """Along the sender's line while it waits there, across, and along the receiver's line while it waits there."""
        assert each.made is not None
        look, told = self._look(each), _title(_told(each, self._shown.found.last.began_ms))
        over = self._shown.until_ms if each.over is None else each.over.at_ms
        above, below = self._y(self._rows[each.sender]), self._y(self._rows[each.receiver])
        sign = 1 if below >= above else -1
        self._seen.add("barrier" if each.kind == "barrier" else look)
        made = self._x(each.made.at_ms)
        sent = self._x(over if each.sent is None else each.sent.at_ms)
        received = self._x(over if each.received is None else each.received.at_ms)
        if sent > made:
            self._seen.add("wait")
            yield f'<path class="wait {look}" d="M{made:.1f} {above + WAIT * sign:g}H{sent:.1f}">{told}</path>'
        if each.sent is None:
            return
        to = below - WAIT * sign if each.received is not None else (above + below) / 2
        yield f'<path class="travel {look}" d="M{sent:.1f} {above:g}L{received:.1f} {to:g}">{told}</path>'
        if each.kind == "barrier" and self._numbered:
            yield _flag(sent + 0.35 * (received - sent), above + 0.35 * (to - above), each.checkpoint_id)
        if each.received is None:
            return
        if self._x(over) > received:
            self._seen.add("wait")
            yield f'<path class="wait {look}" d="M{received:.1f} {to:g}H{self._x(over):.1f}">{told}</path>'
        if each.taken is not None:
            yield _head(self._x(over), below, sign, look)

    def _look(self, each: Journey) -> str:
        if each.kind == "barrier":
            return f"barrier {colour(each.checkpoint_id)}"
        crossing = self._shown.crossing(each)
        return _CROSSING_LOOKS[crossing] if crossing else "records" if each.kind == "buffer" else "sign"

    def _letter(self, each: Letter) -> Iterator[str]:
        self._seen.add("letter")
        job, task = self._y(0), self._y(self._rows[each.task])
        above, below = (job, task) if each.to_task else (task, job)
        sent = self._x(each.sent.at_ms)
        over = self._x(self._shown.until_ms if each.over is None else each.over.at_ms)
        number = "" if each.checkpoint_id is None else f" {each.checkpoint_id}"
        told = _title(f"{each.mail}{number} {'to' if each.to_task else 'from'} {each.task}")
        to = below if each.received is not None else (above + below) / 2
        yield f'<path class="letter travel" d="M{sent:.1f} {above:g}L{over:.1f} {to:g}">{told}</path>'
        if each.received is not None:
            yield _head(over, below, 1 if each.to_task else -1, "letter")

    # --- legend ---------------------------------------------------------------------------------------------------

    def _legend(self, top: float) -> tuple[list[str], float]:
        """What is on the picture, and nothing else; and where it ends."""
        drawn, x, y = [], 24.0, top
        for sign, text in self._entries():
            width = 34 + 6.3 * len(text) + 18
            if x + width > LEAST_WIDTH - 12:
                x, y = 24.0, y + 22
            drawn.append(f'<g transform="translate({x:g} {y:g})">{sign}<text x="34" y="4">{escape(text)}</text></g>')
            x += width
        return drawn, y + 20

    def _entries(self) -> Iterator[tuple[str, str]]:
        shown, seen = self._shown, self._seen
        hue = colour(0 if shown.checkpoint is None else shown.checkpoint)
        if "cut" in seen:
            mark = f'<rect class="mark {hue}" x="9" y="-5" width="10" height="10"/>'
            yield (
                f'<path class="cut {hue}" d="M6 0H22"/>{mark}',
                f"cut of {shown.checkpoint}: each task copies its state",
            )
        for look, words in _ARROWS.items():
            if look in seen:
                look = f"barrier {colour(shown.barriers[0].checkpoint_id)}" if look == "barrier" else look
                yield f'<path class="travel {look}" d="M2 0H26"/>', words
        if "wait" in seen:
            yield '<path class="wait" d="M2 0H26"/>', "along a line: waits in a queue there"
        if "letter" in seen:
            yield '<path class="letter travel" d="M2 0H26"/>', "message from or to the JobMaster"
        for phase, words in legend_of(self._bars):
            yield f'<rect x="2" y="-4" width="24" height="8" style="fill:var(--kit-{PHASE_INKS[phase]})"/>', words
        if any(span.open for span in self._bars):
            sign = '<rect x="2" y="-4" width="24" height="8" class="open" style="stroke:var(--kit-quiet)"/>'
            yield sign, "not finished"


_ARROWS = {
    "barrier": "barrier",
    "in_flight": "in flight: sent before the cut, taken after it",
    "against": "sent after the cut, taken before it",
    "records": "records",
    "sign": "watermark or end of input",
}


def _ticks(since: float, until: float) -> Iterable[float]:
    """Round times between two, about `TICKS` of them."""
    step = round_step((until - since) / TICKS)
    first = int(-(-since // step))
    return (step * number for number in range(first, int(until // step) + 1))


def _text(x: float, y: float, look: str, text: str, anchor: str = "start") -> str:
    return f'<text class="{look}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _title(text: str) -> str:
    return f"<title>{escape(text)}</title>"


def _head(x: float, y: float, sign: int, look: str) -> str:
    return f'<path class="head {look}" d="M{x:.1f} {y:g}l-3.2 {-6 * sign}h6.4z"/>'


def _flag(x: float, y: float, checkpoint_id: int | None) -> str:
    """A barrier's number on its way."""
    hue = colour(checkpoint_id)
    return (
        f'<rect class="flag {hue}" x="{x - 6:.1f}" y="{y - 6.5:.1f}" width="12" height="13" rx="1.5"/>'
        f"{_text(x, y + 3.2, 'flag-number', str(checkpoint_id), 'middle')}"
    )


def _sign(x: float, y: float, look: str, text: str) -> str:
    anchor = "end" if x > LEAST_WIDTH - RIGHT - SIGN_WIDTH / 2 else "start" if x < LEFT + SIGN_WIDTH / 2 else "middle"
    return _text(x, y, look, text, anchor)


def _end_of(known: CheckpointMoment) -> tuple[str, str]:
    """How the end of a checkpoint looks, and what it says."""
    if known.status == COMPLETED:
        return "done", f"✓ {known.checkpoint_id} complete"
    return "failed", f"✗ {known.checkpoint_id} aborted"


def _told(each: Journey, began_ms: int) -> str:
    """An element's way, as a tooltip tells it."""
    what = each.kind if each.checkpoint_id is None else f"{each.kind} {each.checkpoint_id}"
    if each.kind == "buffer":
        what = f"buffer with {each.rows} {'record' if each.rows == 1 else 'records'}"
    times = {"made": each.made, "sent": each.sent, "received": each.received, "taken": each.taken, "lost": each.lost}
    told = ", ".join(f"{name} at {duration(at.at_ms - began_ms)}" for name, at in times.items() if at is not None)
    return f"{what}, {each.sender} to {each.receiver}: {told}"

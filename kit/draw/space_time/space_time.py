"""A run as a space-time diagram: a line per machine, time from left to right, and each checkpoint's cut through them.

It is the picture of Chandy and Lamport's paper, drawn from a real run. Messages and elements are arrows. While an
element waits in a queue, at its sender or at its receiver, its arrow runs along that task's line. A checkpoint's cut is
the broad line through the points at which the tasks copied their state. Everything left of it is in the checkpoint.
Elements that cross it from left to right are in flight; an unaligned checkpoint contains these too. Elements that cross
from right to left would be repeated by a restore; they occur with at-least-once only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from typing import Any, TypeVar

import pandas as pd

from kit.draw.charts.gantt import PHASE_INKS
from kit.draw.charts.round_numbers import round_step
from kit.draw.picture import LEAST_WIDTH, Svg, light_svg
from kit.draw.stage.scene import colour, fit
from kit.run.checkpoint_path import Span, legend_of
from kit.run.checkpoint_words import Crossed, how_it_went, outliers, spans_of_task, took_ms, what_crossed
from kit.run.durations import duration
from kit.run.journeys import Crossing, Cut, Instant, Journey, Journeys, Letter, journeys
from kit.run.moments.job_state import COMPLETED, CheckpointMoment
from kit.run.run import run_of
from kit.why.phases import waits_for, waits_in

MARGIN = 0.2
"""The time shown before a checkpoint's trigger and after its end, as a fraction of its duration."""
LEAST_MARGIN_MS = 4.0
MOST_BARRIERS = 40
"""With more barriers than this, only the first and the last of each task are drawn."""
MOST_BUFFERS = 2_500
"""With more buffers than this, only those that cross the cut are drawn."""
T = TypeVar("T")

LEFT, RIGHT, TOP = 148.0, 24.0, 130.0
JOB = "job"
ROW_HEIGHTS = ((10, 50.0), (24, 36.0), (60, 24.0))
"""The distance between lines, by the largest number of lines; `LEAST_ROW` for more."""
LEAST_ROW = 15.0
WAIT = 4.0
"""The distance between a queue and its task's line, on the side of the channel."""
TICKS = 8
FAINT = ((60, ""), (600, "faint"))
"""The style of arrows, by the largest number of them in a layer; beyond the last entry "faintest"."""
NUMBERED = 12
"""The most barriers that are drawn with their number."""
SIGN_WIDTH = 92.0

_CROSSING_LOOKS = {Crossing.IN_FLIGHT: "in_flight", Crossing.AGAINST: "against"}


def space_time(
    run: Any, checkpoint: int | None = None, *, since_ms: float | None = None, until_ms: float | None = None
) -> SpaceTime:
    """Draw the space-time diagram of a Lab, a SparkJob or a Trace.

    It shows the time around one checkpoint, by default the last for which a task copied its state; or the time between
    two times, counted from the beginning of the run.

    Raises ValueError if the run has no such checkpoint, or does not contain both times.
    """
    found = journeys(run)
    last = found.last
    if checkpoint is not None and checkpoint not in last.checkpoints:
        there = ", ".join(map(str, last.checkpoints)) or "none"
        raise ValueError(f"the run has no checkpoint {checkpoint}; there are: {there}")
    checkpoint = max(found.cuts, default=None) if checkpoint is None else checkpoint
    known = run_of(run).known
    machines = tuple(known[-1].tasks() if known else sorted(last.tasks))
    waits = {} if checkpoint is None else waits_in(found, last.checkpoints[checkpoint])
    if checkpoint is not None and since_ms is None and until_ms is None:
        return SpaceTime(found, checkpoint, machines, *_around(found, checkpoint), waits)
    begin, end = float(last.began_ms), float(last.at_ms)
    since = begin if since_ms is None else begin + since_ms
    until = end if until_ms is None else min(end, begin + until_ms)
    if since >= until and (since_ms, until_ms) != (None, None):
        raise ValueError(f"nothing happens from {duration(since - begin)} on: the run lasts {duration(end - begin)}")
    return SpaceTime(found, checkpoint, machines, since, until, waits)


def _around(found: Journeys, checkpoint: int) -> tuple[float, float]:
    """Return the interval from before a checkpoint's trigger until its in-flight elements were taken, or until shortly
    after its end if they were taken much later.
    """
    last, known = found.last, found.last.checkpoints[checkpoint]
    finished = last.at_ms if known.finished_ms is None else known.finished_ms
    duration = finished - known.triggered_ms
    cut = found.cuts.get(checkpoint)
    in_flight = [each for each in found.elements if each.crossing(cut) is Crossing.IN_FLIGHT]
    taken = [each.taken.at_ms for each in in_flight if each.taken is not None]
    until = max([finished, *(at_ms for at_ms in taken if at_ms <= finished + duration)])
    margin = max(LEAST_MARGIN_MS, MARGIN * duration)
    return max(last.began_ms, known.triggered_ms - margin), min(last.at_ms, until + margin)


@dataclass(frozen=True)
class SpaceTime:
    """A space-time diagram, which a notebook displays.

    `checkpoint` is the one whose cut divides the elements; `machines` are the tasks, with a line each. Times are those
    of the trace, in ms.
    """

    found: Journeys
    checkpoint: int | None
    machines: tuple[str, ...]
    since_ms: float
    until_ms: float
    waits: Mapping[str, str] = field(default_factory=dict)
    """For each task that has not finished the checkpoint, a text about what it waits for."""

    def to_pandas(self) -> pd.DataFrame:
        """Return the elements of the whole run, and their side of the cut: see `Journeys.to_pandas`."""
        return self.found.to_pandas(self.checkpoint)

    def svg(self) -> Svg:
        """The picture."""
        return Svg.of(_Drawing(self).svg(), self.caption)

    def _repr_svg_(self) -> str:
        return self.svg()

    def _repr_html_(self) -> str:
        return self.svg()._repr_html_()

    def __repr__(self) -> str:
        return f"SpaceTime({self.caption})"

    # --- what is shown --------------------------------------------------------------------------------------------

    @cached_property
    def known(self) -> CheckpointMoment | None:
        """The checkpoint as its coordinator sees it at the end."""
        return None if self.checkpoint is None else self.found.last.checkpoints[self.checkpoint]

    @cached_property
    def cut(self) -> Cut | None:
        """The checkpoint's cut; None if no task has copied its state for it."""
        return None if self.checkpoint is None else self.found.cuts.get(self.checkpoint)

    def crossing(self, each: Journey) -> Crossing | None:
        """Return the direction in which a buffer of records crosses the cut, or None for any other element."""
        crossing = each.crossing(self.cut) if each.kind == "buffer" else None
        return crossing if crossing in _CROSSING_LOOKS else None

    @cached_property
    def letters(self) -> list[Letter]:
        """The messages that are drawn."""
        return [each for each in self.found.letters if each.task in self.machines and self._shows(each.sent, each.over)]

    @cached_property
    def barriers(self) -> list[Journey]:
        """The barriers that are drawn."""
        barriers = [each for each in self._there if each.kind == "barrier"]
        return barriers if len(barriers) <= MOST_BARRIERS else _first_and_last(barriers)

    @cached_property
    def crossing_buffers(self) -> list[Journey]:
        """The buffers of records that cross the cut in either direction."""
        return [each for each in self._there if self.crossing(each) is not None]

    @cached_property
    def other_elements(self) -> list[Journey]:
        """The elements that are drawn without emphasis."""
        others = [each for each in self._there if each.kind != "barrier" and self.crossing(each) is None]
        return others if len(others) <= MOST_BUFFERS else []

    @property
    def left_out(self) -> str:
        """A text about the elements that are not drawn; empty if all are drawn."""
        barriers = sum(each.kind == "barrier" for each in self._there)
        others = len(self._there) - barriers - len(self.crossing_buffers)
        parts = []
        if len(self.barriers) < barriers:
            parts.append(f"of {barriers:,} barriers the first and the last of each task")
        if len(self.other_elements) < others:
            parts.append(f"of {others:,} elements that do not cross the cut none")
        return f"drawn are {' and '.join(parts)}" if parts else ""

    @cached_property
    def _there(self) -> list[Journey]:
        lines = frozenset(self.machines)
        return [
            each
            for each in self.found.elements
            if each.sender in lines and each.receiver in lines and self._shows(each.made, each.over)
        ]

    def _shows(self, begin: Instant | None, end: Instant | None) -> bool:
        return begin is not None and begin.at_ms <= self.until_ms and (end is None or end.at_ms >= self.since_ms)

    def spans(self, task: str) -> list[Span]:
        """Return the phases of a task on its path through the checkpoint."""
        return [] if self.known is None else spans_of_task(self.found, self.known, task)

    # --- what is said ---------------------------------------------------------------------------------------------

    @cached_property
    def caption(self) -> str:
        """A one-line description of the picture."""
        if self.known is None:
            return "no task has copied its state for a checkpoint"
        buffers = [each for each in self.found.elements if each.kind == "buffer"]
        counts = []
        for crossing in (Crossing.IN_FLIGHT, Crossing.AGAINST):
            rows = [each.rows for each in buffers if each.crossing(self.cut) is crossing]
            counts += [len(rows), sum(rows)]
        copied = {} if self.cut is None else self.cut.instants
        return what_crossed(self.known, Crossed(*counts), copied, bool(buffers))

    @property
    def outcome(self) -> str:
        """The outcome of the checkpoint, and the task that was last."""
        return "" if self.known is None else how_it_went(self.found, self.known)

    @property
    def outliers(self) -> dict[str, tuple[float, float]]:
        """The tasks that took much longer than the others of their operator: their duration and the others', in ms."""
        return {} if self.known is None else outliers(took_ms(self.found, self.known))


def _first_and_last(barriers: Iterable[Journey]) -> list[Journey]:
    """Return the first and the last barrier that each task took: the beginning and the end of its alignment."""
    by_task: dict[tuple[str, int | None], list[Journey]] = {}
    for each in barriers:
        if each.taken is not None:
            by_task.setdefault((each.receiver, each.checkpoint_id), []).append(each)
    found = []
    for of_task in by_task.values():
        of_task.sort(key=lambda each: each.taken or Instant(0, 0))
        found += of_task[:1] + of_task[1:][-1:]
    return found


class _Drawing:
    def __init__(self, shown: SpaceTime) -> None:
        self._shown = shown
        self._rows = {name: row for row, name in enumerate((JOB, *shown.machines))}
        self._row_height = next((height for most, height in ROW_HEIGHTS if len(self._rows) <= most), LEAST_ROW)
        self._numbered = len(shown.barriers) <= NUMBERED
        self._seen: set[str] = set()
        """The kinds of signs that have been drawn, for the legend."""
        self._bars: list[Span] = []
        """The phases that have been drawn."""

    def svg(self) -> str:
        """Return the document. Drawings on the time axis are clipped at its ends."""
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
        ]
        for task, instant in shown.found.losses:
            if task in self._rows and self._is_inside(instant.at_ms):
                parts.append(_sign(self._x(instant.at_ms), self._y(self._rows[task]) + 4, "failed", "✗ lost"))
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
        """Return the classes for the drawings of a checkpoint; only one checkpoint is in the foreground."""
        return colour(number) if number == self._shown.checkpoint else f"{colour(number)} other"

    def _copies(self) -> Iterator[str]:
        """Draw a square where a task copied its state."""
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
        """Draw the phases as bars below the lines."""
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
        """Return the text, below a task's open bar, about what the task waits for."""
        x = min(self._x(span.end_ms), LEAST_WIDTH - RIGHT) - 2
        what = self._shown.waits[task]
        told = f"waits for {what}" if self._shown.known is None else waits_for(self._shown.known, what)
        text = escape(fit(told, x - LEFT, 10))
        y = self._y(self._rows[task]) + 0.29 * self._row_height + 11
        return f'<text class="slow" x="{x:.1f}" y="{y:.1f}" text-anchor="end">{text}{_title(told)}</text>'

    def _outliers(self) -> Iterator[str]:
        if self._row_height <= LEAST_ROW:
            return
        for task, (length_ms, usual_ms) in self._shown.outliers.items():
            if task in self._rows and self._shown.known is not None:
                x = min(self._x(self._shown.known.triggered_ms + length_ms) + 4, LEAST_WIDTH - RIGHT - 150)
                y = self._y(self._rows[task]) + 0.36 * self._row_height
                yield _text(x, y, "slow", f"{duration(length_ms)}, the others {duration(usual_ms)}")

    def _checkpoints(self) -> Iterator[str]:
        """Draw each checkpoint on the JobMaster's line: a flag with its number at the trigger, a sign at the end."""
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
                is_done, number = known.status == COMPLETED, known.checkpoint_id
                told = f"✓ {number} complete" if is_done else f"✗ {number} aborted"
                yield _sign(x, y - 13 - 14 * row, "done" if is_done else "failed", told)

    # --- arrows ---------------------------------------------------------------------------------------------------

    def _layer(self, things: list[T], drawn: Callable[[T], Iterator[str]]) -> Iterator[str]:
        """Draw arrows of one kind; the more there are, the fainter they are."""
        look = next((name for most, name in FAINT if len(things) <= most), "faintest")
        yield f'<g class="{look}">' if look else "<g>"
        for each in things:
            yield from drawn(each)
        yield "</g>"

    def _element(self, each: Journey) -> Iterator[str]:
        """Draw an element: along the sender's line while it waits there, across, and along the receiver's line."""
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
        """Draw a legend of the signs that occur; return it and its lower end."""
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
            words = f"cut of {shown.checkpoint}: each task copies its state"
            yield f'<path class="cut {hue}" d="M6 0H22"/>{mark}', words
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
    """Return about `TICKS` round times between two times."""
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
    """Draw a barrier's number on its arrow."""
    hue = colour(checkpoint_id)
    return (
        f'<rect class="flag {hue}" x="{x - 6:.1f}" y="{y - 6.5:.1f}" width="12" height="13" rx="1.5"/>'
        f"{_text(x, y + 3.2, 'flag-number', str(checkpoint_id), 'middle')}"
    )


def _sign(x: float, y: float, look: str, text: str) -> str:
    anchor = "end" if x > LEAST_WIDTH - RIGHT - SIGN_WIDTH / 2 else "start" if x < LEFT + SIGN_WIDTH / 2 else "middle"
    return _text(x, y, look, text, anchor)


def _told(each: Journey, began_ms: int) -> str:
    """Return the tooltip about an element's way."""
    what = each.kind if each.checkpoint_id is None else f"{each.kind} {each.checkpoint_id}"
    if each.kind == "buffer":
        what = f"buffer with {each.rows} record{'s' * (each.rows != 1)}"
    times = {"made": each.made, "sent": each.sent, "received": each.received, "taken": each.taken, "lost": each.lost}
    told = ", ".join(f"{name} at {duration(at.at_ms - began_ms)}" for name, at in times.items() if at is not None)
    return f"{what}, {each.sender} to {each.receiver}: {told}"

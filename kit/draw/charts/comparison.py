"""Several runs on one time axis: the duration of checkpoints, blocked channels, in-flight data and repeated records.

The runs are of one workload under different settings, as `kit.hosts.lab.compare_modes` makes them, or forks of one lab,
or saved traces. Only their traces are read. A channel is *blocked* while its receiver does not read it because its
barrier came before those of other channels. A record is *repeated* if its effect is in the checkpoint that was restored
and it is processed again. The trace of a cluster does not report single buffers, so `repeated` is missing there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from itertools import chain
from statistics import median
from typing import Any

import pandas as pd

from kit.core.html_tables import TABLE_CSS, rows_html
from kit.core.markup import Markup, element
from kit.core.protocol.messages import AcknowledgeCheckpoint
from kit.core.trace.trace import TraceRecord, led_by
from kit.draw.charts.round_numbers import round_step
from kit.draw.graphs import text_width
from kit.draw.picture import Svg
from kit.draw.stage.scene import colour, fit_line
from kit.draw.svg import asset
from kit.run.durations import duration
from kit.run.journeys import Crossing, journeys
from kit.run.moments.job_state import ABORTED, COMPLETED, INTERRUPTED, CheckpointMoment, Moment, only_last, task_of
from kit.run.moments.moment import advance
from kit.run.run import Run, run_of
from kit.run.sizes import counted
from kit.run.steps import steps


@dataclass(frozen=True, slots=True)
class Blocked:
    """An interval in which `channels` channels were blocked; times since the run's beginning, in ms."""

    since_ms: int
    until_ms: int
    channels: int


@dataclass(slots=True)
class Kept:
    """The contents of one checkpoint according to its acknowledgements."""

    in_flight_bytes: int = 0
    files: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Compared:
    """The data of one run that is compared. Times are since its beginning, in ms."""

    name: str
    status: str
    took_ms: int
    began_ms: int
    channels: int
    checkpoints: tuple[CheckpointMoment, ...]
    kept: Mapping[int, Kept]
    blocked: tuple[Blocked, ...]
    failures: tuple[int, ...]
    restores: tuple[tuple[int, int], ...]
    """The time and the checkpoint of each restore."""
    repeated: int | None

    @property
    def completed(self) -> list[CheckpointMoment]:
        """The checkpoints that completed."""
        return [each for each in self.checkpoints if each.status == COMPLETED]

    @property
    def durations_ms(self) -> list[int]:
        """The durations of the completed checkpoints, in ms."""
        return [each.duration_ms for each in self.completed if each.duration_ms is not None]

    @property
    def blocked_ms(self) -> int:
        """The total time for which channels were blocked, in ms."""
        return sum(each.channels * (each.until_ms - each.since_ms) for each in self.blocked)

    def row(self) -> dict[str, Any]:
        """Return the values of the run's row in `Comparison.to_pandas`."""
        kept = [self.kept.get(each.checkpoint_id, Kept()) for each in self.completed]
        return {
            "run": self.name,
            "status": self.status,
            "took_ms": self.took_ms,
            "completed": len(self.completed),
            "aborted": sum(each.status == ABORTED for each in self.checkpoints),
            "duration_ms": median(self.durations_ms) if self.durations_ms else None,
            "blocked_ms": self.blocked_ms,
            "in_flight_bytes": sum(each.in_flight_bytes for each in kept),
            "files": sum(len(each.files) for each in kept),
            "bytes": sum(each.size_bytes or 0 for each in self.completed),
            "failures": len(self.failures),
            "repeated": self.repeated,
        }


def compare(runs: Mapping[str, Any]) -> Comparison:
    """Compare runs by name: each a Lab, a SparkJob or a Trace. Raises ValueError for none at all."""
    if not runs:
        raise ValueError("nothing to compare: give runs by name, such as {'aligned': lab, 'unaligned': other}")
    return Comparison(tuple(_compared(str(name), run_of(run)) for name, run in runs.items()))


@dataclass(frozen=True)
class Comparison:
    """Several runs side by side; a notebook shows it by itself."""

    runs: tuple[Compared, ...]

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per run: run, status, took_ms, completed, aborted, duration_ms, blocked_ms, in_flight_bytes,
        files, bytes, failures and repeated (Int64).

        `completed` and `aborted` count checkpoints; `duration_ms` is the median of the completed ones. `blocked_ms` is
        the sum over all channels; `files` and `bytes` are sums over completed checkpoints. `failures` counts restarts.
        `repeated` counts records that a task processed again although the checkpoint contained their effect.
        """
        frame = pd.DataFrame([each.row() for each in self.runs])
        return frame.astype({"repeated": "Int64", "duration_ms": "Float64"})

    @cached_property
    def checkpoints(self) -> pd.DataFrame:
        """One row per run and checkpoint: run, checkpoint, status, triggered_ms, duration_ms (Int64), in_flight_bytes,
        files.
        """
        rows = []
        for run in self.runs:
            for each in run.checkpoints:
                kept = run.kept.get(each.checkpoint_id, Kept())
                since = each.triggered_ms - run.began_ms
                many = (kept.in_flight_bytes, len(kept.files))
                rows.append((run.name, each.checkpoint_id, each.status, since, each.duration_ms, *many))
        columns = ["run", "checkpoint", "status", "triggered_ms", "duration_ms", "in_flight_bytes", "files"]
        return pd.DataFrame(rows, columns=columns).astype({"duration_ms": "Int64"})

    @property
    def caption(self) -> str:
        """A one-line summary of the picture."""
        ended = {run.name: run.status for run in self.runs}
        blocked = {run.name: run.blocked_ms for run in self.runs}
        repeated = {run.name: run.repeated for run in self.runs if run.repeated}
        parts = []
        if len(set(ended.values())) > 1:  # their outcomes say more than their costs
            parts = [
                f"{run.name} is {run.status.lower()}, {counted(len(run.completed), 'checkpoint')} complete"
                for run in self.runs
            ]
        elif len(set(blocked.values())) > 1:
            most = max(blocked, key=lambda name: blocked[name])
            parts.append(f"{most}: channels blocked longest ({duration(blocked[most])})")
        parts += [f"{name}: {counted(rows, 'record')} repeated" for name, rows in repeated.items()]
        return "; ".join(parts) or f"{len(self.runs)} runs on one time axis"

    def svg(self) -> Svg:
        """The picture."""
        return Svg.of(_svg(self, f"<style>{asset('theme.css')}{asset('comparison.css')}</style>"), self.caption)

    def _repr_html_(self) -> str:
        return (
            f"<style>{asset('theme.css')}{TABLE_CSS}{asset('comparison.css')}</style>"
            f'<div class="kit-picture kit-comparison"><div class="wide">{_svg(self, "")}</div>{_table(self)}</div>'
        )

    def __repr__(self) -> str:
        return f"Comparison({', '.join(run.name for run in self.runs)})"


# --- from a trace -----------------------------------------------------------------------------------------------------


def _compared(name: str, run: Run) -> Compared:
    seen: dict[str, TraceRecord] = {}
    moment: Moment = only_last()
    watch = _BlockedChannels()
    kept: dict[int, Kept] = {}
    failures: list[int] = []
    restores: list[tuple[int, int]] = []
    for record in chain.from_iterable(steps(run.trace)):
        was, restored = moment.job, len(moment.restores)
        moment = advance(moment, record, led_by(record.cause, seen.get))
        seen[record.id] = record
        watch.observe(moment, record)
        if record.is_a(AcknowledgeCheckpoint) and record.role == "command":
            _keep(kept, record)
        if moment.job in INTERRUPTED and was == "RUNNING":
            failures.append(moment.elapsed_ms)
        if len(moment.restores) > restored:
            restores.append((moment.elapsed_ms, moment.restores[-1].checkpoint_id))
    return Compared(
        name,
        moment.job,
        moment.elapsed_ms,
        moment.began_ms,
        max((len(stage.channels) for stage in run.known), default=len(moment.channels)),
        tuple(moment.checkpoints[number] for number in sorted(moment.checkpoints)),
        kept,
        tuple(watch.end(moment.elapsed_ms)),
        tuple(failures),
        tuple(restores),
        _repeated(run, [number for _, number in restores]) if run.trace.detailed else None,
    )


class _BlockedChannels:
    """Records how many channels are blocked, and when."""

    def __init__(self) -> None:
        self._blocked: set[int] = set()
        self._since_ms = 0
        self._stretches: list[Blocked] = []

    def observe(self, moment: Moment, record: TraceRecord) -> None:
        """Take a record in. It changes channels of its own task only, or all channels at the end of an epoch."""
        own = task_of(record)
        for number in list(self._blocked):
            channel = moment.channels.get(number)
            if channel is None or not channel.blocked:
                self._change(moment.elapsed_ms, self._blocked - {number})
        named = record.data.get("channel")
        if isinstance(named, int) and named not in self._blocked:
            channel = moment.channels.get(named)
            if channel is not None and channel.blocked and channel.receiver in (own, ""):
                self._change(moment.elapsed_ms, self._blocked | {named})

    def _change(self, now_ms: int, blocked: set[int]) -> None:
        if self._blocked and now_ms > self._since_ms:
            self._stretches.append(Blocked(self._since_ms, now_ms, len(self._blocked)))
        self._blocked, self._since_ms = blocked, now_ms

    def end(self, at_ms: int) -> list[Blocked]:
        """Return all intervals in which channels were blocked; open ones end at `at_ms`."""
        self._change(at_ms, set())
        return self._stretches


def _keep(kept: dict[int, Kept], record: TraceRecord) -> None:
    if record.checkpoint_id is None:
        return
    here = kept.setdefault(record.checkpoint_id, Kept())
    here.in_flight_bytes += (record.data.get("metrics") or {}).get("bytes_persisted_during_alignment", 0)
    here.files.update(_paths(record.data.get("state")))


def _paths(value: Any) -> Iterator[str]:
    """Return the files to which a state's handles refer."""
    if isinstance(value, Mapping):
        if isinstance(value.get("path"), str):
            yield value["path"]
        for each in value.values():
            yield from _paths(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _paths(each)


def _repeated(run: Run, checkpoints: list[int]) -> int:
    """Count the records that crossed the cuts of these restored checkpoints from right to left."""
    if not checkpoints:
        return 0
    found = journeys(run)
    return sum(
        each.rows
        for number in checkpoints
        for each in found.elements
        if each.kind == "buffer" and each.crossing(found.cuts.get(number)) is Crossing.AGAINST
    )


# --- the picture ------------------------------------------------------------------------------------------------------

WIDTH, LEFT, RIGHT, TOP = 700.0, 196.0, 18.0, 66.0
BAND, BAR, AREA, GAP = 96.0, 18.0, 34.0, 12.0
INSET, LINE, TICKS = 14.0, 18.0, 7
"""The margin of texts, the height of a line of the legend, and the number of marks on the time axis, about."""
LEAST_NUMBERED = 16.0
"""The least width of a bar that shows its checkpoint's number, in px."""


def _svg(comparison: Comparison, style: str) -> str:
    runs = comparison.runs
    longest = max(1, *(run.took_ms for run in runs))
    bottom = TOP + BAND * len(runs)
    signs = _legend(runs, bottom + 44)
    height = bottom + 58 + LINE * (len(signs) - 1)
    scale = (WIDTH - LEFT - RIGHT) / longest
    title = fit_line(comparison.caption, WIDTH - 2 * INSET, 14, bold=True)
    parts = [
        f'<text x="{INSET:g}" y="26" class="what">{escape(title)}<title>{escape(comparison.caption)}</title></text>',
        f'<text x="{INSET:g}" y="46" class="under">bars: checkpoints from trigger to end; below them: how many '
        "channels were blocked by a barrier</text>",
        *_axis(longest, scale, bottom),
        *(part for place, run in enumerate(runs) for part in _band(run, TOP + BAND * place, scale)),
        *chain.from_iterable(signs),
    ]
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" class="kit-picture kit-comparison" '
        f'viewBox="0 0 {WIDTH:g} {height:g}" width="{WIDTH:g}" role="img" '
        f'aria-label="{escape(comparison.caption)}">{style}<rect width="100%" height="100%" rx="8" class="paper"/>'
        f"{''.join(parts)}</svg>"
    )


def _axis(longest: int, scale: float, bottom: float) -> Iterator[str]:
    every = round_step(longest / TICKS)
    for at_ms in range(0, longest + 1, every):
        x = LEFT + at_ms * scale
        yield f'<path class="grid" d="M{x:.1f} {TOP - 6:g}V{bottom:g}"/>'
        yield f'<text class="tick" x="{x:.1f}" y="{bottom + 14:g}" text-anchor="middle">{duration(at_ms)}</text>'


def _band(run: Compared, top: float, scale: float) -> Iterator[str]:
    name = fit_line(run.name, LEFT - 2 * INSET, 13, bold=True)
    yield f'<text class="run" x="{INSET:g}" y="{top + 22:g}">{escape(name)}<title>{escape(run.name)}</title></text>'
    durations = run.durations_ms
    took = (
        f"median {duration(median(durations))}, longest {duration(max(durations))}"
        if durations
        else "no checkpoint completed"
    )
    yield f'<text class="fact" x="{INSET:g}" y="{top + 40:g}">{took}</text>'
    yield f'<text class="fact" x="{INSET:g}" y="{top + 56:g}">channels blocked {duration(run.blocked_ms)}</text>'
    repeated = ""
    if run.repeated is not None and run.failures:
        repeated = f"{counted(run.repeated, 'record')} repeated" if run.repeated else "none counted twice"
    bad = " bad" if run.repeated else ""
    yield f'<text class="fact{bad}" x="{INSET:g}" y="{top + 72:g}">{repeated}</text>'
    end = LEFT + run.took_ms * scale
    base = top + BAR + GAP + AREA
    yield f'<path class="base" d="M{LEFT:g} {base:g}H{end:.1f}"/><path class="base" d="M{end:.1f} {top:g}V{base:g}"/>'
    yield from (_checkpoint(run, each, top, scale) for each in run.checkpoints)
    yield from (_blocked(run, each, base, scale) for each in run.blocked)
    for at_ms in run.failures:
        x = LEFT + at_ms * scale
        hint = f"a failure, {duration(at_ms)}"
        yield f'<path class="failure" d="M{x:.1f} {top - 4:g}V{base:g}"><title>{hint}</title></path>'
        yield f'<text class="failure-sign" x="{x:.1f}" y="{base + 13:g}" text-anchor="middle">✗</text>'
    for at_ms, number in run.restores:
        x = LEFT + at_ms * scale
        hint = f"restored from checkpoint {number}, {duration(at_ms)}"
        yield f'<path class="restore" d="M{x:.1f} {top - 4:g}V{base:g}"><title>{hint}</title></path>'
        sign = f"from {number}"
        last = x + 3 + text_width(sign, 11) > WIDTH  # it would be cut off, so it goes to the left of its line
        place = f'x="{x - 3:.1f}" text-anchor="end"' if last else f'x="{x + 3:.1f}"'
        yield f'<text class="restore-sign" {place} y="{base + 13:g}">{sign}</text>'


def _checkpoint(run: Compared, each: CheckpointMoment, top: float, scale: float) -> str:
    since = each.triggered_ms - run.began_ms
    until = run.took_ms if each.finished_ms is None else each.finished_ms - run.began_ms
    x, width = LEFT + since * scale, max(2.0, (until - since) * scale)
    kept = run.kept.get(each.checkpoint_id, Kept())
    what = f"{'savepoint' if each.savepoint else 'checkpoint'} {each.checkpoint_id}: {each.status}"
    hint = f"{what}, {duration(until - since)}; {kept.in_flight_bytes:,} bytes in flight, {len(kept.files)} files"
    look = f"{colour(each.checkpoint_id)} {each.status}"
    number = ""
    if width >= LEAST_NUMBERED:
        number = (
            f'<text class="number {each.status}" x="{x + width / 2:.1f}" y="{top + 13:g}" text-anchor="middle">'
            f"{each.checkpoint_id}</text>"
        )
    return (
        f'<g><rect class="checkpoint {look}" x="{x:.1f}" y="{top:g}" width="{width:.1f}" height="{BAR:g}" rx="3"/>'
        f"{number}<title>{escape(hint)}</title></g>"
    )


def _blocked(run: Compared, each: Blocked, base: float, scale: float) -> str:
    x, width = LEFT + each.since_ms * scale, (each.until_ms - each.since_ms) * scale
    height = AREA * each.channels / max(1, run.channels)
    hint = f"{each.channels} of {run.channels} channels blocked for {duration(each.until_ms - each.since_ms)}"
    return (
        f'<rect class="blocked" x="{x:.1f}" y="{base - height:.1f}" width="{max(0.8, width):.1f}" '
        f'height="{height:.1f}">'
        f"<title>{hint}</title></rect>"
    )


def _legend(runs: tuple[Compared, ...], y: float) -> list[list[str]]:
    """Return the entries of the legend that occur in the picture, line by line."""
    bar, line = 'y="-10" width="18" height="12"', 'd="M9 -11V3"'
    aborted = any(each.status == ABORTED for run in runs for each in run.checkpoints)
    shown = [
        (f'<rect class="checkpoint cp0 completed" {bar} rx="3"/>', "checkpoint completed", True),
        (f'<rect class="checkpoint cp0 aborted" {bar} rx="3"/>', "aborted", aborted),
        (f'<rect class="blocked" {bar}/>', "channels blocked (full height: all)", any(run.blocked for run in runs)),
        (f'<path class="failure" {line}/>', "failure", any(run.failures for run in runs)),
        (f'<path class="restore" {line}/>', "restored, from which checkpoint", any(run.restores for run in runs)),
    ]
    lines: list[list[str]] = [[]]
    x = INSET
    for sign, text, is_there in shown:
        if not is_there:
            continue
        width = 24 + text_width(text, 11)
        if x + width > WIDTH - INSET:
            lines.append([])
            x, y = INSET, y + LINE
        lines[-1].append(
            f'<g transform="translate({x:g} {y:g})">{sign}<text class="tick" x="24" y="0">{text}</text></g>'
        )
        x += width + 18
    return lines


_HEADINGS = {
    "repeated": "repeated records",
    "duration_ms": "median duration, ms",
    "blocked_ms": "channels blocked, ms",
    "in_flight_bytes": "in flight, bytes",
    "bytes": "stored, bytes",
    "files": "files",
    "completed": "completed checkpoints",
    "aborted": "aborted checkpoints",
    "failures": "failures",
    "took_ms": "whole run, ms",
}
"""The headings of the table, the one that matters most first: what is wrong before what it costs."""


def _table(comparison: Comparison) -> str:
    """Return the columns in which the runs differ as a table, and the others as a sentence below it."""
    frame = comparison.to_pandas()
    alike = {
        name: frame[name].iloc[0] for name in _HEADINGS if len(frame) > 1 and frame[name].nunique(dropna=False) == 1
    }
    differs = [name for name in _HEADINGS if name not in alike]
    most = {name: frame[name].max() for name in differs}
    rows = [[_bar(row[name], most[name]) for name in differs] for row in frame.to_dict("records")]
    shown = rows_html([_HEADINGS[name] for name in differs], rows, labels=frame["run"])
    same = "; ".join(f"{_HEADINGS[name]}: {_number(value)}" for name, value in alike.items())
    under = element("p", f"Equal in all runs: {same}.", class_="alike") if same else ""
    return shown + under


def _bar(value: Any, most: Any) -> Markup:
    if pd.isna(value):
        return element("span", "·", title="the trace does not record it")
    part = 100 * value / most if most else 0
    return element("i", style=f"width:{part:.0f}%") + element("span", _number(value))


def _number(value: Any) -> str:
    if pd.isna(value):
        return "unknown"
    return f"{value:,.4g}" if value % 1 else f"{int(value):,}"

"""The present state of a job on Spark: how its tasks spend their time, its checkpoints, and its latest milestones.

`live_of(job)` reads the job once and returns a `Live`, which does not change afterwards; `widgets.Monitor` does so
repeatedly. The box of a vertex shows its records per second and splits its tasks' time as Flink's web UI does: busy,
back-pressured, idle. A subtask that does much more or less than the others of its vertex is highlighted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import pandas as pd

from kit.core.html_tables import TABLE_CSS, rows_html
from kit.core.markup import element
from kit.core.protocol.notes import CheckpointCompleted, CheckpointTriggered
from kit.core.protocol.tasks import vertex_of
from kit.draw.stage.scene import colour
from kit.draw.svg import asset
from kit.draw.views.phase_rows import STYLE as PHASE_STYLE
from kit.draw.views.phase_rows import PhaseRow, axis_html, legend_html, row_html
from kit.run.captions import caption_of
from kit.run.checkpoint_path import EITHER, WHOLE_ASYNC, Span
from kit.run.durations import duration
from kit.run.kinds import MILESTONE, level_of
from kit.run.sizes import counted
from kit.stream.operators.metrics import SPLITS_LEFT
from kit.stream.operators.windows.late_rows import late_rows_counted

STORY, HISTORY = 12, 8
"""The number of milestones and of checkpoints that are listed."""
LISTED = (CheckpointTriggered, CheckpointCompleted)
"""Milestones left out because the list of checkpoints has them; at one a second they would hide all others."""
PARTS = ("busy", "backpressured", "idle")
MOST_SUBTASKS = 64
MOST_VALUES = 8
"""The number of subtasks whose values a metric shows."""


class Story:
    """The latest milestones of a job, except its checkpoints: `take` reads only new ones."""

    def __init__(self) -> None:
        self._taken = 0
        self._captions: deque[tuple[int, str]] = deque(maxlen=STORY)

    def take(self, job: Any) -> tuple[tuple[int, str], ...]:
        """The time and text of each milestone, newest first."""
        news = job.trace.since(self._taken)
        self._taken += len(news)
        ends = stages[-1].ends() if (stages := job.look.stages) else {}
        for record in news:
            if level_of(record) >= MILESTONE and not record.is_a(*LISTED):
                self._captions.appendleft((record.at_ms, caption_of(record, ends)))
        return tuple(self._captions)


def live_of(job: Any, checkpoint: int | None = None, story: Story | None = None, log: Sequence[str] = ()) -> Live:
    """Return the present state of a SparkJob.

    `checkpoint` is the one shown by subtask, by default the last that began. `story` is that of an earlier call, if
    any, and `log` the lines logged so far.

    Raises TypeError if `job` is not a SparkJob.
    """
    if not callable(getattr(job, "meters", None)):
        raise TypeError(f"{job!r} is a {type(job).__name__}; a SparkJob can be watched while it runs")
    statistics = job.statistics
    history = statistics.history
    ids = history["id"].tolist()
    if checkpoint not in ids:
        checkpoint = max(ids, default=None)
    trace = job.trace
    return Live(
        job.look.summary(),
        job.error,
        job.meters(),
        history.head(HISTORY),
        checkpoint,
        None if checkpoint is None else statistics.subtasks(checkpoint),
        (story or Story()).take(job),
        trace[0].at_ms if len(trace) else 0,
        {vertex.name: vertex.input_vertices for vertex in job.job.vertices},
        tuple(log),
        job.metrics(),
    )


@dataclass(frozen=True)
class Live:
    """A job at one time. A notebook displays it."""

    summary: dict[str, Any]
    error: str
    meters: pd.DataFrame
    """One row per subtask: see `job.meters`."""
    history: pd.DataFrame
    """The newest checkpoints, newest first: see `CheckpointStatistics.history`."""
    checkpoint: int | None
    subtasks: pd.DataFrame | None
    """That checkpoint by subtask: see `CheckpointStatistics.subtasks`."""
    story: tuple[tuple[int, str], ...]
    """The time and text of each milestone, newest first."""
    began_ms: int
    after: Mapping[str, tuple[str, ...]]
    """The vertices that send to each vertex, in topological order."""
    log: tuple[str, ...] = ()
    """Lines that were logged, oldest first."""
    metrics: pd.DataFrame | None = None
    """The metrics of each operator: see `SparkJob.metrics`."""

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per vertex: vertex, subtasks, records_in_per_s, records_out_per_s, busy, backpressured, idle,
        busiest. The rates are totals; busy, backpressured and idle are means over the subtasks, as fractions of the
        time; busiest is the fraction of the busiest subtask.
        """
        table = self.meters.assign(vertex=[vertex_of(task) for task in self.meters["task"]])
        rows = []
        for vertex, of in table.groupby("vertex", sort=False):
            parts = [of[f"{part}_ms_per_s"].mean() / 1000 for part in PARTS]
            rates = [of["records_in_per_s"].sum(min_count=1), of["records_out_per_s"].sum(min_count=1)]
            rows.append((vertex, len(of), *rates, *parts, of["busy_ms_per_s"].max() / 1000))
        columns = ["vertex", "subtasks", "records_in_per_s", "records_out_per_s", *PARTS, "busiest"]
        return pd.DataFrame(rows, columns=columns)

    def _repr_html_(self) -> str:
        parts = (
            self.head_html(),
            self.tasks_html(),
            self.metrics_html(),
            self.checkpoints_html(),
            self.subtasks_html(),
            self.story_html(),
            self.log_html(),
        )
        return page_part("".join(parts))

    def __repr__(self) -> str:
        return f"Live({self.summary['name']}, {self.summary['status']}, epoch {self.summary['epoch']})"

    # --- its parts, each a fragment of HTML -----------------------------------------------------------------------

    def head_html(self) -> str:
        """Return the job's name, its status, and the rate at which the sources read."""
        table = self.to_pandas()
        rate = table["records_in_per_s"].iloc[0] if len(table) else float("nan")
        restarts = self.summary["restarts"]
        facts = [f"epoch {self.summary['epoch']}", counted(restarts, "restart")]
        facts.append(f"last complete checkpoint: {self.summary['checkpoint']}")
        if not pd.isna(rate):
            facts.append(f"{rate:,.0f} records/s read")
        if late_rows := int(self.meters["late_rows_dropped"].sum()):
            facts.append(late_rows_counted(late_rows))
        error = f'<p class="bad">{escape(self.error.splitlines()[0])}</p>' if self.error else ""
        status = self.summary["status"]
        look = "good" if status in ("RUNNING", "FINISHED") else "bad"
        return (
            f'<p class="head"><b>{escape(self.summary["name"])}</b> '
            f'<span class="status {look}">{status.lower()}</span> '
            f"{escape(' · '.join(facts))}</p>{error}"
        )

    def tasks_html(self) -> str:
        """Return a box per vertex, starting with the sources."""
        if not len(self.meters):
            return '<p class="quiet">no task has said yet what it does</p>'
        columns: dict[int, list[str]] = {}
        for row in self.to_pandas().to_dict("records"):
            own = self.meters[[vertex_of(task) == row["vertex"] for task in self.meters["task"]]]
            box = _vertex(row, own, self.after.get(row["vertex"], ()))
            columns.setdefault(self._depth(row["vertex"]), []).append(box)
        arrow = '<span class="arrow" aria-hidden="true">→</span>'
        drawn = arrow.join(f'<div class="column">{"".join(columns[depth])}</div>' for depth in sorted(columns))
        legend = "".join(f'<span><i class="{part}"></i>{WORDS[part]}</span>' for part in PARTS)
        return f'<div class="vertices">{drawn}</div><p class="legend">time of a task: {legend}</p>'

    def metrics_html(self) -> str:
        """Return the remaining splits and the metrics of user-defined functions, with a value per subtask."""
        if self.metrics is None:
            return ""
        shown = self.metrics[self.metrics["own"] | (self.metrics["metric"] == SPLITS_LEFT)]
        rows = []
        for (operator, metric), of in shown.groupby(["operator", "metric"], sort=False):
            values = [_number(value) for value in of["value"].head(MOST_VALUES)]
            values += ["…"] * (len(of) > MOST_VALUES)
            rows.append((operator, metric, ", ".join(values)))
        return rows_html(("operator", "metric", "by subtask"), rows)

    def _depth(self, vertex: str) -> int:
        """Return the length of the longest path from a source to this vertex."""
        return max((1 + self._depth(each) for each in self.after.get(vertex, ())), default=0)

    def checkpoints_html(self) -> str:
        """Return the newest checkpoints as a table."""
        if not len(self.history):
            return '<p class="quiet">no checkpoint has begun yet</p>'
        rows = self.history.to_dict("records")
        marks = ["chosen" if row["id"] == self.checkpoint else "" for row in rows]
        heads = ("checkpoint", "", "acknowledged", "took", "stored", "in flight")
        return rows_html(heads, map(_checkpoint, rows), marks=marks)

    def subtasks_html(self) -> str:
        """Return one checkpoint's phases, a bar per subtask; an unfinished subtask says what it waits for."""
        if self.subtasks is None or not len(self.subtasks):
            return ""
        rows = self.subtasks.head(MOST_SUBTASKS).to_dict("records")
        of_this = self.history.loc[self.history["id"] == self.checkpoint, "status"]
        is_over = "IN_PROGRESS" not in set(of_this)
        shown = [_phase_row(row, is_over=is_over) for row in rows]
        until_ms = max(1, *(row.spans[-1].end_ms for row in shown))
        drawn = "".join(row_html(row, 0, until_ms) for row in shown)
        more = len(self.subtasks) - len(rows)
        rest = f"job.statistics.subtasks({self.checkpoint})"
        left = f'<p class="quiet">and {more} subtasks more: {rest}</p>' if more else ""
        legend = legend_html(span for row in shown for span in row.spans)
        return (
            f"<h4>Checkpoint {self.checkpoint} by subtask</h4>"
            f'<div class="kit-view">{axis_html(until_ms)}{drawn}{legend}</div>{left}'
        )

    def story_html(self) -> str:
        """Return the latest milestones."""
        if not self.story:
            return ""
        lines = "".join(
            f"<li><span>{duration(at_ms - self.began_ms)}</span> {escape(text)}</li>" for at_ms, text in self.story
        )
        return f'<h4>What happened last, beside checkpoints</h4><ol class="story">{lines}</ol>'

    def log_html(self) -> str:
        """Return the logged lines as HTML."""
        return f"<h4>Log</h4><pre>{escape(chr(10).join(self.log))}</pre>" if self.log else ""


WORDS = {"busy": "busy", "backpressured": "back-pressured", "idle": "idle"}


def page_part(html: str) -> str:
    """Return a fragment in the colours of the theme."""
    rules = "".join(asset(name) for name in ("theme.css", "views.css", PHASE_STYLE, "live.css"))
    return f"<style>{rules}{TABLE_CSS}</style><div class='kit-picture kit-live'>{html}</div>"


def _vertex(row: dict[str, Any], subtasks: pd.DataFrame, after: Sequence[str]) -> str:
    rate = "" if pd.isna(row["records_in_per_s"]) else f"{row['records_in_per_s']:,.0f} in/s"
    out = "" if pd.isna(row["records_out_per_s"]) else f"{row['records_out_per_s']:,.0f} out/s"
    rows = subtasks.to_dict("records")
    bars = "".join(_times(each) for each in rows[:MOST_SUBTASKS])
    sample = next((each["sample"] for each in rows if each["sample"]), "")
    drawn = f'<code title="{escape(sample)}">{escape(sample)}</code>' if sample else ""
    many = counted(row["subtasks"], "subtask") + (f", from {escape(', '.join(after))}" if after else "")
    name = escape(row["vertex"])
    return (
        f'<section aria-label="{name}"><h5 title="{name}">{name}</h5>'
        f'<p class="quiet">{many}</p><div class="times">{bars}</div><p>{rate}<br>{out}</p>'
        f"{_time_and_state(subtasks)}{drawn}</section>"
    )


def _time_and_state(subtasks: pd.DataFrame) -> str:
    """Return the largest lag of event time, and the size of the state, if there is any."""
    behind_ms, entries = subtasks["behind_ms"].max(), int(subtasks["state_entries"].sum())
    facts = [] if pd.isna(behind_ms) else [f"event time {duration(max(0, int(behind_ms)))} behind"]
    if entries:
        facts.append(f"{entries:,} entries of state, {int(subtasks['state_bytes'].sum()):,} B in the last checkpoint")
    return f'<p class="quiet">{"<br>".join(facts)}</p>' if facts else ""


def _number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 1_000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _times(row: dict[str, Any]) -> str:
    shares = [row[f"{part}_ms_per_s"] for part in PARTS]
    if any(map(pd.isna, shares)):
        return f'<div class="time" title="{escape(row["task"])}: no rate yet"></div>'
    shown = ", ".join(f"{share / 10:.0f} % {WORDS[part]}" for part, share in zip(PARTS, shares))
    hint = f"{escape(row['task'])}: {shown}"
    parts = "".join(f'<i class="{part}" style="flex:{share:.1f}"></i>' for part, share in zip(PARTS, shares))
    return f'<div class="time" role="img" aria-label="{hint}" title="{hint}">{parts}</div>'


def _checkpoint(row: dict[str, Any]) -> tuple[str, ...]:
    status = str(row["status"]).lower()
    took = "" if pd.isna(row["duration_ms"]) else duration(row["duration_ms"])
    sizes = (row[name] for name in ("checkpointed_bytes", "persisted_bytes"))
    stored, in_flight = ("" if pd.isna(size) else f"{size:,} B" for size in sizes)
    look = "good" if status == "completed" else "bad" if status == "failed" else ""
    flag = element("b", row["id"], class_=f"flag {colour(row['id'])}") + f" {str(row['kind']).lower()}"
    said = element("span", status.replace("_", " "), class_=look)
    return flag, said, f"{row['acknowledged']} of {row['subtasks']}", took, stored, in_flight


def _spans(row: dict[str, Any]) -> list[Span]:
    """Return a subtask's phases in order, from the trigger on. A phase that the statistics do not report took no time.

    In an unaligned checkpoint the time of the alignment is part of the asynchronous phase.
    """
    open_phase = row["open_phase"] if row["status"] == "unfinished" else ""
    is_whole = row["unaligned"] is True or open_phase == "in_flight"
    spans, at = [], 0
    for phase in ("start_delay", "alignment", "sync", "async"):
        length = pd.NA if phase == "alignment" and is_whole else row[f"{phase}_ms"]
        end = at + (0 if pd.isna(length) else int(length))
        look = {"start_delay": EITHER, "async": WHOLE_ASYNC if is_whole else ""}.get(phase, "")
        is_open = phase == open_phase or (phase == "async" and open_phase == "in_flight")
        spans.append(Span(phase, at, end, open=is_open, shown_as=look))
        at = end
    whole = row["end_to_end_ms"]
    end = at if pd.isna(whole) else max(at, int(whole))
    return [*spans, Span("ack", at, end, open=open_phase == "ack")]


def _phase_row(row: dict[str, Any], *, is_over: bool) -> PhaseRow:
    """Return a subtask's row; `is_over` is True if the checkpoint has ended."""
    spans = _spans(row)
    if row["status"] == "declined":
        return PhaseRow(row["task"], spans, "declined", is_bad=True)
    if row["status"] == "unfinished":
        waits = f"{'waited' if is_over else 'waits'} for {row['waits_for']}" if row["waits_for"] else "unfinished"
        return PhaseRow(row["task"], spans, waits, is_bad=True)
    return PhaseRow(row["task"], spans, duration(spans[-1].end_ms))

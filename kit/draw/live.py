"""A job on Spark as it is now: what its tasks do with their time, its checkpoints, the last one by subtask, its story.

`look(job)` asks the job once and gives a `Live`, which does not change any more; `widgets.Monitor` takes one look
after another. A box per vertex says how many records pass in a second and splits its tasks' time as Flink's web UI
does: busy, back-pressured, idle. A subtask that does much more or less than its vertex's others is seen at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import islice
from typing import Any

import pandas as pd

from kit.draw.captions import caption_of
from kit.draw.checkpoint_path import PHASE_WORDS, PHASES, Span
from kit.draw.durations import duration
from kit.draw.kinds import MILESTONE, level_of
from kit.draw.phase_rows import STYLE as PHASE_STYLE
from kit.draw.phase_rows import axis_html, legend_html, row_html
from kit.draw.scene import colour
from kit.draw.svg import asset
from kit.protocol.tasks import split_task_name

STORY, HISTORY, RECENT = 12, 8, 4_000
"""So many milestones are told, and checkpoints listed; milestones are looked for among so many of the last records."""
PARTS = ("busy", "backpressured", "idle")
MOST_SUBTASKS = 64


def look(job: Any, checkpoint: int | None = None) -> Live:
    """How a SparkJob is now. `checkpoint` is the one shown by subtask, by default the last that began.

    Raises TypeError for what is no SparkJob.
    """
    if not callable(getattr(job, "meters", None)):
        raise TypeError(f"{job!r} is a {type(job).__name__}; a SparkJob can be watched while it runs")
    statistics = job.statistics
    history = statistics.history
    ids = history["id"].tolist()
    if checkpoint not in ids:
        checkpoint = max(ids, default=None)
    trace = job.trace
    ends = job.stages[-1].ends() if job.stages else {}
    told = (
        (record.at_ms, caption_of(record, ends))
        for record in reversed(trace.since(max(0, len(trace) - RECENT)))
        if level_of(record) >= MILESTONE
    )
    return Live(
        job.summary(),
        job.error,
        job.meters(),
        history.head(HISTORY),
        checkpoint,
        None if checkpoint is None else statistics.subtasks(checkpoint),
        tuple(islice(told, STORY)),
        trace[0].at_ms if len(trace) else 0,
    )


@dataclass(frozen=True)
class Live:
    """A job at one time; a notebook shows it by itself."""

    summary: dict[str, Any]
    error: str
    meters: pd.DataFrame
    """One row per subtask: see `SparkJob.meters`."""
    history: pd.DataFrame
    """The newest checkpoints, newest first: see `CheckpointStatistics.history`."""
    checkpoint: int | None
    subtasks: pd.DataFrame | None
    """That checkpoint by subtask: see `CheckpointStatistics.subtasks`."""
    story: tuple[tuple[int, str], ...]
    """When, and what happened, newest first."""
    began_ms: int

    def to_pandas(self) -> pd.DataFrame:
        """One row per vertex: vertex, subtasks, records_in_per_s and records_out_per_s (of all together), busy,
        backpressured and idle (parts of the time, of its subtasks' mean), busiest (the part of the busiest subtask).
        """
        table = self.meters.assign(vertex=[split_task_name(task)[0] for task in self.meters["task"]])
        rows = []
        for vertex, of in table.groupby("vertex", sort=False):
            parts = [of[f"{part}_ms_per_s"].mean() / 1000 for part in PARTS]
            rates = [of["records_in_per_s"].sum(min_count=1), of["records_out_per_s"].sum(min_count=1)]
            rows.append((vertex, len(of), *rates, *parts, of["busy_ms_per_s"].max() / 1000))
        columns = ["vertex", "subtasks", "records_in_per_s", "records_out_per_s", *PARTS, "busiest"]
        return pd.DataFrame(rows, columns=columns)

    def _repr_html_(self) -> str:
        parts = (self.head_html(), self.tasks_html(), self.checkpoints_html(), self.subtasks_html(), self.story_html())
        return page_part("".join(parts))

    def __repr__(self) -> str:
        return f"Live({self.summary['name']}, {self.summary['status']}, epoch {self.summary['epoch']})"

    # --- its parts, each a fragment of HTML -----------------------------------------------------------------------

    def head_html(self) -> str:
        """Name, status and the rate at which the sources read."""
        table = self.to_pandas()
        rate = table["records_in_per_s"].iloc[0] if len(table) else float("nan")
        restarts = self.summary["restarts"]
        facts = [f"epoch {self.summary['epoch']}", "1 restart" if restarts == 1 else f"{restarts} restarts"]
        facts.append(f"last complete checkpoint: {self.summary['checkpoint']}")
        if not pd.isna(rate):
            facts.append(f"{rate:,.0f} records/s read")
        error = f'<p class="bad">{escape(self.error.splitlines()[0])}</p>' if self.error else ""
        status = self.summary["status"]
        look = "good" if status in ("RUNNING", "FINISHED") else "bad"
        return (
            f'<p class="head"><b>{escape(self.summary["name"])}</b> '
            f'<span class="status {look}">{status.lower()}</span> '
            f"{' · '.join(map(escape, map(str, facts)))}</p>{error}"
        )

    def tasks_html(self) -> str:
        """A box per vertex, from the sources on."""
        if not len(self.meters):
            return '<p class="quiet">no task has said yet what it does</p>'
        boxes = [_vertex(row, self._of(row["vertex"])) for row in self.to_pandas().to_dict("records")]
        arrow = '<span class="arrow" aria-hidden="true">→</span>'
        legend = "".join(f'<span><i class="{part}"></i>{WORDS[part]}</span>' for part in PARTS)
        return f'<div class="vertices">{arrow.join(boxes)}</div><p class="legend">time of a task: {legend}</p>'

    def _of(self, vertex: str) -> pd.DataFrame:
        return self.meters[[split_task_name(task)[0] == vertex for task in self.meters["task"]]]

    def checkpoints_html(self) -> str:
        """The newest checkpoints."""
        if not len(self.history):
            return '<p class="quiet">no checkpoint has begun yet</p>'
        rows = "".join(_checkpoint(row, self.checkpoint) for row in self.history.to_dict("records"))
        names = ("checkpoint", "", "acknowledged", "took", "stored", "in flight")
        head = "".join(f"<th>{name}</th>" for name in names)
        return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'

    def subtasks_html(self) -> str:
        """One checkpoint's phases, a bar per subtask; an unfinished one says what it waits for."""
        if self.subtasks is None or not len(self.subtasks):
            return ""
        rows = self.subtasks.head(MOST_SUBTASKS).to_dict("records")
        spans = {row["task"]: _spans(row) for row in rows}
        until_ms = max(1, *(each[-1].end_ms for each in spans.values()))
        drawn = "".join(row_html(row["task"], spans[row["task"]], 0, until_ms, _told(row)) for row in rows)
        more = len(self.subtasks) - len(rows)
        left = (
            f'<p class="quiet">and {more} subtasks more: job.statistics.subtasks({self.checkpoint})</p>' if more else ""
        )
        legend = legend_html(span for each in spans.values() for span in each)
        return (
            f"<h4>Checkpoint {self.checkpoint} by subtask</h4>"
            f'<div class="kit-view">{axis_html(until_ms)}{drawn}{legend}</div>{left}'
        )

    def story_html(self) -> str:
        """The last milestones."""
        if not self.story:
            return ""
        lines = "".join(
            f"<li><span>{duration(at_ms - self.began_ms)}</span> {escape(text)}</li>" for at_ms, text in self.story
        )
        return f'<h4>What happened last</h4><ol class="story">{lines}</ol>'


WORDS = {"busy": "busy", "backpressured": "back-pressured", "idle": "idle"}


def page_part(html: str) -> str:
    """A fragment in the colours of the theme."""
    rules = "".join(asset(name) for name in ("theme.css", "views.css", PHASE_STYLE, "live.css"))
    return f"<style>{rules}</style><div class='kit-picture kit-live'>{html}</div>"


def _vertex(row: dict[str, Any], subtasks: pd.DataFrame) -> str:
    rate = "" if pd.isna(row["records_in_per_s"]) else f"{row['records_in_per_s']:,.0f} in/s"
    out = "" if pd.isna(row["records_out_per_s"]) else f"{row['records_out_per_s']:,.0f} out/s"
    rows = subtasks.to_dict("records")
    bars = "".join(_times(each) for each in rows[:MOST_SUBTASKS])
    sample = next((each["sample"] for each in rows if each["sample"]), "")
    drawn = f'<code title="{escape(sample)}">{escape(sample)}</code>' if sample else ""
    many = "1 subtask" if row["subtasks"] == 1 else f"{row['subtasks']} subtasks"
    name = escape(row["vertex"])
    return (
        f'<section aria-label="{name}"><h5 title="{name}">{name}</h5>'
        f'<p class="quiet">{many}</p><div class="times">{bars}</div><p>{rate}<br>{out}</p>{drawn}</section>'
    )


def _times(row: dict[str, Any]) -> str:
    shares = [row[f"{part}_ms_per_s"] for part in PARTS]
    if any(map(pd.isna, shares)):
        return f'<div class="time" title="{escape(row["task"])}: no rate yet"></div>'
    shown = ", ".join(f"{share / 10:.0f} % {WORDS[part]}" for part, share in zip(PARTS, shares))
    told = f"{escape(row['task'])}: {shown}"
    parts = "".join(f'<i class="{part}" style="flex:{share:.1f}"></i>' for part, share in zip(PARTS, shares))
    return f'<div class="time" role="img" aria-label="{told}" title="{told}">{parts}</div>'


def _checkpoint(row: dict[str, Any], chosen: int | None) -> str:
    status = str(row["status"]).lower()
    took = "" if pd.isna(row["duration_ms"]) else duration(row["duration_ms"])
    stored = "" if pd.isna(row["checkpointed_bytes"]) else f"{row['checkpointed_bytes']:,} B"
    in_flight = "" if pd.isna(row["persisted_bytes"]) else f"{row['persisted_bytes']:,} B"
    here = ' class="chosen"' if row["id"] == chosen else ""
    look = "good" if status == "completed" else "bad" if status == "failed" else ""
    flag = f'<b class="flag {colour(row["id"])}">{row["id"]}</b> {escape(str(row["kind"]).lower())}'
    cells = (
        flag,
        f'<span class="{look}">{status.replace("_", " ")}</span>',
        f"{row['acknowledged']} of {row['subtasks']}",
    )
    return f"<tr{here}>{''.join(f'<td>{cell}</td>' for cell in (*cells, took, stored, in_flight))}</tr>"


def _spans(row: dict[str, Any]) -> list[Span]:
    """A subtask's phases one after the other, from the trigger on; what the statistics do not know took no time."""
    open_phase = row["open_phase"] if row["status"] == "unfinished" else ""
    spans, at = [], 0
    for phase in PHASES[:-1]:
        length = row[f"{phase}_ms"]
        end = at + (0 if pd.isna(length) else int(length))
        spans.append(Span(phase, at, end, open=phase == open_phase))
        at = end
    whole = row["end_to_end_ms"]
    end = at if pd.isna(whole) else max(at, int(whole))
    return [*spans, Span("ack", at, end, open=open_phase == "ack")]


def _told(row: dict[str, Any]) -> tuple[str, str]:
    """What is said of a subtask behind its bars, and how that looks."""
    if row["status"] == "declined":
        return "declined", "bad"
    if row["status"] == "unfinished":
        return PHASE_WORDS.get(row["open_phase"], row["open_phase"]), "bad"
    return duration(_spans(row)[-1].end_ms), ""

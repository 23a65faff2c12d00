"""A run's numbers as charts over time: durations, sizes and skew of its checkpoints, backlog, recoveries.

    over_time(job)                       # a Lab, a SparkJob or a Trace
    over_time(job).numbers.checkpoints   # the numbers as a DataFrame; also .backlog and .recoveries

The figure is matplotlib's: `chart.figure.axes` can be styled further.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

import pandas as pd

from kit.core.extras import naming_extras
from kit.draw.assets import light_colours
from kit.draw.picture import Chart
from kit.run.durations import duration
from kit.run.moments.job_state import ABORTED, COMPLETED, PENDING
from kit.run.over_time import OverTime, over_time_of
from kit.run.sizes import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INKS = {COMPLETED: "good-solid", ABORTED: "bad-solid", PENDING: "line-2"}
"""The theme's colour of a checkpoint, by its status."""
ROOM = 1.25
"""The height of a panel over its largest value, so that labels fit."""
MOST_LABELS = 12
"""The most checkpoints whose points are numbered."""


class OverTimeChart(Chart):
    """The charts of a run; `numbers` has what they show as DataFrames."""

    def __init__(self, figure: Any, caption: str, numbers: OverTime) -> None:
        super().__init__(figure, caption)
        self.numbers = numbers

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per checkpoint: see `kit.run.over_time.OverTime.checkpoints`."""
        return self.numbers.checkpoints


def over_time(run: Any) -> OverTimeChart:
    """Draw a run's checkpoints, backlog and recoveries over time.

    `run` is a Lab, a SparkJob or a Trace. The times in which the job did not run are shaded in each panel. The backlog
    is drawn if the run records single buffers, as a lab does.
    """
    with naming_extras():
        from matplotlib.figure import Figure

    numbers = over_time_of(run)
    panels = [_duration, _skew, _size]
    if len(numbers.backlog):
        panels.append(_backlog)
    figure = Figure(figsize=(9.4, 0.9 + 1.45 * len(panels)), layout="constrained")
    all_axes = figure.subplots(len(panels), sharex=True)
    for axes, draw in zip(all_axes, panels):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=9)
        axes.yaxis.set_major_formatter("{x:,.0f}")
        draw(axes, numbers)
        highest = axes.dataLim.ymax if axes.has_data() else 0.0
        axes.set_ylim(0, max(1.0, highest * ROOM) if isfinite(highest) else 1.0)
        _shade(axes, numbers, is_labelled=axes is all_axes[0])
    all_axes[-1].set_xlim(0, max(1, numbers.until_ms))
    all_axes[-1].xaxis.set_major_formatter("{x:,.0f}")
    all_axes[-1].set_xlabel("ms since the beginning", fontsize=9)
    _legend(figure, numbers)
    return OverTimeChart(figure, _caption(numbers), numbers)


def _caption(numbers: OverTime) -> str:
    table = numbers.checkpoints
    states = [f"{many} {status}" for status in INKS if (many := int((table["status"] == status).sum()))]
    said = f"{counted(len(table), 'checkpoint')} over {duration(numbers.until_ms)}"
    if states:
        said += f": {', '.join(states)}"
    stops = len(numbers.recoveries)
    return f"{said}; {counted(stops, 'interruption')}" if stops else said


# --- panels -----------------------------------------------------------------------------------------------------------


def _duration(axes: Axes, numbers: OverTime) -> None:
    """Draw a bar for each checkpoint, from its trigger to its end and as high as it took."""
    inks = light_colours()
    for row in numbers.checkpoints.itertuples():
        is_over = row.status != PENDING
        took = row.duration_ms if is_over else numbers.until_ms - row.triggered_ms
        ink = inks[INKS[row.status]]
        axes.bar(
            row.triggered_ms,
            took,
            width=max(took, numbers.until_ms / 200),
            align="edge",
            color=ink if is_over else "white",
            edgecolor=ink if not is_over else "white",
            hatch=None if is_over else "////",
        )
        _number(axes, numbers, row, took)
    _title(axes, "Duration", "ms from the trigger to the end")


def _skew(axes: Axes, numbers: OverTime) -> None:
    """Draw a line for each checkpoint from the median subtask's time to that of the slowest."""
    inks = light_colours()
    known = numbers.checkpoints.dropna(subset=["slowest_ms"])
    times, medians, slowest = (known[name].astype(float) for name in ("triggered_ms", "median_ms", "slowest_ms"))
    axes.vlines(times, medians, slowest, color=inks["accent"], linewidth=2)
    axes.plot(times, medians, "o", color=inks["accent"], markersize=5, label="median subtask")
    axes.plot(times, slowest, "^", color=inks["bad"], markersize=6, label="slowest subtask")
    if len(known):
        axes.legend(fontsize=8.5, frameon=False, loc="lower right", bbox_to_anchor=(1, 0.97), ncols=2)
    _title(axes, "Skew", "ms until a subtask's acknowledgement")


def _size(axes: Axes, numbers: OverTime) -> None:
    inks = light_colours()
    known = numbers.checkpoints.dropna(subset=["size_bytes"])
    axes.bar(
        known["triggered_ms"].astype(float),
        known["size_bytes"].astype(float),
        width=numbers.until_ms / 100,
        color=inks["accent"],
    )
    for row in known.itertuples():
        _number(axes, numbers, row, row.size_bytes)
    _title(axes, "Size", "bytes")


def _backlog(axes: Axes, numbers: OverTime) -> None:
    table = numbers.backlog
    ink = light_colours()["align-solid"]
    axes.fill_between(table["at_ms"], table["records"], step="post", color=ink, alpha=0.35, linewidth=0)
    axes.step(table["at_ms"], table["records"], where="post", color=ink, linewidth=1.2)
    _title(axes, "Backlog", "records sent and not yet taken")


# --- parts of a panel -------------------------------------------------------------------------------------------------


def _title(axes: Axes, title: str, unit: str) -> None:
    axes.set_title(f"{title}: {unit}", loc="left", fontsize=10)


def _number(axes: Axes, numbers: OverTime, row: Any, height: float) -> None:
    """Write the checkpoint's number above its bar, if there are few."""
    if len(numbers.checkpoints) <= MOST_LABELS:
        axes.annotate(
            str(row.checkpoint_id), (row.triggered_ms, height), (0, 2), textcoords="offset points", fontsize=8.5
        )


def _shade(axes: Axes, numbers: OverTime, *, is_labelled: bool) -> None:
    """Shade the times in which the job did not run; the first panel says how long each lasted."""
    inks = light_colours()
    for place, row in enumerate(numbers.recoveries.itertuples()):
        is_over = pd.notna(row.running_ms)
        ends = row.running_ms if is_over else numbers.until_ms
        axes.axvspan(row.stopped_ms, ends, color=inks["bad"], alpha=0.15, linewidth=0)
        if is_labelled and len(numbers.recoveries) <= MOST_LABELS:
            said = duration(row.lasting_ms) if is_over else "not over"
            axes.annotate(
                said,
                ((row.stopped_ms + ends) / 2, 0.98 - 0.14 * (place % 2)),  # neighbours may be close together
                xycoords=("data", "axes fraction"),
                ha="center",
                va="top",
                fontsize=8.5,
                color=inks["bad"],
            )


def _legend(figure: Any, numbers: OverTime) -> None:
    from matplotlib.patches import Patch

    inks = light_colours()
    handles = [
        Patch(facecolor=inks[ink], label=status)
        for status, ink in INKS.items()
        if (numbers.checkpoints["status"] == status).any()
    ]
    if len(numbers.recoveries):
        handles.append(Patch(facecolor=inks["bad"], alpha=0.15, label="the job did not run (recovery, rescale)"))
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=4, fontsize=8.5, frameon=False)

"""A run as a space-time diagram: a line per machine, time from left to right, and each checkpoint's cut through them.

It is the picture of Chandy and Lamport's paper, drawn from what happened. Messages and elements are arrows; where an
element waits in a queue, at its sender or at its receiver, it runs along that task's line. A checkpoint's cut is the
broad line through all tasks at which each copied its state. What lies left of it is in the checkpoint. What crosses it
from left to right is in flight, and an unaligned checkpoint keeps that too. What crosses from right to left would be
repeated by a restore; it exists with at-least-once only.

Here is what is shown of a run, and what is said of it; `kit.draw.space_time_svg` draws it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pandas as pd

from kit.draw.checkpoint_path import Span
from kit.draw.checkpoint_words import Crossed, how_it_went, outliers, spans_of_task, took_ms, what_crossed
from kit.draw.durations import duration
from kit.draw.gantt import waits_in
from kit.draw.job_state import CheckpointMoment
from kit.draw.journeys import Crossing, Cut, Instant, Journey, Journeys, Letter, journeys
from kit.draw.picture import Svg
from kit.draw.run import run_of
from kit.draw.shown import DRAW_SPACE_TIME

MARGIN = 0.2
"""Before a checkpoint's trigger and after its end so much of its duration is shown as well."""
LEAST_MARGIN_MS = 4.0
MOST_BARRIERS = 40
"""With more of them only the first and the last of each task's are drawn: those between say nothing new."""
MOST_BUFFERS = 2_500
"""With more of them only those that cross the cut are drawn."""


def space_time(
    run: Any, checkpoint: int | None = None, *, since_ms: float | None = None, until_ms: float | None = None
) -> SpaceTime:
    """The space-time diagram of a Lab, a SparkJob or a Trace around one checkpoint, by default the last that a task
    copied its state for; or between two times, counted from the run's beginning.

    Raises ValueError when the run has no such checkpoint, or does not last from the one time to the other.
    """
    found = journeys(run)
    last = found.last
    if checkpoint is not None and checkpoint not in last.checkpoints:
        there = ", ".join(map(str, last.checkpoints)) or "none"
        raise ValueError(f"the run has no checkpoint {checkpoint}; there are: {there}")
    if checkpoint is None and found.cuts:
        checkpoint = max(found.cuts)
    known = run_of(run).known
    machines = tuple(known[-1].tasks() if known else sorted(last.tasks))
    waits = {} if checkpoint is None else waits_in(run_of(run), found, last.checkpoints[checkpoint])
    if checkpoint is not None and since_ms is None and until_ms is None:
        return SpaceTime(found, checkpoint, machines, *_around(found, checkpoint), waits)
    begin, end = float(last.began_ms), float(last.at_ms)
    since = begin if since_ms is None else begin + since_ms
    until = end if until_ms is None else min(end, begin + until_ms)
    if since >= until and (since_ms, until_ms) != (None, None):
        raise ValueError(f"nothing happens from {duration(since - begin)} on: the run lasts {duration(end - begin)}")
    return SpaceTime(found, checkpoint, machines, since, until, waits)


def _around(found: Journeys, checkpoint: int) -> tuple[float, float]:
    """From before a checkpoint's trigger until what was in flight has been taken, if that is not much later than its
    end.
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
    """A space-time diagram; a notebook shows it by itself. `checkpoint` is the one whose cut sorts the elements,
    `machines` are the tasks that have a line each. Times are those of the trace, in ms.
    """

    found: Journeys
    checkpoint: int | None
    machines: tuple[str, ...]
    since_ms: float
    until_ms: float
    waits: Mapping[str, str] = field(default_factory=dict)
    """What each task waits for that has not finished the checkpoint, in words."""

    def to_pandas(self) -> pd.DataFrame:
        """The elements of the whole run, and how they lie to the cut: see `Journeys.to_pandas`."""
        return self.found.to_pandas(self.checkpoint)

    def svg(self) -> Svg:
        """The picture."""
        return Svg.of(DRAW_SPACE_TIME(self), self.caption)

    def _repr_svg_(self) -> str:
        return self.svg()

    def _repr_html_(self) -> str:
        return self.svg()._repr_html_()

    def __repr__(self) -> str:
        return f"SpaceTime({self.caption})"

    # --- what is shown --------------------------------------------------------------------------------------------

    @cached_property
    def known(self) -> CheckpointMoment | None:
        """The checkpoint as its coordinator saw it at the end."""
        return None if self.checkpoint is None else self.found.last.checkpoints[self.checkpoint]

    @cached_property
    def cut(self) -> Cut | None:
        """Its cut; None when no task has copied its state for it."""
        return None if self.checkpoint is None else self.found.cuts.get(self.checkpoint)

    def crossing(self, each: Journey) -> Crossing | None:
        """Which way a buffer of records crosses the cut; None when it does not, or is something else."""
        crossing = each.crossing(self.cut) if each.kind == "buffer" else None
        return crossing if crossing in (Crossing.IN_FLIGHT, Crossing.AGAINST) else None

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
        """The buffers of records that cross the cut, this way or that."""
        return [each for each in self._there if self.crossing(each) is not None]

    @cached_property
    def other_elements(self) -> list[Journey]:
        """The elements that are drawn without emphasis."""
        others = [each for each in self._there if each.kind != "barrier" and self.crossing(each) is None]
        return others if len(others) <= MOST_BUFFERS else []

    @property
    def left_out(self) -> str:
        """What is not drawn, in words; "" when all is."""
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
        if begin is None or begin.at_ms > self.until_ms:
            return False
        return end is None or end.at_ms >= self.since_ms

    def spans(self, task: str) -> list[Span]:
        """The phases of a task on its path through the checkpoint."""
        if self.known is None:
            return []
        return spans_of_task(self.found, self.known, task)

    # --- what is said ---------------------------------------------------------------------------------------------

    @cached_property
    def caption(self) -> str:
        """What the picture shows, in a line."""
        if self.known is None:
            return "no task has copied its state for a checkpoint"
        buffers = [each for each in self.found.elements if each.kind == "buffer"]
        crossed = Crossed(
            *_counted(buffers, self.cut, Crossing.IN_FLIGHT), *_counted(buffers, self.cut, Crossing.AGAINST)
        )
        return what_crossed(self.known, crossed, {} if self.cut is None else self.cut.instants, bool(buffers))

    @property
    def outcome(self) -> str:
        """How the checkpoint went, and who was last."""
        return "" if self.known is None else how_it_went(self.found, self.known)

    @property
    def outliers(self) -> dict[str, tuple[float, float]]:
        """Tasks that took much longer than the others of their operator: how long, and how long those, in ms."""
        return {} if self.known is None else outliers(took_ms(self.found, self.known))


def _first_and_last(barriers: Iterable[Journey]) -> list[Journey]:
    """Of the barriers that a task has of a checkpoint the first and the last to be taken: what alignment lasts from and
    to.
    """
    by_task: dict[tuple[str, int | None], list[Journey]] = {}
    for each in barriers:
        if each.taken is not None:
            by_task.setdefault((each.receiver, each.checkpoint_id), []).append(each)
    found = []
    for of_task in by_task.values():
        of_task.sort(key=lambda each: each.taken or Instant(0, 0))
        found += of_task[:1] + of_task[1:][-1:]
    return found


def _counted(buffers: list[Journey], cut: Cut | None, crossing: Crossing) -> tuple[int, int]:
    """How many buffers lie so to the cut, and records in them."""
    rows = [each.rows for each in buffers if each.crossing(cut) is crossing]
    return len(rows), sum(rows)

"""The barriers of a checkpoint: the tasks that wait for them, the buffers before each, those overtaken, and the delays.

The picture is the wait-for graph (`kit.draw.views.wait_for_graph`), and as an object of the `graphviz` package the way
of the barriers with the data (`kit.draw.views.propagation`). The table has every channel.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from kit.core.html_tables import rows_html
from kit.draw.graphs import Graph, Node
from kit.draw.graphviz_objects import Dot
from kit.draw.picture import Svg
from kit.draw.view_html import answer, fold, graph_html, legend, view_html, words
from kit.draw.views.propagation import Passage, propagation_graph
from kit.draw.views.view import View
from kit.draw.views.wait_for_graph import merged, wait_for_graph
from kit.run.barrier_log import BarrierLog
from kit.run.captions import listed
from kit.run.durations import duration
from kit.run.moments.job_state import COMPLETED, PENDING, WRITING, CheckpointMoment, Item
from kit.run.stage import Stage, stage_for
from kit.run.subject import Subject
from kit.why.evidence import Evidence
from kit.why.wait_for import WaitFor
from kit.why.waits import ENDED, NOT_SENT, TAKEN, Barrier

TITLE = "Barriers"
QUESTION = "Who blocks whom: which barrier is missing, where is it, and what is before it?"
MOST_ROWS = 40
_UNKNOWN = (None, None, None)
UNTOLD = "The trace has barriers and no single buffers: what is before a barrier, and what it overtook, is not known."
COLUMNS = [
    "checkpoint_id",
    "channel",
    "source",
    "target",
    "barrier",
    "buffers_before",
    "records_before",
    "bytes_before",
    "waited_ms",
    "blocked_ms",
    "buffers_overtaken",
    "records_overtaken",
    "bytes_overtaken",
]


@dataclass(frozen=True)
class Barriers:
    """The barriers of one checkpoint at one moment. `svg` gives the wait-for graph, `dot` the way of the barriers."""

    stage: Stage
    known: CheckpointMoment | None
    wait_for: WaitFor
    log: BarrierLog

    @property
    def caption(self) -> str:
        """A description of the picture."""
        return "no checkpoint" if self.known is None else f"checkpoint {self.known.checkpoint_id}: {self._status()}"

    def _status(self) -> str:
        if self.known is None or self.known.status != PENDING:
            return "" if self.known is None else self.known.status
        waiting = _unique(wait.target for wait in self.wait_for.waits)
        return f"{len(waiting)} {_verb(waiting, 'task waits', 'tasks wait')} for barriers"

    # --- the answer -----------------------------------------------------------------------------------------------

    def answer(self) -> str:
        """Return the answer in one to three sentences."""
        known, waits = self.known, self.wait_for.waits
        if known is None:
            return "No checkpoint has begun, so there is no barrier."
        number = known.checkpoint_id
        if known.status != PENDING:
            return f"Checkpoint {number} is {known.status}: no task waits for its barriers. {self._longest()}".strip()
        if not waits:
            return f"All barriers of checkpoint {number} have arrived. {self._longest()}".strip()
        says = [f"Checkpoint {number}: {self._who(waits)}."]
        held = self.wait_for.held
        if held:
            order = {task: at for at, task in enumerate(self.stage.tasks())}
            keepers = sorted({each.target for each in held}, key=order.__getitem__)
            kept = sorted({each.source for each in held}, key=order.__getitem__)
            verb, channels = _verb(keepers, "blocks", "block"), _verb(held, "channel", "channels")
            says.append(f"Until then {listed(keepers)} {verb} the {channels} of {listed(kept)}.")
        says.append(f"It comes down to this: {'; '.join(merged(self.wait_for.ends))}.")
        return " ".join(says)

    def _who(self, waits: tuple[Barrier, ...]) -> str:
        if len(waits) == 1:
            (wait,) = waits
            return f"{wait.target} waits for the barrier of {wait.source}, which is {self._where(wait)}"
        waiters, sources = _unique(w.target for w in waits), _unique(w.source for w in waits)
        return f"{listed(waiters)} {_verb(waiters, 'waits', 'wait')} for the barriers of {listed(sources)}"

    def _where(self, wait: Barrier) -> str:
        place = "not sent yet" if wait.place == NOT_SENT else wait.place
        return f"{place} behind {self.wait_for.contents(wait.before)}" if wait.before else place

    def _longest(self) -> str:
        frame = self.to_pandas().dropna(subset=["waited_ms"])
        if frame.empty or not frame.waited_ms.max():
            return ""
        row = frame.loc[frame.waited_ms.astype(int).idxmax()]
        return f"The longest wait was {duration(row.waited_ms)}: {row.target} for the barrier of {row.source}."

    # --- the picture ----------------------------------------------------------------------------------------------

    def graph(self) -> Graph:
        """Return the wait-for graph."""
        return wait_for_graph(self.wait_for, self.caption)

    def svg(self) -> Svg:
        """Return the wait-for graph as a picture of its own."""
        return self.graph().svg()

    def propagation(self) -> Graph:
        """Return the way of the barriers with the data, and the times at which they were sent and taken."""
        if self.known is None:
            return Graph("barriers", self.caption, (Node("none", ("No checkpoint has begun",), "quiet"),))
        number, passages = self.known.checkpoint_id, []
        for each in self.stage.channels:
            path, (place, _) = self.log.path(number, each.number), self._place(each.number)
            passages.append(
                Passage(each.source, each.target, path.queued_ms, path.taken_ms, len(path.overtaken), place)
            )
        tasks = self.wait_for.evidence.moment.tasks
        times = ((task, found.phases_ms.get(number, {}).get(WRITING)) for task, found in tasks.items())
        copied = {task: at_ms for task, at_ms in times if at_ms is not None}
        caption = f"The barriers of checkpoint {number} in the direction of the data"
        return propagation_graph(self.stage, passages, copied, caption)

    def dot(self) -> Dot:
        """Return the way of the barriers as an object of the `graphviz` package."""
        return self.propagation().dot()

    # --- the table ------------------------------------------------------------------------------------------------

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per channel: checkpoint_id, channel (its number), source, target, barrier (its place);
        buffers, records and bytes before the barrier; waited_ms (from the first barrier that the target took until this
        one, or until now), blocked_ms (while the channel was blocked), and buffers, records and bytes that the barrier
        overtook. Values that the trace does not contain are missing.
        """
        channels = () if self.known is None else self.stage.channels
        rows = [self._row(each.number, each.source, each.target) for each in channels]
        frame = pd.DataFrame(rows, columns=COLUMNS)
        return frame.astype(dict.fromkeys([*COLUMNS[:2], *COLUMNS[5:]], "Int64"))

    def _row(self, number: int, source: str, target: str) -> list[Any]:
        wait_for, log = self.wait_for, self.log
        checkpoint_id, detailed = wait_for.checkpoint_id, wait_for.evidence.detailed
        place, before = self._place(number)
        counted = [item for item in before if item.kind == "buffer"]
        stands = self._sums(counted) if detailed and place not in (TAKEN, NOT_SENT, ENDED) else _UNKNOWN
        path, task = log.path(checkpoint_id, number), log.task(checkpoint_id, target)
        until = path.taken_ms
        if until is None and wait_for.is_pending:
            until = wait_for.evidence.at_ms
        waited = None if task.first_ms is None or until is None else max(0, until - task.first_ms)
        released = task.released_ms if task.released_ms is not None else self._until
        blocked = 0 if path.taken_ms is not None else None
        if path.blocks and path.taken_ms is not None and released is not None:
            blocked = max(0, released - path.taken_ms)
        overtaken = self._sums(path.overtaken) if detailed and path.sent_ms is not None else _UNKNOWN
        return [checkpoint_id, number, source, target, place, *stands, waited, blocked, *overtaken]

    def _sums(self, buffers: Sequence[Item]) -> tuple[int, int, int]:
        """Return the number of these buffers, of the records in them, and of their bytes."""
        return len(buffers), sum(item.rows for item in buffers), self.wait_for.size(buffers)

    def _place(self, number: int) -> tuple[str, tuple[Item, ...]]:
        """Return the barrier's place on a channel, now or when the checkpoint ended, and the items before it."""
        path, found = self.log.path(self.wait_for.checkpoint_id, number), self.wait_for.place(number)
        if path.taken_ms is not None:
            return TAKEN, ()
        if self.wait_for.is_pending or found.item is not None:
            return found.place, found.before
        return NOT_SENT if path.queued_ms is not None else ENDED, ()

    @property
    def _until(self) -> int | None:
        """The time up to which an open wait is counted."""
        if self.known is None:
            return None
        return self.wait_for.evidence.at_ms if self.known.finished_ms is None else self.known.finished_ms

    def _repr_html_(self) -> str:
        if self.known is None:
            return view_html(TITLE, answer(self.answer()))
        number, pending = self.known.checkpoint_id, self.known.status == PENDING
        meaning = "waits" if self.wait_for.waits else "good" if self.known.status == COMPLETED or pending else "bad"
        parts = [answer(self.answer(), meaning)]
        if self.wait_for.waits:
            entries = [("waits", "waits for a barrier"), ("root", "the end of the waits")]
            blocked = [("line dashed", "blocked until the other barriers have arrived")] * bool(self.wait_for.held)
            parts += [graph_html(self.graph()), legend(entries + blocked)]
        if not self.wait_for.evidence.detailed:
            parts.append(words(UNTOLD))
        frame = self.to_pandas()
        about = f"{len(frame):,}, the longest wait first"
        parts.append(fold(f"Channels of checkpoint {number}", about, _table(frame), is_open=len(frame) <= MOST_ROWS))
        return view_html(f"{TITLE} of checkpoint {number}", *parts)

    def __repr__(self) -> str:
        return f"Barriers({self.caption})"


def barriers(run: Any, n: int | None = None, checkpoint: int | None = None) -> Barriers:
    """Return a checkpoint's barriers, by default the newest's, in a Lab, a SparkJob or a Trace after its first `n`
    records.

    Raises ValueError for a checkpoint that did not exist yet.
    """
    return draw_barriers(Subject(run, n, checkpoint))


def draw_barriers(subject: Subject) -> Barriers:
    """Draw the view of a run at a moment."""
    evidence = Evidence.of(subject)
    moment = evidence.moment
    number = subject.checkpoint if subject.checkpoint is not None else max(moment.checkpoints, default=None)
    known = None if number is None else moment.checkpoints.get(number)
    if known is None and subject.checkpoint is not None:
        known_ids = ", ".join(map(str, moment.checkpoints)) or "none"
        raise ValueError(
            f"there is no checkpoint {subject.checkpoint} after {moment.n} records; there are: {known_ids}"
        )
    stage, log = stage_for(subject.whole.stages, moment.epoch), BarrierLog(evidence.reading, evidence.n)
    return Barriers(stage, known, WaitFor(evidence, number or 0), log)


VIEW = View("barriers", TITLE, QUESTION, draw_barriers)


def _table(frame: pd.DataFrame) -> str:
    """Return the channels as a table: those still waited for first, then by waiting time."""
    frame = frame.assign(taken=frame.barrier.isin((TAKEN, ENDED))).sort_values(
        ["taken", "waited_ms"], ascending=[True, False], kind="stable"
    )
    rows, marks = [], []
    for row in frame.head(MOST_ROWS).itertuples(index=False):
        waited, blocked = (None if cell is pd.NA else int(cell) for cell in (row.waited_ms, row.blocked_ms))
        before = _counted(row.buffers_before, row.records_before, row.bytes_before)
        past = _counted(row.buffers_overtaken, row.records_overtaken, row.bytes_overtaken)
        rows.append([f"{row.source} → {row.target}", int(row.channel), row.barrier, before, waited, blocked, past])
        marks.append("" if row.taken else "waits")
    columns = ["channel", "number", "barrier", "buffers before it", "waited, ms", "blocked, ms", "buffers overtaken"]
    return rows_html(columns, rows, marks=marks, count=len(frame), all_in=".to_pandas()")


def _counted(buffers: Any, records: Any, size: Any) -> str:
    """Format buffers and their content; empty if unknown."""
    if buffers is pd.NA:
        return ""
    return f"{buffers} ({records} record{'' if records == 1 else 's'}, {size:,} B)" if buffers else "none"


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _verb(names: Sequence[Any], one: str, many: str) -> str:
    return one if len(names) == 1 else many

"""The work that a failure right now would undo: everything that the tasks have done since the last completed
checkpoint.

After a failure the job restores the last completed checkpoint; a pending one does not count. If the sources can be read
again, nothing is lost: the work is repeated from the positions in the checkpoint. A trace gives the number of records
that each task has taken since. Only a live lab can also list the state entries that would be rolled back.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import pandas as pd

from kit.core.html_tables import frame_html
from kit.core.markup import Markup
from kit.core.protocol.commands import GrantCredit, StartEpoch, StartTasks, WriteSnapshot
from kit.core.protocol.events import ElementReceived, SplitRead
from kit.core.trace.shape import EpochShape
from kit.core.trace.trace import TraceRecord
from kit.draw import shapes
from kit.draw.graphs import text_width
from kit.draw.panel import drawing_html, panel
from kit.draw.picture import Svg, light_svg
from kit.draw.views.checkpoints.state_html import split_name
from kit.draw.views.view import View
from kit.run.captions import listed
from kit.run.moments.job_state import COMPLETED, PENDING, task_of
from kit.run.sizes import counted
from kit.run.subject import Subject
from kit.snapshots import state_tables
from kit.snapshots.source import looking_at, snapshot_of
from kit.snapshots.state_tables import StateTables
from kit.snapshots.values import positions, values_of

STYLE = "at_risk.css"
WIDTH, LEFT, RIGHT, ROW, TOP = 840.0, 172.0, 470.0, 26.0, 40.0
MOST_ROWS = 24
MOST_WORKERS = 3
_ENDED = frozenset({"FINISHED", "FAILED", "CANCELED", "SUSPENDED"})


def at_risk(run: Any, *, n: int | None = None) -> AtRisk:
    """Return the work that a failure of a Lab, a SparkJob or a Trace would undo, now or after its first `n` records."""
    return at_risk_view(Subject(run, n))


def at_risk_view(subject: Subject) -> AtRisk:
    """The same for the explorer's tab."""
    ended = [each for each in subject.moment.checkpoints.values() if each.status == COMPLETED]
    done = [each.checkpoint_id for each in ended if not each.savepoint]  # no restart goes back to a savepoint
    pending = [each.checkpoint_id for each in subject.moment.checkpoints.values() if each.status == PENDING]
    checkpoint = max(done, default=None)
    restored = subject.moment.restores[-1].checkpoint_id if subject.moment.restores else None
    base = max((each for each in (checkpoint, restored) if each is not None), default=None)
    tasks = _since(subject, base)
    snapshot = None if base is None else snapshot_of(looking_at(subject, base))
    held = StateTables("", ()) if snapshot is None else values_of(snapshot)
    again = _read_again(subject, held)
    live = _live(subject)
    changed, unpublished = ({}, {}) if live is None else (_changed(held, live), _unpublished(live))
    for task, each in tasks.items():
        each.again = again.get(task, [])
        each.changed, each.unpublished = changed.get(task), unpublished.get(task)
    return AtRisk(base, tuple(pending), tasks, live is not None, subject.moment.job, subject.stage)


@dataclass(slots=True)
class Since:
    """The work of one task since its snapshot: records taken from its channels or read from its source, changed entries
    of keyed state, and unpublished rows of its sink. None if unknown.
    """

    taken: int | None = 0
    read: int | None = 0
    changed: int | None = None
    unpublished: int | None = None
    again: list[str] = field(default_factory=list)

    @property
    def records(self) -> int:
        """The number of records taken and read."""
        return (self.taken or 0) + (self.read or 0)


@dataclass(frozen=True, eq=False)
class AtRisk:
    """The work that would be undone; `checkpoint` is None if the job would restart from the beginning."""

    checkpoint: int | None
    pending: tuple[int, ...]
    tasks: Mapping[str, Since]
    knows_state: bool
    job: str
    shape: EpochShape

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per task: task, taken and read (records since the checkpoint), changed (entries of keyed
        state), unpublished (rows of a sink), all Int64, and again: the position from which its source is read again.
        """
        rows = [
            (task, each.taken, each.read, each.changed, each.unpublished, "; ".join(each.again))
            for task, each in self.tasks.items()
        ]
        frame = pd.DataFrame(rows, columns=["task", "taken", "read", "changed", "unpublished", "again"])
        return frame.astype(dict.fromkeys(("taken", "read", "changed", "unpublished"), "Int64"))

    @property
    def title(self) -> str:
        """The answer in a sentence."""
        if self.job in _ENDED:
            return f"The job is {self.job.lower()}: there is nothing left to lose"
        if not self.tasks:
            return "No task is running: there is nothing to lose"
        read = sum(each.read or 0 for each in self.tasks.values())
        what = f"{counted(read, 'record')} would be read again"
        if all(each.read is None for each in self.tasks.values()):
            what = "what was read since would be read again"
        if self.checkpoint is None:
            return f"If a worker died now, the job would restart from the beginning: no checkpoint is complete, {what}"
        return f"If a worker died now, the job would go back to checkpoint {self.checkpoint}: {what}"

    @property
    def under(self) -> str:
        """The line below the title."""
        sentences = ["Nothing is lost for good: the work since then is repeated, and none of it was published."]
        workers = _workers(self.tasks, self.shape)
        if self.shape.restarts_regions:
            sentences.append(f"The tasks on that worker restart, with those that exchanges connect to them: {workers}.")
        else:
            sentences.append(f"Whichever worker it is, all tasks restart: {workers}.")
        if self.pending:
            numbers = ", ".join(map(str, self.pending))
            sentences.append(f"Checkpoint {numbers} is not complete and would not count.")
        if not self.knows_state:
            sentences.append("Only a live lab can list the state entries that would be rolled back.")
        return " ".join(sentences)

    def svg(self) -> Svg:
        """The picture alone, in light colours."""
        return light_svg(WIDTH, *self._drawn(), self.title, STYLE)

    def _repr_html_(self) -> str:
        if not self.tasks or self.job in _ENDED:
            return panel(self.title)
        picture = drawing_html(WIDTH, *self._drawn(), self.title)
        table: str = frame_html(self.to_pandas().dropna(axis=1, how="all"), most=200)
        table = f"<details><summary>In numbers</summary>{table}</details>"
        return panel(self.title, picture, table, under=self.under, styles=(STYLE,))

    def _drawn(self) -> tuple[float, str]:
        """Draw a bar per task, whose length is the number of records since the checkpoint."""
        tasks = sorted(self.tasks.items(), key=lambda each: -each[1].records)
        shown = dict(tasks[:MOST_ROWS])
        order = [task for task in self.tasks if task in shown]
        most = max([1, *(each.records for each in shown.values())])
        since = "since the job began" if self.checkpoint is None else f"since its part of checkpoint {self.checkpoint}"
        parts = [shapes.text(16, 22, "ar-head", "task"), shapes.text(LEFT, 22, "ar-head", f"records {since}")]
        y = TOP
        for task in order:
            parts += _row(task, self.tasks[task], most, y)
            y += ROW
        if len(tasks) > MOST_ROWS:
            rest = sum(each.records for _, each in tasks[MOST_ROWS:])
            rest_words = f"and {len(tasks) - MOST_ROWS} tasks more, with {rest:,} records"
            parts.append(shapes.text(16, y + 14, "ar-note", rest_words))
            y += ROW
        return y + 10, "".join(parts)

    def __repr__(self) -> str:
        return f"AtRisk({self.title})"


def _workers(tasks: Iterable[str], shape: EpochShape) -> str:
    """Say which of these tasks run on which worker."""
    on: dict[int, list[str]] = defaultdict(list)
    for task in tasks:
        on[shape.slot_of(task)].append(task)
    named = [f"worker {worker} runs {listed(on[worker])}" for worker in sorted(on)]
    return ", ".join(named[:MOST_WORKERS]) + (f", and so on to worker {max(on)}" if len(named) > MOST_WORKERS else "")


def _row(task: str, since: Since, most: int, y: float) -> Iterator[Markup]:
    count, look = (since.read, "read") if since.read else (since.taken or 0, "taken")
    width = (RIGHT - LEFT) * count / most
    words = f"{count:,} {look}" if count else "not in this trace" if since.taken is None else "none"
    parts = [shapes.text(16, y + 14, "ar-name", task if len(task) < 24 else task[:10] + "…" + task[-11:])]
    if count:
        parts.append(shapes.rect(f"ar-bar ar-{look}", LEFT, y + 2, max(width, 2), 17, rx=2))
    inside = width > text_width(words, 11) + 12
    where, written = (LEFT + 6, "ar-in") if inside else (LEFT + width + 6, "ar-note")
    yield shapes.group(f"{task}: {words}", *parts, shapes.text(where, y + 15, written, words))
    besides = []
    if since.changed:
        besides.append(f"{since.changed:,} entr{'y' if since.changed == 1 else 'ies'} of state changed")
    if since.unpublished:
        besides.append(f"{counted(since.unpublished, 'row')} not published")
    besides += since.again[:1]
    if besides:
        text = "; ".join(besides)
        cut = text
        while text_width(cut, 11) > WIDTH - RIGHT - 40 and len(cut) > 4:
            cut = cut[:-2]
        yield shapes.group(text, shapes.text(RIGHT + 30, y + 15, "ar-note", cut if cut == text else f"{cut}…"))


# --- what has happened since ------------------------------------------------------------------------------------------


def _since(subject: Subject, checkpoint: int | None) -> dict[str, Since]:
    """Count the work of each task of the present epoch, from the task's cut or from the beginning of the epoch.

    A task returns a credit for each buffer that it takes, in the order of arrival. So a detailed trace shows for each
    record whether it was taken.
    """
    found = {task: Since() for task, each in subject.moment.tasks.items() if each.state != "CREATED"}
    if not subject.whole.trace.detailed:
        for each in found.values():
            each.taken = each.read = None
    waiting: dict[int, deque[int]] = defaultdict(deque)
    own = _of_epoch(subject)
    is_here = any(record.is_a(WriteSnapshot) and record.checkpoint_id == checkpoint for record in own)
    behind = set() if is_here else set(found)
    for record in own:
        task = task_of(record)
        if record.is_a(StartTasks):
            _begin_again(found, behind, waiting, subject, record.data["attempts"])
        if task not in found:
            continue
        if record.is_a(WriteSnapshot) and record.checkpoint_id == checkpoint:
            behind.add(task)
        elif record.is_a(ElementReceived):
            element = record.data["element"]
            if element["type"] == "Buffer":
                waiting[record.data["channel"]].append(element["batch"]["rows"])
            elif element["type"] == "RecordFragment":  # the last fragment completes a record
                waiting[record.data["channel"]].append(int(element["last"]))
        elif record.is_a(GrantCredit) and record.role == "command" and waiting[record.data["channel"]]:
            rows = waiting[record.data["channel"]].popleft()
            if task in behind:
                found[task].taken = (found[task].taken or 0) + rows
        elif record.is_a(SplitRead) and record.role == "event" and task in behind:
            found[task].read = (found[task].read or 0) + (record.data.get("batch") or {}).get("rows", 0)
    return found


def _begin_again(
    found: dict[str, Since],
    behind: set[str],
    waiting: dict[int, deque[int]],
    subject: Subject,
    restarted: Mapping[str, int],
) -> None:
    """Restart the count of tasks that restored the checkpoint with their region."""
    for task in found.keys() & restarted.keys():
        detailed = subject.whole.trace.detailed
        found[task] = Since() if detailed else Since(taken=None, read=None)
        behind.add(task)
    for number, (_, receiver) in subject.stage.ends().items():
        if receiver in restarted:
            waiting.pop(number, None)


def _of_epoch(subject: Subject) -> list[TraceRecord]:
    """Return the records since the present epoch was deployed."""
    trace, epoch = subject.trace, subject.moment.epoch
    for position, record in enumerate(trace):
        if record.is_a(StartEpoch) and record.data["epoch"] == epoch:
            return list(trace.since(position))
    return list(trace)


def _read_again(subject: Subject, held: StateTables) -> dict[str, list[str]]:
    """Return the positions from which each source's splits would be read."""
    found: dict[str, list[str]] = {}
    names = {operator.name: operator.vertex for operator in subject.stage.operators}
    for task, split, position in positions(held):
        operator, _, number = task.rpartition("/")
        vertex = names.get(operator, operator)
        found.setdefault(f"{vertex}/{number}", []).append(f"{split_name(split)} from position {position:,}")
    return found


def _live(subject: Subject) -> StateTables | None:
    """Return the state of the tasks of a live lab, or None."""
    ask = getattr(subject.thing, "state", None)  # a job on Spark has none: its state is in its workers
    return ask() if callable(ask) and subject.is_present else None


def _changed(held: StateTables, live: StateTables) -> dict[str, int]:
    """Return by task the number of entries of keyed state that differ from those in the checkpoint."""
    before = _entries(held)
    now = _entries(live)
    present = (task for key, (task, value) in now.items() if before.get(key, (task, None))[1] != value)
    gone = (task for key, (task, _) in before.items() if key not in now)
    return Counter(chain(present, gone))


def _entries(tables: StateTables) -> dict[tuple[str, str], tuple[str, Any]]:
    """Return the task and value of each entry, by state and key."""
    found = {}
    for table in tables.of(state_tables.KEYED):
        for row in table.rows.to_pylist():
            name = f"{table.operator}.{table.name}"
            found[name, repr((row["key"], row.get("namespace")))] = (row["task"], repr(row["value"]))
    return found


def _unpublished(live: StateTables) -> dict[str, int]:
    found: Counter[str] = Counter()
    for table in live.of(state_tables.STAGED):
        for row in table.rows.to_pylist():
            found[row["task"]] += row["rows"] or 0
    return found


VIEW = View("at-risk", "At risk", "What would be lost if a worker died now?", at_risk_view)

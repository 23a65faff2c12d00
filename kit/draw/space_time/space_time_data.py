"""A whole run's space-time diagram as columns of numbers, of which `space_time.js` draws the visible part.

The time of everything is `n`, the number of its record; `clock` gives the host's time of each record. The tables
`elements` and `letters` are `{"from": k, "columns": {...}}`: their rows from the k-th on. An update about a running job
contains only rows that are new or may have changed: elements in flight and pending checkpoints. -1 marks what has not
happened. Tasks and kinds are numbered.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from kit.core.protocol.tasks import vertex_of
from kit.run.checkpoint_path import LOOKS, PHASE_WORDS, Path, Span
from kit.run.checkpoint_words import Crossed, how_it_went, slow_phases, spans_of_task, what_crossed
from kit.run.element_kinds import ELEMENTS as ELEMENT_KINDS
from kit.run.element_kinds import SIGNS
from kit.run.journeys import Crossing, Cut, Follower, Instant, Journey, Journeys, Letter
from kit.run.moments.job_state import PENDING, CheckpointMoment
from kit.run.run import Run, run_of
from kit.run.stage import Stage
from kit.why.phases import Waiting

T = TypeVar("T", Journey, Letter)

NEVER = -1
KINDS = tuple(SIGNS)
ELEMENTS = (
    "epoch",
    "channel",
    "kind",
    "rows",
    "checkpoint",
    "source",
    "target",
    "made",
    "sent",
    "received",
    "over",
    "lost",
)
"""`over` is the time at which it was taken, or lost if `lost` is 1."""
LETTERS = ("id", "mail", "task", "out", "checkpoint", "sent", "over", "lost")
"""`out` is 1 for a message to a task, 0 for one to the JobMaster."""
WORDS: Mapping[str, Mapping[str, str]] = {
    "crossings": {crossing.name: crossing.value for crossing in Crossing},
    "phases": PHASE_WORDS,
    "kinds": {kind.name: kind.caption for kind in ELEMENT_KINDS.values()},
}


def space_time_data(run: Any) -> dict[str, Any]:
    """Return the data of the space-time diagram of a Lab, a SparkJob or a Trace, JSON-like."""
    return SpaceTimeFeed(run).changes()


class SpaceTimeFeed:
    """The data of a running job. `changes()` returns what is new since its last call, and everything at first."""

    def __init__(self, run: Any) -> None:
        self._run = run
        self._follower = Follower()
        self._edition = 0
        self._begin()

    def _begin(self) -> None:
        self._told = 0
        self._first_open = {"elements": 0, "letters": 0}
        self._settled: set[int] = set()
        """Checkpoints of which nothing will change any more, and that were told of."""
        self._tasks: dict[str, int] = {}

    @property
    def is_stale(self) -> bool:
        """Return True if the run has changed since: it is longer, or went back and took another way."""
        trace, last = run_of(self._run).trace, self._follower.found.last
        return len(trace) != last.n or (trace.detailed and len(trace) > 0 and trace[-1] != last.record)

    def changes(self) -> dict[str, Any]:
        """Return what is new, in the form of `space_time_data`. A new `edition` replaces all earlier data."""
        run = run_of(self._run)
        found = self._follower.follow(run)
        if self._edition != self._follower.edition:
            self._edition = self._follower.edition
            self._begin()
        stages = sorted(run.known, key=lambda stage: stage.epoch)
        self._number_tasks(stages, found)
        elements = self._table("elements", found.elements, ELEMENTS, self._element)
        told, self._told = self._told, len(found.times)
        return {
            "edition": self._edition,
            "n": found.last.n,
            "clock": {"from": told, "runs": _runs(found.times, told, found.last.began_ms)},
            "tasks": list(self._tasks),
            "groups": self._groups(stages),
            "epochs": self._epochs(stages, found),
            "kinds": KINDS,
            "phases": LOOKS,
            "elements": elements,
            "letters": self._table("letters", found.letters, LETTERS, self._letter),
            "checkpoints": list(self._checkpoints(run, found)),
            "marks": [{"kind": each.kind, "text": each.text, "n": each.at.n} for each in found.marks],
            "words": WORDS,
            "losses": [[self._tasks[task], at.n] for task, at in found.losses if task in self._tasks],
        }

    # --- who ------------------------------------------------------------------------------------------------------

    def _number_tasks(self, stages: Sequence[Stage], found: Journeys) -> None:
        """Number the tasks; they keep their numbers when a later epoch adds some."""
        for task in chain(*(stage.tasks() for stage in stages), found.last.tasks):
            self._tasks.setdefault(task, len(self._tasks))

    def _groups(self, stages: Sequence[Stage]) -> list[dict[str, Any]]:
        """Return the vertices from top to bottom, each with all the subtasks that it ever had."""
        titles = {vertex.name: " → ".join(vertex.operators) for stage in stages for vertex in stage.vertices}
        newest = [vertex.name for stage in stages[-1:] for vertex in stage.vertices]
        by_vertex: dict[str, list[int]] = {name: [] for name in newest}
        for task, number in self._tasks.items():
            by_vertex.setdefault(vertex_of(task), []).append(number)
        return [
            {"name": name, "title": titles.get(name) or name, "tasks": numbers} for name, numbers in by_vertex.items()
        ]

    def _epochs(self, stages: Sequence[Stage], found: Journeys) -> list[dict[str, Any]]:
        """Return each epoch's time of deployment, its tasks, and the checkpoint that it restored."""
        restored = {each.epoch: each.checkpoint_id for each in found.last.restores if not each.tasks}
        known = {stage.epoch: stage for stage in stages}
        return [
            {
                "epoch": epoch,
                "since": at.n,
                "restored": restored.get(epoch, NEVER),
                "tasks": [self._tasks[task] for task in (known[epoch].tasks() if epoch in known else self._tasks)],
            }
            for epoch, at in found.epochs.items()
        ]

    # --- what travelled -------------------------------------------------------------------------------------------

    def _table(
        self, name: str, things: Sequence[T], columns: Sequence[str], row: Callable[[T], tuple[Any, ...]]
    ) -> dict[str, Any]:
        """Return the rows that are new or may have changed."""
        begin = self._first_open[name]
        there = things[begin:]
        still_open = (number for number, each in enumerate(there, begin) if each.over is None)
        self._first_open[name] = next(still_open, len(things))
        rows = list(map(row, there))
        values = zip(*rows, strict=True) if rows else ((),) * len(columns)
        return {"from": begin, "columns": {column: list(each) for column, each in zip(columns, values, strict=True)}}

    def _element(self, each: Journey) -> tuple[Any, ...]:
        return (
            each.epoch,
            each.channel,
            KINDS.index(each.kind),
            each.rows,
            NEVER if each.checkpoint_id is None else each.checkpoint_id,
            self._tasks.get(each.sender, NEVER),
            self._tasks.get(each.receiver, NEVER),
            _n(each.made),
            _n(each.sent),
            _n(each.received),
            _n(each.over),
            int(each.taken is None and each.lost is not None),
        )

    def _letter(self, each: Letter) -> tuple[Any, ...]:
        number = NEVER if each.checkpoint_id is None else each.checkpoint_id
        ends = _n(each.sent), _n(each.over), int(each.lost is not None)
        return each.id, each.mail, self._tasks.get(each.task, NEVER), int(each.to_task), number, *ends

    # --- checkpoints ----------------------------------------------------------------------------------------------

    def _checkpoints(self, run: Run, found: Journeys) -> Iterator[dict[str, Any]]:
        """Return the checkpoints that are new or may have changed."""
        unsettled = {number: each for number, each in found.last.checkpoints.items() if number not in self._settled}
        crossed = _crossed(found, [number for number in unsettled if number in found.cuts])
        for number, known in unsettled.items():
            life, cut = found.lives.get(number), found.cuts.get(number)
            if life is None:
                continue
            epoch = found.epoch_at(life.triggered)
            counted = crossed.get(number, Crossed())
            instants = {} if cut is None else cut.instants
            yield {
                "id": number,
                "epoch": epoch,
                "status": known.status,
                "savepoint": known.savepoint,
                "triggered": life.triggered.n,
                "finished": _n(life.finished),
                "said": what_crossed(known, counted, instants, run.trace.detailed),
                "went": how_it_went(found, known),
                "crossed": counted,
                "cut": [[self._tasks[task], at.n] for task, at in instants.items() if task in self._tasks],
                "phases": list(self._phases(found, known, Waiting(found, known))),
            }
            if _is_settled(found, known, epoch):
                self._settled.add(number)

    def _phases(self, found: Journeys, known: CheckpointMoment, waiting: Waiting) -> Iterator[tuple[Any, ...]]:
        """Yield task, phase, since, until, since_ms, until_ms, open, usual_ms (-1 except for outliers) and waits (the
        text about an open phase).
        """
        spans = {task: spans_of_task(found, known, task) for task in known.expected if task in self._tasks}
        usual = {each: usual_ms for each, (_, usual_ms) in slow_phases(found, known).items()}
        began, life = found.last.began_ms, found.lives[known.checkpoint_id]
        end_n = found.last.n if life.finished is None else life.finished.n
        for task, of_task in spans.items():
            path = found.paths.get((known.checkpoint_id, task), Path())
            at_n = life.triggered.n
            for span in of_task:
                since, at_n = at_n, max(at_n, end_n if span.open else _end_of(span, path, at_n, found.times))
                waits = waiting.of(task) if span.open and path.declined_ms is None else ""
                yield (
                    self._tasks[task],
                    LOOKS.index(span.look),
                    since,
                    at_n,
                    span.start_ms - began,
                    span.end_ms - began,
                    int(span.open),
                    usual.get((task, span.phase), NEVER),
                    waits,
                )


def _n(at: Instant | None) -> int:
    return NEVER if at is None else at.n


def _runs(times: Sequence[int], begin: int, began_ms: int) -> list[int]:
    """Return the times from `begin` on as pairs: a number of records, and their time in ms since the run began."""
    runs: list[int] = []
    for at_ms in times[begin:]:
        at_ms -= began_ms
        if runs and runs[-1] == at_ms:
            runs[-2] += 1
        else:
            runs += [1, at_ms]
    return runs


def _end_of(span: Span, path: Path, begin: int, times: Sequence[int]) -> int:
    """Return the record at which a phase ended. The duration of a copy is only reported later."""
    end, _ = path.instants[span.phase]
    if span.phase == "sync":
        return begin if span.end_ms == span.start_ms else bisect_left(times, span.end_ms, min(begin, end), end) + 1
    return end


def _is_settled(found: Journeys, known: CheckpointMoment, epoch: int) -> bool:
    """Return True if nothing about the checkpoint can change any more."""
    if known.status == PENDING:
        return False
    paths = (found.paths.get((known.checkpoint_id, task)) for task in known.expected)
    return epoch < found.last.epoch or all(path is not None and "ack" in path.ends for path in paths)


def _crossed(found: Journeys, numbers: Sequence[int]) -> dict[int, Crossed]:
    """Return what crosses the cuts of these checkpoints, counted for all elements at once."""
    if not numbers:
        return {}
    tasks: dict[str, int] = {}
    since = min(min(found.cuts[number].instants.values()).n for number in numbers)
    rows = [
        (
            tasks.setdefault(each.sender, len(tasks)),
            tasks.setdefault(each.receiver, len(tasks)),
            each.epoch,
            each.rows,
            _n(each.made),
            np.iinfo(np.int64).max if each.taken is None else each.taken.n,
        )
        for each in found.elements
        if each.kind == "buffer" and (each.over is None or each.over.n >= since)
    ]
    table = np.array(rows, dtype=np.int64).reshape(-1, 6).T
    return {number: _crossed_one(found.cuts[number], tasks, table) for number in numbers}


def _crossed_one(cut: Cut, tasks: Mapping[str, int], table: np.ndarray[Any, np.dtype[np.int64]]) -> Crossed:
    sender, receiver, epoch, rows, made, taken = table
    at = np.full(max(1, len(tasks)), NEVER, dtype=np.int64)
    for task, instant in cut.instants.items():
        if task in tasks:
            at[tasks[task]] = instant.n
    there = (epoch == cut.epoch) & (at[sender] != NEVER) & (at[receiver] != NEVER)
    before, taken_before = made < at[sender], taken < at[receiver]
    in_flight, against = there & before & ~taken_before, there & ~before & taken_before
    return Crossed(int(in_flight.sum()), int(rows[in_flight].sum()), int(against.sum()), int(rows[against].sum()))

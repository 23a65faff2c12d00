"""The document of a run's space-time diagram: everything that it can show, from which the picture and the page draw.

The time of everything is `n`, the number of its record; `clock` gives the host's time of each record. The lanes are the
JobMaster's and one per task, numbered. `table` has the looks (`space_time_looks.py`); looks are numbered in its order.

- `elements` and `letters` are arrows, `{"from": k, "columns": {...}}`: their rows from the k-th on, with the columns
  `Arrow`. `phrases` are their words.
- `marks` are the run's, each a row of `Mark`; a checkpoint has its own.
- `cut` of a checkpoint are the lanes and times at which its tasks copied their state, and `sides` say which buffers of
  each channel are on which side of it (`space_time_sides.py`).

An update about a running job contains only rows that are new or may have changed: elements in flight and pending
checkpoints. -1 marks what has not happened. All words of the diagram are here, except its controls.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from kit.core.protocol.tasks import vertex_of
from kit.draw.space_time.space_time_looks import NAMES, TABLE, phase_look
from kit.draw.space_time.space_time_sides import NEVER, CutSides, Sides
from kit.run.checkpoint_path import Path, Span
from kit.run.checkpoint_words import how_it_went, slow_phases, spans_of_task, what_crossed
from kit.run.durations import duration
from kit.run.element_kinds import ELEMENTS as ELEMENT_KINDS
from kit.run.journeys import Follower, Instant, Journey, Journeys, Letter, Life
from kit.run.moments.job_state import ABORTED, COMPLETED, PENDING, CheckpointMoment
from kit.run.run import Run, run_of
from kit.run.stage import Stage
from kit.why.phases import Waiting, waits_for

T = TypeVar("T", Journey, Letter)

JOB_MASTER = "JobMaster"
"""The name of lane 0."""


class Arrow(NamedTuple):
    """A row of an element or a message: its look, its words, its lanes, and the records of its way.

    `over` is the record at which it was taken, or lost if `lost` is 1. `pick` is the channel, or the id of the message.
    """

    look: int
    phrase: int
    source: int
    target: int
    start: int
    sent: int
    received: int
    over: int
    lost: int
    checkpoint: int
    epoch: int
    pick: int | str


class Mark(NamedTuple):
    """A mark on a lane, at a moment or from one to another, as records and as ms since the run began: a phase may end
    between two records. `words` are drawn, `note` is a part of the hint.
    """

    look: int
    lane: int
    since: int
    until: int
    since_ms: int
    until_ms: int
    words: str
    note: str


SIGNS = {COMPLETED: "✓", ABORTED: "✗"}
_CAPTIONS = {kind.name: kind.caption for kind in ELEMENT_KINDS.values()}


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
        self._sent = 0
        self._phrases: dict[str, int] = {}
        self._first_open = {"elements": 0, "letters": 0}
        self._settled: set[int] = set()
        """Checkpoints that were sent and will not change any more."""
        self._lanes: dict[str, int] = {JOB_MASTER: 0}
        self._sides = Sides()

    @property
    def found(self) -> Journeys:
        """Everything that has travelled, as of the last changes."""
        return self._follower.found

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
        self._number_lanes(stages, found)
        elements = self._arrows("elements", map(self._element, self._fresh("elements", found.elements)))
        letters = self._arrows("letters", map(self._letter, self._fresh("letters", found.letters)))
        sent, self._sent = self._sent, len(found.times)
        return {
            "edition": self._edition,
            "n": found.last.n,
            "clock": {"from": sent, "runs": _runs(found.times, sent, found.last.began_ms)},
            "lanes": list(self._lanes),
            "groups": self._groups(stages),
            "epochs": self._epochs(stages, found),
            "elements": elements,
            "letters": letters,
            "phrases": list(self._phrases),
            "checkpoints": list(self._checkpoints(run, found)),
            "marks": list(self._marks(found)),
            **({} if sent else {"table": {**TABLE, "mark": Mark._fields}}),
        }

    # --- who ------------------------------------------------------------------------------------------------------

    def _number_lanes(self, stages: Sequence[Stage], found: Journeys) -> None:
        """Number the lanes; they keep their numbers when a later epoch adds some."""
        for task in chain(*(stage.tasks() for stage in stages), found.last.tasks):
            self._lanes.setdefault(task, len(self._lanes))

    def _groups(self, stages: Sequence[Stage]) -> list[dict[str, Any]]:
        """Return the vertices from top to bottom, each with all the subtasks that it ever had."""
        titles = {vertex.name: " → ".join(vertex.operators) for stage in stages for vertex in stage.vertices}
        newest = [vertex.name for stage in stages[-1:] for vertex in stage.vertices]
        by_vertex: dict[str, list[int]] = {name: [] for name in newest}
        for task, lane in [*self._lanes.items()][1:]:
            by_vertex.setdefault(vertex_of(task), []).append(lane)
        return [{"name": name, "title": titles.get(name) or name, "lanes": lanes} for name, lanes in by_vertex.items()]

    def _epochs(self, stages: Sequence[Stage], found: Journeys) -> list[dict[str, Any]]:
        """Return the time at which each epoch was deployed, and its lanes."""
        known = {stage.epoch: stage for stage in stages}
        every = [*self._lanes][1:]
        return [
            {
                "epoch": epoch,
                "since": at.n,
                "lanes": [self._lanes[task] for task in (known[epoch].tasks() if epoch in known else every)],
            }
            for epoch, at in found.epochs.items()
        ]

    # --- what travelled -------------------------------------------------------------------------------------------

    def _fresh(self, name: str, things: Sequence[T]) -> Sequence[T]:
        """Return the things that are new or may have changed."""
        return things[self._first_open[name] :]

    def _arrows(self, name: str, rows: Iterable[Arrow]) -> dict[str, Any]:
        """Return the columns of these rows, which are all from the first one on that was not over before."""
        begin, new_rows = self._first_open[name], list(rows)
        still_open = (number for number, row in enumerate(new_rows, begin) if row.over == NEVER)
        self._first_open[name] = next(still_open, begin + len(new_rows))
        values = zip(*new_rows, strict=True) if new_rows else ((),) * len(Arrow._fields)
        return {"from": begin, "columns": dict(zip(Arrow._fields, map(list, values), strict=True))}

    def _element(self, each: Journey) -> Arrow:
        look = "barrier" if each.kind == "barrier" else "records" if each.kind == "buffer" else "sign"
        rows = f"{each.rows} {'record' if each.rows == 1 else 'records'}"
        caption = "buffer with {rows}" if each.kind == "buffer" else _CAPTIONS[each.kind]
        return Arrow(
            look=NAMES.index(look),
            phrase=self._phrase(caption.format(rows=rows, cp=each.checkpoint_id)),
            source=self._lanes.get(each.sender, NEVER),
            target=self._lanes.get(each.receiver, NEVER),
            start=_n(each.queued),
            sent=_n(each.sent),
            received=_n(each.received),
            over=_n(each.over),
            lost=int(each.taken is None and each.lost is not None),
            checkpoint=NEVER if each.checkpoint_id is None else each.checkpoint_id,
            epoch=each.epoch,
            pick=each.channel,
        )

    def _letter(self, each: Letter) -> Arrow:
        about = "" if each.checkpoint_id is None else f" {each.checkpoint_id}"
        task = self._lanes.get(each.task, NEVER)
        return Arrow(
            look=NAMES.index("letter"),
            phrase=self._phrase(f"“{each.mail}{about}”"),
            source=0 if each.to_task else task,
            target=task if each.to_task else 0,
            start=each.sent.n,
            sent=each.sent.n,
            received=_n(each.received),
            over=_n(each.over),
            lost=int(each.lost is not None),
            checkpoint=NEVER if each.checkpoint_id is None else each.checkpoint_id,
            epoch=NEVER,
            pick=each.id,
        )

    def _phrase(self, words: str) -> int:
        return self._phrases.setdefault(words, len(self._phrases))

    # --- incidents ------------------------------------------------------------------------------------------------

    def _marks(self, found: Journeys) -> Iterator[Mark]:
        """Return the marks that belong to no checkpoint: later epochs, losses, failures, restores and faults."""
        restored = {each.epoch: each.checkpoint_id for each in found.last.restores if not each.tasks}
        for epoch, at in [*found.epochs.items()][1:]:
            back = f", from checkpoint {restored[epoch]}" if epoch in restored else ""
            yield _mark("epoch", 0, at, found, words=f"epoch {epoch}{back}")
        for task, at in found.losses:
            if task in self._lanes:
                yield _mark("lost", self._lanes[task], at, found, words="✗ lost")
        for each in found.marks:
            yield _mark(each.kind, 0, each.at, found, words=each.text)

    # --- checkpoints ----------------------------------------------------------------------------------------------

    def _checkpoints(self, run: Run, found: Journeys) -> Iterator[dict[str, Any]]:
        """Return the checkpoints that are new or may have changed."""
        unsettled = {number: each for number, each in found.last.checkpoints.items() if number not in self._settled}
        self._sides.follow(found)
        for number, known in unsettled.items():
            life, cut = found.lives.get(number), found.cuts.get(number)
            if life is None:
                continue
            epoch = found.epoch_at(life.triggered)
            sides = CutSides() if cut is None else self._sides.of(number, cut)
            instants = {} if cut is None else cut.instants
            cut_of_lanes = {task: at for task, at in instants.items() if task in self._lanes}
            sign = SIGNS.get(known.status, "…")
            yield {
                "id": number,
                "label": f"{'savepoint' if known.savepoint else 'checkpoint'} {number} {sign}",
                "epoch": epoch,
                "status": known.status,
                "triggered": life.triggered.n,
                "finished": _n(life.finished),
                "said": what_crossed(known, sides.crossed, instants, run.trace.detailed),
                "went": how_it_went(found, known),
                "crossed": sides.crossed,
                "sides": dict(sides.sides) if run.trace.detailed else {},
                "cut": [(self._lanes[task], at.n) for task, at in cut_of_lanes.items()],
                "marks": [
                    *self._life(found, known, life),
                    *(_mark("copy", self._lanes[task], at, found) for task, at in cut_of_lanes.items()),
                    *self._phases(found, known, Waiting(found, known)),
                ],
            }
            if _is_settled(found, known, epoch):
                self._settled.add(number)

    def _life(self, found: Journeys, known: CheckpointMoment, life: Life) -> Iterator[Mark]:
        """Return a checkpoint's marks on the JobMaster's line. Its trigger's timestamp precedes its first record."""
        number, done = known.checkpoint_id, known.status == COMPLETED
        began = Instant(life.triggered.n, known.triggered_ms)
        yield _mark("life", 0, began, found, life.finished)
        yield _mark("flag", 0, began, found, words=str(number))
        if life.finished is not None:
            words = f"{SIGNS[known.status]} {number}{'' if done else ' aborted'}"
            yield _mark("done" if done else "failed", 0, life.finished, found, words=words)

    def _phases(self, found: Journeys, known: CheckpointMoment, waiting: Waiting) -> Iterator[Mark]:
        """Return the bars of each task's phases, with what an unfinished one waits for, and which were slow."""
        spans = {task: spans_of_task(found, known, task) for task in known.expected if task in self._lanes}
        usual = {each: usual_ms for each, (_, usual_ms) in slow_phases(found, known).items()}
        life = found.lives[known.checkpoint_id]
        end_n = found.last.n if life.finished is None else life.finished.n
        for task, of_task in spans.items():
            path = found.paths.get((known.checkpoint_id, task), Path())
            at_n = life.triggered.n
            for span in of_task:
                since, at_n = at_n, max(at_n, end_n if span.open else _end_of(span, path, at_n, found.times))
                place = (self._lanes[task], Instant(since, span.start_ms), found, Instant(at_n, span.end_ms))
                if span.open:
                    what = waiting.of(task) if path.declined_ms is None else ""
                    waits = waits_for(known, what) if what else ""
                    note = f", not finished{f'. It {waits}' if waits else ''}"
                    yield _mark(phase_look(span.look, is_open=True), *place, waits, note)
                    continue
                yield _mark(phase_look(span.look), *place)
                if (task, span.phase) in usual:
                    took, others = duration(span.end_ms - span.start_ms), duration(usual[task, span.phase])
                    note = f"{span.words}: {took}. The others of its operator: {others}"
                    yield _mark("slow", *place, f"{took}, the others {others}", note)


def _mark(
    look: str, lane: int, since: Instant, found: Journeys, until: Instant | None = None, words: str = "", note: str = ""
) -> Mark:
    began = found.last.began_ms
    ends = (NEVER, NEVER) if until is None else (until.n, until.at_ms - began)
    return Mark(NAMES.index(look), lane, since.n, ends[0], since.at_ms - began, ends[1], words, note)


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

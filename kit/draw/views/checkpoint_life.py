"""The life of a checkpoint: its finished and open steps, its clocks, and the requests behind it.

Each step is a bar from its request to its answer. The checkpoint waits for the open steps, which have no answer yet.
Below are the machines with their present states (`kit.draw.views.state_machines`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from kit.core.html_tables import rows_html
from kit.core.protocol.tasks import vertex_of
from kit.draw.charts.timeline import BAD, DONE, GONE, LEFT, OPEN, STYLE, Bar, Row, timeline
from kit.draw.graphviz_objects import Dot
from kit.draw.picture import Svg
from kit.draw.view_html import answer, fold, view_html, words
from kit.draw.views.state_machines import StateMachines, machines_of, stage_of
from kit.draw.views.view import View
from kit.run.captions import listed
from kit.run.checkpoint_log import (
    ACK,
    COORDINATOR,
    HOOK,
    ID,
    LOCATION,
    METADATA,
    NOTIFY,
    STORE,
    CheckpointLife,
    CheckpointLog,
    Step,
)
from kit.run.durations import duration
from kit.run.stage import Stage
from kit.run.subject import Subject
from kit.snapshots.source import operator_names
from kit.why.acknowledgement import outline
from kit.why.evidence import Evidence
from kit.why.pending import waits_for
from kit.why.requests import why_queued
from kit.why.waits import missing

TITLE = "Life of a checkpoint"
QUESTION = "What has the checkpoint been through, what does it wait for, and how long may it?"
MOST_ROWS, MOST_ALIKE = 60, 6
_STEP_WORDS = {
    ID: "its number",
    LOCATION: "its directory",
    METADATA: "_metadata is written",
    STORE: "it is stored",
}


@dataclass(frozen=True)
class LifeOfCheckpoint:
    """One checkpoint at one moment. `svg` and `dot` return its state machine; `machines` has the others as well."""

    stage: Stage
    log: CheckpointLog
    life: CheckpointLife | None
    machines: StateMachines
    names: dict[str, str]
    evidence: Evidence

    @property
    def now_ms(self) -> int:
        """The host's time."""
        return self.evidence.at_ms

    @property
    def caption(self) -> str:
        """A one-line summary of its progress."""
        if self.life is None:
            return "no checkpoint"
        state = "" if self.life.state is None else self.life.state.value
        return f"checkpoint {self.life.checkpoint_id}: {state}"

    # --- the answer -----------------------------------------------------------------------------------------------

    def answer(self) -> str:
        """Say why the checkpoint is still pending, or how it ended."""
        life = self.life
        if life is None:
            return " ".join(["No checkpoint has a number yet.", *self._next()])
        number, begun = life.checkpoint_id, self._begun_ms
        if life.ended:
            took = (life.ended_ms or begun) - begun
            how = life.ended if life.ended == "completed" else f"aborted: {life.ended.replace('_', ' ').lower()}"
            return " ".join([f"Checkpoint {number} was {how} after {duration(took)}.", *self._late(), *self._next()])
        if life.state is None:
            return " ".join([f"Checkpoint {number} got its number, and was never triggered.", *self._next()])
        since, what = duration(self.now_ms - begun), waits_for(self.evidence, life, self.names)
        waits = f"Checkpoint {number} has been pending for {since} and waits {what}."
        expires = self.log.expires_ms(number)
        return waits if expires is None else f"{waits} It expires in {duration(expires - self.now_ms)}."

    @property
    def _begun_ms(self) -> int:
        life = self.life
        return 0 if life is None else life.begun_ms if life.begun_ms is not None else life.states[0][1]

    def _late(self) -> list[str]:
        """Return the acknowledgements that were missing when it was aborted."""
        life = self.life
        late = [] if life is None or life.ended == "completed" else [step.of for step in life.open(ACK)]
        if not late or life is None:
            return []
        return [f"{len(late)} of {len(life.of_kind(ACK))} acknowledgements had not come: {listed(late)}."]

    def _next(self) -> list[str]:
        """Return what is known about the next checkpoint."""
        if waiting := len(self.log.queue):
            many = "1 request waits" if waiting == 1 else f"{waiting} requests wait"
            return [f"{many}: {self._why_queued()}."]
        due = self.log.next_periodic_ms
        if due is None or self.log.moment.job != "RUNNING":
            return []
        return [f"The next periodic one is due in {duration(max(0, due - self.now_ms))}."]

    def _missing(self, task: str) -> str:
        """Say why a task's acknowledgement is missing."""
        assert self.life is not None
        return outline(self.evidence, missing(self.evidence, task, self.life.checkpoint_id)).in_short

    # --- what it went through -------------------------------------------------------------------------------------

    @property
    def _until_ms(self) -> int:
        life = self.life
        if life is None:
            return self.now_ms
        ends = [step.end_ms for step in life.steps if step.end_ms is not None]
        return max([life.ended_ms, *ends]) if life.ended_ms is not None else self.now_ms

    def rows(self) -> list[Row]:
        """Return the rows of steps."""
        life = self.life
        if life is None:
            return []
        found = []
        if life.asked_ms is not None and life.begun_ms is not None and life.begun_ms > life.asked_ms:
            took = life.begun_ms - life.asked_ms
            found.append(Row(f"{life.request} queued", (Bar(life.asked_ms, life.begun_ms),), duration(took)))
        found += [self._row(_STEP_WORDS[kind], step) for kind in (ID, LOCATION) for step in life.of_kind(kind)]
        for kind, word in ((COORDINATOR, "coordinator"), (HOOK, "hook")):
            found += self._alike(life.of_kind(kind), word)
        found += self._ack_rows()
        found += [self._row(_STEP_WORDS[kind], step) for kind in (METADATA, STORE) for step in life.of_kind(kind)]
        if notifications := life.of_kind(NOTIFY):
            bar, heard = self._together(notifications)
            found.append(Row("tasks notified", (bar,), f"{len(heard)} of {len(notifications)} notified"))
        return found

    def _row(self, name: str, step: Step) -> Row:
        bar, done = self._together([step])
        took = duration(bar.end_ms - step.start_ms) + ("" if done else ", not answered")
        return Row(name, (replace(bar, meaning=BAD) if step.error else bar,), step.error or took)

    def _together(self, steps: list[Step]) -> tuple[Bar, list[int]]:
        """Return a bar for all of these steps, which is open until the last has ended, and the times of their ends."""
        done = [step.end_ms for step in steps if step.end_ms is not None]
        is_done = len(done) == len(steps)
        return Bar(steps[0].start_ms, max(done) if is_done else self._until_ms, DONE if is_done else OPEN), done

    def _alike(self, steps: list[Step], word: str) -> list[Row]:
        if len(steps) <= MOST_ALIKE:
            return [self._row(f"{word} {self.names.get(step.of, step.of[:12])}", step) for step in steps]
        bar, done = self._together(steps)
        return [Row(f"{len(steps)} {word}s", (bar,), f"{len(done)} of {len(steps)} answered")]

    def _ack_rows(self) -> Iterator[Row]:
        """Yield a row for each vertex, with a tick for each acknowledgement."""
        assert self.life is not None
        vertices: dict[str, list[Step]] = defaultdict(list)
        for step in self.life.of_kind(ACK):
            vertices[vertex_of(step.of)].append(step)
        for vertex, steps in vertices.items():
            bar, done = self._together(steps)
            last = f", the last after {duration(max(done) - steps[0].start_ms)}" if done else ""
            yield Row(f"acks of {vertex}", (bar,), f"{len(done)} of {len(steps)}{last}", tuple(done))

    # --- clocks and requests ----------------------------------------------------------------------------------------

    def clocks(self) -> list[Row]:
        """Return the rows of clocks: the timeout of the checkpoint, the interval, the minimum pause."""
        found = []
        expires = None if self.life is None else self.log.expires_ms(self.life.checkpoint_id)
        if self.life is not None and expires is not None:
            found.append(self._clock("timeout", self.life.states[0][1], expires, "expires"))
        due, job = self.log.next_periodic_ms, self.log.moment.job
        if due is not None and job == "RUNNING":
            began = due - self.log.interval_ms if self.log.interval_ms is not None else self.now_ms
            found.append(self._clock("interval", min(began, self.now_ms), due, "next periodic checkpoint"))
        pause = self.log.pause_until_ms
        if pause is not None and pause > self.now_ms and job == "RUNNING":
            found.append(self._clock("minimum pause", pause - (self.log.min_pause_ms or 0), pause, "over"))
        return found

    def _clock(self, name: str, start_ms: int, due_ms: int, what: str) -> Row:
        """Return a clock's row; its whole time fills the row."""
        total = max(due_ms - start_ms, 1)
        gone = min(max(self.now_ms - start_ms, 0), total)
        late = self.now_ms - due_ms
        says = f"{what}: due for {duration(late)}" if late > 0 else f"{what} in {duration(total - gone)}"
        bars = (Bar(0, gone / total, GONE), Bar(gone / total, 1, LEFT))
        return Row(name, bars, f"{says} ({duration(gone)} of {duration(total)} gone)")

    def _why_queued(self) -> str:
        """Say why the first request in the queue does not start."""
        return why_queued(self.evidence, self.log.queue[0].label)

    # --- tables -----------------------------------------------------------------------------------------------------

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per step: checkpoint_id, step, of (operator, hook or task), start_ms, end_ms, took_ms (Int64;
        missing for an open step), waits (why it is open), error.
        """
        life = self.life
        rows = []
        for step in () if life is None else life.steps:
            assert life is not None
            took = None if step.end_ms is None else step.end_ms - step.start_ms
            of = self.names.get(step.of, step.of) if step.kind == COORDINATOR else step.of
            waits = self._missing(step.of) if step.kind == ACK and took is None and not life.ended else ""
            rows.append([life.checkpoint_id, step.kind, of, step.start_ms, step.end_ms, took, waits, step.error])
        columns = ["checkpoint_id", "step", "of", "start_ms", "end_ms", "took_ms", "waits", "error"]
        numbers = ("checkpoint_id", "start_ms", "end_ms", "took_ms")
        return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(numbers, "Int64"))

    def requests(self) -> pd.DataFrame:
        """Return one row per queued request: position, request, waits_ms, why (of the first)."""
        rows = [
            [at, each.label, self.now_ms - each.at_ms, self._why_queued() if at == 0 else "it is not the first"]
            for at, each in enumerate(self.log.queue)
        ]
        return pd.DataFrame(rows, columns=["position", "request", "waits_ms", "why"])

    def svg(self) -> Svg:
        """Return the checkpoint's state machine alone, with its present state highlighted."""
        return self._machine().svg()

    def dot(self) -> Dot:
        """Return the same as an object of the `graphviz` package."""
        return self._machine().dot()

    def _machine(self) -> Any:
        return self.machines.get("checkpoint") or self.machines["job"]

    # --- the page ---------------------------------------------------------------------------------------------------

    def _repr_html_(self) -> str:
        life = self.life
        ended = "" if life is None else life.ended
        meaning = "good" if ended == "completed" else "bad" if ended else "waits" if life is not None else ""
        parts = [answer(self.answer(), meaning)]
        if life is not None:
            start = life.asked_ms if life.asked_ms is not None else self._begun_ms
            span = f"{duration(self._until_ms - start)} from the request until {'its end' if ended else 'now'}"
            parts += ["<h4>What it went through</h4>", words(span), timeline(self.rows(), start, self._until_ms)]
        if clocks := self.clocks():
            parts += ["<h4>Clocks</h4>", timeline(clocks, 0, 1, axis=False)]
        queue = self.requests()
        if len(queue):
            listed_rows = [[int(a), b, int(c), d] for a, b, c, d in queue.itertuples(index=False)]
            parts += ["<h4>Requests that wait</h4>", rows_html(["", "request", "waits, ms", "because"], listed_rows)]
        if life is not None and life.of_kind(ACK):
            parts.append(self._acks())
        names = ("checkpoint", "job", "task", "barrier handler")
        parts += ["<h4>State machines, with the present state lit</h4>", self.machines.body(*names)]
        title = TITLE if life is None else f"Life of checkpoint {life.checkpoint_id}"
        return view_html(title, *parts, styles=(STYLE,))

    def _acks(self) -> str:
        """Return every task, those without acknowledgement first."""
        assert self.life is not None
        steps = sorted(self.life.of_kind(ACK), key=lambda step: step.end_ms is not None)
        over = bool(self.life.ended)
        rows = [
            [
                step.of,
                None if step.end_ms is None else step.end_ms - step.start_ms,
                "" if step.end_ms is not None else "did not come in time" if over else self._missing(step.of),
            ]
            for step in steps[:MOST_ROWS]
        ]
        marks = ["" if step.end_ms is not None else "bad" if over else "waits" for step in steps[:MOST_ROWS]]
        missing = sum(step.end_ms is None for step in steps)
        heads = ("task", "acknowledged after, ms", "what is missing")
        body = rows_html(heads, rows, marks=marks, count=len(steps), all_in=".to_pandas()")
        about = f"{len(steps) - missing} of {len(steps)}"
        return fold("Acknowledgements", about, body, is_open=bool(missing) and len(steps) <= 12)

    def __repr__(self) -> str:
        return f"LifeOfCheckpoint({self.caption})"


def checkpoint_life(
    run: Any, n: int | None = None, checkpoint: int | None = None, task: str | None = None
) -> LifeOfCheckpoint:
    """Return the life of a checkpoint in a Lab, a SparkJob or a Trace after its first `n` records.

    `checkpoint` is by default the newest. With a `task`, only its states are highlighted in the machines of tasks.

    Raises ValueError for a checkpoint that did not exist yet, and for an unknown task.
    """
    return draw_checkpoint_life(Subject(run, n, checkpoint), task)


def draw_checkpoint_life(subject: Subject, task: str | None = None) -> LifeOfCheckpoint:
    """Draw the view of a run at a moment."""
    evidence = Evidence.of(subject)
    stage = stage_of(subject, evidence)
    log = CheckpointLog(evidence.reading, evidence.n)
    number = subject.checkpoint if subject.checkpoint is not None else max(log.lives, default=None)
    life = None if number is None else log.lives.get(number)
    if life is None and subject.checkpoint is not None:
        known_ids = ", ".join(map(str, log.lives)) or "none"
        after = f"after {log.moment.n} records"
        raise ValueError(f"there is no checkpoint {subject.checkpoint} {after}; there are: {known_ids}")
    machines = machines_of(log, evidence, stage, number, task)
    return LifeOfCheckpoint(stage, log, life, machines, operator_names(subject), evidence)


VIEW = View("life", TITLE, QUESTION, draw_checkpoint_life)

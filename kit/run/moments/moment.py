"""The state of a whole job after n records of its trace.

`advance(moment, record)` is a fold: it takes the state known so far and one more record, and returns the state known
now. Only the trace is read, so a run on a cluster is replayed with the same code as a lesson. `kit.run.kinds` assigns a
change to each kind of record; a kind without one only moves the clock and the caption.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from kit.core.trace.trace import TraceRecord, led_by
from kit.run.kinds import kind_of
from kit.run.moments.job_changes import Change
from kit.run.moments.job_state import MessageMoment, Moment, Running, changed, drop, put, set_field, task_of
from kit.run.run import run_of
from kit.run.steps import steps

__all__ = ["Moment", "advance", "fold", "moments"]


def advance(moment: Moment, record: TraceRecord, cause: TraceRecord | None = None) -> Moment:
    """Return the moment after one more record; `cause` is the record that led to it, for the caption's "because"."""
    if type(moment) is Running:
        moment.take(record, cause)
    else:
        began_ms = record.at_ms if moment.record is None else moment.began_ms
        at_ms = max(moment.at_ms, record.at_ms)
        moment = changed(moment, n=moment.n + 1, at_ms=at_ms, began_ms=began_ms, record=record, cause=cause)
    role = record.role
    effect = _EFFECTS.get((record.kind, role)) or _effect(record)
    if role == "event":
        moment = _delivered(moment, record)
    elif effect[0]:
        moment = _sent(moment, record, effect[0])
    return moment if effect[1] is None else effect[1](moment, record)


def fold(moment: Running, records: Iterable[TraceRecord]) -> None:
    """Advance a running moment through these records, like `advance` but faster; its captions have no causes."""
    last, count = None, 0
    at_ms, effects = moment.at_ms, _EFFECTS
    for record in records:
        count += 1
        if last is None and moment.record is None:
            set_field(moment, "began_ms", record.at_ms)
        last, role = record, record.role
        mail, change = effects.get((record.kind, role)) or _effect(record)
        if record.at_ms > at_ms:
            at_ms = record.at_ms
            set_field(moment, "at_ms", at_ms)
        if role == "event":
            if record.cause in moment.messages:
                _delivered(moment, record)
        elif mail:
            _sent(moment, record, mail)
        if change is not None:
            change(moment, record)
    if last is not None:
        set_field(moment, "n", moment.n + count)
        set_field(moment, "record", last)
        set_field(moment, "cause", None)


_EFFECTS: dict[tuple[str, str], tuple[str, Change | None]] = {}
"""The name of each kind's message and the change that its records report, by kind and role; a cache."""


def _effect(record: TraceRecord) -> tuple[str, Change | None]:
    kind = kind_of(record)
    side = kind.side(record.role)
    _EFFECTS[record.kind, record.role] = effect = kind.mail, None if side is None else side.change
    return effect


def moments(run: Any) -> Iterator[Moment]:
    """Yield moment 0, before anything happened, and the moment after each record, causes before effects.

    `run` is a Lab, a SparkJob or a Trace.
    """
    moment = Moment()
    yield moment
    seen: dict[str, TraceRecord] = {}
    for record in chain.from_iterable(steps(run_of(run).trace)):
        moment = advance(moment, record, led_by(record.cause, seen.get))
        seen[record.id] = record
        yield moment


def _sent(moment: Moment, record: TraceRecord, mail: str) -> Moment:
    task = record.data["task"]
    message = MessageMoment(mail, task, task != task_of(record), record.checkpoint_id, record.at_ms)
    if message.task in moment.tasks and moment.tasks[message.task].lost:
        return moment
    return changed(moment, messages=put(moment.messages, record.id, message))


def _delivered(moment: Moment, record: TraceRecord) -> Moment:
    if record.cause not in moment.messages:
        return moment
    return changed(moment, messages=drop(moment.messages, record.cause))

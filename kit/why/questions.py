"""The possible questions, by object or in a few words, and the topic of each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from kit.core.protocol.commands import StartEpoch
from kit.core.protocol.notes import (
    CheckpointAborted,
    CheckpointCompleted,
    RequestFailed,
    RequestRefused,
    TriggeringFailed,
)
from kit.core.trace.trace import TraceRecord
from kit.run.durations import duration
from kit.why import channels, ended, late, life, output, pending, requests, tasks, values
from kit.why.acknowledgement import acknowledgement
from kit.why.answer import Why
from kit.why.evidence import Evidence
from kit.why.inquiry import Answer, Inquiry, Topic

ANSWERS: dict[Topic, Answer] = {
    Topic.CHANNEL: channels.blocked,
    Topic.QUEUE: channels.queue,
    Topic.BARRIER: channels.barrier,
    Topic.BEGIN: channels.begin,
    Topic.TURN: tasks.turn,
    Topic.END: tasks.end,
    Topic.STATE: tasks.state,
    Topic.ACK: acknowledgement,
    Topic.CHECKPOINT: pending.pending,
    Topic.ENDED: ended.ended,
    Topic.NEXT: pending.none_under_way,
    Topic.FAILURE: ended.failure,
    Topic.VALUES: values.state_of,
    Topic.LATE: late.dropped,
    Topic.OUTPUT: output.missing_rows,
    Topic.JOB: life.job,
    Topic.RESTART: life.restart,
    Topic.REQUEST: requests.request,
    Topic.REFUSAL: requests.refusal,
}
_REFUSED = (RequestRefused, TriggeringFailed)
_NUMBERED = {
    "checkpoint": re.compile(r"\b(?:checkpoint|savepoint|chk|barrier)[- ]?(\d+)"),
    "channel": re.compile(r"\bchannel (\d+)"),
    "request": re.compile(r"\brequest (\d+)"),
    "epoch": re.compile(r"\bepoch (\d+)"),
}
_MOST_NAMED = 6


class WhyError(ValueError):
    """The subject of a question is unknown; the text lists the known ones."""


Question = tuple[Topic, tuple[object, ...], str]
"""A question: its topic, what it is about, and its words."""


@dataclass(slots=True)
class Subject:
    """The named parts of a question's subject."""

    task: str | None = None
    channel: int | None = None
    checkpoint: int | None = None
    request: int | None = None
    epoch: int | None = None
    record: TraceRecord | None = None
    keyword: str = ""
    operator: str = ""


def answer_to(evidence: Evidence, about: object = None, **named: Any) -> Why:
    """Return the answer to a question about a run; see `kit.why.why`."""
    subject = Subject(**named)
    _add_subject(evidence, subject, about)
    topic, asked, words = _question(evidence, subject)
    return Why(words, Inquiry(evidence, ANSWERS).ask(topic, *asked), evidence.moment.began_ms)


# --- the subject ------------------------------------------------------------------------------------------------------


def _add_subject(evidence: Evidence, subject: Subject, about: object) -> None:
    """Set the parts of the subject that `about` names."""
    if about is None:
        return
    if isinstance(about, str):
        _add_named_in(evidence, subject, about)
    elif isinstance(about, TraceRecord):
        subject.record = about
    elif isinstance(about, bool | int):
        raise WhyError(f"{about} may be a checkpoint, a channel or a request: say which, as in why(checkpoint={about})")
    elif isinstance(getattr(about, "checkpoint_id", None), int):
        subject.checkpoint = about.checkpoint_id  # type: ignore[attr-defined]
    elif isinstance(getattr(about, "number", None), int):
        subject.channel = about.number  # type: ignore[attr-defined]
    elif isinstance(getattr(about, "name", None), str):
        subject.task = about.name  # type: ignore[attr-defined]
    else:
        raise WhyError(f"cannot explain a {type(about).__name__}: {_SUBJECTS}")


_SUBJECTS = (
    "ask about a task ('totals/1'), a channel ('letters/0 -> totals/1'), a checkpoint ('checkpoint 3'), a request "
    "('request 4'), the job ('job'), its restarts ('restart'), refusals ('refused'), rows dropped as late "
    "('late rows', 'late rows of counts'), an output that lacks rows ('output out') or a record of the trace"
)


def _add_named_in(evidence: Evidence, subject: Subject, words: str) -> None:
    """Set the parts of the subject that these words name: tasks, numbers, keywords."""
    tasks = _tasks(evidence)
    found = [task for task in re.findall(r"[^\s,;?]+/\d+", words) if task in tasks]
    for field, pattern in _NUMBERED.items():
        number = pattern.search(words)
        if number is not None:
            setattr(subject, field, int(number[1]))
    if len(found) > 1:
        subject.channel = _channel_between(evidence, *found[:2])
    elif found:
        subject.task = found[0]
    subject.keyword = next((keyword for keyword in _KEYWORDS if keyword in words.lower()), "")
    without_tasks = re.sub(r"[^\s,;?]+/\d+", "", words)
    for keyword, pattern in _OF_ROWS.items():
        if pattern.search(without_tasks):
            known = late.operators_that_dropped(evidence) if keyword == _LATE else output.sinks(evidence)
            subject.keyword, subject.operator = keyword, late.named_in(known, pattern.sub("", without_tasks))
    if subject == Subject():
        near = get_close_matches(words, tasks, _MOST_NAMED) or tasks[:_MOST_NAMED]
        raise WhyError(f"{words!r} names no subject: {_SUBJECTS}; the tasks are {', '.join(near) or 'not known'}")


_OUTPUT, _LATE = "output", "late"
_OF_ROWS = {
    _OUTPUT: re.compile(r"\b(output|lacks?|lacking|missing)\b( rows?)?"),
    _LATE: re.compile(r"\b(late|dropped)\b( rows?)?"),
}
_KEYWORDS = ("state", "refus", "restart", "restor", "epoch", "fail", "job", "no checkpoint", "checkpoint")


def _tasks(evidence: Evidence) -> list[str]:
    return list(evidence.moment.tasks) or ([] if evidence.stage is None else evidence.stage.tasks())


def _channel_between(evidence: Evidence, source: str, target: str) -> int:
    """Return the channel from one task to another; of several, the blocked one."""
    numbers = [number for number, ends in evidence.ends.items() if ends == (source, target)]
    if not numbers:
        raise WhyError(f"no channel leads from {source} to {target}")
    return next((number for number in numbers if evidence.channel(number).blocked), numbers[0])


# --- the question -----------------------------------------------------------------------------------------------------


def _question(evidence: Evidence, subject: Subject) -> Question:
    _check(evidence, subject)
    checkpoint = subject.checkpoint
    if subject.record is not None:
        return _about_record(evidence, subject.record)
    if checkpoint is not None and subject.channel is not None:
        where = evidence.channel_name(subject.channel)
        words = f"Why has barrier {checkpoint} not been taken from {where}?"
        return Topic.BARRIER, (checkpoint, subject.channel), words
    if checkpoint is not None and subject.task is not None:
        words = f"Why has {subject.task} not acknowledged checkpoint {checkpoint}?"
        return Topic.ACK, (subject.task, checkpoint), words
    if subject.channel is not None:
        return Topic.CHANNEL, (subject.channel,), f"Why is {evidence.channel_name(subject.channel)} blocked?"
    if subject.keyword == _LATE:
        who = " in ".join(filter(None, [subject.operator, subject.task or ""]))
        words = f"Why has {who} dropped rows as late?" if who else "Why were rows dropped as late?"
        return Topic.LATE, ((subject.task,) if subject.task else (), subject.operator), words
    if subject.keyword == _OUTPUT:
        of = f" of {subject.operator}" if subject.operator else ""
        return Topic.OUTPUT, (subject.operator,), f"Why does the output{of} lack rows?"
    if subject.task is not None:
        if subject.keyword == "state":
            return Topic.VALUES, (subject.task,), f"Why is the state of {subject.task} what it is?"
        return _about_task(evidence, subject.task)
    if checkpoint is not None:
        return _about_checkpoint(evidence, checkpoint)
    if subject.request is not None:
        return Topic.REQUEST, (subject.request,), f"What happened to request {subject.request}, and why?"
    return _about_job(evidence, subject)


def _about_task(evidence: Evidence, task: str) -> Question:
    known = evidence.moment.tasks.get(task)
    if known is not None and known.state == "RUNNING" and not known.lost:
        return Topic.TURN, (task,), f"Why does {task} have no turn?"
    return Topic.STATE, (task,), f"Why is {task} not running?"


def _about_checkpoint(evidence: Evidence, checkpoint_id: int) -> Question:
    known = evidence.moment.checkpoints[checkpoint_id]
    if known.status == "pending":
        return Topic.CHECKPOINT, (checkpoint_id,), f"Why is checkpoint {checkpoint_id} pending?"
    words = f"Why was checkpoint {checkpoint_id} aborted?"
    if known.status == "completed":
        complete = evidence.last(CheckpointCompleted, checkpoint_id=checkpoint_id)
        took_ms = known.duration_ms if complete is None else complete.note(CheckpointCompleted).duration_ms
        words = f"Why did checkpoint {checkpoint_id} take {duration(took_ms)}?"
    return Topic.ENDED, (checkpoint_id,), words


def _about_record(evidence: Evidence, record: TraceRecord) -> Question:
    if record.is_a(*_REFUSED):
        return Topic.REFUSAL, (record.id,), f"Why was this refused: {record.note(RequestFailed).request}?"
    if record.is_a(CheckpointAborted, CheckpointCompleted) and record.checkpoint_id is not None:
        return _about_checkpoint(evidence, record.checkpoint_id)
    return Topic.FAILURE, (record.id,), f"Why this: {evidence.caption(record)}?"


def _about_job(evidence: Evidence, subject: Subject) -> Question:
    if subject.keyword == "refus":
        refused = evidence.of_kinds(*_REFUSED)
        if not refused:
            raise WhyError("no request has been refused in this run")
        return _about_record(evidence, max(refused, key=evidence.position))
    if subject.epoch is not None or subject.keyword in ("restart", "restor", "epoch"):
        epoch = evidence.moment.epoch if subject.epoch is None else subject.epoch
        return Topic.RESTART, (epoch,), f"Why did epoch {epoch} begin, and from what?"
    if subject.keyword in ("no checkpoint", "checkpoint"):
        return Topic.NEXT, (), "Why is no checkpoint complete?"
    return Topic.JOB, (), f"Why is the job {evidence.moment.job}?"


def _check(evidence: Evidence, subject: Subject) -> None:
    """Raise WhyError for a subject that the run does not have."""
    checkpoints, tasks = evidence.moment.checkpoints, _tasks(evidence)
    epochs = [record.data["epoch"] for record in evidence.of_kind(StartEpoch)]
    asked = {each.data["request_id"] for kind in requests.REQUESTS for each in evidence.of_kind(kind)}
    for what, named, known in (
        ("checkpoint", subject.checkpoint, list(checkpoints)),
        ("task", subject.task, tasks),
        ("channel", subject.channel, list(evidence.ends)),
        ("request", subject.request, sorted(asked)),
        ("epoch", subject.epoch, epochs),
    ):
        if named is not None and named not in known:
            names = [str(each) for each in known]
            near = get_close_matches(str(named), names, _MOST_NAMED) or names[-_MOST_NAMED:]
            raise WhyError(f"the run has no {what} {named}; it has {len(names)}: {', '.join(near) or 'none'}")

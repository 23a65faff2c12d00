"""The outcome of a scenario's commands as lines: the protocol's records in short form.

    job        * CheckpointTriggered chk-1: letters/0, letters/1
    job        > letters/0, letters/1: TriggerTaskCheckpoint chk-1
    letters/0  < TriggerTaskCheckpoint chk-1

`<` is an event that a machine took, `>` a command that it issued, with its receiver if any, `*` a note, `!` a fault.
Times and buffers are left out, so a line changes only if the protocol does something else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from kit.core.protocol.notes import NOTES
from kit.core.protocol.reasons import CheckpointFailureReason
from kit.core.trace.trace import TraceRecord
from kit.run.kinds import BULK, DETAIL, KINDS, PLUMBING, level_of
from kit.run.stage import Stage

Ends = Mapping[int, tuple[str, str]]
"""Sender and receiver of each channel."""

NOTHING = "nothing comes of it"
ROWS_ONLY = "rows move on, and nothing else"
NAME_WIDTH = 10
LONGEST = 140
FACTS = (
    "request", "phase", "why", "slots", "least", "state", "status", "reason", "result", "detail", "error", "hook",
    "operator", "outcome", "task", "tasks", "awaited", "epoch", "slot", "next_id", "last_subsumed_id",
    "latest_completed_id", "drain",
)  # fmt: skip
"""The fields of a record's data that are shown, in this order; all others are left out."""
_JOB = re.compile(r"/[0-9a-f]{32}(?=/)")
_OPERATOR = re.compile(r"\b([0-9a-f]{6})[0-9a-f]{26}(?=-\d)")
_SAVEPOINT = re.compile(r"/savepoints/savepoint-[0-9a-f]{6}-[0-9a-f]{12}")
_REQUEST = re.compile(r" \(request -?\d+\)")
_NOTES = frozenset(note.__name__ for note in NOTES)


def outcome(records: Sequence[TraceRecord], stages: Iterable[Stage], level: int) -> list[str]:
    """Return a line for each record of this level or above; if there are none, of the next level that has any."""
    ends = {stage.epoch: stage.ends() for stage in stages}
    wanted = _of_level(records, level)
    return _folded(_Line.of(record, ends) for record in wanted) if wanted or not records else [ROWS_ONLY]


def _of_level(records: Sequence[TraceRecord], level: int) -> list[TraceRecord]:
    """Return the records of at least this level. For one action without any, return all; for a run, no rows."""
    for least in range(level, (BULK if level <= PLUMBING else DETAIL) - 1, -1):
        # messages between operators and their coordinators matter more here than in pictures
        found = [
            record
            for record in records
            if level_of(record) >= least or (least <= PLUMBING and record.kind.startswith("OperatorEvent"))
        ]
        if found:
            return found
    return []


class _Line:
    """A record in three parts: machine, receiver, text."""

    def __init__(self, who: str, sign: str, to: str, what: str) -> None:
        self.who, self.sign, self.to, self.what = who, sign, to, what

    @classmethod
    def of(cls, record: TraceRecord, ends: Mapping[int, Ends]) -> _Line:
        """Return the line of a note, of an event with its sender, or of a command with its receiver."""
        data = record.data
        channel = data.get("channel")
        attempt = re.search(r"@(\d+)#", record.id)  # a task's; the record of another machine is of the latest epoch
        latest = max(ends, default=0)
        own_ends = ends.get(min(int(attempt[1]), latest) if attempt else latest, {})
        source, target = own_ends.get(channel, ("", "")) if isinstance(channel, int) else ("", "")
        element = data.get("element")
        kind = (
            str(element["type"]) if isinstance(element, Mapping) and record.checkpoint_id is not None else record.kind
        )
        facts = _facts(record, own_ends)
        task = str(data["task"]) if record.machine == "job" and "task" in data else ""
        if record.role == "fault":
            return cls(record.machine, "!", "", without_ids(str(data["text"])))
        if record.kind in _NOTES:
            source_of = f" from {source}" if source else ""
            return cls(record.machine, "*", "", _what(kind, record, source_of, facts))
        if record.role == "event":
            end = target if source == record.machine else source
            sender = end or (task if KINDS[record.kind].command is not None else "")
            return cls(record.machine, "<", "", _what(kind, record, f" from {sender}" if sender else "", facts))
        to = target if data.get("element") else task
        ahead = ", ahead of what is queued" if data.get("priority") else ""
        return cls(record.machine, ">", to, _what(kind, record, ahead, facts))

    def __str__(self) -> str:
        to = f"{self.to}: " if self.to else ""
        line = f"{self.who:<{NAME_WIDTH}} {self.sign} {to}{self.what}"
        return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def _folded(lines: Iterable[_Line]) -> list[str]:
    """Merge successive lines that differ in the receiver only."""
    folded: list[_Line] = []
    for line in lines:
        last = folded[-1] if folded else None
        if last and last.to and line.to and (last.who, last.sign, last.what) == (line.who, line.sign, line.what):
            last.to += f", {line.to}"
        elif last and last.sign == line.sign == "<" and last.what == line.what and last.who != line.who:
            last.who += f", {line.who}"
        else:
            folded.append(line)
    return [
        line if times == 1 else f"{line}  ({times} times)"
        for line, times in ((line, len(list(same))) for line, same in groupby(map(str, folded)))
    ]


def _what(kind: str, record: TraceRecord, whence: str, facts: str) -> str:
    checkpoint = "" if record.checkpoint_id is None else f" chk-{record.checkpoint_id}"
    return f"{kind}{checkpoint}{whence}{': ' + facts if facts else ''}"


def _facts(record: TraceRecord, ends: Ends) -> str:
    facts = []
    for name in FACTS:
        value = record.data.get(name)
        if (
            value in (None, "", False, (), [])
            or isinstance(value, dict)
            or (name == "task" and record.kind not in _NOTES)
        ):
            continue
        if name == "tasks" and not isinstance(value, list | tuple):
            continue
        if name == "detail":  # what goes beyond the reason
            known = CheckpointFailureReason.__members__.get(str(record.data.get("reason")))
            value = str(value).removeprefix(known.message).strip() if known else value
            if not value:
                continue
        if name in ("last_subsumed_id", "latest_completed_id") and value == -1:
            continue
        if name in ("slot", "epoch"):
            facts.append(f"{name} {value}")
        else:
            facts.append(_TOLD.get(name, _plain)(value, ends))
    if record.data.get("end_of_data"):
        facts.append("end of data")
    return "; ".join(facts)


def _plain(value: Any, ends: Ends) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return without_ids(text.splitlines()[0] if text else "")


_TOLD: dict[str, Callable[[Any, Ends], str]] = {
    "awaited": lambda channels, ends: "waits for " + ", ".join(ends[each][0] for each in channels if each in ends),
    "last_subsumed_id": lambda value, ends: f"subsumes chk-{value}",
    "latest_completed_id": lambda value, ends: f"the latest complete one is chk-{value}",
    "drain": lambda value, ends: "drain",
    "slots": lambda value, ends: f"{value} slot{'s' * (value != 1)}",
    "least": lambda value, ends: f"needs {value}",
    "next_id": lambda value, ends: f"the next is {value}",
}


def in_one_line(text: str, longest: int = LONGEST) -> str:
    """Return the first line of a text, cut if it is long."""
    line = without_ids(text.splitlines()[0]) if text else ""
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def without_ids(text: str) -> str:
    """Remove from a path the directory named after the job's id, and from a request its number."""
    return _SAVEPOINT.sub("savepoint", _REQUEST.sub("", _OPERATOR.sub(r"\1", _JOB.sub("", text))))

"""The answer to why rows were dropped as late: the operator, their number, the watermark, and what drove that.

A window or a join drops a row when its watermark has passed the row. That watermark is the minimum over its
inputs, and `assign_timestamps` emitted each input's watermark. Both operators record late rows
(`kit.stream.operators.windows.late_rows`). A detailed trace also has the reads of sources that led to the watermark and
to the row.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime

from kit.core.event_time import event_time_text
from kit.core.protocol.events import ElementReceived
from kit.core.protocol.notes import LateRows, LateRowsDropped, RowsBehindWatermark
from kit.core.protocol.tasks import vertex_of
from kit.core.trace.trace import TraceRecord
from kit.run.durations import duration
from kit.stream.operators.windows.late_rows import late_rows_counted
from kit.why.evidence import Evidence
from kit.why.fact import Fact, fact, limited
from kit.why.inquiry import Inquiry
from kit.why.values import origin

NO_LATE_ROWS = "no operator has dropped a row as late"
_DATES_FROM_MS = 10**11
"""Event times from 1973 on are shown as dates; smaller ones are numbers of a lesson."""


def dropped(inquiry: Inquiry, tasks: Collection[str] = (), operator: str = "") -> Fact:
    """Explain the rows dropped by these tasks (by all if none is named) and by this operator (by any if it is "")."""
    evidence = inquiry.evidence
    notes = [each for each in counts(evidence, LateRowsDropped) if not tasks or each.machine in tasks]
    notes = [each for each in notes if not operator or each.note(LateRows).operator == operator]
    if not notes and not (tasks or operator):
        return Fact(NO_LATE_ROWS)
    if not notes:
        return Fact(f"no row was dropped as late by {repr(operator) if operator else ', '.join(tasks)}")
    facts = [_dropped_by(evidence, note) for note in notes]
    if len(facts) == 1:
        return facts[0]
    total = late_rows_counted(sum(each.note(LateRows).rows for each in notes))
    return fact(f"{total} by {len(notes)} subtasks", *limited(facts, "subtasks"))


def counts(evidence: Evidence, kind: type[LateRows]) -> list[TraceRecord]:
    """Return the newest count of each task, operator and split in the present epoch, largest first."""
    newest: dict[tuple[str, str, str], TraceRecord] = {}
    for record in evidence.of_kind(kind):
        if evidence.is_present(record):
            note = record.note(LateRows)
            newest[record.machine, note.operator, note.split] = record
    return sorted(newest.values(), key=lambda record: -record.note(LateRows).rows)


def _dropped_by(evidence: Evidence, record: TraceRecord) -> Fact:
    note, task = record.note(LateRows), record.machine
    says = (
        f"{note.operator!r} in {task} has dropped {_rows(note.rows)} as late: its watermark, "
        f"{event_time(note.watermark_ms)}, had passed their time, by up to {duration(note.behind_ms)}"
    )
    before = upstream(evidence, task)
    behind = [_behind(each) for each in counts(evidence, RowsBehindWatermark) if each.machine in before]
    return fact(says, *_watermark(evidence, record), *limited(behind, "splits"), record=record)


def _rows(rows: int) -> str:
    return f"{rows:,} row{'s' * (rows != 1)}"


def event_time(timestamp_ms: int) -> str:
    """Format an event time, as a date if it may be one."""
    if not _DATES_FROM_MS <= timestamp_ms < 100 * _DATES_FROM_MS:
        return event_time_text(timestamp_ms)
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


# --- the watermark ----------------------------------------------------------------------------------------------------


def _watermark(evidence: Evidence, record: TraceRecord) -> Iterator[Fact]:
    """Name the inputs that the watermark came from, and the one that the rows came from."""
    note = record.note(LateRows)
    inputs = [(number, at_ms) for number, at_ms in note.inputs or () if number in evidence.ends]
    if inputs:
        positions = ", ".join(f"{evidence.ends[number][0]} at {event_time(at_ms)}" for number, at_ms in inputs)
        least, at_ms = inputs[0]
        says = f"the watermark of {record.machine} is the minimum of its inputs: {positions}"
        yield fact(says, _advanced(evidence, record, least, at_ms))
    channel = note.channel
    if channel is not None and channel in evidence.ends:
        sender = evidence.ends[channel][0]
        idle = "" if note.awaited else ", which was idle: event time did not wait for it"
        yield fact(f"the last of these rows came from {sender}{idle}", _row_origin(evidence, record))


def _advanced(evidence: Evidence, late: TraceRecord, channel: int, at_ms: int) -> Fact | None:
    """Return the read of a source that led to the watermark of a channel."""
    for received in reversed(evidence.of_kind(ElementReceived, channel=channel)):
        element = received.data["element"]
        is_it = element.get("type") == "Watermark" and element["timestamp_ms"] == at_ms
        if is_it and evidence.position(received) < evidence.position(late):
            return origin(evidence, received)
    return None


def _row_origin(evidence: Evidence, late: TraceRecord) -> Fact | None:
    """Return the read of a source that led to the last late row."""
    turn = evidence.cause(late)
    received = None if turn is None else evidence.cause(turn)
    is_row = received is not None and received.is_a(ElementReceived) and "batch" in received.data["element"]
    return origin(evidence, received) if is_row and received is not None else None


# --- the operators that emit watermarks -------------------------------------------------------------------------------


def _behind(record: TraceRecord) -> Fact:
    """Return the fact that rows arrived behind the watermark that their task had emitted."""
    note = record.note(LateRows)
    split = f" of {note.split}" if note.split else ""
    says = (
        f"{_rows(note.rows)}{split} arrived at {record.machine} behind the watermark of {note.operator!r}, "
        f"by up to {duration(note.behind_ms)}: out_of_orderness_ms is too small by that much"
    )
    return Fact(says, record=record)


def upstream(evidence: Evidence, *tasks: str) -> set[str]:
    """Return these tasks and all from which they receive records, also through others."""
    found, waiting = set(tasks), [*tasks]
    while waiting:
        senders = {evidence.ends[number][0] for number in evidence.inputs.get(waiting.pop(), ())}
        waiting += senders - found
        found |= senders
    return found


def operators_that_dropped(evidence: Evidence) -> dict[str, str]:
    """Return the names of the operators that have dropped rows, by name and by uid."""
    dropped_by = {each.note(LateRows).operator for each in counts(evidence, LateRowsDropped)}
    operators = () if evidence.stage is None else evidence.stage.operators
    uids = {each.uid: each.name for each in operators if each.uid and each.name in dropped_by}
    return uids | {name: name for name in dropped_by}


def named_in(operators: Mapping[str, str], words: str) -> str:
    """Return the operator that these words name, or ""."""
    found = [name for name in operators if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", words)]
    return operators[max(found, key=len)] if found else ""


def subtasks_of(evidence: Evidence, operator: str) -> list[str]:
    """Return the tasks that an operator is chained into."""
    stage = evidence.stage
    if stage is None:
        return []
    vertices = {each.vertex for each in stage.operators if operator == each.name}
    return [task for task in stage.tasks() if vertex_of(task) in vertices]

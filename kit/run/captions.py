"""One-line captions of records: what just happened, in words.

The sentences are in `kit.run.kinds`; this module fills in their fields. A record of an unknown kind is described by the
name of its kind, spelled out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kit.core.trace.trace import TraceRecord
from kit.run.durations import duration
from kit.run.element_kinds import element_kind
from kit.run.kinds import kind_of
from kit.run.moments.job_state import Moment, is_of_the_job_master, task_of
from kit.run.reason_words import ended_in_short


class _Fields(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "?"


Ends = Mapping[int, tuple[str, str]]
"""The sender and the receiver of each channel."""


def caption_of(record: TraceRecord, ends: Ends | None = None) -> str:
    """Return one line that says what happened in this record; `ends` names channels by the tasks they connect."""
    side = kind_of(record).side(record.role)
    if side is None:
        about = "" if record.checkpoint_id is None else f" (checkpoint {record.checkpoint_id})"
        spelled = re.sub(r"(?<!^)([A-Z])", lambda match: " " + match[1].lower(), record.kind)
        return f"{_who(record)}: {spelled}{about}"
    text = side.caption.format_map(_fields(record, ends or {}))
    return text if "/" in text.partition(" ")[0] else text[:1].upper() + text[1:]  # a task's name stays unchanged


def caption_of_moment(moment: Moment) -> str:
    """Return what happened last, as one line."""
    return "Nothing has happened yet" if moment.record is None else caption_of(moment.record)


def _fields(record: TraceRecord, ends: Ends) -> _Fields:
    data = record.data
    fields = _Fields(data)
    checkpoint_id = record.checkpoint_id if record.checkpoint_id is not None else data.get("checkpoint_id", "?")
    error = str(data.get("error") or "")
    channel = data.get("channel")
    source, to = ends.get(channel, (f"channel {channel}", f"channel {channel}")) if isinstance(channel, int) else "??"
    fields |= {
        "source": source,
        "to": to,
        "who": _who(record),
        "cp": checkpoint_id,
        "answer": error or data.get("path") or "done",
        "because_error": f": {error}" if error else "",
        "kind_of": "Savepoint" if "avepoint" in str(data.get("snapshot", "")) else "Checkpoint",
        "why": _reason(data),
        "detail_or_reason": data.get("detail") or _reason(data),
        "sources": _names(data.get("tasks")),
        "now": str(data.get("state") or data.get("status") or "?").lower(),
        "files": "files that no checkpoint needs"
        if checkpoint_id in (None, "?")
        else f"files of checkpoint {checkpoint_id}",
        "rows": _rows(data.get("batch")),
        "late_rows": _rows(data),
        "with_state": _with_state(data.get("restore")),
        "and_waits": _and_waits(data.get("awaited"), ends),
        "overtaking": ", ahead of the queued data" if data.get("priority") else "",
        "goes_back": "starts again from scratch"
        if record.checkpoint_id is None
        else f"restores checkpoint {checkpoint_id}",
        "parallelisms": _parallelisms(data.get("parallelism")),
        "rescale_phase": _RESCALE.get(str(data.get("phase")), "A rescale continues"),
        "rescaled": f"{_parallelisms(data.get('from'))} to {_parallelisms(data.get('to'))}",
        "moment": data.get("why") or "a change",
        "tasks_in_short": _in_short(data.get("tasks")),
        "restored_tasks": _in_short(data.get("tasks")) if data.get("tasks") else "the tasks",
        "started": _in_short(data.get("attempts")),
        "regions_said": _regions(data),
        "due_in": _due_in(record),
    }
    if "timer" in data:
        fields |= _timer(str(data["timer"]), fields["who"], record)
    element = data.get("element")
    if isinstance(element, Mapping):
        fields["element"] = element_kind(element).caption.format(rows=_rows(element.get("batch")), cp=checkpoint_id)
    return fields


_RESCALE: Mapping[str, str] = {
    "COOLDOWN": "The job may be rescaled once its cooldown is over",
    "IDLING": "No rescale is under way",
    "STABILIZING": "A rescale waits for further changes",
    "STABILIZED": "A rescale waits for the next checkpoint",
    "TRANSITIONING": "It is time to rescale the job",
}
"""Captions by the phase of a rescale."""


def _in_short(tasks: object) -> str:
    """Return the names of tasks, each vertex once; slots among them are left out."""
    names = [str(each) for each in tasks if "/" in str(each)] if isinstance(tasks, Iterable) else []
    return listed(names) if names else "?"


def _regions(data: Mapping[str, Any]) -> str:
    numbers = [str(number) for number in data.get("regions") or ()]
    return f"region{'s' * (len(numbers) != 1)} {' and '.join(numbers) or '?'} ({_in_short(data.get('tasks'))})"


def _parallelisms(parallelism: object) -> str:
    items = parallelism.items() if isinstance(parallelism, Mapping) else ()
    return ", ".join(f"{name} x{number}" for name, number in items)


_TIMERS: Mapping[str, tuple[str, str]] = {
    "rescale-cooldown": ("the cooldown is over", "it may be rescaled in {wait}"),
    "rescale-stabilization": ("slots and wanted parallelism have settled", "it waits {wait} for further changes"),
    "rescale-evaluation": ("a rescale no longer waits for a checkpoint", "a rescale waits {wait} for a checkpoint"),
    "rescale-max-delay": ("a rescale no longer waits for a checkpoint", "a rescale waits {wait} for a checkpoint"),
    "slot-wait": ("the wait for slots is over", "it waits {wait} for slots"),
    "checkpoint-timeout-": ("checkpoint {last} times out", "checkpoint {last} times out in {wait}"),
    "checkpoint-trigger": ("the next periodic checkpoint is due", "the next periodic checkpoint is due in {wait}"),
    "restart of regions ": ("the delay before regions restart is over", "its regions restart in {wait}"),
    "restart": ("the delay before the restart is over", "the job restarts in {wait}"),
    "last-checkpoint": ("the last checkpoint is retried", "the last checkpoint is retried in {wait}"),
    "source": ("the source of {who} reads again", "its source reads again in {wait}"),
    "alignment-timeout": ("{who} reaches its alignment timeout", "its barriers have at most {wait} to align"),
    "output-alignment-timeout": (
        "{who} reaches its alignment timeout",
        "its barriers wait at most {wait} to be sent",
    ),
    "processing-time": ("a timer of {who}'s operators fires", "a timer of its operators fires in {wait}"),
}
"""Captions of a timer that fires, and of one that is set, by the timer's name or its prefix."""


def _due_in(record: TraceRecord) -> str:
    return duration(max(0, record.data.get("due_ms", record.at_ms) - record.at_ms))


def _timer(name: str, who: str, record: TraceRecord) -> dict[str, str]:
    """Return the captions of a timer that fires and of one that is set."""
    known = next((each for each in (name, name.rstrip("0123456789")) if each in _TIMERS), None)
    fires, is_for = ("{who}'s timer {name} fires", "{name}, in {wait}") if known is None else _TIMERS[known]
    values = {"name": name, "who": who, "wait": _due_in(record), "last": name.rpartition("-")[2]}
    return {"timer_fires": fires.format_map(values), "timer_is_for": is_for.format_map(values)}


def _who(record: TraceRecord) -> str:
    return "the JobMaster" if is_of_the_job_master(record) else task_of(record)


def _reason(data: Mapping[str, Any]) -> str:
    reason = str(data.get("reason") or "no reason given")
    reason = ended_in_short(reason) if reason.isupper() else reason
    detail = str(data.get("detail") or "")
    return f"{reason} ({detail})" if detail else reason


MOST_TASKS, MOST_VERTICES, FIRST_VERTICES = 8, 6, 3
"""The most tasks, and the most vertices, that are listed one by one, and the number listed of more vertices."""


def listed(tasks: Sequence[str]) -> str:
    """List tasks briefly: `totals/0, 2, sink/0`.

    More than `MOST_TASKS` tasks are counted by vertex. Of more than `MOST_VERTICES` vertices only the first are listed.
    """
    by_vertex: dict[str, list[str]] = {}
    for task in tasks:
        vertex, _, subtask = task.rpartition("/")
        by_vertex.setdefault(vertex, []).append(subtask)
    if len(tasks) > MOST_TASKS:
        counts = [f"{len(subtasks)} of {vertex}" for vertex, subtasks in by_vertex.items()]
        if len(counts) <= MOST_VERTICES:
            return ", ".join(counts)
        others = list(by_vertex.values())[FIRST_VERTICES:]
        return f"{', '.join(counts[:FIRST_VERTICES])} and {sum(map(len, others))} of {len(others)} other vertices"
    return ", ".join(f"{vertex}/{', '.join(subtasks)}" for vertex, subtasks in by_vertex.items())


def _names(tasks: object) -> str:
    return listed([str(task) for task in tasks]) if isinstance(tasks, list | tuple) else "the sources"


def _rows(batch: object) -> str:
    rows = batch.get("rows") if isinstance(batch, Mapping) else None
    return "nothing" if rows is None else "1 record" if rows == 1 else f"{rows} records"


def _with_state(restore: object) -> str:
    return f"with state of checkpoint {restore['checkpoint_id']}" if isinstance(restore, Mapping) else "without state"


def _and_waits(awaited: object, ends: Ends) -> str:
    if not isinstance(awaited, list | tuple):
        return ""
    if not awaited:
        return ": it was the last one"
    known = [ends[number][0] for number in awaited if number in ends]
    others = listed(known) or " and ".join(f"channel {number}" for number in awaited)
    return f", blocks that channel and waits for {others}"


def lower_first(text: str) -> str:
    """Return the caption as it reads in the middle of a sentence."""
    first = text.partition(" ")[0]
    return text if "/" in first or first[1:].lower() != first[1:] else text[:1].lower() + text[1:]

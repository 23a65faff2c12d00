"""The facts about each item on the stage, as small JSON-like values by name. The details panel shows them.

The names are those that a click selects: `task:<vertex>/<subtask>`, `channel:<number>`, `checkpoint:<id>`,
`message:<record id>`, `job`. An acknowledgement is a fact of its own, `ack:<checkpoint>/<task>`: the time at which the
JobMaster received it. The film contains the facts, so showing details takes no kernel.
"""

from __future__ import annotations

from typing import Any

from kit.draw.stage.drawing import Touched
from kit.run.moments.job_state import PENDING, ChannelMoment, CheckpointMoment, Item, MessageMoment, Moment, TaskMoment
from kit.run.reason_words import ended_because

Facts = dict[str, Any]
"""Facts by name; None for an item that was removed."""

LAST_PHASES = 3
"""The number of checkpoints for which a task's phases are included."""


def facts_of(moment: Moment, touched: Touched) -> Facts:
    """Return what is known of these items and of the job now."""
    restored = next((r.checkpoint_id for r in reversed(moment.restores) if r.epoch == moment.epoch), None)
    job = {"status": moment.job, "epoch": moment.epoch, "restored": restored, "error": moment.error}
    facts: Facts = {"job": _without_empty(job)}
    for task in sorted(touched.tasks):
        known = moment.tasks.get(task)
        facts[f"task:{task}"] = None if known is None else _task(known, moment)
    for number in sorted(touched.channels):
        channel = moment.channels.get(number)
        facts[f"channel:{number}"] = None if channel is None else _channel(channel)
    for number in sorted(touched.checkpoints):
        checkpoint = moment.checkpoints.get(number)
        if checkpoint is not None:
            facts[f"checkpoint:{number}"] = _checkpoint(checkpoint, moment)
            for task, at_ms in zip(checkpoint.acked, checkpoint.acked_ms):
                facts[f"ack:{number}/{task}"] = at_ms - moment.began_ms
    for sent in sorted(touched.messages):
        message = moment.messages.get(sent)
        facts[f"message:{sent}"] = None if message is None else _message(message, moment)
    return facts


def _task(task: TaskMoment, moment: Moment) -> Facts:
    newest = sorted(task.phases_ms)[-LAST_PHASES:]
    phases = {
        str(number): [[phase, at_ms - moment.began_ms] for phase, at_ms in task.phases_ms[number].items()]
        for number in newest
    }
    names = ("state", "attempt", "restored", "published", "error", "lost", "frozen")
    known = {name: getattr(task, name) for name in names}
    return _without_empty(known | {"attempt": task.attempt or None, "phases": phases})


def _without_empty(known: Facts) -> Facts:
    """Return the facts without empty values. A zero is kept, although it equals False."""
    return {name: value for name, value in known.items() if value or (value == 0 and value is not False)}


def _channel(channel: ChannelMoment) -> Facts:
    places = {name: list(map(_item, getattr(channel, name))) for name in ("queued", "wire", "arrived")}
    return _without_empty(places | {name: getattr(channel, name) for name in ("held", "awaited", "taken", "ended")})


def _item(item: Item) -> list[Any]:
    """Return [serial, kind, rows or checkpoint, the barrier before it, overtakes], without trailing None."""
    row: list[Any] = [item.serial, item.kind, item.rows if item.kind == "buffer" else item.checkpoint_id]
    if item.unaligned:
        return [*row, item.after, True]
    return row if item.after is None else [*row, item.after]


def _checkpoint(checkpoint: CheckpointMoment, moment: Moment) -> Facts:
    finished_ms = checkpoint.finished_ms
    missing, expected = list(checkpoint.missing), set(checkpoint.expected)
    is_named = 0 < len(missing) <= MOST_MISSING
    has_absent = checkpoint.status == PENDING and not is_named
    known = {
        "status": checkpoint.status,
        "step": checkpoint.step,
        "triggered": checkpoint.triggered_ms - moment.began_ms,
        "finished": None if finished_ms is None else finished_ms - moment.began_ms,
        "expected": len(checkpoint.expected),
        "acked": len(expected) - len(missing),
        "missing": missing if is_named else [],
        "absent": [task for task in moment.tasks if task not in expected] if has_absent else [],
        "size": checkpoint.size_bytes,
        "reason": ended_because(checkpoint.reason),
        "savepoint": checkpoint.savepoint,
    }
    return _without_empty(known)


MOST_MISSING = 6
"""The most tasks with missing acknowledgements that are named, because each acknowledgement would repeat the others. If
they are not named, the absent tasks are: those of which a pending checkpoint expects no acknowledgement. The rest
follows from the acknowledgements.
"""


def _message(message: MessageMoment, moment: Moment) -> list[Any]:
    since_ms = message.since_ms - moment.began_ms
    return [message.mail, message.task, message.to_task, message.checkpoint_id, since_ms]

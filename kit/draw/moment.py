"""The state of a whole job after n records of its trace.

`advance(moment, record)` is a fold: it takes what was known and one more record, and gives what is known now. Nothing
but the trace is looked at, so a run on a cluster is replayed with the same code as a lesson. What a record means is
one entry of the table `MEANINGS`, by role and kind; kinds without an entry only move the clock and the caption.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

from kit.draw import channel_state
from kit.draw.job_state import (
    ABORTED,
    ACKNOWLEDGED,
    ALIGNING,
    COMPLETED,
    DECLINED,
    PENDING,
    WRITING,
    MessageMoment,
    Moment,
    RestoreMoment,
    TaskMoment,
    drop,
    like,
    put,
    task_of,
    with_checkpoint,
    with_phase,
    with_task,
)
from kit.draw.run import run_of
from kit.draw.steps import steps
from kit.protocol.trace import TraceRecord, led_by

__all__ = ["MEANINGS", "Moment", "advance", "moment_at", "moments"]

Meaning = Callable[[Moment, TraceRecord], Moment]


def advance(moment: Moment, record: TraceRecord, cause: TraceRecord | None = None) -> Moment:
    """The moment after one more record; `cause` is the record that led to it, for the caption's "because"."""
    moment = _delivered(moment, record) if record.role == "event" else _sent(moment, record)
    meaning = MEANINGS.get((record.role, record.kind)) or MEANINGS.get(("*", record.kind))
    if meaning is not None:
        moment = meaning(moment, record)
    began_ms = record.at_ms if moment.record is None else moment.began_ms
    at_ms = max(moment.at_ms, record.at_ms)
    return replace(moment, n=moment.n + 1, at_ms=at_ms, began_ms=began_ms, record=record, cause=cause)


def moments(run: Any) -> Iterator[Moment]:
    """Moment 0, before anything happened, and the moment after each record, causes before effects.

    `run` is a Lab, a SparkJob or a Trace.
    """
    moment = Moment()
    yield moment
    seen: dict[str, TraceRecord] = {}
    for record in chain.from_iterable(steps(run_of(run).trace)):
        moment = advance(moment, record, led_by(record.cause, seen.get))
        seen[record.id] = record
        yield moment


def moment_at(run: Any, n: int | None = None) -> Moment:
    """The moment after the first `n` records of a Lab, SparkJob or Trace; after all of them when there are fewer or
    `n` is None.
    """
    moment = Moment()
    for moment in moments(run):
        if moment.n == n:
            break
    return moment


# --- messages between the JobMaster and the tasks ---------------------------------------------------------------------

_TO_TASK = ("DeployTask", "TriggerTaskCheckpoint", "NotifyCheckpointComplete", "NotifyCheckpointAborted", "CancelTask")
_TO_JOB = ("AcknowledgeCheckpoint", "DeclineCheckpoint", "TaskStateChanged")


def _sent(moment: Moment, record: TraceRecord) -> Moment:
    if record.kind not in _TO_TASK and record.kind not in _TO_JOB:
        return moment
    message = MessageMoment(record.kind, record.data["task"], record.kind in _TO_TASK, record.checkpoint_id)
    if message.task in moment.tasks and moment.tasks[message.task].lost:
        return moment
    return replace(moment, messages=put(moment.messages, record.id, message))


def _delivered(moment: Moment, record: TraceRecord) -> Moment:
    if record.cause not in moment.messages:
        return moment
    return replace(moment, messages=drop(moment.messages, record.cause))


# --- the life of the job ----------------------------------------------------------------------------------------------


def _start_epoch(moment: Moment, record: TraceRecord) -> Moment:
    """A new epoch begins with new tasks and empty channels; checkpoints are kept."""
    tasks = {
        f"{vertex}/{subtask}": TaskMoment(attempt=record.data["epoch"])
        for vertex, parallelism in record.data["parallelism"].items()
        for subtask in range(parallelism)
    }
    return replace(
        moment,
        epoch=record.data["epoch"],
        tasks=like(moment.tasks, tasks),
        channels=like(moment.channels, {}),
        messages=like(moment.messages, {}),
    )


def _job_status(moment: Moment, record: TraceRecord) -> Moment:
    return replace(moment, job=record.data["status"], error=str(record.data.get("error") or ""))


def _deploy(moment: Moment, record: TraceRecord) -> Moment:
    restore = record.data.get("restore")
    restored = None if restore is None else restore["checkpoint_id"]
    moment = with_task(
        moment, record.data["task"], state="DEPLOYING", attempt=record.data["attempt"], restored=restored, phases={}
    )
    return moment if restored is None else _restored(moment, RestoreMoment(moment.epoch, restored))


def _restored(moment: Moment, restore: RestoreMoment) -> Moment:
    if any((known.epoch, known.checkpoint_id) == (restore.epoch, restore.checkpoint_id) for known in moment.restores):
        return moment
    return replace(moment, restores=(*moment.restores, restore))


def _state_assigned(moment: Moment, record: TraceRecord) -> Moment:
    """The JobMaster dealt out a checkpoint for the epoch that it is about to start."""
    data = record.data
    checkpoint_id = record.checkpoint_id if record.checkpoint_id is not None else data["checkpoint_id"]
    epoch = data.get("epoch", moment.epoch + 1)
    known = moment.checkpoints.get(checkpoint_id)
    before = {} if known is None else known.parallelism
    return _restored(moment, RestoreMoment(epoch, checkpoint_id, tuple(data.get("assignments", ())), before))


def _task_state(moment: Moment, record: TraceRecord) -> Moment:
    """What a task says of itself; the JobMaster hears it later."""
    task, state = record.data["task"], record.data["state"]
    known = moment.tasks.get(task)
    if known is None or known.lost or known.attempt > record.data["attempt"]:
        return moment
    return with_task(moment, task, state=state, error=record.data.get("error", ""))


def _slot_lost(moment: Moment, record: TraceRecord) -> Moment:
    """The tasks of a slot are the subtasks of its number; all of them are gone."""
    if record.data["epoch"] != moment.epoch:
        return moment
    for name in moment.tasks:
        if name.rpartition("/")[2] == str(record.data["slot"]):
            moment = _lost(moment, name, record.data["error"])
    return moment


def _task_killed(moment: Moment, record: TraceRecord) -> Moment:
    return _lost(moment, record.data["task"], record.data.get("error", ""))


def _lost(moment: Moment, name: str, error: str) -> Moment:
    """A task is gone, with what was under way from it and to it."""
    moment = with_task(moment, name, state="FAILED", lost=True, error=error)
    messages = {sent: message for sent, message in moment.messages.items() if message.task != name}
    channels = like(moment.channels, moment.channels)
    for number, channel in moment.channels.items():
        if name == channel.receiver:
            channels[number] = replace(channel, queued=(), wire=(), arrived=(), held=None, awaited=None)
        elif name == channel.sender:
            channels[number] = replace(channel, queued=(), wire=())
    return replace(moment, messages=like(moment.messages, messages), channels=channels)


def _task_gone(moment: Moment, record: TraceRecord) -> Moment:
    task = moment.tasks.get(task_of(record))
    if task is None or task.state in ("FINISHED", "FAILED"):
        return moment
    return with_task(moment, task_of(record), state="CANCELED")


def _epoch_ended(moment: Moment, record: TraceRecord) -> Moment:
    """All workers have left, and with them whatever was on its way between them."""
    return replace(moment, channels={}) if record.data["epoch"] == moment.epoch else moment


# --- checkpoints ------------------------------------------------------------------------------------------------------


def _step(text: str) -> Meaning:
    def meaning(moment: Moment, record: TraceRecord) -> Moment:
        return with_checkpoint(moment, record.checkpoint_id, step=text)

    return meaning


def _pending(moment: Moment, record: TraceRecord) -> Moment:
    data = record.data
    changes: dict[str, Any] = {"step": "triggering the sources"}
    if isinstance(data.get("tasks"), list):
        changes["expected"] = tuple(data["tasks"])
    if "avepoint" in str(data.get("snapshot", "")):
        changes["savepoint"] = True
    return with_checkpoint(moment, record.checkpoint_id, **changes)


def _triggered(moment: Moment, record: TraceRecord) -> Moment:
    moment = with_checkpoint(moment, record.checkpoint_id, step="waiting for acknowledgements")
    options = record.data.get("options") or {}
    if "avepoint" in str((options.get("snapshot_type") or {}).get("name", "")):
        moment = with_checkpoint(moment, record.checkpoint_id, savepoint=True)
    return moment


def _acknowledged(moment: Moment, record: TraceRecord) -> Moment:
    known = moment.checkpoints.get(record.checkpoint_id or -1)
    task = record.data["task"]
    if known is None or task in known.acked or known.status != PENDING:
        return moment
    return with_checkpoint(
        moment, record.checkpoint_id, acked=(*known.acked, task), step="waiting for acknowledgements"
    )


def _completed(moment: Moment, record: TraceRecord) -> Moment:
    size = record.data.get("size_bytes")
    known = moment.checkpoints.get(record.checkpoint_id or -1)
    acked = known.expected if known is not None and not known.missing else (known.acked if known else ())
    return with_checkpoint(
        moment, record.checkpoint_id, status=COMPLETED, finished_ms=record.at_ms, size_bytes=size, acked=acked, step=""
    )


def _aborted(moment: Moment, record: TraceRecord) -> Moment:
    reason = str(record.data.get("reason", "")) or "aborted"
    return with_checkpoint(
        moment, record.checkpoint_id, status=ABORTED, finished_ms=record.at_ms, reason=reason, step=""
    )


# --- what a task does with a checkpoint -------------------------------------------------------------------------------


def _own_phase(phase: str) -> Meaning:
    def meaning(moment: Moment, record: TraceRecord) -> Moment:
        return with_phase(moment, task_of(record), record.checkpoint_id, phase)

    return meaning


def _writing(moment: Moment, record: TraceRecord) -> Moment:
    """The snapshot is copied. All barriers have come, unless it is unaligned."""
    return with_phase(moment, task_of(record), record.checkpoint_id, WRITING)


def _gave_up(phase: str) -> Meaning:
    def meaning(moment: Moment, record: TraceRecord) -> Moment:
        task = task_of(record)
        return channel_state.release(with_phase(moment, task, record.checkpoint_id, phase), record.checkpoint_id, task)

    return meaning


def _notified_of_abort(moment: Moment, record: TraceRecord) -> Moment:
    task = task_of(record)
    known = moment.tasks.get(task)
    if known is None or known.phases.get(record.checkpoint_id or -1) not in (WRITING, ALIGNING):
        return moment
    return with_phase(moment, task, record.checkpoint_id, ABORTED)


def _published(moment: Moment, record: TraceRecord) -> Moment:
    return with_task(moment, task_of(record), published=record.checkpoint_id)


MEANINGS: dict[tuple[str, str], Meaning] = {
    ("command", "StartEpoch"): _start_epoch,
    ("command", "JobStatusChanged"): _job_status,
    ("command", "DeployTask"): _deploy,
    ("*", "StateAssigned"): _state_assigned,
    ("command", "TaskStateChanged"): _task_state,
    ("event", "SlotLost"): _slot_lost,
    ("*", "TaskKilled"): _task_killed,
    ("event", "CancelTask"): _task_gone,
    ("event", "EpochEnded"): _epoch_ended,
    ("command", "InitializeLocation"): _step("making its directory"),
    ("event", "LocationInitialized"): _step("asking hooks and operator coordinators"),
    ("*", "CheckpointPending"): _pending,
    ("command", "TriggerTaskCheckpoint"): _triggered,
    ("event", "AcknowledgeCheckpoint"): _acknowledged,
    ("command", "WriteMetadata"): _step("all acknowledged: writing _metadata"),
    ("command", "StoreCheckpoint"): _step("_metadata stands: adding it to the store"),
    ("*", "CheckpointCompleted"): _completed,
    ("*", "CheckpointAborted"): _aborted,
    ("event", "TriggerTaskCheckpoint"): _own_phase(ALIGNING),
    ("command", "WriteSnapshot"): _writing,
    ("command", "AcknowledgeCheckpoint"): _own_phase(ACKNOWLEDGED),
    ("command", "DeclineCheckpoint"): _gave_up(DECLINED),
    ("command", "CancelSnapshot"): _own_phase(ABORTED),
    ("event", "NotifyCheckpointAborted"): _notified_of_abort,
    ("event", "EffectsCommitted"): _published,
    ("*", "ElementQueued"): channel_state.queue,
    ("command", "SendElement"): channel_state.send,
    ("event", "ElementReceived"): channel_state.receive,
    ("*", "ElementTaken"): channel_state.taken,
    ("command", "GrantCredit"): channel_state.credit,
    ("*", "BarrierAligned"): channel_state.barrier_aligned,
    ("*", "BarrierCounted"): channel_state.barrier_counted,
    ("*", "BarrierIgnored"): channel_state.barrier_ignored,
    ("*", "EndCounted"): channel_state.end_counted,
    ("*", "BarrierPrioritized"): channel_state.barrier_prioritized,
}
"""What a record means, by role ("*": either) and kind."""

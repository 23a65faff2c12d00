"""The changes of the job, its tasks and its checkpoints that records report; `kit.run.kinds` names them.

A change is a function of the moment before a record and of the record, and returns the moment after it. The changes of
channels are in `channel_changes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kit.core.protocol.notes import (
    CheckpointAborted,
    CheckpointCompleted,
    CheckpointPending,
    CheckpointPlannedAgain,
    RegionsFailed,
    StateAssigned,
    TaskAcknowledged,
)
from kit.core.protocol.options import NO_ALIGNED_CHECKPOINT_TIMEOUT_MS
from kit.core.protocol.tasks import split_task_name
from kit.core.trace.trace import TraceRecord
from kit.run.faults import DROP_MESSAGE, FREEZE_WORKER, THAW_WORKER
from kit.run.moments import channel_changes
from kit.run.moments.job_state import (
    ABORTED,
    ACKNOWLEDGED,
    BEGUN,
    CAPTURING,
    COMPLETED,
    DECLINED,
    PENDING,
    UNHEARD,
    WRITING,
    Moment,
    RestoreMoment,
    TaskMoment,
    changed,
    drop,
    like,
    put_all,
    task_of,
    to_wait_for,
    with_checkpoint,
    with_phase,
    with_task,
)

Change = Callable[[Moment, TraceRecord], Moment]


# --- the life of the job ----------------------------------------------------------------------------------------------


def start_epoch(moment: Moment, record: TraceRecord) -> Moment:
    """Begin an epoch with new tasks and empty channels, and keep the checkpoints."""
    attempts, epoch = record.data.get("attempts") or {}, record.data["epoch"]
    tasks = {
        f"{vertex}/{subtask}": TaskMoment(attempt=attempts.get(f"{vertex}/{subtask}", epoch))
        for vertex, parallelism in record.data["parallelism"].items()
        for subtask in range(parallelism)
    }
    return changed(
        moment,
        epoch=epoch,
        tasks=like(moment.tasks, tasks),
        channels=like(moment.channels, {}),
        messages=like(moment.messages, {}),
    )


def job_status(moment: Moment, record: TraceRecord) -> Moment:
    """Enter a job status."""
    return changed(moment, job=record.data["status"], error=str(record.data.get("error") or ""))


def deploy(moment: Moment, record: TraceRecord) -> Moment:
    """Note that a task is being deployed to its worker, with the state that it restores, if any."""
    restore = record.data.get("restore")
    restored = None if restore is None else restore["checkpoint_id"]
    moment = with_task(
        moment, record.data["task"], state="DEPLOYING", attempt=record.data["attempt"], restored=restored, phases={}
    )
    return moment if restored is None else _restored(moment, RestoreMoment(moment.epoch, restored))


def _restored(moment: Moment, restore: RestoreMoment) -> Moment:
    known = ((each.epoch, each.checkpoint_id) for each in moment.restores)
    if not restore.tasks and (restore.epoch, restore.checkpoint_id) in known:
        return moment
    return changed(moment, restores=(*moment.restores, restore))


def state_assigned(moment: Moment, record: TraceRecord) -> Moment:
    """Note that the JobMaster assigned a checkpoint's state to the epoch, or to the regions, that it is about to
    start.
    """
    note = record.note(StateAssigned)
    known = moment.checkpoints.get(note.checkpoint_id)
    before = {} if known is None else known.parallelism
    restore = RestoreMoment(note.epoch, note.checkpoint_id, tuple(note.assignments), before, tuple(note.tasks))
    return _restored(moment, restore)


def regions_failed(moment: Moment, record: TraceRecord) -> Moment:
    """Note that the tasks of some regions are stopped; those that have failed or are lost stay so."""
    for task in record.note(RegionsFailed).tasks:
        known = moment.tasks.get(task)
        if known is not None and known.state != "FAILED":
            moment = with_task(moment, task, state="CANCELING", is_known_finished=False)
    return moment


def tasks_stopped(moment: Moment, record: TraceRecord) -> Moment:
    """Stop the tasks of some regions, and lose everything in transit between them; the others keep theirs."""
    tasks = set(record.data["tasks"])
    for task in tasks:
        known = moment.tasks.get(task)
        if known is not None and known.state != "FAILED":
            moment = with_task(moment, task, state="CANCELED")
    messages = {sent: message for sent, message in moment.messages.items() if message.task not in tasks}
    channels = {number: each for number, each in moment.channels.items() if each.receiver not in tasks}
    return changed(moment, messages=like(moment.messages, messages), channels=like(moment.channels, channels))


def start_tasks(moment: Moment, record: TraceRecord) -> Moment:
    """Begin another attempt of the tasks of some regions."""
    attempts = {task: attempt for task, attempt in record.data["attempts"].items() if task in moment.tasks}
    started = {task: TaskMoment(attempt=attempt) for task, attempt in attempts.items()}
    return changed(moment, tasks=put_all(moment.tasks, started))


def task_state(moment: Moment, record: TraceRecord) -> Moment:
    """Note the state that a task reports; the JobMaster learns it later."""
    task, state = record.data["task"], record.data["state"]
    known = moment.tasks.get(task)
    if known is None or known.lost or known.attempt > record.data["attempt"]:
        return moment
    return with_task(moment, task, state=state, error=record.data.get("error", ""))


def task_state_heard(moment: Moment, record: TraceRecord) -> Moment:
    """Note that the JobMaster knows a task has finished, so that no further checkpoint waits for it."""
    task = record.data["task"]
    known = moment.tasks.get(task)
    if known is None or known.attempt != record.data["attempt"] or record.data["state"] != "FINISHED":
        return moment
    return with_task(moment, task, is_known_finished=True)


def slot_lost(moment: Moment, record: TraceRecord) -> Moment:
    """Lose all tasks of a slot, except for those that have finished."""
    if record.data["epoch"] != moment.epoch:
        return moment
    for name, task in moment.tasks.items():
        if runs_there(name, record) and not task.is_known_finished:
            moment = _lost(moment, name, record.data["error"])
    return moment


def worker_frozen_or_thawed(moment: Moment, record: TraceRecord) -> Moment:
    """Freeze the tasks of a worker, which cannot notice it themselves, or let them continue."""
    for name in moment.tasks:
        if runs_there(name, record):
            moment = with_task(moment, name, frozen=record.is_a(FREEZE_WORKER))
    return moment


def runs_there(task: str, record: TraceRecord) -> bool:
    """Return True if a task runs in the slot, or at the worker, that a record is about.

    A record of an earlier version does not name the tasks: subtasks ran in the slots with their index.
    """
    data = record.data
    tasks = data.get("tasks")
    return task in tasks if tasks else split_task_name(task)[1] == data.get("slot", data.get("worker"))


def _lost(moment: Moment, name: str, error: str) -> Moment:
    """Lose a task, with everything in transit from it and to it."""
    moment = with_task(moment, name, state="FAILED", lost=True, frozen=False, error=error)
    messages = {sent: message for sent, message in moment.messages.items() if message.task != name}
    cut = {}
    for number, channel in moment.channels.items():
        if name == channel.receiver:
            cut[number] = changed(channel, queued=(), wire=(), arrived=(), held=None, awaited=None)
        elif name == channel.sender:
            cut[number] = changed(channel, queued=(), wire=())
    return changed(moment, messages=like(moment.messages, messages), channels=put_all(moment.channels, cut))


def message_lost(moment: Moment, record: TraceRecord) -> Moment:
    """Lose a message, whose command is the record's cause."""
    lost = moment.messages.get(record.cause)
    if lost is None:
        return moment
    moment = changed(moment, messages=drop(moment.messages, record.cause))
    return with_phase(moment, lost.task, lost.checkpoint_id, UNHEARD) if lost.mail == "ack" else moment


def fault(moment: Moment, record: TraceRecord) -> Moment:
    """Apply a fault of the lab that changes the moment itself; most faults show only in their consequences."""
    change = _OF_FAULTS.get(record.kind)
    return moment if change is None else change(moment, record)


_OF_FAULTS: dict[str, Change] = {
    DROP_MESSAGE: message_lost,
    FREEZE_WORKER: worker_frozen_or_thawed,
    THAW_WORKER: worker_frozen_or_thawed,
}


def task_gone(moment: Moment, record: TraceRecord) -> Moment:
    """Note that a task asked to leave has left, unless it had ended before."""
    task = moment.tasks.get(task_of(record))
    if task is None or task.state in ("FINISHED", "FAILED"):
        return moment
    return with_task(moment, task_of(record), state="CANCELED")


def epoch_ended(moment: Moment, record: TraceRecord) -> Moment:
    """End the epoch: all workers have left, and everything in transit between them is lost."""
    return changed(moment, channels=like(moment.channels, {})) if record.data["epoch"] == moment.epoch else moment


# --- checkpoints ------------------------------------------------------------------------------------------------------


def step(text: str) -> Change:
    """Return a change that enters a step of a checkpoint's life at the JobMaster, for checkpoints of this run only."""

    def change(moment: Moment, record: TraceRecord) -> Moment:
        known = record.checkpoint_id in moment.checkpoints
        return with_checkpoint(moment, record.checkpoint_id, step=text) if known else moment

    return change


def planned(moment: Moment, record: TraceRecord) -> Moment:
    """Note the plan of a checkpoint that has no number yet."""
    return changed(moment, planned=to_wait_for(moment))


def pending(moment: Moment, record: TraceRecord) -> Moment:
    """Begin to wait for the acknowledgements of these tasks."""
    note = record.note(CheckpointPending)
    changes: dict[str, Any] = {"step": "triggering the sources", "triggers": tuple(note.trigger)}
    if moment.planned:
        changes["expected"] = moment.planned
    if "avepoint" in note.snapshot:
        changes["savepoint"] = True
    return with_checkpoint(moment, note.checkpoint_id, **changes)


def planned_again(moment: Moment, record: TraceRecord) -> Moment:
    """Stop waiting for tasks that finished before the checkpoint reached them."""
    note = record.note(CheckpointPlannedAgain)
    return with_checkpoint(moment, note.checkpoint_id, expected=to_wait_for(moment), triggers=tuple(note.trigger))


def triggered(moment: Moment, record: TraceRecord) -> Moment:
    """Note that a source was asked to begin: the checkpoint waits for acknowledgements.

    The request carries the time at which the checkpoint was triggered, as Flink measures it: before its number and its
    directory existed.
    """
    moment = with_checkpoint(moment, record.checkpoint_id, step="waiting for acknowledgements")
    triggered_ms = record.data.get("timestamp_ms")
    if triggered_ms is not None and moment.began_ms <= triggered_ms <= record.at_ms:
        moment = with_checkpoint(moment, record.checkpoint_id, triggered_ms=triggered_ms)
    options = record.data.get("options") or {}
    if "avepoint" in str((options.get("snapshot_type") or {}).get("name", "")):
        moment = with_checkpoint(moment, record.checkpoint_id, savepoint=True)
    return with_checkpoint(moment, record.checkpoint_id, captures=True) if _captures(options) else moment


def _captures(options: Mapping[str, Any]) -> bool:
    """Return True if tasks may keep in-flight data: see `CheckpointOptions.needs_channel_state`."""
    timeout_ms = options.get("aligned_timeout_ms", NO_ALIGNED_CHECKPOINT_TIMEOUT_MS)
    is_timeoutable = options.get("alignment") == "ALIGNED" and 0 < timeout_ms < NO_ALIGNED_CHECKPOINT_TIMEOUT_MS
    return is_timeoutable or options.get("alignment") == "UNALIGNED"


def acknowledged(moment: Moment, record: TraceRecord) -> Moment:
    """Count one task's acknowledgement."""
    note = record.note(TaskAcknowledged)
    known = moment.checkpoints.get(note.checkpoint_id)
    task = note.task
    if known is None or task in known.acked or known.status != PENDING:
        return moment
    moment = with_phase(moment, task, note.checkpoint_id, ACKNOWLEDGED)
    return with_checkpoint(
        moment,
        note.checkpoint_id,
        acked=(*known.acked, task),
        acked_ms=(*known.acked_ms, record.at_ms),
        step="waiting for acknowledgements",
    )


def completed(moment: Moment, record: TraceRecord) -> Moment:
    """Complete a checkpoint."""
    note = record.note(CheckpointCompleted)
    known = moment.checkpoints.get(note.checkpoint_id)
    acked = known.expected if known is not None and not known.missing else (known.acked if known else ())
    return with_checkpoint(
        moment,
        note.checkpoint_id,
        status=COMPLETED,
        finished_ms=record.at_ms,
        size_bytes=note.size_bytes,
        acked=acked,
        step="",
    )


def aborted(moment: Moment, record: TraceRecord) -> Moment:
    """Abort a checkpoint."""
    note = record.note(CheckpointAborted)
    return with_checkpoint(
        moment, note.checkpoint_id, status=ABORTED, finished_ms=record.at_ms, reason=note.reason, step=""
    )


# --- what a task does with a checkpoint -------------------------------------------------------------------------------


def own_phase(phase: str) -> Change:
    """Return a change by which a task enters this phase of a checkpoint, from its own point of view."""

    def change(moment: Moment, record: TraceRecord) -> Moment:
        return with_phase(moment, task_of(record), record.checkpoint_id, phase)

    return change


def written(moment: Moment, record: TraceRecord) -> Moment:
    """Note that the state is written. In-flight data that the checkpoint also keeps may still be incomplete."""
    task, number = task_of(record), record.checkpoint_id or -1
    known, checkpoint = moment.tasks.get(task), moment.checkpoints.get(number)
    if known is None or known.phases.get(number) != WRITING or checkpoint is None or not checkpoint.captures:
        return moment
    return with_phase(moment, task, number, CAPTURING)


def declined(moment: Moment, record: TraceRecord) -> Moment:
    """Note that a task declines a checkpoint, and reads its blocked channels again."""
    task, number = task_of(record), record.checkpoint_id
    return channel_changes.release(with_phase(moment, task, number, DECLINED), number, task)


def notified_of_abort(moment: Moment, record: TraceRecord) -> Moment:
    """Abort the checkpoint at a task that was still working on it."""
    task = task_of(record)
    known = moment.tasks.get(task)
    if known is None or known.phases.get(record.checkpoint_id or -1) not in BEGUN:
        return moment
    return with_phase(moment, task, record.checkpoint_id, ABORTED)


def published(moment: Moment, record: TraceRecord) -> Moment:
    """Note the checkpoint up to which a task's output is visible to readers."""
    return with_task(moment, task_of(record), published=record.checkpoint_id)

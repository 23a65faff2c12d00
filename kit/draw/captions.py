"""One line in words for each kind of record: what just happened.

The sentences are templates by role and kind; `{who}` is the machine, `{cp}` the checkpoint, `{source}` and `{to}` the
ends of the channel, and every field of the record's data may be named. A record without a template is described by
its kind, spelled out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kit.protocol.trace import TraceRecord

CAPTIONS: dict[tuple[str, str], str] = {
    # the life of the job
    ("event", "StartJob"): "The job begins",
    ("event", "SlotLost"): "Worker {slot} is gone, and all its tasks with it: {error}",
    ("event", "EpochEnded"): "The last worker of epoch {epoch} has left",
    ("command", "StartEpoch"): "Epoch {epoch} begins: every task is started anew",
    ("command", "StopEpoch"): "All workers of epoch {epoch} are told to leave",
    ("command", "JobStatusChanged"): "The job is now {status}{because_error}",
    ("command", "DeployTask"): "{task} is deployed {with_state}",
    ("event", "DeployTask"): "{who} arrives at its worker {with_state}",
    ("command", "ReadState"): "{who} reads its state back from the checkpoint's files",
    ("event", "StateRead"): "{who} has its state again",
    ("command", "TaskStateChanged"): "{who} is {state}{because_error}",
    ("event", "TaskStateChanged"): "{who} hears that {task} is {state}{because_error}",
    ("command", "CancelTask"): "{who} tells {task} to leave",
    ("event", "CancelTask"): "{who} leaves",
    ("*", "TaskKilled"): "{task} is killed",
    ("*", "StateAssigned"): "{who} has dealt out the state of checkpoint {cp} among the tasks",
    # the coordinator
    ("event", "RequestSavepoint"): "The user asks for a savepoint",
    ("event", "RequestCheckpoint"): "The user asks for a checkpoint",
    ("event", "RequestStop"): "The user asks to stop the job with a savepoint",
    ("event", "RequestCancel"): "The user cancels the job",
    ("event", "CheckpointIdAllocated"): "The new checkpoint has number {cp}",
    ("command", "InitializeLocation"): "{who} asks for the directory of checkpoint {cp}",
    ("event", "LocationInitialized"): "The directory of checkpoint {cp} stands",
    ("*", "RequestQueued"): "{request} must wait its turn",
    ("*", "RequestRefused"): "{request} will not be carried out: {detail_or_reason}",
    ("*", "PeriodicTriggerScheduled"): "The next periodic checkpoint is due at {due_ms} ms",
    ("*", "TriggeringStarted"): "{who} begins a checkpoint",
    ("*", "TriggeringFailed"): "A checkpoint could not begin: {detail_or_reason}",
    ("*", "CheckpointPending"): "{kind_of} {cp} is pending: every task must acknowledge it",
    ("*", "CheckpointPlannedAgain"): "Tasks have finished meanwhile: {who} goes on with checkpoint {cp} without them",
    ("*", "CoordinatorAcknowledged"): "An operator coordinator gave its part of checkpoint {cp}",
    ("*", "MasterHookAcknowledged"): "The hook {hook} gave its part of checkpoint {cp}",
    ("*", "CheckpointTriggered"): "Checkpoint {cp} is triggered: {sources} begin",
    ("*", "AcknowledgeIgnored"): "An acknowledgement of checkpoint {cp} from {task} changes nothing",
    ("*", "CheckpointFinalizing"): "Checkpoint {cp} has all acknowledgements",
    ("*", "CheckpointRestored"): "The job goes back to checkpoint {cp}",
    ("*", "AllTasksRunning"): "All tasks of epoch {epoch} are running",
    ("command", "AllocateCheckpointId"): "{who} asks for the next checkpoint's number",
    ("command", "TriggerTaskCheckpoint"): "{who} asks {task} to begin checkpoint {cp}",
    ("event", "TriggerTaskCheckpoint"): "{who} begins checkpoint {cp}: it is a source, so no barrier has to come first",
    ("event", "AcknowledgeCheckpoint"): "{who} has {task}'s acknowledgement of checkpoint {cp}",
    ("*", "TaskAcknowledged"): "{task} is ticked off in checkpoint {cp}",
    ("event", "DeclineCheckpoint"): "{who} hears that {task} declined checkpoint {cp}: {why}",
    ("command", "WriteMetadata"): "All have acknowledged: {who} writes the _metadata of checkpoint {cp}",
    ("event", "MetadataWritten"): "The _metadata of checkpoint {cp} stands",
    ("event", "MetadataFailed"): "The _metadata of checkpoint {cp} could not be written: {error}",
    ("command", "StoreCheckpoint"): "{who} adds checkpoint {cp} to the store of completed checkpoints",
    ("event", "CheckpointStored"): "Checkpoint {cp} can be found again after any failure",
    ("event", "CheckpointStoreFailed"): "Checkpoint {cp} could not be stored: {error}",
    ("*", "CheckpointCompleted"): "{kind_of} {cp} is complete",
    ("*", "CheckpointAborted"): "Checkpoint {cp} is aborted: {detail_or_reason}",
    ("*", "CheckpointDiscarded"): "Checkpoint {cp} is deleted",
    ("*", "OperatorEventLost"): "What an operator coordinator said to {task} is lost",
    ("*", "CheckpointSubsumed"): "Checkpoint {cp} is replaced by a newer one",
    ("command", "NotifyCheckpointComplete"): "{who} tells {task} that checkpoint {cp} is complete",
    ("event", "NotifyCheckpointComplete"): "{who} learns that checkpoint {cp} is complete",
    ("command", "NotifyCheckpointAborted"): "{who} tells {task} that checkpoint {cp} is aborted",
    ("event", "NotifyCheckpointAborted"): "{who} learns that checkpoint {cp} is aborted",
    ("command", "DiscardState"): "Files that no checkpoint needs any more are deleted",
    ("*", "EnumerateSplits"): "{who} asks what a source has to read",
    ("*", "SplitsEnumerated"): "{who} knows what a source has to read",
    ("*", "ResolveSnapshot"): "{who} looks for the checkpoint at {path}",
    ("*", "SnapshotResolved"): "The checkpoint at {path} is found",
    ("*", "StartFailed"): "The job cannot begin: {error}",
    ("*", "CheckpointIdFailed"): "There is no number for the next checkpoint: {error}",
    ("*", "SetCheckpointIdCounter"): "The next checkpoint will have number {next_id}",
    ("*", "LocationFailed"): "The directory of checkpoint {cp} cannot be made: {error}",
    ("command", "ScheduleCoordinatorCheckpoint"): "{who} asks an operator coordinator for its part of checkpoint {cp}",
    ("event", "CheckpointOperatorCoordinator"): "An operator coordinator takes its part of checkpoint {cp}",
    ("*", "TriggerMasterHook"): "{who} asks the hook {hook} for its part of checkpoint {cp}",
    ("*", "MasterHookTriggered"): "The hook {hook} answers for checkpoint {cp}",
    ("*", "MasterHookFailed"): "The hook {hook} failed: {error}",
    ("*", "RestoreMasterHooks"): "The hooks are given their state of checkpoint {cp}",
    ("*", "MasterHooksRestored"): "The hooks have their state of checkpoint {cp}",
    ("*", "ResetMasterHooks"): "The hooks are told that the job begins again",
    ("*", "OperatorEventToTask"): "An operator coordinator speaks to {task}",
    ("command", "OperatorEventToCoordinator"): "{who} speaks to its operator coordinator",
    ("event", "OperatorEventToCoordinator"): "{task} is heard by its operator coordinator",
    ("*", "ReportCheckpointMetrics"): "{task} reports what it measured of checkpoint {cp}, which was aborted",
    ("*", "CompleteRequest"): "The user has an answer: {answer}",
    ("*", "RecoverCheckpoints"): "{who} opens the store of completed checkpoints",
    ("*", "CheckpointsRecovered"): "{who} knows what the store holds",
    ("*", "RemoveOrphans"): "{who} clears away what earlier runs left behind",
    ("*", "OrphansRemoved"): "What earlier runs left behind is gone",
    ("*", "RemoveStored"): "Checkpoint {cp} is taken out of the store",
    ("*", "StoreJobResult"): "{who} notes in the store that the job is {status}",
    ("*", "JobResultStored"): "The store knows that the job has ended",
    ("*", "StateDiscarded"): "Those files are gone",
    # a task and its snapshot
    ("*", "StateReadFailed"): "{who} could not read its state: {error}",
    ("*", "SplitReadFailed"): "{who} could not read its input: {error}",
    ("*", "EffectsFailed"): "{who} could not publish its output: {error}",
    ("*", "PruneLocalState"): "{who} deletes copies of state on its machine that nobody will restore from",
    ("*", "DropEffects"): "{who} drops output that no checkpoint will publish",
    (
        "command",
        "WriteSnapshot",
    ): "{who} has copied its state for checkpoint {cp}; the copy is being written",
    ("event", "SnapshotWritten"): "{who}'s part of checkpoint {cp} is written",
    ("event", "SnapshotFailed"): "{who}'s part of checkpoint {cp} could not be written: {error}",
    ("command", "AcknowledgeCheckpoint"): "{who} acknowledges checkpoint {cp}",
    ("command", "DeclineCheckpoint"): "{who} declines checkpoint {cp}: {why}",
    ("command", "CancelSnapshot"): "{who} stops writing its part of checkpoint {cp}",
    ("command", "CommitEffects"): "{who} publishes the output that waited for checkpoint {cp}",
    ("event", "EffectsCommitted"): "{who}'s output up to checkpoint {cp} is where its readers look",
    # channels
    ("command", "SendElement"): "{who} sends {element} to {to}{overtaking}",
    ("event", "ElementReceived"): "{element} reaches {who} from {source}",
    ("*", "ElementQueued"): "{who} keeps {element} for {to}, which has no room yet",
    ("command", "ElementTaken"): "{who} takes a mark from {source}",
    ("command", "SubmitChannelState"): "{who} keeps in-flight data for a checkpoint",
    ("*", "ChannelStateWritten"): "{who}'s in-flight data of checkpoint {cp} is written",
    ("*", "ChannelStateFailed"): "{who}'s in-flight data of checkpoint {cp} could not be written: {error}",
    ("command", "DiscardSnapshot"): "{who} removes what it had written for a checkpoint that nobody wants",
    ("command", "GrantCredit"): "{who} has room again for {source}",
    ("event", "CreditReceived"): "{who} may send more to {to}",
    ("event", "ProcessInput"): "{who} has its turn",
    ("command", "ReadSplit"): "{who} reads on at row {position}",
    ("event", "SplitRead"): "{who} has read {rows} from its source",
    ("*", "BarrierAligned"): "{who} takes barrier {cp} from {source}{and_waits}",
    ("*", "BarrierCounted"): "{who} counts barrier {cp} from {source} and reads that channel on",
    ("*", "EndCounted"): "{who} takes the end of {source} for its barrier {cp}",
    ("*", "BarrierAnnounced"): "{who} hears of barrier {cp} from {source}, which lies behind data",
    ("*", "BarrierPrioritized"): "{who} takes barrier {cp} from {source} before the data that lies ahead of it",
    ("*", "AlignmentTimedOut"): "{who} has waited long enough: from here on barrier {cp} overtakes",
    ("*", "BarrierIgnored"): "{who} drops barrier {cp} from {source}: that checkpoint is over for it",
    ("command", "ScheduleTimer"): "{who} sets its clock: {timer} at {due_ms} ms",
    ("command", "CancelTimer"): "{who} forgets its timer {timer}",
    ("event", "TimerFired"): "{who}'s clock rings: {timer}",
}
"""By role ("*": either) and kind."""

_ELEMENTS = {
    "Buffer": "{rows}",
    "RecordFragment": "part of a record",
    "CheckpointBarrier": "barrier {cp}",
    "CancelCheckpointMarker": "word that checkpoint {cp} was cancelled",
    "Watermark": "a watermark",
    "WatermarkStatus": "its idleness",
    "EndOfData": "the end of data",
    "EndOfPartition": "the end of the stream",
    "SubtaskConnectionDescriptor": "word where the next buffer was in flight",
    "EndOfChannelState": "the end of what was in flight",
}


class _Fields(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "?"


Ends = Mapping[int, tuple[str, str]]
"""Sender and receiver of each channel."""


def caption_of(record: TraceRecord, ends: Ends | None = None) -> str:
    """What this record says happened, as one line; with `ends` channels are called by the tasks they join."""
    template = CAPTIONS.get((record.role, record.kind)) or CAPTIONS.get(("*", record.kind))
    if template is None:
        about = "" if record.checkpoint_id is None else f" (checkpoint {record.checkpoint_id})"
        return f"{_who(record)}: {_spelled(record.kind)}{about}"
    return _upper_first(template.format_map(_fields(record, ends or {})))


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
        "rows": _rows(data.get("batch")),
        "with_state": _with_state(data.get("restore")),
        "and_waits": _and_waits(data.get("awaited"), ends),
        "overtaking": ", past what is still waiting" if data.get("priority") else "",
    }
    element = data.get("element")
    if isinstance(element, Mapping):
        template = _ELEMENTS.get(str(element.get("type")), "an element")
        fields["element"] = template.format(rows=_rows(element.get("batch")), cp=checkpoint_id)
    return fields


def _who(record: TraceRecord) -> str:
    name = record.machine.partition("@")[0]
    return name if "/" in name else "the JobMaster"


def _reason(data: Mapping[str, Any]) -> str:
    reason = _sentence(str(data.get("reason") or "no reason given"))
    detail = str(data.get("detail") or "")
    return f"{reason} ({detail})" if detail else reason


def _sentence(name: str) -> str:
    return name.replace("_", " ").lower() if name.isupper() else name


def listed(tasks: Sequence[str]) -> str:
    """Tasks in few words: `totals/0, 2, sink/0`; of many, how many of each vertex."""
    by_vertex: dict[str, list[str]] = {}
    for task in tasks:
        vertex, _, subtask = task.rpartition("/")
        by_vertex.setdefault(vertex, []).append(subtask)
    if len(tasks) > 8:
        return ", ".join(f"{len(subtasks)} of {vertex}" for vertex, subtasks in by_vertex.items())
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


def _spelled(kind: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", lambda match: " " + match[1].lower(), kind)


def lower_first(text: str) -> str:
    """The same caption in the middle of a sentence."""
    return text[:1].lower() + text[1:]


def _upper_first(text: str) -> str:
    """A sentence begins with a capital letter, but a task keeps its name."""
    return text if "/" in text.partition(" ")[0] else text[:1].upper() + text[1:]

"""The notes: what a machine records for readers of the trace, one class for each kind.

A note is a command that the host has nothing to do for. The kind of its record in a trace is the name of the class, and
the data of the record are the fields: `recorded` and `from_record` derive both directions from them.

- `checkpoint_id` is a field of the record itself, so the data does not repeat it.
- A field with a default is left out of the data while it has that value.
- A name that is a keyword of Python ends with an underscore here, but not in the data.

The values are JSON-like: plain values, sequences and mappings of them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, Self

from kit.core.protocol.duties import Command, Duty


@dataclass(frozen=True, slots=True, kw_only=True)
class Note(Command):
    """A note for readers of the trace about something that happened inside the machine; the host does nothing."""

    duty: ClassVar = Duty.OBSERVE

    @classmethod
    def recorded(cls, described: Mapping[str, Any]) -> dict[str, Any]:
        """Return the data of a record, given descriptions of the fields' values by name."""
        data = {}
        for name, recorded_name, default in _fields_of(cls):
            value = described[name]
            is_left_out = default is not MISSING and value == default
            if name != "checkpoint_id" and not is_left_out:
                data[recorded_name] = value
        return data

    @classmethod
    def from_record(cls, checkpoint_id: int | None, data: Mapping[str, Any]) -> Self:
        """Return the note of a record. Raises ValueError if the data lacks a field that this version records."""
        facts: dict[str, Any] = {}
        for name, recorded_name, default in _fields_of(cls):
            if name == "checkpoint_id":
                facts[name] = checkpoint_id
            elif recorded_name in data:
                facts[name] = data[recorded_name]
            elif default is MISSING:
                raise ValueError(
                    f"a record of {cls.__name__} has no {recorded_name!r}; it has {', '.join(data) or 'no data'}"
                )
        return cls(**facts)


def _fields_of(kind: type[Note]) -> _Fields:
    """Return the name of each field, its name in a record, and its default; they are looked up once."""
    known = _FIELDS.get(kind)
    if known is None:
        known = tuple((field.name, field.name.rstrip("_"), field.default) for field in fields(kind))
        _FIELDS[kind] = known
    return known


_Fields = tuple[tuple[str, str, object], ...]
_FIELDS: dict[type[Note], _Fields] = {}


# --- the life of the job ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StateAssigned(Note):
    """The state of a checkpoint is assigned to the tasks of the next epoch.

    `assignments` has a row for each task, operator and kind of state (`kit.machines.restore.assignment_rows`). With
    `tasks`, only these go back to the checkpoint, and the others of the epoch keep running.
    """

    checkpoint_id: int
    epoch: int
    path: str
    assignments: Sequence[Mapping[str, Any]]
    tasks: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AllTasksRunning(Note):
    """All tasks of an epoch are running."""

    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionsFailed(Note):
    """The regions that a failure affects are going to restart, as restart `restart`; `running` tasks keep running."""

    restart: int
    regions: Sequence[int]
    tasks: Sequence[str]
    running: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RescalePhaseChanged(Note):
    """A rescale has entered another phase of `kit.machines.job.state_transition_manager`."""

    phase: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRescaled(Note):
    """The job is redeployed from a checkpoint, if there is one, with other parallelisms."""

    checkpoint_id: int | None
    from_: Mapping[str, int]
    """The old parallelism of each vertex that changes, by name."""
    to: Mapping[str, int]
    slots: int | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleRefused(Note):
    """The job keeps its parallelism, although another one was wanted."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingForSlots(Note):
    """The job cannot be deployed: it has `slots` and needs at least `least`."""

    slots: int | None
    least: int


# --- requests for checkpoints -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodicTriggerScheduled(Note):
    """The timer of periodic checkpoints is set."""

    due_ms: int
    interval_ms: int
    min_pause_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestNote(Note):
    """Something happened to a request for a checkpoint that has no number yet."""

    request: str
    """The label of the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestQueued(RequestNote):
    """A request for a checkpoint cannot start yet."""

    position: int
    pending: int
    """The number of pending checkpoints."""
    at_most: int
    """The number of checkpoints that may be pending."""
    cleaning: int
    """The number of checkpoints that are being deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggeringStarted(RequestNote):
    """A request was chosen to start."""

    trigger: Sequence[str]
    """The tasks that will be triggered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFailed(RequestNote):
    """A request led to no checkpoint."""

    reason: str
    """The name of a `CheckpointFailureReason`."""
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRefused(RequestFailed):
    """A request for a checkpoint will not be carried out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggeringFailed(RequestFailed):
    """A request failed after it was chosen to start."""


# --- hooks and coordinators -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorReset(Note):
    """An operator coordinator goes back to a checkpoint, or starts from scratch."""

    checkpoint_id: int | None
    operator: str
    operator_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtaskReset(Note):
    """An operator coordinator is notified that a subtask goes back to a checkpoint, and the coordinator does not."""

    checkpoint_id: int | None
    operator: str
    operator_id: str
    subtask: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorNotified(Note):
    """An operator coordinator is notified that a checkpoint is "complete" or "aborted"."""

    checkpoint_id: int
    operator: str
    operator_id: str
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerNotified(Note):
    """A user-defined checkpoint listener is notified that a checkpoint is "complete" or "aborted"."""

    checkpoint_id: int
    operator: str
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorAcknowledged(Note):
    """An operator coordinator has contributed its state to a checkpoint."""

    checkpoint_id: int
    operator_id: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterHookAcknowledged(Note):
    """A master hook has contributed its state to a checkpoint."""

    checkpoint_id: int
    hook: str
    size_bytes: int


# --- the life of a checkpoint -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPending(Note):
    """A checkpoint has begun: it has a number, and waits for all that contribute to it."""

    checkpoint_id: int
    snapshot: str
    """The name of its snapshot type."""
    tasks: int
    """The number of tasks that must acknowledge it."""
    finished: int
    """The number of tasks that have finished, and take no part."""
    trigger: Sequence[str]
    coordinators: int
    hooks: int
    expires_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPlannedAgain(Note):
    """Tasks finished before a checkpoint was triggered, so it continues without them."""

    checkpoint_id: int
    gone: Sequence[str]
    tasks: int
    finished: int
    trigger: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointTriggered(Note):
    """The tasks that begin a checkpoint are asked to do so."""

    checkpoint_id: int
    tasks: Sequence[str]
    alignment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAcknowledged(Note):
    """A task's acknowledgement is counted: `acked` of `tasks` have arrived."""

    checkpoint_id: int
    task: str
    acked: int
    tasks: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportIgnored(Note):
    """A report of a task about a checkpoint changes nothing."""

    checkpoint_id: int
    task: str
    attempt: int
    result: str
    """How the checkpoint ended, or what is wrong with the report."""
    job_id: str | None = None
    """The job that the report is about, if it is another one."""
    reason: str | None = None
    """The reason for which the checkpoint was declined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgeIgnored(ReportIgnored):
    """An acknowledgement changes nothing."""

    discarded: int | None = None
    """The number of its files that are deleted, if it was looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclineIgnored(ReportIgnored):
    """A decline changes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsIgnored(ReportIgnored):
    """Metrics change nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFinalizing(Note):
    """A checkpoint has all acknowledgements; its `_metadata` has `size_bytes`."""

    checkpoint_id: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCompleted(Note):
    """A checkpoint is complete."""

    checkpoint_id: int
    snapshot: str
    size_bytes: int
    duration_ms: int
    subsumed: int | None
    """The newest checkpoint that it replaces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointAborted(Note):
    """A checkpoint failed after it had begun; `task` is to blame, if any is."""

    checkpoint_id: int
    reason: str
    detail: str
    task: str | None
    acked: int
    tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRemoved(Note):
    """A checkpoint is deleted."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSubsumed(CheckpointRemoved):
    """A checkpoint is deleted because a newer one replaces it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointDiscarded(CheckpointRemoved):
    """A checkpoint is deleted for another reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRestored(Note):
    """The job goes back to a checkpoint."""

    checkpoint_id: int
    path: str
    size_bytes: int


# --- barriers ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class BarrierNote(Note):
    """A barrier handler did something with the barrier of a channel."""

    checkpoint_id: int
    channel: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BarrierAnnounced(BarrierNote):
    """A barrier that may overtake has reached the task, with data ahead of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BarrierPrioritized(BarrierNote):
    """An announced barrier goes to the front of its channel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BarrierTaken(BarrierNote):
    """The task has one more barrier of a checkpoint."""

    awaited: Sequence[int] | None = None
    """The channels whose barriers are still missing; in an unaligned checkpoint, their data is part of it. None if
    barriers are only counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BarrierAligned(BarrierTaken):
    """A barrier is taken, and its channel is blocked while others are awaited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BarrierCounted(BarrierTaken):
    """A barrier is taken that blocks nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndCounted(BarrierTaken):
    """The end of a channel counts as its barrier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BarrierIgnored(BarrierNote):
    """A barrier is taken whose checkpoint is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignmentTimedOut(Note):
    """The alignment of a checkpoint took too long, so it continues unaligned."""

    checkpoint_id: int


# --- event time -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LateRows(Note):
    """A count of rows that arrived too late, since their task began."""

    operator: str
    split: str = ""
    rows: int
    behind_ms: int
    """The amount by which `out_of_orderness_ms` is too small."""
    watermark_ms: int
    """The watermark at the arrival of the last late row."""
    channel: int | None = None
    """The channel of the last late row. A source has none."""
    awaited: bool | None = None
    """False if event time did not wait for that channel, because it was idle."""
    inputs: Sequence[Sequence[int]] | None = None
    """The channels furthest behind, each with its watermark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsBehindWatermark(LateRows):
    """Rows that an operator which makes watermarks received behind its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LateRowsDropped(LateRows):
    """Rows that a window or a join dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitsPaused(Note):
    """Alignment of watermarks pauses all splits of a source that have rows."""

    splits: Mapping[str, int]
    """The event time of each split."""
    max_watermark_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitsResumed(Note):
    """The source reads its splits again."""


def _notes() -> tuple[type[Note], ...]:
    """Return the notes that machines give, without the classes that others derive from."""
    declared = [each for each in vars(sys.modules[__name__]).values() if isinstance(each, type)]
    return tuple(each for each in declared if issubclass(each, Note) and not each.__subclasses__())


NOTES = _notes()
"""All kinds of notes."""

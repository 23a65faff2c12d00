"""The state of a whole job after n records of its trace.

`advance(moment, record)` is a fold: it takes what was known and one more record, and gives what is known now. Nothing
but the trace is looked at, so a run on a cluster is replayed with the same code as a lesson. What a record means is
one entry of the table `MEANINGS`, by role and kind; kinds without an entry only move the clock and the caption.

A channel's content is followed through three places: the sender's queue, the wire, the receiver's queue. A detailed
trace tells of each buffer, a cluster's trace of barriers only; both go through the same code.

A `Moment` shares what did not change with the one before it, so all moments of a run may be kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kit.draw.captions import caption_of
from kit.protocol.trace import TraceRecord

WAITING, ALIGNING, WRITING, ACKNOWLEDGED, DECLINED, ABORTED = (
    "waiting",
    "aligning",
    "writing",
    "acknowledged",
    "declined",
    "aborted",
)
"""A subtask's phase in one checkpoint, from its own point of view; `waiting` has not seen a barrier yet."""

PENDING, COMPLETED = "pending", "completed"
"""A checkpoint's status, with `ABORTED`."""

_ITEM_KINDS = {
    "Buffer": "buffer",
    "CheckpointBarrier": "barrier",
    "CancelCheckpointMarker": "cancel",
    "Watermark": "watermark",
    "WatermarkStatus": "status",
    "EndOfData": "end",
    "EndOfPartition": "end",
}


@dataclass(frozen=True, slots=True)
class Item:
    """One element in a channel: the `serial`-th of its channel. `after` is the last barrier sent before it."""

    serial: int
    kind: str
    rows: int = 0
    checkpoint_id: int | None = None
    after: int | None = None
    unaligned: bool = False
    sent_as: str = ""

    def __repr__(self) -> str:
        what = self.kind if self.checkpoint_id is None else f"{self.kind} {self.checkpoint_id}"
        return f"{what}({self.rows} rows)" if self.kind == "buffer" else what


@dataclass(frozen=True, slots=True)
class ChannelMoment:
    """What lies in a channel, oldest first, and whether its receiver may read it.

    `sender` and `receiver` are tasks, known once the trace told of them.

    `held` is the barrier that blocked the channel, `awaited` the one that the receiver is still missing from it.
    """

    queued: tuple[Item, ...] = ()
    wire: tuple[Item, ...] = ()
    arrived: tuple[Item, ...] = ()
    sender: str = ""
    receiver: str = ""
    held: int | None = None
    awaited: int | None = None
    last_barrier: int | None = None
    count: int = 0

    @property
    def blocked(self) -> bool:
        """Whether the receiver leaves the channel's elements where they are."""
        return self.held is not None


@dataclass(frozen=True, slots=True)
class TaskMoment:
    """One subtask's attempt: its execution state, and its phase in every checkpoint it met.

    `turn` is the channel it took from last; inputs take turns by number.
    """

    state: str = "CREATED"
    attempt: int = 0
    phases: Mapping[int, str] = field(default_factory=dict)
    restored: int | None = None
    published: int | None = None
    error: str = ""
    lost: bool = False
    turn: int = -1

    @property
    def checkpoint(self) -> tuple[int, str] | None:
        """The newest checkpoint this task met, and its phase there."""
        newest = max(self.phases, default=None)
        return None if newest is None else (newest, self.phases[newest])


@dataclass(frozen=True, slots=True)
class CheckpointMoment:
    """One checkpoint as its coordinator sees it. `expected` are the tasks whose acknowledgement it needs."""

    checkpoint_id: int
    status: str = PENDING
    step: str = ""
    triggered_ms: int = 0
    finished_ms: int | None = None
    expected: tuple[str, ...] = ()
    acked: tuple[str, ...] = ()
    size_bytes: int | None = None
    reason: str = ""
    savepoint: bool = False
    parallelism: Mapping[str, int] = field(default_factory=dict)

    @property
    def missing(self) -> tuple[str, ...]:
        """The tasks that have not acknowledged, in order."""
        return tuple(task for task in self.expected if task not in self.acked)

    @property
    def duration_ms(self) -> int | None:
        """From the trigger to the end, once it ended."""
        return None if self.finished_ms is None else max(0, self.finished_ms - self.triggered_ms)


@dataclass(frozen=True, slots=True)
class RestoreMoment:
    """The tasks of `epoch` were given state of this checkpoint; `assignments` are the trace's `StateAssigned` rows.

    `before` is the parallelism of each vertex when the checkpoint was taken; empty when that was in another run.
    """

    epoch: int
    checkpoint_id: int
    assignments: tuple[Mapping[str, Any], ...] = ()
    before: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MessageMoment:
    """A message between the JobMaster and a task that is under way; `to_task` says in which direction."""

    kind: str
    task: str
    to_task: bool
    checkpoint_id: int | None


@dataclass(frozen=True, slots=True)
class Moment:
    """The whole job after `n` records, the last of them `record`, which `cause` led to.

    Mappings are by task name, channel number, checkpoint id and, for messages under way, the id of the record that
    sent them.
    """

    n: int = 0
    at_ms: int = 0
    epoch: int = 1
    job: str = "CREATED"
    tasks: Mapping[str, TaskMoment] = field(default_factory=dict)
    channels: Mapping[int, ChannelMoment] = field(default_factory=dict)
    checkpoints: Mapping[int, CheckpointMoment] = field(default_factory=dict)
    restores: tuple[RestoreMoment, ...] = ()
    messages: Mapping[str, MessageMoment] = field(default_factory=dict)
    record: TraceRecord | None = None
    cause: TraceRecord | None = None

    @property
    def caption(self) -> str:
        """What just happened, as one line."""
        return "Nothing has happened yet" if self.record is None else caption_of(self.record)

    @property
    def why(self) -> str:
        """What led to it, as one line; empty when nothing in the trace did."""
        return "" if self.cause is None else caption_of(self.cause)

    @property
    def pending(self) -> tuple[CheckpointMoment, ...]:
        """The checkpoints that are neither completed nor aborted."""
        return tuple(checkpoint for checkpoint in self.checkpoints.values() if checkpoint.status == PENDING)

    def __repr__(self) -> str:
        return f"Moment({self.n} records, {self.at_ms} ms, epoch {self.epoch}, {self.job}: {self.caption})"


Meaning = Callable[[Moment, TraceRecord], Moment]


def advance(moment: Moment, record: TraceRecord, cause: TraceRecord | None = None) -> Moment:
    """The moment after one more record; `cause` is the record that led to it, for the caption's "because"."""
    moment = _delivered(moment, record) if record.role == "event" else _sent(moment, record)
    meaning = MEANINGS.get((record.role, record.kind)) or MEANINGS.get(("*", record.kind))
    if meaning is not None:
        moment = meaning(moment, record)
    return replace(moment, n=moment.n + 1, at_ms=max(moment.at_ms, record.at_ms), record=record, cause=cause)


def moments(trace: Iterable[TraceRecord]) -> Iterator[Moment]:
    """Moment 0, before anything happened, and the moment after each record."""
    moment = Moment()
    yield moment
    seen: dict[str, TraceRecord] = {}
    for record in trace:
        moment = advance(moment, record, seen.get(record.cause))
        seen[record.id] = record
        yield moment


def moment_at(trace: Iterable[TraceRecord], n: int | None = None) -> Moment:
    """The moment after the first `n` records; after all of them when there are fewer or `n` is None."""
    moment = Moment()
    for moment in moments(trace):
        if moment.n == n:
            break
    return moment


def task_of(record: TraceRecord) -> str:
    """The task that a record of a task's machine is about."""
    return record.machine.partition("@")[0]


# --- small changes --------------------------------------------------------------------------------------------------


def _task(moment: Moment, name: str, **changes: Any) -> Moment:
    task = replace(moment.tasks.get(name, TaskMoment()), **changes)
    return replace(moment, tasks={**moment.tasks, name: task})


def _phase(moment: Moment, name: str, checkpoint_id: int | None, phase: str) -> Moment:
    if checkpoint_id is None or name not in moment.tasks:
        return moment
    return _task(moment, name, phases={**moment.tasks[name].phases, checkpoint_id: phase})


def _channel(moment: Moment, number: int, **changes: Any) -> Moment:
    channel = replace(moment.channels.get(number, ChannelMoment()), **changes)
    return replace(moment, channels={**moment.channels, number: channel})


def _checkpoint(moment: Moment, checkpoint_id: int | None, **changes: Any) -> Moment:
    if checkpoint_id is None:
        return moment
    known = moment.checkpoints.get(checkpoint_id)
    if known is None:
        parallelism = Counter(name.rpartition("/")[0] for name in moment.tasks)
        known = CheckpointMoment(
            checkpoint_id, triggered_ms=moment.at_ms, expected=_running(moment), parallelism=parallelism
        )
    elif known.status != PENDING:
        return moment
    return replace(moment, checkpoints={**moment.checkpoints, checkpoint_id: replace(known, **changes)})


def _running(moment: Moment) -> tuple[str, ...]:
    return tuple(name for name, task in moment.tasks.items() if task.state != "FINISHED")


# --- messages between the JobMaster and the tasks ---------------------------------------------------------------------

_TO_TASK = ("DeployTask", "TriggerTaskCheckpoint", "NotifyCheckpointComplete", "NotifyCheckpointAborted", "CancelTask")
_TO_JOB = ("AcknowledgeCheckpoint", "DeclineCheckpoint", "TaskStateChanged")


def _sent(moment: Moment, record: TraceRecord) -> Moment:
    if record.kind not in _TO_TASK and record.kind not in _TO_JOB:
        return moment
    message = MessageMoment(record.kind, record.data["task"], record.kind in _TO_TASK, record.checkpoint_id)
    if message.task in moment.tasks and moment.tasks[message.task].lost:
        return moment
    return replace(moment, messages={**moment.messages, record.id: message})


def _delivered(moment: Moment, record: TraceRecord) -> Moment:
    if record.cause not in moment.messages:
        return moment
    left = {sent: message for sent, message in moment.messages.items() if sent != record.cause}
    return replace(moment, messages=left)


# --- the life of the job ----------------------------------------------------------------------------------------------


def _start_epoch(moment: Moment, record: TraceRecord) -> Moment:
    """A new epoch begins with new tasks and empty channels; checkpoints are kept."""
    tasks = {
        f"{vertex}/{subtask}": TaskMoment(attempt=record.data["epoch"])
        for vertex, parallelism in record.data["parallelism"].items()
        for subtask in range(parallelism)
    }
    return replace(moment, epoch=record.data["epoch"], tasks=tasks, channels={}, messages={})


def _job_status(moment: Moment, record: TraceRecord) -> Moment:
    return replace(moment, job=record.data["status"])


def _deploy(moment: Moment, record: TraceRecord) -> Moment:
    restore = record.data.get("restore")
    restored = None if restore is None else restore["checkpoint_id"]
    moment = _task(
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
    return _task(moment, task, state=state, error=record.data.get("error", ""))


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
    moment = _task(moment, name, state="FAILED", lost=True, error=error)
    messages = {sent: message for sent, message in moment.messages.items() if message.task != name}
    channels = dict(moment.channels)
    for number, channel in moment.channels.items():
        if name == channel.receiver:
            channels[number] = replace(channel, queued=(), wire=(), arrived=(), held=None, awaited=None)
        elif name == channel.sender:
            channels[number] = replace(channel, queued=(), wire=())
    return replace(moment, messages=messages, channels=channels)


def _task_gone(moment: Moment, record: TraceRecord) -> Moment:
    task = moment.tasks.get(task_of(record))
    if task is None or task.state in ("FINISHED", "FAILED"):
        return moment
    return _task(moment, task_of(record), state="CANCELED")


# --- checkpoints ------------------------------------------------------------------------------------------------------


def _step(text: str) -> Meaning:
    def meaning(moment: Moment, record: TraceRecord) -> Moment:
        return _checkpoint(moment, record.checkpoint_id, step=text)

    return meaning


def _pending(moment: Moment, record: TraceRecord) -> Moment:
    data = record.data
    changes: dict[str, Any] = {"step": "triggering the sources"}
    if isinstance(data.get("tasks"), list):
        changes["expected"] = tuple(data["tasks"])
    if "avepoint" in str(data.get("snapshot", "")):
        changes["savepoint"] = True
    return _checkpoint(moment, record.checkpoint_id, **changes)


def _triggered(moment: Moment, record: TraceRecord) -> Moment:
    moment = _checkpoint(moment, record.checkpoint_id, step="waiting for acknowledgements")
    options = record.data.get("options") or {}
    if "avepoint" in str((options.get("snapshot_type") or {}).get("name", "")):
        moment = _checkpoint(moment, record.checkpoint_id, savepoint=True)
    return moment


def _acknowledged(moment: Moment, record: TraceRecord) -> Moment:
    known = moment.checkpoints.get(record.checkpoint_id or -1)
    task = record.data["task"]
    if known is None or task in known.acked or known.status != PENDING:
        return moment
    return _checkpoint(moment, record.checkpoint_id, acked=(*known.acked, task), step="waiting for acknowledgements")


def _completed(moment: Moment, record: TraceRecord) -> Moment:
    size = record.data.get("size_bytes")
    known = moment.checkpoints.get(record.checkpoint_id or -1)
    acked = known.expected if known is not None and not known.missing else (known.acked if known else ())
    return _checkpoint(
        moment, record.checkpoint_id, status=COMPLETED, finished_ms=record.at_ms, size_bytes=size, acked=acked, step=""
    )


def _aborted(moment: Moment, record: TraceRecord) -> Moment:
    reason = str(record.data.get("reason", "")) or "aborted"
    return _checkpoint(moment, record.checkpoint_id, status=ABORTED, finished_ms=record.at_ms, reason=reason, step="")


# --- what a task does with a checkpoint -------------------------------------------------------------------------------


def _own_phase(phase: str) -> Meaning:
    def meaning(moment: Moment, record: TraceRecord) -> Moment:
        return _phase(moment, task_of(record), record.checkpoint_id, phase)

    return meaning


def _writing(moment: Moment, record: TraceRecord) -> Moment:
    """The snapshot is copied: all barriers have come, so nothing waits for them any more."""
    task = task_of(record)
    moment = _phase(moment, task, record.checkpoint_id, WRITING)
    return _release(moment, record.checkpoint_id, task)


def _gave_up(phase: str) -> Meaning:
    def meaning(moment: Moment, record: TraceRecord) -> Moment:
        task = task_of(record)
        return _release(_phase(moment, task, record.checkpoint_id, phase), record.checkpoint_id, task)

    return meaning


def _notified_of_abort(moment: Moment, record: TraceRecord) -> Moment:
    task = task_of(record)
    known = moment.tasks.get(task)
    if known is None or known.phases.get(record.checkpoint_id or -1) not in (WRITING, ALIGNING):
        return moment
    return _phase(moment, task, record.checkpoint_id, ABORTED)


def _published(moment: Moment, record: TraceRecord) -> Moment:
    return _task(moment, task_of(record), published=record.checkpoint_id)


# --- channels ---------------------------------------------------------------------------------------------------------


def _item(channel: ChannelMoment, record: TraceRecord) -> Item:
    element = record.data["element"]
    kind = _ITEM_KINDS.get(element["type"], "status")
    alignment = str((element.get("options") or {}).get("alignment", ""))
    return Item(
        serial=channel.count,
        kind=kind,
        rows=(element.get("batch") or {}).get("rows", 0),
        checkpoint_id=element.get("checkpoint_id"),
        after=channel.last_barrier,
        unaligned=alignment == "UNALIGNED",
        sent_as=record.id,
    )


def _same(item: Item, element: Mapping[str, Any]) -> bool:
    kind = _ITEM_KINDS.get(element["type"], "status")
    return item.kind == kind and item.checkpoint_id == element.get("checkpoint_id")


def _queued(moment: Moment, record: TraceRecord) -> Moment:
    """An element was put into the sender's queue, in front of it when it overtakes."""
    number = record.data["channel"]
    channel = moment.channels.get(number, ChannelMoment())
    item = _item(channel, record)
    queued = (item, *channel.queued) if record.data.get("priority") else (*channel.queued, item)
    last = item.checkpoint_id if item.kind == "barrier" else channel.last_barrier
    return _channel(moment, number, queued=queued, count=channel.count + 1, last_barrier=last, sender=task_of(record))


def _send(moment: Moment, record: TraceRecord) -> Moment:
    """An element went on the wire, from the sender's queue when it lay there; a priority one overtakes the wire.

    Who sends a cancel marker waits for that checkpoint's barriers no more.
    """
    number = record.data["channel"]
    channel = moment.channels.get(number, ChannelMoment())
    waiting = next((item for item in channel.queued if _same(item, record.data["element"])), None)
    if waiting is None:
        item, count = _item(channel, record), channel.count + 1
    else:
        item, count = replace(waiting, sent_as=record.id), channel.count
    queued = tuple(other for other in channel.queued if other is not waiting)
    wire = (item, *channel.wire) if record.data.get("priority") else (*channel.wire, item)
    last = item.checkpoint_id if item.kind == "barrier" else channel.last_barrier
    return _channel(moment, number, queued=queued, wire=wire, count=count, last_barrier=last, sender=task_of(record))


def _receive(moment: Moment, record: TraceRecord) -> Moment:
    """An element left the wire; a barrier that overtakes goes to the front of the receiver's queue."""
    number = record.data["channel"]
    channel = moment.channels.get(number, ChannelMoment())
    element = record.data["element"]
    item = next((item for item in channel.wire if item.sent_as == record.cause), None) or next(
        (item for item in channel.wire if _same(item, element)), None
    )
    count = channel.count
    if item is None:
        item, count = _item(channel, record), channel.count + 1
    wire = tuple(other for other in channel.wire if other is not item)
    overtakes = item.kind == "barrier" and item.unaligned
    arrived = (item, *channel.arrived) if overtakes else (*channel.arrived, item)
    return _channel(moment, number, wire=wire, arrived=arrived, count=count, receiver=task_of(record))


def _turn(moment: Moment, record: TraceRecord) -> Moment:
    """A task takes one element, its channels in turn. A buffer or a barrier tells itself that it was taken (by the
    credit given, by the handler's note); any other element is taken here.
    """
    name = task_of(record)
    task = moment.tasks.get(name, TaskMoment())
    open_channels = sorted(
        number
        for number, channel in moment.channels.items()
        if channel.receiver == name and channel.arrived and not channel.blocked
    )
    if not open_channels:
        return moment
    number = next((number for number in open_channels if number > task.turn), open_channels[0])
    return moment if moment.channels[number].arrived[0].kind in ("buffer", "barrier") else _take(moment, name, number)


def _take(moment: Moment, task: str, number: int) -> Moment:
    moment = _channel(moment, number, arrived=moment.channels[number].arrived[1:])
    return _task(moment, task, turn=number) if task in moment.tasks else moment


def _credit(moment: Moment, record: TraceRecord) -> Moment:
    """A receiver gives a credit when it takes a buffer."""
    number = record.data["channel"]
    channel = moment.channels.get(number)
    if channel is None or not channel.arrived or channel.arrived[0].kind != "buffer":
        return moment
    return _take(moment, task_of(record), number)


def _take_barrier(moment: Moment, number: int, checkpoint_id: int | None) -> Moment:
    channel = moment.channels.get(number, ChannelMoment())
    arrived = channel.arrived
    position = next(
        (i for i, item in enumerate(arrived) if item.kind == "barrier" and item.checkpoint_id == checkpoint_id), None
    )
    if position is None:
        return moment
    receiver = channel.receiver
    moment = _channel(moment, number, arrived=arrived[:position] + arrived[position + 1 :])
    return _task(moment, receiver, turn=number) if receiver in moment.tasks else moment


def _barrier_aligned(moment: Moment, record: TraceRecord) -> Moment:
    """A barrier was taken: its channel is blocked, and those in `awaited` are what the task now waits for. With the
    last barrier all channels are free again.
    """
    number, checkpoint_id, task = record.data["channel"], record.checkpoint_id, task_of(record)
    moment = _phase(moment, task, checkpoint_id, ALIGNING)
    moment = _take_barrier(moment, number, checkpoint_id)
    awaited = record.data.get("awaited", ())
    if not awaited:
        return _release(moment, checkpoint_id, task)
    held = checkpoint_id if record.data.get("blocked", True) else None
    moment = _channel(moment, number, held=held, awaited=None, receiver=task)
    for other in awaited:
        moment = _channel(moment, other, awaited=checkpoint_id, receiver=task)
    return moment


def _barrier_ignored(moment: Moment, record: TraceRecord) -> Moment:
    return _take_barrier(moment, record.data["channel"], record.checkpoint_id)


def _release(moment: Moment, checkpoint_id: int | None, task: str) -> Moment:
    """The task is done with the checkpoint's barriers: its channels are neither blocked nor awaited for it."""
    channels = dict(moment.channels)
    for number, channel in moment.channels.items():
        if channel.receiver == task and checkpoint_id in (channel.held, channel.awaited):
            channels[number] = replace(channel, held=None, awaited=None)
    return replace(moment, channels=channels)


MEANINGS: dict[tuple[str, str], Meaning] = {
    ("command", "StartEpoch"): _start_epoch,
    ("command", "JobStatusChanged"): _job_status,
    ("command", "DeployTask"): _deploy,
    ("*", "StateAssigned"): _state_assigned,
    ("command", "TaskStateChanged"): _task_state,
    ("event", "SlotLost"): _slot_lost,
    ("*", "TaskKilled"): _task_killed,
    ("event", "CancelTask"): _task_gone,
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
    ("*", "ElementQueued"): _queued,
    ("command", "SendElement"): _send,
    ("event", "ElementReceived"): _receive,
    ("event", "ProcessInput"): _turn,
    ("command", "GrantCredit"): _credit,
    ("*", "BarrierAligned"): _barrier_aligned,
    ("*", "BarrierIgnored"): _barrier_ignored,
}
"""What a record means, by role ("*": either) and kind."""

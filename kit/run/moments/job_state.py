"""The known state of a job at one moment: plain values, and the functions that change one thing in them.

A `Moment` shares the unchanged values with the moment before it, so all moments of a run may be kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from kit.core.html_tables import NOTEBOOK_ROWS, frame_html, notebook_html
from kit.core.protocol.tasks import vertex_of
from kit.core.trace.trace import TraceRecord
from kit.run.durations import duration

if TYPE_CHECKING:
    import pandas as pd

K = TypeVar("K")
V = TypeVar("V")

WAITING, ALIGNING, WRITING, CAPTURING, SENT, ACKNOWLEDGED, UNHEARD, DECLINED, ABORTED = (
    "waiting",
    "aligning",
    "writing",
    "capturing",
    "sent",
    "acknowledged",
    "unheard",
    "declined",
    "aborted",
)
"""A subtask's phase in one checkpoint.

`waiting` has not seen a barrier yet. `capturing` has written its state, but not all of its in-flight data. `sent` has
sent its acknowledgement; it becomes `acknowledged` once the JobMaster counts it, or `unheard` if it is lost.
"""
BEGUN = (ALIGNING, WRITING, CAPTURING)
"""The phases of a subtask that has begun a checkpoint and has neither acknowledged nor declined it."""
ANSWERED = (SENT, ACKNOWLEDGED, UNHEARD, DECLINED)
"""The phases of a subtask that has sent its acknowledgement, or has declined."""

INTERRUPTED = ("RESTARTING", "FAILING", "FAILED")
"""The states of a job that processes nothing because it was interrupted, mostly by a failure."""

PENDING, COMPLETED = "pending", "completed"
"""The values of a checkpoint's status, together with `ABORTED`."""


@dataclass(frozen=True, slots=True)
class Item:
    """One element in a channel, the `serial`-th one. `after` is the last barrier sent before it."""

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
    """The content of a channel, oldest first, and the barriers that keep its receiver from reading it.

    `sender` and `receiver` are tasks, known once the trace has reported them.

    `held` is the barrier that blocked the channel, `awaited` the barrier that its receiver still waits for, and `taken`
    the last barrier that it took.
    """

    queued: tuple[Item, ...] = ()
    wire: tuple[Item, ...] = ()
    arrived: tuple[Item, ...] = ()
    sender: str = ""
    receiver: str = ""
    held: int | None = None
    awaited: int | None = None
    taken: int | None = None
    ended: bool = False
    last_barrier: int | None = None
    count: int = 0

    @property
    def blocked(self) -> bool:
        """True if the receiver does not read the channel."""
        return self.held is not None


@dataclass(frozen=True, slots=True)
class TaskMoment:
    """One subtask's attempt: its execution state, its phase in every checkpoint it met, and when each phase began."""

    state: str = "CREATED"
    attempt: int = 0
    phases: Mapping[int, str] = field(default_factory=dict)
    phases_ms: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    restored: int | None = None
    published: int | None = None
    error: str = ""
    lost: bool = False
    frozen: bool = False
    is_known_finished: bool = False
    """True if the JobMaster has learned that the task finished."""

    @property
    def checkpoint(self) -> tuple[int, str] | None:
        """The newest checkpoint this task met, and its phase there."""
        newest = max(self.phases, default=None)
        return None if newest is None else (newest, self.phases[newest])


@dataclass(frozen=True, slots=True)
class CheckpointMoment:
    """One checkpoint as its coordinator sees it.

    `expected` are the tasks whose acknowledgement it needs, and `acked_ms` is when the acknowledgement of each task in
    `acked` arrived. `triggers` are the tasks that begin when the JobMaster triggers them; the others begin with a
    barrier. It is None if the trace does not record it. `captures` is True if its tasks may keep in-flight data.
    """

    checkpoint_id: int
    status: str = PENDING
    step: str = ""
    triggered_ms: int = 0
    finished_ms: int | None = None
    expected: tuple[str, ...] = ()
    acked: tuple[str, ...] = ()
    acked_ms: tuple[int, ...] = ()
    size_bytes: int | None = None
    reason: str = ""
    savepoint: bool = False
    triggers: tuple[str, ...] | None = None
    captures: bool = False
    parallelism: Mapping[str, int] = field(default_factory=dict)

    @property
    def missing(self) -> tuple[str, ...]:
        """The tasks that have not acknowledged, in order."""
        acked = set(self.acked)
        return tuple(task for task in self.expected if task not in acked)

    @property
    def duration_ms(self) -> int | None:
        """The time from the trigger to the end, once the checkpoint has ended."""
        return None if self.finished_ms is None else max(0, self.finished_ms - self.triggered_ms)


@dataclass(frozen=True, slots=True)
class RestoreMoment:
    """A restore of this checkpoint into the tasks of `epoch`; `assignments` are the trace's `StateAssigned` rows.

    `before` is the parallelism of each vertex when the checkpoint was taken; it is empty if another run took it. With
    `tasks`, only these were restored, and the other tasks of the epoch kept running.
    """

    epoch: int
    checkpoint_id: int
    assignments: tuple[Mapping[str, Any], ...] = ()
    before: Mapping[str, int] = field(default_factory=dict)
    tasks: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"RestoreMoment(epoch {self.epoch} from checkpoint {self.checkpoint_id}, {len(self.assignments)} parts)"


@dataclass(frozen=True, slots=True)
class MessageMoment:
    """A message in transit between the JobMaster and a task: the text of its badge, and its direction."""

    mail: str
    task: str
    to_task: bool
    checkpoint_id: int | None
    since_ms: int = 0


@dataclass(frozen=True, slots=True)
class Moment:
    """The whole job after `n` records, the last of them `record`, which `cause` led to.

    Mappings are by task name, channel number, checkpoint id and, for messages in transit, the id of the record that
    sent them. `error` is why the job has failed, or is being restarted.
    """

    n: int = 0
    at_ms: int = 0
    began_ms: int = 0
    epoch: int = 1
    job: str = "CREATED"
    error: str = ""
    tasks: Mapping[str, TaskMoment] = field(default_factory=dict)
    channels: Mapping[int, ChannelMoment] = field(default_factory=dict)
    checkpoints: Mapping[int, CheckpointMoment] = field(default_factory=dict)
    restores: tuple[RestoreMoment, ...] = ()
    messages: Mapping[str, MessageMoment] = field(default_factory=dict)
    planned: tuple[str, ...] = ()
    """The tasks whose acknowledgement is needed by the checkpoint that is about to get its number."""
    record: TraceRecord | None = None
    cause: TraceRecord | None = None

    @property
    def elapsed_ms(self) -> int:
        """The time since the first record. A lab's clock begins at 0, a cluster's does not."""
        return self.at_ms - self.began_ms

    @property
    def pending(self) -> tuple[CheckpointMoment, ...]:
        """The checkpoints that are neither completed nor aborted."""
        return tuple(checkpoint for checkpoint in self.checkpoints.values() if checkpoint.status == PENDING)

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per task.

        Columns: task, state, attempt, checkpoint (the newest it met, Int64), its phase there, restored and published
        (checkpoint ids, Int64), error.
        """
        import pandas as pd

        rows = [
            (name, now.state, now.attempt, *(now.checkpoint or (None, "")), now.restored, now.published, now.error)
            for name, now in self.tasks.items()
        ]
        columns = ["task", "state", "attempt", "checkpoint", "phase", "restored", "published", "error"]
        ids = dict.fromkeys(("checkpoint", "restored", "published"), "Int64")
        return pd.DataFrame(rows, columns=columns).astype(ids)

    def _repr_html_(self) -> str:
        return notebook_html(repr(self), frame_html(self.to_pandas(), NOTEBOOK_ROWS, all_in=".to_pandas()"))

    def __repr__(self) -> str:
        return f"Moment({self.n} records, {duration(self.elapsed_ms)}, epoch {self.epoch}, {self.job})"


# --- small changes --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class Running(Moment):
    """A moment that only its fold holds: `changed` changes it in place, which makes each record cheaper."""

    def take(self, record: TraceRecord, cause: TraceRecord | None) -> None:
        """Note one more record: the clock and the caption."""
        if self.record is None:
            object.__setattr__(self, "began_ms", record.at_ms)
        if record.at_ms > self.at_ms:
            object.__setattr__(self, "at_ms", record.at_ms)
        object.__setattr__(self, "n", self.n + 1)
        object.__setattr__(self, "record", record)
        object.__setattr__(self, "cause", cause)

    @classmethod
    def of(cls, moment: Moment) -> Running:
        """Return a running copy of a moment, which itself stays unchanged."""
        return _with(cls, moment, {name: Own(getattr(moment, name)) for name in MAPPINGS})

    @classmethod
    def watched(cls, moment: Moment) -> Running:
        """Return a running copy whose mappings record which of their keys changed (`Watched`)."""
        return _with(cls, moment, {name: Watched(getattr(moment, name)) for name in MAPPINGS})

    def now(self) -> Moment:
        """Return the present moment as a value that does not change."""
        if isinstance(self.channels, Own):
            self.channels.mine.clear()
        return _with(Moment, self, {name: dict(getattr(self, name)) for name in MAPPINGS})


set_field = object.__setattr__
"""The function that sets a field of a running moment, or of a channel that the moment owns."""

MAPPINGS = ("tasks", "channels", "checkpoints", "messages")


def changed(value: V, **changes: Any) -> V:
    """Return the value with some fields replaced, like `dataclasses.replace` but at a fraction of its cost."""
    if type(value) is not Running:
        return _with(type(value), value, changes)
    for name, item in changes.items():
        object.__setattr__(value, name, item)
    return value


def _with(kind: type[V], value: Any, changes: Mapping[str, Any]) -> V:
    copy = object.__new__(kind)
    for name in value.__dataclass_fields__:
        object.__setattr__(copy, name, changes[name] if name in changes else getattr(value, name))
    return copy


class Own(dict[K, V]):
    """A mapping that only the fold holds, and changes in place because no earlier moment is read again.

    `mine` are the channels that no other moment holds. `gated` maps each receiver to the channels that may be blocked
    or awaited; it is built when it is first needed.
    """

    def __init__(self, items: Mapping[K, V] | None = None) -> None:
        super().__init__(items or {})
        self.touched: set[K] | None = None
        self.mine: set[K] = set()
        self.gated: dict[str, set[K]] | None = None


class Watched(Own[K, V]):
    """A mapping that also keeps the keys that changed until `collect_changed` returns them."""

    def __init__(self, items: Mapping[K, V] | None = None, touched: Iterable[K] = ()) -> None:
        super().__init__(items)
        self.touched: set[K] = set(touched)

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.touched.add(key)

    def __delitem__(self, key: K) -> None:
        super().__delitem__(key)
        self.touched.add(key)


def collect_changed(mapping: Mapping[K, V]) -> set[K]:
    """Return the keys that changed in a watched mapping since the last call."""
    if not isinstance(mapping, Watched):
        raise TypeError("a change has replaced a watched mapping: expected one that put, drop or like returns")
    touched, mapping.touched = mapping.touched, set()
    return touched


def only_last() -> Moment:
    """Return moment 0 of a fold that keeps only its last moment: the cost of a record does not depend on the job's
    size.
    """
    return Moment(tasks=Own(), channels=Own(), checkpoints=Own(), messages=Own())


def put(mapping: Mapping[K, V], key: K, value: V) -> Mapping[K, V]:
    """Return the mapping with a value added or replaced."""
    if not isinstance(mapping, Own):
        return {**mapping, key: value}
    mapping[key] = value
    return mapping


def drop(mapping: Mapping[K, V], key: K) -> Mapping[K, V]:
    """Return the mapping without a key that it has."""
    if not isinstance(mapping, Own):
        return {other: value for other, value in mapping.items() if other != key}
    del mapping[key]
    return mapping


def put_all(mapping: Mapping[K, V], items: Mapping[K, V]) -> Mapping[K, V]:
    """Return the mapping with several values added or replaced."""
    if not isinstance(mapping, Own):
        return {**mapping, **items}
    for key, value in items.items():
        mapping[key] = value
    return mapping


def like(mapping: Mapping[K, V], items: Mapping[K, V]) -> dict[K, V]:
    """Return a new mapping of the same kind with these items instead."""
    if isinstance(mapping, Watched):
        return Watched(items, {*mapping.touched, *mapping, *items})
    return Own(items) if isinstance(mapping, Own) else dict(items)


def with_task(moment: Moment, name: str, **changes: Any) -> Moment:
    """Return the moment with some fields of a task changed."""
    task = changed(moment.tasks.get(name, TaskMoment()), **changes)
    return changed(moment, tasks=put(moment.tasks, name, task))


def with_phase(moment: Moment, name: str, checkpoint_id: int | None, phase: str) -> Moment:
    """Return the moment with a task's phase in a checkpoint changed; an unknown task changes nothing."""
    if checkpoint_id is None or name not in moment.tasks:
        return moment
    task = moment.tasks[name]
    began_ms = {**task.phases_ms.get(checkpoint_id, {}), phase: moment.at_ms}
    phases_ms = {**task.phases_ms, checkpoint_id: began_ms}
    return with_task(moment, name, phases={**task.phases, checkpoint_id: phase}, phases_ms=phases_ms)


def with_channel(moment: Moment, number: int, **changes: Any) -> Moment:
    """Return the moment with some fields of a channel changed."""
    channels = moment.channels
    channel = channels.get(number)
    if type(moment) is not Running or not isinstance(channels, Own):
        return changed(moment, channels=put(channels, number, changed(channel or ChannelMoment(), **changes)))
    if channel is None or number not in channels.mine:
        channel = ChannelMoment() if channel is None else _with(ChannelMoment, channel, {})
        channels.mine.add(number)
        channels[number] = channel
    elif channels.touched is not None:
        channels.touched.add(number)
    for name, value in changes.items():
        set_field(channel, name, value)
    if channels.gated is not None and (channel.held is not None or channel.awaited is not None):
        channels.gated.setdefault(channel.receiver, set()).add(number)
    return moment


def gated(moment: Moment, task: str) -> Iterable[int]:
    """Return the channels of a receiver that may be blocked or awaited."""
    channels = moment.channels
    if type(moment) is not Running or not isinstance(channels, Own):  # only a running moment keeps this index
        return [number for number, channel in channels.items() if channel.receiver == task]
    if channels.gated is None:
        channels.gated = {}
        for number, channel in channels.items():
            if channel.held is not None or channel.awaited is not None:
                channels.gated.setdefault(channel.receiver, set()).add(number)
    return sorted(channels.gated.get(task, ()))


def with_checkpoint(moment: Moment, checkpoint_id: int | None, **changes: Any) -> Moment:
    """Return the moment with some fields of a pending checkpoint changed; an unknown checkpoint begins now."""
    if checkpoint_id is None:
        return moment
    known = moment.checkpoints.get(checkpoint_id)
    if known is None:
        parallelism = Counter(map(vertex_of, moment.tasks))
        known = CheckpointMoment(
            checkpoint_id, triggered_ms=moment.at_ms, expected=to_wait_for(moment), parallelism=parallelism
        )
    elif known.status != PENDING:
        return moment
    return changed(moment, checkpoints=put(moment.checkpoints, checkpoint_id, changed(known, **changes)))


def to_wait_for(moment: Moment) -> tuple[str, ...]:
    """Return the tasks that a checkpoint planned now must wait for: all that the JobMaster considers running."""
    return tuple(name for name, task in moment.tasks.items() if not task.is_known_finished)


def lacks_barrier(channel: ChannelMoment, checkpoint_id: int) -> bool:
    """Return True if the channel has not brought the barrier of a checkpoint and may still do so."""
    return not channel.ended and (channel.taken is None or channel.taken < checkpoint_id)


def task_of(record: TraceRecord) -> str:
    """Return the task that a record of a task's machine is about."""
    return record.machine.partition("@")[0]


def is_of_the_job_master(record: TraceRecord) -> bool:
    """Return True if the JobMaster took the event or gave the command, rather than a task or a slot's machine."""
    return record.machine == "job"

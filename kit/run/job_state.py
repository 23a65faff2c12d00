"""What is known of a job at one moment: plain values, and the ways to change one thing in them.

A `Moment` shares what did not change with the one before it, so all moments of a run may be kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar

from kit.core.protocol.trace import TraceRecord
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
"""A subtask's phase in one checkpoint. `waiting` has not seen a barrier yet; `capturing` has written its state, but not
all of its in-flight data; `sent` has sent its acknowledgement, `acknowledged` is one that the JobMaster has counted,
`unheard` one that is lost.
"""
BEGUN = (ALIGNING, WRITING, CAPTURING)
"""The phases of a subtask that has begun a checkpoint and has not answered for it."""
ANSWERED = (SENT, ACKNOWLEDGED, UNHEARD, DECLINED)
"""The phases of a subtask that has sent its acknowledgement, or has declined."""

PENDING, COMPLETED = "pending", "completed"
"""A checkpoint's status, with `ABORTED`."""


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
    """What is in a channel, oldest first, and whether its receiver may read it.

    `sender` and `receiver` are tasks, known once the trace told of them.

    `held` is the barrier that blocked the channel, `awaited` the one that the receiver is still missing from it,
    `taken` the last one that it took.
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
        """Whether the receiver leaves the channel's elements where they are."""
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
    """The JobMaster has heard that it finished."""

    @property
    def checkpoint(self) -> tuple[int, str] | None:
        """The newest checkpoint this task met, and its phase there."""
        newest = max(self.phases, default=None)
        return None if newest is None else (newest, self.phases[newest])


@dataclass(frozen=True, slots=True)
class CheckpointMoment:
    """One checkpoint as its coordinator sees it. `expected` are the tasks whose acknowledgement it needs, `acked_ms` is
    when it heard from each of `acked`. `triggers` are the tasks that begin when the JobMaster says so; the others begin
    with a barrier. None where the trace does not say so. `captures`: its tasks may keep in-flight data.
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

    def __repr__(self) -> str:
        return f"RestoreMoment(epoch {self.epoch} from checkpoint {self.checkpoint_id}, {len(self.assignments)} parts)"


@dataclass(frozen=True, slots=True)
class MessageMoment:
    """A message between the JobMaster and a task that is under way: what its badge says, and in which direction."""

    mail: str
    task: str
    to_task: bool
    checkpoint_id: int | None
    since_ms: int = 0


@dataclass(frozen=True, slots=True)
class Moment:
    """The whole job after `n` records, the last of them `record`, which `cause` led to.

    Mappings are by task name, channel number, checkpoint id and, for messages under way, the id of the record that
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
    """The tasks whose acknowledgement the checkpoint needs that is about to get its number."""
    record: TraceRecord | None = None
    cause: TraceRecord | None = None

    @property
    def elapsed_ms(self) -> int:
        """Time since the first record; a lab's clock begins at 0, a cluster's at some date."""
        return self.at_ms - self.began_ms

    @property
    def pending(self) -> tuple[CheckpointMoment, ...]:
        """The checkpoints that are neither completed nor aborted."""
        return tuple(checkpoint for checkpoint in self.checkpoints.values() if checkpoint.status == PENDING)

    def to_pandas(self) -> pd.DataFrame:
        """One row per task: task, state, attempt, checkpoint (the newest it met, Int64) and its phase there, restored
        and published (checkpoint ids, Int64), error.
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
        table = self.to_pandas()
        return f"<p>{escape(repr(self))}</p>{table.astype(object).where(table.notna(), '').to_html(index=False)}"

    def __repr__(self) -> str:
        return f"Moment({self.n} records, {duration(self.elapsed_ms)}, epoch {self.epoch}, {self.job})"


# --- small changes --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class Running(Moment):
    """The moment of a fold that nobody else holds: `changed` changes it in place, so a record costs a fraction."""

    def take(self, record: TraceRecord, cause: TraceRecord | None) -> None:
        """One more record has come: the clock and the caption."""
        if self.record is None:
            object.__setattr__(self, "began_ms", record.at_ms)
        if record.at_ms > self.at_ms:
            object.__setattr__(self, "at_ms", record.at_ms)
        object.__setattr__(self, "n", self.n + 1)
        object.__setattr__(self, "record", record)
        object.__setattr__(self, "cause", cause)

    @classmethod
    def of(cls, moment: Moment) -> Running:
        """The same moment, to go on from; that one stays as it is."""
        return _with(cls, moment, {name: Own(getattr(moment, name)) for name in MAPPINGS})

    @classmethod
    def watched(cls, moment: Moment) -> Running:
        """The same, whose mappings know what changed in them (`Watched`)."""
        return _with(cls, moment, {name: Watched(getattr(moment, name)) for name in MAPPINGS})

    def now(self) -> Moment:
        """The moment as it is, for good."""
        if isinstance(self.channels, Own):
            self.channels.mine.clear()
        return _with(Moment, self, {name: dict(getattr(self, name)) for name in MAPPINGS})


put_in_place = object.__setattr__
"""Sets a field of a running moment, or of a channel that is its own."""

MAPPINGS = ("tasks", "channels", "checkpoints", "messages")


def changed(value: V, **changes: Any) -> V:
    """The value with other contents of some fields: `dataclasses.replace`, at a fraction of its cost."""
    if type(value) is not Running:
        return _with(type(value), value, changes)
    for name, item in changes.items():
        object.__setattr__(value, name, item)
    return value


def _with(kind: type[V], value: Any, changes: Mapping[str, Any]) -> V:
    made = object.__new__(kind)
    for name in value.__dataclass_fields__:
        object.__setattr__(made, name, changes[name] if name in changes else getattr(value, name))
    return made


class Own(dict[K, V]):
    """A mapping that nobody but the fold holds: it is changed in place, as no earlier moment is looked at again.

    Of the channels, those in `mine` nobody else holds either. `gated` has, by receiver, the channels that may be
    blocked or awaited; it is made when it is first asked for.
    """

    def __init__(self, items: Mapping[K, V] | None = None) -> None:
        super().__init__(items or {})
        self.touched: set[K] | None = None
        self.mine: set[K] = set()
        self.gated: dict[str, set[K]] | None = None


class Watched(Own[K, V]):
    """One that also keeps the keys of what changed in it until somebody takes them."""

    def __init__(self, items: Mapping[K, V] | None = None, touched: Iterable[K] = ()) -> None:
        super().__init__(items)
        self.touched: set[K] = set(touched)

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.touched.add(key)

    def __delitem__(self, key: K) -> None:
        super().__delitem__(key)
        self.touched.add(key)


def taken(mapping: Mapping[K, V]) -> set[K]:
    """The keys of what changed in a watched mapping since this was last asked."""
    if not isinstance(mapping, Watched):
        raise TypeError("a meaning has put another mapping in place of a watched one: expected put, drop or like")
    touched, mapping.touched = mapping.touched, set()
    return touched


def only_last() -> Moment:
    """Moment 0 of a fold that keeps its last moment only: a record costs the same however large the job is."""
    return Moment(tasks=Own(), channels=Own(), checkpoints=Own(), messages=Own())


def put(mapping: Mapping[K, V], key: K, value: V) -> Mapping[K, V]:
    """The mapping with one more, or another, value."""
    if not isinstance(mapping, Own):
        return {**mapping, key: value}
    mapping[key] = value
    return mapping


def drop(mapping: Mapping[K, V], key: K) -> Mapping[K, V]:
    """The mapping without a key that it has."""
    if not isinstance(mapping, Own):
        return {other: value for other, value in mapping.items() if other != key}
    del mapping[key]
    return mapping


def put_all(mapping: Mapping[K, V], items: Mapping[K, V]) -> Mapping[K, V]:
    """The mapping with several more, or other, values."""
    if not isinstance(mapping, Own):
        return {**mapping, **items}
    for key, value in items.items():
        mapping[key] = value
    return mapping


def like(mapping: Mapping[K, V], items: Mapping[K, V]) -> dict[K, V]:
    """These items instead of a mapping's, in a new one of its kind."""
    if isinstance(mapping, Watched):
        return Watched(items, {*mapping.touched, *mapping, *items})
    return Own(items) if isinstance(mapping, Own) else dict(items)


def with_task(moment: Moment, name: str, **changes: Any) -> Moment:
    """The moment with these values changed for a task."""
    task = changed(moment.tasks.get(name, TaskMoment()), **changes)
    return changed(moment, tasks=put(moment.tasks, name, task))


def with_phase(moment: Moment, name: str, checkpoint_id: int | None, phase: str) -> Moment:
    """The moment with a task's phase in a checkpoint changed; nothing for a task that is not known."""
    if checkpoint_id is None or name not in moment.tasks:
        return moment
    task = moment.tasks[name]
    began_ms = {**task.phases_ms.get(checkpoint_id, {}), phase: moment.at_ms}
    phases_ms = {**task.phases_ms, checkpoint_id: began_ms}
    return with_task(moment, name, phases={**task.phases, checkpoint_id: phase}, phases_ms=phases_ms)


def with_channel(moment: Moment, number: int, **changes: Any) -> Moment:
    """The moment with these values changed for a channel."""
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
        put_in_place(channel, name, value)
    if channels.gated is not None and (channel.held is not None or channel.awaited is not None):
        channels.gated.setdefault(channel.receiver, set()).add(number)
    return moment


def gated(moment: Moment, task: str) -> Iterable[int]:
    """The channels of a receiver that may be blocked or awaited."""
    channels = moment.channels
    if type(moment) is not Running or not isinstance(channels, Own):  # only a running moment keeps the note of them
        return [number for number, channel in channels.items() if channel.receiver == task]
    if channels.gated is None:
        channels.gated = {}
        for number, channel in channels.items():
            if channel.held is not None or channel.awaited is not None:
                channels.gated.setdefault(channel.receiver, set()).add(number)
    return sorted(channels.gated.get(task, ()))


def with_checkpoint(moment: Moment, checkpoint_id: int | None, **changes: Any) -> Moment:
    """The moment with these values changed for a checkpoint that has not ended; one not met before begins now."""
    if checkpoint_id is None:
        return moment
    known = moment.checkpoints.get(checkpoint_id)
    if known is None:
        parallelism = Counter(name.rpartition("/")[0] for name in moment.tasks)
        known = CheckpointMoment(
            checkpoint_id, triggered_ms=moment.at_ms, expected=to_wait_for(moment), parallelism=parallelism
        )
    elif known.status != PENDING:
        return moment
    return changed(moment, checkpoints=put(moment.checkpoints, checkpoint_id, changed(known, **changes)))


def to_wait_for(moment: Moment) -> tuple[str, ...]:
    """The tasks whose acknowledgement a checkpoint needs that is planned now: all that the JobMaster takes to run."""
    return tuple(name for name, task in moment.tasks.items() if not task.is_known_finished)


def lacks_barrier(channel: ChannelMoment, checkpoint_id: int) -> bool:
    """Return True if the channel has not brought the barrier of a checkpoint and may still do so."""
    return not channel.ended and (channel.taken is None or channel.taken < checkpoint_id)


def task_of(record: TraceRecord) -> str:
    """The task that a record of a task's machine is about."""
    return record.machine.partition("@")[0]


def is_of_the_job_master(record: TraceRecord) -> bool:
    """Whether the JobMaster took the event or gave the command: neither a task did, nor the machine of a slot."""
    return record.machine == "job"

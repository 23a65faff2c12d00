"""Everything that travelled in a run, and when: elements in channels, messages, and each checkpoint's cut.

The cut of a checkpoint is the moment, on each task, at which its state was copied (Chandy and Lamport, "Distributed
snapshots", 1985). An element is in flight if it was sent before its sender's cut and taken after its receiver's: unless
the checkpoint keeps it, a restore would lose it. An element that was sent after its sender's cut and taken before its
receiver's is counted twice after a restore.

Only the trace is read. A cluster's trace records barriers only, a lab's records every buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from kit.core.protocol.notes import TaskAcknowledged
from kit.core.trace.trace import TraceRecord
from kit.run.captions import caption_of
from kit.run.checkpoint_path import Path, PathStep
from kit.run.kinds import kind_of
from kit.run.moments import job_changes
from kit.run.moments.job_state import (
    PENDING,
    ChannelMoment,
    Item,
    Moment,
    Running,
    is_of_the_job_master,
    task_of,
)
from kit.run.moments.moment import fold
from kit.run.reading import Reading, reading_of
from kit.run.stage import stage_for
from kit.run.steps import event_of
from kit.run.uncollected import uncollected

if TYPE_CHECKING:
    import pandas as pd


class Instant(NamedTuple):
    """The `n`-th record of the run, causes before effects, and its time. Instants are ordered by `n`."""

    n: int
    at_ms: int


class Crossing(Enum):
    """The position of an element relative to a checkpoint's cut; the value is the text of the legend."""

    BEFORE = "its effect is in the checkpoint"
    IN_FLIGHT = "crosses the cut: sent before it, taken after it"
    AFTER = "not in the checkpoint"
    AGAINST = "against the cut: sent after it, taken before it, so repeated by a restore"


@dataclass(slots=True)
class Cut:
    """The instants at which each task copied its state for one checkpoint."""

    epoch: int
    instants: dict[str, Instant] = field(default_factory=dict)


@dataclass(slots=True)
class Journey:
    """One element's way from its sender to its receiver.

    `queued` is when it entered the sender's queue, `sent` when it left that queue, `received` when it reached the
    receiver's queue, and `taken` when the receiver took it. Each is None for what has not happened.
    """

    epoch: int
    channel: int
    kind: str
    rows: int
    checkpoint_id: int | None
    sender: str = ""
    receiver: str = ""
    unaligned: bool = False
    queued: Instant | None = None
    sent: Instant | None = None
    received: Instant | None = None
    taken: Instant | None = None
    lost: Instant | None = None
    """When the element was lost with its tasks."""

    @property
    def over(self) -> Instant | None:
        """When the element was taken, or lost."""
        return self.taken or self.lost

    def crossing(self, cut: Cut | None) -> Crossing | None:
        """Return the element's position relative to a cut. This is the only place that decides it.

        The position is final once both tasks have copied their state. What is sent later is AFTER the cut.

        The position is None in three cases: the cut is of another epoch; a task has not copied its state; or the
        element was lost before its receiver did so, because a region restarted within the epoch.
        """
        if cut is None or cut.epoch != self.epoch or self.queued is None:
            return None
        sender, receiver = cut.instants.get(self.sender), cut.instants.get(self.receiver)
        if sender is None or receiver is None or (self.lost is not None and self.lost < receiver):
            return None
        sent_before, taken_before = self.queued < sender, self.taken is not None and self.taken < receiver
        if sent_before:
            return Crossing.BEFORE if taken_before else Crossing.IN_FLIGHT
        return Crossing.AGAINST if taken_before else Crossing.AFTER


@dataclass(slots=True)
class Letter:
    """A message between the JobMaster and a task; `mail` is a short name of its subject."""

    mail: str
    task: str
    to_task: bool
    checkpoint_id: int | None
    sent: Instant
    received: Instant | None = None
    lost: Instant | None = None
    id: str = ""
    """The id of the record that sent the message."""

    @property
    def over(self) -> Instant | None:
        """When the message arrived, or was lost."""
        return self.received or self.lost


@dataclass(slots=True)
class Life:
    """The instants at which a checkpoint was triggered, and at which it was complete or aborted."""

    triggered: Instant
    finished: Instant | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """An incident of the job: `kind` is "failure", "restore" or "fault", and `text` describes it in one line."""

    kind: str
    text: str
    at: Instant


@dataclass(slots=True)
class Journeys:
    """Everything that travelled in a run; `cuts` and `lives` are by checkpoint."""

    elements: list[Journey] = field(default_factory=list)
    letters: list[Letter] = field(default_factory=list)
    cuts: dict[int, Cut] = field(default_factory=dict)
    paths: dict[tuple[int, str], Path] = field(default_factory=dict)
    """Each subtask's path through each checkpoint."""
    losses: list[tuple[str, Instant]] = field(default_factory=list)
    """The tasks that were lost or failed, and when."""
    lives: dict[int, Life] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)
    epochs: dict[int, Instant] = field(default_factory=dict)
    """When each epoch was deployed."""
    ends: dict[int, Mapping[int, tuple[str, str]]] = field(default_factory=dict)
    """The sender and the receiver of each epoch's channels, if its shape is known."""
    times: list[int] = field(default_factory=list)
    """The time of each record in ms, in the order of the run."""
    last: Moment = field(default_factory=Moment)
    reading: Reading = field(default_factory=Reading, repr=False)
    """The reading of the run in which the journeys were found."""

    def epoch_at(self, at: Instant) -> int:
        """Return the epoch that ran at an instant."""
        return max((epoch for epoch, since in self.epochs.items() if since.n <= at.n), default=self.last.epoch)

    def to_pandas(self, checkpoint: int | None = None) -> pd.DataFrame:
        """Return one row per element.

        Columns: epoch, channel, sender, receiver, kind, rows, checkpoint_id (of a barrier), queued_ms, sent_ms,
        received_ms, taken_ms (Int64). Given a checkpoint, `crossing` is BEFORE, IN_FLIGHT, AFTER or AGAINST its cut, or
        "" for None: see `Journey.crossing`.
        """
        import pandas as pd

        cut = None if checkpoint is None else self.cuts.get(checkpoint)
        rows = []
        for each in self.elements:
            crossing = each.crossing(cut)
            times = (each.queued, each.sent, each.received, each.taken)
            ends = (each.epoch, each.channel, each.sender, each.receiver)
            what = (each.kind, each.rows, each.checkpoint_id)
            when = (None if instant is None else instant.at_ms for instant in times)
            rows.append((*ends, *what, *when, "" if crossing is None else crossing.name))
        times_of = ["queued_ms", "sent_ms", "received_ms", "taken_ms"]
        columns = ["epoch", "channel", "sender", "receiver", "kind", "rows", "checkpoint_id", *times_of, "crossing"]
        frame = pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(("checkpoint_id", *times_of), "Int64"))
        return frame.drop(columns=[] if checkpoint is not None else ["crossing"])

    def __repr__(self) -> str:
        return f"Journeys({len(self.elements)} elements, {len(self.letters)} messages, {len(self.cuts)} checkpoints)"


def journeys(run: Any) -> Journeys:
    """Return everything that travelled in a Lab, a SparkJob or a Trace, from its beginning on."""
    return Follower().follow(run)


class Follower:
    """Finds what travels in a run, record by record, when an element changes its place.

    Each `follow` goes through what is new in the run's reading. If the run took another course, or an earlier moment is
    wanted, the follower begins again and counts that in `edition`.
    """

    def __init__(self) -> None:
        self.edition = -1
        self._reading = Reading()
        self._begin()

    def _begin(self) -> None:
        """Forget everything that travelled."""
        self.edition += 1
        self.found = Journeys()
        self._moment = Running.of(Moment())
        self._ends: Mapping[int, tuple[str, str]] = {}
        """The sender and the receiver of the current epoch's channels, if its shape is known."""
        self._here: dict[tuple[int, int], Journey] = {}
        """The current epoch's elements that have not been taken, by channel and serial."""
        self._mail: dict[str, Letter] = {}
        self._epoch = 0
        self._before: _Places = _places(None)

    def follow(self, run: Any, n: int | None = None) -> Journeys:
        """Return everything that has travelled in a run up to now, or within its first `n` records."""
        reading = reading_of(run)
        moment = self._moment
        if reading.shared_with(self._reading, moment.n) < moment.n or (n is not None and n < moment.n):
            self._begin()
            moment = self._moment
        self._reading = self.found.reading = reading
        try:
            with uncollected():
                for record in reading.records[moment.n : n]:
                    self._see_before(record)
                    fold(moment, (record,))
                    self._see(record)
        except BaseException:  # an interrupt may have left a record half seen
            self._begin()
            raise
        self.found.last = moment
        return self.found

    def _see_before(self, record: TraceRecord) -> None:
        """Keep the places of a channel's elements before the record changes them."""
        number = record.data.get("channel")
        self._before = _places(self._moment.channels.get(number) if isinstance(number, int) else None)

    def _see(self, record: TraceRecord) -> None:
        """Note what the record moved."""
        found, before, moment = self.found, self._before, self._moment
        number, checkpoint_id = record.data.get("channel"), record.checkpoint_id
        found.last = moment
        now = Instant(moment.n, record.at_ms)
        found.times.append(record.at_ms)
        if moment.epoch != self._epoch:
            self._enter(moment.epoch, now)
        if number is not None and number in moment.channels:
            self._moved(number, before, moment.channels[number], now)
        self._letters(moment, record, now)
        if checkpoint_id is not None:
            self._live(checkpoint_id, now)
        kind = kind_of(record)
        side = kind.side(record.role)
        if side is None:
            return
        if side.path is not None and checkpoint_id is not None:
            self._path(side.path, checkpoint_id, record, now)
        if side.change is job_changes.slot_lost:
            found.losses += [(name, now) for name, task in moment.tasks.items() if task.lost]
        elif side.change is job_changes.epoch_ended:
            self._lose(now)
        elif side.change is job_changes.tasks_stopped:
            self._lose(now, set(record.data["tasks"]))
        if record.role == "fault" or kind.mark in ("failure", "restore"):
            what = "fault" if record.role == "fault" else kind.mark
            found.marks.append(Mark(what, caption_of(record, self._ends), now))

    def _enter(self, epoch: int, now: Instant) -> None:
        self._lose(now)
        self._epoch = epoch
        self.found.epochs[epoch] = now
        known = self._reading.known
        self._ends = stage_for(known, epoch).ends() if known else {}
        self.found.ends[epoch] = self._ends

    def _lose(self, now: Instant, of: Set[str] | None = None) -> None:
        """Lose everything that is still in transit: in the whole job, at the end of an epoch, or `of` these tasks."""
        lost = {place: each for place, each in self._here.items() if of is None or each.receiver in of}
        for place, journey in lost.items():
            journey.lost = now
            del self._here[place]
        unheard = {sent: each for sent, each in self._mail.items() if of is None or each.task in of}
        for sent, letter in unheard.items():
            letter.lost = now
            del self._mail[sent]

    def _moved(self, number: int, before: _Places, after: ChannelMoment, now: Instant) -> None:
        queued, wire, arrived = before
        if queued is not after.queued:
            for item in _new(queued, after.queued):
                self._journey(number, after, item, now)
        if wire is not after.wire:
            for item in _new(wire, after.wire):
                journey = self._journey(number, after, item, now)
                journey.sent, journey.unaligned = now, item.unaligned
        if arrived is not after.arrived:
            for item in _new(arrived, after.arrived):
                self._journey(number, after, item, now).received = now
            for item in _new(after.arrived, arrived):
                self._journey(number, after, item, now).taken = now
                del self._here[number, item.serial]

    def _journey(self, number: int, channel: ChannelMoment, item: Item, now: Instant) -> Journey:
        journey = self._here.get((number, item.serial))
        if journey is None:
            ends = self._ends.get(number, (channel.sender, channel.receiver))
            journey = Journey(self._epoch, number, item.kind, item.rows, item.checkpoint_id, *ends, queued=now)
            self._here[number, item.serial] = journey
            self.found.elements.append(journey)
        return journey

    def _letters(self, moment: Moment, record: TraceRecord, now: Instant) -> None:
        sent = moment.messages.get(record.id)
        if sent is not None:
            letter = Letter(sent.mail, sent.task, sent.to_task, sent.checkpoint_id, now, id=record.id)
            self._mail[record.id] = letter
            self.found.letters.append(letter)
        elif record.cause in self._mail:
            if record.role == "event":
                self._mail.pop(record.cause).received = now
            elif record.role == "fault" and record.cause not in moment.messages:
                self._mail.pop(record.cause).lost = now

    def _live(self, checkpoint_id: int, now: Instant) -> None:
        known = self.found.last.checkpoints.get(checkpoint_id)
        if known is None:
            return
        life = self.found.lives.setdefault(checkpoint_id, Life(now))
        if life.finished is None and known.status != PENDING:
            life.finished = now

    def _path(self, step: PathStep, checkpoint_id: int, record: TraceRecord, now: Instant) -> None:
        task = record.note(TaskAcknowledged).task if is_of_the_job_master(record) else task_of(record)
        path = self.found.paths.setdefault((checkpoint_id, task), Path())
        ended = len(path.ends)
        step(path, record)
        event = event_of(record)
        if event == path.event and len(path.ends) > ended:  # one event ends its phases at once, at its last record
            last = max(path.instants.values())
            path.instants = {phase: now if at == last else at for phase, at in path.instants.items()}
        if len(path.ends) > ended:
            path.event = event
        for phase in path.ends:
            path.instants.setdefault(phase, now)
        if step is Path.copied:
            self.found.cuts.setdefault(checkpoint_id, Cut(self._epoch)).instants.setdefault(task, now)


_Places = tuple[tuple[Item, ...], tuple[Item, ...], tuple[Item, ...]]
"""The content of a channel: in the sender's queue, on the wire, in the receiver's queue."""


def _places(channel: ChannelMoment | None) -> _Places:
    """Copy the places out of a channel, because the fold changes it in place."""
    return ((), (), ()) if channel is None else (channel.queued, channel.wire, channel.arrived)


def _new(before: tuple[Item, ...], after: tuple[Item, ...]) -> Iterator[Item]:
    """Return the items that were added."""
    known = {item.serial for item in before}
    return (item for item in after if item.serial not in known)

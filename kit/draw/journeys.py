"""What travelled in a run, and when: elements in channels, messages, and each checkpoint's cut through the tasks.

The cut of a checkpoint is the moment, on each task, at which its state was copied (Chandy and Lamport, "Distributed
snapshots", 1985). An element that was handed over before its sender's cut and taken after its receiver's is in flight:
unless the checkpoint keeps it, a restore would lose it. One that was handed over after its sender's cut and taken
before its receiver's is counted twice after a restore. Nothing but the trace is looked at. A cluster's trace tells of
barriers only, a lab's of every buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain
from typing import Any, NamedTuple

import pandas as pd

from kit.draw import meanings
from kit.draw.checkpoint_path import Path
from kit.draw.job_state import ChannelMoment, Item, Moment, is_of_the_job_master, only_last, task_of
from kit.draw.kinds import kind_of
from kit.draw.moment import advance
from kit.draw.run import Run, run_of
from kit.draw.stage import stage_for
from kit.draw.steps import steps
from kit.protocol.trace import TraceRecord, led_by


class Instant(NamedTuple):
    """The `n`-th record of the run, causes before effects, and its time. Instants are ordered by `n`."""

    n: int
    at_ms: int


class Crossing(Enum):
    """Where an element lies with respect to a checkpoint's cut; the value is what a legend says."""

    BEFORE = "its effect is in the checkpoint"
    IN_FLIGHT = "crosses the cut: sent before it, taken after it"
    AFTER = "not in the checkpoint"
    AGAINST = "against the cut: sent after it, taken before it, so repeated by a restore"


@dataclass(slots=True)
class Cut:
    """When each task copied its state for one checkpoint."""

    epoch: int
    instants: dict[str, Instant] = field(default_factory=dict)


@dataclass(slots=True)
class Journey:
    """One element's way from the task that made it to the one that took it.

    `made` is when it was put into the sender's queue, `sent` when it left that, `received` when it reached the
    receiver's queue, `taken` when that was its turn; None for what did not happen, or not yet.
    """

    epoch: int
    channel: int
    kind: str
    rows: int
    checkpoint_id: int | None
    sender: str = ""
    receiver: str = ""
    unaligned: bool = False
    made: Instant | None = None
    sent: Instant | None = None
    received: Instant | None = None
    taken: Instant | None = None
    lost: Instant | None = None
    """When it went down with its tasks."""

    @property
    def over(self) -> Instant | None:
        """When it was taken, or lost."""
        return self.taken or self.lost

    def crossing(self, cut: Cut | None) -> Crossing | None:
        """Where it lies with respect to a cut; None when that is of another epoch, or one of its two tasks has none."""
        if cut is None or cut.epoch != self.epoch or self.made is None:
            return None
        sender, receiver = cut.instants.get(self.sender), cut.instants.get(self.receiver)
        if sender is None or receiver is None:
            return None
        sent_before, taken_before = self.made < sender, self.taken is not None and self.taken < receiver
        if sent_before:
            return Crossing.BEFORE if taken_before else Crossing.IN_FLIGHT
        return Crossing.AGAINST if taken_before else Crossing.AFTER


@dataclass(slots=True)
class Letter:
    """A message between the JobMaster and a task; `mail` says in a word what it is about."""

    mail: str
    task: str
    to_task: bool
    checkpoint_id: int | None
    sent: Instant
    received: Instant | None = None
    lost: Instant | None = None

    @property
    def over(self) -> Instant | None:
        """When it arrived, or was lost."""
        return self.received or self.lost


@dataclass(slots=True)
class Journeys:
    """All that travelled in a run; `cuts` are by checkpoint."""

    elements: list[Journey] = field(default_factory=list)
    letters: list[Letter] = field(default_factory=list)
    cuts: dict[int, Cut] = field(default_factory=dict)
    paths: dict[tuple[int, str], Path] = field(default_factory=dict)
    """Each subtask's path through each checkpoint."""
    losses: list[tuple[str, Instant]] = field(default_factory=list)
    """Tasks that were lost or failed, and when."""
    last: Moment = field(default_factory=Moment)

    def to_pandas(self, checkpoint: int | None = None) -> pd.DataFrame:
        """One row per element: epoch, channel, sender, receiver, kind, rows, checkpoint_id (of a barrier), made_ms,
        sent_ms, received_ms, taken_ms (Int64), and, given a checkpoint, `crossing`: BEFORE, IN_FLIGHT, AFTER or AGAINST
        its cut, "" where one of the two tasks has none.
        """
        cut = None if checkpoint is None else self.cuts.get(checkpoint)
        rows = []
        for each in self.elements:
            crossing = each.crossing(cut)
            times = (each.made, each.sent, each.received, each.taken)
            ends = (each.epoch, each.channel, each.sender, each.receiver)
            what = (each.kind, each.rows, each.checkpoint_id)
            when = (None if instant is None else instant.at_ms for instant in times)
            rows.append((*ends, *what, *when, "" if crossing is None else crossing.name))
        times_of = ["made_ms", "sent_ms", "received_ms", "taken_ms"]
        columns = ["epoch", "channel", "sender", "receiver", "kind", "rows", "checkpoint_id", *times_of, "crossing"]
        frame = pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(("checkpoint_id", *times_of), "Int64"))
        return frame.drop(columns=[] if checkpoint is not None else ["crossing"])

    def __repr__(self) -> str:
        return f"Journeys({len(self.elements)} elements, {len(self.letters)} messages, {len(self.cuts)} checkpoints)"


def journeys(run: Any) -> Journeys:
    """What travelled in a Lab, a SparkJob or a Trace, from its beginning on."""
    return _Follower(run_of(run)).follow()


class _Follower:
    """Watches the run's moments go by, and notes when an element changes its place."""

    def __init__(self, run: Run) -> None:
        self.found = Journeys()
        self._run = run
        self._ends: Mapping[int, tuple[str, str]] = {}
        """Sender and receiver of the present epoch's channels, where its shape is known."""
        self._here: dict[tuple[int, int], Journey] = {}
        """By channel and serial, of the present epoch."""
        self._mail: dict[str, Letter] = {}
        self._epoch = 0

    def follow(self) -> Journeys:
        moment = only_last()
        seen: dict[str, TraceRecord] = {}
        for record in chain.from_iterable(steps(self._run.trace)):
            number = record.data.get("channel")
            before = moment.channels.get(number) if isinstance(number, int) else None
            moment = advance(moment, record, led_by(record.cause, seen.get))
            seen[record.id] = record
            self._note(moment, record, before)
        self.found.last = moment
        return self.found

    def _note(self, moment: Moment, record: TraceRecord, before: ChannelMoment | None) -> None:
        now = Instant(moment.n, record.at_ms)
        if moment.epoch != self._epoch:
            self._lose(now)
            self._epoch = moment.epoch
            self._ends = stage_for(self._run.known, self._epoch).ends() if self._run.known else {}
        number = record.data.get("channel")
        if isinstance(number, int) and number in moment.channels:
            self._moved(number, before or ChannelMoment(), moment.channels[number], now)
        self._letters(moment, record, now)
        self._cut(record, now)
        side = kind_of(record).side(record.role)
        means = None if side is None else side.means
        if means is meanings.slot_lost:
            self.found.losses += [(name, now) for name, task in moment.tasks.items() if task.lost]
        elif means is meanings.epoch_ended:
            self._lose(now)

    def _lose(self, now: Instant) -> None:
        """The epoch is over: what is still under way will not arrive."""
        for journey in self._here.values():
            if journey.taken is None:
                journey.lost = now
        for letter in self._mail.values():
            letter.lost = now
        self._here.clear()
        self._mail.clear()

    def _moved(self, number: int, before: ChannelMoment, after: ChannelMoment, now: Instant) -> None:
        for item in _new(before.queued, after.queued):
            self._journey(number, after, item, now)
        for item in _new(before.wire, after.wire):
            journey = self._journey(number, after, item, now)
            journey.sent, journey.unaligned = now, item.unaligned
        for item in _new(before.arrived, after.arrived):
            self._journey(number, after, item, now).received = now
        for item in _new(after.arrived, before.arrived):
            self._journey(number, after, item, now).taken = now

    def _journey(self, number: int, channel: ChannelMoment, item: Item, now: Instant) -> Journey:
        journey = self._here.get((number, item.serial))
        if journey is None:
            sender, receiver = self._ends.get(number, (channel.sender, channel.receiver))
            journey = Journey(self._epoch, number, item.kind, item.rows, item.checkpoint_id, sender, receiver, made=now)
            self._here[number, item.serial] = journey
            self.found.elements.append(journey)
        return journey

    def _letters(self, moment: Moment, record: TraceRecord, now: Instant) -> None:
        sent = moment.messages.get(record.id)
        if sent is not None:
            letter = Letter(sent.mail, sent.task, sent.to_task, sent.checkpoint_id, now)
            self._mail[record.id] = letter
            self.found.letters.append(letter)
        elif record.role == "event" and record.cause in self._mail:
            self._mail.pop(record.cause).received = now

    def _cut(self, record: TraceRecord, now: Instant) -> None:
        side = kind_of(record).side(record.role)
        if side is None or side.path is None or record.checkpoint_id is None:
            return
        task = record.data["task"] if is_of_the_job_master(record) else task_of(record)
        side.path(self.found.paths.setdefault((record.checkpoint_id, task), Path()), record)
        if side.path is Path.copied:
            self.found.cuts.setdefault(record.checkpoint_id, Cut(self._epoch)).instants.setdefault(task, now)


def _new(before: tuple[Item, ...], after: tuple[Item, ...]) -> Iterator[Item]:
    """The items that were not there before."""
    known = {item.serial for item in before}
    return (item for item in after if item.serial not in known)

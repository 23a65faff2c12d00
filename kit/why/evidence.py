"""The facts of a trace at one moment of a run: its records with their causes, and the state of the job.

The state of tasks, channels and checkpoints is the `Moment` that pictures are drawn from, so answers and pictures never
disagree. A command is *under way* if it declares an answer, and no event has answered it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from kit.core.protocol.commands import CancelTimer, ElementQueued, ScheduleTimer, SendElement, StartEpoch, StartTasks
from kit.core.protocol.duties import Duty
from kit.core.protocol.tasks import split_task_name
from kit.core.protocol.vocabulary import COMMANDS
from kit.core.trace.trace import Kind, TraceRecord, kind_names
from kit.run.captions import caption_of
from kit.run.faults import FREEZE_WORKER, THAW_WORKER
from kit.run.moments.job_state import ChannelMoment, Moment, task_of
from kit.run.reading import Reading, reading_of
from kit.run.run import now_ms_of
from kit.run.stage import Stage, stage_for
from kit.run.steps import event_of
from kit.run.subject import Subject

JOB = "job"
_ANSWERED = kind_names(*(each for each in COMMANDS if each.duty is Duty.WORK and each.answers))
"""Asynchronous commands with an answer."""


class Evidence:
    """A run up to a moment: after its first `n` records, by default after all. `run` is a Lab, a SparkJob, a Trace, or
    a `Reading` of one.
    """

    def __init__(self, run: Any, n: int | None = None, *, now_ms: int = 0) -> None:
        self.reading: Reading = reading_of(run)
        count = len(self.reading.records)
        self.n = count if n is None else min(n, count)
        self.moment: Moment = self.reading.moment_at(self.n)
        self.detailed = self.reading.detailed
        """True if the trace has single buffers and turns."""
        self._now_ms = now_ms or (now_ms_of(run) if n is None else 0)

    @classmethod
    def of(cls, subject: Subject) -> Evidence:
        """Return the evidence for a subject, at its moment."""
        if not subject.is_present:
            return cls(subject.reading, len(subject.trace))
        return cls(subject.thing)

    @property
    def records(self) -> Sequence[TraceRecord]:
        """The records, causes before effects."""
        records = self.reading.records
        return records if self.n == len(records) else records[: self.n]

    def before(self, record: TraceRecord) -> Evidence:
        """Return the evidence before the event of a record."""
        event, records, first = event_of(record), self.reading.records, self.position(record)
        while first and event_of(records[first - 1]) == event:
            first -= 1
        return Evidence(self.reading, first)

    @property
    def at_ms(self) -> int:
        """The time of the moment: the lab's clock, or the time of the last record."""
        return max(self.moment.at_ms, self._now_ms)

    def since_start(self, at_ms: int) -> int:
        """Convert a host's time to the time shown to readers: a lab's clock starts at 0, a cluster's at some date."""
        return at_ms - self.moment.began_ms

    # --- records --------------------------------------------------------------------------------------------------

    def of_kind(self, kind: Kind, **about: Any) -> list[TraceRecord]:
        """Return the records of one kind, oldest first, that have these values: `role`, `machine`, `checkpoint_id`, or
        a field of the record's data.
        """
        return [record for record in self.reading.of_kind(kind, self.n) if _fits(record, about)]

    def of_kinds(self, *kinds: Kind) -> Sequence[TraceRecord]:
        """Return the records of several kinds, oldest first."""
        return self.reading.of_kinds(kinds, self.n)

    def last(self, kind: Kind, **about: Any) -> TraceRecord | None:
        """Return the newest of these records, or None."""
        records = self.reading.of_kind(kind, self.n)
        return next((record for record in reversed(records) if _fits(record, about)), None)

    def find(self, record_id: str) -> TraceRecord | None:
        """Return the record with this id, or that of its event if the trace does not keep it."""
        return self.reading.find(record_id)

    def cause(self, record: TraceRecord) -> TraceRecord | None:
        """Return the cause of a record, or None."""
        return self.find(record.cause)

    def answers(self, record: TraceRecord) -> Sequence[TraceRecord]:
        """Return the events that answered a command, or the arrivals of a message."""
        return self.reading.answers(record, self.n)

    def faults(self, record: TraceRecord | None) -> Sequence[TraceRecord]:
        """Return the faults injected into a message or a command."""
        return () if record is None else self.reading.faults(record, self.n)

    def frozen(self, task: str) -> TraceRecord | None:
        """Return the record of the fault that froze a task's worker, if it is still frozen."""
        worker = self.slot_of(task)
        changes = [each for kind in (FREEZE_WORKER, THAW_WORKER) for each in self.of_kind(kind, worker=worker)]
        began = self.last(StartEpoch)
        last = max(changes, key=self.position, default=None)
        if last is None or not last.is_a(FREEZE_WORKER):
            return None
        return None if began is not None and self.position(began) > self.position(last) else last

    def of_same_event(self, record: TraceRecord) -> Iterator[TraceRecord]:
        """Yield all records of the same event."""
        event = event_of(record)
        return (each for each in self.records if event_of(each) == event)

    def position(self, record: TraceRecord) -> int:
        """Return the index of a record in the order of the run."""
        return self.reading.position(record)

    def creation(self, record: TraceRecord) -> TraceRecord:
        """Return the record that created a sent element. If the element was queued first, that is the record of its
        queueing, because a credit caused the sending.
        """
        return self._queueings.get(record.id, record)

    @cached_property
    def _queueings(self) -> dict[str, TraceRecord]:
        """The record of queueing for the id of each sending. Elements leave a channel in order, except barriers that
        overtake.
        """
        waiting: dict[tuple[str, int], list[TraceRecord]] = {}
        queueings: dict[str, TraceRecord] = {}
        for record in self.records:
            if not record.is_a(ElementQueued, SendElement):
                continue
            queue = waiting.setdefault((record.id.partition("#")[0], record.data["channel"]), [])
            if record.is_a(ElementQueued):
                queue.append(record)
                continue
            element = record.data["element"]
            kept = next((each for each in queue if _same(each.data["element"], element)), None)
            if kept is not None:
                queue.remove(kept)
                queueings[record.id] = kept
        return queueings

    # --- commands under way ---------------------------------------------------------------------------------------

    def under_way(self, machine: str | None = None, checkpoint_id: int | None = None) -> list[TraceRecord]:
        """Return the unanswered commands, oldest first, optionally of one machine and for one checkpoint. Those of an
        earlier attempt of a task are left out.
        """
        found = [
            record
            for kind in _ANSWERED
            for record in self.reading.of_kind(kind, self.n)
            if not self.answers(record)
            and (machine is None or record.machine == machine)
            and (checkpoint_id is None or record.checkpoint_id == checkpoint_id)
            and self.is_present(record)
        ]
        return sorted(found, key=self.position)

    def is_present(self, record: TraceRecord) -> bool:
        """Return True if a record belongs to the JobMaster, or to the present attempt of a task or a slot."""
        if record.machine == JOB:
            return True
        attempt = record.id.partition("#")[0].rpartition("@")[2]
        known = self.moment.tasks.get(record.machine)
        present = self._attempt_of_slot(record.machine) if known is None else known.attempt
        return not attempt.isdigit() or int(attempt) == present

    def _attempt_of_slot(self, slot: str) -> int:
        """Return the present attempt of a slot: that of the epoch, unless it was lost and replaced meanwhile."""
        epoch = self.last(StartEpoch)
        attempts = {} if epoch is None else dict(epoch.data.get("attempts") or {})
        for record in self.of_kind(StartTasks, epoch=self.moment.epoch):
            attempts |= record.data["attempts"]
        return int(attempts.get(slot, self.moment.epoch))

    def timer(self, machine: str, name: str) -> TraceRecord | None:
        """Return the command that set a pending timer; None if it is not set."""
        kinds = (ScheduleTimer, CancelTimer)
        changes = (each for kind in kinds for each in self.of_kind(kind, machine=machine, timer=name))
        last = max(filter(self.is_present, changes), key=self.position, default=None)
        return None if last is None or not last.is_a(ScheduleTimer) or self.answers(last) else last

    # --- tasks and channels ---------------------------------------------------------------------------------------

    @cached_property
    def stage(self) -> Stage | None:
        """The shape of the present epoch, if the trace has it."""
        known = self.reading.known
        return stage_for(known, self.moment.epoch) if known else None

    @cached_property
    def ends(self) -> Mapping[int, tuple[str, str]]:
        """The sender and the receiver of each known channel."""
        if self.stage is not None:
            return self.stage.ends()
        return {number: (each.sender, each.receiver) for number, each in self.moment.channels.items()}

    @cached_property
    def _alike(self) -> Counter[tuple[str, str]]:
        """The number of channels with the same sender and receiver."""
        return Counter(self.ends.values())

    @cached_property
    def inputs(self) -> dict[str, list[int]]:
        """The numbers of each task's input channels."""
        return _grouped((receiver, number) for number, (_, receiver) in self.ends.items())

    @cached_property
    def outputs(self) -> dict[str, list[int]]:
        """The numbers of the channels that each task sends on."""
        return _grouped((sender, number) for number, (sender, _) in self.ends.items())

    def channel(self, number: int) -> ChannelMoment:
        """Return the contents of a channel."""
        return self.moment.channels.get(number, _EMPTY)

    def channel_name(self, number: int) -> str:
        """Return a channel as `letters/0 -> sums/1`; its number follows if another channel has the same ends."""
        source, target = self.ends[number]
        name = f"{source} -> {target}"
        return name if self._alike[source, target] == 1 else f"{name} (channel {number})"

    def slot_of(self, task: str) -> int:
        """Return the slot in which a task runs."""
        return split_task_name(task)[1] if self.stage is None else self.stage.slot_of(task)

    def sharing_slot(self, task: str) -> list[str]:
        """Return the other tasks in a task's slot."""
        slot = self.slot_of(task)
        return [other for other in self.moment.tasks if other != task and self.slot_of(other) == slot]

    def caption(self, record: TraceRecord) -> str:
        """Return the sentence about a record, with channels named by their ends."""
        return caption_of(record, self.ends)


_EMPTY = ChannelMoment()


def _fits(record: TraceRecord, about: dict[str, Any]) -> bool:
    for name, value in about.items():
        known = getattr(record, name) if name in ("role", "machine", "checkpoint_id") else record.data.get(name)
        if known != value:
            return False
    return True


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return True if both may be the same element; the options of a barrier may change while it waits."""
    names = ("type", "checkpoint_id")
    return all(one.get(name) == other.get(name) for name in names)


def _grouped(pairs: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for name, number in sorted(pairs):
        groups.setdefault(name, []).append(number)
    return groups


__all__ = ["JOB", "Evidence", "task_of"]

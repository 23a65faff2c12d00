"""Who blocks whom: each task that waits for a barrier, where that barrier is, and what the waiting ends at.

A task waits for a sender's barrier. The barrier stands in the receiver's queue, on the wire, in the sender's queue, or
the sender has not sent it; then the sender waits in its turn, for barriers of its own, or for something that is no wait
for a barrier: an *end* of the chain. Everything is read from one moment; a trace without single buffers knows where the
barriers are, and not what stands before them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from kit.core.protocol.trace import TraceRecord
from kit.run.barrier_log import BarrierLog
from kit.run.captions import caption_of, lower_first
from kit.run.durations import duration
from kit.run.job_state import ANSWERED, BEGUN, CAPTURING, DECLINED, WRITING, ChannelMoment, Item, TaskMoment
from kit.run.stage import Stage

NOT_SENT, QUEUED, WIRE, ARRIVED, TAKEN, ENDED = (
    "not sent",
    "in the sender's queue",
    "on the wire",
    "in the receiver's queue",
    "taken",
    "none",
)
JOB_MASTER = "JobMaster"
_WORDS = {"buffer": "buffer", "watermark": "watermark", "barrier": "barrier", "status": "idleness mark"}
_EMPTY = ChannelMoment()


@dataclass(frozen=True, slots=True)
class Wait:
    """`waiter` waits for the barrier of `source` on a channel; `place` says where it is, behind the `before`."""

    waiter: str
    source: str
    channel: int
    place: str
    before: tuple[Item, ...] = ()


@dataclass(frozen=True, slots=True)
class End:
    """What the waiting ends at, in a task or, for a message that is under way, at the JobMaster."""

    task: str
    title: str
    says: str


@dataclass(frozen=True, slots=True)
class Held:
    """A channel that its receiver keeps closed; `items` are held back in it."""

    channel: int
    source: str
    target: str
    items: tuple[Item, ...]


class WaitFor:
    """The waits of one checkpoint at the moment that a log ends at; `now_ms` is the host's time, if it is known."""

    def __init__(self, stage: Stage, log: BarrierLog, checkpoint_id: int, now_ms: int = 0, *, detailed: bool) -> None:
        self.stage, self.log, self.checkpoint_id = stage, log, checkpoint_id
        self.moment = log.moment
        self.now_ms = max(now_ms, self.moment.at_ms)
        self.detailed = detailed or bool(log.bytes_of)
        """Whether single buffers are known."""

    # --- where a barrier is ---------------------------------------------------------------------------------------

    def channel(self, number: int) -> ChannelMoment:
        """What is in a channel."""
        return self.moment.channels.get(number, _EMPTY)

    def place(self, number: int) -> tuple[str, tuple[Item, ...]]:
        """Where the barrier is on this channel, and what stands before it there."""
        if self.log.path(self.checkpoint_id, number).taken_ms is not None:
            return TAKEN, ()
        channel = self.channel(number)
        for place, items in ((ARRIVED, channel.arrived), (WIRE, channel.wire), (QUEUED, channel.queued)):
            for at, item in enumerate(items):
                if (item.kind, item.checkpoint_id) == ("barrier", self.checkpoint_id):
                    return place, items[:at]
        over = channel.ended or not self.is_pending
        return (ENDED if over and self.log.path(self.checkpoint_id, number).made_ms is None else NOT_SENT), ()

    def contents(self, items: Sequence[Item]) -> str:
        """Elements in words: `2 buffers (5 records, 65 B)`."""
        counted = Counter(item.kind for item in items)
        parts = []
        for kind, many in counted.items():
            word = _WORDS.get(kind, "mark")
            rows = sum(item.rows for item in items if item.kind == kind)
            size = self.log.size(item for item in items if item.kind == kind)
            more = f" ({rows:,} record{'s' * (rows != 1)}, {size:,} B)" if kind == "buffer" else ""
            parts.append(f"{many} {word}{'s' * (many != 1)}{more}")
        return " and ".join(parts) or "nothing"

    @cached_property
    def is_pending(self) -> bool:
        """Whether the checkpoint has not come to its end."""
        return self.checkpoint_id in {each.checkpoint_id for each in self.moment.pending}

    # --- the waits ------------------------------------------------------------------------------------------------

    @cached_property
    def inputs(self) -> dict[str, list[tuple[int, str]]]:
        """By task, the numbers and senders of its input channels."""
        found: dict[str, list[tuple[int, str]]] = {task: [] for task in self.stage.tasks()}
        for channel in self.stage.channels:
            found[channel.target].append((channel.number, channel.source))
        return found

    @cached_property
    def waits(self) -> tuple[Wait, ...]:
        """Every wait of the checkpoint, receiver by receiver; none once it has come to its end."""
        if not self.is_pending:
            return ()
        return tuple(wait for task in self.stage.tasks() for wait in self._waits_of(task))

    def _waits_of(self, task: str) -> Iterator[Wait]:
        known = self.moment.tasks.get(task, TaskMoment())
        phase = known.phases.get(self.checkpoint_id)
        if known.state != "RUNNING" or phase in ANSWERED:
            return
        told = phase in BEGUN and not self.log.task(self.checkpoint_id, task).counts
        if phase in (WRITING, CAPTURING) and not told:  # with the last barrier that was counted
            return
        for number, source in self.inputs[task]:
            if told and self.channel(number).awaited != self.checkpoint_id:
                continue
            place, before = self.place(number)
            if place not in (TAKEN, ENDED):
                yield Wait(task, source, number, place, tuple(before))

    @cached_property
    def held(self) -> tuple[Held, ...]:
        """The channels that are closed for the checkpoint."""
        found = []
        for channel in self.stage.channels:
            now = self.channel(channel.number)
            if now.held == self.checkpoint_id:
                items = (*now.arrived, *now.wire, *now.queued)
                found.append(Held(channel.number, channel.source, channel.target, items))
        return tuple(found)

    # --- what it ends at ------------------------------------------------------------------------------------------

    @cached_property
    def ends(self) -> tuple[End, ...]:
        """What is at the end of each chain, each said once."""
        return tuple(dict.fromkeys(end for wait in self.waits for end in self._end(wait)))

    def end_of(self, wait: Wait) -> End | None:
        """What this very wait ends at; None where the sender waits in its turn."""
        return next(iter(self._end(wait)), None)

    def _end(self, wait: Wait) -> Iterator[End]:
        frozen = self._frozen(wait.waiter if wait.place != NOT_SENT else wait.source)
        if wait.place == NOT_SENT:
            if wait.source not in self._waiters:
                yield self._not_begun(wait.source)
        elif frozen:
            yield End(wait.waiter, "frozen", frozen)
        elif wait.place == ARRIVED:
            first = f"{self.contents(wait.before)} first" if wait.before else "it now"
            yield End(wait.waiter, "no turn yet", f"{wait.waiter} has not had its turn: it may take {first}")
        elif wait.place == WIRE:
            path = self.log.path(self.checkpoint_id, wait.channel)
            since = "" if path.sent_ms is None else f" for {duration(self.now_ms - path.sent_ms)}"
            yield End(wait.waiter, "on the wire", f"the barrier of {wait.source} has been on the wire{since}")
        else:
            yield End(wait.waiter, "no credit", self._no_credit(wait))

    @cached_property
    def _waiters(self) -> frozenset[str]:
        return frozenset(wait.waiter for wait in self.waits)

    def _no_credit(self, wait: Wait) -> str:
        channel = self.channel(wait.channel)
        taken = [item for item in (*channel.arrived, *channel.wire) if item.kind == "buffer"]
        if not self.detailed or not taken:
            return f"{wait.source} has no credit of {wait.waiter} to send on"
        return f"{wait.waiter} has {self.contents(taken)} of {wait.source} to process before it gives a credit"

    def _not_begun(self, task: str) -> End:
        """A sender that waits for no barrier and has sent none."""
        known, number = self.moment.tasks.get(task, TaskMoment()), self.checkpoint_id
        if known.state != "RUNNING":
            return End(task, known.state, f"{task} is {known.state}" + (f": {known.error}" if known.error else ""))
        frozen = self._frozen(task)
        if frozen:
            return End(task, "frozen", frozen)
        if known.phases.get(number) == DECLINED:
            return End(task, "declined", f"{task} has declined checkpoint {number}")
        for sent, message in self.moment.messages.items():
            if (message.mail, message.task, message.checkpoint_id) == ("begin", task, number):
                since = self.now_ms - self.log.by_id[sent].at_ms
                says = f"the JobMaster's word to {task} to begin has been under way for {duration(since)}"
                return End(JOB_MASTER, "message under way", says + self._fault(sent))
        step = next((each.step for each in self.moment.pending if each.checkpoint_id == number), "")
        return End(JOB_MASTER, "not triggered", f"the JobMaster has not told {task} to begin: {step or 'triggering'}")

    def _frozen(self, task: str) -> str:
        """The fault that froze a task's worker, if one did."""
        worker = int(task.rpartition("/")[2])
        last = self._of_workers.get(worker)
        return lower_first(caption_of(last)) if last is not None and last.kind == "FreezeWorker" else ""

    @cached_property
    def _of_workers(self) -> dict[int, TraceRecord]:
        """The last record of each worker that was frozen or thawed since the epoch began."""
        found: dict[int, TraceRecord] = {}
        for record in self.log.by_id.values():
            if record.kind == "StartEpoch":
                found = {}
            elif record.kind in ("FreezeWorker", "ThawWorker"):
                found[record.data["worker"]] = record
        return found

    @cached_property
    def _faults(self) -> dict[str, TraceRecord]:
        return {record.cause: record for record in self.log.by_id.values() if record.role == "fault"}

    def _fault(self, sent: str) -> str:
        """What was done to a message in a lab."""
        record = self._faults.get(sent)
        return "" if record is None else f" ({lower_first(caption_of(record))})"

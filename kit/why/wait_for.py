"""The wait-for relation: each task that waits for a barrier, the place of that barrier, and the end of the chain.

A task waits for a sender's barrier. The barrier is in the receiver's queue, on the wire, in the sender's queue, or not
sent. In the last case the sender waits too: for barriers of its own, or for something else, which is an *end* of the
chain. All facts are of one moment. A trace without single buffers has the places of the barriers, but not the elements
before them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from kit.core.trace.trace import TraceRecord
from kit.run.captions import lower_first
from kit.run.durations import duration
from kit.run.moments.job_state import ABORTED, DECLINED, Item, TaskMoment
from kit.why.evidence import Evidence
from kit.why.fact import fact, task_names
from kit.why.tasks import full_outputs
from kit.why.under_way import injected_faults
from kit.why.waits import ARRIVED, GONE, NOT_SENT, WIRE, Barrier, barrier_on, is_lost, missing

JOB_MASTER = "JobMaster"
_WORDS = {"buffer": "buffer", "watermark": "watermark", "barrier": "barrier", "status": "idleness mark"}


@dataclass(frozen=True, slots=True)
class End:
    """The end of a chain of waits: in a task or, for a message in flight, at the JobMaster."""

    task: str
    title: str
    says: str


@dataclass(frozen=True, slots=True)
class Held:
    """A channel that its receiver blocks; `items` are held back in it."""

    channel: int
    source: str
    target: str
    items: tuple[Item, ...]


class WaitFor:
    """The waits of one checkpoint at the moment of the evidence."""

    def __init__(self, evidence: Evidence, checkpoint_id: int) -> None:
        self.evidence, self.checkpoint_id = evidence, checkpoint_id

    def place(self, number: int) -> Barrier:
        """Return the place of the barrier on this channel."""
        return barrier_on(self.evidence, number, self.checkpoint_id)

    def size(self, items: Iterable[Item]) -> int:
        """Return the bytes in these elements."""
        records = (self.evidence.reading.exactly(item.sent_as) for item in items)
        batches = (record.data["element"].get("batch") for record in records if record is not None)
        return sum(int(batch.get("bytes") or 0) for batch in batches if batch is not None)

    def contents(self, items: Sequence[Item]) -> str:
        """Describe elements: `2 buffers (5 records, 65 B)`."""
        counted = Counter(item.kind for item in items)
        parts = []
        for kind, many in counted.items():
            word = _WORDS.get(kind, "mark")
            rows = sum(item.rows for item in items if item.kind == kind)
            size = self.size(item for item in items if item.kind == kind)
            more = f" ({rows:,} record{'s' * (rows != 1)}, {size:,} B)" if kind == "buffer" else ""
            parts.append(f"{many} {word}{'s' * (many != 1)}{more}")
        return " and ".join(parts) or "nothing"

    @cached_property
    def is_pending(self) -> bool:
        """Return True if the checkpoint has not ended."""
        return self.checkpoint_id in {each.checkpoint_id for each in self.evidence.moment.pending}

    # --- the waits ------------------------------------------------------------------------------------------------

    @cached_property
    def waits(self) -> tuple[Barrier, ...]:
        """The barriers that tasks wait for, receiver by receiver; none once the checkpoint has ended."""
        if not self.is_pending:
            return ()
        tasks = self.evidence.moment.tasks
        return tuple(each for task in tasks for each in missing(self.evidence, task, self.checkpoint_id).barriers)

    @cached_property
    def held(self) -> tuple[Held, ...]:
        """The channels that are blocked for the checkpoint."""
        found = []
        for number, (source, target) in self.evidence.ends.items():
            now = self.evidence.channel(number)
            if now.held == self.checkpoint_id:
                found.append(Held(number, source, target, (*now.arrived, *now.wire, *now.queued)))
        return tuple(found)

    # --- the ends of the chains -----------------------------------------------------------------------------------

    @cached_property
    def ends(self) -> tuple[End, ...]:
        """The ends of all chains, without duplicates."""
        return tuple(dict.fromkeys(end for wait in self.waits for end in self._end(wait)))

    def end_of(self, wait: Barrier) -> End | None:
        """Return the end of this wait; None if the sender waits for barriers itself."""
        return next(iter(self._end(wait)), None)

    def _end(self, wait: Barrier) -> Iterator[End]:
        task, frozen = wait.target, self._frozen(wait.target if wait.place != NOT_SENT else wait.source)
        if wait.place == NOT_SENT:
            if wait.source not in self._waiters:
                yield self._not_begun(wait.source)
        elif frozen:
            yield End(task, "frozen", frozen)
        elif wait.place == ARRIVED:
            yield self._not_taken(wait)
        elif wait.place == WIRE:
            sent = None if wait.item is None else self.evidence.find(wait.item.sent_as)
            since = "" if sent is None else f" for {self._since(sent)}"
            what = f"the {'end of the stream' if wait.is_end else 'barrier'} of {wait.source}"
            yield End(task, "on the wire", f"{what} has been on the wire{since}")
        else:
            yield End(task, "no credit", self._no_credit(wait))

    @cached_property
    def _waiters(self) -> frozenset[str]:
        return frozenset(wait.target for wait in self.waits)

    def _not_taken(self, wait: Barrier) -> End:
        """Return the end for a barrier that is in its receiver's queue."""
        task, channel = wait.target, self.evidence.channel(wait.channel)
        if channel.blocked:
            says = f"{task} blocks the channel of {wait.source} until all barriers {channel.held} have arrived"
            return End(task, "channel blocked", says)
        full = full_outputs(self.evidence, task)
        if full:
            to = task_names(self.evidence.ends[number][1] for number in full)
            return End(task, "output full", f"{task} takes no input: its output queue to {to} is full")
        first = f"{self.contents(wait.before)} first" if wait.before else "it now"
        return End(task, "no turn yet", f"{task} has not had its turn: it may take {first}")

    def _no_credit(self, wait: Barrier) -> str:
        channel = self.evidence.channel(wait.channel)
        taken = [item for item in (*channel.arrived, *channel.wire) if item.kind == "buffer"]
        if not self.evidence.detailed or not taken:
            return f"{wait.source} has no credit from {wait.target}"
        return f"{wait.target} has {self.contents(taken)} of {wait.source} to process before it grants a credit"

    def _not_begun(self, task: str) -> End:
        """Return the end for a sender that waits for no barrier and has sent none."""
        evidence, number = self.evidence, self.checkpoint_id
        known, waits = evidence.moment.tasks.get(task, TaskMoment()), missing(evidence, task, number)
        if waits.phase == GONE:
            return End(task, known.state, f"{task} is {known.state}" + (f": {known.error}" if known.error else ""))
        frozen = self._frozen(task)
        if frozen:
            return End(task, "frozen", frozen)
        if waits.phase == DECLINED:
            return End(task, "declined", f"{task} has declined checkpoint {number}")
        if waits.phase == ABORTED:
            return End(task, "aborted", f"{task} has aborted checkpoint {number}")
        if waits.record is not None:
            says = f"the JobMaster's trigger to {task} has been under way for {self._since(waits.record)}"
            if is_lost(evidence, waits.record):
                says = f"the JobMaster's trigger to {task} was lost"
            return End(JOB_MASTER, "message under way", fact(says, *injected_faults(evidence, waits.record)).in_short)
        step = next((each.step for each in evidence.moment.pending if each.checkpoint_id == number), "")
        return End(JOB_MASTER, "not triggered", f"the JobMaster has not triggered {task}: {step or 'triggering'}")

    def _since(self, record: TraceRecord) -> str:
        return duration(self.evidence.at_ms - record.at_ms)

    def _frozen(self, task: str) -> str:
        """Describe the fault that froze a task's worker, if any."""
        frozen = self.evidence.frozen(task)
        return "" if frozen is None else lower_first(self.evidence.caption(frozen))

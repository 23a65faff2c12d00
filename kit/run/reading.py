"""The reading of a run: each record once, with its causes and answers, and the state of the job after any record.

A reading grows with its run: `follow` reads what is new. If the run went back and took another course, the reading
keeps the part that both have in common and reads on from there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from kit.core.trace.trace import Kind, Trace, TraceRecord, kind_name, led_by
from kit.run.moments.job_state import Moment, Running, changed
from kit.run.moments.moment import fold
from kit.run.run import Run, run_of
from kit.run.steps import Ordering
from kit.run.uncollected import uncollected

MARK_EVERY = 1_000
"""The least number of records between two marked moments."""
RECORDS_PER_PART = 2
"""The number of records added to that distance for each task and channel."""
EVENT, FAULT = "event", "fault"
Index = dict[str, list[TraceRecord]]


class Watcher:
    """An observer that sees every record of a reading once, with the moments before and after it."""

    def begin(self) -> None:
        """Begin a reading, or begin it again."""

    def before(self, record: TraceRecord, moment: Moment) -> None:
        """See a record that is about to be read; the moment then changes in place."""

    def after(self, record: TraceRecord, moment: Moment) -> None:
        """See the moment to which the record has led."""


class Reading:
    """A run as far as it was read: `records`, causes before effects, and `moment`, the state after the last of them."""

    def __init__(self, run: Any = (), watcher: Watcher | None = None) -> None:
        self.run = Run(Trace())
        self._watcher = watcher
        self._ordering = Ordering()
        self._forget()
        self.follow(run)

    def _forget(self) -> None:
        """Forget everything and begin again."""
        if self._watcher is not None:
            self._watcher.begin()
        self.records: list[TraceRecord] = []
        self.kept = 0
        """The number of records that the last `follow` knew already."""
        self.moment = Running.of(Moment())
        self._by_id: dict[str, TraceRecord] = {}
        self._positions: dict[str, int] = {}
        self._kinds: Index = {}
        self._answers: Index = {}
        self._faults: Index = {}
        self._marks: list[Moment] = []

    def follow(self, thing: Any) -> Reading:
        """Read what is new in a run (a Lab, a SparkJob, a Trace or records), and return this reading."""
        self.run = run_of(thing)
        trace = self.run.trace
        with uncollected():
            if trace.detailed:  # a lab records in order
                self._keep(self._common_with(trace))
                self._take(trace.since(len(self.records)))
            else:
                self._follow_unordered(trace)
        return self

    def _follow_unordered(self, trace: Trace) -> None:
        """Read a run in which effects may be recorded before their causes."""
        known = self._ordering.taken
        if len(known) > len(trace) or (known and known[-1] is not trace[len(known) - 1]):
            self._ordering = Ordering()
            self._keep(0)
        ordering = self._ordering
        keep = ordering.take(trace.since(len(ordering.taken)))
        self._keep(ordering.starts[keep])
        first = keep if self.records else 0
        self._take(chain.from_iterable(ordering.steps[first:]))

    def _take(self, records: Iterable[TraceRecord]) -> None:
        try:
            self._take_all(records)
        except BaseException:  # an interrupt may have left a record half read
            self._ordering = Ordering()
            self._forget()
            raise

    def _take_all(self, records: Iterable[TraceRecord]) -> None:
        watcher, left = self._watcher, iter(records)
        while True:
            most = max(1, self._next_mark() - len(self.records)) if watcher is None else 1
            taken = list(islice(left, most))
            if not taken:
                return
            if watcher is not None:
                watcher.before(taken[0], self.moment)
            fold(self.moment, taken)
            self._index(taken)
            if len(self.records) >= self._next_mark():
                self._marks.append(self.moment.now())
            if watcher is not None:
                watcher.after(taken[0], self.moment)

    def _index(self, records: Iterable[TraceRecord]) -> None:
        for record in records:
            self._by_id[record.id] = record
            self._positions[record.id] = len(self.records)
            self.records.append(record)
            self._kinds.setdefault(record.kind, []).append(record)
            if record.role == EVENT:
                self._answers.setdefault(record.cause, []).append(record)
            elif record.role == FAULT:
                self._faults.setdefault(record.cause, []).append(record)

    def _next_mark(self) -> int:
        parts = len(self.moment.tasks) + len(self.moment.channels)
        return (self._marks[-1].n if self._marks else 0) + MARK_EVERY + RECORDS_PER_PART * parts

    def _common_with(self, trace: Trace) -> int:
        """Return the number of records that the reading and a lab's trace begin with. A lab that went back makes some
        records again; these take the place of those read before.
        """
        records = self.records
        same = _common(records, trace)
        for old, new in zip(records[same:], trace[same : len(records)]):
            if old != new:
                break
            records[same] = new
            same += 1
        return same

    def _keep(self, n: int) -> None:
        """Forget all but the first `n` records."""
        self.kept = min(n, len(self.records))
        if n >= len(self.records):
            return
        if not n or self._watcher is not None:  # a watcher cannot undo what it has seen
            self._forget()
            return
        self.moment = Running.of(self.moment_at(n))
        for record in self.records[n:]:
            self._by_id.pop(record.id, None)
            self._positions.pop(record.id, None)
            self._kinds[record.kind].pop()
            if record.role == EVENT:
                self._answers[record.cause].pop()
            elif record.role == FAULT:
                self._faults[record.cause].pop()
        del self.records[n:]
        self._marks = [mark for mark in self._marks if mark.n <= n]

    # --- queries ------------------------------------------------------------------------------------------------------

    def moment_at(self, n: int | None) -> Moment:
        """Return the moment after the first `n` records, or after all."""
        if n is None or n >= len(self.records):
            return self.moment
        moment = Running.of(self._mark_within(n))
        fold(moment, self.records[moment.n : n])
        return moment.now()

    def now(self, n: int | None = None) -> Moment:
        """Return the moment after the first `n` records, or after all, with its cause, as a value that stays."""
        moment = self.moment_at(n)
        moment = moment.now() if isinstance(moment, Running) else moment
        return changed(moment, cause=None if moment.record is None else self.find(moment.record.cause))

    def with_moments(self, records: Iterable[TraceRecord]) -> Iterator[tuple[TraceRecord, Moment]]:
        """Yield these records, which are in the order of the run, each with the moment before it.

        A moment is valid until the next one is requested.
        """
        moment = Running.of(Moment())
        for record in records:
            n = self.position(record)
            mark = self._mark_within(n)
            if mark.n > moment.n:
                moment = Running.of(mark)
            fold(moment, self.records[moment.n : n])
            yield record, moment

    def _mark_within(self, n: int) -> Moment:
        """Return the last marked moment within the first `n` records."""
        return next((mark for mark in reversed(self._marks) if mark.n <= n), Moment())

    def unread(self, trace: Trace) -> int:
        """Return the number of records at the end of a lab's trace that were not read yet."""
        return len(trace) - _common(self.records, trace)

    def find(self, record_id: str) -> TraceRecord | None:
        """Return the record with this id, or the record of its event if the trace does not keep it."""
        return led_by(record_id, self._by_id.get) if record_id else None

    def exactly(self, record_id: str) -> TraceRecord | None:
        """Return the record with this id."""
        return self._by_id.get(record_id)

    def position(self, record: TraceRecord) -> int:
        """Return the position of a record in the order of the run."""
        return self._positions[record.id]

    def of_kind(self, kind: Kind, n: int | None = None) -> Sequence[TraceRecord]:
        """Return the records of one kind among the first `n`, oldest first."""
        return self._until(self._kinds.get(kind_name(kind), ()), n)

    def of_kinds(self, kinds: Iterable[Kind], n: int | None = None) -> Sequence[TraceRecord]:
        """Return the records of several kinds among the first `n`, oldest first."""
        found = [record for kind in kinds for record in self.of_kind(kind, n)]
        return sorted(found, key=self.position)

    def answers(self, record: TraceRecord, n: int | None = None) -> Sequence[TraceRecord]:
        """Return the events that a command or a message became, or that answered it."""
        return self._until(self._answers.get(record.id, ()), n)

    def faults(self, record: TraceRecord, n: int | None = None) -> Sequence[TraceRecord]:
        """Return the faults that were injected into a message or a command."""
        return self._until(self._faults.get(record.id, ()), n)

    def _until(self, found: Sequence[TraceRecord], n: int | None) -> Sequence[TraceRecord]:
        if n is None or n >= len(self.records) or not found:
            return found
        return found[: bisect_left(found, n, key=self.position)]


def _common(records: Sequence[TraceRecord], trace: Sequence[TraceRecord]) -> int:
    """Return the number of records that both begin with.

    After the first difference nothing is the same, so the search can bisect.
    """
    most = min(len(records), len(trace))
    if most and trace[most - 1] is records[most - 1]:
        return most
    return bisect_left(range(most), True, key=lambda at: trace[at] is not records[at])

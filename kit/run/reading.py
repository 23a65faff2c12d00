"""The reading of a run: each record once, with its causes and answers, and the state of the job after any record.

Every run has one reading, which `reading_of` returns; it is kept with the run's trace. So pictures, views and answers
share it, and none of them reads a record that another has read.

A reading grows at its end only. If the run goes back and takes another course, it gets another reading, which begins
with a copy of what both have in common. So a reading and a number of records are a moment for good, whatever the run
does afterwards. A fork shares the reading until the two runs differ.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from kit.core.trace.trace import Kind, Trace, TraceRecord, kind_name, led_by
from kit.run.moments.job_state import MAPPINGS, Moment, Running, changed, collect_changed, set_field
from kit.run.moments.moment import fold
from kit.run.run import run_of
from kit.run.stage import Stage
from kit.run.steps import Ordering
from kit.run.uncollected import uncollected

MARK_EVERY = 1_000
"""The least number of records between two marked moments."""
RECORDS_PER_PART = 2
"""The number of records added to that distance for each task and channel."""
EVENT, FAULT = "event", "fault"


def reading_of(run: Any) -> Reading:
    """Return the reading of a Lab, a SparkJob, a Trace, a scenario, a `Run` or a list of records, up to its present.

    A reading is returned unchanged.
    """
    if isinstance(run, Reading):
        return run
    run = run_of(run)
    keeper = run.trace if run.keeper is None else run.keeper
    reading: Reading = (keeper._reading or Reading()).follow(run)
    keeper._reading = reading
    return reading


def moment_at(run: Any, n: int | None = None) -> Moment:
    """Return the moment after the first `n` records of a Lab, SparkJob or Trace.

    It is the last moment if there are fewer records or `n` is None.
    """
    return reading_of(run).moment_at(n)


class Reading:
    """A course of a run as far as it was read: `records`, causes before effects, and the moment after any of them."""

    def __init__(self, run: Any = ()) -> None:
        self.known: tuple[Stage, ...] = ()
        """The shapes of the epochs, as far as they are known."""
        self.detailed = False
        """True if the trace has single buffers and turns."""
        self.records: list[TraceRecord] = []
        self._ordering = Ordering()
        self._by_id: dict[str, TraceRecord] = {}
        self._positions: dict[str, int] = {}
        self._kinds: dict[str, list[TraceRecord]] = {}
        self._answers: dict[str, tuple[TraceRecord, ...]] = {}
        self._faults: dict[str, tuple[TraceRecord, ...]] = {}
        self._front = Running.watched(Moment())
        """The state after the first `_front.n` records, the last ones that were folded."""
        self._latest = Moment()
        """The last moment that was asked for at the end of the run."""
        self._marks: list[Moment] = []
        self.follow(run)

    # --- growing ------------------------------------------------------------------------------------------------------

    def follow(self, thing: Any) -> Reading:
        """Read what is new in a run (a Lab, a SparkJob, a Trace or records), and return this reading.

        If the run has taken another course, return another reading instead; this one stays unchanged.
        """
        run = run_of(thing)
        trace = run.trace
        with uncollected():
            if trace.detailed:  # a lab records in order
                same = _common(self.records, trace)
                equal = _equal(self.records, trace, same)
                reading = self if equal >= len(self.records) else self._first(equal)
                reading.records[same:equal] = trace.since(same, equal)  # those that it has made again
                reading._add(trace.since(equal))
            else:
                same, new = self._ordered(trace)
                reading = self if same >= len(self.records) else self._first(same)
                reading._add(new)
            reading.known, reading.detailed = run.known, trace.detailed
        return reading

    def _ordered(self, trace: Trace) -> tuple[int, Iterable[TraceRecord]]:
        """Return the number of records that stay, and the records after them.

        For a run in which effects may be recorded before their causes.
        """
        known = self._ordering.taken
        if len(known) > len(trace) or (known and known[-1] is not trace[len(known) - 1]):
            self._ordering = Ordering()
        ordering = self._ordering
        keep = ordering.take(trace.since(len(ordering.taken)))
        return ordering.starts[keep], chain.from_iterable(ordering.steps[keep:])

    def _add(self, records: Iterable[TraceRecord]) -> None:
        record = None
        try:
            for record in records:
                self._by_id[record.id] = record
                self._positions[record.id] = len(self.records)
                self._kinds.setdefault(record.kind, []).append(record)
                if record.role == EVENT:
                    self._answers[record.cause] = (*self._answers.get(record.cause, ()), record)
                elif record.role == FAULT:
                    self._faults[record.cause] = (*self._faults.get(record.cause, ()), record)
                self.records.append(record)
        except BaseException:  # an interrupt may have left a record half read
            self._ordering = Ordering()
            if record is not None and self.records[-1:] != [record]:
                self._kinds[record.kind] = [each for each in self._kinds.get(record.kind, ()) if each is not record]
                for of in (self._answers, self._faults):
                    of[record.cause] = tuple(each for each in of.get(record.cause, ()) if each is not record)
            raise

    def _first(self, n: int) -> Reading:
        """Return a reading of the first `n` records, which goes on with the ordering of the run."""
        other = Reading()
        other._ordering, self._ordering = self._ordering, other._ordering
        other.records = self.records[:n]
        other._by_id, other._positions = dict(self._by_id), dict(self._positions)
        other._answers, other._faults = dict(self._answers), dict(self._faults)
        for record in self.records[n:]:
            other._by_id.pop(record.id, None)
            other._positions.pop(record.id, None)
            for of, role in ((other._answers, EVENT), (other._faults, FAULT)):
                if record.role == role:
                    of[record.cause] = of[record.cause][:-1]
        other._kinds = {kind: list(self._until(found, n)) for kind, found in self._kinds.items()}
        other._marks = [mark for mark in self._marks if mark.n <= n]
        other._front = Running.watched(other._mark_within(n))
        return other

    def shared_with(self, other: Reading, most: int) -> int:
        """Return the number of records, up to `most`, that this reading and another one begin with."""
        if other is self:
            return most
        return min(most, _equal(self.records, other.records, _common(self.records, other.records)))

    # --- moments ------------------------------------------------------------------------------------------------------

    def moment_at(self, n: int | None = None) -> Moment:
        """Return the moment after the first `n` records, or after all, with its cause."""
        last = len(self.records)
        n = last if n is None else min(n, last)
        if n == self._latest.n:
            return self._latest
        running = self.running_at(n)
        if running is self._front:
            for name in MAPPINGS:
                collect_changed(
                    getattr(running, name)
                )  # so that the changes do not pile up while no film collects them
        moment = running.now()
        moment = changed(moment, cause=None if moment.record is None else self.find(moment.record.cause))
        if n == last:
            self._latest = moment
        return moment

    def running_at(self, n: int, last: Running | None = None) -> Running:
        """Return a moment after the first `n` records for `advance`, whose mappings record what changes.

        It is the reading's own, so that no record is folded twice, unless that has passed this place. Then it is
        `last`, an earlier result, if that is at this place.
        """
        if self._front.n <= n:
            self.advance(self._front, n)
            return self._front
        if last is not None and last.n == n:
            return last
        running = Running.watched(self._mark_within(n))
        fold(running, self.records[running.n : n])
        return running

    def advance(self, running: Running, n: int) -> None:
        """Move a moment that `running_at` returned on to the place after the first `n` records."""
        if running is not self._front:
            fold(running, self.records[running.n : n])
            return
        try:
            while running.n < n:
                fold(running, self.records[running.n : min(n, max(running.n + 1, self._next_mark))])
                if running.n >= self._next_mark:
                    self._marks.append(running.now())
        except BaseException:  # an interrupt may have left a record half folded
            set_field(running, "n", -1)
            self._front = Running.watched(self._mark_within(n))
            raise

    @property
    def _next_mark(self) -> int:
        parts = len(self._front.tasks) + len(self._front.channels)
        return (self._marks[-1].n if self._marks else 0) + MARK_EVERY + RECORDS_PER_PART * parts

    def _mark_within(self, n: int) -> Moment:
        """Return the last marked moment within the first `n` records."""
        return next((mark for mark in reversed(self._marks) if mark.n <= n), Moment())

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

    # --- records ------------------------------------------------------------------------------------------------------

    def unread(self, trace: Trace) -> int:
        """Return the number of records at the end of a lab's trace that the next moment has to read."""
        return len(trace) - min(self._front.n, _common(self.records, trace))

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


def _equal(records: Sequence[TraceRecord], trace: Sequence[TraceRecord], start: int) -> int:
    """Return the number of equal records that both begin with, given that the first `start` are the same.

    A lab that went back makes some records again.
    """
    most = min(len(records), len(trace))
    while start < most and records[start] == trace[start]:
        start += 1
    return start

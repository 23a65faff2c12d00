"""The watermarks of the splits of one reader; their minimum is the reader's event time.

Several files of one source often cover the same time, for example one file per sensor. If a reader read them one after
the other, its watermark would pass the rows of the second file while it read the first. So splits belong to *sequences*
(`Source.sequence_of`; for a file source, one per file). Within a sequence, event time continues from split to split;
between two sequences it may start again. Each sequence has its own watermark, and the reader's is the minimum over the
sequences that have splits left. The reader holds all its splits from the start, and continues with the sequence that is
furthest behind. So files that follow each other in time are still read one after the other.

A sequence has no watermark before its first row. The reader first reads a few rows of it, to find where it begins.

An unbounded split may have no rows for a long time, and would hold back event time for the others. With `idle_ms`
(`kit.stream.operators.watermarks`), it is ignored after this time without rows, until its next row. The time is that of
the task's activity (`kit.machines.task.task_activity`). A split with rows that the reader has not read yet is not idle.

Follows Flink's `WatermarkOutputMultiplexer`, with an output for each split that is registered when the reader
receives the split and released when it has been read. In Flink an unassigned split does not hold back event time.
"""

from __future__ import annotations

from collections.abc import Iterable

from kit.core.event_time import MIN_WATERMARK_MS


class SplitWatermarks:
    """The watermark of each sequence that has splits left; MIN_WATERMARK_MS before its first row."""

    def __init__(self) -> None:
        self._of: dict[str, int] = {}
        self.current = ""
        """The sequence to which rows are counted."""
        self._empty_since_ms: dict[str, int] = {}
        """The sequences without rows, with the task's activity when the first read found none."""
        self._unread: set[str] = set()
        """Those of them that have rows again, which the reader has not read."""
        self._idle: set[str] = set()

    def register(self, sequences: Iterable[str]) -> None:
        """Set the sequences; known ones keep their watermarks."""
        self._of = {sequence: self._of.get(sequence, MIN_WATERMARK_MS) for sequence in sequences}
        for gone in self._empty_since_ms.keys() - self._of.keys():
            self._has_rows(gone)

    def begin(self, sequence: str) -> None:
        """Count rows to this sequence from now on."""
        self.current = sequence
        if self._empty_since_ms:
            self._has_rows(sequence)

    def nothing_now(self, sequence: str, active_ms: int) -> None:
        """Note that a read of this sequence found no rows, when the task's activity was `active_ms`."""
        if sequence in self._of:
            self._empty_since_ms.setdefault(sequence, active_ms)
            self._unread.discard(sequence)

    def may_have_rows(self, sequence: str) -> None:
        """Note that a sequence without rows may have some now, which the reader has not read yet."""
        if sequence in self._empty_since_ms:
            self._unread.add(sequence)

    def _has_rows(self, sequence: str) -> None:
        self._empty_since_ms.pop(sequence, None)
        self._unread.discard(sequence)
        self._idle.discard(sequence)

    @property
    def empty_since_ms(self) -> Iterable[int]:
        """The task's activity when each sequence that is without rows, and not idle yet, was found to have none."""
        return (since_ms for sequence, since_ms in self._empty_since_ms.items() if sequence not in self._idle)

    def find_idle(self, active_ms: int, idle_ms: int) -> int | None:
        """Leave out sequences that had no rows for `idle_ms`; return the least watermark of the others, if any."""
        self._idle |= {
            each
            for each, since_ms in self._empty_since_ms.items()
            if active_ms >= since_ms + idle_ms and each not in self._unread
        }
        return self.least

    @property
    def least(self) -> int | None:
        """The least watermark of the sequences that are not idle; None if there are none."""
        return min(self._active(), default=None)

    def _active(self) -> Iterable[int]:
        return (watermark for sequence, watermark in self._of.items() if sequence not in self._idle)

    def advance(self, watermark_ms: int) -> int:
        """Advance the current sequence; return the watermark of the reader. A row that an operator in between emits
        later, when its sequence has been read, changes nothing.
        """
        if watermark_ms > self._of.get(self.current, watermark_ms):
            self._of[self.current] = watermark_ms
        return min(self._active() if self._idle else self._of.values(), default=watermark_ms)

    def of(self, sequence: str) -> int:
        """Return the watermark of a sequence."""
        return self._of[sequence]

    def __repr__(self) -> str:
        return f"SplitWatermarks({len(self._of)} sequences, {min(self._of.values(), default=None)})"

"""The watermarks of the splits of one reader; their minimum is the reader's event time.

Several files of one source often cover the same time, for example one file per sensor. If a reader read them one after
the other, its watermark would pass the rows of the second file while it read the first. So splits belong to *sequences*
(`Source.sequence_of`; for a file source, one per file). Within a sequence, event time continues from split to split;
between two sequences it may start again. Each sequence has its own watermark, and the reader's is the minimum over the
sequences that have splits left. The reader holds all its splits from the start, and continues with the sequence that is
furthest behind. So files that follow each other in time are still read one after the other.

A sequence has no watermark before its first row. The reader first reads a few rows of it, to find where it begins.

An unbounded split may have no rows for a long time, and would hold back event time for the others. With `idle_ms`
(`kit.stream.operators.watermarks`), it is ignored after this time without rows, until its next row. A split with rows
that the reader has not read yet is not idle.

Follows Flink's `WatermarkOutputMultiplexer`, with an output for each split that is registered when the reader
receives the split and released when it has been read. In Flink an unassigned split does not hold back event time.
"""

from __future__ import annotations

from collections.abc import Iterable

from kit.core.protocol.elements import MIN_WATERMARK_MS


class SplitWatermarks:
    """The watermark of each sequence that has splits left; MIN_WATERMARK_MS before its first row."""

    def __init__(self) -> None:
        self._of: dict[str, int] = {}
        self.current = ""
        """The sequence to which rows are counted."""
        self._empty_since_ms: dict[str, int] = {}
        """The sequences that have nothing now."""
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

    def nothing_now(self, sequence: str, now_ms: int) -> None:
        """Note that a sequence has no rows for now."""
        if sequence in self._of:
            self._empty_since_ms.setdefault(sequence, now_ms)

    def _has_rows(self, sequence: str) -> None:
        self._empty_since_ms.pop(sequence, None)
        self._idle.discard(sequence)

    def next_idle_ms(self, idle_ms: int) -> int | None:
        """Return the time at which the next sequence becomes idle if it gets no rows; None if none will."""
        waiting = (since for sequence, since in self._empty_since_ms.items() if sequence not in self._idle)
        return min((since + idle_ms for since in waiting), default=None)

    def find_idle(self, now_ms: int, idle_ms: int) -> int | None:
        """Leave out sequences that had no rows for `idle_ms`; return the least watermark of the others, if any."""
        self._idle |= {each for each, since_ms in self._empty_since_ms.items() if now_ms >= since_ms + idle_ms}
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

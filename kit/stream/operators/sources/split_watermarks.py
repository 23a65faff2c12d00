"""The watermarks of the splits that one reader holds, and the least of them: what the reader's event time is.

Several files of one source often cover the same time: one for each sensor, say. A reader that reads them one after
the other comes to rows of the second file that its own watermark passed with the first. So splits belong to
*sequences* (`Source.sequence_of`; of a file source, one for each file): within a sequence event time goes on from
split to split, and between two it may begin again. Each sequence has a watermark of its own, and the reader's is the
least of those that have splits left. The reader holds all its splits from the start, and reads on where event time is
furthest behind, so files that follow each other in time are still read one after the other.

A sequence has no watermark before its first row. Its reader reads a few rows first, to know where it begins.

A split without an end may have nothing for a long time, and would hold event time back for the others. With `idle_ms`
(`kit.stream.operators.watermarks`) it counts no longer once it has had nothing for so long, and counts again with its
next row. A split that has rows which its reader has not come to is not idle.

Follows Flink's `WatermarkOutputMultiplexer`, with an output for each split that is registered when the reader is given
the split and released when it has been read. In Flink a split that has not been given out holds nothing back.
"""

from __future__ import annotations

from collections.abc import Iterable

from kit.core.protocol.elements import MIN_WATERMARK_MS


class SplitWatermarks:
    """The watermark of each sequence that has splits left; MIN_WATERMARK_MS where no row has come."""

    def __init__(self) -> None:
        self._of: dict[str, int] = {}
        self._current = ""
        self._empty_since_ms: dict[str, int] = {}
        """The sequences that have nothing now."""
        self._idle: set[str] = set()

    def register(self, sequences: Iterable[str]) -> None:
        """Have these sequences, and no others; those that are known keep their watermarks."""
        self._of = {sequence: self._of.get(sequence, MIN_WATERMARK_MS) for sequence in sequences}
        for gone in self._empty_since_ms.keys() - self._of.keys():
            self._has_rows(gone)

    def begin(self, sequence: str) -> None:
        """Take the rows that come from now on as those of this sequence."""
        self._current = sequence
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
        """Return when the next sequence will be idle if it gets no rows; None if none will."""
        waiting = (since for sequence, since in self._empty_since_ms.items() if sequence not in self._idle)
        return min((since + idle_ms for since in waiting), default=None)

    def find_idle(self, now_ms: int, idle_ms: int) -> int | None:
        """Take sequences that have had nothing for `idle_ms` out; return the least watermark of the others, if any."""
        self._idle |= {each for each, since_ms in self._empty_since_ms.items() if now_ms >= since_ms + idle_ms}
        return self.least

    @property
    def least(self) -> int | None:
        """The least watermark of the sequences that are not idle; None if there are none."""
        return min(self._active(), default=None)

    def _active(self) -> Iterable[int]:
        return (watermark for sequence, watermark in self._of.items() if sequence not in self._idle)

    @property
    def current(self) -> str:
        """The sequence that the rows are of."""
        return self._current

    def advance(self, watermark_ms: int) -> int:
        """Note how far the current sequence is; return the watermark of the reader. A row that an operator in between
        makes later, when its sequence has been read, changes nothing.
        """
        if watermark_ms > self._of.get(self._current, watermark_ms):
            self._of[self._current] = watermark_ms
        return min(self._active() if self._idle else self._of.values(), default=watermark_ms)

    def of(self, sequence: str) -> int:
        """Return the watermark of a sequence."""
        return self._of[sequence]

    def __repr__(self) -> str:
        return f"SplitWatermarks({len(self._of)} sequences, {min(self._of.values(), default=None)})"

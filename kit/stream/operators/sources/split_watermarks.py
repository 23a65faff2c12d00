"""The watermarks of the splits that one reader holds, and the least of them: what the reader's event time is.

Several files of one source often cover the same time: one for each sensor, say. A reader that reads them one after
the other comes to rows of the second file that its own watermark passed with the first. So splits belong to
*sequences* (`Source.sequence_of`; of a file source, one for each file): within a sequence event time goes on from
split to split, and between two it may begin again. Each sequence has a watermark of its own, and the reader's is the
least of those that have splits left. The reader holds all its splits from the start, and reads on where event time is
furthest behind, so files that follow each other in time are still read one after the other.

A sequence has no watermark before its first row. Its reader reads a few rows first, to know where it begins.

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

    def register(self, sequences: Iterable[str]) -> None:
        """Have these sequences, and no others; those that are known keep their watermarks."""
        self._of = {sequence: self._of.get(sequence, MIN_WATERMARK_MS) for sequence in sequences}

    def begin(self, sequence: str) -> None:
        """Take the rows that come from now on as those of this sequence."""
        self._current = sequence

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
        return min(self._of.values(), default=watermark_ms)

    def of(self, sequence: str) -> int:
        """Return the watermark of a sequence."""
        return self._of[sequence]

    def __repr__(self) -> str:
        return f"SplitWatermarks({len(self._of)} sequences, {min(self._of.values(), default=None)})"

"""The splits of one reader, each with its own position, and the choice of the next one to read.

There are two orders. Bounded splits are read one after the other, in ascending order. If event time follows several
sequences of them (`kit.stream.operators.sources.split_watermarks`), the reader continues with the sequence that is
furthest behind. Unbounded splits are read *in turn*: the next one is the one whose last read was longest ago. A source
does not have to declare the kind of its splits: once a read finds no rows, the reader reads all its splits in turn.

A split whose last read found no rows is *empty*: it is not read until the host reports that it has rows.

Follows Flink's `SourceReaderBase` (its `splitStates`) and `SplitFetcherManager`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from kit.stream.operators.sources.split_enumerator import Split


@dataclass(slots=True)
class HeldSplit:
    """A split of this reader, with its position."""

    split: Split
    position: int
    is_empty: bool = False
    is_woken: bool = False
    """True if it was empty, and has not been read since the host reported rows."""
    turn: int = 0
    """The number of its last read."""

    @property
    def id(self) -> str:
        """The split's id."""
        return str(self.split["id"])

    @property
    def index(self) -> int:
        """The split's place in the enumeration."""
        return int(self.split.get("index", 0))


class HeldSplits:
    """The splits of one reader, in ascending order. `sequence_of` returns the sequence of a split."""

    def __init__(self, sequence_of: Callable[[Split], str], *, in_turn: bool) -> None:
        self.in_turn = in_turn
        self._sequence_of = sequence_of
        self._held: list[HeldSplit] = []
        self._turns = 0

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[HeldSplit]:
        return iter(self._held)

    def __contains__(self, held: HeldSplit) -> bool:
        return any(each is held for each in self._held)

    @property
    def first(self) -> HeldSplit | None:
        """The first split, or None."""
        return self._held[0] if self._held else None

    @property
    def empty(self) -> list[HeldSplit]:
        """The splits whose last read found no rows."""
        return [held for held in self._held if held.is_empty]

    @property
    def with_rows(self) -> list[HeldSplit]:
        """The splits that may have rows."""
        return [held for held in self._held if not held.is_empty]

    def add(self, splits: Iterable[HeldSplit]) -> None:
        """Add these splits."""
        self._held = sorted((*self._held, *splits), key=lambda held: held.index)

    def remove(self, ids: Iterable[str]) -> list[HeldSplit]:
        """Remove these splits, and return those that were held."""
        gone = set(ids)
        removed = [held for held in self._held if held.id in gone]
        self._held = [held for held in self._held if held.id not in gone]
        return removed

    def have_rows(self, ids: Iterable[str]) -> list[HeldSplit]:
        """Read these splits again; return those that were empty."""
        there = set(ids)
        woken = [held for held in self._held if held.id in there and held.is_empty]
        for held in woken:
            held.is_empty, held.is_woken = False, True
        return woken

    def next(self, watermark_of: Callable[[str], int] | None, max_watermark_ms: int | None = None) -> HeldSplit | None:
        """Return the split to read now, or None.

        `watermark_of` returns the watermark of a sequence, if event time matters. Splits beyond `max_watermark_ms` are
        not read.
        """
        ready = [held for held in self._heads(follows_time=watermark_of is not None) if not held.is_empty]
        if watermark_of is not None and max_watermark_ms is not None:
            ready = [held for held in ready if watermark_of(self._sequence_of(held.split)) <= max_watermark_ms]
        if self.in_turn:
            return min(ready, key=lambda held: held.turn, default=None)
        if watermark_of is None:
            return ready[0] if ready else None
        return min(ready, key=lambda held: watermark_of(self._sequence_of(held.split)), default=None)

    def begin_read(self, held: HeldSplit) -> None:
        """Note that a read of this split starts."""
        self._turns += 1
        held.turn = self._turns

    def _heads(self, *, follows_time: bool) -> Iterable[HeldSplit]:
        """Yield the splits that may be next: all, or with event time the first one of each sequence."""
        if not follows_time:
            return self._held
        first: dict[str, HeldSplit] = {}
        for held in self._held:
            first.setdefault(self._sequence_of(held.split), held)
        return first.values()

    def __repr__(self) -> str:
        return f"HeldSplits({len(self._held)} splits, {len(self.empty)} empty)"

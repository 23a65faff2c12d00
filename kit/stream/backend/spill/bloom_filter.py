"""A Bloom filter of places: ten bits for each, four of them set, all in one 64-bit word.

A place selects its word by its position within the range of the run, so sorted look-ups walk through the filter.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kit.stream.backend.spill.places import Places

_BITS_A_PLACE, _BITS_SET = 10, 4


class BloomFilter:
    """The places of a run of at most `most_rows` rows, whose key groups begin with `first` and end before `behind`."""

    def __init__(self, most_rows: int, first: int, behind: int) -> None:
        self._words = np.zeros(max(1, most_rows * _BITS_A_PLACE // 64), np.uint64)
        self._low = float(first)
        self._scale = len(self._words) / float(behind - first)

    def __repr__(self) -> str:
        return f"BloomFilter({self.nbytes} B)"

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return self._words.nbytes

    def add(self, places: Places) -> None:
        """Add ascending places, at least one."""
        at = self._word_of(places)
        starts = np.flatnonzero(np.append(True, at[1:] != at[:-1]))
        self._words[at[starts]] |= np.bitwise_or.reduceat(_bits_of(places), starts)

    def may_contain(self, places: Places) -> npt.NDArray[np.bool_]:
        """Return False for places that were not added."""
        bits = _bits_of(places)
        return (self._words.take(self._word_of(places)) & bits) == bits

    def _word_of(self, places: Places) -> npt.NDArray[np.int64]:
        at = ((places.astype(np.float64) - self._low) * self._scale).astype(np.int64)
        return np.clip(at, 0, len(self._words) - 1)


def _bits_of(places: Places) -> Places:
    bits = np.zeros(len(places), np.uint64)
    for number in range(_BITS_SET):
        bits |= np.uint64(1) << ((places >> np.uint64(6 * number)) & np.uint64(63))
    return bits

"""The rows of W7: keys spread over 64 bits, uniform or by Zipf's law, each with a number and 88 bytes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from benchmarks.disk_state.entries import LAST, Entries, codes_of
from benchmarks.throughput.workloads import scatter

EXPONENT = 1.1
_LOADED_AT_ONCE = 1 << 17
Keys = npt.NDArray[np.int64]
Batch = tuple[Keys, Keys, npt.NDArray[np.void]]


def keys_of(numbers: Keys) -> Keys:
    """Return the keys with these numbers: spread over 64 bits, as those of W1r."""
    return scatter(numbers) * 2 - (1 << 62)


class Generator:
    """Batches of rows with random keys out of `keys`."""

    def __init__(self, keys: int, skew: str, seed: int, rows: int) -> None:
        self._keys, self._skew, self._rows = keys, skew, rows
        self._random = np.random.default_rng(seed)
        self._lasts = self._random.integers(0, 1 << 62, (2 * rows, LAST.itemsize // 8)).view(LAST).ravel()

    def batch(self) -> Batch:
        """Return the next keys, numbers and last values."""
        start = int(self._random.integers(self._rows))
        values = self._random.integers(0, 100, self._rows)
        return keys_of(self._numbers()), values, self._lasts[start : start + self._rows]

    def _numbers(self) -> Keys:
        if self._skew == "uniform":
            return self._random.integers(0, self._keys, self._rows)
        # Zipf's law by inverting the distribution of the continuous law: rank k with a density of k ** -EXPONENT.
        least = float(self._keys + 1) ** (1 - EXPONENT)
        ranks = (1 - self._random.random(self._rows) * (1 - least)) ** (1 / (1 - EXPONENT))
        return np.minimum(ranks.astype(np.int64), self._keys) - 1


def loaded(keys: int) -> Iterator[Entries]:
    """Yield the state before the first row, in the order of the codes."""
    codes = codes_of(keys_of(np.arange(keys)))
    order = np.argsort(codes)
    for begin in range(0, keys, _LOADED_AT_ONCE):
        numbers = order[begin : begin + _LOADED_AT_ONCE]
        yield Entries(codes[numbers], np.ones(len(numbers), np.bool_), *state_of(numbers))


def state_of(numbers: Keys) -> tuple[Keys, npt.NDArray[np.void]]:
    """Return the sum and the last value of keys before the first row: the sum is the number of the key."""
    lasts = np.zeros((len(numbers), LAST.itemsize // 8), np.int64)
    lasts[:, 0] = numbers
    return numbers, lasts.view(LAST).ravel()

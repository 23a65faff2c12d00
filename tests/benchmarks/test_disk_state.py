"""State on disk: the design with sorted runs, and the cache of both designs, against a dict.

The other design needs the package `rocksdict`, which is not installed here. The benchmark itself compares the sum over
all keys at the end of each run, for both designs.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from benchmarks.disk_state.hot_rows import HotRows
from benchmarks.disk_state.rows import Generator, keys_of, loaded
from benchmarks.disk_state.run_store import RunStore, to_merge

KEYS, ROWS, CAPACITY = 6_000, 700, 2_000


@pytest.mark.parametrize("skew", ["uniform", "zipf"])
@pytest.mark.parametrize("answers", [True, False])
def test_sorted_runs_hold_what_a_dict_holds(answers: bool, skew: str, tmp_path: Path) -> None:
    store = RunStore(tmp_path, direct=False)
    store.load(loaded(KEYS), KEYS)
    numbers = np.arange(KEYS)
    sums = defaultdict(int, zip(keys_of(numbers).tolist(), numbers.tolist(), strict=True))
    lasts = {key: number.to_bytes(8, "little") + bytes(80) for key, number in sums.items()}
    cache = HotRows(store, CAPACITY, answers=answers)
    generator = Generator(KEYS + 500, skew, seed=7, rows=ROWS)  # some keys are new
    for number in range(60):
        batch = generator.batch()
        answer = cache.update(*batch)
        for key, value, last in zip(*(column.tolist() for column in batch), strict=True):
            sums[key] += value
            lasts[key] = last
        assert answer is None or answer.tolist() == [sums[key] for key in batch[0].tolist()]
        if number % 4 == 3:
            cache.checkpoint(tmp_path / f"checkpoint-{number}")
            store.merge()
    keys = np.array(list(sums))
    for begin in range(0, len(keys), ROWS):
        some = keys[begin : begin + ROWS]
        found, last = cache.get(some)
        assert found.tolist() == [sums[key] for key in some.tolist()]
        assert last.tolist() == [lasts[key] for key in some.tolist()]
    cache.checkpoint(tmp_path / "end")
    assert sum(int(entries.sums.sum()) for entries in store.scan()) == sum(sums.values())
    assert cache.counts.evictions > 0
    assert store.merges > 1


def test_merges_take_runs_of_a_similar_size_or_all_of_them() -> None:
    assert to_merge([10, 10, 10, 1_000]) is None
    assert to_merge([10, 10, 10, 10, 1_000]) == slice(0, 4)
    assert to_merge([10, 400, 600, 1_000]) == slice(0, 4)

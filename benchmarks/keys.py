"""Keyed state by the type of its keys: how many rows per second find their entry, against keys that are numbers.

    python -m benchmarks keys
    python -m benchmarks.keys --keys 1000000

A count and a sum for each key, folded in by batches of 64k rows: with keys that stay, as in an aggregate; with keys
that are gone after each batch, as in small windows; and key by key, as in a process function, for new and for known
keys.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks._options import options
from kit.core.state.handles import KeyGroupRange
from kit.stream.backend.heap import HeapKeyedStateBackend
from kit.stream.backend.states.descriptors import ReducingStateDescriptor, ValueStateDescriptor

KEYS = 100_000
MAX_PARALLELISM = 128
PAIR = pa.struct([("user", pa.string()), ("item", pa.int64())])
TOTALS = ReducingStateDescriptor(
    "totals", pa.struct([("total", pa.int64()), ("n", pa.int64())]), {"total": "sum", "n": "count"}
)
COUNT = ValueStateDescriptor("count", pa.int64(), default=0)


@dataclass(frozen=True)
class Sizes:
    """The sizes to measure: the rows of a batch, batches, and rows that come one by one."""

    keys: int
    batch_rows: int = 65_536
    batches: int = 30
    single_rows: int = 5_000


SMALLEST = Sizes(100, 1_000, 2, 10)
COLUMNS: dict[pa.DataType, Callable[[np.ndarray], pa.Array]] = {
    pa.int64(): pa.array,
    pa.string(): lambda keys: pa.array([f"user-{key:08d}" for key in keys.tolist()]),
    PAIR: lambda keys: pa.array([{"user": f"u{key % 1_000}", "item": key} for key in keys.tolist()], PAIR),
}


def in_batches(key_type: pa.DataType, sizes: Sizes, *, stay: bool) -> float:
    """Million rows per second."""
    table = _backend(key_type).table(TOTALS)
    draw = np.random.default_rng(0)
    columns = [COLUMNS[key_type](draw.integers(0, sizes.keys, sizes.batch_rows)) for _ in range(sizes.batches)]
    values = draw.integers(0, 100, sizes.batch_rows)
    for column in columns if stay else []:
        table.reduce(table.slots(column), {"total": values})
    begin = time.perf_counter()
    for column in columns:
        slots = table.slots(column)
        table.reduce(slots, {"total": values})
        if not stay:
            table.clear(slots)
    return sizes.batches * sizes.batch_rows / (time.perf_counter() - begin) / 1e6


def one_by_one(key_type: pa.DataType, rows: int) -> tuple[float, float]:
    """Microseconds for a row with a new key, and for one with a key that is known."""
    backend = _backend(key_type)
    count = backend.state(COUNT)
    keys = COLUMNS[key_type](np.arange(rows)).to_pylist()
    took_us = []
    for _ in range(2):
        begin = time.perf_counter()
        for key in keys:
            backend.set_current_key(key)
            count.update(count.value() + 1)
        took_us.append((time.perf_counter() - begin) / rows * 1e6)
    return took_us[0], took_us[1]


def _backend(key_type: pa.DataType) -> HeapKeyedStateBackend:
    return HeapKeyedStateBackend(key_type, KeyGroupRange(0, MAX_PARALLELISM - 1), MAX_PARALLELISM)


def main() -> int:
    """Prints a line for each type."""
    arguments = options(__doc__)
    arguments.add_argument("--keys", type=int, default=KEYS)
    given = arguments.parse_args()
    sizes = SMALLEST if given.smallest else Sizes(given.keys)
    numbers = in_batches(pa.int64(), sizes, stay=True), in_batches(pa.int64(), sizes, stay=False)
    for key_type in COLUMNS:
        staying, passing = in_batches(key_type, sizes, stay=True), in_batches(key_type, sizes, stay=False)
        new_us, known_us = one_by_one(key_type, sizes.single_rows)
        print(
            f"{key_type!s:40} staying {staying:6.1f} Mrows/s ({staying / numbers[0]:4.2f} of int64), "
            f"passing {passing:5.1f} Mrows/s ({passing / numbers[1]:4.2f}); "
            f"one by one: new {new_us:4.0f} us, known {known_us:3.1f} us",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())

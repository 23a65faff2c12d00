"""Keyed state by the type of its keys: how many rows per second find their entry, against keys that are numbers.

    python -m benchmarks keys
    python -m benchmarks.keys --keys 1000000

A count and a sum for each key, folded in by batches of 64k rows: with keys that stay, as in an aggregate; with keys
that are gone after each batch, as in small windows; and key by key, as in a process function, for new and for known
keys.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from kit.backend.descriptors import ReducingStateDescriptor, ValueStateDescriptor
from kit.backend.heap import HeapKeyedStateBackend
from kit.state.handles import KeyGroupRange

KEYS = 100_000
BATCH_ROWS = 65_536
BATCHES = 30
SINGLE_ROWS = 5_000
MAX_PARALLELISM = 128
PAIR = pa.struct([("user", pa.string()), ("item", pa.int64())])
TOTALS = ReducingStateDescriptor(
    "totals", pa.struct([("total", pa.int64()), ("n", pa.int64())]), {"total": "sum", "n": "count"}
)
COUNT = ValueStateDescriptor("count", pa.int64(), default=0)
COLUMNS: dict[pa.DataType, Callable[[np.ndarray], pa.Array]] = {
    pa.int64(): pa.array,
    pa.string(): lambda keys: pa.array([f"user-{key:08d}" for key in keys.tolist()]),
    PAIR: lambda keys: pa.array([{"user": f"u{key % 1_000}", "item": key} for key in keys.tolist()], PAIR),
}


def in_batches(key_type: pa.DataType, keys: int, *, stay: bool) -> float:
    """Million rows per second."""
    table = _backend(key_type).table(TOTALS)
    draw = np.random.default_rng(0)
    columns = [COLUMNS[key_type](draw.integers(0, keys, BATCH_ROWS)) for _ in range(BATCHES)]
    values = draw.integers(0, 100, BATCH_ROWS)
    for column in columns if stay else []:
        table.reduce(table.slots(column), {"total": values})
    begin = time.perf_counter()
    for column in columns:
        slots = table.slots(column)
        table.reduce(slots, {"total": values})
        if not stay:
            table.clear(slots)
    return BATCHES * BATCH_ROWS / (time.perf_counter() - begin) / 1e6


def one_by_one(key_type: pa.DataType) -> tuple[float, float]:
    """Microseconds for a row with a new key, and for one with a key that is known."""
    backend = _backend(key_type)
    count = backend.state(COUNT)
    keys = COLUMNS[key_type](np.arange(SINGLE_ROWS)).to_pylist()
    took_us = []
    for _ in range(2):
        begin = time.perf_counter()
        for key in keys:
            backend.set_current_key(key)
            count.update(count.value() + 1)
        took_us.append((time.perf_counter() - begin) / SINGLE_ROWS * 1e6)
    return took_us[0], took_us[1]


def _backend(key_type: pa.DataType) -> HeapKeyedStateBackend:
    return HeapKeyedStateBackend(key_type, KeyGroupRange(0, MAX_PARALLELISM - 1), MAX_PARALLELISM)


def main() -> int:
    """Prints a line for each type."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--keys", type=int, default=KEYS)
    keys = arguments.parse_args().keys
    numbers = in_batches(pa.int64(), keys, stay=True), in_batches(pa.int64(), keys, stay=False)
    for key_type in COLUMNS:
        staying, passing = in_batches(key_type, keys, stay=True), in_batches(key_type, keys, stay=False)
        new_us, known_us = one_by_one(key_type)
        print(
            f"{key_type!s:40} staying {staying:6.1f} Mrows/s ({staying / numbers[0]:4.2f} of int64), "
            f"passing {passing:5.1f} Mrows/s ({passing / numbers[1]:4.2f}); "
            f"one by one: new {new_us:4.0f} us, known {known_us:3.1f} us",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())

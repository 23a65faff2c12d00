"""The rows that a join keeps, when another operator takes over their state: the same rows, in the same order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from kit.core.state.key_groups import KeyGroupRange
from kit.stream.backend.heap import HeapKeyedStateBackend
from kit.stream.operators.functions.function_operator import FunctionInput
from kit.stream.operators.windows.row_buffer import RowBuffer

SCHEMA = pa.schema([("key", pa.string()), ("at", pa.int64()), ("n", pa.int64())])
GIVEN = FunctionInput(SCHEMA, ("key",), "at")


def buffer_on(backend: HeapKeyedStateBackend) -> RowBuffer:
    return RowBuffer(backend, "rows", GIVEN, "join", lambda times: times + 5)


def add(buffer: RowBuffer, *rows: tuple[str, int, int]) -> None:
    batch = pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)
    buffer.add(batch, batch.column("at").to_numpy())


def kept(buffer: RowBuffer, key: str) -> list[Any]:
    """The numbers of a key's rows, in their order."""
    low, high = (np.array([time], dtype=np.int64) for time in (-(2**62), 2**62))
    start, end = buffer.between(pa.array([key]), low, high)
    return buffer.rows(np.arange(start[0], end[0])).column("n").to_pylist()


def test_rows_of_one_key_and_time_keep_their_order_after_a_restore() -> None:
    """Places of rows that expired are used again, so the state's order is not that in which the rows came."""
    backend = HeapKeyedStateBackend(pa.string(), KeyGroupRange(0, 127), 128)
    buffer = buffer_on(backend)
    add(buffer, *[("a", 0, n) for n in range(3)], ("b", 0, 50))
    add(buffer, ("a", 10, 3), ("b", 10, 51))
    buffer.expire(5)
    add(buffer, ("a", 10, 4), ("a", 10, 5), ("b", 10, 52))
    assert [kept(buffer, key) for key in "ab"] == [[3, 4, 5], [51, 52]]
    restored = buffer_on(backend)
    assert len(restored) == len(buffer)
    assert [kept(restored, key) for key in "ab"] == [[3, 4, 5], [51, 52]]
    add(restored, ("a", 10, 6))
    again = buffer_on(backend)
    assert kept(again, "a") == [3, 4, 5, 6], "numbers continue after those restored"
    again.expire(15)
    assert len(again) == 0

"""Few rows are taken one by one, many in passes over columns: the state that comes of them is the same, to the byte."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.core.state.handles import KeyGroupRange
from kit.stream.backend.heap import HeapKeyedStateBackend
from kit.stream.backend.keys.slot_index import FEW_ROWS
from kit.stream.backend.states.descriptors import ReducingStateDescriptor
from tests.properties import examples
from tests.stream.backend.conftest import written

LARGEST, SMALLEST = (1 << 63) - 1, -(1 << 63)
NUMBERS = st.none() | st.integers(-5, 5) | st.sampled_from([LARGEST, SMALLEST, 1 << 62])
FLOATS = st.none() | st.floats(-1e9, 1e9) | st.sampled_from([float("inf"), -float("inf")])
WORDS = {"rows": "count", "sum": "sum", "min": "min", "max": "max", "float": "sum", "least": "min", "narrow": "sum"}
TYPES = {"rows": pa.int64(), "float": pa.float64(), "least": pa.float64(), "narrow": pa.int32()}
VALUE = pa.struct([(name, TYPES.get(name, pa.int64())) for name in WORDS])
KEYS = {
    "string": (pa.string(), st.text("aé𝄞", max_size=2)),
    "binary": (pa.binary(), st.binary(max_size=1)),
    "int64": (pa.int64(), st.sampled_from([-7, 0, 3, LARGEST, SMALLEST])),
    "int32": (pa.int32(), st.integers(-3, 3)),
}


def rows_of(key: st.SearchStrategy[Any]) -> st.SearchStrategy[list[dict[str, Any]]]:
    values = {"sum": NUMBERS, "min": NUMBERS, "max": NUMBERS, "float": FLOATS, "least": FLOATS}
    narrow = st.none() | st.integers(-9, 9)
    row = st.fixed_dictionaries({"key": key, "window": st.integers(-1, 2), "narrow": narrow, **values})
    return st.lists(row, min_size=FEW_ROWS + 1, max_size=4 * FEW_ROWS)


@pytest.mark.parametrize("keys", KEYS)
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_rows_in_small_pieces_leave_the_state_that_all_at_once_leave(keys: str, data: st.DataObject) -> None:
    key_type, key = KEYS[keys]
    rows = data.draw(rows_of(key))
    sizes = data.draw(st.lists(st.integers(1, FEW_ROWS), min_size=len(rows), max_size=len(rows)))
    whole, pieces = taken(rows, [len(rows)], key_type), taken(rows, sizes, key_type)
    assert whole is not None
    assert whole == pieces


def taken(rows: list[dict[str, Any]], sizes: list[int], key_type: pa.DataType) -> Any:
    """Return what a checkpoint writes after these rows, which arrive in batches of these sizes."""
    backend = HeapKeyedStateBackend(key_type, KeyGroupRange(0, 127), 128)
    table = backend.table(ReducingStateDescriptor("totals", VALUE, WORDS), pa.int64())
    timers = backend.timer_service("timers", pa.int64())
    start = 0
    for size in sizes:
        piece = rows[start : start + size]
        start += size
        if not piece:
            break
        column = pa.array([row["key"] for row in piece], key_type)
        windows = pa.array([row["window"] for row in piece], pa.int64())
        values = {
            name: pa.array([row[name] for row in piece], VALUE.field(name).type) for name in WORDS if name != "rows"
        }
        table.reduce(table.slots(column, windows), values)
        timers.event_time.register(column, windows, windows)
    return written(backend)

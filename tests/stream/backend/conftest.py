"""Keys of every type, and ways to look into a backend, for the tests of keyed state."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from kit.stream.backend.heap import HeapKeyedStateBackend
from kit.stream.backend.states.tables import StateTable

PAIR = pa.struct([("a", pa.string()), ("b", pa.int32())])

KEYS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int64 close together": (pa.int64(), st.integers(-40, 40)),
    "int64 far apart": (pa.int64(), st.sampled_from([k * 0x2E3779B97F4A7C - (1 << 58) for k in range(60)])),
    "int8": (pa.int8(), st.integers(-128, 127)),
    "uint64": (pa.uint64(), st.sampled_from([0, 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])),
    "string": (pa.string(), st.text("aé𝄞", max_size=3)),
    "float64": (pa.float64(), st.sampled_from([0.0, -0.0, 1.5, float("inf"), -2.0])),
    "bool": (pa.bool_(), st.booleans()),
    "binary": (pa.binary(), st.binary(max_size=2)),
    "struct": (PAIR, st.tuples(st.sampled_from(["x", "y", None]), st.sampled_from([1, 2, None]))),
    "timestamp": (
        pa.timestamp("ms", "UTC"),
        st.integers(0, 9).map(lambda second: datetime(2020, 1, 1, 0, 0, second, tzinfo=UTC)),
    ),
}


def plain(key: Any) -> Any:
    """A key as a dict should know it: -0.0 is not 0.0, and a struct is a tuple."""
    if isinstance(key, float):
        return repr(key)
    return tuple(key.values()) if isinstance(key, dict) else key


def contents(table: StateTable) -> dict[Any, Any]:
    """All entries of a table by (key, namespace)."""
    slots = table.entries()
    namespaces = table.namespaces(slots)
    return {
        (plain(key), namespace): value
        for key, namespace, value in zip(
            table.keys(slots).to_pylist(),
            [None] * len(slots) if namespaces is None else namespaces.to_pylist(),
            table.get(slots).to_pylist(),
            strict=True,
        )
    }


def written(backend: HeapKeyedStateBackend) -> tuple[bytes, tuple[int, ...]] | None:
    """Return what a checkpoint of the backend would write now."""
    snapshot = backend.snapshot()
    if snapshot is None:
        return None
    data, offsets = snapshot.encode()
    return data.to_pybytes(), offsets

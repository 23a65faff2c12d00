"""Types of every kind that Arrow has, and what the kit's modules decide about a type."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from kit.core.arrow_kinds import KeyForm, can_be_key, kind_of
from kit.core.state.errors import CheckpointError
from kit.files.output_frame import output_frame
from kit.snapshots.serializers.declared import snapshot_of
from kit.stream.backend.keys.key_columns import storage_dtype
from kit.stream.backend.keys.key_hashing import java_hash, java_hash_code
from kit.stream.backend.keys.key_store import key_store
from kit.stream.backend.states.descriptors import REDUCTIONS, has_order
from kit.stream.backend.states.descriptors import _can_reduce as can_reduce
from kit.stream.backend.types.exact_values import _rule as exact_rule
from kit.stream.backend.types.exact_values import same_clock
from kit.stream.backend.types.value_columns import column_for
from kit.stream.backend.types.value_types import converter, key_converter
from kit.stream.connectors.partitions import _is_named as can_partition
from kit.stream.operators.aggregates import _mean_type, _order_type, _sum_type, _total_type
from kit.stream.operators.rows import spelled

FLAT = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.null()),
    *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()),
    *(pa.binary(4), pa.decimal32(7, 2), pa.decimal64(12, 2), pa.decimal128(20, 2), pa.decimal256(50, 2)),
    *(pa.decimal128(5, -2), pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us")),
    *(pa.time64("ns"), pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns")),
    *(pa.timestamp("ms", "UTC"), pa.timestamp("ns", "Europe/Berlin"), pa.month_day_nano_interval()),
    *(pa.duration("s"), pa.duration("ms"), pa.duration("us"), pa.duration("ns")),
]
NESTED: list[Callable[[pa.DataType], pa.DataType]] = [
    pa.list_,
    pa.large_list,
    pa.list_view,
    pa.large_list_view,
    lambda of: pa.list_(of, 2),
    lambda of: pa.struct([("a", of), ("b", pa.string())]),
    lambda of: pa.map_(pa.string(), of),
    lambda of: pa.map_(of, pa.int64()),
    lambda of: pa.dictionary(pa.int32(), of),
    lambda of: pa.run_end_encoded(pa.int32(), of),
    lambda of: pa.sparse_union([pa.field("a", of)]),
    lambda of: pa.dense_union([pa.field("a", of)]),
]
_ALL = [
    *FLAT,
    *(make(of) for make in NESTED for of in (pa.int64(), pa.string())),
    pa.struct([]),
    pa.struct([("inside", pa.struct([("n", pa.int64()), ("at", pa.timestamp("ns"))]))]),
    pa.list_(pa.struct([("n", pa.decimal128(5, 2))])),
    pa.uuid(),
    pa.json_(),
]
_HAS_VIEWS = int(pa.__version__.split(".")[0]) >= 24
TYPES = [of for of in _ALL if _HAS_VIEWS or "view" not in str(of)]
"""Each kind, nested ones of several parts; `answers` is asked about each."""
_VALUES: list[Any] = [
    *(1, 0.5, True, "aü", b"ab", b"abcd", bytes(16), Decimal("1.50"), dt.date(2020, 2, 3), dt.time(1, 2, 3)),
    *(dt.datetime(2020, 2, 3, tzinfo=dt.UTC), dt.timedelta(seconds=3)),
    *([1, 2], ["a", "b"], [("a", 1)], {"a": 1, "b": "x"}, {"a": "y", "b": "x"}),
]


def answers(of: pa.DataType) -> dict[str, Any]:
    """Return what each module decides about a type; for an error, the name of its class."""
    asked: dict[str, Callable[[], Any]] = {
        "can be key": lambda: can_be_key(of),
        "is direct": lambda: kind_of(of).is_number_in_memory,
        "is text": lambda: kind_of(of).key is KeyForm.TEXT,
        "is text or bytes": lambda: kind_of(of).key in (KeyForm.TEXT, KeyForm.BYTES),
        "is fixed bytes": lambda: kind_of(of).key is KeyForm.FIXED,
        "storage": lambda: str(storage_dtype(of)) if kind_of(of).is_number_in_memory else None,
        "hashes": lambda: java_hash(_sample(of)).tolist(),
        "hash": lambda: [java_hash_code(value, of) for value in _sample(of).to_pylist()],
        "key store": lambda: type(key_store(of)).__name__ if can_be_key(of) else None,
        "converter": lambda: converter(of).__qualname__,
        "key converter": lambda: key_converter(of).__qualname__,
        "kept exactly": lambda: sorted(each.__name__ for each in exact_rule(of)[0]),
        "why not exact": lambda: exact_rule(of)[1] is not None,
        "same clock": lambda: [same_clock(of, each) for each in (pa.timestamp("s"), pa.timestamp("s", "UTC"))],
        "column": lambda: type(column_for(of)).__name__,
        "has order": lambda: has_order(of),
        "reduces": lambda: {word: can_reduce(of, word) for word in REDUCTIONS},
        "sum": lambda: str(_sum_type(of)),
        "total": lambda: str(_total_type(of)),
        "mean": lambda: str(_mean_type(of)),
        "smallest": lambda: str(_order_type(of)),
        "partition": lambda: can_partition(of),
        "spelled": lambda: spelled(of),
        "serializer": lambda: _serializers(snapshot_of(of)),
        "serializer of keys": lambda: _serializers(snapshot_of(of, is_key=True)),
        "pandas": lambda: str(output_frame(pa.table({"a": pa.array([None], of)}))["a"].dtype),
    }
    return {name: _answered(ask) for name, ask in asked.items()}


def _answered(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except (TypeError, ValueError, AttributeError, NotImplementedError, pa.ArrowException, CheckpointError) as error:
        return type(error).__name__


def _sample(of: pa.DataType) -> pa.Array:
    """Return one value of a type, of those that Arrow accepts for it."""
    for value in _VALUES:
        try:
            return pa.array([value], of)
        except (pa.ArrowException, TypeError, ValueError, NotImplementedError):
            continue
    return pa.array([np.float16(1.5)], of)


def _serializers(snapshot: bytes) -> list[str]:
    """Return the names of the serializers in a snapshot."""
    text = snapshot.decode("latin-1")
    return [each.split("$")[0].rpartition(".")[2] for each in text.split("org.apache.flink")[1:]]

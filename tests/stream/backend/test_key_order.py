"""Key order: keys are found by it, in the order in which a checkpoint has them."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.stream.backend.files.sorting import order_of_rows
from kit.stream.backend.keys.key_codec import codec_for
from kit.stream.backend.keys.key_order import ascend, rows_of, sort_columns
from tests.properties import examples

_TEXTS = st.text(max_size=3)
_INNER = pa.struct([("x", pa.int32()), ("y", pa.float64())])
KEYS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(1 << 63), (1 << 63) - 1),
    pa.uint64(): st.integers(0, (1 << 64) - 1),
    pa.int8(): st.integers(-128, 127),
    pa.bool_(): st.booleans(),
    pa.float64(): st.floats(),
    pa.float32(): st.floats(width=32),
    pa.timestamp("us"): st.datetimes(),
    pa.date32(): st.dates(),
    pa.string(): _TEXTS,
    pa.binary(): st.binary(max_size=3),
    pa.binary(2): st.binary(min_size=2, max_size=2),
    pa.decimal128(5, 2): st.decimals(Decimal("-999.99"), Decimal("999.99"), places=2),
    pa.decimal32(5, 2): st.decimals(Decimal("-999.99"), Decimal("999.99"), places=2),
    pa.struct([("a", pa.string()), ("b", pa.int64())]): st.fixed_dictionaries(
        {"a": st.none() | _TEXTS, "b": st.none() | st.integers(-2, 2)}
    ),
    pa.struct([("a", _INNER), ("b", pa.bool_())]): st.fixed_dictionaries(
        {
            "a": st.none() | st.fixed_dictionaries({"x": st.none() | st.integers(-2, 2), "y": st.none() | st.floats()}),
            "b": st.none() | st.booleans(),
        }
    ),
}


@pytest.mark.parametrize("key_type", list(KEYS), ids=str)
@given(data=st.data())
@settings(max_examples=examples(100, in_ci=20), deadline=None)
def test_keys_are_found_in_the_order_of_a_checkpoint(key_type: pa.DataType, data: st.DataObject) -> None:
    """Each key that is there has its row, each other one none; in this order no row comes before another twice."""
    given_keys = data.draw(st.lists(KEYS[key_type], min_size=1, max_size=40))
    others = data.draw(st.lists(KEYS[key_type], max_size=10))
    codec = codec_for(key_type)
    keys = pa.array(given_keys, key_type)
    codes = np.unique(codec.encode(keys, create=True))
    decoded = codec.decode(codes)
    ordered = decoded.take(pa.array(order_of_rows([codec.ranks(codes, decoded)])))
    columns = sort_columns([ordered])
    assert ascend(columns)
    wanted = pa.concat_arrays([keys, pa.array(others, key_type)])
    row_of = {_token(key): row for row, key in enumerate(ordered.to_pylist())}
    assert rows_of(sort_columns([wanted]), columns).tolist() == [
        row_of.get(_token(key), -1) for key in wanted.to_pylist()
    ]
    if len(ordered) > 1:
        assert not ascend(sort_columns([ordered[::-1]])), "backwards"
    assert not ascend(sort_columns([pa.concat_arrays([ordered, ordered[-1:]])])), "a key twice"


def test_a_namespace_comes_after_its_key() -> None:
    keys, namespaces = pa.array(["a", "a", "b", "b"]), pa.array([1, 5, -3, 2])
    columns = sort_columns([keys, namespaces])
    assert ascend(columns)
    assert not ascend(sort_columns([namespaces, keys]))
    wanted = sort_columns([pa.array(["b", "a", "a", "c"]), pa.array([-3, 5, 2, 2])])
    assert rows_of(wanted, columns).tolist() == [2, 1, -1, -1]
    assert rows_of(sort_columns([pa.array([], pa.string()), pa.array([], pa.int64())]), columns).tolist() == []


def _token(key: Any) -> Any:
    """A value that is equal where keys are: one NaN equals another, and 0.0 is not -0.0."""
    if isinstance(key, float):
        return "nan" if math.isnan(key) else (key, math.copysign(1, key))
    return tuple((name, _token(part)) for name, part in key.items()) if isinstance(key, dict) else key

"""Key groups against what Flink itself answers, one key at a time and a column at a time."""

from __future__ import annotations

import struct
from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.state.handles import KeyGroupRange
from kit.core.state.key_groups import (
    default_max_parallelism,
    key_group_partitions,
    key_group_range_for_operator_index,
    operator_index_for_key_group,
    operator_indexes,
)
from kit.stream.backend.keys.key_hashing import (
    assign_key_to_parallel_operator,
    assign_to_key_group,
    java_hash,
    java_hash_code,
    key_group_for_hash,
    key_groups,
    key_groups_for_hashes,
    murmur_hash,
)
from tests.flink_data import vectors

ARROW_TYPES = {
    "string": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "boolean": pa.bool_(),
    "double": pa.float64(),
    "float": pa.float32(),
    "tuple2<string,int>": pa.struct([("f0", pa.string()), ("f1", pa.int32())]),
    "tuple3<long,string,boolean>": pa.struct([("f0", pa.int64()), ("f1", pa.string()), ("f2", pa.bool_())]),
}


def rows(kind: str) -> list[dict[str, Any]]:
    return [row for row in vectors("key_groups") if row["kind"] == kind]


def key_of(row: dict[str, Any]) -> Any:
    if row["type"] == "double":
        return struct.unpack("<d", int(row["value"], 16).to_bytes(8, "little"))[0]
    if row["type"] == "float":
        return struct.unpack("<f", int(row["value"], 16).to_bytes(4, "little"))[0]
    return tuple(row["value"]) if row["type"].startswith("tuple") else row["value"]


def column_of(type_name: str, keys: list[Any]) -> pa.Array:
    arrow_type = ARROW_TYPES[type_name]
    if not pa.types.is_struct(arrow_type):
        return pa.array(keys, arrow_type)
    fields = [pa.array(values, field.type) for values, field in zip(zip(*keys, strict=True), arrow_type, strict=True)]
    return pa.StructArray.from_arrays(fields, fields=list(arrow_type))


def test_murmur_as_flink() -> None:
    mixed = rows("murmur")
    assert len(mixed) > 1000
    for row in mixed:
        assert murmur_hash(row["hash"]) == row["murmur"]
        assert key_group_for_hash(row["hash"], 32749) == row["murmur"] % 32749


@pytest.mark.parametrize("max_parallelism", [1, 7, 128, 32749, 32768])
def test_murmur_of_a_column_as_flink(max_parallelism: int) -> None:
    mixed = rows("murmur")
    hashes = np.array([row["hash"] for row in mixed], np.int32)
    expected = [row["murmur"] % max_parallelism for row in mixed]
    assert key_groups_for_hashes(hashes, max_parallelism).tolist() == expected


@pytest.mark.parametrize("type_name", ARROW_TYPES)
def test_each_key_as_flink(type_name: str) -> None:
    keyed = [row for row in rows("key") if row["type"] == type_name]
    assert len(keyed) >= 100
    for row in keyed:
        key, arrow_type, maximum = key_of(row), ARROW_TYPES[type_name], row["max_parallelism"]
        assert java_hash_code(key, arrow_type) == row["hash"], row
        assert assign_to_key_group(key, maximum, arrow_type) == row["key_group"] == row["key_group_for_hash"]
        owner = assign_key_to_parallel_operator(key, maximum, row["parallelism"], arrow_type)
        assert owner == row["operator_index"]


@pytest.mark.parametrize("type_name", ARROW_TYPES)
def test_a_column_of_keys_as_flink(type_name: str) -> None:
    keyed = [row for row in rows("key") if row["type"] == type_name]
    column = column_of(type_name, [key_of(row) for row in keyed])
    assert java_hash(column).tolist() == [row["hash"] for row in keyed]
    by_maximum = defaultdict(list)
    for index, row in enumerate(keyed):
        by_maximum[row["max_parallelism"]].append(index)
    for maximum, indexes in by_maximum.items():
        groups = key_groups(column.take(pa.array(indexes)), maximum)
        assert groups.tolist() == [keyed[i]["key_group"] for i in indexes]
        for i, group in zip(indexes, groups, strict=True):
            owner = operator_indexes(np.array([group]), maximum, keyed[i]["parallelism"])
            assert owner.tolist() == [keyed[i]["operator_index"]]


def test_dictionary_and_sliced_columns_hash_like_plain_ones() -> None:
    column = pa.array(["ORD", "é", "", "𝄞 clef", "x" * 100, "ORD"])
    expected = [java_hash_code(key) for key in column.to_pylist()]
    assert java_hash(column).tolist() == expected
    assert java_hash(column.dictionary_encode()).tolist() == expected
    assert java_hash(column.slice(2, 3)).tolist() == expected[2:5]
    assert java_hash(column.cast(pa.large_string())).tolist() == expected
    assert java_hash(pa.chunked_array([column, column])).tolist() == expected * 2


@given(st.lists(st.text(), max_size=30))
def test_a_column_of_strings_hashes_like_each(texts: list[str]) -> None:
    assert java_hash(pa.array(texts, pa.string())).tolist() == [java_hash_code(text) for text in texts]


@given(st.lists(st.binary(max_size=90), max_size=30))
def test_a_column_of_bytes_hashes_like_each(values: list[bytes]) -> None:
    assert java_hash(pa.array(values, pa.binary())).tolist() == [java_hash_code(value) for value in values]


def test_bytes_hash_like_javas_arrays() -> None:
    assert java_hash_code(b"") == 1
    assert java_hash_code(b"\x01\xff") == (31 + 1) * 31 - 1


def test_a_null_field_of_a_tuple_counts_zero() -> None:
    column = pa.array([{"a": None, "b": "x"}, {"a": 3, "b": None}], pa.struct([("a", pa.int32()), ("b", pa.string())]))
    assert java_hash(column).tolist() == [ord("x"), 3 * 31]
    assert java_hash_code((None, "x"), column.type) == ord("x")
    assert java_hash_code({"a": 3, "b": None}, column.type) == 3 * 31


def test_times_hash_like_the_number_they_are_stored_as() -> None:
    millis = [0, -1, 1_600_000_000_000]
    stamps = pa.array(millis, pa.timestamp("ms"))
    assert java_hash(stamps).tolist() == [java_hash_code(v) for v in millis]
    assert java_hash_code(stamps[2].as_py(), stamps.type) == java_hash_code(millis[2])
    assert java_hash(pa.array([5, -5], pa.int32()).view(pa.date32())).tolist() == [5, -5]


def test_every_not_a_number_is_one_key() -> None:
    quiet = np.array([0x7FF8000000000000, 0x7FF0000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)
    assert len(set(java_hash(quiet).tolist())) == 1
    assert java_hash(np.array([0.0, -0.0])).tolist() == [0, -(1 << 31)]


def test_keys_that_cannot_be_keys_are_refused() -> None:
    with pytest.raises(ValueError, match="row 1 has no key"):
        key_groups(pa.array([1, None]), 128)
    with pytest.raises(ValueError, match="must not be null"):
        assign_to_key_group(None, 128)
    with pytest.raises(TypeError, match=r"list<item: int64> cannot be a key"):
        key_groups(pa.array([[1]]), 128)
    with pytest.raises(TypeError, match=r"list<item: int64> cannot be a key"):
        java_hash_code([1], pa.list_(pa.int64()))
    with pytest.raises(TypeError, match="pass an Arrow array"):
        key_groups(np.array(["a"]), 128)
    with pytest.raises(ValueError, match="has 1 fields"):
        java_hash_code((1,), ARROW_TYPES["tuple2<string,int>"])


@pytest.mark.flink("CheckpointCoordinatorTest.testCreateKeyGroupPartitions")
def test_ranges_as_flink() -> None:
    for row in rows("ranges"):
        maximum, parallelism = row["max_parallelism"], row["parallelism"]
        found = [[r.start, r.end] for r in key_group_partitions(maximum, parallelism)]
        assert found == row["ranges"]
        owners = operator_indexes(np.arange(maximum), maximum, parallelism)
        for key_group, owner in row["kg_to_operator"]:
            assert operator_index_for_key_group(maximum, parallelism, key_group) == owner == owners[key_group]


def test_single_ranges_as_flink() -> None:
    for row in rows("range1"):
        maximum, parallelism = row["max_parallelism"], row["parallelism"]
        assert key_group_range_for_operator_index(maximum, parallelism, row["index"]) == KeyGroupRange(*row["range"])
        owner = operator_index_for_key_group(maximum, parallelism, row["key_group"])
        assert owner == row["operator_of_key_group"]


def test_default_max_parallelism_as_flink() -> None:
    for row in rows("default_max"):
        if row["error"] is None:
            assert default_max_parallelism(row["parallelism"]) == row["max_parallelism"]
        else:
            with pytest.raises(ValueError, match="not within bounds"):
                default_max_parallelism(row["parallelism"])


def test_bad_ranges_as_flink() -> None:
    for row in rows("range_err"):
        arguments = (row["max_parallelism"], row["parallelism"], row["index"])
        if row["error"] is None:
            assert key_group_range_for_operator_index(*arguments) == KeyGroupRange(*row["range"])
        else:
            with pytest.raises(ValueError, match=(row["error"]["message"] or "not be negative").split(":")[0]):
                key_group_range_for_operator_index(*arguments)

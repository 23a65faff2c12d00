"""Interned keys: whatever is encoded, counted, forgotten and read later, it answers as a dict of Python would."""

from __future__ import annotations

import math
import struct
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.core.state.errors import StateTypeError
from kit.stream.backend.keys.key_codec import UNKNOWN, codec_for
from kit.stream.backend.keys.key_store import hash_of_text
from tests.properties import examples

NESTED = pa.struct(
    [
        ("text", pa.string()),
        ("number", pa.int32()),
        ("inner", pa.struct([("real", pa.float64()), ("flag", pa.bool_()), ("day", pa.date32())])),
    ]
)
TEXT = st.text(max_size=20) | st.sampled_from(["", "a", "ab", "x" * 8, "x" * 9, "ü" * 70, "long " * 40])
NUMBER = st.integers(-3, 3)
INNER = st.fixed_dictionaries(
    {
        "real": st.none() | st.sampled_from([0.0, -0.0, 1.5, math.nan]),
        "flag": st.none() | st.booleans(),
        "day": st.none() | st.dates(),
    }
)
KEYS = {
    pa.string(): TEXT,
    pa.large_string(): TEXT,
    pa.binary(): st.binary(max_size=20) | TEXT.map(str.encode),
    NESTED: st.fixed_dictionaries({"text": st.none() | TEXT, "number": st.none() | NUMBER, "inner": st.none() | INNER}),
}


def same(keys: Any) -> Any:
    """Keys in a form that is equal where they are the same key: floats by their bits."""
    if isinstance(keys, dict):
        return tuple((name, same(value)) for name, value in sorted(keys.items()))
    if isinstance(keys, float):
        return "nan" if math.isnan(keys) else struct.pack("<d", keys)
    return keys


def batches(arrow_type: pa.DataType) -> st.SearchStrategy[list[tuple[str, list[Any]]]]:
    """Steps, each with keys of a small choice."""
    pool = st.lists(KEYS[arrow_type], min_size=1, max_size=12)
    kinds = st.sampled_from(["add", "add", "find", "one", "dictionary", "release", "freeze"])
    return pool.flatmap(
        lambda keys: st.lists(st.tuples(kinds, st.lists(st.sampled_from(keys), max_size=40)), max_size=12)
    )


@pytest.mark.parametrize("arrow_type", KEYS, ids=str)
@given(data=st.data())
@settings(max_examples=examples(60))
def test_as_a_dict_would(arrow_type: pa.DataType, data: st.DataObject) -> None:
    codec = codec_for(arrow_type)
    codes: dict[Any, int] = {}
    uses: Counter[Any] = Counter()
    frozen: list[tuple[Any, np.ndarray, list[Any]]] = []
    for kind, keys in data.draw(batches(arrow_type)):
        column = pa.array(keys, arrow_type)
        if kind == "freeze":
            held = np.array(sorted(codes.values()), np.int64)
            frozen.append((codec.freeze(), held, codec.decode(held).to_pylist()))
            continue
        if kind == "release":
            gone = list(dict.fromkeys(key for key in map(same, keys) if uses[key]))
            codec.release(np.array([codes[key] for key in gone], np.int64))
            uses.subtract(gone)
            codes = {key: code for key, code in codes.items() if uses[key]}
            continue
        create = kind != "find"
        if kind == "one":
            found = np.array([codec.encode_one(key, create) for key in keys], np.int64)
        elif kind == "dictionary" and not pa.types.is_struct(arrow_type):
            found = codec.encode(column.dictionary_encode(), create)
        else:
            found = codec.encode(column, create)
        if create:
            codec.retain(found)
            uses.update(map(same, keys))
            for key, code in zip(map(same, keys), found.tolist(), strict=True):
                assert codes.setdefault(key, code) == code
        else:
            assert found.tolist() == [codes.get(key, UNKNOWN) for key in map(same, keys)]
        assert len(set(codes.values())) == len(codes)
    for decoder, held, expected in frozen:
        assert list(map(same, decoder.decode(held).to_pylist())) == list(map(same, expected))
    held = list(codes.values())
    assert list(map(same, codec.decode(np.array(held, np.int64)).to_pylist())) == list(codes)


def test_a_second_snapshot_without_keys_does_not_let_go_of_the_first() -> None:
    codec = codec_for(pa.string())
    keys = pa.array(["a", "b"])
    codes = codec.encode(keys, True)
    codec.retain(codes)
    first = codec.freeze()
    codec.release(codes)
    codec.freeze()
    codec.retain(codec.encode(pa.array(["c", "d"]), True))
    assert first.decode(codes).to_pylist() == ["a", "b"]


def twins(begin: bytes, other: bytes, end: bytes) -> tuple[bytes, bytes]:
    """Two keys of sixteen bytes with one hash: the second half makes up for the first."""
    states = [hash_after(int.from_bytes(half, "little")) for half in (begin, other)]
    word = int.from_bytes(end, "little") ^ states[0] ^ states[1]
    return begin + end, other + word.to_bytes(8, "little")


def hash_after(word: int) -> int:
    """The hash of sixteen bytes when their first half is mixed in."""
    mixed = 0
    for part in (16, word):
        mixed = (mixed ^ part) * 0xFF51AFD7ED558CCD % 2**64
        mixed ^= mixed >> 32
    return mixed


def test_keys_with_one_hash_are_told_apart() -> None:
    first, second = twins(b"12345678", b"abcdefgh", b"the rest")
    assert first != second
    assert hash_of_text(first) == hash_of_text(second)
    other = b"no twin of any of them"
    codec = codec_for(pa.binary())
    column = pa.array([first, second, other] * 20)
    assert set(codec.encode(column, create=False).tolist()) == {UNKNOWN}
    codes = codec.encode(column, create=True)
    codec.retain(codes)
    assert len(set(codes.tolist())) == 3
    assert codec.decode(codes).equals(column)
    assert codec.encode_one(second, create=False) == codes[1]
    codec.release(codes[::3])  # the one that has the place by the hash
    assert codec.encode_one(first, create=False) == UNKNOWN
    assert codec.encode(column, create=False).tolist() == [UNKNOWN, codes[1], codes[2]] * 20
    again = codec.encode(column, create=True)
    codec.retain(again)
    assert codec.decode(again).equals(column)
    assert set(again[1::3].tolist()) == {int(codes[1])}
    codec.release(again[1::3])
    codec.release(codes[1::3])
    assert codec.encode(column, create=False).tolist() == [again[0], UNKNOWN, codes[2]] * 20


def test_a_struct_with_such_keys_as_well() -> None:
    first, second = twins(b"87654321", b"hgfedcba", b"tser eht")
    arrow_type = pa.struct([("bytes", pa.binary()), ("number", pa.int64())])
    column = pa.array([{"bytes": key, "number": 1} for key in (first, second)], arrow_type)
    codec = codec_for(arrow_type)
    codes = codec.encode(column, create=True)
    assert codes[0] != codes[1]
    assert codec.decode(codes).equals(column)
    assert codec.encode(column, create=False).tolist() == codes.tolist()


def test_what_is_gone_is_dropped_and_what_stays_keeps_its_code() -> None:
    codec = codec_for(pa.string())
    kept = pa.array([f"kept {number}" for number in range(100)])
    codes = codec.encode(kept, create=True)
    codec.retain(codes)
    before = codec.freeze()
    for turn in range(20):
        passing = codec.encode(pa.array([f"turn {turn}, {number}" for number in range(5_000)]), create=True)
        codec.retain(passing)
        codec.release(passing)
    assert codec.encode(kept, create=False).tolist() == codes.tolist()
    assert codec.encode_one("kept 7", create=False) == codes[7]
    assert codec.decode(codes).equals(kept)
    assert before.decode(codes).equals(kept)
    assert repr(codec) == "InternedCodec(100 keys of string)"


@pytest.mark.parametrize(
    ("arrow_type", "key", "message"),
    [
        (pa.string(), 7, "7 .int. does not fit Arrow type string"),
        (NESTED, b"bytes", "does not fit Arrow type struct"),
        (pa.binary(), None, "must not be null"),
    ],
)
def test_a_key_that_does_not_fit(arrow_type: pa.DataType, key: Any, message: str) -> None:
    with pytest.raises(StateTypeError, match=message):
        codec_for(arrow_type).encode_one(key, create=True)


def test_a_dictionary_with_a_null() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None]))
    with pytest.raises(StateTypeError, match="must not be null"):
        codec_for(pa.string()).encode(column, create=True)

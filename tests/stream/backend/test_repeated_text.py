"""Strings that repeat are numbered first: with the same key groups and the same codes as one by one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.stream.backend.keys.key_codec import UNKNOWN, codec_for
from kit.stream.backend.keys.key_hashing import assign_to_key_group, key_groups
from kit.stream.backend.types.repeated_text import MIN_ROWS, as_dictionary

WORDS = st.lists(st.text(max_size=12) | st.sampled_from(["", "x" * 8, "ü" * 70]), min_size=1, max_size=12)
TYPES = st.sampled_from([pa.string(), pa.large_string()])


def numbers_below(distinct: int) -> np.ndarray:
    """As many as are needed for strings to be numbered, in no order."""
    return np.random.default_rng(distinct).integers(0, distinct, MIN_ROWS + distinct)


@given(words=WORDS, text_type=TYPES)
@settings(max_examples=20)
def test_key_groups_are_those_of_each_string(words: list[str], text_type: pa.DataType) -> None:
    rows = numbers_below(len(words))
    column = pa.array(words, text_type).take(pa.array(rows))
    assert as_dictionary(column) is not None
    expected = np.array([assign_to_key_group(word, 128) for word in words])[rows]
    assert key_groups(column, 128).tolist() == expected.tolist()
    numbered = pa.DictionaryArray.from_arrays(pa.array(rows), pa.array([*words, "named by no row"], text_type))
    assert key_groups(numbered, 128).tolist() == expected.tolist()


@given(words=WORDS, text_type=TYPES, known=st.integers(0, 12))
@settings(max_examples=20)
def test_codes_are_those_of_each_string(words: list[str], text_type: pa.DataType, known: int) -> None:
    codec = codec_for(text_type)
    column = pa.array(words, text_type).take(pa.array(numbers_below(len(words))))
    codes = {word: codec.encode_one(word, True) for word in words[:known]}
    codec.retain(np.array(sorted(set(codes.values())), np.int64))
    texts = column.to_pylist()
    assert codec.encode(column, create=False).tolist() == [codes.get(word, UNKNOWN) for word in texts]
    found = codec.encode(column, create=True)
    codec.retain(np.unique(found))
    assert codec.decode(found).equals(column)
    assert found.tolist() == [codec.encode_one(word, False) for word in texts]


@pytest.mark.parametrize(
    ("rows", "distinct", "pays"), [(MIN_ROWS, 9, True), (MIN_ROWS - 1, 9, False), (MIN_ROWS, MIN_ROWS, False)]
)
def test_only_many_strings_that_repeat_are_numbered(rows: int, distinct: int, pays: bool) -> None:
    column = pa.array([f"word {number % distinct}" for number in range(rows)])
    numbered = as_dictionary(column)
    assert (numbered is not None) == pays
    assert numbered is None or numbered.dictionary_decode().equals(column)


def test_a_null_is_refused_however_strings_are_numbered() -> None:
    with pytest.raises(ValueError, match="row 7 has no key"):
        key_groups(pa.array(["a"] * 7 + [None] + ["b"] * MIN_ROWS), 128)

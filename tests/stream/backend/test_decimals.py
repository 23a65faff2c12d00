"""Decimals in limbs and back, and Java's hash codes of them."""

from __future__ import annotations

from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.stream.backend.keys.key_hashing import assign_to_key_group, java_hash, java_hash_code, key_groups
from kit.stream.backend.types.decimals import from_limbs, limbs
from tests.properties import examples

HASH_CODES = [  # what Java 17 gives for new BigDecimal(text).hashCode()
    ("0", 0),
    ("0.00", 2),
    ("1", 31),
    ("-1", -31),
    ("12.34", 38256),
    ("-12.34", -38252),
    ("0.01", 33),
    ("-0.01", -29),
    ("99999999999999999999999999999999999999", -427198386),
    ("-99999999999999999999999999999999999999", 427198386),
    ("9223372036854775807", 2147482656),
    ("9223372036854775808", -2147483648),
    ("-9223372036854775808", -2147483648),
    ("-9223372036854775809", 2147483617),
    ("4294967296", 961),
    ("-4294967295.5", -8493),
    ("18446744073709551616", 29791),
    ("1234567890123456789012345678.9012345678", -880932657),
    ("57896044618658097711785492504343953926634992332820282019728", -857915210),
    ("1E+5", 26),
]
DECIMALS = [(pa.decimal32, 9), (pa.decimal64, 18), (pa.decimal128, 38), (pa.decimal256, 76)]


def types_for(value: Decimal) -> list[pa.DataType]:
    """Every decimal type of the value's scale that can hold it."""
    scale = -int(value.as_tuple().exponent)
    digits = len(value.as_tuple().digits)
    return [make(most, scale) for make, most in DECIMALS if digits <= most and scale <= most]


@pytest.mark.parametrize(("text", "expected"), HASH_CODES)
def test_a_decimal_has_the_hash_code_of_a_big_decimal(text: str, expected: int) -> None:
    value = Decimal(text)
    for arrow_type in types_for(value):
        column = pa.array([Decimal(0), value, value], arrow_type)
        assert java_hash(column)[1:].tolist() == [expected, expected]
        assert java_hash(column.slice(2)).tolist() == [expected]
        assert java_hash_code(value, arrow_type) == expected


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.integers(-(10**37), 10**37) | st.integers(-3, 3)), st.integers(0, 37), st.integers(0, 3))
def test_limbs_are_the_decimals_again_wherever_a_column_begins(unscaled: list[int], scale: int, start: int) -> None:
    exact = Context(prec=100)
    column = pa.array([exact.scaleb(Decimal(number), -scale) for number in unscaled], pa.decimal128(38, scale))
    part = column.slice(start)
    nulls = np.array([number % 2 == 0 for number in unscaled[start:]], bool)
    assert from_limbs(part.type, limbs(part), None).equals(part)
    expected = [None if null else value for null, value in zip(nulls, part.to_pylist(), strict=True)]
    again = from_limbs(part.type, limbs(part), nulls)
    again.validate(full=True)
    assert again.to_pylist() == expected


def test_a_dictionary_column_goes_where_its_values_go() -> None:
    values = pa.array(["UA", "AA", "UA", "B6"])
    expected = key_groups(values, 128).tolist()
    assert key_groups(values.dictionary_encode(), 128).tolist() == expected
    with_a_null_nobody_uses = pa.DictionaryArray.from_arrays([1, 2, 1, 3], [None, "UA", "AA", "B6"])
    assert key_groups(with_a_null_nobody_uses, 128).tolist() == expected
    money = pa.array([Decimal("1.10"), Decimal("2.20")], pa.decimal128(5, 2))
    assert key_groups(money.dictionary_encode(), 128).tolist() == key_groups(money, 128).tolist()
    assert assign_to_key_group(Decimal("1.10"), 128, money.type) == key_groups(money, 128)[0]

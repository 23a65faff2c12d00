"""A value is kept unchanged or rejected: Arrow alone would drop a zone, a time of day or a fraction."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.stream.backend.types.exact_values import InexactError, exact_array

NAIVE = dt.datetime(2024, 5, 1, 12, 30)  # noqa: DTZ001 (local time is the point)
UTC = NAIVE.replace(tzinfo=dt.UTC)
BERLIN = NAIVE.replace(tzinfo=ZoneInfo("Europe/Berlin"))
DAY = dt.date(2024, 5, 1)
MOMENTS, LOCAL = pa.timestamp("us", "UTC"), pa.timestamp("us")

CHANGED: list[tuple[list[Any], pa.DataType | None, int, str]] = [
    ([NAIVE, UTC], None, 1, r"it has a time zone \(UTC\), and the column has none"),
    ([UTC, NAIVE], None, 1, r"it has no time zone, and the column has one \(UTC\)"),
    ([None, BERLIN, None, NAIVE], None, 3, r"no time zone, and the column has one \(Europe/Berlin\)"),
    ([NAIVE], MOMENTS, 0, "it has no time zone"),
    ([UTC], LOCAL, 0, "it has a time zone"),
    ([pd.Timestamp(NAIVE), pd.Timestamp(UTC)], None, 1, "it has a time zone"),
    ([DAY, NAIVE], None, 1, "it is a datetime, and the column has dates"),
    ([NAIVE, DAY], None, 1, "it is a date, and the column has datetimes"),
    ([NAIVE], pa.date32(), 0, "it is a datetime"),
    ([NAIVE, 5], None, 1, "it is a number without a unit, and the column has timestamp"),
    ([1, 1.5], pa.int64(), 1, "it has a fraction, and the column has whole numbers"),
    ([np.float64(1.5)], pa.int32(), 0, "it has a fraction"),
    ([Decimal("1.5")], pa.int64(), 0, "it has a fraction"),
    ([np.bool_(True)], pa.int64(), 0, "it is a bool"),
    ([1, True], None, 1, "it is a bool"),
    ([0.5, True], None, 1, "it is a bool"),
    ([dt.time(1, tzinfo=dt.UTC)], None, 0, "a column of times has none"),
    (["a", b"a"], None, 0, "it is text, and the column has bytes"),
    ([b"a"], pa.string(), 0, "it is bytes, and the column has text"),
    ([b"a", "a"], None, 1, "it is text, and the column has bytes"),
    ([{"at": NAIVE}, {"at": UTC}], None, 1, "it has a time zone"),
    ([[1], [2.5]], pa.list_(pa.int64()), 1, "it has a fraction"),
    ([{"all": [{"at": NAIVE}, {"at": UTC}]}], None, 0, "it has a time zone"),
    ([[("a", NAIVE)]], pa.map_(pa.string(), MOMENTS), 0, "it has no time zone"),
    ([[(UTC, 1)]], pa.map_(LOCAL, pa.int64()), 0, "it has a time zone"),
]


@pytest.mark.parametrize(("values", "arrow_type", "number", "said"), CHANGED, ids=str)
def test_what_arrow_would_change_is_rejected(
    values: list[Any], arrow_type: pa.DataType | None, number: int, said: str
) -> None:
    with pytest.raises(InexactError, match=said) as caught:
        exact_array(values, arrow_type)
    assert caught.value.number == number


KEPT: list[tuple[list[Any], pa.DataType | None]] = [
    ([UTC, None], None),
    ([NAIVE], None),
    ([UTC, BERLIN], None),
    ([1, None, 2], None),
    ([1, 2.5], None),
    ([2.0, Decimal(3)], pa.int64()),
    ([DAY], None),
    ([5, 6], LOCAL),
    ([b"a"], None),
    (["a", None], None),
    ([], None),
    ([None], None),
    ([[1, None], None, []], None),
    ([{"at": UTC}, None], None),
]


@pytest.mark.parametrize(("values", "arrow_type"), KEPT, ids=str)
def test_everything_else_is_what_arrow_makes_of_it(values: list[Any], arrow_type: pa.DataType | None) -> None:
    assert exact_array(values, arrow_type).equals(pa.array(values, arrow_type))


@pytest.mark.parametrize("missing", [pd.NaT, pd.NA])
@pytest.mark.parametrize("value", [NAIVE, 1, "a"])
def test_the_markers_of_pandas_are_nulls(missing: Any, value: Any) -> None:
    assert exact_array([missing, value]).to_pylist() == [None, value]
    assert exact_array([missing], LOCAL).to_pylist() == [None]


ONE_VALUE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**31), 2**31),
    st.floats(allow_nan=False, width=32),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)),
    st.datetimes(),
    st.datetimes(timezones=st.just(dt.UTC)),
    st.times(),
    st.times(timezones=st.just(dt.UTC)),
)
VALUES = st.lists(ONE_VALUE, min_size=1, max_size=4) | st.lists(st.lists(ONE_VALUE, max_size=2), min_size=1, max_size=3)


def kind(value: Any) -> Any:
    """The part of a value that must not change: its type, and having a time zone. A whole number may become a float."""
    if isinstance(value, list):
        return [kind(each) for each in value]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return "number" if number else (type(value), getattr(value, "tzinfo", None) is None)


@given(VALUES, st.sampled_from([None, pa.int64(), pa.float64(), LOCAL, MOMENTS, pa.date32(), pa.string(), pa.binary()]))
def test_a_value_is_kept_or_rejected(values: list[Any], arrow_type: pa.DataType | None) -> None:
    temporal = arrow_type is not None and pa.types.is_temporal(arrow_type)
    if temporal:  # a number there is in the unit of the column
        values = [value for value in values if not isinstance(value, int | float)]
    try:
        made = exact_array(values, arrow_type).to_pylist()
    except (InexactError, pa.ArrowException, TypeError, ValueError, OverflowError):
        return
    assert made == values
    assert list(map(kind, made)) == list(map(kind, values))

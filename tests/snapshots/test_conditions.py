"""Conditions on the rows of a state: they hold of the rows of which Python says so, whatever reads the state."""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import kit
from kit.core.state.errors import CheckpointError
from kit.snapshots.conditions import Condition, Conditions
from tests.flink_data import value_cases, values

SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
UTC = dt.UTC
COLUMNS: dict[str, tuple[pa.DataType, list[Any], Any, str]] = {
    "integer": (pa.int32(), [3, None, -7, 3, 12], 3, "3"),
    "real": (pa.float64(), [0.5, 1e300, None, float("nan"), -2.0], 0.5, "0.5"),
    "text": (pa.string(), ["b", "", None, "null", "a = b"], "b", "b"),
    "quoted null": (pa.string(), ["b", "", None, "null", "a"], "null", '"null"'),
    "blank": (pa.string(), ["b", " ", None, "", " c"], " ", '" "'),
    "flag": (pa.bool_(), [True, False, None, True, False], True, "true"),
    "money": (
        pa.decimal128(9, 2),
        [Decimal("1.50"), None, Decimal("-3.25"), Decimal(2), Decimal(0)],
        Decimal("1.5"),
        "1.5",
    ),
    "day": (
        pa.date32(),
        [dt.date(2026, 1, 31), None, dt.date(1969, 1, 1), dt.date(2026, 2, 1)],
        dt.date(2026, 1, 31),
        "2026-01-31",
    ),
    "moment": (
        pa.timestamp("ms", "UTC"),
        [dt.datetime(2026, 1, 31, 12, tzinfo=UTC), None, dt.datetime(2026, 1, 31, tzinfo=UTC)],
        dt.datetime(2026, 1, 31, tzinfo=UTC),
        "2026-01-31T00:00:00Z",
    ),
}


def holds(sign: str, left: Any, right: Any) -> bool:
    return left is not None and SIGNS[sign](left, right)


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("place", ["column", "field", "field of a field"])
def test_the_rows_are_those_that_python_finds(name: str, sign: str, place: str) -> None:
    type_, held, wanted, text = COLUMNS[name]
    inner = pa.array(held, type_)
    depth = ["column", "field", "field of a field"].index(place)
    for field in "ba"[2 - depth :]:
        inner = pa.StructArray.from_arrays([pa.array(range(len(held))), inner], ["other", field])
    path = ".".join(["value", "a", "b"][: depth + 1])
    table = pa.table({"n": range(len(held)), "value": inner})
    found = Condition(f"{path} {sign} {text}").rows_of(table)
    assert found.schema == table.schema
    assert found["n"].to_pylist() == [n for n, each in enumerate(held) if holds(sign, each, wanted)]


@pytest.mark.parametrize(
    ("type_", "some"),
    [(pa.int64(), 0), (pa.string(), ""), (pa.list_(pa.int64()), []), (pa.struct([("a", pa.int64())]), {"a": None})],
    ids=str,
)
def test_null_is_found_by_name(type_: pa.DataType, some: Any) -> None:
    table = pa.table({"n": range(3), "value": pa.array([None, some, None], type_)})
    assert Condition("value = null").rows_of(table)["n"].to_pylist() == [0, 2]
    assert Condition("value!=null").rows_of(table)["n"].to_pylist() == [1]


def test_all_conditions_must_hold_and_none_is_met_by_all() -> None:
    table = pa.table({"a": [1, 2, 3, 4], "a.b": [1, 1, 2, 2]})
    assert Conditions(()).rows_of(table) == table
    assert Conditions("a>1").rows_of(table)["a"].to_pylist() == [2, 3, 4]
    assert Conditions(["a>1", "a.b = 2", "a != 4"]).rows_of(table)["a"].to_pylist() == [3]


@pytest.mark.parametrize(
    ("text", "error", "why"),
    [
        ("value", ValueError, "'value' is no condition: give COLUMN OPERATOR VALUE with one of !=, <, .*100"),
        ("= 3", ValueError, "is no condition"),
        ("", ValueError, "is no condition"),
        ("other = 3", CheckpointError, "there is no 'other', only n, value, list"),
        ("value.x = 3", CheckpointError, "there is no 'x', only total"),
        ("n.x = 3", CheckpointError, "there is no 'x'"),
        ("value > 3", CheckpointError, "compare a field: value.total"),
        ("list > 3", CheckpointError, "only = null and != null are possible"),
        ("n > x", CheckpointError, "n is int64, and 'x' is no such value"),
        ("n > 1.5", CheckpointError, "n is int64, and '1.5' is no such value"),
        ("n >", CheckpointError, "n is int64, and '' is no such value"),
        ("n >== 3", CheckpointError, "n is int64, and '= 3' is no such value"),
        ("n < null", CheckpointError, "n is int64, and 'null' is no such value .it is a NoneType"),
        ("n = true", CheckpointError, "n is int64, and 'true' is no such value"),
        ("n = 99999999999999999999", CheckpointError, "n is int64"),
    ],
)
def test_an_error_says_what_is_possible(text: str, error: type[Exception], why: str) -> None:
    rows = {"n": [1], "value": [{"total": 1}], "list": [[1]]}
    with pytest.raises(error, match=why):
        Condition(text).rows_of(pa.table(rows))


@pytest.mark.parametrize(("version", "case"), value_cases())
def test_every_way_to_read_a_state_finds_the_same_rows(version: str, case: str) -> None:
    """Flink wrote these states. They are read as one table, key group by key group, and page by page."""
    checkpoint = kit.open_checkpoint(values(version) / case)
    searched = 0
    states = checkpoint.states
    for row in states[(states["key"] == "Long") & (states["error"] == "")].itertuples():
        try:
            whole = checkpoint.state(row.operator, row.name)
        except CheckpointError:
            continue
        keys = whole["key"].to_pylist()
        if not keys:
            continue
        limit = sorted(keys)[len(keys) // 2]
        where = [f"key >= {limit}", f"key != {max(keys)}"]
        wanted = [n for n, key in enumerate(keys) if limit <= key != max(keys)]
        expected = repr(whole.take(pa.array(wanted, pa.int64())).to_pylist())
        assert repr(checkpoint.state(row.operator, row.name, where=where).to_pylist()) == expected
        streamed = sum(table.num_rows for table in checkpoint.stream(row.operator, row.name, where=where))
        assert streamed == len(wanted)
        page = checkpoint.page(row.operator, row.name, where=where, rows=3)
        paged = page.rows.num_rows
        while page.next is not None:
            page = checkpoint.page(row.operator, row.name, where=where, rows=3, at=page.next)
            paged += page.rows.num_rows
        assert paged == len(wanted)
        searched += len(wanted) < len(keys)
    assert searched

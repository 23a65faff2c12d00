"""Random values of SQL and Avro: encoding and decoding preserve them, through Arrow's columns as well."""

from __future__ import annotations

import json
import string
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit import CheckpointError
from kit.snapshots.formats.rows import encoded
from kit.snapshots.serializers.avro import avro_type
from kit.snapshots.serializers.java_objects import JavaObject
from kit.snapshots.serializers.reading import Reader
from kit.snapshots.serializers.table import RowData, SqlType, logical_type
from kit.snapshots.serializers.types import Type, as_column, column

Values = st.SearchStrategy[Any]
Kind = tuple[Any, Values]
"""A schema, and values of it in the form in which `Type.read` returns them."""

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
LONGS, INTS = st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1)
DAYS = st.integers(-719_162, 2_932_896)
MILLIS_OF_DAY = st.integers(0, 86_399_999)
FLOATS = st.floats(width=32, allow_nan=False)
DOUBLES = st.floats(allow_nan=False)


def decimals(precision: int, scale: int) -> Values:
    """Draw decimals of a precision and scale."""
    most = 10**precision - 1
    return st.integers(-most, most).map(lambda held: Decimal((int(held < 0), digits(held), -scale)))


def digits(number: int) -> tuple[int, ...]:
    return tuple(map(int, str(abs(number))))


# --- SQL --------------------------------------------------------------------------------------------------------------


def java(name: str, **fields: Any) -> JavaObject:
    """Return a logical type as Java's serialization has it."""
    return JavaObject(f"org.apache.flink.table.types.logical.{name}", fields)


def moments(step: int) -> Values:
    """Draw nanoseconds since 1970 that are multiples of `step`."""
    most = 2**62 // step
    return st.integers(-most, most).map(lambda each: each * step)


SQL_SIMPLE: list[Kind] = [
    (java("BooleanType"), st.booleans()),
    (java("TinyIntType"), st.integers(-128, 127)),
    (java("SmallIntType"), st.integers(-(2**15), 2**15 - 1)),
    (java("IntType"), INTS),
    (java("BigIntType"), LONGS),
    (java("FloatType"), FLOATS),
    (java("DoubleType"), DOUBLES),
    (java("VarCharType"), TEXT),
    (java("CharType"), TEXT),
    (java("VarBinaryType"), st.binary(max_size=12)),
    (java("RawType"), st.binary(max_size=12)),
    (java("DateType"), DAYS),
    (java("TimeType"), MILLIS_OF_DAY),
    (java("YearMonthIntervalType"), INTS),
    (java("DayTimeIntervalType"), LONGS),
    *((java("DecimalType", precision=p, scale=s), decimals(p, s)) for p, s in ((1, 0), (18, 6), (19, 19), (38, 0))),
    *((java("TimestampType", precision=p), moments(10 ** (9 - max(p, 3)))) for p in (0, 3, 6, 9)),
    *((java("LocalZonedTimestampType", precision=p), moments(10 ** (9 - max(p, 3)))) for p in (3, 9)),
]


def sql_rows(fields: list[Kind]) -> Kind:
    names = [f"n{place}" for place in range(len(fields))]
    told = [JavaObject("RowField", {"name": name, "type": each}) for name, (each, _) in zip(names, fields, strict=True)]
    return java("RowType", fields=told), st.tuples(*(st.none() | values for _, values in fields))


def sql_more(inner: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
    """Draw arrays, maps, multisets and rows of other types."""
    return st.one_of(
        inner.map(lambda of: (java("ArrayType", elementType=of[0]), st.lists(st.none() | of[1], max_size=4))),
        st.tuples(st.sampled_from(SQL_SIMPLE), inner).map(
            lambda of: (
                java("MapType", keyType=of[0][0], valueType=of[1][0]),
                st.lists(st.tuples(of[0][1], st.none() | of[1][1]), max_size=3),
            )
        ),
        st.sampled_from(SQL_SIMPLE).map(
            lambda of: (java("MultisetType", elementType=of[0]), st.lists(st.tuples(of[1], INTS), max_size=3))
        ),
        st.lists(inner, min_size=1, max_size=3).map(sql_rows),
    )


SQL = st.recursive(st.sampled_from(SQL_SIMPLE), sql_more, max_leaves=5)


@st.composite
def sql_case(draw: st.DrawFn) -> tuple[Type, list[Any]]:
    """Draw a row type, and rows of it."""
    fields = draw(st.lists(SQL, min_size=1, max_size=4))
    made = RowData([logical_type(told) for told, _ in fields])
    rows = st.tuples(st.sampled_from(["+I", "-U", "+U", "-D"]), *(st.none() | values for _, values in fields))
    return made, draw(st.lists(rows, min_size=1, max_size=4))


# --- Avro -------------------------------------------------------------------------------------------------------------


def logical(type_: str, named: str, /, **more: Any) -> dict[str, Any]:
    return {"type": type_, "logicalType": named, **more}


AVRO_SIMPLE: list[Kind] = [
    ("boolean", st.booleans()),
    ("int", INTS),
    ("long", LONGS),
    ("float", FLOATS),
    ("double", DOUBLES),
    ("string", TEXT),
    ("bytes", st.binary(max_size=12)),
    (logical("int", "date"), DAYS),
    (logical("int", "time-millis"), MILLIS_OF_DAY),
    (logical("long", "time-micros"), st.integers(0, 86_399_999_999)),
    (logical("long", "timestamp-millis"), st.integers(-(10**13), 10**13)),
    (logical("long", "local-timestamp-micros"), st.integers(-(10**16), 10**16)),
    (logical("long", "timestamp-nanos"), st.integers(-(2**62), 2**62)),
    (logical("bytes", "decimal", precision=30, scale=7), decimals(30, 7)),
]


def avro_named(number: int) -> list[Kind]:
    """Return named types, whose names must differ within a schema."""
    fixed = {"type": "fixed", "name": f"F{number}", "size": 3}
    fee = logical("fixed", "decimal", name=f"D{number}", size=9, precision=20, scale=2)
    return [
        (fixed, st.binary(min_size=3, max_size=3)),
        (fee, decimals(20, 2)),
        ({"type": "enum", "name": f"E{number}", "symbols": ["A", "B"]}, st.sampled_from("AB")),
    ]


@st.composite
def avro_kind(draw: st.DrawFn, numbers: list[int], depth: int) -> Kind:
    """Draw a schema with values of it; `numbers` has the next number for a name."""
    numbers[0] += 1
    inner = partial(avro_kind, numbers, depth - 1)
    shape = draw(st.sampled_from(["simple", "named", "array", "map", "null", "union", "record"][: 7 if depth else 2]))
    if shape == "simple":
        return draw(st.sampled_from(AVRO_SIMPLE))
    if shape == "named":
        return draw(st.sampled_from(avro_named(numbers[0])))
    if shape == "array":
        told, values = draw(inner())
        return {"type": "array", "items": told}, st.lists(values, max_size=4)
    if shape == "map":
        told, values = draw(inner())
        return {"type": "map", "values": told}, st.lists(st.tuples(TEXT, values), max_size=3)
    if shape == "null":
        told, values = draw(st.sampled_from([*AVRO_SIMPLE, *avro_named(numbers[0])]))
        return draw(st.permutations(["null", told])), st.none() | values
    if shape == "union":
        return ["null", "int", "string", "bytes"], st.none() | one_of_union(INTS, TEXT, st.binary(max_size=3))
    fields = [draw(inner()) for _ in range(draw(st.integers(1, 3)))]
    listed = [{"name": string.ascii_lowercase[place], "type": told} for place, (told, _) in enumerate(fields)]
    return {"type": "record", "name": f"R{numbers[0]}", "fields": listed}, st.tuples(*(each for _, each in fields))


def one_of_union(*members: Values) -> Values:
    """Draw values of a union with null in front: a dict of its fields with only one set."""
    names = [f"{place}_{name}" for place, name in enumerate(("int", "string", "bytes"), 1)]
    return st.one_of(
        *(
            each.map(lambda held, name=name: {other: held if other == name else None for other in names})
            for name, each in zip(names, members, strict=True)
        )
    )


@st.composite
def avro_case(draw: st.DrawFn) -> tuple[Type, list[Any]]:
    """Draw a schema of a record, and records of it."""
    fields = [draw(avro_kind([place * 100], 2)) for place in range(draw(st.integers(1, 3)))]
    listed = [{"name": string.ascii_lowercase[place], "type": told} for place, (told, _) in enumerate(fields)]
    made = avro_type(json.dumps({"type": "record", "name": "Whole", "fields": listed}))
    return made, draw(st.lists(st.tuples(*(values for _, values in fields)), min_size=1, max_size=4))


# --- what holds -------------------------------------------------------------------------------------------------------


def decoded(type_: Type, held: bytes) -> Any:
    reader = Reader(held)
    value = type_.read(reader)
    assert reader.left == 0
    return value


def check(type_: Type, values: list[Any]) -> None:
    """Encode values, decode them, make a column of them, and encode the column's values."""
    written = [encoded(type_, each) for each in values]
    read = [decoded(type_, each) for each in written]
    assert [as_set(each) for each in read] == [as_set(each) for each in values]
    assert [encoded(type_, each) for each in read] == written
    there = column(type_, read)
    assert [encoded(type_, each) for each in type_.from_arrow(as_column(there, type_))] == written
    sliced = there.slice(1) if len(there) > 1 else there
    assert [encoded(type_, each) for each in type_.from_arrow(sliced)] == written[-len(sliced) :]
    as_text = column(type_, read, text=True)
    assert [encoded(type_, each) for each in type_.from_arrow(as_column(as_text, type_))] == written


def as_set(value: Any) -> Any:
    """Return a value without the fields of unions that are not set."""
    if isinstance(value, dict):
        return {name: as_set(each) for name, each in value.items() if each is not None}
    return [as_set(each) for each in value] if isinstance(value, list | tuple) else value


@given(sql_case())
def test_rows_of_sql_are_read_as_they_were_written(case: tuple[Type, list[Any]]) -> None:
    check(*case)


@given(avro_case())
def test_records_of_avro_are_read_as_they_were_written(case: tuple[Type, list[Any]]) -> None:
    check(*case)


TREE = {
    "type": "record",
    "name": "Tree",
    "fields": [
        {"name": "fee", "type": logical("bytes", "decimal", precision=9, scale=2)},
        {"name": "raw", "type": "bytes"},
        {"name": "ratio", "type": "float"},
        {"name": "at", "type": ["null", logical("long", "timestamp-micros")]},
        {"name": "either", "type": ["null", "int", "string"]},
        {"name": "by", "type": {"type": "map", "values": "Tree"}},
        {"name": "more", "type": {"type": "array", "items": "Tree"}},
    ],
}


@given(st.data())
def test_a_record_inside_itself_is_written_from_its_json(data: st.DataObject) -> None:
    type_ = avro_type(json.dumps(TREE))
    leaf = st.fixed_dictionaries(
        {
            "fee": decimals(9, 2).map(str),
            "raw": st.binary(max_size=3).map(bytes.hex),
            "ratio": st.sampled_from([0.5, -0.0, "nan", "inf"]),
            "at": st.sampled_from([None, "1969-12-31T23:59:59.999999000Z", "+12345-01-02T03:04:05Z"]),
            "either": st.sampled_from([None, {"1_int": 5}, {"2_string": "é"}]),
            "by": st.just({}),
            "more": st.just([]),
        }
    )
    tree = st.recursive(
        leaf,
        lambda inner: st.builds(
            lambda own, by, more: own | {"by": by, "more": more},
            leaf,
            st.dictionaries(TEXT, inner, max_size=2),
            st.lists(inner, max_size=2),
        ),
        max_leaves=4,
    ).map(partial(json.dumps, ensure_ascii=False))
    trees = data.draw(st.lists(tree, max_size=3))
    written = encoded(type_, (Decimal("0.05"), b"", 1.5, None, None, [], trees))
    read = decoded(type_, written)
    assert list(map(json.loads, read[-1])) == list(map(json.loads, trees))
    assert encoded(type_, read) == written


DECIMAL = logical_type(java("DecimalType", precision=4, scale=2))
TIMESTAMP = logical_type(java("TimestampType", precision=3))
FIXED = {"type": "fixed", "name": "F", "size": 3}


def row(part: SqlType) -> Type:
    return RowData([part])


def record(told: Any) -> Type:
    return avro_type(json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": told}]}))


@pytest.mark.parametrize(
    ("type_", "value", "problem"),
    [
        (row(DECIMAL), ("+I", Decimal("100.00")), "other digits than a decimal of precision 4 and scale 2"),
        (row(DECIMAL), ("+I", Decimal("1.005")), "other digits than a decimal of precision 4 and scale 2"),
        (row(TIMESTAMP), ("+I", 1), "1 ns within the ms"),
        (row(TIMESTAMP), ("++", 0), "is not of type RowData"),
        (row(TIMESTAMP), ("+I", 0, 0), "is not of type RowData"),
        (row(logical_type(java("IntType"))), ("+I", 2**31), "is not of type RowData"),
        (record(FIXED), (b"1234",), "4 bytes, but F has 3"),
        (record("string"), (None,), "is not of type R"),
        (record(["int", "string"]), (None,), "the union has no null"),
        (record(["int", "string"]), ({"0_int": 1, "1_string": ""},), "0_int and 1_string are set"),
        (record(["int", "string"]), ({"2_long": 1},), "is not of type R"),
    ],
)
def test_a_value_of_another_type_is_named(type_: Type, value: Any, problem: str) -> None:
    with pytest.raises(CheckpointError, match=problem):
        encoded(type_, value)

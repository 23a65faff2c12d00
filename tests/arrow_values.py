"""Columns of any Arrow type that there is, nested ones too, with any values: built without the code under test."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[Any]], Any]
_EXACT = Context(prec=100)


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    return st.integers(-most, most).map(lambda number: _EXACT.scaleb(Decimal(number), -scale))


def _numbers(arrow_type: pa.DataType) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
    bits = arrow_type.bit_width
    low, high = (
        (-(1 << bits - 1), (1 << bits - 1) - 1) if pa.types.is_signed_integer(arrow_type) else (0, (1 << bits) - 1)
    )
    return arrow_type, st.integers(low, high)


_DAYS = st.dates(dt.date(1, 1, 2), dt.date(9999, 12, 30))
_NANOSECONDS = st.integers(-(2**63) + 1, 2**63 - 1)
_SMALL = st.integers(-(2**40), 2**40)

LEAVES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    **{
        str(each): _numbers(each)
        for each in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
    },
    "float16": (pa.float16(), st.floats(width=16, allow_nan=False)),
    "float32": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "float64": (pa.float64(), st.floats(allow_nan=False)),
    "bool": (pa.bool_(), st.booleans()),
    "string": (pa.string(), st.text(max_size=30)),
    "large_string": (pa.large_string(), st.text(max_size=5)),
    "string_view": (pa.string_view(), st.text(max_size=30)),
    "binary": (pa.binary(), st.binary(max_size=30)),
    "large_binary": (pa.large_binary(), st.binary(max_size=5)),
    "binary_view": (pa.binary_view(), st.binary(max_size=30)),
    "binary(3)": (pa.binary(3), st.binary(min_size=3, max_size=3)),
    "decimal32": (pa.decimal32(7, 2), _decimals(7, 2)),
    "decimal64": (pa.decimal64(18, 9), _decimals(18, 9)),
    "decimal128": (pa.decimal128(38, 10), _decimals(38, 10)),
    "decimal128 of tens": (pa.decimal128(5, -3), _decimals(5, -3)),
    "decimal256": (pa.decimal256(76, 38), _decimals(76, 38)),
    "date32": (pa.date32(), _DAYS),
    "date64": (pa.date64(), _DAYS),
    "time32[s]": (pa.time32("s"), st.times().map(lambda time: time.replace(microsecond=0))),
    "time32[ms]": (pa.time32("ms"), st.times().map(lambda time: time.replace(microsecond=1_000))),
    "time64[us]": (pa.time64("us"), st.times()),
    "time64[ns]": (pa.time64("ns"), st.times()),
    "timestamp[s]": (pa.timestamp("s"), _SMALL.map(lambda s: s >> 6)),
    "timestamp[ms]": (pa.timestamp("ms"), _SMALL),
    "timestamp[us]": (pa.timestamp("us"), _SMALL),
    "timestamp[ns]": (pa.timestamp("ns"), _NANOSECONDS),
    "timestamp[us, UTC]": (pa.timestamp("us", "UTC"), _SMALL),
    "timestamp[us, Berlin]": (
        pa.timestamp("us", "Europe/Berlin"),
        st.integers(0, 20).map(lambda n: (1729980000 + 900 * n) * 10**6),
    ),
    "timestamp[ns, New York]": (
        pa.timestamp("ns", "America/New_York"),
        st.integers(0, 20).map(lambda n: (1730610000 + 900 * n) * 10**9 + 7),
    ),
    "timestamp[ms, +05:30]": (pa.timestamp("ms", "+05:30"), _SMALL),
    "duration[s]": (pa.duration("s"), st.integers(-(10**12), 10**12)),
    "duration[ms]": (pa.duration("ms"), _SMALL),
    "duration[us]": (pa.duration("us"), _SMALL),
    "duration[ns]": (pa.duration("ns"), _SMALL),
    "month_day_nano": (
        pa.month_day_nano_interval(),
        st.tuples(st.integers(-99, 99), st.integers(-99, 99), _SMALL).map(pa.MonthDayNano),
    ),
    "null": (pa.null(), st.none()),
    "uuid": (pa.uuid(), st.uuids()),
    "json": (pa.json_(), st.sampled_from(["{}", "[1]", "null"])),
    "bool8": (pa.bool8(), st.integers(0, 1)),
    "opaque": (pa.opaque(pa.int64(), "kind", "vendor"), st.integers(0, 9)),
}
NESTED = (
    "list",
    "large_list",
    "list_view",
    "large_list_view",
    "fixed_size_list",
    "struct",
    "map",
    "dictionary",
    "run_end_encoded",
    "sparse_union",
    "dense_union",
)


def _view_types_have_sizes() -> bool:
    """Return True if this Arrow reports the bytes of columns of view types; the kit needs that to support the types."""
    try:
        return bool(pa.array([], pa.string_view()).nbytes == 0)
    except pa.ArrowTypeError:
        return False


if not _view_types_have_sizes():
    LEAVES = {name: leaf for name, leaf in LEAVES.items() if not name.endswith("_view")}
    NESTED = tuple(name for name in NESTED if not name.endswith("_view"))


def leaf(draw: Draw, name: str, rows: int, nulls: bool = True) -> pa.Array:
    """A column of one of `LEAVES`."""
    arrow_type, values = LEAVES[name]
    column = [draw(st.none() | values if nulls else values) for _ in range(rows)]
    if isinstance(arrow_type, pa.BaseExtensionType):
        stored = [value.bytes if isinstance(value, uuid.UUID) else value for value in column]
        return pa.ExtensionArray.from_storage(arrow_type, pa.array(stored, arrow_type.storage_type))
    if pa.types.is_temporal(arrow_type) and any(isinstance(value, int) for value in column):
        return pa.array(column, pa.int64()).view(arrow_type)
    return pa.array(column, arrow_type)


def column(draw: Draw, rows: int, name: str | None = None, depth: int = 2) -> pa.Array:
    """A column of a type of this name, or of any type."""
    if name is None:
        name = draw(st.sampled_from([*LEAVES, *NESTED]) if depth else st.sampled_from(list(LEAVES)))
    if name in LEAVES:
        return leaf(draw, name, rows)
    return _BUILDERS[name](draw, rows, depth - 1)


def _lists(make: Any, offset_type: pa.DataType) -> Callable[[Draw, int, int], pa.Array]:
    def build(draw: Draw, rows: int, depth: int) -> pa.Array:
        lengths = [draw(st.integers(0, 2)) for _ in range(rows)]
        offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))), offset_type)
        mask = pa.array([draw(st.booleans()) and not length for length in lengths], pa.bool_())
        return make.from_arrays(offsets, column(draw, sum(lengths), depth=depth), mask=mask)

    return build


def _views(make: Any, offset_type: pa.DataType) -> Callable[[Draw, int, int], pa.Array]:
    def build(draw: Draw, rows: int, depth: int) -> pa.Array:
        lengths = [draw(st.integers(0, 2)) for _ in range(rows)]
        offsets = np.concatenate(([0], np.cumsum(lengths)))[:-1]
        values = column(draw, sum(lengths), depth=depth)
        return make.from_arrays(pa.array(offsets, offset_type), pa.array(lengths, offset_type), values)

    return build


def _fixed(draw: Draw, rows: int, depth: int) -> pa.Array:
    size = draw(st.integers(1, 2))
    return pa.FixedSizeListArray.from_arrays(column(draw, rows * size, depth=depth), size)


def _structs(draw: Draw, rows: int, depth: int) -> pa.Array:
    names = draw(st.sampled_from([["a"], ["a", "b"], ["a", "a"]]))
    mask = pa.array([draw(st.booleans()) for _ in range(rows)], pa.bool_())
    return pa.StructArray.from_arrays([column(draw, rows, depth=depth) for _ in names], names, mask=mask)


def _maps(draw: Draw, rows: int, depth: int) -> pa.Array:
    lengths = [draw(st.integers(0, 2)) for _ in range(rows)]
    offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))), pa.int32())
    keys = leaf(draw, draw(st.sampled_from(["string", "int32", "decimal128", "date32"])), sum(lengths), nulls=False)
    return pa.MapArray.from_arrays(offsets, keys, column(draw, sum(lengths), depth=depth))


def _dictionaries(draw: Draw, rows: int, depth: int) -> pa.Array:
    values = column(draw, 3, draw(st.sampled_from([name for name in LEAVES if name != "null"])))
    indices = pa.array(
        [draw(st.none() | st.integers(0, 2)) for _ in range(rows)],
        draw(st.sampled_from([pa.int8(), pa.int32(), pa.uint16()])),
    )
    return pa.DictionaryArray.from_arrays(indices, values, ordered=draw(st.booleans()))


def _runs(draw: Draw, rows: int, depth: int) -> pa.Array:
    ends = [*range(2, rows, 2), rows] if rows else []
    kinds = ["string", "int64", "decimal128", "bool", "date32"]
    return pa.RunEndEncodedArray.from_arrays(
        pa.array(ends, pa.int32()), leaf(draw, draw(st.sampled_from(kinds)), len(ends))
    )


def _sparse(draw: Draw, rows: int, depth: int) -> pa.Array:
    kinds = pa.array([draw(st.integers(0, 1)) for _ in range(rows)], pa.int8())
    return pa.UnionArray.from_sparse(kinds, [leaf(draw, "int64", rows), leaf(draw, "string", rows)], ["i", "s"])


def _dense(draw: Draw, rows: int, depth: int) -> pa.Array:
    kinds = pa.array([draw(st.integers(0, 1)) for _ in range(rows)], pa.int8())
    offsets = pa.array(range(rows), pa.int32())
    return pa.UnionArray.from_dense(kinds, offsets, [leaf(draw, "int64", rows), leaf(draw, "string", rows)], ["i", "s"])


_BUILDERS: dict[str, Callable[[Draw, int, int], pa.Array]] = {
    "list": _lists(pa.ListArray, pa.int32()),
    "large_list": _lists(pa.LargeListArray, pa.int64()),
    "list_view": _views(pa.ListViewArray, pa.int32()),
    "large_list_view": _views(pa.LargeListViewArray, pa.int64()),
    "fixed_size_list": _fixed,
    "struct": _structs,
    "map": _maps,
    "dictionary": _dictionaries,
    "run_end_encoded": _runs,
    "sparse_union": _sparse,
    "dense_union": _dense,
}

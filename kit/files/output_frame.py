"""Rows of a sink as a DataFrame, without a changed value.

The default types of pandas for columns of Arrow change some values: integers with nulls become floating-point numbers,
and times lose their nanoseconds, also inside lists and structs. Such a column gets one of pandas' nullable types, or
Arrow's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kit.core.arrow_kinds import Family, kind_of

if TYPE_CHECKING:
    import pandas as pd


def output_frame(rows: pa.Table) -> pd.DataFrame:
    """Return the rows with their values: nulls stay nulls, and numbers and times stay as they are."""
    import pandas as pd

    columns: dict[int, Any] = {}
    for place, column in enumerate(rows.columns):
        columns[place] = _as_it_is(column) if any(map(_is_changed, column.chunks)) else column.to_pandas()
    frame = pd.DataFrame(columns, index=pd.RangeIndex(rows.num_rows))
    frame.columns = pd.Index(rows.column_names, dtype=object)
    return frame


def _as_it_is(column: pa.ChunkedArray) -> pd.Series:
    """Return a column in a type of pandas that can hold all its values."""
    import pandas as pd

    name = kind_of(column.type).pandas
    if not name:
        return pd.Series(pd.arrays.ArrowExtensionArray(column))
    return pd.Series(pd.array([], dtype=name).dtype.__from_arrow__(column))


def _is_changed(array: pa.Array) -> bool:
    """Return True if pandas would change a value by default, or has no value for it."""
    whole, *parts = _with_parts(array)
    return _changes_itself(whole) or any(_changes_itself(each) or _has_nanoseconds(each.type) for each in parts)


def _changes_itself(array: pa.Array) -> bool:
    kind = kind_of(array.type)
    if kind.family in (Family.INTEGER, Family.FLOAT, Family.BOOL):
        return bool(array.null_count)
    return kind.family is Family.TIME and _has_nanoseconds(array.type)


def _has_nanoseconds(kind: pa.DataType) -> bool:
    """Return True for times with nanoseconds, of which `datetime` has no values."""
    return kind_of(kind).family in (Family.TIMESTAMP, Family.DURATION, Family.TIME) and kind.unit == "ns"


def _with_parts(array: pa.Array) -> Iterator[pa.Array]:
    """Yield an array, and the values inside its lists, maps and structs."""
    yield array
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        yield from _with_parts(array.storage)
    elif pa.types.is_struct(kind):
        for part in array.flatten():
            yield from _with_parts(part)
    elif pa.types.is_map(kind):
        yield from _with_parts(array.keys)
        yield from _with_parts(array.items)
    elif kind_of(kind).family is Family.LIST:
        yield from _with_parts(array.flatten())

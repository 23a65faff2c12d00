"""Directories named after the values of columns, as Hive and Spark write them: `year=2013/month=1/`.

A file in such a directory does not hold these columns: all its rows have the directory's values. Special characters are
escaped as `%2F`, the same ones as in Hive and Spark. A null is `__HIVE_DEFAULT_PARTITION__`, and so is an empty text,
for which a path has no name.

Follows Flink's `PartitionPathUtils`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kit.core.arrow_kinds import Family, kind_of
from kit.stream.operators.spec import SchemaError, column_list

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")
_COLUMN_NAME = re.compile(r"[^._][^\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]*")
_DIRECTORIES = re.compile(r"(?:[^./_=][^/=]*=[^/]+/)*")
_MOST_BYTES = 255
"""The longest name of a directory on common file systems."""


def checked_columns(columns: str | Iterable[str]) -> tuple[str, ...]:
    """Return the names of partition columns as a tuple. Raises TypeError or ValueError."""
    if not isinstance(columns, Iterable):
        raise TypeError(f"partition_by is {columns!r}, but must be names of columns, such as ['day']")
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"partition_by is {columns!r}, expected the names of columns")
    if len(set(names)) < len(names):
        raise ValueError(f"partition_by is {columns!r}: each column may be named once")
    return names


def file_schema(schema: pa.Schema, columns: Sequence[str], operator: str) -> pa.Schema:
    """Return the columns that are left for the files. Raises SchemaError if rows cannot be partitioned by `columns`."""
    for name in columns:
        if name not in schema.names:
            raise SchemaError(f"{operator}: no column {name!r} to partition by; the columns are {column_list(schema)}")
        if not _COLUMN_NAME.fullmatch(name):
            raise SchemaError(
                f"{operator}: rows cannot be partitioned by column {name!r}: the name of a directory would begin with "
                "a dot or an underscore, or have a special character; rename the column"
            )
        if not _is_named(schema.field(name).type):
            raise SchemaError(
                f"{operator}: rows cannot be partitioned by column {name!r}, which is {schema.field(name).type}; "
                "expected text, an integer, a boolean or a date"
            )
    left = [column for column in schema if column.name not in columns]
    if not left:
        raise SchemaError(f"{operator}: rows are partitioned by all their columns, so none is left for the files")
    return pa.schema(left)


def _is_named(type: pa.DataType) -> bool:
    """Return True if a value has one short name, which tells it from all others."""
    value = type.value_type if pa.types.is_dictionary(type) else type
    kind = kind_of(value)
    return kind.python in (str, int, bool) or kind.family is Family.DATE


def by_partition(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the directory and the rows of each partition, without `columns`; rows keep their order.

    A directory ends in a slash; "" without columns. Raises ValueError for a value that is too long for its name.
    """
    if batch.num_rows == 0:
        return
    if not columns:
        yield "", batch
        return
    values = [_dictionary(batch.column(name)) for name in columns]
    rows = batch.drop_columns(list(columns))
    codes = values[0].indices.to_numpy().astype(np.int64)
    for value in values[1:]:
        _, codes = np.unique(codes * len(value.dictionary) + value.indices.to_numpy(), return_inverse=True)
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    if len(starts) > 1:
        rows = rows.take(pa.array(order))
    for start, end in zip(starts, [*starts[1:], batch.num_rows], strict=True):
        first = int(order[start])
        names = zip(columns, values, strict=True)
        yield "".join(_directory(name, value[first].as_py()) for name, value in names), rows.slice(start, end - start)


def _dictionary(column: pa.Array) -> pa.DictionaryArray:
    """Return the values as text, each once, nulls among them."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return pc.dictionary_encode(column.cast(pa.string()), null_encoding="encode")


def _directory(column: str, value: str | None) -> str:
    text = _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", value) if value else NO_VALUE
    name = f"{column}={text}"
    if len(name.encode()) > _MOST_BYTES:
        raise ValueError(
            f"rows cannot be partitioned by {column!r}: the directory of {text[:40]!r}... would have a name of "
            f"{len(name.encode())} bytes, and {_MOST_BYTES} is the most; partition by a shorter column"
        )
    return f"{name}/"


def is_partition(directories: str) -> bool:
    """Return True for directories with a slash behind each, such as "year=2013/month=1/", and for ""."""
    return _DIRECTORIES.fullmatch(directories) is not None


def keys_of(path: str) -> tuple[tuple[str, str | None], ...]:
    """Return the columns and values that the directories of a relative path give all rows of a file."""
    pairs = [part.partition("=") for part in path.split("/")[:-1] if "=" in part]
    return tuple((key, None if value == NO_VALUE else unquote(value)) for key, _, value in pairs)

"""The columns that Spark has for those of a sink.

Spark has no unsigned integers and no nanoseconds. An unsigned column becomes the next wider one, as in Spark's own
reader of Parquet, and nanoseconds become microseconds. A duration is an INTERVAL DAY TO SECOND.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from kit.stream.operators.spec import SchemaError

_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.large_string(): pa.string(),
    pa.large_binary(): pa.binary(),
}


def spark_schema(
    columns: pa.Schema,
    who: str = "to_spark",
    instead: str = "convert it in the job, or read the rows with job.output()",
) -> StructType:
    """Return the columns as Spark names them. Raises SchemaError for a column of a type that Spark does not have.

    The error says `who` wanted the columns, and what to do `instead`.
    """
    for column in arrow_columns(columns):
        try:
            from_arrow_schema(pa.schema([column]), prefer_timestamp_ntz=True)
            is_known = not any(pa.types.is_decimal256(type) for type in _types_in(column.type))
        except Exception:  # PySpark raises what it likes for a type that it does not know
            is_known = False
        if not is_known:
            raise SchemaError(f"{who}: column {column.name!r} is {column.type}, which Spark does not have: {instead}")
    return from_arrow_schema(arrow_columns(columns), prefer_timestamp_ntz=True)


def arrow_columns(columns: pa.Schema) -> pa.Schema:
    """Return the columns in the types of Arrow that Spark exchanges."""
    return pa.schema([_column(column) for column in columns])


def only_arrow_reads(columns: pa.Schema) -> bool:
    """Return True if only Arrow reads a column of a Parquet file right.

    Spark's own reader rejects times with nanoseconds, and takes every interval for microseconds.
    """
    return any(_only_arrow_reads(type) for column in columns for type in _types_in(column.type))


def _only_arrow_reads(type: pa.DataType) -> bool:
    if pa.types.is_duration(type):
        return type.unit != "us"
    return pa.types.is_timestamp(type) and type.unit == "ns"


def _types_in(type: pa.DataType) -> Iterator[pa.DataType]:
    """Yield a type and those of its parts."""
    yield type
    for number in range(type.num_fields):
        yield from _types_in(type.field(number).type)


def _column(column: pa.Field) -> pa.Field:
    return column.with_type(_type(column.type)).with_nullable(True)  # as for everything that Spark reads from files


def _type(type: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(type):
        return pa.timestamp("us", None if type.tz is None else "UTC")
    if pa.types.is_dictionary(type):
        return _type(type.value_type)
    if pa.types.is_duration(type):
        return pa.duration("us")
    if pa.types.is_struct(type):
        return pa.struct([_column(field) for field in type])
    if pa.types.is_map(type):
        return pa.map_(_type(type.key_type), _type(type.item_type))
    if pa.types.is_list(type) or pa.types.is_large_list(type):
        return pa.list_(_column(type.value_field))
    return _WIDER.get(type, type)

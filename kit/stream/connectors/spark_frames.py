"""DataFrames of Spark: how they are recognised, and which columns they have. Nothing here imports Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from kit.stream.operators.spec import SchemaError


def check_frame(given: Any, method: str) -> None:
    """Raise TypeError unless `given` is a DataFrame of a Spark session with its own driver."""
    if not is_of_spark(given):
        package, kind = type(given).__module__.partition(".")[0], type(given).__qualname__
        raise TypeError(
            f"{method} takes a DataFrame of Spark, as spark.read.parquet(path) or spark.sql(query) returns; found a "
            f"{kind if package == 'builtins' else f'{package}.{kind}'}"
        )
    if type(given).__module__.startswith("pyspark.sql.connect"):
        raise TypeError(
            f"{method} was given a DataFrame of a Spark Connect session, which cannot start barrier tasks: make it "
            "with a session that has its own driver, such as create_session()"
        )


def check_batch_frame(given: Any) -> None:
    """Raise TypeError or ValueError unless `given` is a DataFrame for `from_spark`."""
    check_frame(given, "from_spark")
    if given.isStreaming:
        raise ValueError(
            "from_spark was given a streaming DataFrame (spark.readStream): write env.from_spark_stream(df, "
            "directory, uid='rows')"
        )


def is_of_spark(given: Any) -> bool:
    """Return True for a data frame of Spark, without importing Spark."""
    return any(kind.__module__.startswith("pyspark.") and kind.__name__ == "DataFrame" for kind in type(given).__mro__)


_NOT_IN_A_JOB = {
    "CalendarIntervalType": "a calendar interval",
    "VariantType": "a variant",
    "YearMonthIntervalType": "an interval of months",
}
"""Types of Spark that Arrow does not have, or not as values."""


def frame_schema(frame: Any) -> pa.Schema:
    """Return the columns of a DataFrame.

    Raises SchemaError if two have the same name, or for a type that a job cannot have.
    """
    names = list(frame.columns)
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SchemaError(
            f"the DataFrame has several columns with the name {', '.join(map(repr, twice))}: rename them with "
            "df.withColumnRenamed(...), or select the ones you need"
        )
    for field in frame.schema.fields:
        if found := next((_NOT_IN_A_JOB[kind] for kind in _kinds_in(field.dataType) if kind in _NOT_IN_A_JOB), None):
            raise SchemaError(
                f"column {field.name!r} of the DataFrame is or contains {found}, which a job cannot read: "
                f"convert it in the DataFrame, for example with CAST({field.name} AS STRING)"
            )
    empty = frame.sparkSession.createDataFrame([], frame.schema) if frame.isStreaming else frame.limit(0)
    return pa.schema([_in_utc(column) for column in empty.toArrow().schema])


def _kinds_in(spark_type: Any) -> Iterator[str]:
    """Yield the names of the classes of a type of Spark and of its parts."""
    yield type(spark_type).__name__
    parts = [getattr(spark_type, name, None) for name in ("elementType", "keyType", "valueType")]
    for part in [*parts, *(field.dataType for field in getattr(spark_type, "fields", ()))]:
        if part is not None:
            yield from _kinds_in(part)


def _in_utc(column: pa.Field) -> pa.Field:
    """Return the column with times in UTC instead of the session's time zone."""
    return column.with_type(_type_in_utc(column.type))


def _type_in_utc(type: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(type) and type.tz is not None:
        return pa.timestamp(type.unit, "UTC")
    if pa.types.is_struct(type):
        return pa.struct([_in_utc(field) for field in type])
    if pa.types.is_map(type):
        return pa.map_(_in_utc(type.key_field), _in_utc(type.item_field))
    if pa.types.is_list(type):
        return pa.list_(_in_utc(type.value_field))
    return type

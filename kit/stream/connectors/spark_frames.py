"""DataFrames of Spark: how they are recognised, and which columns they have. Nothing here imports Spark."""

from __future__ import annotations

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


def frame_schema(frame: Any) -> pa.Schema:
    """Return the columns of a DataFrame. Raises SchemaError if two have the same name."""
    names = list(frame.columns)
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SchemaError(
            f"the DataFrame has several columns with the name {', '.join(map(repr, twice))}: rename them with "
            "df.withColumnRenamed(...), or select the ones you need"
        )
    empty = frame.sparkSession.createDataFrame([], frame.schema) if frame.isStreaming else frame.limit(0)
    return pa.schema([_in_utc(column) for column in empty.toArrow().schema])


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

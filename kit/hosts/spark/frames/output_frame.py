"""The committed output of a sink as a DataFrame of Spark: the rows so far, or all of them as they come."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from kit.files.output import sink_called
from kit.hosts.spark.edge import SparkOutput, published_parts
from kit.hosts.spark.frames.output_columns import arrow_columns, only_arrow_reads, spark_schema
from kit.hosts.spark.frames.output_stream import FORMAT, CommittedOutput, options_of
from kit.hosts.spark.frames.spark_files import spark_path
from kit.stream.connectors.sink import SinkSpec
from kit.stream.graph.job_graph import JobGraph

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SPECIAL = re.compile(r"([\[\]{}*?\\])")


def output_frame(spark: SparkSession, job: JobGraph, output: SparkOutput, name: str) -> DataFrame:
    """Return the rows that a sink has published so far (see `sink_called`). Raises ValueError, SchemaError."""
    spec = _spec_of(job, sink_called(job, name))
    columns, partitioned = spec.input_schema, bool(spec.sink.partition_columns)
    schema, place = spark_schema(columns), output.place(spec.sink.path)
    paths = [f"{place}/{part}" for part in published_parts(place)]
    if not paths:
        return spark.createDataFrame([], schema)
    if only_arrow_reads(columns):
        spark.dataSource.register(CommittedOutput)
        options = options_of(place, arrow_columns(columns)) | {"files": json.dumps(paths)}
        return spark.read.format(FORMAT).schema(schema).options(**options).load()
    reader = spark.read.schema(schema)
    if partitioned:
        reader = reader.option("basePath", spark_path(place))
    frame = reader.parquet(*(_SPECIAL.sub(r"\\\1", spark_path(path)) for path in paths))
    return frame.select(*map(_quoted, columns.names))


def output_stream(spark: SparkSession, job: JobGraph, output: SparkOutput, name: str) -> DataFrame:
    """Return the stream of the rows that a sink publishes, from the first one on. Raises ValueError, SchemaError."""
    spec = _spec_of(job, sink_called(job, name))
    spark.dataSource.register(CommittedOutput)
    reader = spark.readStream.format(FORMAT).schema(spark_schema(spec.input_schema))
    options = options_of(output.place(spec.sink.path), arrow_columns(spec.input_schema))
    return reader.options(**options).load()


def _spec_of(job: JobGraph, path: str) -> SinkSpec:
    """Return the sink that writes to `path`."""
    specs = [operator.spec for operator in job.operators]
    return next(spec for spec in specs if isinstance(spec, SinkSpec) and spec.sink.path == path)


def _quoted(name: str) -> str:
    """Return a column's name as an identifier of Spark."""
    return f"`{name.replace('`', '``')}`"

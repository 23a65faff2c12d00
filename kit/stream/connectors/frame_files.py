"""The Parquet files behind a data frame of Spark that only selects columns of them: a job can read them by itself.

Spark resolves the table, lists the files and knows the columns; the rows do not pass through it. Positions are rows of
files, and a file that was replaced is noticed (`kit.stream.connectors.file_versions`), so a replay reads the same rows.
A data frame that computes anything is rejected: Spark might compute other rows, or in another order, the next time.

Nothing here imports Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from kit.filesystems.places import open_path
from kit.stream.connectors.file_sources import ParquetSource
from kit.stream.connectors.parquet_files import ParquetReader
from kit.stream.connectors.spark_frames import check_batch_frame, frame_schema
from kit.stream.operators.sources.source import SplitReader

_LEGACY = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
"""Keys of files whose times before 1582 are in the Julian calendar."""


class FrameFilesReader(ParquetReader):
    """A reader of Parquet files in the columns that Spark has for them; times may be INT96 without a zone."""

    def __init__(self, schema: pa.Schema) -> None:
        super().__init__(schema, int96_unit="us")

    def _rows(self, batch: pa.RecordBatch, keys: Mapping[str, Any]) -> pa.RecordBatch:
        return batch.cast(self._schema)


@dataclass(frozen=True, eq=False)
class FrameFiles(ParquetSource):
    """Parquet files, read in the columns `frame_schema` of a DataFrame."""

    frame_schema: pa.Schema = field(default=None, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(_schema=self.frame_schema)

    def splits_for(self, parallelism: int) -> list[dict[str, Any]]:
        """Return the row groups, or smaller ranges if there are fewer row groups than subtasks."""
        splits = self.enumerate_splits()
        if len(splits) >= parallelism:
            return splits
        return ParquetSource(self.paths, self.columns, parallelism).enumerate_splits()

    def open_reader(self) -> SplitReader:
        """Return a reader that continues where it was without seeking."""
        return FrameFilesReader(self._schema)


def files_of_frame(frame: Any, **limits: Any) -> FrameFiles:
    """Return the source of a DataFrame's files; `limits` are the settings of a `Source`.

    Raises ValueError, naming the obstacle, if the DataFrame is more than columns of Parquet files. Raises TypeError for
    anything but a DataFrame of a session with its own driver, and SchemaError if a file has other columns.
    """
    check_batch_frame(frame)
    schema = frame_schema(frame)
    if found := next(_obstacles(frame), ""):
        raise ValueError(
            f"from_spark(mode='direct') reads the files of a DataFrame that only selects columns of Parquet files, "
            f"because only these rows are the same when they are read again; this DataFrame has {found}: leave out "
            "mode='direct', so that Spark writes its rows once"
        )
    paths = tuple(_kit_path(uri) for uri in sorted(frame.inputFiles()))
    if not paths:
        raise ValueError("from_spark(mode='direct') was given a DataFrame without files: leave out mode='direct'")
    for path in paths if any(pa.types.is_temporal(column.type) for column in schema) else ():
        _check_calendar(path)
    return FrameFiles(paths, columns=tuple(schema.names), frame_schema=schema, **limits)


def _obstacles(frame: Any) -> Iterator[str]:
    """Yield what a DataFrame is besides columns of Parquet files."""
    plan = frame._jdf.queryExecution().optimizedPlan()
    if _kind(plan) == "Project":
        expressions = plan.projectList()
        for expression in map(expressions.apply, range(expressions.size())):  # a sequence of Scala
            if _kind(expression) != "AttributeReference":
                yield f"the computed column {expression.sql()}"
        plan = plan.child()
    if _kind(plan) != "LogicalRelation" or _kind(plan.relation()) != "HadoopFsRelation":
        yield f"the step {plan.nodeName()} in its plan"
        return
    relation = plan.relation()
    if relation.fileFormat().getClass().getName() != _PARQUET:
        yield f"files of the format {relation.fileFormat()}"
    if not relation.partitionSchema().isEmpty():
        yield f"columns from names of directories ({', '.join(relation.partitionSchema().fieldNames())})"
    stored = set(relation.dataSchema().fieldNames())
    if others := [name for name in frame.columns if name not in stored]:
        yield f"columns that are not in its files ({', '.join(others)})"


_PARQUET = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _kit_path(uri: str) -> str:
    """Return the path of a file as the kit's file systems take it."""
    parts = urlsplit(uri)
    if parts.scheme in ("", "file"):
        return unquote(parts.path)
    scheme = "s3" if parts.scheme in ("s3a", "s3n") else parts.scheme
    return f"{scheme}://{parts.netloc}{unquote(parts.path)}"


def _check_calendar(path: str) -> None:
    system, inner = open_path(path)
    with system.open_file(inner) as file:
        written = pq.read_metadata(file).metadata or {}
    if any(key in written for key in _LEGACY):
        raise ValueError(
            f"from_spark(mode='direct') cannot read the times in {path}: Spark wrote them in the calendar of before "
            "1582; leave out mode='direct', so that Spark converts them"
        )

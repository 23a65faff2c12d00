"""The output of a sink as a source of Spark: given files, or a stream whose offsets are the checkpoints of the job.

A batch of Spark covers whole checkpoints: it ends at one whose rows are all published. Published files never change and
each row is in one of them, so Spark reads each row once, and the same rows when it repeats a batch. An offset names a
checkpoint for each run of the job, because each publishes under a name of its own.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from kit.files import output_files
from kit.hosts.spark.frames.published_rows import read_published
from kit.stream.connectors.found_files import size_of
from kit.stream.connectors.part_names import PublishedName, complete_parts

FORMAT = "checkpoint-kit"
Offset = dict[str, int]
_BUNDLE_BYTES = 32 << 20
"""The size at which a partition gets no further file: a task of Spark takes longer than a small file."""


class CommittedOutput(DataSource):
    """The rows that sinks have published in a directory, with a schema that the reader gives (see `options_of`)."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `spark.readStream.format`."""
        return FORMAT

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        """Return the reader of all rows that will be published."""
        return CommittedStream(self.options["path"], self._columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of the files that the options name."""
        return CommittedFiles(json.loads(self.options["files"]), self._columns)

    @property
    def _columns(self) -> pa.Schema:
        return pa.ipc.read_schema(pa.py_buffer(b64decode(self.options["columns"])))


def options_of(path: str, columns: pa.Schema) -> dict[str, str]:
    """Return the options of the source for the rows in a sink's directory, in these columns."""
    return {"path": path, "columns": b64encode(columns.serialize()).decode()}


@dataclass
class PublishedFiles(InputPartition):
    """Published files as a partition of a batch."""

    paths: list[str]


class CommittedFiles(DataSourceReader):
    """The reader of published files, in these columns of Arrow."""

    def __init__(self, paths: Sequence[str], columns: pa.Schema) -> None:
        self._paths = paths
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        """Return the files, small ones together."""
        return _bundles(self._paths)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the files."""
        return _rows(partition, self._columns)


class CommittedStream(DataSourceStreamReader):
    """The reader of a sink's directory `path`, in these columns of Arrow."""

    def __init__(self, path: str, columns: pa.Schema) -> None:
        self._path = path
        self._columns = columns
        self._end: Offset | None = None
        """The offset at which a query ends that reads only what is there when it starts."""

    def initialOffset(self) -> Offset:  # noqa: N802 (Spark's name)
        """Return the offset before the first checkpoint."""
        return {}

    def latestOffset(self, start: Offset | None = None, limit: object = None) -> Offset:  # noqa: N802 (Spark's name)
        """Return, for each job, the last checkpoint whose rows are all published.

        PySpark passes arguments since 4.2; they make no difference here.
        """
        if self._end is not None:
            return self._end
        published = output_files.published_files(self._path)
        return complete_parts(published, output_files.all_staged_files(self._path))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark's name)
        """End at the checkpoint that is the last one now."""
        self._end = self.latestOffset()

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return the files of the checkpoints after `start`, up to `end`, small ones together."""
        paths = []
        for below in output_files.published_files(self._path):
            part = PublishedName.parse(below)
            if part and start.get(part.writer, 0) < part.checkpoint_id <= end.get(part.writer, 0):
                paths.append(f"{self._path}/{below}")
        return _bundles(paths)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the files."""
        return _rows(partition, self._columns)


def _bundles(paths: Iterable[str]) -> list[InputPartition]:
    bundles: list[list[str]] = []
    size = _BUNDLE_BYTES
    for path in paths:
        if size >= _BUNDLE_BYTES:
            bundles.append([])
            size = 0
        bundles[-1].append(path)
        size += size_of(path)
    return [PublishedFiles(bundle) for bundle in bundles]


def _rows(partition: InputPartition, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    assert isinstance(partition, PublishedFiles)
    for path in partition.paths:
        yield from read_published(path, columns)


with suppress(ImportError):  # PySpark has it since 4.2
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

    SupportsTriggerAvailableNow.register(CommittedStream)

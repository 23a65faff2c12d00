"""A streaming DataFrame whose batches Spark writes while the job runs: the source that reads them as they appear.

    <directory>/spark/              Spark's checkpoint of the query: the source offsets of each batch
                batches/<id>.json   the files of a batch; written last, and only once
                rows/<id>-<attempt>/*.parquet

Spark may run a batch twice, with the same id and the same offsets; the first manifest counts. So the files of a batch
never change, and its splits are in the checkpoints of the job like those of a watched directory.
"""

from __future__ import annotations

import json
import posixpath
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

from kit.files.storage import CheckpointStorage
from kit.hosts.spark.driver.gang import explain
from kit.hosts.spark.frames.copied_rows import CopiedRows
from kit.hosts.spark.frames.spark_files import finish_files, spark_path
from kit.stream.connectors.data_frames import DataFrameStreamSource
from kit.stream.connectors.file_sources import ParquetSource
from kit.stream.operators.sources.source import Split

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, eq=False)
class StreamedSource(CopiedRows):
    """The batches in `directory`. `splits` lists their splits, with the query running; only the driver has it."""

    directory: str
    splits: Callable[[], list[Split]] | None = field(repr=False)
    every_ms: int

    @property
    def discover_every_ms(self) -> int:
        """The time between two listings."""
        return self.every_ms

    def enumerate_splits(self) -> list[Split]:
        """Return ranges of rows of the batches so far, in their order. Raises OSError if the query failed."""
        assert self.splits is not None, "only the driver enumerates splits"
        return self.splits()

    def check_split(self, split: Split) -> None:
        """Raise ValueError for a file that is not in the directory."""
        path = str(split["path"])
        if posixpath.normpath(path) != path or not path.startswith(f"{self.directory}/rows/"):
            raise ValueError(
                f"the checkpoint resumes reading {path}, which is not in {self.directory}: give from_spark_stream the "
                "directory that it had when the checkpoint was taken"
            )

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"splits": None}

    def __repr__(self) -> str:
        return f"DataFrameStreamSource({', '.join(self.columns.names)})"


class StreamedFrame:
    """The query that writes the batches of one streaming DataFrame."""

    def __init__(self, storage: CheckpointStorage, source: DataFrameStreamSource) -> None:
        self._storage = storage
        self._source = source
        self._directory = source.directory
        self._query: Any = None
        self._stopped = False
        self._lock = Lock()
        self._splits: dict[str, list[Split]] = {}
        """The splits of each batch, by the name of its manifest."""

    @property
    def session(self) -> SparkSession:
        """The session of the DataFrame."""
        return cast("SparkSession", self._source.frame.sparkSession)

    def splits(self) -> list[Split]:
        """Return the splits of all batches so far; start the query if it does not run.

        Raises OSError with Spark's reason if the query has failed. The next call then starts it again.
        """
        with self._lock:
            self._keep_running()
        for name in self._storage.names(f"{self._directory}/batches"):
            if name.endswith(".json") and not name.startswith(".") and name not in self._splits:
                self._splits[name] = self._splits_of(name)
        return [split for name in sorted(self._splits) for split in self._splits[name]]

    def _splits_of(self, manifest: str) -> list[Split]:
        batch = json.loads(self._storage.read(f"{self._directory}/batches/{manifest}").to_pybytes())
        paths = [f"{self._directory}/rows/{batch['directory']}/{name}" for name in batch["files"]]
        return ParquetSource(paths).enumerate_splits() if paths else []

    def _keep_running(self) -> None:
        query = self._query
        if self._stopped or (query is not None and query.isActive):
            return
        self._query = None
        error = None if query is None else query.exception()
        if error is not None:
            raise OSError(f"Spark's query for {self._source!r} failed: {explain(error)}")
        writer = self._source.frame.writeStream.foreachBatch(self._write)
        writer = writer.option("checkpointLocation", spark_path(f"{self._directory}/spark"))
        self._query = writer.trigger(processingTime=f"{self._source.trigger_every_ms} milliseconds").start()

    def _write(self, rows: Any, batch_id: int) -> None:
        """Write a batch, unless an earlier attempt has."""
        manifest = f"{self._directory}/batches/{batch_id:012d}.json"
        if self._storage.exists(manifest):
            return
        name = f"{batch_id}-{uuid.uuid4().hex[:12]}"
        rows.write.parquet(spark_path(f"{self._directory}/rows/{name}"))
        names = finish_files(f"{self._directory}/rows/{name}", syncs=self._storage.syncs)
        self._storage.write_new(manifest, json.dumps({"directory": name, "files": names}).encode())

    def stop(self) -> None:
        """Stop the query for good."""
        with self._lock:
            self._stopped = True
            if self._query is not None:
                self._query.stop()

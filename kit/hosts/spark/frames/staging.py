"""The copies of a job's DataFrames: Spark writes each once, when the job begins.

    <checkpoint directory>/<job id>/sources/
        <operator id>/
            manifest.json       the files of the copy; written last, and only once
            <attempt>/*.parquet the files
        kept                    a savepoint may refer to the copies

A driver that recovers the job finds the manifest and does not write again. Two drivers that write at the same time use
directories of their own, and the first manifest counts for both. A job that begins from a snapshot that holds the
source's splits writes nothing. The copies are deleted when the job ends and neither a savepoint nor a retained
checkpoint may refer to them.
"""

from __future__ import annotations

import json
import threading
import uuid
from contextlib import suppress
from typing import Any, cast

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from kit.core.metadata import read_metadata
from kit.core.state.errors import StateError
from kit.files.storage import CheckpointStorage
from kit.filesystems.places import open_path
from kit.hosts.spark.driver.gang import explain
from kit.hosts.spark.frames.spark_files import finish_files, spark_path
from kit.hosts.spark.frames.staged_source import COPIES, StagedSource
from kit.hosts.spark.frames.streamed_source import StreamedFrame, StreamedSource
from kit.stream.connectors.data_frames import DataFrameSource, DataFrameStreamSource
from kit.stream.graph.job_graph import JobGraph
from kit.stream.operators.sources.source import Source

KEPT = "kept"
MANIFEST = "manifest.json"
ASK_EVERY_S = 0.2


class Staging:
    """The copies of one job's DataFrames. `recovers`: an earlier driver of the run may have written them.

    `restore_path` is the snapshot that the job begins from, if any.
    """

    def __init__(self, job: JobGraph, storage: CheckpointStorage, *, recovers: bool, restore_path: str | None) -> None:
        self.job_name = job.name
        self._storage = storage
        self._recovers = recovers
        self._restore_path = restore_path
        self.directory = f"{storage.job_directory}/{COPIES}"
        self._frames: list[StagedFrame] = []
        self._streams: list[StreamedFrame] = []
        self._stopped = threading.Event()
        self.writing = threading.Lock()
        """The lock held while a copy is written."""
        self.job = job.with_sources(self._staged)

    @property
    def session(self) -> SparkSession:
        """The session of the job's DataFrames."""
        frames: list[StagedFrame | StreamedFrame] = [*self._frames, *self._streams]
        return frames[0].session

    def _staged(self, operator_id: str, source: Source) -> Source:
        if not isinstance(source, DataFrameSource | DataFrameStreamSource):
            return source
        if source.frame is None:
            raise ValueError(
                f"{source!r} was made in another process, which has its DataFrame: make the job here again"
            )
        limits: dict[str, Any] = {"batch_rows": source.batch_rows, "rows_per_second": source.rows_per_second}
        if isinstance(source, DataFrameStreamSource):
            stream = StreamedFrame(self._storage, source)
            self._streams.append(stream)
            every_ms = source.trigger_every_ms
            return StreamedSource(source.schema, source.directory, stream.splits, every_ms, **limits)
        frame = StagedFrame(self, self._storage, operator_id, source)
        self._frames.append(frame)
        return StagedSource(source.schema, operator_id, frame.files, **limits)

    @property
    def stopped(self) -> bool:
        """True once nothing is to be written any more."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """Cancel what Spark is writing, and end its queries."""
        self._stopped.set()
        for stream in self._streams:
            stream.stop()

    def begin(self) -> None:
        """Forget the copies of an earlier run with the same job id, unless this driver continues that run."""
        if not self._recovers:
            self._storage.discard(frame.manifest for frame in self._frames)

    def is_restored(self, operator_id: str) -> bool:
        """Return True if the snapshot that the job begins from says what this source still has to read."""
        if self._restore_path is None:
            return False
        try:
            resolved = self._storage.resolve(self._restore_path)
            states = read_metadata(resolved.metadata, resolved.location.directory)[0].operator_states
        except (OSError, ValueError, StateError):
            return False  # the restore reports what is wrong with the snapshot
        return any(state.operator_id == operator_id and state.coordinator_state is not None for state in states)

    def keep(self) -> None:
        """Record that a savepoint may refer to the copies."""
        if self._frames:
            self._storage.write(f"{self.directory}/{KEPT}", b"")

    def end(self) -> None:
        """Delete the copies of a job that has ended, unless a savepoint or a checkpoint may refer to them."""
        if not self._frames or self._storage.exists(f"{self.directory}/{KEPT}"):
            return
        locations = self._storage.checkpoint_locations().values()
        if not any(self._storage.exists(location.metadata_path) for location in locations):
            system, inner = open_path(self.directory)
            with self.writing, suppress(FileNotFoundError):
                system.delete_directory(inner)


class StagedFrame:
    """The copy of one DataFrame."""

    def __init__(self, staging: Staging, storage: CheckpointStorage, operator_id: str, source: DataFrameSource) -> None:
        self._staging = staging
        self._storage = storage
        self._operator_id = operator_id
        self._source = source
        self._directory = f"{staging.directory}/{operator_id}"
        self.manifest = f"{self._directory}/{MANIFEST}"

    @property
    def session(self) -> SparkSession:
        """The session of the DataFrame."""
        return cast("SparkSession", self._source.frame.sparkSession)

    def files(self) -> list[str]:
        """Return the files of the copy, which is written if it does not exist.

        Raises OSError with Spark's reason if it cannot be written, ValueError if the existing one has other
        columns.
        """
        with self._staging.writing:
            if not self._storage.exists(self.manifest):
                self._write()
            return self._written()

    def _written(self) -> list[str]:
        manifest = json.loads(self._storage.read(self.manifest).to_pybytes())
        if manifest["columns"] != str(self._source.schema):
            raise ValueError(
                f"the run that is recovered had read a DataFrame with the columns {manifest['columns']!r}, and this "
                f"one has {str(self._source.schema)!r}: give from_spark the DataFrame that it had then"
            )
        return [f"{self._directory}/{manifest['attempt']}/{name}" for name in manifest["files"]]

    def _write(self) -> None:
        attempt = uuid.uuid4().hex[:12]
        names: list[str] = []
        if not self._staging.is_restored(self._operator_id):
            directory = f"{self._directory}/{attempt}"
            SparkWrite(self._source.frame, self._staging, f"writes the rows of {self._source!r} once").to(directory)
            names = finish_files(directory, syncs=self._storage.syncs)
        what = {"attempt": attempt, "files": names, "columns": str(self._source.schema)}
        self._storage.write_new(self.manifest, json.dumps(what).encode())


class SparkWrite:
    """A DataFrame that Spark writes to a new directory, as a job that can be cancelled."""

    def __init__(self, frame: Any, staging: Staging, what: str) -> None:
        self._frame = frame
        self._staging = staging
        self._description = f"{staging.job_name} {what}"
        self._group = f"kit-copy-{uuid.uuid4().hex}"
        self._error: Exception | None = None

    def to(self, directory: str) -> None:
        """Write the rows as Parquet files. Raises OSError with Spark's reason, or if the job was cancelled."""
        if self._staging.stopped:
            raise OSError("the job has ended before its DataFrame was written")
        thread = InheritableThread(target=self._write, args=(directory,), name="kit-copy", daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(ASK_EVERY_S)
            if self._staging.stopped:
                self._frame.sparkSession.sparkContext.cancelJobGroup(self._group)  # again: it may not have begun
        if self._error is not None:
            raise OSError(f"its DataFrame cannot be written: {explain(self._error)}") from self._error

    def _write(self, directory: str) -> None:
        context = self._frame.sparkSession.sparkContext
        try:
            context.setJobGroup(self._group, self._description, interruptOnCancel=True)
            self._frame.write.parquet(spark_path(directory))
        except Exception as error:
            self._error = error

"""What is outside a job on Spark: its checkpoint directory and where its sinks put their rows.

Both are directories that every slot and the driver reach: on one machine any, on several a shared one. Rows of a
`CollectSink` go below a directory of this process, which `collected` reads and which is gone when the process ends.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from kit.connectors import files
from kit.connectors.sink import MEMORY, Sink
from kit.graph.job_graph import JobGraph
from kit.host.local_state import LocalState
from kit.host.output import sinks
from kit.host.storage import CheckpointStorage
from kit.protocol.snapshots import Effect
from kit.spark.temporary import locked_directory, temporary_directory


@dataclass(frozen=True, slots=True)
class SparkOutput:
    """Where sinks stage and publish: the files they name, or below `collected` for those that only collect."""

    collected: str

    def stage(self, effect: Effect) -> None:
        """Write the rows, not yet visible."""
        files.stage(self._placed(effect))

    def commit(self, effects: Iterable[Effect]) -> None:
        """Make staged rows visible; twice is once."""
        files.commit(map(self._placed, effects))

    def drop(self, effects: Iterable[Effect]) -> None:
        """Delete rows that will never be visible."""
        files.drop(map(self._placed, effects))

    def sweep(self, sink: Sink, job_id: str, orphans: Collection[int]) -> None:
        """Delete what nobody will ever publish, also what was not finished."""
        path = self.place(sink.path)
        staged = files.staged_files(path, job_id)
        files.remove_staged(path, job_id, [name for name in staged if sink.staged_by(name) in orphans])

    def published_files(self, sink: Sink) -> list[str]:
        """The names of the Parquet files that readers see."""
        return files.published_files(self.place(sink.path))

    def delete_published(self, sink: Sink, names: Iterable[str]) -> None:
        """Delete visible rows."""
        files.delete_published(self.place(sink.path), names)

    def place(self, path: str) -> str:
        """The real path behind a sink's."""
        return f"{self.collected}/{path.removeprefix(MEMORY)}" if path.startswith(MEMORY) else path

    def _placed(self, effect: Effect) -> Effect:
        if not effect.final.startswith(MEMORY):
            return effect
        return replace(effect, staged=self.place(effect.staged), final=self.place(effect.final))


def open_storage(job: JobGraph, directory: str) -> CheckpointStorage:
    """The job's checkpoint storage below `directory`."""
    settings = job.settings.checkpoint
    return CheckpointStorage(directory, job.job_id, settings.savepoint_directory, settings.memory_threshold_bytes)


def local_state_directory(job: JobGraph) -> str:
    """Where slots keep copies of their state: on each machine a directory that no other run of a job has; empty when
    they keep none.
    """
    if not job.settings.checkpoint.local_recovery:
        return ""
    return locked_directory(f"local-state-{job.job_id}-")


def open_local_state(job: JobGraph, directory: str) -> LocalState | None:
    """The copies below `directory` on this machine; None when there are to be none."""
    return LocalState(directory, job.job_id) if directory else None


def collects(job: JobGraph) -> bool:
    """Whether a sink of the job keeps its rows in memory."""
    return any(sink.path.startswith(MEMORY) for sink in sinks(job))


def read_output(job: JobGraph, output: SparkOutput, name: str) -> pd.DataFrame:
    """All visible rows of the sink whose path ends in `name`, in order of their files' names.

    Raises ValueError, with the paths there are, when none or several end so.
    """
    paths = [sink.path for sink in sinks(job)]
    found = [path for path in paths if path.rstrip("/").endswith(name)]
    if len(found) != 1:
        raise ValueError(f"{len(found)} sinks end in {name!r}; the job has {', '.join(paths) or 'none'}")
    place = output.place(found[0])
    system, inner = files.open_path(place)
    parts = [name for name in files.published_files(place) if name.startswith("part-")]
    tables = [pq.read_table(f"{inner}/{part}", filesystem=system) for part in parts]
    return pa.concat_tables(tables).to_pandas() if tables else pd.DataFrame()


def check_writable(directory: str) -> None:
    """Raise OSError naming the directory and what to do when nothing can be written below it."""
    system, inner = files.open_path(directory)
    probe = f"{inner}/.kit-{uuid.uuid4().hex}"
    try:
        system.create_dir(inner, recursive=True)
        with system.open_output_stream(probe) as stream:
            stream.write(b"")
        system.delete_file(probe)
    except OSError as error:
        raise OSError(
            f"checkpoint directory {directory!r} cannot be written: {error}; make it writable, or set another "
            "CheckpointConfig(directory=...)"
        ) from error


@lru_cache
def collected_directory() -> str:
    """Where this process's jobs collect."""
    return temporary_directory("collected-")

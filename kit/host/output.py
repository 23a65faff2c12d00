"""Output in two phases, in memory: what the lab keeps of what sinks stage and publish.

The same three verbs as `kit.connectors.files` has for real files, so a host chooses once where output goes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Protocol

import pandas as pd
import pyarrow as pa

from kit.connectors.files import CommitError, staging_directory
from kit.connectors.sink import Sink, SinkSpec
from kit.graph.job_graph import JobGraph
from kit.protocol.snapshots import Effect


class Output(Protocol):
    """Where a host puts what sinks produce."""

    def stage(self, effect: Effect) -> None:
        """Keep the rows, not yet visible."""

    def commit(self, effects: Iterable[Effect]) -> None:
        """Make staged rows visible; twice is once. Raises CommitError for rows that are neither staged nor visible."""

    def drop(self, effects: Iterable[Effect]) -> None:
        """Forget rows that will never be visible."""

    def sweep(self, sink: Sink, job_id: str, orphans: Collection[int]) -> None:
        """Forget what a job has staged for a sink with these checkpoints."""

    def published_files(self, sink: Sink) -> list[str]:
        """The names of the Parquet files that readers of a sink's directory see, in order."""

    def delete_published(self, sink: Sink, names: Iterable[str]) -> None:
        """Delete these."""


def sinks(job: JobGraph) -> Iterator[Sink]:
    """The sinks of a job."""
    for vertex in job.vertices:
        for operator in vertex.operators:
            if isinstance(operator.spec, SinkSpec):
                yield operator.spec.sink


def check_new_output(job: JobGraph, output: Output) -> None:
    """Raise FileExistsError, naming the sink, when a run that starts from scratch would mix its rows with those of
    another.
    """
    for sink in sinks(job):
        found = output.published_files(sink)
        foreign = [name for name in found if not sink.is_part(name)]
        own = [name for name in found if sink.is_part_of(name, job.job_id)]
        if sink.mode == "error" and found:
            raise FileExistsError(
                f"{sink.path} already holds {_counted(found)}: the rows of this run would be mixed with those of "
                "another.\n  Write to another directory, or say what is meant: "
                f'{type(sink).__name__}(path, mode="overwrite") deletes what sinks wrote there, mode="append" adds to '
                "it.\n  A job that goes on from a savepoint or checkpoint (restore_path=...) adds to its own output."
            )
        if sink.mode == "overwrite" and foreign:
            raise FileExistsError(
                f'{sink.path} holds {_counted(foreign)}, which no sink wrote: mode="overwrite" does not delete '
                "that.\n  Remove what is not needed, or write to another directory."
            )
        if sink.mode == "append" and own:
            raise FileExistsError(
                f"{sink.path} holds {_counted(own)} of a run with the job id {job.job_id}, which this run has too: the "
                "names of their files would be the same.\n"
                "  Give this run an id of its own: StreamEnvironment(job_id=...), 32 hex digits."
            )


def begin_new_output(job: JobGraph, output: Output) -> None:
    """The same, and then delete what the sinks are to overwrite."""
    check_new_output(job, output)
    for sink in sinks(job):
        if sink.mode == "overwrite":
            output.delete_published(sink, filter(sink.is_part, output.published_files(sink)))


def _counted(names: list[str]) -> str:
    return f"{len(names)} Parquet file{'s' * (len(names) > 1)} ({names[0]}{', ...' * (len(names) > 1)})"


class MemoryOutput:
    """Tables by path: those that are staged, and those that everybody may see."""

    def __init__(self) -> None:
        self.staged: dict[str, pa.Table] = {}
        self.published: dict[str, pa.Table] = {}

    def stage(self, effect: Effect) -> None:
        self.staged[effect.staged] = effect.table

    def commit(self, effects: Iterable[Effect]) -> None:
        """Make rows visible; twice is once."""
        for effect in effects:
            table = self.staged.pop(effect.staged, None)
            if table is None and effect.final not in self.published:
                raise CommitError(f"{effect.final} cannot be published: it is not there, and was never staged")
            if table is not None:
                self.published.setdefault(effect.final, table)

    def drop(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            self.staged.pop(effect.staged, None)

    def sweep(self, sink: Sink, job_id: str, orphans: Collection[int]) -> None:
        """Forget rows that nobody will ever publish."""
        directory = staging_directory(sink.path, job_id)
        for path in list(self.staged):
            if path.startswith(f"{directory}/") and sink.staged_by(path.rpartition("/")[2]) in orphans:
                del self.staged[path]

    def published_files(self, sink: Sink) -> list[str]:
        """The names of the parts that are visible."""
        directory = sink.path.rstrip("/")
        return sorted(path.rpartition("/")[2] for path in self.published if path.rpartition("/")[0] == directory)

    def delete_published(self, sink: Sink, names: Iterable[str]) -> None:
        """Forget visible rows."""
        for name in names:
            del self.published[f"{sink.path.rstrip('/')}/{name}"]

    def directories(self) -> list[str]:
        """The sinks' directories that have published something."""
        return sorted({path.rpartition("/")[0] for path in self.published})

    def read(self, directory: str) -> pd.DataFrame:
        """All visible rows of one sink, in order of their files' names; an empty frame when there are none."""
        wanted = directory.rstrip("/")
        tables = [table for path, table in sorted(self.published.items()) if path.rpartition("/")[0].endswith(wanted)]
        return pa.concat_tables(tables).to_pandas() if tables else pd.DataFrame()

    def copy(self) -> MemoryOutput:
        """The same tables, which never change."""
        other = MemoryOutput()
        other.staged, other.published = dict(self.staged), dict(self.published)
        return other

    def __repr__(self) -> str:
        return f"MemoryOutput({len(self.published)} parts published, {len(self.staged)} staged)"

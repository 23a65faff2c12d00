"""Output in two phases, in memory: what the lab keeps of what sinks stage and publish.

The same three verbs as `kit.operators.files` has for real files, so a host chooses once where output goes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Protocol

import pandas as pd
import pyarrow as pa

from kit.graph.job_graph import JobGraph
from kit.operators.files import CommitError, staging_directory
from kit.operators.sink import Sink, SinkSpec
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


def sinks(job: JobGraph) -> Iterator[Sink]:
    """The sinks of a job."""
    for vertex in job.vertices:
        for operator in vertex.operators:
            if isinstance(operator.spec, SinkSpec):
                yield operator.spec.sink


class MemoryOutput:
    """Tables by path: those that are staged, and those that everybody may see."""

    def __init__(self) -> None:
        self.staged: dict[str, pa.Table] = {}
        self.published: dict[str, pa.Table] = {}

    def stage(self, effect: Effect) -> None:
        """Keep the rows, not yet visible."""
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
        """Forget rows that will never be visible."""
        for effect in effects:
            self.staged.pop(effect.staged, None)

    def sweep(self, sink: Sink, job_id: str, orphans: Collection[int]) -> None:
        """Forget rows that nobody will ever publish."""
        directory = staging_directory(sink.path, job_id)
        for path in list(self.staged):
            if path.startswith(f"{directory}/") and sink.staged_by(path.rpartition("/")[2]) in orphans:
                del self.staged[path]

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

"""Output in two phases: what a host does for sinks that stage rows and publish them.

Each host has an `Output`. The lab's is in memory (`kit.files.memory_output`); that of Spark writes files
(`kit.hosts.spark.edge`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from kit.core.protocol.lineage import CoveredOutput, Lineage
from kit.core.protocol.snapshots import Effect
from kit.files.output_frame import output_frame
from kit.stream.connectors.found_files import Found, key_schema
from kit.stream.connectors.partitions import keys_of
from kit.stream.connectors.sink import Sink, SinkSpec
from kit.stream.graph.job_graph import JobGraph

if TYPE_CHECKING:
    import pandas as pd


class Output(Protocol):
    """The place where a host puts the output of sinks. A `writer` is a run (`kit.core.protocol.lineage`)."""

    def begin_writing(self) -> Output:
        """Return this output for a process that writes rows, and calls `end_writing` when it ends."""

    def write(self, path: str, table: pa.Table, *, first: bool, last: bool) -> None:
        """Append rows to a file in progress. No other process knows it."""

    def end_writing(self) -> None:
        """Delete the files in progress of this process, if no other process sweeps them."""
        return

    def sweep_in_progress(self, sink: Sink, writer: str, before: int) -> None:
        """Delete what processes that ended early have left: files begun before the barrier of this checkpoint."""

    def stage(self, effect: Effect) -> None:
        """Keep the rows, not visible yet."""

    def commit(self, effects: Iterable[Effect]) -> None:
        """Make staged rows visible. Repeating it has no effect, even if readers have removed the rows since.

        Raises CommitError for rows that are not staged and never were visible.
        """

    def drop(self, effects: Iterable[Effect]) -> None:
        """Delete rows that will never be visible."""

    def sweep(self, sink: Sink, writer: str, orphans: Collection[int]) -> None:
        """Delete what a run has staged for a sink with these checkpoints, but not the records of visible rows."""

    def forget_published(self, sink: Sink, writer: str, checkpoints: range, keep: Collection[int] = ()) -> None:
        """Delete the records of visible rows that these checkpoints staged, except those to `keep`."""

    def taken_away(self, sink: Sink, covered: CoveredOutput) -> int:
        """Return the number of known published parts of this lineage that readers have removed and nothing covers."""

    def published_files(self, sink: Sink) -> list[str]:
        """Return the Parquet files that readers of a sink's directory see, in order: their paths below it."""

    def delete_published(self, sink: Sink, names: Iterable[str]) -> None:
        """Delete these files. From then on `discarded` knows that they are gone."""

    def discarded(self, sink: Sink) -> dict[str, int]:
        """Return, for each writer whose output was deleted, the first checkpoint with deleted output."""

    def writers(self, sinks: Iterable[Sink]) -> set[str]:
        """Return at least the runs that have left anything with these sinks, even a record or a mark."""

    def begin(self, lineage: Lineage, *, resumed: bool = False) -> None:
        """Start the output of a run: a `CollectSink` then has the rows that led to the run, and no others.

        A run is `resumed` if an earlier driver has begun it.
        """

    def cover(self, location: str) -> None:
        """Record that a snapshot at `location` covers rows of this run: they may be needed after its end."""
        return

    def uncover(self, location: str) -> None:
        """Record that the snapshot is deleted."""
        return


def sinks(job: JobGraph) -> Iterator[Sink]:
    """Yield the sinks of a job."""
    for vertex in job.vertices:
        for operator in vertex.operators:
            if isinstance(operator.spec, SinkSpec):
                yield operator.spec.sink


def sink_called(job: JobGraph, wanted: str, also: Iterable[str] = ()) -> str:
    """Return the path of a sink.

    `wanted` is the path, the end of it, or the sink's uid; "" is the only sink. `also` are paths that earlier jobs
    wrote to. Raises ValueError, with the known sinks, if none or several match.
    """
    uids = [(each.spec.sink.path, each.uid) for each in job.operators if isinstance(each.spec, SinkSpec)]
    known = sorted({path for path, _ in uids} | set(also))
    if not known:
        raise ValueError(f"job {job.name!r} has no sink: end a stream with .sink_to(CollectSink('out'))")
    if not isinstance(wanted, str):
        raise ValueError(f"output({wanted!r}): expected the name of a sink, such as {_last_name(known[0])!r}")
    name = wanted.rstrip("/")
    found = [path for path in known if not name or path.rstrip("/") == name or path.rstrip("/").endswith(f"/{name}")]
    found = found or [path for path, uid in uids if uid == wanted]
    if len(found) == 1:
        return found[0]
    what = f"no sink {wanted!r}" if not found else f"{wanted!r} is not one sink" if wanted else "which sink?"
    raise ValueError(f"{what}; job {job.name!r} writes to {', '.join(repr(_last_name(path)) for path in known)}")


def _last_name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def columns_of_sink(job: JobGraph, path: str) -> pa.Schema:
    """Return the columns that the rows of a sink have in its parts; none if the job does not write to this path."""
    for operator in job.operators:
        if isinstance(operator.spec, SinkSpec) and operator.spec.sink.path == path:
            columns, last = operator.spec.input_schema, operator.spec.sink.partition_columns
            names = [*(name for name in columns.names if name not in last), *last]
            return pa.schema([columns.field(name) for name in names])
    return pa.schema([])


def rows_of_parts(parts: Iterable[tuple[str, pa.Table]], columns: pa.Schema) -> pd.DataFrame:
    """Return the rows of a sink's parts, which are given with their paths below its directory, in this order.

    Columns that the rows were partitioned by come last, with the types that `ParquetSource` gives them. Without parts
    there are no rows of these `columns`.
    """
    named = [(Found(path, keys_of(path)), table) for path, table in parts]
    if not named:
        return output_frame(columns.empty_table())
    if not any(found.keys for found, _ in named):
        return output_frame(pa.concat_tables([table for _, table in named]))
    keys = key_schema([found for found, _ in named])
    tables = []
    for found, table in named:
        for name, value in found.keys:
            values = pa.repeat(pa.scalar(value, pa.string()), table.num_rows).cast(keys.field(name).type)
            table = table.append_column(keys.field(name), values)
        tables.append(table)
    return output_frame(pa.concat_tables(tables))

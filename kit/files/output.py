"""Output in two phases, in memory: the lab's version of what sinks stage and publish.

It has the same three functions as `kit.stream.connectors.files` for real files, so a host chooses once where output
goes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

import pyarrow as pa

from kit.core.protocol.snapshots import Effect
from kit.files.storage import CheckpointStorage
from kit.stream.connectors.files import (
    CommitError,
    Found,
    key_schema,
    output_directory_of,
    published_with_other_rows,
    staging_directory,
)
from kit.stream.connectors.partitions import is_partition, keys_of
from kit.stream.connectors.sink import MEMORY, Sink, SinkSpec
from kit.stream.graph.job_graph import JobGraph

if TYPE_CHECKING:
    import pandas as pd

_JOB_IN_PATH = re.compile(r"(?<=/)[0-9a-f]{32}(?=/chk-\d+$)|(?<=/savepoint-)[0-9a-f]{6}(?=-[0-9a-f]{12}$)")
"""The id of the job that took a checkpoint, or the beginning of it for a savepoint, in its path."""


class Output(Protocol):
    """The place where a host puts the output of sinks."""

    def begin_writing(self) -> Output:
        """Return the same output for a process that writes rows, which `end_writing` is called of when it ends."""

    def write(self, path: str, table: pa.Table, *, first: bool, last: bool) -> None:
        """Append rows to a file in progress. No other process knows it."""

    def end_writing(self) -> None:
        """Delete the files in progress of this process, if no other process sweeps them."""
        return

    def sweep_in_progress(self, sink: Sink, job_id: str, before: int) -> None:
        """Delete what processes that ended early have left: files begun before the barrier of this checkpoint."""

    def stage(self, effect: Effect) -> None:
        """Keep the rows, not visible yet."""

    def commit(self, effects: Iterable[Effect]) -> None:
        """Make staged rows visible; twice is once, also when readers have taken them away since.

        Raises CommitError for rows that are not staged and never were visible.
        """

    def drop(self, effects: Iterable[Effect]) -> None:
        """Delete rows that will never be visible."""

    def sweep(self, sink: Sink, job_id: str, orphans: Collection[int]) -> None:
        """Forget what a job has staged for a sink with these checkpoints. That rows were visible is not forgotten."""

    def forget_published(self, sink: Sink, job_id: str, checkpoints: range, keep: Collection[int] = ()) -> None:
        """Forget that rows were visible that were staged by these checkpoints, except for those to `keep`."""

    def taken_away(self, sink: Sink, job_id: str, after: int) -> int:
        """Return how many parts that jobs published after this checkpoint readers have taken away, as far as is known.

        `job_id` is the id of the jobs, or how it begins.
        """

    def published_files(self, sink: Sink) -> list[str]:
        """Return the Parquet files that readers of a sink's directory see, in order: their paths below it."""

    def delete_published(self, sink: Sink, names: Iterable[str]) -> None:
        """Delete these files."""

    def cover(self, location: str, checkpoint_id: int) -> None:
        """Record that the snapshot at `location` covers rows collected in this run: `begin_with` finds them."""

    def uncover(self, location: str) -> None:
        """Record that the snapshot is deleted."""

    def begin_with(self, location: str, checkpoint_id: int | None) -> None:
        """Start with the collected rows that the snapshot at `location` covers, and with no others."""


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


def lineage_of(job: JobGraph, storage: CheckpointStorage) -> str:
    """Return the name that all drivers of a job with a durable store share; "" if each run is independent."""
    settings = job.settings.checkpoint
    return f"{settings.store} {storage.job_directory}" if settings.is_durable else ""


def output_at_risk(job: JobGraph) -> str:
    """Return a warning about sinks whose last rows no checkpoint will cover, for the start of the job; "" for none."""
    settings, paths = job.settings.checkpoint, [sink.path for sink in sinks(job)]
    if settings.checkpoints_after_tasks_finish or not paths:
        return ""
    return (
        f"job {job.name}: with checkpoints_after_tasks_finish=False no checkpoint completes once a task has finished "
        f"(as in Flink before 1.14). What {', '.join(paths)} holds then is never published, though the job FINISHES. "
        "Leave the setting at True, or end the job with stop()"
    )


def check_new_output(job: JobGraph, output: Output) -> None:
    """Raise FileExistsError, naming the sink, if a run from scratch would mix its rows with another run's."""
    for sink in sinks(job):
        found = output.published_files(sink)
        foreign = [name for name in found if not sink.is_part(name)]
        own = [name for name in found if sink.is_part_of(name, [f"{job.job_id}-"])]
        if sink.mode == "error" and found:
            raise FileExistsError(
                f"{sink.path} already holds {_counted(found)}: the rows of this run would be mixed with those of "
                "another.\n  Write to another directory, or say what is meant: "
                f'{type(sink).__name__}(path, mode="overwrite") deletes what sinks wrote there, mode="append" adds to '
                "it.\n  A job that resumes from a savepoint or checkpoint (restore_path=...) adds to its own output."
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


def begin_new_output(job: JobGraph, output: Output, check_leadership: Callable[[], None] = lambda: None) -> None:
    """The same, and then delete what the sinks are to overwrite, and records of a run that had the same id.

    `check_leadership` raises an error if another driver leads. It is called between the listing and the deletion, so
    nothing that the other driver publishes is deleted, however long this process is frozen.
    """
    check_new_output(job, output)
    overwritten = [
        (sink, list(filter(sink.is_part, output.published_files(sink))))
        for sink in sinks(job)
        if sink.mode == "overwrite"
    ]
    check_leadership()
    for sink in sinks(job):
        output.forget_published(sink, job.job_id, range(sys.maxsize))
    for sink, names in overwritten:
        output.delete_published(sink, names)


class PublishedLater(NamedTuple):
    """The output of a sink after a snapshot: the existing files, and the number of files that readers have removed."""

    sink: Sink
    names: list[str]
    taken_away: int


def later_output(job: JobGraph, output: Output, location: str, checkpoint_id: int) -> Iterator[PublishedLater]:
    """Yield what sinks have published after a snapshot, for those that have.

    The names of files hold the id of the job, which may have been another one's when the snapshot was taken, and the
    checkpoint. What a `CollectSink` has collected belongs to a run and is never later than its snapshot.
    """
    ids = {job.job_id, *_JOB_IN_PATH.findall(location)}
    for sink in sinks(job):
        if sink.path.startswith(MEMORY):
            continue
        names = [name for name in output.published_files(sink) if sink.is_part_of(name, ids)]
        later = [name for name in names if not sink.is_covered(name, checkpoint_id)]
        longest = {each for each in ids if not any(other != each and each.startswith(other) for other in ids)}
        taken_away = sum(output.taken_away(sink, each, checkpoint_id) for each in longest)
        if later or taken_away:
            yield PublishedLater(sink, later, taken_away)


def last_published(job: JobGraph, output: Output, location: str, checkpoint_id: int) -> int:
    """Return the last checkpoint whose part of a sink's rows is there, or this one if none is later."""
    later = (name for each in later_output(job, output, location, checkpoint_id) for name in each.names)
    return max((Sink.published_part(name) or 0 for name in later), default=checkpoint_id)


def check_no_later_output(job: JobGraph, output: Output, location: str, checkpoint_id: int) -> None:
    """Raise FileExistsError, naming the sink, when rows would be published that were published before."""
    for sink, names, taken_away in later_output(job, output, location, checkpoint_id):
        if names:
            raise FileExistsError(
                f"{sink.path} holds {_counted(names)} that this job published after checkpoint {checkpoint_id}, from "
                "which it is to be restored: their rows would come again.\n  Restore the newest checkpoint, write to "
                'another directory, or say what is meant: later_output="discard" deletes these files first, '
                'later_output="keep" has the rows twice.'
            )
        raise _taken_away(sink, taken_away, checkpoint_id)


def discard_later_output(
    job: JobGraph, output: Output, location: str, checkpoint_id: int, check_leadership: Callable[[], None]
) -> None:
    """Delete what sinks have published after a snapshot; `check_leadership` as in `begin_new_output`.

    Raises FileExistsError, before anything is deleted, when readers have taken some of that away.
    """
    found = list(later_output(job, output, location, checkpoint_id))
    for sink, _, taken_away in found:
        if taken_away:
            raise _taken_away(sink, taken_away, checkpoint_id)
    check_leadership()
    for sink, names, _ in found:
        output.delete_published(sink, names)


def _taken_away(sink: Sink, count: int, checkpoint_id: int) -> FileExistsError:
    return FileExistsError(
        f"{count} file{'s' * (count > 1)} that this job published in {sink.path} after checkpoint {checkpoint_id}, "
        "from which it is to be restored, have been taken away from there: their rows would come again, and the files "
        "cannot be discarded.\n  Restore the newest checkpoint, put the files back, write to another directory, or say "
        'what is meant: later_output="keep" has the rows twice.'
    )


def _counted(names: list[str]) -> str:
    return f"{len(names)} Parquet file{'s' * (len(names) > 1)} ({names[0]}{', ...' * (len(names) > 1)})"


def rows_of_parts(parts: Iterable[tuple[str, pa.Table]]) -> pd.DataFrame:
    """Return the rows of a sink's parts, which are given with their paths below its directory, in this order.

    Columns that the rows were partitioned by come last, with the types that `ParquetSource` gives them.
    """
    import pandas as pd

    named = [(Found(path, keys_of(path)), table) for path, table in parts]
    if not named:
        return pd.DataFrame()
    if not any(found.keys for found, _ in named):
        return pa.concat_tables([table for _, table in named]).to_pandas()
    columns = key_schema([found for found, _ in named])
    tables = []
    for found, table in named:
        for name, value in found.keys:
            values = pa.repeat(pa.scalar(value, pa.string()), table.num_rows).cast(columns.field(name).type)
            table = table.append_column(columns.field(name), values)
        tables.append(table)
    return pa.concat_tables(tables).to_pandas()


class Collected(NamedTuple):
    """The staged and published tables of one run's `CollectSink`s, by path."""

    staged: dict[str, pa.Table]
    published: dict[str, pa.Table]

    def only(self, wanted: Callable[[str], bool]) -> Collected:
        """Return those whose paths are wanted."""
        return Collected(*({path: tables[path] for path in filter(wanted, tables)} for tables in self))


class MemoryOutput(Output):
    """Tables by path: staged ones, and visible ones.

    Rows of a `CollectSink` belong to one run: those of other runs are set aside, for a later run that resumes one of
    them.
    """

    def __init__(self) -> None:
        self.staged: dict[str, pa.Table] = {}
        self.in_progress: dict[str, pa.Table] = {}
        self.published: dict[str, pa.Table] = {}
        self._recorded: dict[str, str] = {}
        """Where rows were made visible, and the path under which they had been staged; not those of a `CollectSink`."""
        self._directories: dict[str, str] = {}
        """The directory of the sink of each part that was made visible, which may be in a partition below it."""
        self._run = ""
        self._others: dict[str, Collected] = {}
        self._covered: dict[str, tuple[str, int]] = {}
        """The run that wrote a snapshot, and its checkpoint id, by the snapshot's location."""

    def begin_run(self, lineage: str) -> None:
        """Set aside the rows of the last run, and start with those of the named lineage; "" has none yet."""
        self._others[self._run] = self._collected()
        self._run = lineage or f"run {len(self._others)}"
        self._replace(self._others.pop(self._run, Collected({}, {})))

    def cover(self, location: str, checkpoint_id: int) -> None:
        self._covered[location] = self._run, checkpoint_id

    def uncover(self, location: str) -> None:
        self._covered.pop(location, None)

    def begin_with(self, location: str, checkpoint_id: int | None) -> None:
        """Start with the collected rows that the snapshot covers; a moved snapshot is recognised by its id."""
        moved = [each for each in self._covered.values() if each[1] == checkpoint_id]
        run, checkpoint_id = self._covered.get(location) or (moved[-1] if moved else ("", -1))
        rows = self._collected() if run == self._run else self._others.get(run, Collected({}, {}))
        self._replace(rows.only(lambda path: Sink.is_covered(path, checkpoint_id)))

    def _collected(self) -> Collected:
        """Return the present rows of `CollectSink`s."""
        return Collected(self.staged, self.published).only(lambda path: path.startswith(MEMORY))

    def _replace(self, rows: Collected) -> None:
        """Replace all collected rows by these."""
        for tables, present, replacement in zip((self.staged, self.published), self._collected(), rows, strict=True):
            for path in present:
                del tables[path]
            tables.update(replacement)

    def begin_writing(self) -> Self:
        """The same: a lab's files outlast its tasks, and are swept."""
        return self

    def write(self, path: str, table: pa.Table, *, first: bool, last: bool) -> None:
        self.in_progress[path] = table if first else pa.concat_tables([self.in_progress[path], table])

    def sweep_in_progress(self, sink: Sink, job_id: str, before: int) -> None:
        directory = staging_directory(sink.path, job_id)
        for path in list(self.in_progress):
            since = sink.in_progress_since(path.rpartition("/")[2])
            if path.startswith(f"{directory}/") and since is not None and since < before:
                del self.in_progress[path]

    def stage(self, effect: Effect) -> None:
        if effect.pending and effect.pending not in self.in_progress:
            raise CommitError(f"{effect.staged} cannot be staged: {effect.pending} is not there")
        self.staged[effect.staged] = self.in_progress[effect.pending] if effect.pending else effect.table

    def commit(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            self._directories[effect.final] = output_directory_of(effect.staged)
            table, before = self.staged.get(effect.staged), self.published.get(effect.final)
            if before is None and effect.final in self._recorded:
                self.staged.pop(effect.staged, None)
                continue
            if table is None and before is None:
                raise CommitError(f"{effect.final} cannot be published: it is not there, and was never staged")
            if table is not None and before is not None and not table.equals(before):
                raise published_with_other_rows(effect)
            if table is not None:
                self.published[effect.final] = self.staged.pop(effect.staged)
                if not effect.final.startswith(MEMORY):
                    self._recorded[effect.final] = effect.staged

    def drop(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            self.staged.pop(effect.staged, None)
            self.in_progress.pop(effect.staged, None)

    def sweep(self, sink: Sink, job_id: str, orphans: Collection[int]) -> None:
        directory = staging_directory(sink.path, job_id)
        for path in list(self.staged):
            if path.startswith(f"{directory}/") and sink.staged_by(path.rpartition("/")[2]) in orphans:
                del self.staged[path]

    def forget_published(self, sink: Sink, job_id: str, checkpoints: range, keep: Collection[int] = ()) -> None:
        directory = staging_directory(sink.path, job_id)
        for final, staged in list(self._recorded.items()):
            by = sink.staged_by(staged.rpartition("/")[2])
            if staged.startswith(f"{directory}/") and by in checkpoints and by not in keep:
                del self._recorded[final]

    def taken_away(self, sink: Sink, job_id: str, after: int) -> int:
        below = staging_directory(sink.path, job_id)
        gone = [staged for final, staged in self._recorded.items() if final not in self.published]
        parts = [sink.staged_part(path.rpartition("/")[2]) for path in gone if path.startswith(below)]
        return sum(part is not None and part > after for part in parts)

    def published_files(self, sink: Sink) -> list[str]:
        directory = f"{sink.path.rstrip('/')}/"
        names = (path.removeprefix(directory) for path in self.published if path.startswith(directory))
        return sorted(name for name in names if is_partition(name[: name.rfind("/") + 1]))

    def delete_published(self, sink: Sink, names: Iterable[str]) -> None:
        for name in names:
            path = f"{sink.path.rstrip('/')}/{name}"
            del self.published[path]
            self._recorded.pop(path, None)

    def directories(self) -> list[str]:
        """Return the sinks' directories that have published something."""
        return sorted({self._directory(path) for path in self.published})

    def _directory(self, path: str) -> str:
        """Return the sink's directory of a visible part."""
        return self._directories.get(path, path.rpartition("/")[0])

    def read(self, directory: str) -> pd.DataFrame:
        """Return all visible rows of one sink, in order of file name; an empty frame without rows."""
        wanted = directory.rstrip("/")
        places = {path: self._directory(path) for path in sorted(self.published)}
        return rows_of_parts(
            (path.removeprefix(f"{place}/"), self.published[path])
            for path, place in places.items()
            if place.endswith(wanted)
        )

    def copy(self) -> Self:
        """Return another output with the same tables, which never change."""
        other = type(self)()
        other.in_progress = dict(self.in_progress)
        other._directories = dict(self._directories)
        other.staged, other.published, other._recorded = dict(self.staged), dict(self.published), dict(self._recorded)
        other._run, other._others, other._covered = self._run, dict(self._others), dict(self._covered)
        return other

    def __repr__(self) -> str:
        return f"MemoryOutput({len(self.published)} parts published, {len(self.staged)} staged)"

"""The external storage of a job on Spark: its checkpoint directory and the output of its sinks.

Every slot and the driver must reach both directories: on one machine any directory will do, on several it must be
shared. Rows of a `CollectSink` go to a directory that this process keeps for the driver. It begins with links to the
rows that led to the run. The directory is deleted when the process ends, or earlier, once its rows can no longer be
read or restored.
"""

from __future__ import annotations

import contextlib
import logging
import os
import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from kit.core.protocol.lineage import CoveredOutput, Lineage
from kit.core.protocol.properties import Durability
from kit.core.protocol.snapshots import Effect
from kit.files import output_files
from kit.files.discarded_output import discarded
from kit.files.entropy import entropy_of
from kit.files.files_in_progress import FilesInProgress
from kit.files.local_state import LocalState
from kit.files.output import Output, columns_of_sink, rows_of_parts, sink_called, sinks
from kit.files.publication_records import lone_records
from kit.files.storage import CheckpointStorage
from kit.filesystems.file_system import reason
from kit.filesystems.places import open_path
from kit.hosts.spark.temporary import locked_directory, remove_directory, temporary_directory
from kit.stream.connectors.part_names import (
    STAGING,
    PublishedName,
    StagedName,
    in_progress_since,
    writer_and_checkpoint,
)
from kit.stream.connectors.sink import MEMORY, Sink
from kit.stream.graph.job_graph import JobGraph

logger = logging.getLogger("kit.hosts.spark")
COLLECTED = "collected-"
"""The prefix of the directories in which jobs collect rows."""
GONE = "gone"
"""The name of a file in such a directory that marks that rows of earlier processes are missing."""


@dataclass(frozen=True, slots=True)
class SparkOutput(Output):
    """The output of sinks: the files that they name, or files below `collected` for sinks that only collect."""

    collected: str
    syncs: bool = True
    in_progress: FilesInProgress = field(default_factory=FilesInProgress, compare=False, repr=False)

    def begin_writing(self) -> SparkOutput:
        """Return the same output with its own files in progress."""
        return replace(self, in_progress=FilesInProgress(uuid.uuid4().hex[:12]))

    def write(self, path: str, table: pa.Table, *, first: bool, last: bool) -> None:
        """Append rows to a file in progress. Raises CommitError naming the output directory."""
        try:
            self.in_progress.write(path, table, first=first, last=last, durable=self.syncs)
        except OSError as error:
            raise output_files.cannot_be_written(output_files.output_directory_of(path), error) from error

    def end_writing(self) -> None:
        self.in_progress.close()

    def sweep_in_progress(self, sink: Sink, writer: str, before: int) -> None:
        """Delete the in-progress and pending files of processes that were killed."""
        path = self.place(sink.path)
        since = {name: in_progress_since(name) for name in output_files.staged_files(path, writer)}
        old = [name for name, checkpoint_id in since.items() if checkpoint_id is not None and checkpoint_id < before]
        output_files.remove_staged(path, writer, old)

    def stage(self, effect: Effect) -> None:
        if effect.pending:
            self.in_progress.stage(effect.pending, effect.staged, durable=self._lasts(effect))
        else:
            output_files.stage(self._placed(effect), durable=self._lasts(effect))

    def commit(self, effects: Iterable[Effect]) -> None:
        """Make staged rows visible. Idempotent. Rows that were collected in a process that has ended are skipped."""
        for effect in effects:
            if not self._is_gone(effect):
                is_file = not effect.final.startswith(MEMORY)  # collected rows are never removed by others
                output_files.commit([self._placed(effect)], durable=self._lasts(effect), recorded=is_file)

    def drop(self, effects: Iterable[Effect]) -> None:
        output_files.drop(self._placed(effect) for effect in effects if not self.in_progress.drop(effect.staged))

    def sweep(self, sink: Sink, writer: str, orphans: Collection[int]) -> None:
        """Delete output that will never be published, finished or not. Keep the records of published output."""
        path = self.place(sink.path)
        names = set(output_files.staged_files(path, writer))
        staged = {name: StagedName.parse(name) for name in names - lone_records(names)}
        output_files.remove_staged(
            path, writer, [name for name, of in staged.items() if of and of.staged_by in orphans]
        )

    def forget_published(self, sink: Sink, writer: str, checkpoints: range, keep: Collection[int] = ()) -> None:
        path = self.place(sink.path)
        records = {name: StagedName.parse(name) for name in lone_records(output_files.staged_files(path, writer))}
        old = [name for name, of in records.items() if of and of.staged_by in checkpoints and of.staged_by not in keep]
        output_files.remove_staged(path, writer, old)

    def taken_away(self, sink: Sink, covered: CoveredOutput) -> int:
        path = self.place(sink.path)
        published = {name.rpartition("/")[2] for name in output_files.published_files(path)}
        gone = {
            final
            for writer in filter(covered.is_of, output_files.writers(path))
            for final in output_files.records_of_published(path, writer).values()
            if final not in published
        }
        parts = filter(None, map(PublishedName.parse, gone))
        return sum(not covered.includes(part.writer, part.checkpoint_id) for part in parts)

    def published_files(self, sink: Sink) -> list[str]:
        return output_files.published_files(self.place(sink.path))

    def delete_published(self, sink: Sink, names: Iterable[str]) -> None:
        output_files.delete_published(self.place(sink.path), names, durable=self.syncs)

    def discarded(self, sink: Sink) -> dict[str, int]:
        return discarded(self.place(sink.path))

    def writers(self, sinks: Iterable[Sink]) -> set[str]:
        found = set(chain.from_iterable(_collected_runs.values()))
        for sink in sinks:
            path = self.place(sink.path)
            published = filter(None, map(PublishedName.parse, output_files.published_files(path)))
            found |= {*output_files.writers(path), *(part.writer for part in published), *discarded(path)}
        return found

    def cover(self, location: str) -> None:
        if self.collected:
            _covered[location] = self.collected

    def uncover(self, location: str) -> None:
        _covered.pop(location, None)

    def begin(self, lineage: Lineage, *, resumed: bool = False) -> None:
        """Start with links to the rows that led to the run, as far as this process has collected them."""
        if not self.collected:
            return
        earlier = set() if lineage.before is None else {each.run for each in lineage.before.runs if not each.kept}
        here = self._link_rows(earlier | {lineage.run}, lineage)
        if not earlier <= here or (resumed and lineage.run not in here):
            logger.warning(
                "rows that a CollectSink had collected before this run, in another process, are gone: output() has "
                "those from now on; a ParquetSink keeps all"
            )
            Path(self.collected, GONE).touch()
        _collected_runs[self.collected] = earlier | {lineage.run}

    def _link_rows(self, runs: set[str], lineage: Lineage) -> set[str]:
        """Link to the rows that led to this run, and return the runs whose rows are here, out of `runs`.

        Such a run may still be running: rows that it publishes meanwhile move from the staged files to the published
        ones, so published files are listed last.
        """
        sources = [directory for directory, held in _collected_runs.items() if held & runs]
        for directory in sources:
            for staged in (True, False):
                for name in _files_below(directory):
                    part = writer_and_checkpoint(name)
                    if part is not None and (STAGING in name) == staged and lineage.led_to(*part):
                        os.makedirs(os.path.dirname(f"{self.collected}/{name}"), exist_ok=True)
                        with contextlib.suppress(FileNotFoundError, FileExistsError):
                            os.link(f"{directory}/{name}", f"{self.collected}/{name}")
        return runs & set(chain.from_iterable(_collected_runs[directory] for directory in sources))

    def _lasts(self, effect: Effect) -> bool:
        """Return True if the rows must survive a power failure. Collected rows end with this process anyway."""
        return self.syncs and not effect.final.startswith(MEMORY)

    def place(self, path: str) -> str:
        """Return the real path for a sink's path."""
        return f"{self.collected}/{path.removeprefix(MEMORY)}" if path.startswith(MEMORY) else path

    def _is_gone(self, effect: Effect) -> bool:
        if not effect.final.startswith(MEMORY) or not os.path.exists(f"{self.collected}/{GONE}"):
            return False
        return not any(os.path.exists(self.place(path)) for path in (effect.staged, effect.final))

    def _placed(self, effect: Effect) -> Effect:
        if not effect.final.startswith(MEMORY):
            return effect
        return replace(effect, staged=self.place(effect.staged), final=self.place(effect.final))


def open_storage(job: JobGraph, directory: str) -> CheckpointStorage:
    """Open the job's checkpoint storage below `directory`."""
    settings = job.settings.checkpoint
    return CheckpointStorage(
        directory,
        job.job_id,
        settings.default_savepoint_directory,
        settings.memory_threshold_bytes,
        durability=settings.durability if settings.directory else Durability.PAGE_CACHE,  # temporary: short-lived
        entropy=entropy_of(settings),
    )


def local_state_directory(job: JobGraph) -> str:
    """Return the directory, on each machine, in which slots keep copies of their state; "" if they keep none.

    No other run of a job uses the same directory.
    """
    if not job.settings.checkpoint.local_recovery:
        return ""
    return locked_directory(f"local-state-{job.job_id}-")


def open_local_state(job: JobGraph, directory: str) -> LocalState | None:
    """Open the copies below `directory` on this machine; return None if the job keeps none."""
    return LocalState(directory, job.job_id) if directory else None


def read_output(job: JobGraph, output: SparkOutput, name: str) -> pd.DataFrame:
    """Return all visible rows of a sink (see `sink_called`), ordered by file name. Raises ValueError."""
    path = sink_called(job, name)
    place = output.place(path)
    system, inner = open_path(place)
    parts = published_parts(place)
    tables = ((part, pq.ParquetFile(system.open_file(f"{inner}/{part}")).read()) for part in parts)
    return rows_of_parts(tables, columns_of_sink(job, path))


def published_parts(place: str) -> list[str]:
    """Return the files that sinks have published in a directory, in order: their paths below it."""
    return [path for path in output_files.published_files(place) if path.rpartition("/")[2].startswith("part-")]


def check_writable(job: JobGraph, checkpoints: str | None) -> None:
    """Raise OSError, naming the directory and what to do, if nothing can be written for the sinks of a job, or below
    `checkpoints`.

    Otherwise the first checkpoint would find that, and the job would restart until it gives up.
    """
    if checkpoints is not None:
        try:
            _try_to_write(checkpoints)
        except OSError as error:
            why = reason(error, "make it writable, or set another CheckpointConfig(directory=...)")
            raise OSError(f"checkpoint directory {checkpoints!r} cannot be written: {why}") from error
    for sink in sinks(job):
        if not sink.path.startswith(MEMORY):
            try:
                _try_to_write(sink.path)
            except OSError as error:
                raise output_files.cannot_be_written(sink.path, error) from error


def _try_to_write(directory: str) -> None:
    """Make a file in a directory, or in the first one above it that exists, and delete it. Raises OSError."""
    system, inner = open_path(directory)
    while system.is_local and not os.path.lexists(inner):
        inner = os.path.dirname(inner)
    probe = f"{inner}/.kit-{uuid.uuid4().hex}"
    with system.create(probe) as stream:
        stream.write(b"")
    system.delete(probe)


_covered: dict[str, str] = {}
"""For each snapshot of this process's jobs, by location: the directory of the rows that were collected before it."""
_collected_runs: dict[str, set[str]] = {}
"""For each directory of collected rows: the runs whose rows it has."""


def collected_directory(job: JobGraph) -> str:
    """Return a directory in which a driver of the job collects rows; "" if no sink collects."""
    collects = any(sink.path.startswith(MEMORY) for sink in sinks(job))
    return temporary_directory(COLLECTED) if collects else ""


def forget_collected(collected: str) -> None:
    """Delete the rows that a driver has collected, unless a snapshot covers them."""
    if collected not in list(_covered.values()):
        _collected_runs.pop(collected, None)
        remove_directory(collected)


def _files_below(directory: str) -> set[str]:
    """Return the paths of all files below the directory, relative to it."""
    found = (Path(parent, name) for parent, _, names in os.walk(directory) for name in names)
    return {str(path.relative_to(directory)) for path in found}

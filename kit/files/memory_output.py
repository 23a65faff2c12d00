"""Output in two phases, in memory: the lab's version of what sinks stage and publish.

It has the same functions as `kit.files.output_files` for real files, so a host chooses once where output goes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from kit.core.protocol.lineage import CoveredOutput, Lineage
from kit.core.protocol.snapshots import Effect
from kit.files.discarded_output import first_of_each
from kit.files.output import Output, rows_of_parts
from kit.files.output_files import output_directory_of, published_with_other_rows
from kit.stream.connectors.output_directory import CommitError
from kit.stream.connectors.part_names import (
    PublishedName,
    StagedName,
    in_progress_since,
    staging_directory,
    writer_and_checkpoint,
)
from kit.stream.connectors.partitions import is_partition
from kit.stream.connectors.sink import MEMORY, Sink

if TYPE_CHECKING:
    import pandas as pd


NO_COLUMNS = pa.schema([])


class MemoryOutput(Output):
    """Tables by path: staged ones, and visible ones.

    Rows of a `CollectSink` are visible in the run that wrote them, and in runs that resumed from a snapshot after them.
    """

    def __init__(self) -> None:
        self.staged: dict[str, pa.Table] = {}
        self.in_progress: dict[str, pa.Table] = {}
        self.published: dict[str, pa.Table] = {}
        """What was published, by path; by `CollectSink`s in all runs."""
        self._recorded: dict[str, str] = {}
        """Where rows were made visible, and the path under which they had been staged; not those of a `CollectSink`."""
        self._directories: dict[str, str] = {}
        """The directory of the sink of each part that was made visible, which may be in a partition below it."""
        self._discarded: dict[str, dict[str, int]] = {}
        """For each sink's path, the first checkpoint of each writer whose output was deleted."""
        self._lineage: Lineage | None = None
        self._begun: frozenset[str] = frozenset()
        """The runs that have begun, even those that have written nothing."""

    def _visible(self) -> list[str]:
        """Return the paths that are published and of this run, in order."""
        return sorted(filter(self._is_visible, self.published))

    def _is_visible(self, path: str) -> bool:
        part = PublishedName.parse(path) if path.startswith(MEMORY) else None
        return part is None or self._lineage is None or self._lineage.led_to(part.writer, part.checkpoint_id)

    def begin(self, lineage: Lineage, *, resumed: bool = False) -> None:
        self._lineage = lineage
        self._begun |= {lineage.run}

    def begin_writing(self) -> Self:
        """Return this output: a lab's files outlive its tasks, and are swept."""
        return self

    def write(self, path: str, table: pa.Table, *, first: bool, last: bool) -> None:
        self.in_progress[path] = table if first else pa.concat_tables([self.in_progress[path], table])

    def sweep_in_progress(self, sink: Sink, writer: str, before: int) -> None:
        directory = staging_directory(sink.path, writer)
        for path in list(self.in_progress):
            since = in_progress_since(path.rpartition("/")[2])
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

    def sweep(self, sink: Sink, writer: str, orphans: Collection[int]) -> None:
        directory = staging_directory(sink.path, writer)
        for path in list(self.staged):
            name = StagedName.parse(path)
            if path.startswith(f"{directory}/") and name is not None and name.staged_by in orphans:
                del self.staged[path]

    def forget_published(self, sink: Sink, writer: str, checkpoints: range, keep: Collection[int] = ()) -> None:
        directory = staging_directory(sink.path, writer)
        for final, staged in list(self._recorded.items()):
            name = StagedName.parse(staged)
            by = None if name is None else name.staged_by
            if staged.startswith(f"{directory}/") and by in checkpoints and by not in keep:
                del self._recorded[final]

    def taken_away(self, sink: Sink, covered: CoveredOutput) -> int:
        gone = [final for final in self._recorded if final not in self.published and self._is_of(sink, final)]
        parts = filter(None, map(writer_and_checkpoint, gone))
        return sum(covered.is_of(writer) and not covered.includes(writer, number) for writer, number in parts)

    def _is_of(self, sink: Sink, path: str) -> bool:
        return self._directory(path) == sink.path.rstrip("/")

    def published_files(self, sink: Sink) -> list[str]:
        directory = f"{sink.path.rstrip('/')}/"
        names = (path.removeprefix(directory) for path in self._visible() if path.startswith(directory))
        return [name for name in names if is_partition(name[: name.rfind("/") + 1])]

    def delete_published(self, sink: Sink, names: Iterable[str]) -> None:
        names = list(names)
        gone = [(part.writer, part.checkpoint_id) for part in filter(None, map(PublishedName.parse, names))]
        before = self._discarded.get(sink.path, {})
        self._discarded[sink.path] = first_of_each([*before.items(), *gone])
        for name in names:
            path = f"{sink.path.rstrip('/')}/{name}"
            del self.published[path]
            self._recorded.pop(path, None)

    def discarded(self, sink: Sink) -> dict[str, int]:
        return dict(self._discarded.get(sink.path, {}))

    def writers(self, sinks: Iterable[Sink]) -> set[str]:
        """Return all runs that have ever begun."""
        return set(self._begun)

    def directories(self) -> list[str]:
        """Return the sinks' directories that have published something."""
        return sorted({self._directory(path) for path in self._visible()})

    def _directory(self, path: str) -> str:
        """Return the sink's directory of a visible part."""
        return self._directories.get(path, path.rpartition("/")[0])

    def read(self, directory: str, columns: pa.Schema = NO_COLUMNS) -> pd.DataFrame:
        """Return all visible rows of one sink, in order of file name; without rows, a frame of these columns."""
        wanted = directory.rstrip("/")
        places = {path: self._directory(path) for path in self._visible()}
        parts = (
            (path.removeprefix(f"{place}/"), self.published[path])
            for path, place in places.items()
            if place.endswith(wanted)
        )
        return rows_of_parts(parts, columns)

    def copy(self) -> Self:
        """Return another output with the same tables, which never change."""
        other = type(self)()
        other.in_progress = dict(self.in_progress)
        other._directories = dict(self._directories)
        other.staged, other.published, other._recorded = dict(self.staged), dict(self.published), dict(self._recorded)
        other._discarded, other._lineage, other._begun = dict(self._discarded), self._lineage, self._begun
        return other

    def __repr__(self) -> str:
        return f"MemoryOutput({len(self.published)} parts published, {len(self.staged)} staged)"

"""Sinks that publish in two phases: rows become visible when the checkpoint that covers them is complete.

The rows between two barriers are a *part*, or several if there are many; each part's file has a name of its own, after
run, subtask and checkpoint. Rows beyond what a subtask holds in memory are written to files in progress meanwhile
(`kit.stream.connectors.part_writer`). At a barrier the operator stages every part that no complete checkpoint covers
yet, so a checkpoint refers only to files that it staged itself:

- If the checkpoint completes, its parts are published, and then other staged copies of them are dropped.
- If it is aborted, what it staged is dropped. The operator or its pending file still has the rows, and stages them with
  the next checkpoint. Once no checkpoint is pending, all parts in memory become one.
- If the subtask fails, the parts that the restored checkpoint refers to are published (again) after the restore, and
  the rows after it are read again.

A part is published under its own name, whichever checkpoint brings it, and publishing twice has no further effect. So
no row is ever lost or duplicated. A published part stays in the state until the host has confirmed it, because the next
checkpoint might complete first.

Follows Flink's `TwoPhaseCommittingSink`, `CommitterOperator` and `FileSink`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import pyarrow as pa

from kit.core.arguments.allowed import NAME, expect
from kit.core.protocol.snapshots import Effect
from kit.core.state.errors import StateRestoreError
from kit.stream.backend.states.descriptors import ListStateDescriptor
from kit.stream.connectors.found_files import directory_path
from kit.stream.connectors.output_directory import check_output_directory
from kit.stream.connectors.part_names import PublishedName, StagedName, in_progress_name, staging_directory
from kit.stream.connectors.part_writer import PartWriter, PendingFile, RowsToWrite
from kit.stream.connectors.partitions import by_partition, checked_columns, file_schema, is_partition
from kit.stream.connectors.rolling import RollingPolicy
from kit.stream.operators.base import Operator
from kit.stream.operators.display import described_html
from kit.stream.operators.spec import ResolvedSpec, SchemaError, shorten

COMMITTABLES_STATE = ListStateDescriptor(
    "committables",
    pa.struct([pa.field("checkpoint_id", pa.int64()), pa.field("staged", pa.string()), pa.field("final", pa.string())]),
)

MEMORY = "memory://"
MODES = ("error", "overwrite", "append")


@dataclass(frozen=True, eq=False)
class Sink:
    """The base of the sinks: the paths for staging and publishing output.

    `mode` says how a run that starts from scratch treats rows that another run has published there, in Spark's words:
    "error" rejects the start, "overwrite" deletes them first, "append" adds to them. A run that resumes from a
    savepoint or checkpoint always adds.

    For a sink of your own, derive from one of the sinks, and let `create_operator` return your own `SinkOperator`.
    """

    path: str
    mode: str = "error"
    rolling: RollingPolicy | None = field(default=None, kw_only=True)
    """When a file ends between two barriers; with None all rows are held in memory until the next one."""
    partition_by: str | Iterable[str] = field(default=(), kw_only=True, repr=False)
    """The columns after whose values the directories of the files are named; a tuple once the sink is made."""

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The columns that directories are named after."""
        return checked_columns(self.partition_by)

    def create_operator(self, spec: SinkSpec) -> SinkOperator:
        """Create the operator of one subtask."""
        return SinkOperator(spec)

    def __deepcopy__(self, memo: dict[int, object]) -> Sink:
        """Return the sink itself: it is immutable."""
        return self

    def _repr_html_(self) -> str:
        facts = {"path": self.path, "mode": self.mode, "partition_by": ", ".join(self.partition_columns)}
        return described_html(type(self).__name__, facts)

    def staged_path(self, writer: str, name: StagedName) -> str:
        """Return the path of a file that a run stages."""
        return f"{staging_directory(self.path, writer)}/{name}"

    def path_in_progress(self, writer: str, subtask: int, since: int, number: int) -> str:
        """Return the file for rows that no barrier has ended yet; the last barrier was that of checkpoint `since`."""
        return f"{staging_directory(self.path, writer)}/{in_progress_name(subtask, since, number)}"

    def published_path(self, name: PublishedName, partition: str = "") -> str:
        """Return the file in which rows are published; `partition` is "" or ends in a slash."""
        return f"{self.path.rstrip('/')}/{partition}{name}"

    def check(self, schema: pa.Schema, operator: str) -> None:
        """Raise SchemaError for a column of the files that cannot be written here."""

    def check_own(self, staged: str, final: str) -> None:
        """Raise StateRestoreError unless this sink would use these paths, which come from a checkpoint.

        A checkpoint may come from a stranger, and the files it names are renamed and deleted.
        """
        directory, name = staged.rpartition("/")[::2]
        writer = directory.rpartition("/")[2]
        is_staged = directory == staging_directory(self.path, writer) and writer not in ("", ".", "..")
        root = f"{self.path.rstrip('/')}/"
        partition, slash, part = final.removeprefix(root).rpartition("/")
        is_published = (
            final.startswith(root) and is_partition(partition + slash) and PublishedName.parse(part) is not None
        )
        if not (is_staged and StagedName.parse(name) is not None and is_published):
            raise StateRestoreError(
                f"the checkpoint is to publish {staged!r} as {final!r}, and the sink writes to {self.path!r}: restore "
                "the job with the directory that this sink had when the checkpoint was taken, and change it with the "
                "next run; if it had this one, the checkpoint was tampered with"
            )


@dataclass(frozen=True, eq=False)
class ParquetSink(Sink):
    """Parquet files in the directory `path` (local, or a URI).

    A file is visible only once its checkpoint is complete.

    A job that starts from scratch, not from a savepoint or checkpoint, needs a directory without Parquet files, or is
    rejected when it starts (FileExistsError). `mode="overwrite"` first deletes what sinks have published there, and
    nothing else; `mode="append"` adds to it.

    A subtask holds few rows in memory and writes the others as they come; a file ends at each checkpoint, and earlier
    when it is large. `rolling` sets other limits (`RollingPolicy`).

    With `partition_by=("year", "month")` files are in directories such as `year=2013/month=1`, and do not hold these
    columns (`kit.stream.connectors.partitions`). They are columns of text, integers, booleans or dates. `ParquetSource`
    and other readers of Hive's layout have them in the rows again, with types of their own choice.

    Raises `kit.stream.connectors.CommitError`, naming the directory, if it certainly cannot be written, and
    ValueError for another mode.
    """

    rolling: RollingPolicy = field(default_factory=RollingPolicy, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(
                f'ParquetSink({self.path!r}): mode is {self.mode!r}, but must be "error", "overwrite" or "append"'
            )
        if not isinstance(self.rolling, RollingPolicy):
            raise TypeError(f"ParquetSink({self.path!r}): rolling is {self.rolling!r}, expected a RollingPolicy(...)")
        object.__setattr__(self, "partition_by", checked_columns(self.partition_by))
        object.__setattr__(self, "path", directory_path("ParquetSink", self.path))
        check_output_directory(self.path)

    def check(self, schema: pa.Schema, operator: str) -> None:
        """Raise SchemaError for a column of a type that Parquet does not support."""
        import pyarrow.parquet as pq

        for column in schema:
            try:
                pq.ParquetWriter(pa.BufferOutputStream(), pa.schema([column])).close()
            except pa.ArrowException as error:
                raise SchemaError(
                    f"{operator}: column {column.name!r} is {column.type}, which a Parquet file cannot hold: {error}"
                ) from None


def checked_sink(sink: object) -> Sink:
    """Return the sink itself. Raises TypeError for anything else."""
    if isinstance(sink, Sink):
        return sink
    found = f"the class {sink.__name__}" if isinstance(sink, type) else f"{shorten(repr(sink))} ({type(sink).__name__})"
    raise TypeError(f"sink_to takes a sink, such as CollectSink('out') or ParquetSink(path); found {found}")


@dataclass(frozen=True, eq=False)
class CollectSink(Sink):
    """Committed rows kept in the host's memory under the name `path`, for lessons.

    The rows belong to the job that wrote them: another job in the same process collects separately, even under the same
    name. A run that starts from scratch begins with none. A run that is restored from a savepoint or checkpoint begins
    with the rows that this covers. A driver that recovers a job begins with those of its predecessor, if they were
    collected in the same process (in the lab: by the lab given as `after`, or by one before that).
    """

    path: str = "collected"
    mode: str = field(default="overwrite", init=False, repr=False)
    rolling: RollingPolicy | None = field(default=None, init=False, repr=False)
    partition_by: tuple[str, ...] = field(default=(), init=False, repr=False)

    def __post_init__(self) -> None:
        expect(NAME.test(self.path), "CollectSink: path", self.path, "a name for the rows, such as 'out'")
        if not self.path.startswith(MEMORY):
            object.__setattr__(self, "path", MEMORY + self.path)


@dataclass(frozen=True, eq=False, repr=False)
class SinkSpec(ResolvedSpec):
    """A sink as the end of a job: `sink` says where rows go."""

    input_schema: pa.Schema
    sink: Sink

    acts: ClassVar[bool] = True
    hooks_remedy: ClassVar[str] = "let its create_operator(spec) return a SinkOperator that overrides them"

    def _resolve(self) -> None:
        self.sink.check(file_schema(self.input_schema, self.sink.partition_columns, self.name), self.name)
        self._set(input_schemas=(self.input_schema,))

    def create(self) -> SinkOperator:
        """Create one subtask's operator."""
        return self.sink.create_operator(self)


class HeldOutput(NamedTuple):
    """Rows that a sink's subtask has not finally published, in memory or in a file in progress.

    They are "collected" since the last barrier, "staged" by the checkpoint `staged_by`, "kept" (the checkpoint that
    staged them is over), or "being published". `part` is the checkpoint whose barrier ended them (None: none yet),
    `final` is the file they will be in.
    """

    state: str
    part: int | None
    staged_by: int | None
    rows: int | None
    final: str


class StagedPart(NamedTuple):
    """A file that ended at the barrier of checkpoint `checkpoint_id`, the `number`-th of those."""

    checkpoint_id: int
    number: int
    file: PendingFile


class SinkOperator(Operator):
    """The operator that collects rows, stages them with each checkpoint, and publishes what a complete one covers."""

    def __init__(self, spec: SinkSpec) -> None:
        self._spec = spec
        schema = file_schema(spec.input_schema, spec.sink.partition_columns, spec.name)
        self._writer = PartWriter(schema, spec.sink.rolling, self._write, self._new_path)
        self._parts: list[StagedPart] = []
        """The parts that no complete checkpoint covers, oldest first."""
        self._covered: list[str] = []
        """Pending files of parts that are covered, which a pending checkpoint may still be staging."""
        self._in_flight: dict[int, list[Effect]] = {}
        """The staged output of each pending checkpoint."""
        self._publishing: dict[int, list[Effect]] = {}
        """The published output of each complete checkpoint, until the host has confirmed it."""
        self._superseded: list[Effect] = []
        """What checkpoints staged before the one that is being published, of rows that it publishes."""
        self._published: set[str] = set()
        """Parts confirmed while later checkpoints, which had staged them too, were pending."""
        self._since = 0
        """The checkpoint of the last barrier or restore."""
        self._begun = 0
        """The number of files begun since then."""

    def initialize_state(self) -> None:
        """Take over what the restored checkpoint staged."""
        self._since = self.context.restored_checkpoint_id or 0
        self._state = self.context.operator_state.list_state(COMMITTABLES_STATE)
        restored = list(self._state.get())
        for entry in restored:
            self._spec.sink.check_own(entry["staged"], entry["final"])
        if restored:
            effects = [Effect(self.context.operator_id, entry["staged"], entry["final"]) for entry in restored]
            self._publishing[max(entry["checkpoint_id"] for entry in restored)] = effects

    @property
    def rows_in_memory(self) -> int:
        """The rows that it holds; those in files are not counted."""
        return self._writer.held_rows + self._rows_of_parts()

    def _rows_of_parts(self) -> int:
        return sum(part.file.table.num_rows for part in self._parts if part.file.table is not None)

    def held(self) -> list[HeldOutput]:
        """Return what is not finally published, oldest first; `rows` is None for output of an earlier attempt."""
        found = [
            HeldOutput("being published", None, number, None, effect.final)
            for number, effects in self._publishing.items()
            for effect in effects
        ]
        for part in self._parts:
            final = self._final_path(part)
            by = [number for number, effects in self._in_flight.items() if any(e.final == final for e in effects)]
            found += [HeldOutput("staged", part.checkpoint_id, number, part.file.rows, final) for number in by]
            if not by:
                found.append(HeldOutput("kept", part.checkpoint_id, None, part.file.rows, final))
        rows = self._writer.rows
        return [*found, HeldOutput("collected", None, None, rows, "")] if rows else found

    def open(self) -> None:
        """Publish the restored output again: it may or may not have been published before the failure."""
        for checkpoint_id, effects in self._publishing.items():
            self.context.commit(checkpoint_id, effects)

    def process_batch(self, batch: pa.RecordBatch, input_index: int = 0) -> None:
        """Keep the rows for the next barrier, or write them."""
        for partition, rows in by_partition(batch, self._spec.sink.partition_columns):
            self._writer.add(partition, rows, self.context.processing_time_ms)

    def process_watermark(self, timestamp_ms: int) -> None:
        """Do nothing: event time ends here."""

    def on_processing_time(self, now_ms: int) -> None:
        """End the files whose time has come."""
        self._writer.end_due(now_ms)

    def next_processing_time_ms(self) -> int | None:
        """Return when time ends a file."""
        return self._writer.next_due_ms()

    def _write(self, rows: RowsToWrite) -> None:
        self.context.write(rows.path, rows.table, first=rows.first, last=rows.last)

    def _new_path(self) -> str:
        self._begun += 1
        context = self.context
        return self._spec.sink.path_in_progress(context.lineage.writer, context.subtask, self._since, self._begun)

    def snapshot_state(self, checkpoint_id: int) -> None:
        """Stage every part that no complete checkpoint covers, and record what this checkpoint must publish."""
        self._end_parts(checkpoint_id)
        effects = [self._effect_of(part, checkpoint_id) for part in self._parts]
        if effects:
            self._in_flight[checkpoint_id] = effects
            self.context.stage(effects)
        unconfirmed = [(number, effect) for number, publishing in self._publishing.items() for effect in publishing]
        committables = unconfirmed + [(checkpoint_id, effect) for effect in effects]
        self._state.update(
            [
                {"checkpoint_id": number, "staged": effect.staged, "final": effect.final}
                for number, effect in committables
            ]
        )

    def _end_parts(self, checkpoint_id: int) -> None:
        """End the files, with the rows of aborted checkpoints that are in memory if none is pending."""
        if not self._in_flight:
            for part in reversed(self._parts):
                table = part.file.table
                if table is not None and self._writer.take_back(
                    part.file.bucket, table, self.context.processing_time_ms
                ):
                    self._parts.remove(part)
        ended = self._writer.end_all()
        self._parts += [StagedPart(checkpoint_id, number, file) for number, file in enumerate(ended)]
        self._since, self._begun = checkpoint_id, 0
        self._hold_no_more_than_allowed()

    def _hold_no_more_than_allowed(self) -> None:
        """Write parts that are in memory, the oldest first: checkpoints may be aborted one after the other."""
        rolling = self._spec.sink.rolling
        for index, part in enumerate(self._parts):
            if rolling is None or self._rows_of_parts() <= rolling.held_rows:
                return
            if part.file.table is not None:
                self._parts[index] = part._replace(file=self._writer.written(part.file))

    def _staged_name(self, part: StagedPart, staged_by: int) -> StagedName:
        return StagedName(self.context.subtask, part.checkpoint_id, staged_by, part.number)

    def _final_path(self, part: StagedPart) -> str:
        name = self._staged_name(part, part.checkpoint_id).published_by(self.context.lineage.writer)
        return self._spec.sink.published_path(name, part.file.bucket)

    def _effect_of(self, part: StagedPart, checkpoint_id: int) -> Effect:
        context, file = self.context, part.file
        staged = self._spec.sink.staged_path(context.lineage.writer, self._staged_name(part, checkpoint_id))
        return Effect(context.operator_id, staged, self._final_path(part), file.table, file.path)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Publish what the checkpoint staged; what older ones staged of the same rows is dropped after that."""
        effects = self._in_flight.pop(checkpoint_id, [])
        for older in sorted(number for number in self._in_flight if number < checkpoint_id):
            self._superseded += self._in_flight.pop(older)
        self._published &= {effect.final for staged in self._in_flight.values() for effect in staged}
        self._covered += [part.file.path for part in self._parts if part.checkpoint_id <= checkpoint_id]
        self._parts = [part for part in self._parts if part.checkpoint_id > checkpoint_id]
        if effects:
            published = [Effect(effect.operator_id, effect.staged, effect.final) for effect in effects]
            self._publishing[checkpoint_id] = published
            self.context.commit(checkpoint_id, published)
        self._drop_superseded()
        self._drop_covered()

    def _drop_superseded(self) -> None:
        """Drop other staged copies of rows that are published: until then, a savepoint may need them to be restored."""
        unpublished = {effect.final for effects in self._publishing.values() for effect in effects}
        useless = [effect for effect in self._superseded if effect.final not in unpublished]
        self._superseded = [effect for effect in self._superseded if effect.final in unpublished]
        if useless:
            self.context.drop(useless)

    def _drop_covered(self) -> None:
        """Drop pending files of covered parts, unless a checkpoint under way stages them as well."""
        wanted = {effect.pending for effects in self._in_flight.values() for effect in effects}
        useless = [path for path in self._covered if path and path not in wanted]
        self._covered = [path for path in self._covered if path in wanted]
        if useless:
            self.context.drop([Effect(self.context.operator_id, path, "") for path in useless])

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Drop what the checkpoint staged; the operator keeps the rows."""
        effects = self._in_flight.pop(checkpoint_id, [])
        if effects:
            self.context.drop(effects)
        self._drop_covered()

    def effects_committed(self, checkpoint_id: int) -> None:
        """Record that the host has published the output of this checkpoint."""
        published = self._publishing.pop(checkpoint_id, [])
        if self._in_flight:
            self._published |= {effect.final for effect in published}
        self._drop_superseded()

    def close(self) -> None:
        """Drop staged copies of rows that are published: the subtask ends, and will not learn how checkpoints end.

        Other staged rows are kept, in case such a checkpoint is restored.
        """
        under_way = [effect for effects in self._in_flight.values() for effect in effects]
        useless = [effect for effect in under_way if effect.final in self._published]
        if useless:
            self.context.drop(useless)

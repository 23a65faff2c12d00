"""Sinks that publish in two phases: rows become visible when the checkpoint that covers them is complete.

The rows between two barriers are a *part*; its file is named after job, subtask and checkpoint. At a barrier the
operator stages every part that no complete checkpoint covers yet, so a checkpoint refers only to files that it staged
itself:

- If the checkpoint completes, its parts are published, and other staged copies of them are dropped.
- If it is aborted, what it staged is dropped. The operator still has the rows, and stages them with the next
  checkpoint. Once no checkpoint is pending, all such parts become one.
- If the subtask fails, the parts that the restored checkpoint refers to are published (again) after the restore, and
  the rows after it are read again.

A part is published under its own name, whichever checkpoint brings it, and publishing twice has no further effect. So
no row is ever lost or duplicated. A published part stays in the state until the host has confirmed it, because the next
checkpoint might complete first.

Follows Flink's `TwoPhaseCommittingSink`, `CommitterOperator` and `FileSink`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import pyarrow as pa

from kit.core.protocol.snapshots import Effect
from kit.core.state.errors import StateRestoreError
from kit.stream.backend.states.descriptors import ListStateDescriptor
from kit.stream.connectors import files
from kit.stream.operators.base import Operator
from kit.stream.operators.display import described_html
from kit.stream.operators.spec import ResolvedSpec, SchemaError, shorten

COMMITTABLES_STATE = ListStateDescriptor(
    "committables",
    pa.struct([pa.field("checkpoint_id", pa.int64()), pa.field("staged", pa.string()), pa.field("final", pa.string())]),
)

MEMORY = "memory://"
MODES = ("error", "overwrite", "append")
_FINAL_NAME = re.compile(r"part-.+-\d{5,}-(?P<part>\d{6,})\.parquet")
_STAGED_NAME = re.compile(r"part-\d+-(?P<part>\d+)(?:-in-(?P<again>\d+))?\.parquet")


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

    def create_operator(self, spec: SinkSpec) -> SinkOperator:
        """Create the operator of one subtask."""
        return SinkOperator(spec)

    def __deepcopy__(self, memo: dict[int, object]) -> Sink:
        """Return the sink itself: it is immutable."""
        return self

    def _repr_html_(self) -> str:
        return described_html(type(self).__name__, {"path": self.path, "mode": self.mode})

    def staged_path(self, job_id: str, subtask: int, part: int, checkpoint_id: int) -> str:
        """Return the file in which a checkpoint stages the rows that end with checkpoint `part`'s barrier."""
        again = "" if part == checkpoint_id else f"-in-{checkpoint_id}"
        return f"{files.staging_directory(self.path, job_id)}/part-{subtask}-{part}{again}.parquet"

    def check(self, schema: pa.Schema, operator: str) -> None:
        """Raise SchemaError for a column that cannot be written here."""

    def check_own(self, staged: str, final: str) -> None:
        """Raise StateRestoreError unless this sink would use these paths, which come from a checkpoint.

        A checkpoint may come from a stranger, and the files it names are renamed and deleted.
        """
        directory, name = staged.rpartition("/")[::2]
        job = directory.rpartition("/")[2]
        is_staged = directory == f"{self.path.rstrip('/')}/{files.STAGING}/{job}" and job not in ("", ".", "..")
        below, part = final.rpartition("/")[::2]
        if not (
            is_staged and self.staged_by(name) is not None and below == self.path.rstrip("/") and self.is_part(part)
        ):
            raise StateRestoreError(
                f"the checkpoint is to publish {staged!r} as {final!r}, and the sink writes to {self.path!r}: restore "
                "the job with the directory that this sink had when the checkpoint was taken, and change it with the "
                "next run; if it had this one, the checkpoint was tampered with"
            )

    @staticmethod
    def is_part(name: str) -> bool:
        """Return True if a sink publishes files with such names."""
        return _FINAL_NAME.fullmatch(name) is not None

    @staticmethod
    def is_part_of(name: str, job_id: str) -> bool:
        """Return True if a sink of this very job does."""
        return Sink.is_part(name) and name.startswith(f"part-{files.file_safe(job_id)}-")

    @staticmethod
    def staged_by(name: str) -> int | None:
        """Return the checkpoint that staged the file of this name; None for a file that no sink has staged."""
        found = _STAGED_NAME.match(name)
        return int(found["again"] or found["part"]) if found else None

    @staticmethod
    def is_covered(path: str, checkpoint_id: int) -> bool:
        """Return True if a sink had staged or published this file when its job took checkpoint `checkpoint_id`."""
        name = path.rpartition("/")[2]
        published = _FINAL_NAME.fullmatch(name)
        by = int(published["part"]) if published else Sink.staged_by(name)
        return by is not None and by <= checkpoint_id

    @staticmethod
    def staged_part(name: str) -> int | None:
        """Return the checkpoint at whose barrier the rows in a staged file ended; None if no sink has staged it."""
        found = _STAGED_NAME.match(name)
        return int(found["part"]) if found else None

    def final_path(self, job_id: str, subtask: int, part: int) -> str:
        """Return the file in which these rows are published."""
        return f"{self.path.rstrip('/')}/part-{files.file_safe(job_id)}-{subtask:05d}-{part:06d}.parquet"


@dataclass(frozen=True, eq=False)
class ParquetSink(Sink):
    """Parquet files in the directory `path` (local, or a URI that Arrow supports).

    A file is visible only once its checkpoint is complete.

    A job that starts from scratch, not from a savepoint or checkpoint, needs a directory without Parquet files, or is
    rejected when it starts (FileExistsError). `mode="overwrite"` first deletes what sinks have published there, and
    nothing else; `mode="append"` adds to it.

    Raises `kit.stream.connectors.files.CommitError`, naming the directory, if it certainly cannot be written, and
    ValueError for another mode.
    """

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(
                f'ParquetSink({self.path!r}): mode is {self.mode!r}, but must be "error", "overwrite" or "append"'
            )
        object.__setattr__(self, "path", files.absolute(self.path))
        files.check_output_directory(self.path)

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
    """Return the sink itself. Raises TypeError for what is none."""
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

    def __post_init__(self) -> None:
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
        self.sink.check(self.input_schema, self.name)
        self._set(input_schemas=(self.input_schema,))

    def create(self) -> SinkOperator:
        """Create one subtask's operator."""
        return self.sink.create_operator(self)


class HeldOutput(NamedTuple):
    """Rows that a sink's subtask has not finally published.

    They are "collected" since the last barrier, "staged" by the checkpoint `staged_by`, "kept" (the checkpoint that
    staged them is over), or "being published". `part` is the checkpoint whose barrier ended them (None: none yet),
    `final` is the file they will be in.
    """

    state: str
    part: int | None
    staged_by: int | None
    rows: int | None
    final: str


class SinkOperator(Operator):
    """The operator that buffers rows, stages them with each checkpoint, and publishes what a complete one covers."""

    def __init__(self, spec: SinkSpec) -> None:
        self._spec = spec
        self._buffer: list[pa.RecordBatch] = []
        self._parts: dict[int, pa.Table] = {}
        """Rows that no complete checkpoint covers, by the checkpoint whose barrier ended them."""
        self._in_flight: dict[int, list[Effect]] = {}
        """The staged output of each pending checkpoint."""
        self._publishing: dict[int, list[Effect]] = {}
        """The published output of each complete checkpoint, until the host has confirmed it."""
        self._published: set[str] = set()
        """Parts confirmed while later checkpoints, which had staged them too, were pending."""

    def initialize_state(self) -> None:
        """Take over what the restored checkpoint staged."""
        self._state = self.context.operator_state.list_state(COMMITTABLES_STATE)
        restored = list(self._state.get())
        for entry in restored:
            self._spec.sink.check_own(entry["staged"], entry["final"])
        if restored:
            effects = [Effect(self.context.operator_id, entry["staged"], entry["final"]) for entry in restored]
            self._publishing[max(entry["checkpoint_id"] for entry in restored)] = effects

    def held(self) -> list[HeldOutput]:
        """Return what is not finally published, oldest first; `rows` is None for output of an earlier attempt."""
        found = [
            HeldOutput("being published", None, number, None, effect.final)
            for number, effects in self._publishing.items()
            for effect in effects
        ]
        for part, table in self._parts.items():
            final = self._spec.sink.final_path(self.context.job_id, self.context.subtask, part)
            by = [number for number, effects in self._in_flight.items() if any(e.final == final for e in effects)]
            found += [HeldOutput("staged", part, number, table.num_rows, final) for number in by]
            if not by:
                found.append(HeldOutput("kept", part, None, table.num_rows, final))
        rows = sum(batch.num_rows for batch in self._buffer)
        return [*found, HeldOutput("collected", None, None, rows, "")] if rows else found

    def open(self) -> None:
        """Publish the restored output again: it may or may not have been published before the failure."""
        for checkpoint_id, effects in self._publishing.items():
            self.context.commit(checkpoint_id, effects)

    def process_batch(self, batch: pa.RecordBatch, input_index: int = 0) -> None:
        """Keep the rows for the next barrier."""
        if batch.num_rows:
            self._buffer.append(batch)

    def process_watermark(self, timestamp_ms: int) -> None:
        """Do nothing: event time ends here."""

    def snapshot_state(self, checkpoint_id: int) -> None:
        """Stage every part that no complete checkpoint covers, and record what this checkpoint must publish."""
        self._end_part(checkpoint_id)
        effects = [self._effect(part, checkpoint_id, table) for part, table in self._parts.items()]
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

    def _end_part(self, checkpoint_id: int) -> None:
        """Turn the buffered rows into a part, including those of aborted checkpoints if none is pending."""
        rows = self._buffer
        if not self._in_flight:
            rows = [batch for table in self._parts.values() for batch in table.to_batches()] + rows
            self._parts = {}
        if rows:
            self._parts[checkpoint_id] = pa.Table.from_batches(rows, schema=self._spec.input_schema)
        self._buffer = []

    def _effect(self, part: int, checkpoint_id: int, table: pa.Table) -> Effect:
        context, sink = self.context, self._spec.sink
        return Effect(
            context.operator_id,
            sink.staged_path(context.job_id, context.subtask, part, checkpoint_id),
            sink.final_path(context.job_id, context.subtask, part),
            table,
        )

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Publish what the checkpoint staged, and drop what older ones staged of the same rows."""
        effects = self._in_flight.pop(checkpoint_id, [])
        for older in sorted(number for number in self._in_flight if number < checkpoint_id):
            self.context.drop(self._in_flight.pop(older))
        self._published &= {effect.final for staged in self._in_flight.values() for effect in staged}
        self._parts = {part: table for part, table in self._parts.items() if part > checkpoint_id}
        if effects:
            published = [Effect(effect.operator_id, effect.staged, effect.final) for effect in effects]
            self._publishing[checkpoint_id] = published
            self.context.commit(checkpoint_id, published)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Drop what the checkpoint staged; the operator keeps the rows."""
        effects = self._in_flight.pop(checkpoint_id, [])
        if effects:
            self.context.drop(effects)

    def effects_committed(self, checkpoint_id: int) -> None:
        """Record that the host has published the output of this checkpoint."""
        published = self._publishing.pop(checkpoint_id, [])
        if self._in_flight:
            self._published |= {effect.final for effect in published}

    def close(self) -> None:
        """Drop staged copies of rows that are published: the subtask ends, and will not learn how checkpoints end.

        Other staged rows are kept, in case such a checkpoint is restored.
        """
        under_way = [effect for effects in self._in_flight.values() for effect in effects]
        useless = [effect for effect in under_way if effect.final in self._published]
        if useless:
            self.context.drop(useless)

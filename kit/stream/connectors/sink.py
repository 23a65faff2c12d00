"""Sinks that publish in two phases: rows become visible when the checkpoint that covers them is complete.

The rows between two barriers are a *part*; its file has a name of its own, after job, subtask and checkpoint. At a
barrier the operator stages every part that no complete checkpoint covers yet, so a checkpoint refers to nothing but
files that it staged itself:

- the checkpoint completes: its parts are published, what others staged of them is dropped;
- it is aborted: what it staged is dropped, and the rows, which the operator still has, go with the next one. Once no
  checkpoint is under way all such parts become one;
- the subtask fails: after the restore, the parts that the restored checkpoint refers to are published (again), the
  rows after it are read again.

A part is published under its own name, whichever checkpoint brings it, and publishing twice is publishing once: so no
row is ever lost, and none comes twice. A published part stays in the state until the host has confirmed it, for the
checkpoint after it might complete first.

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
from kit.stream.operators.spec import ResolvedSpec, SchemaError

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
    """Base of the sinks: where output is staged, and where it is published.

    `mode` is what a run that starts from scratch does about rows that another run has published there, in Spark's
    words: "error" refuses to begin, "overwrite" deletes them first, "append" adds to them. A run that goes on from a
    savepoint or checkpoint always adds.

    For a sink of your own derive from one, and let `create_operator` make a `SinkOperator` of your own.
    """

    path: str
    mode: str = "error"

    def create_operator(self, spec: SinkSpec) -> SinkOperator:
        """What one subtask does with the rows."""
        return SinkOperator(spec)

    def __deepcopy__(self, memo: dict[int, object]) -> Sink:
        """Itself: it never changes."""
        return self

    def _repr_html_(self) -> str:
        return described_html(type(self).__name__, {"path": self.path, "mode": self.mode})

    def staged_path(self, job_id: str, subtask: int, part: int, checkpoint_id: int) -> str:
        """The file in which checkpoint `checkpoint_id` stages the rows that end with the barrier of checkpoint
        `part`.
        """
        again = "" if part == checkpoint_id else f"-in-{checkpoint_id}"
        return f"{files.staging_directory(self.path, job_id)}/part-{subtask}-{part}{again}.parquet"

    def check(self, schema: pa.Schema, operator: str) -> None:
        """Raise SchemaError for a column that cannot be written here."""

    def check_own(self, staged: str, final: str) -> None:
        """Raise StateRestoreError unless this sink would stage and publish under these paths, which a checkpoint holds.

        A checkpoint may come from a stranger, and what it says is renamed and deleted.
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
        """Whether a sink gives such a name to what it publishes."""
        return _FINAL_NAME.fullmatch(name) is not None

    @staticmethod
    def is_part_of(name: str, job_id: str) -> bool:
        """Whether a sink of this very job does."""
        return Sink.is_part(name) and name.startswith(f"part-{files.file_safe(job_id)}-")

    @staticmethod
    def staged_by(name: str) -> int | None:
        """The checkpoint that staged the file of this name; None for a file that no sink has staged."""
        found = _STAGED_NAME.match(name)
        return int(found["again"] or found["part"]) if found else None

    @staticmethod
    def is_covered(path: str, checkpoint_id: int) -> bool:
        """Return True if a sink had staged or published this file when its job took checkpoint `checkpoint_id`."""
        name = path.rpartition("/")[2]
        published = _FINAL_NAME.fullmatch(name)
        by = int(published["part"]) if published else Sink.staged_by(name)
        return by is not None and by <= checkpoint_id

    def final_path(self, job_id: str, subtask: int, part: int) -> str:
        """The file in which these rows are published."""
        return f"{self.path.rstrip('/')}/part-{files.file_safe(job_id)}-{subtask:05d}-{part:06d}.parquet"


@dataclass(frozen=True, eq=False)
class ParquetSink(Sink):
    """Parquet files in the directory `path` (local, or a URI that Arrow knows); none is seen before its checkpoint is
    complete.

    A job that starts from scratch, not from a savepoint or checkpoint, finds a directory without Parquet files there,
    or is refused (FileExistsError, when it starts); `mode="overwrite"` deletes what sinks have published there before
    it begins, and nothing else; `mode="append"` adds to it.

    Raises `kit.stream.connectors.files.CommitError`, naming the directory, when it is clear already that it cannot be
    written, and ValueError for another mode.
    """

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(
                f'ParquetSink({self.path!r}): mode is {self.mode!r}, but must be "error", "overwrite" or "append"'
            )
        object.__setattr__(self, "path", files.absolute(self.path))
        files.check_output_directory(self.path)

    def check(self, schema: pa.Schema, operator: str) -> None:
        """Raise SchemaError for a column of a type that Parquet has not."""
        import pyarrow.parquet as pq

        for column in schema:
            try:
                pq.ParquetWriter(pa.BufferOutputStream(), pa.schema([column])).close()
            except pa.ArrowException as error:
                raise SchemaError(
                    f"{operator}: column {column.name!r} is {column.type}, which a Parquet file cannot hold: {error}"
                ) from None


@dataclass(frozen=True, eq=False)
class CollectSink(Sink):
    """Committed rows kept in the host's memory under the name `path`, for lessons.

    The rows belong to the job that wrote them: another job in the same process collects apart, under the same name too.
    A run that starts from scratch begins with none. A run that is restored from a savepoint or checkpoint begins with
    the rows that this covers, and a driver that recovers a job with those of its predecessor, if they were collected in
    the same process (in the lab: by the lab given as `after`, or by one before that).
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
        """One subtask's operator."""
        return self.sink.create_operator(self)


class HeldOutput(NamedTuple):
    """Rows that a sink's subtask has not published for good: "collected" since the last barrier, "staged" by the
    checkpoint `staged_by`, "kept" (no checkpoint is under way that staged them), or "being published". `part` is the
    checkpoint at whose barrier they ended (None: none has come yet), `final` the file they will be in.
    """

    state: str
    part: int | None
    staged_by: int | None
    rows: int | None
    final: str


class SinkOperator(Operator):
    """Buffers rows, stages them with each checkpoint, publishes what a complete one covers."""

    def __init__(self, spec: SinkSpec) -> None:
        self._spec = spec
        self._buffer: list[pa.RecordBatch] = []
        self._parts: dict[int, pa.Table] = {}
        """Rows that no complete checkpoint covers, by the checkpoint at whose barrier they ended."""
        self._in_flight: dict[int, list[Effect]] = {}
        """What each checkpoint staged of which it is not known how it ends."""
        self._publishing: dict[int, list[Effect]] = {}
        """What each complete checkpoint published, until the host has confirmed it."""
        self._published: set[str] = set()
        """Parts confirmed while later checkpoints, which had staged them too, were under way."""

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
        """What it has not published for good, oldest first; `rows` is None for what an earlier attempt staged."""
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
        """Publish again what was restored: nobody knows whether it was published before the failure."""
        for checkpoint_id, effects in self._publishing.items():
            self.context.commit(checkpoint_id, effects)

    def process_batch(self, batch: pa.RecordBatch, input_index: int = 0) -> None:
        """Keep the rows for the next barrier."""
        if batch.num_rows:
            self._buffer.append(batch)

    def process_watermark(self, timestamp_ms: int) -> None:
        """Event time ends here."""

    def snapshot_state(self, checkpoint_id: int) -> None:
        """Stage every part that no complete checkpoint covers, and note what this checkpoint will have to publish."""
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
        """The buffered rows become a part, with those of aborted checkpoints before them when none is under way."""
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
        """Publish what the checkpoint staged; what older ones staged of the same rows is of no use any more."""
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
        """Drop what the checkpoint staged; the rows stay with the operator."""
        effects = self._in_flight.pop(checkpoint_id, [])
        if effects:
            self.context.drop(effects)

    def effects_committed(self, checkpoint_id: int) -> None:
        """The host has published what was asked for at this checkpoint's completion."""
        published = self._publishing.pop(checkpoint_id, [])
        if self._in_flight:
            self._published |= {effect.final for effect in published}

    def close(self) -> None:
        """The subtask is over: nobody will tell it how checkpoints under way end. What they staged of rows that
        are published already is of no use to anybody; the rest is, once such a checkpoint is restored.
        """
        under_way = [effect for effects in self._in_flight.values() for effect in effects]
        useless = [effect for effect in under_way if effect.final in self._published]
        if useless:
            self.context.drop(useless)

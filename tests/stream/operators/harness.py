"""An operator driven by a test: its context, real state backends, and a record of everything that it did.

`Harness(spec)` is one subtask. `snapshot()` takes the path of a real checkpoint, bytes included; `restored(spec,
snapshots, parallelism)` gives the subtasks that begin from them, dealt out by the real restore.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.core.event_time import MIN_WATERMARK_MS
from kit.core.protocol.lineage import Lineage
from kit.core.protocol.notes import LateRows
from kit.core.protocol.snapshots import Effect
from kit.core.state.handles import ByteStreamStateHandle, KeyGroupsStateHandle, OperatorStreamStateHandle
from kit.core.state.key_groups import key_group_range_for_operator_index
from kit.machines.restore.repartition import repartition_state
from kit.stream.backend.heap import HeapKeyedStateBackend
from kit.stream.backend.operator_store import OperatorStateStore
from kit.stream.backend.raw_state import RawStateInputs, RawStateOutputs
from kit.stream.backend.states.state_definition import StateDefinition
from kit.stream.connectors.part_writer import RowsToWrite
from kit.stream.graph.partitioners import HashPartitioner
from kit.stream.operators.base import OperatorSpec
from kit.stream.operators.metrics import MetricGroup
from kit.stream.operators.sources.source_operator import ReadRequest, SourceOperator

MAX_PARALLELISM = 128

Row = dict[str, Any]


@dataclass(frozen=True)
class Snapshot:
    """The parts of one subtask's snapshot."""

    keyed: KeyGroupsStateHandle | None
    operator: OperatorStreamStateHandle | None
    staged: tuple[Effect, ...]


class Recorder:
    """Takes what an operator emits: `elements` are batches, watermarks and statuses in order, `aside` what went to
    side outputs, by tag.
    """

    def __init__(self) -> None:
        self.elements: list[pa.RecordBatch | int | str] = []
        self.aside: dict[str, list[pa.RecordBatch]] = {}

    def emit(self, batch: pa.RecordBatch) -> None:
        self.elements.append(batch)

    def emit_to(self, tag: str, batch: pa.RecordBatch) -> None:
        self.aside.setdefault(tag, []).append(batch)

    def emit_watermark(self, timestamp_ms: int) -> None:
        self.elements.append(timestamp_ms)

    def emit_watermark_status(self, *, idle: bool) -> None:
        self.elements.append("idle" if idle else "active")


class Active:
    """The activity of a subtask that could always emit; a test says whether it has rows, or is paused."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self.has_nothing, self.is_paused = True, False

    @property
    def ms(self) -> int:
        return self._harness.processing_time_ms


class Harness:
    """One subtask of an operator, and its `OperatorContext`."""

    def __init__(
        self, spec: OperatorSpec, *, subtask: int = 0, parallelism: int = 1, run: str = "job", start: bool = True
    ) -> None:
        self.spec = spec
        self.operator_id = "0" * 32
        self.name = spec.name
        self.task = f"vertex/{subtask}"
        self.subtask = subtask
        self.parallelism = parallelism
        self.max_parallelism = MAX_PARALLELISM
        self.key_group_range = key_group_range_for_operator_index(MAX_PARALLELISM, parallelism, subtask)
        self.lineage = Lineage(run)
        self.output = Recorder()
        self.operator_state = OperatorStateStore()
        self.restored_checkpoint_id: int | None = None
        self.metrics = MetricGroup()
        self.raw_inputs = RawStateInputs(self.name, self.key_group_range if spec.key_type is not None else None)
        self.raw_outputs = RawStateOutputs(self.name, self.key_group_range if spec.key_type is not None else None)
        self.processing_time_ms = 0
        self.activity = Active(self)
        self.current_watermark_ms = MIN_WATERMARK_MS
        self.staged: list[Effect] = []
        self.written: list[RowsToWrite] = []
        self.committed: list[tuple[int, tuple[Effect, ...]]] = []
        self.dropped: list[Effect] = []
        self.said: list[dict[str, Any]] = []
        self.late_rows = {"RowsBehindWatermark": 0, "LateRowsDropped": 0}
        self._backend = None
        if spec.key_type is not None:
            definition = StateDefinition(f"operator {self.name!r}", spec.state_aspects())
            shape = spec.key_type, self.key_group_range, MAX_PARALLELISM
            self._backend = HeapKeyedStateBackend(*shape, definition, clock=self)
        self.operator = spec.create()
        self.operator.setup(self)
        if start:
            self.start()

    # --- the context ----------------------------------------------------------------------------------------------

    @property
    def keyed_state(self) -> HeapKeyedStateBackend:
        assert self._backend is not None
        return self._backend

    def stage(self, effects: Sequence[Effect]) -> None:
        self.staged.extend(effects)

    def write(self, path: str, table: pa.Table, *, first: bool, last: bool) -> None:
        self.written.append(RowsToWrite(path, table, first, last))

    def commit(self, checkpoint_id: int, effects: Sequence[Effect]) -> None:
        self.committed.append((checkpoint_id, tuple(effects)))

    def drop(self, effects: Sequence[Effect]) -> None:
        self.dropped.extend(effects)

    def send_to_coordinator(self, payload: dict[str, Any]) -> None:
        self.said.append(payload)

    def count_late(
        self, kind: type[LateRows], times_ms: npt.NDArray[np.int64], watermark_ms: int, split: str = ""
    ) -> None:
        assert (times_ms <= watermark_ms).all()
        self.late_rows[kind.__name__] += len(times_ms)

    # --- what a task does -----------------------------------------------------------------------------------------

    def start(self) -> Harness:
        self.operator.initialize_state()
        self.operator.open()
        return self

    def process(self, rows: pa.RecordBatch | Iterable[Row], input_index: int = 0) -> list[Row]:
        """Process rows, and return the rows that the operator emitted."""
        if not isinstance(rows, pa.RecordBatch):
            rows = pa.RecordBatch.from_pylist(list(rows), schema=self.spec.input_schemas[input_index])
        before = len(self.output.elements)
        self.operator.process_batch(rows, input_index)
        return self.rows(before)

    def watermark(self, timestamp_ms: int) -> list[Row]:
        """Advance event time, and return the rows that the operator emitted."""
        before = len(self.output.elements)
        self.current_watermark_ms = timestamp_ms
        self.operator.process_watermark(timestamp_ms)
        return self.rows(before)

    def rows(self, since: int = 0) -> list[Row]:
        """All rows emitted."""
        batches = [element for element in self.output.elements[since:] if isinstance(element, pa.RecordBatch)]
        assert all(batch.schema.equals(self.spec.output_schema) for batch in batches)
        for batch in batches:
            batch.validate(full=True)
        return [row for batch in batches for row in batch.to_pylist()]

    def aside(self, tag: str) -> list[Row]:
        """All rows that went to a side output."""
        return [row for batch in self.output.aside.get(tag, ()) for row in batch.to_pylist()]

    @property
    def watermarks(self) -> list[int]:
        """All watermarks emitted."""
        return [element for element in self.output.elements if isinstance(element, int)]

    def snapshot(self, checkpoint_id: int = 1) -> Snapshot:
        """Take a checkpoint, and return the snapshot as it was written."""
        self.staged = []
        self.operator.prepare_snapshot_pre_barrier(checkpoint_id)
        self.operator.snapshot_state(checkpoint_id)
        keyed = operator = None
        if self._backend is not None and (keyed_snapshot := self._backend.snapshot()) is not None:
            data, offsets = keyed_snapshot.encode()
            keyed = KeyGroupsStateHandle(self.key_group_range, tuple(offsets), self._stream("keyed", data))
        if (operator_snapshot := self.operator_state.snapshot()) is not None:
            data, infos = operator_snapshot.encode()
            operator = OperatorStreamStateHandle(infos, self._stream("operator", data))
        return Snapshot(keyed, operator, tuple(self.staged))

    def _stream(self, kind: str, data: bytes) -> ByteStreamStateHandle:
        return ByteStreamStateHandle(f"{kind}-{self.subtask}", bytes(data))


def restored(
    spec: OperatorSpec, snapshots: Sequence[Snapshot], parallelism: int = 1, kind: type[Harness] = Harness
) -> list[Any]:
    """All subtasks of `spec`, at `parallelism`, begun from the snapshots of all subtasks before."""
    previous = [() if snapshot.operator is None else (snapshot.operator,) for snapshot in snapshots]
    dealt = repartition_state(previous, len(snapshots), parallelism)
    harnesses = []
    for subtask in range(parallelism):
        harness = kind(spec, subtask=subtask, parallelism=parallelism, start=False)
        operator_parts = [(handle, handle.delegate.data) for handle in dealt[subtask]]
        if operator_parts:
            harness.operator_state.restore(operator_parts)
        keyed = [snapshot.keyed.intersection(harness.key_group_range) for snapshot in snapshots if snapshot.keyed]
        keyed_parts = [(handle, handle.delegate.data) for handle in keyed if handle is not None]
        if keyed_parts:
            harness.keyed_state.restore(keyed_parts)
        harnesses.append(harness.start())
    return harnesses


class Fleet:
    """All subtasks of a keyed operator: rows go where their key belongs, `rescale` goes through a checkpoint."""

    def __init__(self, spec: OperatorSpec, parallelism: int = 1) -> None:
        self.spec = spec
        self.watermark_ms = MIN_WATERMARK_MS
        self.subtasks = [Harness(spec, subtask=i, parallelism=parallelism) for i in range(parallelism)]

    def process(self, rows: list[Row], keys: Sequence[str], input_index: int = 0) -> list[Row]:
        """Return rows to their subtasks."""
        batch = pa.RecordBatch.from_pylist(rows, schema=self.spec.input_schemas[input_index])
        partitioner = HashPartitioner(tuple(keys), MAX_PARALLELISM, len(self.subtasks))
        return [row for i, part in partitioner.split(batch) for row in self.subtasks[i].process(part, input_index)]

    def watermark(self, timestamp_ms: int) -> list[Row]:
        """Let event time advance everywhere."""
        self.watermark_ms = timestamp_ms
        return [row for subtask in self.subtasks for row in subtask.watermark(timestamp_ms)]

    def rescale(self, parallelism: int) -> None:
        """Resume from a checkpoint; event time returns to its value, which must not fire anything again."""
        self.subtasks = restored(self.spec, [subtask.snapshot() for subtask in self.subtasks], parallelism)
        if self.watermark_ms != MIN_WATERMARK_MS:
            assert self.watermark(self.watermark_ms) == []

    @property
    def is_empty(self) -> bool:
        """Return True if a checkpoint would hold no keyed state."""
        return all(subtask.snapshot().keyed is None for subtask in self.subtasks)


class SourceHarness(Harness):
    """A source's subtask, whose reads are carried out."""

    operator: SourceOperator

    def answer(self, coordinator: Any) -> None:
        """Let the coordinator answer all requests."""
        while self.said:
            for subtask, payload in coordinator.handle_event(self.subtask, self.said.pop(0)):
                assert subtask == self.subtask
                self.operator.handle_coordinator_event(payload)

    def turn(self, now_ms: int = 0) -> Any:
        """One step: what the operator wants next, carried out when it is a read."""
        step = self.operator.next_read(now_ms)
        if isinstance(step, ReadRequest):
            result = self.spec.source.read_split(step.split, step.position, step.max_rows)
            self.operator.on_split_read(step.split["id"], result.batch, result.position, result.finished)
        return step


def restored_sources(spec: OperatorSpec, snapshots: Sequence[Snapshot], parallelism: int) -> list[SourceHarness]:
    """The same for a source."""
    return restored(spec, snapshots, parallelism, SourceHarness)

"""The operators that run together in one task, and the flow of records between them.

The head of the chain takes what the task's inputs deliver (or what its source reads). Every operator's output goes
directly to the operators chained behind it and to the result partitions that it feeds. Snapshots and notifications run
from the tails to the head; the end of data runs from the head to the tails.

Each operator has its own state: a keyed backend with its timers if its spec has a key type, and an operator state
store.

Follows Flink's `OperatorChain`, `RegularOperatorChain` and `StreamTaskStateInitializerImpl`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol
from uuid import NAMESPACE_OID, uuid5

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.core.event_time import MAX_WATERMARK_MS, MIN_WATERMARK_MS
from kit.core.protocol.commands import DropEffects, WriteRows
from kit.core.protocol.lineage import Lineage
from kit.core.protocol.messages import OperatorEventToCoordinator
from kit.core.protocol.notes import LateRows, LateRowsDropped, ListenerNotified
from kit.core.protocol.properties import SharingFilesStrategy
from kit.core.protocol.snapshots import Effect, RestoredPart, SharedRuns, SnapshotPart
from kit.core.protocol.words import ProtocolMessage
from kit.core.state.errors import StateRestoreError
from kit.core.state.file_names import state_file_name
from kit.core.state.handles import IncrementalRemoteKeyedStateHandle, KeyGroupRange
from kit.core.state.operator_state import OperatorSubtaskState, TaskStateSnapshot
from kit.core.state.subtask_state_kind import SubtaskStateKind
from kit.machines.task.task_outputs import TaskOutputs
from kit.stream.backend.heap import HeapKeyedStateBackend
from kit.stream.backend.operator_store import OperatorStateStore
from kit.stream.backend.raw_state import RawStateInputs, RawStateOutputs
from kit.stream.backend.runs.incremental_snapshots import IncrementalSnapshots
from kit.stream.backend.runs.manifest import encode_manifest
from kit.stream.backend.spill.memory_budget import MemoryBudget
from kit.stream.backend.states.state_definition import StateDefinition
from kit.stream.graph.execution_graph import ExecutionVertex
from kit.stream.graph.job_graph import ChainedOperator, JobVertex
from kit.stream.operators.base import Activity, Operator, Output
from kit.stream.operators.functions.returned import never_runs
from kit.stream.operators.metrics import (
    BYTES_ON_DISK,
    ENTRIES_ON_DISK,
    INPUT_WATERMARK,
    LATE_ROWS,
    OUTPUT_WATERMARK,
    STATE_ENTRIES,
    MetricGroup,
)
from kit.stream.operators.sources.source_operator import SourceOperator
from kit.stream.operators.spec import UserFunctionError
from kit.stream.operators.watermarks import TimestampsAndWatermarksOperator
from kit.stream.operators.windows.late_rows import LateCount
from kit.stream.settings.job_settings import CheckpointConfig


class ChainOwner(Protocol):
    """The calls of a chain to its task."""

    name: str
    attempt: int
    lineage: Lineage
    vertex: ExecutionVertex
    outputs: TaskOutputs
    state_budget: MemoryBudget | None

    @property
    def checkpoint_settings(self) -> CheckpointConfig:
        """The settings of the job's checkpoints."""

    @property
    def activity(self) -> Activity:
        """The time in which the task could emit, and whether it has rows."""

    @property
    def at(self) -> int:
        """The host's time in ms."""

    def emit(self, word: ProtocolMessage) -> None:
        """Give a command."""

    def commit_effects(self, operator_id: str, checkpoint_id: int, effects: tuple[Effect, ...]) -> None:
        """Publish an operator's staged output."""

    def event_time_of_inputs(self) -> dict[str, Any]:
        """Return what the inputs say of event time, as JSON-like data."""


@dataclass(frozen=True, slots=True)
class ChainSnapshot:
    """The result of a snapshot's synchronous part: state to write, output to stage.

    Flink: `OperatorSnapshotFutures`, which hold the work still to be done.
    """

    parts: tuple[SnapshotPart, ...]
    effects: tuple[Effect, ...]


def known_time(watermark_ms: int) -> int | None:
    """Return a watermark; None before the first one, and after the end of event time."""
    return watermark_ms if MIN_WATERMARK_MS < watermark_ms < MAX_WATERMARK_MS else None


class SnapshotError(RuntimeError):
    """An operator failed in a snapshot, which fails the task; the operator's own error is the cause.

    In Flink it is a `CheckpointException`, which would tell the barrier handler to abort the checkpoint only.
    """

    @classmethod
    def of(cls, checkpoint_id: int, operator: str, error: Exception) -> SnapshotError:
        """Return the error of an operator that failed with `error` in the snapshot of this checkpoint."""
        why = f"{type(error).__name__}: {error}"
        return cls(f"Could not complete snapshot {checkpoint_id} for operator {operator}.\n{why}")


class ChainOutput:
    """An operator's output: the operators chained behind it, and the partitions it feeds.

    Each takes the main output (tag None) or one side output; watermarks go to all of them.
    """

    without_effect: ClassVar = frozenset({"watermark_ms"})

    __slots__ = ("_next", "_outputs", "_partitions", "_takers", "watermark_ms")

    def __init__(
        self,
        following: Sequence[tuple[str | None, ChainLink]],
        partitions: Sequence[tuple[str | None, int]],
        owner: ChainOwner,
    ) -> None:
        self._next = tuple(link for _, link in following)
        self._partitions = tuple(partition for _, partition in partitions)
        self._takers = {
            tag: (
                tuple(link for other, link in following if other == tag),
                tuple(partition for other, partition in partitions if other == tag),
            )
            for tag in {None, *(tag for tag, _ in following), *(tag for tag, _ in partitions)}
        }
        self._outputs = owner.outputs
        self.watermark_ms = MIN_WATERMARK_MS
        """The last watermark that was handed on."""

    def emit(self, batch: pa.RecordBatch) -> None:
        self._emit(None, batch)

    def emit_to(self, tag: str, batch: pa.RecordBatch) -> None:
        self._emit(tag, batch)

    def _emit(self, tag: str | None, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 0 or tag not in self._takers:
            return
        links, partitions = self._takers[tag]
        for link in links:
            link.operator.process_batch(batch)
        for partition in partitions:
            self._outputs.write_batch(partition, batch)

    def emit_watermark(self, timestamp_ms: int) -> None:
        """Send a watermark on."""
        self.watermark_ms = timestamp_ms
        for link in self._next:
            link.process_watermark(timestamp_ms)
        for partition in self._partitions:
            self._outputs.write_watermark(partition, timestamp_ms)

    def emit_watermark_status(self, *, idle: bool) -> None:
        """Send a watermark status on."""
        for link in self._next:
            link.operator.process_watermark_status(idle=idle)
        for partition in self._partitions:
            self._outputs.write_watermark_status(partition, idle=idle)


class _NoOutput:
    """The output of an operator while its listener is notified: it rejects rows.

    Rows that a listener emitted would belong to the next checkpoint. After the last checkpoint there is none, and they
    would be lost. Flink does not check.
    """

    def emit(self, batch: pa.RecordBatch) -> None:
        raise RuntimeError("it emits rows, but no checkpoint might cover them: emit them for a row or a timer")

    def emit_to(self, tag: str, batch: pa.RecordBatch) -> None:
        self.emit(batch)

    def emit_watermark(self, timestamp_ms: int) -> None:
        raise RuntimeError("it emits a watermark: emit it for a row or a timer")

    def emit_watermark_status(self, *, idle: bool) -> None:
        raise RuntimeError("it emits a watermark status: emit it for a row or a timer")


_NO_OUTPUT = _NoOutput()


class ChainLink:
    """One operator of a chain and its state; the operator sees it as its `OperatorContext`.

    Follows Flink's `StreamOperatorStateHandler` and `StreamOperatorWrapper`.
    """

    without_effect: ClassVar = frozenset({"_late", "_metrics"})

    def __init__(self, chained: ChainedOperator, owner: ChainOwner) -> None:
        vertex = owner.vertex
        self.operator_id: str = chained.operator_id
        self.name: str = chained.name
        self.task: str = vertex.task
        self.subtask: int = vertex.subtask_index
        self.parallelism: int = vertex.parallelism
        self.max_parallelism: int = vertex.max_parallelism
        self.key_group_range: KeyGroupRange = vertex.key_group_range
        self.current_watermark_ms = MIN_WATERMARK_MS
        self.operator_state = OperatorStateStore()
        self.restored_checkpoint_id: int | None = None
        self._metrics: MetricGroup | None = None
        self.closed = False
        self.output: Output
        self._owner = owner
        self._staged: list[Effect] = []
        self._incremental = self._incremental_snapshots()
        self._keyed = self._keyed_backend(chained)
        raw_of = self.name, None if self._keyed is None else self.key_group_range
        self.raw_inputs = RawStateInputs(*raw_of)
        self.raw_outputs = RawStateOutputs(*raw_of)
        self.operator: Operator = chained.spec.create()
        self._late: dict[tuple[type[LateRows], str], LateCount] = {}
        """What was counted of each kind, for each split that is known."""

    def _keyed_backend(self, chained: ChainedOperator) -> HeapKeyedStateBackend | None:
        spec = chained.spec
        if spec.key_type is None:
            return None
        owner = f"operator {self.name!r}" + (f" (uid {chained.uid!r})" if chained.uid else "")
        definition = StateDefinition(owner, spec.state_aspects())
        return HeapKeyedStateBackend(
            spec.key_type,
            self.key_group_range,
            self.max_parallelism,
            definition,
            self,
            self._incremental,
            self._owner.state_budget,
        )

    def _incremental_snapshots(self) -> IncrementalSnapshots | None:
        """Return what an incremental backend begins with. Each attempt of a subtask has a backend of its own."""
        settings = self._owner.checkpoint_settings
        return IncrementalSnapshots(settings.most_runs) if settings.incremental else None

    @property
    def lineage(self) -> Lineage:
        """The run, and the output that led to it."""
        return self._owner.lineage

    @property
    def metrics(self) -> MetricGroup:
        """The metrics that the user-defined function keeps."""
        if self._metrics is None:
            self._metrics = MetricGroup()
        return self._metrics

    @property
    def display_name(self) -> str:
        """The operator's name with subtask and attempt, `sums (1/2)#0` (`TaskInfo.getTaskNameWithSubtasks`)."""
        return f"{self.name} ({self.subtask + 1}/{self.parallelism})#{self._owner.attempt - 1}"

    @property
    def keyed(self) -> HeapKeyedStateBackend | None:
        """The keyed backend, if the operator has one."""
        return self._keyed

    @property
    def keyed_state(self) -> HeapKeyedStateBackend:
        """The keyed backend of an operator on a keyed stream."""
        if self._keyed is None:
            raise RuntimeError(f"{self.name} has no keyed state: use key_by() before it")
        return self._keyed

    @property
    def processing_time_ms(self) -> int:
        return self._owner.at

    @property
    def activity(self) -> Activity:
        return self._owner.activity

    def process_watermark(self, timestamp_ms: int) -> None:
        """Advance the operator's event time."""
        self.current_watermark_ms = timestamp_ms
        self.operator.process_watermark(timestamp_ms)

    def stage(self, effects: Sequence[Effect]) -> None:
        self._staged.extend(effects)

    def write(self, path: str, table: pa.Table, *, first: bool, last: bool) -> None:
        """Append rows to a file in progress."""
        self._owner.emit(WriteRows(operator_id=self.operator_id, path=path, table=table, first=first, last=last))

    def commit(self, checkpoint_id: int, effects: Sequence[Effect]) -> None:
        """Publish staged output."""
        self._owner.commit_effects(self.operator_id, checkpoint_id, tuple(effects))

    def drop(self, effects: Sequence[Effect]) -> None:
        """Delete staged output that no checkpoint will publish."""
        self._owner.emit(DropEffects(operator_id=self.operator_id, effects=tuple(effects)))

    def send_to_coordinator(self, payload: dict[str, Any]) -> None:
        self._owner.emit(
            OperatorEventToCoordinator(
                task=self._owner.name, attempt=self._owner.attempt, operator_id=self.operator_id, payload=payload
            )
        )

    @property
    def late_rows_dropped(self) -> int:
        """Rows that came after the watermark had passed their time, and went nowhere (`numLateRecordsDropped`)."""
        return sum(count.rows for (kind, _), count in self._late.items() if kind is LateRowsDropped)

    def count_late(
        self, kind: type[LateRows], times_ms: npt.NDArray[np.int64], watermark_ms: int, split: str = ""
    ) -> None:
        """Count rows that came after `watermark_ms` had passed them, and note it if the note adds something."""
        if not len(times_ms):
            return
        count = self._late.setdefault((kind, split), LateCount())
        is_due = count.add(times_ms, watermark_ms)
        if kind is LateRowsDropped:
            count.inputs = self._owner.event_time_of_inputs()
        if is_due:
            self._owner.emit(count.note(kind, self.name, split))

    def note_late_rows(self) -> None:
        """Note the counts that the trace does not have yet: nobody may read more of it for some time."""
        for (kind, split), count in self._late.items():
            if count.rows > count.noted:
                self._owner.emit(count.note(kind, self.name, split))

    def restore(self, parts: Sequence[RestoredPart]) -> None:
        """Fill the backends with the operator's state, and let the operator restore from them.

        Raises StateRestoreError if there is raw state that the operator does not read: no later checkpoint would
        contain it.
        """
        of_kind: dict[SubtaskStateKind, list[tuple[Any, Any]]] = defaultdict(list)
        for part in parts:
            of_kind[part.kind].append((part.handle, part.data))
        if of_kind[SubtaskStateKind.MANAGED_OPERATOR]:
            self.operator_state.restore(of_kind[SubtaskStateKind.MANAGED_OPERATOR])
        if of_kind[SubtaskStateKind.MANAGED_KEYED]:
            self.keyed_state.restore(of_kind[SubtaskStateKind.MANAGED_KEYED])
        for kind in (SubtaskStateKind.RAW_KEYED, SubtaskStateKind.RAW_OPERATOR):
            self.raw_inputs.give(kind, of_kind[kind])
        self.operator.initialize_state()
        for kind, size in self.raw_inputs.unread.items():
            raise StateRestoreError(
                f"{self.display_name} was given {size} B of {kind.words} state of checkpoint "
                f"{self.restored_checkpoint_id}, and did not ask for it: have initialize_state read "
                f"context.{kind.field}_inputs, or give the operator another uid and allow_non_restored_state"
            )
        self.raw_inputs.close()

    def snapshot(self, checkpoint_id: int, sharing: SharingFilesStrategy) -> tuple[list[SnapshotPart], list[Effect]]:
        """Take the synchronous part of a snapshot: the operator fills its state, and the backends copy it.

        Flink: `checkpointStreamOperator` and `StreamOperatorStateHandler.snapshotState`, which set
        `setOperatorStateManagedFuture` and `setKeyedStateManagedFuture`.
        """
        self._staged = []
        self.note_late_rows()
        self.operator.snapshot_state(checkpoint_id)
        parts: list[SnapshotPart] = []
        operator_snapshot = self.operator_state.snapshot()
        if operator_snapshot is not None:
            parts.append(self._part(SubtaskStateKind.MANAGED_OPERATOR, checkpoint_id, operator_snapshot.encode))
        parts += self._keyed_parts(checkpoint_id, sharing)
        parts += (self._part(kind, checkpoint_id, raw.encode) for kind, raw in self.raw_outputs.take().items())
        return parts, self._staged

    def _keyed_parts(self, checkpoint_id: int, sharing: SharingFilesStrategy) -> Iterator[SnapshotPart]:
        """Yield the keyed state, if there is any: of a savepoint all of it, and in any case if not incremental."""
        if self._keyed is None:
            return
        kind = SubtaskStateKind.MANAGED_KEYED
        if self._incremental is None or sharing is SharingFilesStrategy.NO_SHARING:
            snapshot = self._keyed.snapshot()
            if snapshot is not None:
                write = snapshot.write if snapshot.is_large else None
                yield self._part(kind, checkpoint_id, snapshot.encode, write)
            return
        name = state_file_name(self.operator_id, self.subtask, checkpoint_id, kind)
        runs, own = self._keyed.snapshot_run(checkpoint_id, name, sharing)
        if not self._incremental.backend_identifier:
            who = f"{self._owner.lineage.run}/{self.operator_id}/{self.subtask}/{self._owner.attempt}"
            self._incremental.backend_identifier = str(uuid5(NAMESPACE_OID, who))
        if runs:
            part = self._part(kind, checkpoint_id, None)
            shared = SharedRuns(
                self._incremental.backend_identifier,
                tuple(run.reused() for run in runs if run.name != name),
                encode_manifest(run.entry for run in runs),
                f"{name}-runs",
            )
            if own is not None:
                part = replace(part, encode=own.encode, write=own.write if own.is_large else None)
            yield replace(part, runs=shared)

    def snapshot_written(self, checkpoint_id: int, state: OperatorSubtaskState) -> None:
        """Let the keyed backend note the files of an incremental snapshot."""
        for handle in state.managed_keyed_state:
            if self._keyed is not None and isinstance(handle, IncrementalRemoteKeyedStateHandle):
                self._keyed.run_written(checkpoint_id, handle)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notify the keyed backend and the operator that a checkpoint is complete, then its function."""
        if self._keyed is not None:
            self._keyed.notify_checkpoint_complete(checkpoint_id)
        self.operator.notify_checkpoint_complete(checkpoint_id)
        listener = self.operator.checkpoint_listener
        if listener is not None:
            self._notify(listener.notify_checkpoint_complete, checkpoint_id, "complete")

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notify the keyed backend and the operator that a checkpoint was aborted, then its function."""
        if self._keyed is not None:
            self._keyed.notify_checkpoint_aborted(checkpoint_id)
        self.operator.notify_checkpoint_aborted(checkpoint_id)
        listener = self.operator.checkpoint_listener
        if listener is not None:
            self._notify(listener.notify_checkpoint_aborted, checkpoint_id, "aborted")

    def _notify(self, hook: Callable[[int], object], checkpoint_id: int, outcome: str) -> None:
        """Call a hook of the user and record it in the trace. Raises UserFunctionError, also if it emits rows."""
        self._owner.emit(ListenerNotified(checkpoint_id=checkpoint_id, operator=self.name, outcome=outcome))
        output, self.output = self.output, _NO_OUTPUT
        try:
            if never_runs(hook(checkpoint_id)):
                raise TypeError("it runs nothing, since it yields or is async: write a plain function")
            self.operator.emit_collected()
        except Exception as error:
            raise UserFunctionError.of(self.name, hook, f"checkpoint {checkpoint_id}", error) from error
        finally:
            self.output = output

    def notify_checkpoint_subsumed(self, checkpoint_id: int) -> None:
        """Notify the keyed backend, which may share files between checkpoints."""
        if self._keyed is not None:
            self._keyed.notify_checkpoint_subsumed(checkpoint_id)

    def reading(self) -> dict[str, Any]:
        """Return the operator's id and name, and the values of its metrics, as JSON-like data."""
        values = {
            INPUT_WATERMARK: known_time(self.current_watermark_ms),
            OUTPUT_WATERMARK: known_time(self.output.watermark_ms) if isinstance(self.output, ChainOutput) else None,
            STATE_ENTRIES: 0 if self._keyed is None else self._keyed.entries,
            LATE_ROWS: self.late_rows_dropped,
        }
        if self._keyed is not None and self._owner.state_budget is not None:
            cold = self._keyed.cold_rows.values()
            values |= {ENTRIES_ON_DISK: sum(map(len, cold)), BYTES_ON_DISK: sum(each.size for each in cold)}
        return {
            "id": self.operator_id,
            "name": self.name,
            "values": values,
            "own": self._metrics.reading() if self._metrics else {},
        }

    def close(self) -> None:
        """Close the operator once, and then its backends, even if that fails."""
        if self.closed:
            return
        self.closed = True
        try:
            self.operator.close()
        finally:
            self.operator_state.close()
            if self._keyed is not None:
                self._keyed.close()

    def _part(
        self,
        kind: SubtaskStateKind,
        checkpoint_id: int,
        encode: Callable[[], tuple[Any, Any]] | None,
        write: Any = None,
    ) -> SnapshotPart:
        name = state_file_name(self.operator_id, self.subtask, checkpoint_id, kind)
        return SnapshotPart(self.operator_id, kind, name, encode, self.key_group_range, write)

    def __repr__(self) -> str:
        return f"ChainLink({self.name})"


class OperatorChain:
    """The links of one task, head first, each after those that feed it.

    A task that was restored as finished has a chain without links: nothing is opened, run or snapshotted
    (`FinishedOperatorChain`).
    """

    def __init__(self, vertex: JobVertex, owner: ChainOwner, *, finished: bool = False) -> None:
        self.links = [] if finished else [ChainLink(chained, owner) for chained in vertex.operators]
        self.tail_id = "" if finished else vertex.operator_ids[0]
        """The operator id of the tail, whose state includes the outputs' in-flight data; "" without operators.

        In a chain that branches, it is the end of the first branch, as in Flink, whose restore looks for that data
        there.
        """
        self._by_id = {link.operator_id: link for link in self.links}
        for link in self.links:
            chained_after = vertex.chained_after(link.operator_id)
            following = [(chained.input_tag, self._by_id[chained.operator_id]) for chained in chained_after]
            partitions = [(edge.output_tag, edge.partition) for edge in vertex.outputs_of(link.operator_id)]
            link.output = ChainOutput(following, partitions, owner)
            link.operator.setup(link)
        self._let_watermarks_follow_splits()

    def _let_watermarks_follow_splits(self) -> None:
        """Tell watermark generators in the chain of their source which split a row is from."""
        source = self.links[0].operator if self.links else None
        if isinstance(source, SourceOperator) and source.reads_side_by_side:
            operators = [link.operator for link in self.links]
            makers = [each for each in operators if isinstance(each, TimestampsAndWatermarksOperator)]
            drifts = [maker.max_drift_ms for maker in makers if maker.max_drift_ms is not None]
            source.follow_splits([maker.follow_splits() for maker in makers], min(drifts, default=None))

    @property
    def looks_for_idleness_every_ms(self) -> int | None:
        """The time after which an operator looks whether it is idle, in ms; None if none does."""
        makers = [link.operator for link in self.links if isinstance(link.operator, TimestampsAndWatermarksOperator)]
        return min((each.look_every_ms for each in makers if each.look_every_ms is not None), default=None)

    def readings(self, watermarks_ms: Mapping[int, int]) -> list[dict[str, Any]]:
        """Return the metrics of each operator as JSON-like data; the head's inputs have these watermarks."""
        readings = [link.reading() for link in self.links]
        if readings and len(watermarks_ms) > 1:
            more = {f"input_{number + 1}_watermark_ms": known_time(at) for number, at in watermarks_ms.items()}
            readings[0]["values"] |= more
        return readings

    @property
    def late_rows_dropped(self) -> dict[str, int]:
        """The number of late rows dropped since the task started, by operator, for those that dropped some."""
        counts = {link.name: link.late_rows_dropped for link in self.links}
        return {name: rows for name, rows in counts.items() if rows}

    @property
    def head(self) -> Operator:
        """The operator that takes the task's input."""
        return self.links[0].operator

    @property
    def head_id(self) -> str:
        """The operator id of the head, whose state includes the inputs' in-flight data; "" without operators."""
        return self.links[0].operator_id if self.links else ""

    def link(self, operator_id: str) -> ChainLink:
        """Return the link of an operator."""
        return self._by_id[operator_id]

    def restore(self, parts: Sequence[RestoredPart], checkpoint_id: int | None = None) -> None:
        """Restore every operator from this checkpoint; called before `open`, also without state."""
        by_operator: dict[str, list[RestoredPart]] = {}
        for part in parts:
            by_operator.setdefault(part.operator_id, []).append(part)
        for link in reversed(self.links):
            link.restored_checkpoint_id = checkpoint_id
            link.restore(by_operator.get(link.operator_id, ()))
        for link in reversed(self.links):
            link.operator.open()

    def make_room(self) -> None:
        """Move keyed state that memory has no room for out of it. An event has been handled."""
        for link in self.links:
            if link.keyed is not None:
                link.keyed.make_room()

    def process_batch(self, batch: pa.RecordBatch, input_index: int) -> None:
        """Pass records to the head."""
        self.links[0].operator.process_batch(batch, input_index)

    def process_watermark(self, timestamp_ms: int) -> None:
        """Advance event time at the head."""
        self.links[0].process_watermark(timestamp_ms)

    def process_watermark_status(self, *, idle: bool) -> None:
        """Report that the task's inputs have become idle, or active again."""
        self.links[0].operator.process_watermark_status(idle=idle)

    def on_processing_time(self, now_ms: int) -> None:
        """Advance processing time, which has reached a timer of some operator."""
        for link in self.links:
            link.operator.on_processing_time(now_ms)

    def next_processing_time_ms(self) -> int | None:
        """Return when the earliest processing-time timer of any operator is due."""
        each_due = [link.operator.next_processing_time_ms() for link in self.links]
        due = [due_ms for due_ms in each_due if due_ms is not None]
        return min(due) if due else None

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        """Let every operator emit what must come before the barrier, head to tails.

        Flink: `prepareSnapshotPreBarrier`.
        """
        for link in self._open:
            link.operator.prepare_snapshot_pre_barrier(checkpoint_id)

    def snapshot(self, checkpoint_id: int, sharing: SharingFilesStrategy) -> ChainSnapshot:
        """Take the synchronous part of a snapshot, tails to head.

        Raises SnapshotError if an operator fails in it, and RuntimeError if a link is closed.

        Flink: `snapshotState`, with `buildOperatorSnapshotFutures` for each operator.
        """
        if len(self._open) < len(self.links):
            raise RuntimeError(f"{self!r} is closed: a task takes its last checkpoint before that")
        parts: list[SnapshotPart] = []
        effects: list[Effect] = []
        for link in reversed(self.links):
            try:
                link_parts, link_effects = link.snapshot(checkpoint_id, sharing)
            except Exception as error:
                raise SnapshotError.of(checkpoint_id, link.display_name, error) from error
            parts += link_parts
            effects += link_effects
        return ChainSnapshot(tuple(parts), tuple(effects))

    def snapshot_written(self, checkpoint_id: int, state: TaskStateSnapshot) -> None:
        """Tell each operator's backend what was written of its state."""
        for operator_id, written in state.subtask_states.items():
            self._by_id[operator_id].snapshot_written(checkpoint_id, written)

    def finish(self) -> None:
        """Flush all operators, head to tails, because all input has ended."""
        for link in self.links:
            link.operator.finish()
            link.note_late_rows()

    @property
    def _open(self) -> list[ChainLink]:
        """The links that are not closed, head first."""
        return [link for link in self.links if not link.closed]

    @property
    def partly_closed(self) -> list[ChainLink]:
        """The links that are closed while others are not, head first."""
        closed = [link for link in self.links if link.closed]
        return closed if len(closed) < len(self.links) else []

    def close_next(self) -> bool:
        """Close the first open link, and return True if others remain open."""
        for link in self._open[:1]:
            link.close()
        return bool(self._open)

    def close(self) -> None:
        """Close all links once, when the task ends."""
        self._tell_all(ChainLink.close)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notify the operators that the checkpoint is complete.

        Flink: `SubtaskCheckpointCoordinatorImpl.notifyCheckpointComplete`.
        """
        self._tell_all(lambda link: link.notify_checkpoint_complete(checkpoint_id))

    def notify_checkpoint_subsumed(self, checkpoint_id: int) -> None:
        """Notify the operators that a newer checkpoint has replaced this one."""
        self._tell_all(lambda link: link.notify_checkpoint_subsumed(checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._tell_all(lambda link: link.notify_checkpoint_aborted(checkpoint_id))

    def _tell_all(self, tell: Callable[[ChainLink], None]) -> None:
        """Call `tell` for all open links, tails to head, even if one fails; then raise the first failure."""
        failures: list[Exception] = []
        for link in reversed(self._open):
            try:
                tell(link)
            except Exception as failure:
                failures.append(failure)
        for other in failures[1:]:
            failures[0].add_note(f"Another operator of the task failed as well: {other}")
        if failures:
            raise failures[0]

    def __repr__(self) -> str:
        return f"OperatorChain({' -> '.join(link.name for link in self.links)})"

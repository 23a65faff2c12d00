"""Operators: the contract between a task and the code in its chain.

A task owns a chain of operators, head first. Records reach the head as Arrow batches. Each operator passes its results
to its `Output`: the next operator or, behind the tail, the task's result partitions. Operators never block, never read
a clock and never touch a file. Effects outside (publishing a sink's output, asking a coordinator for a split) go
through the `OperatorContext`, which turns them into commands.

The life of an operator, in order: `setup` (context passed), `initialize_state` (state restored: register descriptors),
`open`, then batches, watermarks, timers and checkpoints, then `finish` (the records have ended; flush), later `close`.
For a checkpoint: `prepare_snapshot_pre_barrier` head to tail, then the barrier is sent, then `snapshot_state` tail to
head, then the backends copy their state; `notify_checkpoint_complete` or `..._aborted` follow later.

Follows Flink's `StreamOperator`, `AbstractStreamOperatorV2` and `StreamOperatorStateHandler`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.core.protocol.lineage import Lineage
from kit.core.protocol.notes import LateRows
from kit.core.protocol.snapshots import Effect
from kit.core.state.handles import KeyGroupRange
from kit.stream.backend.heap import HeapKeyedStateBackend
from kit.stream.backend.operator_store import OperatorStateStore
from kit.stream.backend.raw_state import RawStateInputs, RawStateOutputs
from kit.stream.backend.states.descriptors import StateDescriptor
from kit.stream.backend.states.state_definition import Aspects
from kit.stream.operators.checkpoint_listener import CheckpointListener
from kit.stream.operators.coordinator import OperatorCoordinator, OperatorCoordinatorContext
from kit.stream.operators.event_time import TimeColumn, columns_of
from kit.stream.operators.metrics import MetricGroup


class Output(Protocol):
    """The receiver of an operator's results."""

    def emit(self, batch: pa.RecordBatch) -> None:
        """Send records on; an empty batch is dropped."""

    def emit_to(self, tag: str, batch: pa.RecordBatch) -> None:
        """Send records to a side output; they are dropped if no operator reads it."""

    def emit_watermark(self, timestamp_ms: int) -> None:
        """Send a watermark on, to side outputs too."""

    def emit_watermark_status(self, *, idle: bool) -> None:
        """Report that this output takes no part in event time for now, or that it does again."""


class Activity(Protocol):
    """The time in which a task could emit, and whether it has rows (`kit.machines.task.task_activity`)."""

    @property
    def ms(self) -> int:
        """The time, in ms, in which the task could have emitted."""

    @property
    def has_nothing(self) -> bool:
        """True if the task can emit and there are no rows for it."""

    @property
    def is_paused(self) -> bool:
        """True if alignment pauses all splits of the task's source that have rows."""


class OperatorContext(Protocol):
    """The services of a task for one of its operators."""

    operator_id: str
    name: str
    task: str
    subtask: int
    parallelism: int
    max_parallelism: int
    key_group_range: KeyGroupRange
    output: Output
    operator_state: OperatorStateStore
    restored_checkpoint_id: int | None
    raw_inputs: RawStateInputs
    """The raw state to restore, for `initialize_state`."""
    raw_outputs: RawStateOutputs
    """The raw state to write, for `snapshot_state`."""

    @property
    def lineage(self) -> Lineage:
        """The run, and the output that led to it."""

    @property
    def metrics(self) -> MetricGroup:
        """The metrics that the user-defined function keeps."""

    @property
    def keyed_state(self) -> HeapKeyedStateBackend:
        """The keyed backend, with its timers; only operators whose spec has a `key_type` have one."""

    @property
    def processing_time_ms(self) -> int:
        """The host's time of the event being handled."""

    @property
    def activity(self) -> Activity:
        """The time in which the task could emit, and whether it has rows."""

    @property
    def current_watermark_ms(self) -> int:
        """The last watermark that reached this operator."""

    def stage(self, effects: Sequence[Effect]) -> None:
        """Write this output, still invisible, together with the snapshot being taken."""

    def write(self, path: str, table: pa.Table, *, first: bool, last: bool) -> None:
        """Append rows to a file in progress; the task fails if that cannot be done."""

    def commit(self, checkpoint_id: int, effects: Sequence[Effect]) -> None:
        """Publish staged output; safe to repeat. `Operator.effects_committed` follows."""

    def drop(self, effects: Sequence[Effect]) -> None:
        """Delete staged output that no checkpoint will publish; missing output is ignored."""

    def send_to_coordinator(self, payload: dict[str, Any]) -> None:
        """Send an event to this operator's coordinator."""

    def count_late(
        self, kind: type[LateRows], times_ms: npt.NDArray[np.int64], watermark_ms: int, split: str = ""
    ) -> None:
        """Count rows, given by their event times, that came after `watermark_ms` had passed them."""


class Operator:
    """The base of all operators: the default of every hook does nothing or passes its argument on."""

    context: OperatorContext

    @property
    def checkpoint_listener(self) -> CheckpointListener | None:
        """The user's object that is notified of how checkpoints end, after the operator; None if there is none."""
        return None

    def setup(self, context: OperatorContext) -> None:
        """Set the context; state is not available yet."""
        self.context = context

    def initialize_state(self) -> None:
        """Register state descriptors; restored state is available."""

    def open(self) -> None:
        """Prepare for the first record."""

    def process_batch(self, batch: pa.RecordBatch, input_index: int = 0) -> None:
        """Process records of the `input_index`-th input."""
        raise NotImplementedError(f"{type(self).__name__} takes no records")

    def process_watermark(self, timestamp_ms: int) -> None:
        """Handle the advance of event time on all inputs: fire what is due, then send the watermark on."""
        self.context.output.emit_watermark(timestamp_ms)

    def process_watermark_status(self, *, idle: bool) -> None:
        """Handle the change that all inputs have become idle, or that one is active again."""
        self.context.output.emit_watermark_status(idle=idle)

    def on_processing_time(self, now_ms: int) -> None:
        """Handle the advance of processing time: fire what is due."""

    def next_processing_time_ms(self) -> int | None:
        """Return when this operator's earliest processing-time timer is due, or None without one."""
        return None

    def finish(self) -> None:
        """Flush what is held back, since all inputs have ended (`StreamOperator.finish`)."""

    def close(self) -> None:
        """Release resources, because the task ends."""

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        """Emit what must still come before the barrier."""

    def snapshot_state(self, checkpoint_id: int) -> None:
        """Write the state of this checkpoint to the operator state store; call `context.stage` for output.

        Flink: `AbstractStreamOperator.snapshotState`.
        """

    def emit_collected(self) -> None:
        """Send what the user's function has emitted since the last call, if it is not sent at once."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Publish what the checkpoint covers, because it is complete."""

    def effects_committed(self, checkpoint_id: int) -> None:
        """Handle the confirmation that the output of `context.commit(checkpoint_id, ...)` is published."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Handle the abort of a checkpoint."""

    def handle_coordinator_event(self, payload: dict[str, Any]) -> None:
        """Handle an event of the operator's coordinator."""


@dataclass(frozen=True)
class OperatorSpec:
    """An operator in the graph: a description, the same for all subtasks, from which each creates its own.

    `input_schemas` (one per input; none for a source) and `output_schema` (None for a sink) are Arrow schemas, known
    before the job runs. `key_type` is the Arrow type of the key for keyed operators.
    """

    name: str
    input_schemas: tuple[pa.Schema, ...]
    output_schema: pa.Schema | None

    key_type: pa.DataType | None = None

    acts: ClassVar[bool] = True
    """True if the operator may have side effects. Others are left out of a job if their records reach no sink."""

    def create(self) -> Operator:
        """Create an operator for one subtask."""
        raise NotImplementedError(f"{type(self).__name__} does not say how to create its operator")

    def event_time(self, inputs: Sequence[TimeColumn | None]) -> TimeColumn | None:
        """Return where the event time of its records is, given where that of each input is.

        The records of two inputs keep the time of the one whose column they have. None if they have both, or neither.
        """
        known = {each for each in inputs if each is not None}
        names = set() if self.output_schema is None else set(self.output_schema.names)
        kept = {each for each in known if names.issuperset(columns_of(each))}
        for columns in (kept, known):
            if len(columns) == 1:
                return columns.pop()
        return None

    def declared_states(self) -> Sequence[StateDescriptor]:
        """Return the keyed states that it is known to have before it runs."""
        return ()

    def declared_operator_states(self) -> Sequence[StateDescriptor]:
        """Return the operator states that it is known to have before it runs: lists, and maps that are broadcast."""
        return ()

    def state_aspects(self) -> Aspects:
        """Return the aspects of the keyed state (`kit.stream.backend.states.state_definition`), which a restore
        compares.
        """
        return {}

    def create_coordinator(self, context: OperatorCoordinatorContext) -> OperatorCoordinator | None:
        """Create a coordinator of this operator, or return None if it has none (`OperatorCoordinator.Provider`)."""
        return None

"""What an operator is: the contract between a task and the code in its chain.

A task owns a chain of operators, head first. Records reach the head as Arrow batches; each operator hands what it
makes to its `Output`, which is the next operator or, behind the tail, the task's result partitions. Operators never
block, never read a clock and never touch a file: what is to be done outside (publish a sink's output, ask a
coordinator for a split) goes through the `OperatorContext`, which turns it into commands.

The life of an operator, in order: `setup` (context given), `initialize_state` (state restored: register descriptors),
`open`, then batches, watermarks, timers and checkpoints, then `finish` (no more records; flush), later `close`. For a
checkpoint: `prepare_snapshot_pre_barrier` head to tail, then the barrier goes out, then `snapshot_state` tail to
head, then the backends copy their state; `notify_checkpoint_complete` or `..._aborted` follow later.

Follows Flink's `StreamOperator`, `AbstractStreamOperatorV2` and `StreamOperatorStateHandler`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from kit.core.protocol.snapshots import Effect
from kit.core.state.handles import KeyGroupRange
from kit.stream.backend.heap import HeapKeyedStateBackend
from kit.stream.backend.operator_store import OperatorStateStore
from kit.stream.backend.raw_state import RawStateInputs, RawStateOutputs
from kit.stream.backend.states.state_definition import Aspects
from kit.stream.operators.checkpoint_listener import CheckpointListener
from kit.stream.operators.coordinator import OperatorCoordinator, OperatorCoordinatorContext


class Output(Protocol):
    """Where an operator puts what it makes."""

    def emit(self, batch: pa.RecordBatch) -> None:
        """Hand records on; an empty batch is dropped."""

    def emit_to(self, tag: str, batch: pa.RecordBatch) -> None:
        """Hand records on to a side output; they are dropped where nobody takes it."""

    def emit_watermark(self, timestamp_ms: int) -> None:
        """Hand a watermark on, to side outputs too."""

    def emit_watermark_status(self, *, idle: bool) -> None:
        """Say that this output takes no part in event time for now, or that it does again."""


class OperatorContext(Protocol):
    """What a task lends to one of its operators."""

    operator_id: str
    name: str
    task: str
    subtask: int
    parallelism: int
    max_parallelism: int
    key_group_range: KeyGroupRange
    job_id: str
    output: Output
    operator_state: OperatorStateStore
    restored_checkpoint_id: int | None
    raw_inputs: RawStateInputs
    """To be read in `initialize_state`."""
    raw_outputs: RawStateOutputs
    """To be written in `snapshot_state`."""

    @property
    def keyed_state(self) -> HeapKeyedStateBackend:
        """The keyed backend, with its timers; only operators whose spec has a `key_type` have one."""

    @property
    def processing_time_ms(self) -> int:
        """The host's time of the event being handled."""

    @property
    def current_watermark_ms(self) -> int:
        """The last watermark that reached this operator."""

    def stage(self, effects: Sequence[Effect]) -> None:
        """Write this output, still invisible, together with the snapshot being taken."""

    def commit(self, checkpoint_id: int, effects: Sequence[Effect]) -> None:
        """Publish staged output; safe to repeat. `Operator.effects_committed` follows."""

    def drop(self, effects: Sequence[Effect]) -> None:
        """Delete staged output that no checkpoint will publish; what is no longer there does not matter."""

    def send_to_coordinator(self, payload: dict[str, Any]) -> None:
        """Say something to this operator's coordinator."""


class Operator:
    """Base of all operators: every hook has a default that does nothing or hands on."""

    context: OperatorContext
    late_rows_dropped = 0
    """Rows that came after the watermark had passed their time, and went nowhere (`numLateRecordsDropped`)."""

    @property
    def checkpoint_listener(self) -> CheckpointListener | None:
        """The user's object that is notified of how checkpoints end, after the operator; None if there is none."""
        return None

    def setup(self, context: OperatorContext) -> None:
        """Take the context; no state is to be had yet."""
        self.context = context

    def initialize_state(self) -> None:
        """Register state descriptors; restored state is there when this is called."""

    def open(self) -> None:
        """Prepare for the first record."""

    def process_batch(self, batch: pa.RecordBatch, input_index: int = 0) -> None:
        """Take records of the `input_index`-th input."""
        raise NotImplementedError(f"{type(self).__name__} takes no records")

    def process_watermark(self, timestamp_ms: int) -> None:
        """Event time has advanced on all inputs; fire what is due, then hand on."""
        self.context.output.emit_watermark(timestamp_ms)

    def process_watermark_status(self, *, idle: bool) -> None:
        """The inputs have become idle, all of them, or one is active again."""
        self.context.output.emit_watermark_status(idle=idle)

    def on_processing_time(self, now_ms: int) -> None:
        """Processing time has advanced; fire what is due."""

    def next_processing_time_ms(self) -> int | None:
        """When this operator's earliest processing-time timer is due; None when it has none."""
        return None

    def finish(self) -> None:
        """All inputs ended: flush what is held back (`StreamOperator.finish`)."""

    def close(self) -> None:
        """The task ends."""

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        """Emit what must still come before the barrier."""

    def snapshot_state(self, checkpoint_id: int) -> None:
        """Put into the operator state store what belongs to this checkpoint; call `context.stage` for output.

        Flink: `AbstractStreamOperator.snapshotState`.
        """

    def emit_collected(self) -> None:
        """Send what the user's function has made since the last call, if it is not sent at once."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """The checkpoint is stored for good: publish what it covers."""

    def effects_committed(self, checkpoint_id: int) -> None:
        """What `context.commit(checkpoint_id, ...)` asked for has been published."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """The checkpoint will not complete."""

    def handle_coordinator_event(self, payload: dict[str, Any]) -> None:
        """The operator's coordinator said something."""


@dataclass(frozen=True)
class OperatorSpec:
    """An operator as the graph holds it: a description, the same for all subtasks, from which each makes its own.

    `input_schemas` (one per input; none for a source) and `output_schema` (None for a sink) are Arrow schemas, known
    before the job runs. `key_type` is the Arrow type of the key for keyed operators.
    """

    name: str
    input_schemas: tuple[pa.Schema, ...]
    output_schema: pa.Schema | None

    key_type: pa.DataType | None = None

    acts: ClassVar[bool] = True
    """Whether the operator may do something by itself. One that does not is left out of a job where its records reach
    no sink.
    """

    def create(self) -> Operator:
        """A new operator for one subtask."""
        raise NotImplementedError(f"{type(self).__name__} does not say how to create its operator")

    def state_aspects(self) -> Aspects:
        """Return what the keyed state is made from (`kit.stream.backend.states.state_definition`): a restore compares
        it.
        """
        return {}

    def create_coordinator(self, context: OperatorCoordinatorContext) -> OperatorCoordinator | None:
        """A new coordinator of this operator, None for an operator that has none (`OperatorCoordinator.Provider`)."""
        return None

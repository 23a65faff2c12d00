"""Functions with operator state of their own: state that belongs to the subtask, not to a key.

Derive a function from `CheckpointedFunction` as well as from its own base class. `initialize_state` is called before
`open`; it gets the states, with the content of the last checkpoint. `snapshot_state` is called at each checkpoint, and
writes to the states what this checkpoint must contain. There are three modes, which differ in the distribution on a
restore, perhaps at another parallelism:

    context.operator_state.list_state(descriptor)        every entry goes to one subtask, evenly split
    context.operator_state.union_list_state(descriptor)  every subtask gets all entries of all
    context.operator_state.broadcast_state(descriptor)   a map that was the same in every subtask, and is again

State is reached by what it is everywhere: keyed state is `ctx.state(descriptor)` in the hooks of a function behind
`key_by`, and a broadcast map is `ctx.broadcast_state(descriptor)` in those of a function behind `broadcast`. Make the
descriptors attributes of the class: the types of a checkpoint are then compared with them before a task is deployed.

    class Buffering(ProcessFunction, CheckpointedFunction):
        WAITING = ListStateDescriptor("waiting", pa.int64())

        def initialize_state(self, context):
            self.state = context.operator_state.list_state(self.WAITING)
            self.waiting = self.state.get()

        def process_element(self, row, ctx):
            self.waiting.append(row["n"])
            if len(self.waiting) == 10:
                ctx.emit({"total": sum(self.waiting)})
                self.waiting = []

        def snapshot_state(self, context):
            self.state.update(self.waiting)

The content of a state is in every checkpoint until it is removed, so `snapshot_state` is not needed if the function
keeps its states up to date. A union list grows with every restore unless `update` or `clear` is called, because each
subtask then has all entries and would write all of them.

A function whose state needs a format of its own writes it as *raw state*, bytes that only the function interprets:

    def snapshot_state(self, context):
        out = context.raw_operator_state_output        # a binary file
        for sketch in self.sketches:
            out.start_new_partition()                  # each may go to another subtask
            out.write(struct.pack(">i", len(sketch)) + sketch)

    def initialize_state(self, context):
        self.sketches = []
        for stream in context.raw_operator_state_inputs:
            (size,) = struct.unpack(">i", stream.read(4))
            self.sketches.append(stream.read(size))

On a keyed stream there are `raw_keyed_state_output`, with `start_new_key_group(key_group)`, and
`raw_keyed_state_inputs`, which yields pairs of key group and stream. A stream continues beyond its part, so the content
must contain its own length. A function must read the raw state that is restored, or the restore fails: no later
checkpoint would contain it.

Follows Flink's `CheckpointedFunction`, `FunctionInitializationContext` and `FunctionSnapshotContext`; the raw state is
that of `StateInitializationContext` and `StateSnapshotContext`, which Flink provides to operators only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

from kit.core.arguments.signposts import OPERATOR_STATES, no_attribute
from kit.stream.backend.operator_store import BroadcastState, OperatorListState
from kit.stream.backend.raw_state import (
    KeyGroupStatePartition,
    RawKeyedStateOutput,
    RawOperatorStateOutput,
    RawStateStream,
)
from kit.stream.backend.states.descriptors import ListStateDescriptor, MapStateDescriptor
from kit.stream.operators.base import OperatorContext
from kit.stream.operators.metrics import MetricGroup


class OperatorStates:
    """The operator state of one subtask (`OperatorStateStore`); each state is found by its descriptor's name.

    Raises StateDescriptorError if a state of that name has another type or mode.
    """

    def __init__(self, context: OperatorContext) -> None:
        self._store = context.operator_state

    def list_state(self, descriptor: ListStateDescriptor) -> OperatorListState:
        """Return a list of entries, which a restore distributes evenly over the subtasks."""
        return self._store.list_state(descriptor)

    def union_list_state(self, descriptor: ListStateDescriptor) -> OperatorListState:
        """Return a list of entries; on a restore every subtask gets those of all subtasks."""
        return self._store.union_list_state(descriptor)

    def broadcast_state(self, descriptor: MapStateDescriptor) -> BroadcastState:
        """Return a map that every subtask must write in the same way; on a restore every subtask gets one copy."""
        return self._store.broadcast_state(descriptor)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise no_attribute(self, name, OPERATOR_STATES)

    def __repr__(self) -> str:
        return f"OperatorStates({self._store!r})"


class FunctionInitializationContext:
    """The argument of `initialize_state`: the operator state, and facts about the subtask."""

    def __init__(self, context: OperatorContext) -> None:
        self._context = context
        self.operator_state = OperatorStates(context)

    @property
    def is_restored(self) -> bool:
        """True if the task resumes from a checkpoint; False if it starts from scratch."""
        return self._context.restored_checkpoint_id is not None

    @property
    def restored_checkpoint_id(self) -> int | None:
        """The id of that checkpoint; None if the task starts from scratch."""
        return self._context.restored_checkpoint_id

    @property
    def metrics(self) -> MetricGroup:
        """The counters, gauges, meters and histograms of this subtask (`kit.stream.operators.metrics`)."""
        return self._context.metrics

    @property
    def subtask(self) -> int:
        """The number of this subtask, from 0."""
        return self._context.subtask

    @property
    def parallelism(self) -> int:
        """The number of subtasks."""
        return self._context.parallelism

    @property
    def max_parallelism(self) -> int:
        """The number of key groups of the job; raw keyed state is stored under a key's group."""
        return self._context.max_parallelism

    @property
    def raw_keyed_state_inputs(self) -> Iterator[KeyGroupStatePartition]:
        """Key group and stream of each part of raw keyed state (`getRawKeyedStateInputs`).

        Raises StateError if the stream is not keyed.
        """
        return self._context.raw_inputs.keyed

    @property
    def raw_operator_state_inputs(self) -> Iterator[RawStateStream]:
        """One stream per partition of raw operator state (`getRawOperatorStateInputs`)."""
        return self._context.raw_inputs.operator

    def __repr__(self) -> str:
        origin = f"from checkpoint {self.restored_checkpoint_id}" if self.is_restored else "from scratch"
        return f"FunctionInitializationContext({self._context.name!r} {self.subtask + 1}/{self.parallelism}, {origin})"


class FunctionSnapshotContext:
    """The argument of `snapshot_state`: the `checkpoint_id` being taken, and the outputs for raw state.

    Flink: `FunctionSnapshotContext`, implemented by `StateSnapshotContextSynchronousImpl`.
    """

    def __init__(self, checkpoint_id: int, context: OperatorContext) -> None:
        self.checkpoint_id = checkpoint_id
        self._outputs = context.raw_outputs

    @property
    def raw_keyed_state_output(self) -> RawKeyedStateOutput:
        """A binary file for raw keyed state (`getRawKeyedOperatorStateOutput`).

        Raises StateError if the stream is not keyed.
        """
        return self._outputs.keyed

    @property
    def raw_operator_state_output(self) -> RawOperatorStateOutput:
        """A binary file for raw operator state (`getRawOperatorStateOutput`)."""
        return self._outputs.operator

    def __repr__(self) -> str:
        return f"FunctionSnapshotContext(checkpoint {self.checkpoint_id})"


class CheckpointedFunction:
    """A second base class of a user's function with operator state: see `kit.stream.operators.functions.checkpointed`.

    `initialize_state` gets a `FunctionInitializationContext`, `snapshot_state` a `FunctionSnapshotContext`.
    """

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Get the states from `context.operator_state`, and restore from them; called once, before `open`.

        `context` is a `FunctionInitializationContext`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define initialize_state(context)")

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Write to the states what the checkpoint must contain; called at each checkpoint.

        All rows before its barrier have been processed then, and none after it. `context` is a
        `FunctionSnapshotContext`.
        """

"""The state in a checkpoint, from one operator subtask up to one operator with all its subtasks.

A task acknowledges a checkpoint with a `TaskStateSnapshot`: an `OperatorSubtaskState` for each operator of its chain.
The coordinator combines those of all tasks into one `OperatorState` per operator, and the metadata lists these. State
outside the operators comes from master hooks, as `MasterState`. Source: `OperatorSubtaskState`, `OperatorState`,
`TaskStateSnapshot` and `MasterState` of `org.apache.flink.runtime.checkpoint`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter
from typing import Any

from kit.core.state.handles import (
    ByteStreamStateHandle,
    IncrementalRemoteKeyedStateHandle,
    InputStateHandle,
    KeyedStateHandle,
    OperatorStreamStateHandle,
    OutputStateHandle,
    StateObject,
)
from kit.core.state.stream_handles import CompositeStateHandle
from kit.core.state.subtask_state_kind import CHANNEL_KINDS, KEYED_KINDS, OPERATOR_KINDS, SubtaskStateKind

_KINDS = (*OPERATOR_KINDS, *KEYED_KINDS, *CHANNEL_KINDS)
_handles_by_kind = attrgetter(*(kind.field for kind in _KINDS))


@dataclass(frozen=True, slots=True, repr=False)
class OperatorSubtaskState(CompositeStateHandle):
    """The state of one subtask of one operator: a tuple of handles for each kind of state, possibly empty.

    In metadata the first four hold at most one handle; after a rescale a subtask gets handles of several old ones.
    `finished` marks a subtask that had processed all its input: it has no state and is not run again.

    Source: `OperatorSubtaskState`; `FinishedOperatorSubtaskState` (since 1.14) is `FINISHED_SUBTASK_STATE`.
    """

    managed_operator_state: tuple[OperatorStreamStateHandle, ...] = ()
    raw_operator_state: tuple[OperatorStreamStateHandle, ...] = ()
    managed_keyed_state: tuple[KeyedStateHandle, ...] = ()
    raw_keyed_state: tuple[KeyedStateHandle, ...] = ()
    input_channel_state: tuple[InputStateHandle, ...] = ()
    result_subpartition_state: tuple[OutputStateHandle, ...] = ()
    finished: bool = False

    def __post_init__(self) -> None:
        if self.finished and self.has_state():
            raise ValueError(f"a finished subtask has no state, but this one has {self.state_size} B of it")

    def has_state(self) -> bool:
        """Return True if there is any handle."""
        return any(_handles_by_kind(self))

    def handles(self) -> Iterator[StateObject]:
        """Yield every handle, kind by kind."""
        return chain.from_iterable(_handles_by_kind(self))

    def of_kind(self, kind: SubtaskStateKind) -> Sequence[Any]:
        """Return the handles of one kind."""
        handles: Sequence[Any] = getattr(self, kind.field, ())
        return handles

    @property
    def checkpointed_size(self) -> int:
        """Bytes that this checkpoint itself had to write for the subtask."""
        return sum(
            handle.checkpointed_size if isinstance(handle, KeyedStateHandle) else handle.state_size
            for handle in self.handles()
        )

    @property
    def is_incremental(self) -> bool:
        """True if there is keyed state in files of several checkpoints."""
        return any(isinstance(handle, IncrementalRemoteKeyedStateHandle) for handle in self.managed_keyed_state)

    def _label(self) -> str:
        if self.finished:
            return "finished"
        counts = {kind.words: len(self.of_kind(kind)) for kind in _KINDS}
        return ", ".join(f"{count} {words}" for words, count in counts.items() if count) or "empty"


EMPTY_SUBTASK_STATE = OperatorSubtaskState()
FINISHED_SUBTASK_STATE = OperatorSubtaskState(finished=True)


@dataclass(frozen=True, slots=True, repr=False)
class OperatorState(CompositeStateHandle):
    """The state of one operator in a checkpoint: its subtasks' states by index, and its coordinator's.

    `operator_id` is 32 hex digits. Subtasks without an entry reported nothing. With `fully_finished`, all subtasks had
    processed all their input, and there is no other state. `name` and `uid` are None if the metadata (before version 5)
    has none. Comparison ignores the order of the entries.

    Source: `OperatorState`; `FullyFinishedOperatorState` (since 1.14) where `fully_finished`.
    """

    operator_id: str
    parallelism: int
    max_parallelism: int
    subtask_states: Mapping[int, OperatorSubtaskState] = field(default_factory=dict, hash=False)
    coordinator_state: ByteStreamStateHandle | None = None
    name: str | None = None
    uid: str | None = None
    fully_finished: bool = False

    def __post_init__(self) -> None:
        if self.fully_finished and (self.subtask_states or self.coordinator_state):
            raise ValueError(f"{self.label}: a fully finished operator has no state of subtasks or of its coordinator")

    @property
    def label(self) -> str:
        """The operator's name, else its uid, else its id."""
        return self.name or self.uid or self.operator_id

    def state_of(self, subtask_index: int) -> OperatorSubtaskState | None:
        """Return the subtask's state, or None if it reported none."""
        return FINISHED_SUBTASK_STATE if self.fully_finished else self.subtask_states.get(subtask_index)

    def has_state(self) -> bool:
        """Return True if there is any state: the coordinator's, or a handle of any subtask."""
        return self.coordinator_state is not None or any(state.has_state() for state in self.subtask_states.values())

    def handles(self) -> Iterator[StateObject]:
        """Yield the coordinator's handle, then every subtask's."""
        if self.coordinator_state is not None:
            yield self.coordinator_state
        for state in self.subtask_states.values():
            yield from state.handles()

    @property
    def checkpointed_size(self) -> int:
        """Bytes that this checkpoint itself had to write for the operator."""
        coordinator = self.coordinator_state.state_size if self.coordinator_state else 0
        return coordinator + sum(state.checkpointed_size for state in self.subtask_states.values())

    def _label(self) -> str:
        if self.fully_finished:
            return f"{self.label}, all {self.parallelism} subtasks finished"
        return f"{self.label}, {len(self.subtask_states)} of {self.parallelism} subtasks, {self.state_size} B"


def without_in_flight_data(state: OperatorState) -> OperatorState:
    """Return the state without the data that barriers had overtaken (`OperatorState.copyAndDiscardInFlightData`)."""
    return replace(
        state,
        subtask_states={
            subtask: replace(each, input_channel_state=(), result_subpartition_state=())
            for subtask, each in state.subtask_states.items()
        },
    )


@dataclass(frozen=True, slots=True, repr=False)
class TaskStateSnapshot(CompositeStateHandle):
    """The content of a task's acknowledgement: the state of each operator of its chain, by operator id.

    With `is_task_finished`, the task had processed all its input. With `is_task_deployed_as_finished`, it had already
    done so when it was restored, and has not run since. Source: `TaskStateSnapshot`.
    """

    subtask_states: Mapping[str, OperatorSubtaskState] = field(default_factory=dict, hash=False)
    is_task_deployed_as_finished: bool = False
    is_task_finished: bool = False

    def has_state(self) -> bool:
        """Return True if there is anything to keep: a handle, or the mark that the task was deployed as finished."""
        return self.is_task_deployed_as_finished or any(state.has_state() for state in self.subtask_states.values())

    def handles(self) -> Iterator[StateObject]:
        """Yield every handle, operator by operator."""
        return chain.from_iterable(state.handles() for state in self.subtask_states.values())

    @property
    def is_incremental(self) -> bool:
        """True if an operator's state is."""
        return any(state.is_incremental for state in self.subtask_states.values())

    @property
    def checkpointed_size(self) -> int:
        """Bytes that this checkpoint itself had to write for the task."""
        return sum(state.checkpointed_size for state in self.subtask_states.values())

    def _label(self) -> str:
        return f"{len(self.subtask_states)} operators, {self.state_size} B{', finished' * self.is_task_finished}"


FINISHED_ON_RESTORE = TaskStateSnapshot(is_task_deployed_as_finished=True, is_task_finished=True)
"""The acknowledgement of a task that was restored as finished (`TaskStateSnapshot.FINISHED_ON_RESTORE`)."""


@dataclass(frozen=True, slots=True, repr=False)
class MasterState:
    """One master hook's state in a checkpoint: its identifier, and bytes that its serializer of `version` reads.

    Source: `MasterState`.
    """

    name: str
    version: int
    data: bytes

    def __repr__(self) -> str:
        return f"MasterState({self.name!r}, version {self.version}, {len(self.data)} B)"

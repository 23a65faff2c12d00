"""State: key groups, handles, the heap backend with its timers, operator state, and the storage they are written to."""

from kit.state.descriptors import (
    AggregateFunction,
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateKind,
    ValueStateDescriptor,
)
from kit.state.errors import (
    SavepointNotFoundError,
    StateDescriptorError,
    StateError,
    StateRestoreError,
    StateTypeError,
    StorageError,
)
from kit.state.heap import HeapKeyedStateBackend
from kit.state.key_groups import (
    assign_to_key_group,
    default_max_parallelism,
    key_group_partitions,
    key_group_range_for_operator_index,
    key_groups,
    operator_index_for_key_group,
    operator_indexes,
)
from kit.state.keyed_states import AggregatingState, ListState, MapState, ReducingState, ValueState
from kit.state.operator_store import BroadcastState, OperatorListState, OperatorStateSnapshot, OperatorStateStore
from kit.state.snapshot import KeyedSnapshot, KeyedStateFile
from kit.state.storage import CheckpointLocation, CheckpointStorage, StateFiles, state_file_name
from kit.state.tables import StateTable
from kit.state.timers import DueTimers, TimerService

__all__ = [
    "AggregateFunction",
    "AggregatingState",
    "AggregatingStateDescriptor",
    "BroadcastState",
    "CheckpointLocation",
    "CheckpointStorage",
    "DueTimers",
    "HeapKeyedStateBackend",
    "KeyedSnapshot",
    "KeyedStateFile",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "OperatorListState",
    "OperatorStateSnapshot",
    "OperatorStateStore",
    "ReducingState",
    "ReducingStateDescriptor",
    "SavepointNotFoundError",
    "StateDescriptor",
    "StateDescriptorError",
    "StateError",
    "StateFiles",
    "StateKind",
    "StateRestoreError",
    "StateTable",
    "StateTypeError",
    "StorageError",
    "TimerService",
    "ValueState",
    "ValueStateDescriptor",
    "assign_to_key_group",
    "default_max_parallelism",
    "key_group_partitions",
    "key_group_range_for_operator_index",
    "key_groups",
    "operator_index_for_key_group",
    "operator_indexes",
    "state_file_name",
]

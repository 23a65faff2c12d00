"""The state of running operators: keyed state in columns with its timers, operator state, and how both are written."""

from kit.stream.backend.files.snapshot import (
    KeyedSnapshot,
    KeyedStateFile,
)
from kit.stream.backend.heap import (
    HeapKeyedStateBackend,
)
from kit.stream.backend.keys.key_hashing import (
    assign_to_key_group,
    key_groups,
)
from kit.stream.backend.operator_store import (
    BroadcastState,
    OperatorListState,
    OperatorStateSnapshot,
    OperatorStateStore,
)
from kit.stream.backend.states.descriptors import (
    AggregateFunction,
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateKind,
    ValueStateDescriptor,
)
from kit.stream.backend.states.keyed_states import (
    AggregatingState,
    ListState,
    MapState,
    ReducingState,
    ValueState,
)
from kit.stream.backend.states.tables import (
    StateTable,
)
from kit.stream.backend.timers import (
    DueTimers,
    TimerService,
)

__all__ = [
    "AggregateFunction",
    "AggregatingState",
    "AggregatingStateDescriptor",
    "BroadcastState",
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
    "StateDescriptor",
    "StateKind",
    "StateTable",
    "TimerService",
    "ValueState",
    "ValueStateDescriptor",
    "assign_to_key_group",
    "key_groups",
]

"""Giving a checkpoint back to a job: which subtask restores which state, also at another parallelism.

`assign_states` does the whole of it. `load_and_validate` comes first, when a checkpoint is read from storage.
"""

from kit.restore.errors import (
    ChainedChannelStateError,
    ChannelRescaleError,
    FinishedOperatorsError,
    MaxParallelismError,
    NonRestoredStateError,
    PointwiseRescaleError,
    RepartitionError,
    RestoreError,
)
from kit.restore.keyed import redistribute_keyed
from kit.restore.operator_id_pair import OperatorIDPair
from kit.restore.prioritized import PrioritizedOperatorSubtaskState
from kit.restore.repartition import repartition_state
from kit.restore.restored import StateAssignment, VertexParallelism
from kit.restore.shared_handles import SharedHandles
from kit.restore.state_assignment import assign_states
from kit.restore.subtask_state_mapper import PARTITIONERS, PartitionerRules, SubtaskStateMapper
from kit.restore.topology import AssignmentEdge, AssignmentVertex
from kit.restore.validate import load_and_validate
from kit.state.rescale_mappings import (
    NO_RESCALE,
    NO_STATE,
    GateOrPartitionRescalingDescriptor,
    InflightDataRescalingDescriptor,
    MappingType,
    RescaleMappings,
)
from kit.state.restored_state import RestoredSubtaskState

__all__ = [
    "NO_RESCALE",
    "NO_STATE",
    "PARTITIONERS",
    "AssignmentEdge",
    "AssignmentVertex",
    "ChainedChannelStateError",
    "ChannelRescaleError",
    "FinishedOperatorsError",
    "GateOrPartitionRescalingDescriptor",
    "InflightDataRescalingDescriptor",
    "MappingType",
    "MaxParallelismError",
    "NonRestoredStateError",
    "OperatorIDPair",
    "PartitionerRules",
    "PointwiseRescaleError",
    "PrioritizedOperatorSubtaskState",
    "RepartitionError",
    "RescaleMappings",
    "RestoreError",
    "RestoredSubtaskState",
    "SharedHandles",
    "StateAssignment",
    "SubtaskStateMapper",
    "VertexParallelism",
    "assign_states",
    "load_and_validate",
    "redistribute_keyed",
    "repartition_state",
]

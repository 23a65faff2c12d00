"""The restore of a checkpoint: which subtask gets which state, also at another parallelism.

`assign_states` does all of it. `load_and_validate` comes first, when a checkpoint is read from storage.
"""

from kit.core.state.rescale_mappings import (
    NO_RESCALE,
    NO_STATE,
    GateOrPartitionRescalingDescriptor,
    InflightDataRescalingDescriptor,
    MappingType,
    RescaleMappings,
)
from kit.core.state.restored_state import RestoredSubtaskState
from kit.machines.restore.errors import (
    ChainedChannelStateError,
    ChannelRescaleError,
    FinishedOperatorsError,
    MaxParallelismError,
    NonRestoredStateError,
    PointwiseRescaleError,
    RepartitionError,
    RestoreError,
)
from kit.machines.restore.keyed import redistribute_keyed
from kit.machines.restore.operator_id_pair import OperatorIDPair
from kit.machines.restore.prioritized import PrioritizedOperatorSubtaskState
from kit.machines.restore.repartition import repartition_state
from kit.machines.restore.restored import StateAssignment, VertexParallelism
from kit.machines.restore.shared_handles import SharedHandles
from kit.machines.restore.state_assignment import assign_states
from kit.machines.restore.subtask_state_mapper import PARTITIONERS, PartitionerRules, SubtaskStateMapper
from kit.machines.restore.topology import AssignmentEdge, AssignmentVertex
from kit.machines.restore.validate import load_and_validate

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

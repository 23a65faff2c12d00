"""The job as a graph: what is chained, and which subtasks and channels run."""

from kit.stream.graph.chaining import (
    chaining_reason,
)
from kit.stream.graph.execution_graph import (
    Channel,
    ExecutionGraph,
    ExecutionVertex,
    ParallelismError,
)
from kit.stream.graph.hashing import (
    operator_id_of_uid,
)
from kit.stream.graph.job_graph import (
    ChainedOperator,
    JobEdge,
    JobGraph,
    JobVertex,
    create_job_graph,
)
from kit.stream.graph.partitioners import (
    Partitioner,
    PartitionerKind,
)
from kit.stream.graph.stream_graph import (
    DuplicateUidError,
    GraphError,
    StreamEdge,
    StreamGraph,
    StreamNode,
)
from kit.stream.settings.job_settings import (
    CheckpointConfig,
    CheckpointCoordinatorConfiguration,
    CheckpointingMode,
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    JobSettings,
    NoRestart,
    RescaleConfig,
    RestartStrategy,
    SettingError,
)
from kit.stream.settings.parts import PartError, Parts

__all__ = [
    "ChainedOperator",
    "Channel",
    "CheckpointConfig",
    "CheckpointCoordinatorConfiguration",
    "CheckpointingMode",
    "DuplicateUidError",
    "ExecutionGraph",
    "ExecutionVertex",
    "ExponentialDelay",
    "FailureRate",
    "FixedDelay",
    "GraphError",
    "JobEdge",
    "JobGraph",
    "JobSettings",
    "JobVertex",
    "NoRestart",
    "ParallelismError",
    "PartError",
    "Partitioner",
    "PartitionerKind",
    "Parts",
    "RescaleConfig",
    "RestartStrategy",
    "SettingError",
    "StreamEdge",
    "StreamGraph",
    "StreamNode",
    "chaining_reason",
    "create_job_graph",
    "operator_id_of_uid",
]

"""The CheckpointCoordinator and its parts."""

from kit.core.protocol.properties import RecoveryClaimMode
from kit.machines.coordinator.completed.completed_checkpoint import CompletedCheckpoint
from kit.machines.coordinator.completed.completed_checkpoint_store import CompletedCheckpointStore
from kit.machines.coordinator.completed.shared_state_registry import SharedStateRegistry
from kit.machines.coordinator.context import CoordinatorContext
from kit.machines.coordinator.coordinator import CheckpointCoordinator
from kit.machines.coordinator.failure_manager import CheckpointFailureManager, failure_reasons
from kit.machines.coordinator.master_hooks import MasterHook, MasterHooks, MasterStateSerializer
from kit.machines.coordinator.pending_checkpoint import PendingCheckpoint, TaskAcknowledgeResult
from kit.machines.coordinator.plan import CheckpointPlan, CheckpointPlanCalculator
from kit.machines.coordinator.request_decider import CheckpointRequestDecider, CheckpointTriggerRequest
from kit.machines.coordinator.request_rules import request_rules
from kit.machines.coordinator.statistics import CheckpointStats, CheckpointStatsTracker, NoOpCheckpointStatsTracker

__all__ = [
    "CheckpointCoordinator",
    "CheckpointFailureManager",
    "CheckpointPlan",
    "CheckpointPlanCalculator",
    "CheckpointRequestDecider",
    "CheckpointStats",
    "CheckpointStatsTracker",
    "CheckpointTriggerRequest",
    "CompletedCheckpoint",
    "CompletedCheckpointStore",
    "CoordinatorContext",
    "MasterHook",
    "MasterHooks",
    "MasterStateSerializer",
    "NoOpCheckpointStatsTracker",
    "PendingCheckpoint",
    "RecoveryClaimMode",
    "SharedStateRegistry",
    "TaskAcknowledgeResult",
    "failure_reasons",
    "request_rules",
]

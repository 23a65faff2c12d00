"""The CheckpointCoordinator and its parts."""

from kit.coordinator.completed_checkpoint import CompletedCheckpoint
from kit.coordinator.context import CoordinatorContext
from kit.coordinator.coordinator import CheckpointCoordinator
from kit.coordinator.failure_manager import CheckpointFailureManager, failure_reasons
from kit.coordinator.master_hooks import MasterHook, MasterHooks, MasterStateSerializer
from kit.coordinator.pending_checkpoint import PendingCheckpoint, TaskAcknowledgeResult
from kit.coordinator.plan import CheckpointPlan, CheckpointPlanCalculator
from kit.coordinator.request_decider import CheckpointRequestDecider, CheckpointTriggerRequest
from kit.coordinator.request_rules import request_rules
from kit.coordinator.shared_state_registry import SharedStateRegistry
from kit.coordinator.statistics import CheckpointStats, CheckpointStatsTracker, NoOpCheckpointStatsTracker
from kit.coordinator.store import CompletedCheckpointStore
from kit.protocol.properties import RecoveryClaimMode

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

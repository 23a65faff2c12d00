"""The coordinator's side of a restore: which checkpoint the job goes back to, and what goes with it.

The states themselves are assigned to the subtasks by `kit.restore`; here the shared files are registered, the id
counter is set, master hooks get their state back and statistics take note.

Follows `restoreSavepoint` and `restoreLatestCheckpointedStateInternal` of Flink's `CheckpointCoordinator`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.coordinator.completed_checkpoint import CompletedCheckpoint
from kit.coordinator.master_hooks import restore_command
from kit.coordinator.shared_state_registry import RecoveryClaimMode, shared_handles
from kit.coordinator.statistics import RestoredCheckpointStats
from kit.coordinator.vertex_finished_state_checker import validate_operators_finished_state
from kit.metadata import CheckpointMetadata
from kit.protocol.commands import ResetMasterHooks, SetCheckpointIdCounter
from kit.protocol.properties import CheckpointProperties
from kit.protocol.words import ProtocolError
from kit.restore.topology import AssignmentVertex, OperatorIDPair

if TYPE_CHECKING:
    from kit.coordinator.coordinator import CheckpointCoordinator


class CheckpointRestore:
    """The part of the coordinator that brings the job back to a checkpoint."""

    def __init__(self, coordinator: CheckpointCoordinator) -> None:
        self._coordinator = coordinator

    def add_savepoint(
        self,
        metadata: CheckpointMetadata,
        *,
        location: str,
        path: str,
        claim_mode: RecoveryClaimMode = RecoveryClaimMode.NO_CLAIM,
    ) -> CompletedCheckpoint:
        """Make a savepoint or retained checkpoint, already validated, the one that `latest` begins with.

        `path` is its `_metadata`, in the directory `location`. Raises `kit.restore.errors.FinishedOperatorsError` when
        the program was changed around operators that had finished.
        """
        owner = self._coordinator
        self._check_finished(metadata)
        completed = CompletedCheckpoint(
            owner.job_id,
            metadata.checkpoint_id,
            0,
            0,
            {state.operator_id: state for state in metadata.operator_states},
            metadata.master_states,
            self._properties(claim_mode),
            location,
            path,
            metadata.properties,
        )
        if not completed.properties.unclaimed:
            owner.store.registry.register_restored(
                completed.checkpoint_id,
                shared_handles(metadata.operator_states),
                claim_mode,
                metadata.properties.snapshot_type.sharing if metadata.properties else None,
            )
        _, discards = owner.store.add(completed)
        owner.discard(discards, "CheckpointSubsumed")
        owner.context.emit(SetCheckpointIdCounter(next_id=completed.checkpoint_id + 1))
        return completed

    def _check_finished(self, metadata: CheckpointMetadata) -> None:
        job = self._coordinator.plan_calculator.graph.job_graph
        vertices = [
            AssignmentVertex(
                vertex.name,
                vertex.parallelism,
                tuple(
                    OperatorIDPair(operator.operator_id, name=operator.name, uid=operator.uid)
                    for operator in vertex.operators
                ),
            )
            for vertex in job.vertices
        ]
        validate_operators_finished_state(
            vertices,
            {vertex.name: vertex.inputs for vertex in job.vertices},
            {state.operator_id: state for state in metadata.operator_states},
        )

    def _properties(self, claim_mode: RecoveryClaimMode) -> CheckpointProperties:
        if claim_mode is RecoveryClaimMode.CLAIM:
            return self._coordinator.properties
        if claim_mode is RecoveryClaimMode.NO_CLAIM:
            return CheckpointProperties.for_unclaimed_snapshot()
        return CheckpointProperties.for_savepoint(forced=False)

    def latest(self, *, allow_non_restored_state: bool = True) -> CompletedCheckpoint | None:
        """The checkpoint to go back to, None when there is none and the job begins from nothing.

        Master hooks are given their state, or are reset. Raises ProtocolError after shutdown and while a checkpoint is
        being stored (wait for its end first), ValueError for hook state that no hook takes.
        """
        owner = self._coordinator
        if owner.is_shut_down:
            raise ProtocolError("the checkpoint coordinator is shut down")
        if owner.completion.is_storing:
            raise ProtocolError(f"{owner.completion.completed!r} is being stored: restore once that has ended")
        latest = owner.store.latest
        if latest is None:
            if owner.hooks:
                owner.context.emit(ResetMasterHooks())
            return None
        owner.statistics.report_restored(
            RestoredCheckpointStats(
                latest.checkpoint_id, owner.context.at, latest.properties, latest.location, latest.state_size
            )
        )
        owner.note("CheckpointRestored", latest.checkpoint_id, path=latest.location)
        owner.force_full_snapshot = latest.properties.unclaimed
        command = restore_command(
            owner.hooks, latest.checkpoint_id, latest.master_states, allow_unmatched=allow_non_restored_state
        )
        if command is not None:
            owner.context.emit(command)
        return latest

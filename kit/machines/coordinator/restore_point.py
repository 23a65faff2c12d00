"""The coordinator's side of a restore: the choice of the checkpoint, and everything besides the tasks' state.

`kit.machines.restore` assigns the states to the subtasks. Here the shared files are registered, the id counter is set,
master hooks get their state back, and statistics are updated.

The order of a restore is Flink's: the checkpoint is chosen (`latest`), its state is assigned, then hooks
(`restore_hooks`) and operator coordinators get theirs. Only then does it count as restored
(`CheckpointLedger.restored`), as in 1.11. 2.x counts it before anything is assigned, and so counts a restore that
fails.

The store is recovered once, when a driver starts, as in 2.x. Flink 1.11 recovers it at every restore, into a new
registry of shared state.

Follows `restoreSavepoint` and `restoreLatestCheckpointedStateInternal` of Flink's `CheckpointCoordinator`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from kit.core.metadata import CheckpointMetadata, hook_states, read_metadata
from kit.core.protocol import commands
from kit.core.protocol.notes import CheckpointRestored, CheckpointSubsumed
from kit.core.protocol.properties import CheckpointProperties, RecoveryClaimMode
from kit.core.protocol.stored import RecoveredCheckpoint, StoredCheckpoint
from kit.core.protocol.words import ProtocolError
from kit.core.state.operator_state import MasterState, without_in_flight_data
from kit.machines.coordinator.checkpointed_job import CheckpointedJob
from kit.machines.coordinator.completed.completed_checkpoint import CompletedCheckpoint
from kit.machines.coordinator.completed.shared_state_registry import shared_handles
from kit.machines.coordinator.context import CoordinatorContext
from kit.machines.coordinator.ledger import CheckpointLedger
from kit.machines.coordinator.vertex_finished_state_checker import validate_operators_finished_state
from kit.machines.restore.operator_id_pair import OperatorIDPair
from kit.machines.restore.topology import AssignmentVertex

NO_HOOK_STATE = 0
"""The version that is stored with "no state" of a master hook."""


class CheckpointRestore:
    """The part of the coordinator that restores the job from a checkpoint."""

    def __init__(self, job: CheckpointedJob, context: CoordinatorContext, ledger: CheckpointLedger) -> None:
        self._job = job
        self._context = context
        self._ledger = ledger

    def add_savepoint(
        self,
        metadata: CheckpointMetadata,
        *,
        location: str,
        path: str,
        claim_mode: RecoveryClaimMode = RecoveryClaimMode.NO_CLAIM,
    ) -> CompletedCheckpoint:
        """Add a validated savepoint or retained checkpoint as the one that `latest` returns first.

        `path` is its `_metadata`, in the directory `location`. A durable store records it too. Raises
        `kit.machines.restore.errors.FinishedOperatorsError` if the program was changed around operators that had
        finished.

        Flink: `CheckpointCoordinator.restoreSavepoint`.
        """
        self._check_finished(metadata)
        is_claimed = claim_mode is RecoveryClaimMode.CLAIM
        completed = self._completed(metadata, claim_mode, location, path, is_claimed=is_claimed)
        _, discards = self._ledger.store.add(completed)
        self._ledger.discard(discards, CheckpointSubsumed)
        self._context.emit(commands.SetCheckpointIdCounter(next_id=completed.checkpoint_id + 1))
        if self._ledger.store.is_durable:
            self._context.emit(
                commands.StoreCheckpoint(
                    checkpoint_id=completed.checkpoint_id, metadata_path=path, claim_mode=claim_mode
                )
            )
        return completed

    def _completed(
        self, metadata: CheckpointMetadata, claim_mode: RecoveryClaimMode, location: str, path: str, *, is_claimed: bool
    ) -> CompletedCheckpoint:
        """Return the checkpoint in the job's terms, and register what it shares."""
        completed = CompletedCheckpoint(
            self._job.job_id,
            metadata.checkpoint_id,
            0,
            0,
            {state.operator_id: state for state in metadata.operator_states},
            metadata.master_states,
            self._properties(claim_mode),
            location,
            path,
            metadata.properties,
            is_claimed,
        )
        if not completed.properties.unclaimed:
            self._ledger.store.registry.register_restored(
                completed.checkpoint_id,
                shared_handles(metadata.operator_states),
                claim_mode,
                metadata.properties.snapshot_type.sharing if metadata.properties else None,
            )
        return completed

    def recover(self, found: Sequence[RecoveredCheckpoint], *, has_ended: bool = False) -> None:
        """Take over what the job's last driver had stored, oldest first; `latest` returns the newest first.

        A checkpoint without `_metadata` was being deleted when that driver died: the deletion is continued. If the
        newest one has none, ValueError is raised, since it is unknown what the job should resume from (unless the job
        `has_ended`). Unreadable metadata raises ValueError too: no checkpoint is skipped.
        """
        whole = [each for each in found if each.metadata is not None]
        if found and found[-1] not in whole and not has_ended:
            stored = found[-1].stored
            raise ValueError(
                f"the store says that checkpoint {stored.checkpoint_id} is the newest, but {stored.metadata_path} is "
                "not there: put it back, or remove the entry to resume from an older one"
            )
        restored = []
        for each in whole:
            stored, data = each.stored, each.metadata or b""
            try:
                metadata = read_metadata(data, stored.location)[0]
            except ValueError as error:
                raise ValueError(f"checkpoint {stored.checkpoint_id} at {stored.metadata_path}: {error}") from error
            mode, is_claimed = (
                stored.claim_mode or RecoveryClaimMode.CLAIM,
                stored.claim_mode is RecoveryClaimMode.CLAIM,
            )
            of_driver = self._completed(metadata, mode, stored.location, stored.metadata_path, is_claimed=is_claimed)
            restored.append(of_driver)
            if each is found[-1]:
                self._check_finished(metadata)
        self._ledger.store.recover(restored)
        for each in found:
            if each.metadata is None:
                self._finish_deleting(each.stored)

    def _finish_deleting(self, stored: StoredCheckpoint) -> None:
        checkpoint_id = stored.checkpoint_id
        if stored.is_owned:
            discard = commands.DiscardState(
                paths=(), location=stored.location, checkpoint_id=checkpoint_id, everything=True, stored=True
            )
            self._ledger.clean(discard)
        else:
            self._context.emit(commands.RemoveStored(checkpoint_id=checkpoint_id))

    def _check_finished(self, metadata: CheckpointMetadata) -> None:
        job = self._job.graph.job_graph
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
            return self._job.properties
        if claim_mode is RecoveryClaimMode.NO_CLAIM:
            return CheckpointProperties.for_unclaimed_snapshot()
        return CheckpointProperties.for_savepoint(forced=False)

    def latest(self, *, error_if_no_checkpoint: bool = False) -> CompletedCheckpoint | None:
        """Return the checkpoint to restore from, or None if there is none and the job starts without state.

        Raises ProtocolError after shutdown and while a checkpoint is being stored (wait for its end first). With
        `error_if_no_checkpoint`, as for a snapshot that the user named, raises ValueError if there is none.

        Flink: `restoreLatestCheckpointedStateToAll` and `restoreLatestCheckpointedState`, with their
        `errorIfNoCheckpoint`. Flink may restore only some vertices (`getInvolvedExecutionJobVertices`); here a restart
        restores all of them.
        """
        if self._ledger.is_shut_down:
            raise ProtocolError("the checkpoint coordinator is shut down")
        if (storing := self._ledger.storing) is not None:
            raise ProtocolError(f"{storing!r} is being stored: restore once that has ended")
        latest = self._ledger.store.latest
        if latest is None:
            if error_if_no_checkpoint:
                raise ValueError("No completed checkpoint available: the job must start from one")
            return None
        note = CheckpointRestored(
            checkpoint_id=latest.checkpoint_id, path=latest.location, size_bytes=latest.state_size
        )
        self._context.emit(note)
        return self._without_ignored_data(latest)

    def restore_hooks(self, latest: CompletedCheckpoint | None, *, allow_non_restored_state: bool = True) -> bool:
        """Restore the master hooks from this checkpoint, whose state is assigned, or reset them without one.

        Returns True if their answer must be awaited. Raises ValueError for state that no hook takes.

        Flink: `MasterHooks.restoreMasterHooks`, `MasterHooks.reset`.
        """
        hooks = self._job.hooks
        if latest is None:
            if hooks:
                self._context.emit(commands.ResetMasterHooks())
            return bool(hooks)
        command = restore_command(
            hooks, latest.checkpoint_id, latest.master_states, allow_unmatched=allow_non_restored_state
        )
        if command is not None:
            self._context.emit(command)
        return command is not None

    def _without_ignored_data(self, latest: CompletedCheckpoint) -> CompletedCheckpoint:
        """Return the checkpoint, without its in-flight data if that should be ignored (`extractOperatorStates`).

        Flink also drops what operator coordinators had stored, so that a source starts from scratch; here it is kept.
        """
        if latest.checkpoint_id != self._job.config.checkpoint_id_of_ignored_in_flight_data:
            return latest
        states = {key: without_in_flight_data(state) for key, state in latest.operator_states.items()}
        return replace(latest, operator_states=states)


def restore_command(
    hooks: Collection[str], checkpoint_id: int, states: Sequence[MasterState], *, allow_unmatched: bool
) -> commands.RestoreMasterHooks | None:
    """Assign each state to its hook, and None to the others; return None if there are no states or no hooks.

    Raises ValueError for a state without a hook, unless `allow_unmatched`.
    """
    by_name = {state.name: state for state in hook_states(states)}
    if not by_name or not hooks:
        return None
    unmatched = [name for name in by_name if name not in hooks]
    if unmatched and not allow_unmatched:
        raise ValueError(
            f"checkpoint {checkpoint_id} holds state of the master hook(s) {unmatched}, but the job has "
            f"{list(hooks)}: add them, or allow non-restored state"
        )
    matched = [state for state in by_name.values() if state.name in hooks]
    return commands.RestoreMasterHooks(
        checkpoint_id=checkpoint_id,
        states=(
            *((state.name, state.version, state.data) for state in matched),
            *((name, NO_HOOK_STATE, None) for name in hooks if name not in by_name),
        ),
    )

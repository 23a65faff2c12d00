"""What the JobMaster asks of its host's disk, and of what the user hung in beside the job.

One method a command; `carry_out` finds it in a table and gives the event that answers, or None where nothing does.
Nothing here raises for what the world outside may do wrong: a full disk, a missing savepoint, a hook that fails come
back as the event that says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from kit.coordinator.master_hooks import MasterHooks
from kit.graph.job_graph import JobGraph
from kit.operators.source import SourceSpec
from kit.protocol.commands import (
    AllocateCheckpointId,
    DiscardState,
    EnumerateSplits,
    InitializeLocation,
    ResetMasterHooks,
    ResolveSnapshot,
    RestoreMasterHooks,
    ScheduleCoordinatorCheckpoint,
    SetCheckpointIdCounter,
    StoreCheckpoint,
    TriggerMasterHook,
    WriteMetadata,
)
from kit.protocol.events import (
    CheckpointIdAllocated,
    CheckpointOperatorCoordinator,
    CheckpointStored,
    LocationFailed,
    LocationInitialized,
    MetadataFailed,
    MetadataWritten,
    SnapshotResolved,
    SplitsEnumerated,
    StartFailed,
)
from kit.protocol.words import Word
from kit.state.storage import CheckpointLocation, CheckpointStorage

FIRST_CHECKPOINT_ID = 1


class JobFiles:
    """The JobMaster's half of a host's input and output; `storage` is where checkpoints lie."""

    def __init__(self, job: JobGraph, storage: CheckpointStorage, hooks: MasterHooks) -> None:
        self._job = job
        self._storage = storage
        self._hooks = hooks
        self.next_id = FIRST_CHECKPOINT_ID

    def carry_out(self, command: Word) -> Word | None:
        """Do what the command says; returns the event that answers it."""
        return self._HOW[type(command)](self, command)

    def _enumerate_splits(self, command: EnumerateSplits) -> Word:
        spec = self._job.operator(command.operator_id).spec
        assert isinstance(spec, SourceSpec)
        try:
            splits = spec.source.enumerate_splits()
        except (OSError, ValueError) as error:
            return StartFailed(error=f"source {spec.name!r}: {error}")
        return SplitsEnumerated(operator_id=command.operator_id, splits=tuple(splits))

    def _resolve(self, command: ResolveSnapshot) -> Word:
        try:
            resolved = self._storage.resolve(command.path)
        except (OSError, ValueError) as error:
            return StartFailed(error=str(error))
        return SnapshotResolved(path=command.path, location=resolved.location.directory, metadata=resolved.metadata)

    def _allocate_id(self, command: AllocateCheckpointId) -> Word:
        self.next_id += 1
        return CheckpointIdAllocated(checkpoint_id=self.next_id - 1)

    def _set_counter(self, command: SetCheckpointIdCounter) -> None:
        self.next_id = max(self.next_id, command.next_id)

    def _initialize_location(self, command: InitializeLocation) -> Word:
        checkpoint_id = command.checkpoint_id
        try:
            if command.initialize_base:
                self._storage.init_base_locations()
            if command.properties.is_savepoint:
                location = self._storage.initialize_location_for_savepoint(checkpoint_id, command.target)
            else:
                location = self._storage.initialize_location_for_checkpoint(checkpoint_id)
        except (OSError, ValueError) as error:
            return LocationFailed(checkpoint_id=checkpoint_id, error=str(error))
        return LocationInitialized(checkpoint_id=checkpoint_id, location=location.directory)

    def _write_metadata(self, command: WriteMetadata) -> Word:
        try:
            path = self._storage.write_metadata(CheckpointLocation(command.location), command.data)
        except OSError as error:
            return MetadataFailed(checkpoint_id=command.checkpoint_id, error=str(error))
        return MetadataWritten(checkpoint_id=command.checkpoint_id, path=path, size_bytes=len(command.data))

    def _store(self, command: StoreCheckpoint) -> Word:
        """The store in the JobMaster's memory is all there is; others find the checkpoint by its `_metadata`."""
        return CheckpointStored(checkpoint_id=command.checkpoint_id)

    def _discard(self, command: DiscardState) -> None:
        self._storage.discard(command.paths)
        if command.location is None:
            return
        location = CheckpointLocation(command.location)
        if command.everything:
            self._storage.dispose_on_failure(location)
        else:
            self._storage.discard_location(location)

    def _coordinator_turn(self, command: ScheduleCoordinatorCheckpoint) -> Word:
        """Operator coordinators live in the JobMaster: their turn comes back to it as an event of its own."""
        return CheckpointOperatorCoordinator(checkpoint_id=command.checkpoint_id, operator_id=command.operator_id)

    def _trigger_hook(self, command: TriggerMasterHook) -> Word:
        return self._hooks.trigger(command)

    def _restore_hooks(self, command: RestoreMasterHooks) -> Word:
        return self._hooks.restore(command)

    def _reset_hooks(self, command: ResetMasterHooks) -> None:
        self._hooks.reset()

    _HOW: ClassVar[dict[type[Word], Callable[[JobFiles, Any], Word | None]]] = {
        EnumerateSplits: _enumerate_splits,
        ResolveSnapshot: _resolve,
        AllocateCheckpointId: _allocate_id,
        SetCheckpointIdCounter: _set_counter,
        InitializeLocation: _initialize_location,
        WriteMetadata: _write_metadata,
        StoreCheckpoint: _store,
        DiscardState: _discard,
        ScheduleCoordinatorCheckpoint: _coordinator_turn,
        TriggerMasterHook: _trigger_hook,
        RestoreMasterHooks: _restore_hooks,
        ResetMasterHooks: _reset_hooks,
    }

    def __repr__(self) -> str:
        return f"JobFiles({self._job.name}, next checkpoint {self.next_id})"

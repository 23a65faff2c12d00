"""What the JobMaster asks of its host's disk, and of what the user hung in beside the job.

One method per command; `carry_out` finds it in a table and gives the event that answers, or None where nothing does.
What a method raises becomes the event with which the command says that it failed (`kit.host.answers`); only those who
know more than the error says make that event themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, ClassVar

from kit.coordinator.master_hooks import MasterHooks
from kit.graph.job_graph import JobGraph
from kit.host.answers import carry_out
from kit.host.output import Output, begin_new_output, sinks
from kit.host.storage import CheckpointLocation, CheckpointStorage
from kit.host.stores import CheckpointStore
from kit.operators.source_spec import SourceSpec
from kit.protocol.commands import (
    AllocateCheckpointId,
    CloseMasterHooks,
    DiscardState,
    EnumerateSplits,
    InitializeLocation,
    RecoverCheckpoints,
    RemoveOrphans,
    RemoveStored,
    ResetMasterHooks,
    ResolveSnapshot,
    RestoreMasterHooks,
    ScheduleCoordinatorCheckpoint,
    SetCheckpointIdCounter,
    StoreCheckpoint,
    StoreJobResult,
    StoreParallelism,
    TriggerMasterHook,
    WriteMetadata,
)
from kit.protocol.duties import Command
from kit.protocol.events import (
    CheckpointIdAllocated,
    CheckpointOperatorCoordinator,
    CheckpointsRecovered,
    CheckpointStored,
    JobResultStored,
    LocationInitialized,
    MetadataWritten,
    OrphansRemoved,
    ParallelismStored,
    SnapshotResolved,
    SplitsEnumerated,
    StartFailed,
    StateDiscarded,
)
from kit.protocol.reasons import told
from kit.protocol.stored import RecoveredCheckpoint, StoredCheckpoint
from kit.protocol.words import Word
from kit.state.file_names import checkpoint_of


class JobFiles:
    """The JobMaster's half of a host's input and output; `storage` is where checkpoints are, `store` remembers which
    are complete, `output` is where sinks stage.
    """

    def __init__(
        self, job: JobGraph, storage: CheckpointStorage, hooks: MasterHooks, store: CheckpointStore, output: Output
    ) -> None:
        self._job = job
        self._storage = storage
        self._hooks = hooks
        self._store = store
        self._output = output

    def close(self) -> None:
        """Let go of connections."""
        self._store.close()

    def carry_out(self, command: Command) -> Word | None:
        """Do what the command says; returns the event that answers it."""
        return carry_out(self, self._HOW, command)

    def _enumerate_splits(self, command: EnumerateSplits) -> Word:
        spec = self._job.operator(command.operator_id).spec
        assert isinstance(spec, SourceSpec)
        try:
            splits = spec.source.splits_for(self._job.vertex_of(command.operator_id).parallelism)
        except Exception as error:
            return StartFailed(error=f"source {spec.name!r}: {told(error)}")
        return SplitsEnumerated(operator_id=command.operator_id, splits=tuple(splits))

    def _resolve(self, command: ResolveSnapshot) -> Word:
        resolved = self._storage.resolve(command.path)
        return SnapshotResolved(path=command.path, location=resolved.location.directory, metadata=resolved.metadata)

    def _recover(self, command: RecoverCheckpoints) -> Word:
        """Directories of other runs' checkpoints, which some other store knew, are not written to again."""
        try:
            status = self._store.begin(recover=command.recover)
            self._store.raise_counter(max(self._storage.checkpoint_locations(), default=0) + 1)
            stored = self._store.checkpoints() if command.recover else []
            found = tuple(RecoveredCheckpoint(each, self._metadata_of(each)) for each in stored)
            wanted = self._store.wanted()
        except (OSError, ValueError) as error:
            return StartFailed(error=f"the checkpoints of job {self._job.name} cannot be recovered: {error}")
        if not (found or status or command.restores):
            begin_new_output(self._job, self._output)
        return CheckpointsRecovered(checkpoints=found, status=status, parallelism=wanted)

    def _metadata_of(self, stored: StoredCheckpoint) -> bytes | None:
        if not self._storage.exists(stored.metadata_path):
            return None
        return self._storage.read(stored.metadata_path).to_pybytes()

    def _remove_orphans(self, command: RemoveOrphans) -> Word:
        """Each kind is tried, whatever becomes of the others."""
        errors = []
        for remove in (self._remove_orphaned_directories, self._remove_orphaned_output, self._remove_orphaned_entries):
            try:
                remove(set(self._store.ids()).difference(command.keep))
            except OSError as error:
                errors.append(str(error))
        try:
            self._remove_orphaned_shared_files(command.shared)
        except OSError as error:
            errors.append(str(error))
        return OrphansRemoved(error="; ".join(errors))

    def _remove_orphaned_directories(self, orphans: Collection[int]) -> None:
        for checkpoint_id, location in self._storage.checkpoint_locations().items():
            if checkpoint_id in orphans:
                self._storage.dispose_on_failure(location)

    def _remove_orphaned_shared_files(self, kept: Collection[str]) -> None:
        """Those of other runs may belong to somebody's snapshot: only what this run has written goes."""
        directory, ids = self._storage.shared_directory, self._store.ids()
        names = [name for name in self._storage.names(directory) if name not in kept and checkpoint_of(name) in ids]
        self._storage.discard(f"{directory}/{name}" for name in names)

    def _remove_orphaned_output(self, orphans: Collection[int]) -> None:
        for sink in sinks(self._job):
            self._output.sweep(sink, self._job.job_id, orphans)

    def _remove_orphaned_entries(self, orphans: Collection[int]) -> None:
        for stored in self._store.checkpoints():
            if stored.checkpoint_id in orphans:
                self._store.remove(stored.checkpoint_id)

    def _allocate_id(self, command: AllocateCheckpointId) -> Word:
        return CheckpointIdAllocated(checkpoint_id=self._store.next_id())

    def _set_counter(self, command: SetCheckpointIdCounter) -> None:
        self._store.raise_counter(command.next_id)

    def _initialize_location(self, command: InitializeLocation) -> Word:
        checkpoint_id = command.checkpoint_id
        if command.initialize_base:
            self._storage.init_base_locations()
        if command.properties.is_savepoint:
            location = self._storage.initialize_location_for_savepoint(checkpoint_id, command.target)
        else:
            location = self._storage.initialize_location_for_checkpoint(checkpoint_id)
        return LocationInitialized(checkpoint_id=checkpoint_id, location=location.directory)

    def _write_metadata(self, command: WriteMetadata) -> Word:
        path = self._storage.write_metadata(CheckpointLocation(command.location), command.data)
        return MetadataWritten(checkpoint_id=command.checkpoint_id, path=path, size_bytes=len(command.data))

    def _add_to_store(self, command: StoreCheckpoint) -> Word:
        self._store.add(StoredCheckpoint(command.checkpoint_id, command.metadata_path, command.claim_mode))
        return CheckpointStored(checkpoint_id=command.checkpoint_id)

    def _remove_stored(self, command: RemoveStored) -> None:
        self._store.remove(command.checkpoint_id)

    def _store_result(self, command: StoreJobResult) -> Word:
        self._store.end(command.status)
        return JobResultStored()

    def _store_parallelism(self, command: StoreParallelism) -> Word:
        self._store.want(command.parallelism)
        return ParallelismStored(request_id=command.request_id)

    def _discard(self, command: DiscardState) -> Word | None:
        """Files first, then the entry in the store: whoever finds the entry knows that something may be left."""
        self._storage.discard(command.paths)
        if command.location is None:
            return None
        location = CheckpointLocation(command.location)
        if command.everything:
            self._dispose(location, command.checkpoint_id)
        else:
            self._storage.discard_location(location)
        if command.stored and command.checkpoint_id is not None:
            self._store.remove(command.checkpoint_id)
        return StateDiscarded(checkpoint_id=command.checkpoint_id)

    def _dispose(self, location: CheckpointLocation, checkpoint_id: int | None) -> None:
        """All that was written for a checkpoint that was given up, staged output too; what cannot be deleted stays."""
        with suppress(OSError):
            self._storage.dispose_on_failure(location)
        if checkpoint_id is not None:
            with suppress(OSError):
                self._remove_orphaned_output({checkpoint_id})

    def _coordinator_turn(self, command: ScheduleCoordinatorCheckpoint) -> Word:
        """Operator coordinators live in the JobMaster: their turn comes back to it as an event of its own."""
        return CheckpointOperatorCoordinator(checkpoint_id=command.checkpoint_id, operator_id=command.operator_id)

    def _trigger_hook(self, command: TriggerMasterHook) -> Word:
        return self._hooks.trigger(command)

    def _restore_hooks(self, command: RestoreMasterHooks) -> Word:
        return self._hooks.restore(command)

    def _reset_hooks(self, command: ResetMasterHooks) -> Word:
        return self._hooks.reset()

    def _close_hooks(self, command: CloseMasterHooks) -> None:
        self._hooks.close()

    _HOW: ClassVar[dict[type[Word], Callable[[JobFiles, Any], Word | None]]] = {
        EnumerateSplits: _enumerate_splits,
        ResolveSnapshot: _resolve,
        RecoverCheckpoints: _recover,
        RemoveOrphans: _remove_orphans,
        AllocateCheckpointId: _allocate_id,
        SetCheckpointIdCounter: _set_counter,
        InitializeLocation: _initialize_location,
        WriteMetadata: _write_metadata,
        StoreCheckpoint: _add_to_store,
        RemoveStored: _remove_stored,
        StoreJobResult: _store_result,
        StoreParallelism: _store_parallelism,
        DiscardState: _discard,
        ScheduleCoordinatorCheckpoint: _coordinator_turn,
        TriggerMasterHook: _trigger_hook,
        RestoreMasterHooks: _restore_hooks,
        ResetMasterHooks: _reset_hooks,
        CloseMasterHooks: _close_hooks,
    }

    def __repr__(self) -> str:
        return f"JobFiles({self._job.name}, {self._store!r})"

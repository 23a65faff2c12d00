"""The JobMaster's commands for its host's disk, and for the user's objects beside the job.

There is one method per command; `carry_out` finds it in a table and returns the event that answers, or None without an
answer. An exception becomes the event with which the command reports that it failed (`kit.files.answers`); only
methods that know more than the error create that event themselves.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import asdict
from typing import Any, ClassVar

from kit.core.metadata import CheckpointMetadata, covered_output, read_metadata
from kit.core.protocol import commands, events
from kit.core.protocol.duties import Command
from kit.core.protocol.lineage import CoveredOutput, Lineage
from kit.core.protocol.properties import LaterOutput
from kit.core.protocol.reasons import error_text
from kit.core.protocol.stored import JobResult, RecoveredCheckpoint, StoredCheckpoint
from kit.core.protocol.words import ProtocolMessage
from kit.core.state.errors import StateError
from kit.core.state.file_names import checkpoint_of
from kit.files.answers import carry_out
from kit.files.confinement import check_metadata
from kit.files.master_hooks import MasterHooks
from kit.files.output import Output, sinks
from kit.files.output_checks import (
    begin_new_output,
    check_no_later_output,
    check_not_discarded,
    discard_later_output,
    with_later_output_kept,
)
from kit.files.state_types import check_state_types
from kit.files.storage import CheckpointLocation, CheckpointStorage
from kit.files.stores.errors import LeadershipLostError
from kit.files.stores.stores import CheckpointStore
from kit.filesystems.file_system import shown
from kit.stream.graph.job_graph import JobGraph
from kit.stream.operators.sources.source_spec import SourceSpec

logger = logging.getLogger("kit.files")
_RECORDED = 100
"""Records of published files are kept for this many checkpoints: a checkpoint may name what earlier ones published."""


class JobFiles:
    """The JobMaster's half of a host's input and output.

    `storage` is where checkpoints are, `store` remembers which are complete, `output` is where sinks stage, `driver` is
    this driver's name for others, and `lineage` the run, unless a store or a snapshot continues another.

    Effects outside this driver (`_metadata`, a master hook) occur only while it leads; the store guards its own
    records. Sinks need no such check: they publish what a stored checkpoint covers, as the next driver would.
    """

    def __init__(
        self,
        job: JobGraph,
        storage: CheckpointStorage,
        hooks: MasterHooks,
        store: CheckpointStore,
        output: Output,
        driver: str = "",
        lineage: Lineage | None = None,
    ) -> None:
        self._job = job
        self._storage = storage
        self._hooks = hooks
        self._store = store
        self._output = output
        self._driver = driver
        self.lineage = lineage or Lineage(job.job_id)
        """The run whose output this is; the store and the snapshot that the run resumes from may name another."""
        self.before_savepoint: Callable[[], None] = lambda: None
        """A function of the host that is called before the directory of a savepoint is made."""
        self._savepoints: set[int] = set()
        """The checkpoint ids of this driver's savepoints, which outlast the checkpoints after them."""

    def close(self) -> None:
        """Close connections."""
        self._store.close()

    def check_leadership(self) -> events.LeadershipLost | None:
        """Return an event if another driver leads the job, else None, also if the store cannot be reached."""
        try:
            self._store.check_leadership()
        except LeadershipLostError as error:
            return events.LeadershipLost(error=str(error))
        except OSError as error:
            logger.info("job %s: whether this driver still leads is unknown: %s", self._job.name, error)
        return None

    def carry_out(self, command: Command) -> ProtocolMessage | None:
        """Carry out the command, and return the event that answers it."""
        return carry_out(self, self._HOW, command)

    def _enumerate_splits(self, command: commands.EnumerateSplits) -> ProtocolMessage:
        spec = self._job.operator(command.operator_id).spec
        assert isinstance(spec, SourceSpec)
        try:
            splits = spec.source.splits_for(self._job.vertex_of(command.operator_id).parallelism)
        except Exception as error:
            return events.StartFailed(error=f"source {spec.name!r}: {error_text(error)}")
        return events.SplitsEnumerated(operator_id=command.operator_id, splits=tuple(splits))

    def _discover_splits(self, command: commands.DiscoverSplits) -> ProtocolMessage:
        spec = self._job.operator(command.operator_id).spec
        assert isinstance(spec, SourceSpec)
        return events.SplitsDiscovered(operator_id=command.operator_id, splits=tuple(spec.source.discover_splits()))

    def _resolve(self, command: commands.ResolveSnapshot) -> ProtocolMessage:
        resolved = self._storage.resolve(command.path)
        location = resolved.location.directory
        checkpoint_id = self._check_paths(resolved.metadata, location)
        covered, snapshot = self._covered_by(resolved.metadata, location), f"checkpoint {checkpoint_id}"
        check_not_discarded(self._job, self._output, covered, snapshot)
        if command.later_output is LaterOutput.ERROR:
            check_no_later_output(self._job, self._output, covered, snapshot)
        check_state_types(self._job, self._storage, resolved.metadata, location)
        if command.later_output is LaterOutput.KEEP:
            covered = with_later_output_kept(self._job, self._output, covered)
        self._store.resume_from(covered)
        self.begin_output(Lineage(self.lineage.run, covered))
        return events.SnapshotResolved(
            path=command.path, location=location, metadata=resolved.metadata, covered_output=covered.encode()
        )

    def _covered_by(self, data: bytes, location: str) -> CoveredOutput:
        try:
            metadata = read_metadata(data, location)[0]
        except ValueError:
            metadata = CheckpointMetadata(0)  # the JobMaster reports what is wrong with it
        return covered_output(metadata, data)

    def begin_run(self, run: str) -> None:
        """Begin a run from scratch; a durable store or a snapshot may turn out to continue another.

        Its checkpoints get other ids than those that an earlier run of the job with the same id has left.
        """
        self.begin_output(Lineage(run))
        if not self._job.settings.checkpoint.is_durable:
            self._store.raise_counter(max(self._storage.checkpoint_locations(), default=0) + 1)

    def begin_output(self, lineage: Lineage, *, resumed: bool = False) -> None:
        """Start the output of a run; `resumed` as in `Output.begin`."""
        self.lineage = lineage
        self._output.begin(lineage, resumed=resumed)

    def _recover(self, command: commands.RecoverCheckpoints) -> ProtocolMessage:
        """Recover the store, and avoid writing to the directories of other runs' checkpoints."""
        try:
            abandoned = None if command.recover else self._store.lineage()
            status = self._store.begin(recover=command.recover, driver=self._driver, run=command.run)
            stored = self._store.checkpoints() if command.recover else []
            self.begin_output(self._store.lineage() or self.lineage, resumed=bool(stored))
            if abandoned is not None:
                with suppress(OSError):
                    self._sweep_in_progress(abandoned.writer, sys.maxsize)
            self._store.raise_counter(max(self._storage.checkpoint_locations(), default=0) + 1)
            found = tuple(RecoveredCheckpoint(each, self._metadata_of(each)) for each in stored)
            found = self._without_damaged(found)
            if found and found[-1].metadata is not None:
                check_state_types(self._job, self._storage, found[-1].metadata, found[-1].stored.location)
            if found and not status:
                self._check_output(found[-1].stored.checkpoint_id)
            wanted = self._store.wanted()
        except LeadershipLostError:
            raise
        except (OSError, ValueError, StateError) as error:
            return events.StartFailed(error=f"the checkpoints of job {self._job.name} cannot be recovered: {error}")
        if not (found or status or command.restores):
            begin_new_output(self._job, self._output, self._store.check_leadership)
        ended = (self._store.result() if status else None) or JobResult(status)
        return events.CheckpointsRecovered(checkpoints=found, parallelism=wanted, lineage=self.lineage, **asdict(ended))

    def _check_output(self, checkpoint_id: int) -> None:
        """Raise FileExistsError if this run cannot resume from this checkpoint: rows would be missing, or come again.

        Another run may have restored an older snapshot meanwhile.
        """
        covered, snapshot = self.lineage.covered_at(checkpoint_id), f"checkpoint {checkpoint_id}"
        check_not_discarded(self._job, self._output, covered, snapshot)
        check_no_later_output(self._job, self._output, covered, snapshot)

    def _without_damaged(self, found: tuple[RecoveredCheckpoint, ...]) -> tuple[RecoveredCheckpoint, ...]:
        """Skip the newest checkpoints if they are damaged, and if the settings allow it.

        Raises FileExistsError if rows were published after the remaining one, ValueError if none remains.
        """
        if not self._job.settings.checkpoint.fall_back_if_damaged:
            return found
        damaged: list[tuple[RecoveredCheckpoint, str]] = []
        while found and (problem := self._damage(found[-1])):
            damaged.append((found[-1], problem))
            found = found[:-1]
        if not damaged:
            return found
        names = "; ".join(f"checkpoint {each.stored.checkpoint_id}: {problem}" for each, problem in damaged)
        if not found:
            raise ValueError(f"every checkpoint in the store is damaged: {names}")
        newest = found[-1].stored
        try:
            self._check_output(newest.checkpoint_id)
        except FileExistsError as error:
            raise FileExistsError(f"{names}. No older checkpoint may take its place: {error}") from error
        for each, _ in damaged:
            self._store.remove(each.stored.checkpoint_id)
        logger.warning(
            "job %s starts from checkpoint %s, passing over damaged ones: %s",
            self._job.name,
            newest.checkpoint_id,
            names,
        )
        return found

    def _damage(self, checkpoint: RecoveredCheckpoint) -> str:
        """Return what is wrong with a checkpoint, as far as visible without reading its state, or ""."""
        if checkpoint.metadata is None:
            return f"{checkpoint.stored.metadata_path} is missing"
        try:
            states = read_metadata(checkpoint.metadata, checkpoint.stored.location)[0].operator_states
        except ValueError as error:
            return str(error)
        missing = next((path for state in states for path in state.files() if not self._storage.exists(path)), None)
        return "" if missing is None else f"{missing} is missing"

    def _metadata_of(self, stored: StoredCheckpoint) -> bytes | None:
        if not self._storage.exists(stored.metadata_path):
            return None
        metadata = self._storage.read(stored.metadata_path).to_pybytes()
        self._check_paths(metadata, stored.location)
        return metadata

    def _check_paths(self, metadata: bytes, location: str) -> int | None:
        return check_metadata(metadata, location, self._storage.job_directory, is_real=self._storage.is_real)

    def _discard_later_output(self, command: commands.DiscardLaterOutput) -> ProtocolMessage:
        check = self._store.check_leadership
        discard_later_output(self._job, self._output, command.covered, command.location, check)
        return events.LaterOutputDiscarded()

    def _remove_orphans(self, command: commands.RemoveOrphans) -> ProtocolMessage:
        """Remove each kind of orphan, even if another fails."""
        errors = []
        for remove in (self._remove_orphaned_directories, self._remove_orphaned_output, self._remove_orphaned_entries):
            try:
                remove(set(self._store.ids()).difference(command.keep))
            except LeadershipLostError:
                raise
            except OSError as error:
                errors.append(str(error))
        with suppress(OSError):
            # first: it needs no answer of the store
            self._sweep_in_progress(self.lineage.writer, sys.maxsize)
            self._forget_published(self._store.ids().stop - (_RECORDED if command.keep else 0), command.keep)
        try:
            self._remove_orphaned_shared_files(command.shared)
        except OSError as error:
            errors.append(str(error))
        return events.OrphansRemoved(error="; ".join(errors))

    def _remove_orphaned_directories(self, orphans: Collection[int]) -> None:
        for checkpoint_id, location in self._storage.checkpoint_locations().items():
            if checkpoint_id in orphans:
                self._storage.dispose_on_failure(location)

    def _remove_orphaned_shared_files(self, kept: Collection[str]) -> None:
        """Remove only files that this run has written: those of other runs may belong to a user's snapshot.

        A process that was killed may not have finished one.
        """
        directory, ids = self._storage.shared_directory, self._store.ids()
        names = self._storage.names(directory)
        names = [name for name in names if name not in kept and checkpoint_of(shown(name)) in ids]
        self._storage.discard(f"{directory}/{name}" for name in names)

    def _remove_orphaned_output(self, orphans: Collection[int]) -> None:
        for sink in sinks(self._job):
            self._output.sweep(sink, self.lineage.writer, orphans)

    def _sweep_in_progress(self, writer: str, before: int) -> None:
        for sink in sinks(self._job):
            self._output.sweep_in_progress(sink, writer, before)

    def _forget_published(self, before: int, keep: Collection[int]) -> None:
        """Delete the records of what this run has published, up to a checkpoint."""
        for sink in sinks(self._job):
            self._output.forget_published(sink, self.lineage.writer, range(self._store.ids().start, before), keep)

    def _remove_orphaned_entries(self, orphans: Collection[int]) -> None:
        for stored in self._store.checkpoints():
            if stored.checkpoint_id in orphans:
                self._store.remove(stored.checkpoint_id)

    def _allocate_id(self, command: commands.AllocateCheckpointId) -> ProtocolMessage:
        return events.CheckpointIdAllocated(checkpoint_id=self._store.next_id())

    def _set_counter(self, command: commands.SetCheckpointIdCounter) -> None:
        self._store.raise_counter(command.next_id)

    def _initialize_location(self, command: commands.InitializeLocation) -> ProtocolMessage:
        checkpoint_id = command.checkpoint_id
        if command.initialize_base:
            self._storage.init_base_locations()
        if command.properties.is_savepoint:
            self.before_savepoint()
            self._savepoints.add(checkpoint_id)
            location = self._storage.initialize_location_for_savepoint(checkpoint_id, command.target)
        else:
            location = self._storage.initialize_location_for_checkpoint(checkpoint_id)
        return events.LocationInitialized(checkpoint_id=checkpoint_id, location=location.directory)

    def _write_metadata(self, command: commands.WriteMetadata) -> ProtocolMessage:
        self._store.check_leadership()
        path = self._storage.write_metadata(CheckpointLocation(command.location), command.data)
        self._output.cover(command.location)
        return events.MetadataWritten(checkpoint_id=command.checkpoint_id, path=path, size_bytes=len(command.data))

    def _add_to_store(self, command: commands.StoreCheckpoint) -> ProtocolMessage:
        self._store.add(StoredCheckpoint(command.checkpoint_id, command.metadata_path, command.claim_mode))
        return events.CheckpointStored(checkpoint_id=command.checkpoint_id)

    def _remove_stored(self, command: commands.RemoveStored) -> None:
        self._store.remove(command.checkpoint_id)

    def _store_result(self, command: commands.StoreJobResult) -> ProtocolMessage:
        self._store.end(JobResult(command.status, command.savepoint, command.keep, command.shared))
        return events.JobResultStored()

    def _store_parallelism(self, command: commands.StoreParallelism) -> ProtocolMessage:
        self._store.want(command.parallelism)
        return events.ParallelismStored(request_id=command.request_id)

    def _discard(self, command: commands.DiscardState) -> ProtocolMessage | None:
        """Delete the files first, then the entry in the store: a remaining entry shows that files may be left."""
        self._storage.discard(command.paths)
        if command.location is None:
            return None
        location = CheckpointLocation(command.location)
        self._output.uncover(command.location)
        if command.everything:
            self._dispose(location, command.checkpoint_id)
        else:
            self._storage.discard_location(location)
        if command.stored and command.checkpoint_id is not None:
            self._store.remove(command.checkpoint_id)
            with suppress(OSError):
                self._sweep_in_progress(
                    self.lineage.writer, command.checkpoint_id
                )  # first: it needs no answer of the store
                self._forget_published(command.checkpoint_id - _RECORDED, self._savepoints)
        return events.StateDiscarded(checkpoint_id=command.checkpoint_id)

    def _dispose(self, location: CheckpointLocation, checkpoint_id: int | None) -> None:
        """Delete everything written for an aborted checkpoint, including staged output; ignore failures."""
        with suppress(OSError):
            self._storage.dispose_on_failure(location)
        if checkpoint_id is not None:
            with suppress(OSError):
                self._remove_orphaned_output({checkpoint_id})

    def _coordinator_turn(self, command: commands.ScheduleCoordinatorCheckpoint) -> ProtocolMessage:
        """Return the turn as an event, since operator coordinators live in the JobMaster."""
        return events.CheckpointOperatorCoordinator(
            checkpoint_id=command.checkpoint_id, operator_id=command.operator_id
        )

    def _trigger_hook(self, command: commands.TriggerMasterHook) -> ProtocolMessage:
        self._store.check_leadership()
        return self._hooks.trigger(command)

    def _restore_hooks(self, command: commands.RestoreMasterHooks) -> ProtocolMessage:
        self._store.check_leadership()
        return self._hooks.restore(command)

    def _reset_hooks(self, command: commands.ResetMasterHooks) -> ProtocolMessage:
        self._store.check_leadership()
        return self._hooks.reset()

    def _close_hooks(self, command: commands.CloseMasterHooks) -> None:
        self._hooks.close()

    _HOW: ClassVar[dict[type[ProtocolMessage], Callable[[JobFiles, Any], ProtocolMessage | None]]] = {
        commands.EnumerateSplits: _enumerate_splits,
        commands.DiscoverSplits: _discover_splits,
        commands.ResolveSnapshot: _resolve,
        commands.DiscardLaterOutput: _discard_later_output,
        commands.RecoverCheckpoints: _recover,
        commands.RemoveOrphans: _remove_orphans,
        commands.AllocateCheckpointId: _allocate_id,
        commands.SetCheckpointIdCounter: _set_counter,
        commands.InitializeLocation: _initialize_location,
        commands.WriteMetadata: _write_metadata,
        commands.StoreCheckpoint: _add_to_store,
        commands.RemoveStored: _remove_stored,
        commands.StoreJobResult: _store_result,
        commands.StoreParallelism: _store_parallelism,
        commands.DiscardState: _discard,
        commands.ScheduleCoordinatorCheckpoint: _coordinator_turn,
        commands.TriggerMasterHook: _trigger_hook,
        commands.RestoreMasterHooks: _restore_hooks,
        commands.ResetMasterHooks: _reset_hooks,
        commands.CloseMasterHooks: _close_hooks,
    }

    def __repr__(self) -> str:
        return f"JobFiles({self._job.name}, {self._store!r})"

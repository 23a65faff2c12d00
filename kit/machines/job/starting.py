"""The start of a job: its splits, and the checkpoint it resumes from, must be known before its tasks are deployed.

    EnumerateSplits      for every source that has no answer of its own yet
    RecoverCheckpoints   with a durable store: what an earlier driver of the job left
        found: the job resumes from the newest; `restore_path` was for the first driver
    ResolveSnapshot      nothing found, and there is a `restore_path`
        DiscardLaterOutput  if the user wants it: what sinks published after the snapshot
        StoreCheckpoint  the snapshot is recorded in the durable store like a checkpoint of the job's own
    RemoveOrphans        with a durable store: what the earlier driver left and nothing refers to

Follows `CheckpointCoordinator.restoreInitialCheckpointIfPresent` and `DefaultExecutionGraphFactory` of Flink.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import assert_never

from kit.core.metadata import read_metadata
from kit.core.protocol import events
from kit.core.protocol.commands import DiscardLaterOutput, EnumerateSplits, RecoverCheckpoints, ResolveSnapshot
from kit.core.protocol.lineage import CoveredOutput, Lineage
from kit.core.protocol.properties import LaterOutput
from kit.core.protocol.words import ProtocolMessage
from kit.machines.coordinator.coordinator import CheckpointCoordinator
from kit.machines.job.leftovers import remove_orphans
from kit.machines.job.task_restores import assignment_vertices
from kit.machines.restore.validate import load_and_validate
from kit.stream.graph.execution_graph import ExecutionGraph
from kit.stream.settings.job_settings import SettingError

Answer = (
    events.CheckpointsRecovered
    | events.SnapshotResolved
    | events.LaterOutputDiscarded
    | events.OrphansRemoved
    | events.CheckpointStored
    | events.CheckpointStoreFailed
)
"""An event that `JobStart.take` handles."""
STORE, SNAPSHOT, ORPHANS, OUTPUT = "store", "snapshot", "orphans", "output"
"""The awaited answers, besides those of sources, which are named by their operators' ids."""


class JobStart:
    """The part of the JobMaster that starts a job; `awaited` holds what has no answer yet."""

    def __init__(
        self, graph: ExecutionGraph, checkpoints: CheckpointCoordinator, emit: Callable[[ProtocolMessage], None]
    ) -> None:
        self._graph = graph
        self._checkpoints = checkpoints
        self._emit = emit
        self.event: events.StartJob | None = None
        self.lineage = Lineage(graph.job_graph.job_id)
        """The run, and the output that led to it."""
        self.awaited: set[str] = set()

    @property
    def allow_non_restored_state(self) -> bool:
        """True if state that no operator restores may be dropped. Flink: `allowNonRestoredState`."""
        return self.event is not None and self.event.allow_non_restored_state

    @property
    def begins_from_snapshot(self) -> bool:
        """True if there must be a checkpoint to start from: a snapshot that the user named, or one in the store."""
        return self.event is not None and self.event.restore_path is not None

    def begin(self, event: events.StartJob, sources: Iterable[str]) -> None:
        """Send all requests that are possible at once. Raises SettingError for `recover` without a durable store."""
        durable = self._checkpoints.store.is_durable
        self.event = event
        self.lineage = Lineage(event.run or self.lineage.run)
        if event.recover and not durable:
            raise SettingError(
                "recover=True needs a store that outlives the driver: set CheckpointConfig(store='filesystem', "
                "directory=...), or store='zookeeper://host:port/root'"
            )
        self.awaited = set(sources)
        for operator_id in sources:
            self._emit(EnumerateSplits(operator_id=operator_id))
        if durable:
            self.awaited.add(STORE)
            restores = event.restore_path is not None
            self._emit(RecoverCheckpoints(recover=event.recover, restores=restores, run=self.lineage.run))
        else:
            self._resolve(event)

    def _resolve(self, event: events.StartJob) -> None:
        if event.restore_path is not None:
            self.awaited.add(SNAPSHOT)
            self._emit(ResolveSnapshot(path=event.restore_path, later_output=event.later_output))

    def take(self, event: Answer) -> None:
        """Handle an answer. Raises ValueError if the job cannot start with it.

        After the last one the job can be deployed: Flink's `createAndRestoreExecutionGraph`.
        """
        match event:
            case events.CheckpointsRecovered():
                self._recovered(event)
            case events.SnapshotResolved():
                self._resolved(event)
            case events.LaterOutputDiscarded():
                self.awaited.discard(OUTPUT)
            case events.OrphansRemoved():
                self.awaited.discard(ORPHANS)
            case events.CheckpointStored():
                self.awaited.discard(SNAPSHOT)
            case events.CheckpointStoreFailed():
                # Without the entry, a later driver would not know who owns the snapshot.
                raise ValueError(f"snapshot {event.checkpoint_id} cannot be recorded in the store:  {event.error}")
            case _:
                assert_never(event)

    def _recovered(self, event: events.CheckpointsRecovered) -> None:
        """Take over what the last driver stored. Raises ValueError if that is impossible."""
        assert self.event is not None
        self.awaited.discard(STORE)
        self.lineage = event.lineage or self.lineage
        self._checkpoints.restore.recover(event.checkpoints, has_ended=bool(event.status))
        if event.status:
            return
        if self._checkpoints.store.latest is None:
            self._resolve(self.event)
        self.awaited.add(ORPHANS)
        stored = [each.stored.checkpoint_id for each in event.checkpoints]
        self._emit(remove_orphans(self._checkpoints.store.checkpoints, stored))

    def _resolved(self, event: events.SnapshotResolved) -> None:
        """Use the snapshot at `restore_path` as the latest checkpoint. Raises ValueError if it does not fit.

        Flink: `tryRestoreExecutionGraphFromSavepoint`.
        """
        assert self.event is not None
        self.awaited.discard(SNAPSHOT)
        covered = CoveredOutput.decode(event.covered_output)
        self.lineage = Lineage(self.lineage.run, covered)
        try:
            metadata = read_metadata(event.metadata, event.location)[0]
            loaded = load_and_validate(
                assignment_vertices(self._graph),
                metadata.operator_states,
                pointer=event.path,
                allow_non_restored_state=self.event.allow_non_restored_state,
            )
            self._checkpoints.restore.add_savepoint(
                replace(metadata, operator_states=tuple(loaded.values())),
                location=event.location,
                path=f"{event.location}/_metadata",
                claim_mode=self.event.claim_mode,
            )
        except ValueError as error:
            raise ValueError(f"{event.path}: {error}") from error
        if self._checkpoints.store.is_durable:
            self.awaited.add(SNAPSHOT)
        if self.event.later_output is LaterOutput.DISCARD:
            self.awaited.add(OUTPUT)
            self._emit(DiscardLaterOutput(location=event.location, covered=covered))

    def __repr__(self) -> str:
        return f"JobStart(awaits {', '.join(sorted(self.awaited)) or 'nothing'})"


def ended_before(event: events.CheckpointsRecovered) -> str:
    """Return the error of a driver that should resume a job that has ended."""
    text = f"the job had ended before this driver came: it is {event.status}"
    if not event.savepoint:
        return text
    return (
        f"{text}, stopped with the savepoint {event.savepoint}; to resume from that, start the job without recover "
        f"and with restore_path={event.savepoint!r}"
    )

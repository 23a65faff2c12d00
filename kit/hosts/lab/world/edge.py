"""The lab's edge: everything outside the machines, in memory, so that it can be copied with them.

A job reads real files. It writes checkpoints, savepoints and output to memory, and copies share the bytes. Durable
stores, including the ZooKeeper store, are files on the lab's disk.
"""

from __future__ import annotations

from collections.abc import Collection
from os import PathLike
from typing import TYPE_CHECKING

from kit.core.metadata import CheckpointMetadata, read_metadata
from kit.core.protocol.lineage import Lineage
from kit.files.disposal import dispose
from kit.files.entropy import entropy_of
from kit.files.job_files import JobFiles
from kit.files.local_state import LocalState
from kit.files.master_hooks import MasterHooks
from kit.files.memory_output import MemoryOutput
from kit.files.output import columns_of_sink, sink_called
from kit.files.storage import CheckpointStorage
from kit.files.stores.errors import LeadershipLostError
from kit.files.stores.file_records import FileRecords
from kit.files.stores.stores import DurableStore, MemoryStore
from kit.files.task_files import TaskFiles
from kit.filesystems.memory import MemoryFiles
from kit.hosts.lab.errors import LabError, enumerated, said
from kit.stream.graph.job_graph import JobGraph

if TYPE_CHECKING:
    import pandas as pd

CHECKPOINTS = "/checkpoints"
METADATA = "/_metadata"
LOCAL_STATE = "/local-state"
"""The directory of local state; each slot's machine has its own subdirectory."""


class LabEdge:
    """Files, output and hooks of one lab; `checkpoints` is the directory of checkpoints if not the job's own."""

    def __init__(
        self,
        job: JobGraph,
        hooks: MasterHooks,
        files: MemoryFiles,
        output: MemoryOutput,
        store: MemoryStore | DurableStore | None = None,
        checkpoints: str = "",
        lineage: Lineage | None = None,
    ) -> None:
        self.files = files
        self.output = output
        self.hooks = hooks
        self._job = job
        self._checkpoints = checkpoints
        settings = job.settings.checkpoint
        storage = self._storage = self._storage_on(files)
        self.store = store or (DurableStore(FileRecords(storage)) if settings.is_durable else MemoryStore())
        self.for_job = JobFiles(job, storage, hooks, self.store, output, lineage=lineage)
        local = LocalState(LOCAL_STATE, job.job_id, files.filesystem) if settings.local_recovery else None
        self.for_tasks = TaskFiles(job, storage, output, local)

    def snapshots(self) -> dict[str, CheckpointMetadata]:
        """Return the directories on the disk with a `_metadata`, and its content, in the order of their checkpoints."""
        found = {
            path.removesuffix(METADATA): data for path, data in self.files.contents.items() if path.endswith(METADATA)
        }
        read = {path: read_metadata(data, path)[0] for path, data in found.items()}
        return dict(sorted(read.items(), key=lambda each: each[1].checkpoint_id))

    def check_restore_path(self, path: object) -> None:
        """Raise LabError unless the path is a snapshot on the lab's disk."""
        there = [found.removesuffix(METADATA) for found in self.files.paths() if found.endswith(METADATA)]
        if not isinstance(path, str | PathLike):
            raise LabError(f"restore_path is {path!r}, but must be the path of a checkpoint or savepoint")
        try:
            self._storage.resolve(path)
        except (OSError, ValueError) as error:
            holds = enumerated(there, "no snapshot")
            hint = "" if there else "; give after=<the lab that wrote it>, for a lab's files lie in memory"
            raise LabError(said(f"restore_path: {error}", f"the lab's disk holds {holds}{hint}")) from None

    def dispose(self, path: str, in_use: Collection[str]) -> None:
        """Delete a snapshot on the lab's disk (`kit.files.disposal.dispose`)."""
        dispose(self._storage, path, in_use)

    def sink_path(self, sink: str) -> str:
        """Return the path of the named sink. Raises LabError, with all sinks, if no sink matches, or several do."""
        try:
            return sink_called(self._job, sink, self.output.directories())
        except ValueError as error:
            raise LabError(str(error)) from None

    def rows(self, path: str) -> pd.DataFrame:
        """Return the rows that the sink with this path has published; without rows, a frame of its columns."""
        return self.output.read(path, columns_of_sink(self._job, path))

    def leads(self) -> bool:
        """Return True if this lab's driver leads the job in a durable store."""
        try:
            self.store.check_leadership()
        except LeadershipLostError:
            return False
        return self.store.leads() is not None

    def replace_leader(self, driver: str) -> None:
        """Have another driver take the leadership in the durable store, and do nothing else."""
        FileRecords(self._storage).lead(driver)

    def __deepcopy__(self, memo: dict[int, object]) -> LabEdge:
        """Copy the files for a lab that is forked or rewound; the hooks are the user's, and are shared."""
        files = self.files.copy()
        store, lineage = self._store_on(files), self.for_job.lineage
        return LabEdge(self._job, self.hooks, files, self.output.copy(), store, self._checkpoints, lineage)

    def _storage_on(self, files: MemoryFiles) -> CheckpointStorage:
        settings = self._job.settings.checkpoint
        return CheckpointStorage(
            self._checkpoints or settings.directory or CHECKPOINTS,
            self._job.job_id,
            settings.default_savepoint_directory,
            settings.memory_threshold_bytes,
            files.filesystem,
            entropy=entropy_of(settings),
        )

    def _store_on(self, files: MemoryFiles) -> MemoryStore | DurableStore:
        """Return this driver's store on a copy of its files, with the same driver as the leader."""
        if isinstance(self.store, MemoryStore):
            return self.store.copy()
        records = self.store.records
        assert isinstance(records, FileRecords)
        return DurableStore(records.copy(self._storage_on(files)))

"""A checkpoint with incremental state, as Flink's RocksDB backend leaves it, on a lab's disk.

The kit's own backend writes all of its state each time, so its files are never shared. The files of a Flink job may be.
Scenarios start from such a checkpoint, and show what happens to its shared files.
"""

from __future__ import annotations

from kit.core.metadata import CheckpointMetadata, write_metadata
from kit.core.protocol.properties import CheckpointProperties, RetentionPolicy
from kit.core.state.handles import FileStateHandle, HandleAndLocalPath, IncrementalRemoteKeyedStateHandle, KeyGroupRange
from kit.core.state.operator_state import OperatorState, OperatorSubtaskState
from kit.filesystems.memory import MemoryFiles

MAX_PARALLELISM = 8
SHARED = ("000009.sst", "000012.sst")
"""The tables of each subtask, written by an earlier checkpoint that no longer exists."""


def leave_incremental_snapshot(files: MemoryFiles, path: str, checkpoint_id: int, operator_id: str) -> None:
    """Write the checkpoint into the directory `path`, and its shared files beside that directory.

    The operator has two subtasks, each with two shared tables and two files of its own.
    """
    root = path.rpartition("/")[0]
    subtasks = {
        subtask: OperatorSubtaskState(managed_keyed_state=(_state(files, path, root, checkpoint_id, subtask),))
        for subtask in range(2)
    }
    metadata = CheckpointMetadata(
        checkpoint_id,
        (OperatorState(operator_id, 2, MAX_PARALLELISM, subtasks),),
        properties=CheckpointProperties.for_checkpoint(RetentionPolicy.RETAIN_ON_CANCELLATION),
    )
    files.contents[f"{path}/_metadata"] = write_metadata(metadata)


def _state(
    files: MemoryFiles, path: str, root: str, checkpoint_id: int, subtask: int
) -> IncrementalRemoteKeyedStateHandle:
    def file(name: str, holds: str) -> FileStateHandle:
        files.contents[name] = holds.encode()
        return FileStateHandle(name, len(holds))

    half = MAX_PARALLELISM // 2
    shared = tuple(
        HandleAndLocalPath(name, file(f"{root}/shared/{subtask}-{name}", f"table {name} of subtask {subtask}"))
        for name in SHARED
    )
    own = (HandleAndLocalPath("MANIFEST", file(f"{path}/{subtask}-MANIFEST", f"which tables subtask {subtask} has")),)
    return IncrementalRemoteKeyedStateHandle(
        f"backend-{subtask}",
        KeyGroupRange(subtask * half, (subtask + 1) * half - 1),
        checkpoint_id,
        shared,
        own,
        file(f"{path}/{subtask}-meta", f"what subtask {subtask} keeps"),
        sum(each.state_size for each in (*shared, *own)),
    )

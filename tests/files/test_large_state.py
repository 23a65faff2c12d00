"""State that may exceed memory: it is written, and copied, piece by piece, and never entirely in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kit import CollectionSource, CollectSink, StreamEnvironment
from kit.core.protocol.commands import WriteSnapshot
from kit.core.protocol.events import SnapshotFailed, SnapshotWritten
from kit.core.protocol.snapshots import SnapshotPart
from kit.core.state.handles import KeyGroupRange
from kit.core.state.subtask_state_kind import SubtaskStateKind
from kit.files.local_state import LocalState
from kit.files.memory_output import MemoryOutput
from kit.files.storage import CheckpointStorage
from kit.files.task_files import TaskFiles
from kit.filesystems.memory import MemoryFiles
from kit.hosts.spark.slot.spill_directory import SpillDirectory

JOB, NAME = "0" * 32, "ab-0-1-keyed"
PIECES = [bytes([number]) * 10_000 for number in range(50)]
CONTENT = b"".join(PIECES)


def files(storage: CheckpointStorage, local: LocalState | None, temporary: SpillDirectory | None) -> TaskFiles:
    """Return the files of a task; what it writes does not depend on its job."""
    env = StreamEnvironment("pieces")
    env.from_source(CollectionSource([{"n": 1}]), uid="rows").sink_to(CollectSink("out"), uid="out")
    return TaskFiles(env.job_graph(), storage, MemoryOutput(), local, temporary)


def snapshot(storage: CheckpointStorage, write: Callable[[Callable[[Any], object]], Any]) -> WriteSnapshot:
    """Return the command for a snapshot that nothing but `write` can encode."""
    location = storage.initialize_location_for_checkpoint(1).directory

    def encode() -> tuple[Any, Any]:
        raise AssertionError("all of it would be in memory")

    part = SnapshotPart("ab" * 16, SubtaskStateKind.MANAGED_KEYED, NAME, encode, KeyGroupRange(0, 0), write)
    return WriteSnapshot(checkpoint_id=1, location=location, subtask=0, parts=(part,), effects=())


def in_pieces(out: Callable[[Any], object]) -> tuple[int, ...]:
    for piece in PIECES:
        out(piece)
    return (0,)


def of(answer: Any) -> Any:
    """Return the handle of the file that was written."""
    assert isinstance(answer, SnapshotWritten)
    (state,) = answer.state.subtask_states.values()
    (handle,) = state.managed_keyed_state
    return handle.delegate


def test_a_copy_is_written_with_its_file(tmp_path: Path) -> None:
    storage, local = CheckpointStorage(tmp_path / "checkpoints", JOB), LocalState(str(tmp_path / "local"), JOB)
    handle = of(files(storage, local, None).carry_out(snapshot(storage, in_pieces)))
    assert storage.read(handle).to_pybytes() == CONTENT
    (copy,) = (path for path in (tmp_path / "local").rglob("*") if path.is_file())
    other = LocalState(str(tmp_path / "at once"), JOB)
    other.store(0, 1, NAME, CONTENT)
    (at_once,) = (path for path in (tmp_path / "at once").rglob("*") if path.is_file())
    assert copy.name == at_once.name
    read_copy = local.run_reader()(handle)
    assert read_copy is not None
    assert read_copy.to_pybytes() == CONTENT


@pytest.mark.parametrize("written", [1, 49])
def test_a_state_that_cannot_be_written_leaves_no_copy(written: int, tmp_path: Path) -> None:
    storage, local = CheckpointStorage(tmp_path / "checkpoints", JOB), LocalState(str(tmp_path / "local"), JOB)

    def ends_early(out: Callable[[Any], object]) -> Any:
        for piece in PIECES[:written]:
            out(piece)
        raise OSError("the disk is gone")

    assert isinstance(files(storage, local, None).carry_out(snapshot(storage, ends_early)), SnapshotFailed)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_copy_on_a_full_disk_costs_nothing_else(tmp_path: Path) -> None:
    """The device `/dev/full` has no room: a link to it stands where the copy has its unfinished file."""
    storage, local = CheckpointStorage(tmp_path / "checkpoints", JOB), LocalState(str(tmp_path / "local"), JOB)
    unfinished = tmp_path / "local" / "slot-0" / "chk-1" / f".{NAME}.part"
    unfinished.parent.mkdir(parents=True)
    unfinished.symlink_to("/dev/full")
    handle = of(files(storage, local, None).carry_out(snapshot(storage, in_pieces)))
    assert storage.read(handle).to_pybytes() == CONTENT
    assert not unfinished.is_symlink(), "it was used, and deleted"
    assert local.run_reader()(handle) is None


def test_an_object_store_gets_the_file_whole_from_the_disk(tmp_path: Path) -> None:
    """An object appears in one step: the pieces are collected on the machine's disk, which keeps nothing."""
    objects = MemoryFiles()
    storage = CheckpointStorage("/checkpoints", JOB, file_system=objects.filesystem)
    handle = of(files(storage, None, SpillDirectory(str(tmp_path))).carry_out(snapshot(storage, in_pieces)))
    assert storage.read(handle).to_pybytes() == CONTENT
    assert list(tmp_path.iterdir()) == []

"""A full disk: every writer reports it with a remedy, and leaves nothing that looks complete.

The device `/dev/full` has no room. A link to it stands where a writer has its unfinished file.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from kit.core.protocol.snapshots import Effect
from kit.files import output_files
from kit.files.files_in_progress import FilesInProgress
from kit.files.storage import CheckpointStorage
from kit.files.stores.file_records import FileRecords
from kit.filesystems.file_system import reason
from kit.filesystems.local_disk import LocalDisk
from kit.hosts.spark.edge import SparkOutput
from kit.stream.connectors import CommitError, Sink
from kit.stream.connectors.part_names import staging_directory
from tests.stream.connectors.parts import paths_of_part

JOB = "ab" * 16
TABLE = pa.table({"n": range(100_000)})
FULL = "No space left on device; free space there$"


def full(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to("/dev/full")


def write_state(place: Path) -> None:
    storage = CheckpointStorage(place, JOB, memory_threshold_bytes=0)
    location = storage.initialize_location_for_checkpoint(7)
    full(Path(location.directory, ".state.part"))
    storage.to_handle(bytes(100_000), location, "state")


def stream_state(place: Path) -> None:
    storage = CheckpointStorage(place, JOB, memory_threshold_bytes=0)
    location = storage.initialize_location_for_checkpoint(7)
    full(Path(location.directory, ".state.part"))
    with storage.create_stream(location, "state") as stream:
        stream.write(bytes(100_000))
        stream.close_and_get_handle()


def write_metadata(place: Path) -> None:
    storage = CheckpointStorage(place, JOB)
    location = storage.initialize_location_for_checkpoint(7)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalDisk, "create", lambda disk, path: pa.OSFile("/dev/full", "wb"))
        storage.write_metadata(location, bytes(100_000))


def write_record(place: Path) -> None:
    records = FileRecords(CheckpointStorage(place, JOB))
    records.lead("driver")
    full(place / JOB / "store" / ".leader-1-run.part")
    records.write("run", bytes(100))


@pytest.mark.parametrize("write", [write_state, stream_state, write_metadata, write_record])
def test_a_checkpoint_says_that_there_is_no_room_for_it(tmp_path: Path, write: Callable[[Path], None]) -> None:
    with pytest.raises(OSError, match=rf"^Cannot write '{tmp_path}.*: {FULL}"):
        write(tmp_path)
    assert not [path for path in tmp_path.rglob("*") if path.name in ("state", "_metadata", "run")]


def stage_table(place: Path) -> None:
    sink = Sink(str(place))
    effect = Effect("sink", *paths_of_part(sink, 7), TABLE)
    full(Path(f"{effect.staged}.unfinished"))
    output_files.stage(effect)


def write_in_progress(place: Path) -> None:
    output = SparkOutput("", in_progress=FilesInProgress("token"))
    path = f"{staging_directory(str(place), 'job')}/some.parquet"
    full(Path(path.replace("some", "some-token")))
    output.write(path, TABLE, first=True, last=True)


@pytest.mark.parametrize("write", [stage_table, write_in_progress])
def test_a_sink_says_that_there_is_no_room_for_its_rows(tmp_path: Path, write: Callable[[Path], None]) -> None:
    with pytest.raises(CommitError, match=rf"^output directory {tmp_path} cannot be written: {FULL}"):
        write(tmp_path)
    assert output_files.published_files(str(tmp_path)) == []


def test_a_quota_is_told_from_a_path_that_may_not_be_used() -> None:
    assert reason(OSError(122, "Disk quota exceeded"), "look") == (
        "Disk quota exceeded; free space there, or have the quota raised"
    )
    assert reason(PermissionError(13, "Permission denied"), "look") == "[Errno 13] Permission denied; look"
    assert reason(OSError("lost")) == "lost"

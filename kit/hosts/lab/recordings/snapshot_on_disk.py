"""The initial files and output of a recorded run that resumed from a snapshot on a real disk.

The snapshot's files are read into the lab's memory, under their own paths. From the output of the earlier run, the lab
has the rows that this run publishes again: those staged with the snapshot, which may have been published since.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kit.core.metadata import MetadataError, read_metadata
from kit.core.protocol.snapshots import Effect
from kit.files.memory_output import MemoryOutput
from kit.filesystems.memory import MemoryFiles
from kit.filesystems.places import open_path
from kit.hosts.lab.errors import LabError
from kit.stream.connectors.sink import MEMORY


class OutputOfAnEarlierRun(MemoryOutput):
    """Tables in memory. Rows that were not staged here were staged by the earlier run, and may be published; they are
    read from the disk. Rows that no longer exist, such as those collected in memory, are left out.
    """

    def commit(self, effects: Iterable[Effect]) -> None:
        """Publish rows; idempotent."""
        super().commit([effect for effect in effects if effect.staged in self.staged or self._is_there(effect)])

    def _is_there(self, effect: Effect) -> bool:
        import pyarrow.parquet as pq

        for path in (effect.final, effect.staged):
            if effect.final not in self.published and not path.startswith(MEMORY):
                system, inner = open_path(path)
                if system.is_file(inner):
                    self.published[effect.final] = pq.ParquetFile(system.open_file(inner)).read()
        return effect.final in self.published


@dataclass(frozen=True)
class Before:
    """Files and output that exist when a lab starts."""

    files: MemoryFiles
    output: MemoryOutput = field(default_factory=OutputOfAnEarlierRun)


def snapshot_on_disk(path: str) -> Before:
    """Read all files of the checkpoint or savepoint at `path`. Raises LabError, with what to do, if one is missing."""
    location = path.removesuffix("/_metadata").rstrip("/")
    data = _bytes_of(f"{location}/_metadata", location)
    try:
        metadata, _ = read_metadata(data, location)
    except MetadataError as error:
        raise LabError(f"this run went on from the snapshot {location}, which cannot be read: {error}") from error
    files = {file for state in metadata.operator_states for file in state.files()}
    contents = {file: _bytes_of(file, location) for file in sorted(files)}
    return Before(MemoryFiles({f"{location}/_metadata": data, **contents}))


def _bytes_of(file: str, location: str) -> bytes:
    system, inner = open_path(file)
    try:
        return system.read_range(inner).to_pybytes()
    except OSError as error:
        raise LabError(
            f"this run went on from the snapshot {location}, and {file} cannot be read: {error}\n"
            "put the snapshot back, or give after=<the lab that did the earlier run again>"
        ) from error

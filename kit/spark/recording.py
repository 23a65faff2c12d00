"""A run's recording: each process writes down what its machines handle, and the driver gathers that at the end.

An event is in the file before any of the commands that it led to is carried out. What a process has written to a file
stays when the process is killed, so whatever others have had from a killed worker is in that worker's file, although
the last records of its trace have gone with it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from kit.protocol.schedule import Handled, Schedule, facts_of
from kit.protocol.words import Word

DRIVER = "driver"
SUFFIX = ".events"

_encode = json.JSONEncoder(separators=(",", ":")).encode


class EventFile:
    """Where the process `name` writes down events, below `directory`. Raises OSError when nothing can be written."""

    def __init__(self, directory: str, name: str) -> None:
        self.path = Path(directory, name + SUFFIX)
        try:
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        except OSError as error:
            raise OSError(
                f"{name} cannot write down what it does: {error}; give SparkJob(record=...) a directory that the "
                "driver and all workers can write to"
            ) from error

    def add(self, event_id: str, at_ms: int, event: Word, cause: str) -> None:
        """Write an event down; it is there when this returns, though the process is killed at once."""
        line = _encode([event_id, at_ms, type(event).__name__, cause, facts_of(event)]) + "\n"
        os.write(self._file, line.encode())

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)

    def __repr__(self) -> str:
        return f"EventFile({self.path})"


def slot_process(epoch: int, slot: int) -> str:
    """The name of the process of a slot."""
    return f"epoch {epoch} slot {slot}"


def read_schedule(directory: str, job_id: str, checkpoints: str) -> Schedule:
    """What the processes wrote below `directory`."""
    processes = {path.stem: list(_events_in(path)) for path in sorted(Path(directory).glob(f"*{SUFFIX}"))}
    return Schedule(processes, host="spark", job_id=job_id, checkpoints=checkpoints)


def _events_in(path: Path) -> Iterator[Handled]:
    """All but a last line that its process did not come to end."""
    for line in path.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):
            yield Handled(*json.loads(line))

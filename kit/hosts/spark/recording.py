"""A run's recording: each process writes down what its machines handle, and the driver gathers that at the end. What a
driver has left that died is read by `recorded`.

An event is in the file before any of the commands that it led to is carried out. What a process has written to a file
stays when the process is killed, so whatever others have had from a killed worker is in that worker's file, although
the last records of its trace have gone with it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kit.core.protocol.schedule import Handled, Schedule, facts_of
from kit.core.protocol.trace import Trace
from kit.core.protocol.words import Word

DRIVER = "driver"
SUFFIX = ".events"

_encode = json.JSONEncoder(separators=(",", ":")).encode


class EventFile:
    """Where the process `name` writes down events, below `directory`. Raises OSError when nothing can be written."""

    def __init__(self, directory: str, name: str) -> None:
        self.path = Path(directory, name + SUFFIX)
        try:
            self._file = self.path.open("xb", buffering=0)  # what is written survives the process
        except OSError as error:
            raise OSError(
                f"{name} cannot write down what it does: {error}; give SparkJob(record=...) a directory that the "
                "driver and all workers can write to"
            ) from error

    def begin(self, job_id: str, checkpoints: str) -> None:
        """Write down whose events these are, and where its checkpoints go: the driver, before all else."""
        self._write([job_id, checkpoints])

    def add(self, event_id: str, at_ms: int, event: Word, cause: str) -> None:
        """Write an event down; it is there when this returns, though the process is killed at once."""
        self._write([event_id, at_ms, type(event).__name__, cause, facts_of(event)])

    def add_done(self, command_id: str) -> None:
        """Write down that a command was carried out, of which its machine may never hear: output may be published."""
        with contextlib.suppress(ValueError):  # the slot did not wait so long
            self._write([command_id])

    def _write(self, line: list[Any]) -> None:
        self._file.write(_encode(line).encode() + b"\n")

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def __repr__(self) -> str:
        return f"EventFile({self.path})"


def slot_process(epoch: int, slot: int) -> str:
    """The name of the process of a slot."""
    return f"epoch {epoch} slot {slot}"


def read_schedule(directory: str | os.PathLike[str]) -> Schedule:
    """What the processes wrote below `directory`."""
    processes: dict[str, list[Handled]] = {}
    run = {"job_id": "", "checkpoints": ""}
    done: set[str] = set()
    for path in sorted(Path(directory).glob(f"*{SUFFIX}")):
        events = processes[path.stem] = []
        for line in _lines_in(path):
            if len(line) == 1:
                done.add(line[0])
            elif len(line) == len(run):
                run = dict(zip(run, line, strict=True))
            else:
                events.append(Handled(*line))
    return Schedule(processes, host="spark", done=done, **run)


def recorded(directory: str | os.PathLike[str]) -> Trace:
    """The run that wrote its recording below `directory`, up to where its driver died: a trace without records, which
    `Lab.follow` does again. `directory` is what `SparkJob(record=directory)` was given, or the `recording-...` in it,
    if there are several.

    Raises FileNotFoundError where there is no recording, ValueError where there are several.
    """
    runs = sorted({path.parent for path in Path(directory).glob(f"**/{DRIVER}{SUFFIX}")})
    if not runs:
        raise FileNotFoundError(f"below {os.fspath(directory)} no driver has recorded a run: no {DRIVER}{SUFFIX}")
    if len(runs) > 1:
        raise ValueError(f"{len(runs)} runs are recorded below {os.fspath(directory)}: {', '.join(map(str, runs))}")
    return Trace(schedule=read_schedule(runs[0]))


def _lines_in(path: Path) -> Iterator[list[Any]]:
    """All but a last line that its process did not come to end."""
    for line in path.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):
            yield json.loads(line)

"""The recording of a run: each process writes down the events of its machines, and the driver collects them at the end.
`recorded` reads the files that a dead driver has left.

An event is in the file before any of its commands is carried out. Data written to a file survives when the process is
killed. So everything that others received from a killed worker is in that worker's file, although the last records of
its trace are lost.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kit.core.protocol.words import ProtocolMessage
from kit.core.trace.schedule import Handled, Schedule, facts_of
from kit.core.trace.trace import Trace
from kit.stream.settings.setting_rules import SlotSharing

DRIVER = "driver"
SUFFIX = ".events"

_encode = json.JSONEncoder(separators=(",", ":")).encode


class EventFile:
    """The file below `directory` to which process `name` writes its events. Raises OSError if it cannot be written."""

    def __init__(self, directory: str, name: str) -> None:
        self.path = Path(directory, name + SUFFIX)
        try:
            self._file = self.path.open("xb", buffering=0)  # written data survives the process
        except OSError as error:
            raise OSError(
                f"{name} cannot write down what it does: {error}; give SparkJob(record=...) a directory that the "
                "driver and all workers can write to"
            ) from error

    def begin(self, job_id: str, checkpoints: str, sharing: SlotSharing) -> None:
        """Write the job's id, its checkpoint directory and what shares its slots. The driver does this first of all."""
        self._write([job_id, checkpoints, sharing.value])

    def add(self, event_id: str, at_ms: int, event: ProtocolMessage, cause: str) -> None:
        """Write an event. Once this returns, the event survives even if the process is killed."""
        self._write([event_id, at_ms, type(event).__name__, cause, facts_of(event)])

    def add_done(self, command_id: str) -> None:
        """Write that a command was carried out; its machine may never get the answer, but output may be published."""
        with contextlib.suppress(ValueError):  # the slot did not wait that long
            self._write([command_id])

    def _write(self, line: list[Any]) -> None:
        self._file.write(_encode(line).encode() + b"\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __repr__(self) -> str:
        return f"EventFile({self.path})"


def slot_process(epoch: int, slot: int, attempt: int) -> str:
    """Return the name of the process of a slot, in an attempt that may have begun after the epoch."""
    return f"epoch {epoch} slot {slot}" if attempt == epoch else f"epoch {epoch} slot {slot} attempt {attempt}"


def read_schedule(directory: str | os.PathLike[str]) -> Schedule:
    """Read the schedule that the processes wrote below `directory`."""
    processes: dict[str, list[Handled]] = {}
    run = {"job_id": "", "checkpoints": "", "slot_sharing": SlotSharing.JOB.value}
    done: set[str] = set()
    for path in sorted(Path(directory).glob(f"*{SUFFIX}")):
        events = processes[path.stem] = []
        for line in _lines_in(path):
            if len(line) == 1:
                done.add(line[0])
            elif len(line) <= len(run):
                run |= dict(zip(run, line, strict=False))  # the recordings of older versions say less
            else:
                events.append(Handled(*line))
    return Schedule(processes, host="spark", done=done, **run)


def recorded(directory: str | os.PathLike[str]) -> Trace:
    """Return the run whose recording is below `directory`, up to the point where its driver died.

    The trace has no records; `Lab.follow` repeats it. `directory` is the argument of `SparkJob(record=directory)`, or,
    if it has several recordings, one of its `recording-...` directories.

    Raises FileNotFoundError if there is no recording, ValueError if there are several.
    """
    runs = sorted({path.parent for path in Path(directory).glob(f"**/{DRIVER}{SUFFIX}")})
    if not runs:
        raise FileNotFoundError(f"below {os.fspath(directory)} no driver has recorded a run: no {DRIVER}{SUFFIX}")
    if len(runs) > 1:
        raise ValueError(f"{len(runs)} runs are recorded below {os.fspath(directory)}: {', '.join(map(str, runs))}")
    return Trace(schedule=read_schedule(runs[0]))


def _lines_in(path: Path) -> Iterator[list[Any]]:
    """Yield all lines, except a last one that its process did not finish."""
    for line in path.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):
            yield json.loads(line)

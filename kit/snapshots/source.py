"""The sources of a snapshot: a directory, or a run, whose trace shows what was copied, written and acknowledged.

The trace alone gives the layout of the bytes, at any moment of the run. Values need the files: a lab's are in memory,
those of a job on Spark in its checkpoint directory. Files that no longer exist, for example of a subsumed checkpoint,
are reported.
"""

from __future__ import annotations

import copy
import posixpath
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from os import PathLike, fspath
from typing import Any

from kit.core.metadata import CheckpointMetadata, MetadataSection, metadata_sections, read_metadata
from kit.core.protocol.commands import WriteSnapshot
from kit.core.protocol.events import MetadataWritten, SnapshotWritten
from kit.core.protocol.loggable import loggable
from kit.core.protocol.messages import (
    AcknowledgeCheckpoint,
    ChannelStateWritten,
    DeclineCheckpoint,
    TriggerTaskCheckpoint,
)
from kit.core.protocol.notes import CheckpointCompleted, TaskAcknowledged
from kit.core.protocol.tasks import split_task_name
from kit.core.state.errors import StateError
from kit.core.state.handles import ByteStreamStateHandle
from kit.core.state.operator_state import OperatorState
from kit.core.trace.trace import TraceRecord
from kit.files.storage import StateFiles
from kit.run.moments.job_state import COMPLETED, PENDING, task_of
from kit.run.run import of_look
from kit.run.subject import Subject
from kit.snapshots.leaf_streams import streams_of
from kit.snapshots.pieces import COORDINATOR, LoggedState, Piece, pieces_of, settled
from kit.stream.graph.hashing import operator_id_of_uid


@dataclass(slots=True)
class TaskPart:
    """The progress of one task's snapshot; times in ms, None for what has not happened.

    `copied_ms` is the end of the synchronous phase; `written_ms` that of the asynchronous phase, with `bytes` written;
    `channels_ms` is the time at which its in-flight data was written, `channel_bytes` of it; `acked_ms` the time at
    which the coordinator received its acknowledgement. `parts` are the kinds and names of the files being written.
    """

    copied_ms: int | None = None
    written_ms: int | None = None
    sync_ms: int | None = None
    bytes: int = 0
    channels_ms: int | None = None
    channel_bytes: int = 0
    acked_ms: int | None = None
    declined: bool = False
    parts: tuple[tuple[str, str, str], ...] = ()
    states: Mapping[str, LoggedState] = field(default_factory=dict)
    channels: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The known facts about one checkpoint or savepoint at a moment."""

    checkpoint_id: int
    status: str
    pieces: tuple[Piece, ...]
    tasks: Mapping[str, TaskPart] = field(default_factory=dict)
    path: str = ""
    data: bytes | None = None
    metadata: CheckpointMetadata | None = None
    sections: tuple[MetadataSection, ...] = ()
    inline_at: Mapping[str, int] = field(default_factory=dict)
    files: StateFiles | None = None
    note: str = ""
    began_ms: int = 0
    """The start of the run, by the clock of its host."""

    @property
    def size(self) -> int:
        """The bytes of all pieces, headers included."""
        return sum({(piece.file, piece.inline, piece.start): piece.size for piece in self.pieces}.values())


def snapshot_at(where: str | PathLike[str], files: StateFiles | None = None) -> Snapshot:
    """Return the snapshot in a directory, or of this `_metadata`. Raises SavepointNotFoundError or MetadataError."""
    files = files or StateFiles()
    found = files.resolve(fspath(where))
    return _with_metadata(Snapshot(0, COMPLETED, (), path=found.metadata_path, files=files), found.metadata)


def snapshot_of(subject: Subject, *, then: bool = False) -> Snapshot | None:
    """Return the subject's checkpoint; None if there was none by then. With `then`, deleted files are read from a lab's
    past.
    """
    number = subject.checkpoint_id
    if number is None or number not in subject.moment.checkpoints:
        return None
    known = subject.moment.checkpoints[number]
    parts, path = _parts(subject.trace, number)
    names = operator_names(subject)
    pieces = settled(_pieces(parts, names))
    snapshot = Snapshot(number, known.status, tuple(pieces), parts, path, began_ms=subject.moment.began_ms)
    if known.status == PENDING and not path:
        return snapshot
    files = files_of(subject.thing)
    data = _metadata_in(files, path)
    past = _files_then(subject, number) if then and path and data is None else None
    if past is not None:
        files, data = past, _metadata_in(past, path)
        snapshot = replace(snapshot, note=_gone(subject, number, path, then=True))
    if data is None:
        return replace(snapshot, note=_gone(subject, number, path))
    return _with_metadata(replace(snapshot, files=files), data, names)


def _metadata_in(files: StateFiles, path: str) -> bytes | None:
    try:
        return files.read(path).to_pybytes() if path else None
    except (OSError, StateError):
        return None


def _files_then(subject: Subject, number: int) -> StateFiles | None:
    """Return a lab's disk at the completion of the checkpoint; None if the run cannot go back to it."""
    lab = subject.thing
    if not callable(getattr(getattr(lab, "past", None), "position_of", None)):
        return None
    for place, record in enumerate(subject.trace):
        if record.is_a(CheckpointCompleted) and record.checkpoint_id == number:
            return files_of(lab.fork().goto(lab.past.position_of(place + 1)))
    return None


def looking_at(subject: Subject, checkpoint: int) -> Subject:
    """Return the same moment of the same run with another checkpoint; cached results are kept."""
    other = copy.copy(subject)
    object.__setattr__(other, "checkpoint", checkpoint)
    return other


def files_of(thing: Any) -> StateFiles:
    """Return the file system of a run: a lab's own disk, or the machine's."""
    own = of_look(thing, "files")
    return StateFiles(getattr(own, "filesystem", None))


def operator_names(subject: Subject) -> dict[str, str]:
    """Return the known operators of a run by id; a trace has the ids of those with a uid."""
    names = {operator_id_of_uid(each.uid): each.name for each in subject.stage.operators if each.uid is not None}
    job = getattr(subject.thing, "job", None)
    for vertex in getattr(job, "vertices", ()):
        names.update({operator.operator_id: operator.name for operator in vertex.operators})
    return names


def _gone(subject: Subject, number: int, path: str, *, then: bool = False) -> str:
    later = [each.checkpoint_id for each in subject.moment.checkpoints.values() if each.status == COMPLETED]
    newer = [each for each in later if each > number]
    if not path:
        return "Its _metadata was never written."
    if newer or then:
        why = f": checkpoint {min(newer)} took its place" if newer else ""
        note = "They are shown as they were when it was complete." if then else "The trace tells what they held."
        return f"Its files are not there any more{why}. {note}"
    return (
        "Its files are gone, or cannot be read from here: what is told is what the trace kept, so values are missing."
    )


# --- from a trace -----------------------------------------------------------------------------------------------------


def _parts(trace: Iterable[TraceRecord], number: int) -> tuple[dict[str, TaskPart], str]:
    """Return the progress of each task, and the path of the metadata."""
    parts: dict[str, TaskPart] = {}
    path = ""
    for record in trace:
        if record.checkpoint_id != number:
            continue
        step = _STEPS.get((record.role, record.kind))
        if step is not None:
            task = record.note(TaskAcknowledged).task if step is _acked else task_of(record)
            step(parts.setdefault(task, TaskPart()), record)
        elif record.is_a(MetadataWritten):
            path = record.data["path"]
    return parts, path


def _copied(part: TaskPart, record: TraceRecord) -> None:
    part.copied_ms = record.at_ms
    part.parts = tuple((each["operator_id"], each["kind"], each["file_name"]) for each in record.data["parts"])


def _written(part: TaskPart, record: TraceRecord) -> None:
    part.written_ms, part.bytes = record.at_ms, record.data["bytes_written"]
    part.sync_ms = record.data.get("sync_ms")
    part.copied_ms = record.at_ms if part.copied_ms is None else part.copied_ms
    part.states = record.data["state"]["subtask_states"]


def _channels(part: TaskPart, record: TraceRecord) -> None:
    part.channels_ms, part.channel_bytes = record.at_ms, record.data["bytes_written"]
    part.channels = record.data


def _sent(part: TaskPart, record: TraceRecord) -> None:
    state = record.data.get("state")
    if state:
        part.states, part.channels = state["subtask_states"], {}


def _acked(part: TaskPart, record: TraceRecord) -> None:
    part.acked_ms = record.at_ms


def _declined(part: TaskPart, record: TraceRecord) -> None:
    part.declined = True


_STEPS: dict[tuple[str, str], Callable[[TaskPart, TraceRecord], None]] = {
    ("event", TriggerTaskCheckpoint.__name__): lambda part, record: None,  # a part exists from then on
    ("command", WriteSnapshot.__name__): _copied,
    ("event", SnapshotWritten.__name__): _written,
    ("event", ChannelStateWritten.__name__): _channels,
    ("command", AcknowledgeCheckpoint.__name__): _sent,
    ("command", TaskAcknowledged.__name__): _acked,
    ("command", DeclineCheckpoint.__name__): _declined,
}


def _pieces(parts: Mapping[str, TaskPart], names: Mapping[str, str]) -> list[Piece]:
    found: list[Piece] = []
    for task, part in parts.items():
        vertex, subtask = split_task_name(task)
        for operator_id, state in part.states.items():
            found += pieces_of(operator_id, names.get(operator_id, operator_id[:8]), subtask, state)
        if part.channels:
            fields = {"input_channel_state": "input_handles", "result_subpartition_state": "output_handles"}
            handles = {name: part.channels.get(field, ()) for name, field in fields.items()}
            found += pieces_of("", vertex, subtask, handles)
    return found


# --- from files -------------------------------------------------------------------------------------------------------


def _with_metadata(snapshot: Snapshot, data: bytes, names: Mapping[str, str] | None = None) -> Snapshot:
    """Return the snapshot with the content of its `_metadata`, which is complete."""
    base = posixpath.dirname(snapshot.path)
    metadata, sections, inline_at = _parsed(data, base)
    found: list[Piece] = []
    for state in metadata.operator_states:
        label = state.name or (names or {}).get(state.operator_id) or state.label
        for subtask, each in state.subtask_states.items():
            found += pieces_of(state.operator_id, label, subtask, loggable(each))
        if state.coordinator_state is not None:
            found.append(_coordinator(label, state))
    return replace(
        snapshot,
        checkpoint_id=metadata.checkpoint_id,
        pieces=tuple(settled(found)),
        data=data,
        metadata=metadata,
        sections=sections,
        inline_at=inline_at,
    )


@lru_cache(maxsize=16)
def _parsed(data: bytes, base: str) -> tuple[CheckpointMetadata, tuple[MetadataSection, ...], Mapping[str, int]]:
    """Return the content of a `_metadata` file, its sections, and the places of inline state; cached."""
    metadata, version = read_metadata(data, base)
    return metadata, tuple(metadata_sections(data, base, version)), _places(data, metadata)


def _coordinator(label: str, state: OperatorState) -> Piece:
    handle = state.coordinator_state
    assert handle is not None
    return Piece(
        label,
        None,
        COORDINATOR,
        "",
        handle.handle_name,
        True,
        0,
        handle.state_size,
        type(handle).__name__,
        operator_id=state.operator_id,
    )


def inline_bytes(metadata: CheckpointMetadata) -> dict[str, bytes]:
    """Return the bytes inside handles, by the handle's name."""
    streams = streams_of(metadata)
    return {each.handle_name: each.data for each in streams if isinstance(each, ByteStreamStateHandle)}


def _places(data: bytes, metadata: CheckpointMetadata) -> dict[str, int]:
    """Return the start of each inline handle's bytes in `_metadata`: they follow its name and their count. A
    coordinator's handle has no name there.
    """
    found = {}
    for name, held in inline_bytes(metadata).items():
        encoded = name.encode()
        head = struct.pack(">H", len(encoded)) + encoded + struct.pack(">i", len(held))
        at, before = data.find(head + held), len(head)
        if at < 0:
            at, before = data.find(struct.pack(">i", len(held)) + held), 4
        if at >= 0:
            found[name] = at + before
    return found

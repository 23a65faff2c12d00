"""The whole file `_metadata`: the description of a checkpoint, read from bytes and written to bytes.

    int magic, int version, long checkpoint id, master states, operator states, and from version 4 on the properties.

Reading and writing again gives the same bytes. Version 3 has three layouts that its number does not distinguish: the
first layout that ends exactly at the end of the file is used. Version 1 (Flink 1.1 and 1.2) is rejected, as Flink does
since 1.11.

Source: `CheckpointMetadata`, `MetadataSerializers`, `Checkpoints.loadCheckpointMetadata`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from kit.core.metadata.operator_states import (
    read_operator_id,
    read_operator_state,
    read_subtask_state,
    write_operator_id,
    write_operator_state,
    write_subtask_state,
)
from kit.core.metadata.primitives import DataInput, DataOutput, MetadataError
from kit.core.metadata.properties_codec import read_properties, write_properties
from kit.core.metadata.versions import LAYOUTS, NEWEST, SOCKET, MetadataVersion
from kit.core.protocol.properties import CheckpointProperties
from kit.core.state.operator_state import (
    FINISHED_SUBTASK_STATE,
    MasterState,
    OperatorState,
    OperatorSubtaskState,
    TaskStateSnapshot,
)

T = TypeVar("T")

MAGIC = 0x4960672D
MASTER_STATE_MAGIC = 0xC96B1696

_MIN_MASTER_STATE = 18
_MIN_OPERATOR_STATE = 28
_MIN_SUBTASK_ON_SOCKET = 17


@dataclass(frozen=True, slots=True, repr=False)
class CheckpointMetadata:
    """A completed checkpoint as described in its `_metadata`; operators are in the order of the file.

    `properties` is None before version 4. Source: `CheckpointMetadata`.
    """

    checkpoint_id: int
    operator_states: tuple[OperatorState, ...] = ()
    master_states: tuple[MasterState, ...] = ()
    properties: CheckpointProperties | None = None

    @property
    def state_size(self) -> int:
        """Size of all operators' state, in bytes."""
        return sum(operator.state_size for operator in self.operator_states)

    @property
    def checkpointed_size(self) -> int:
        """Bytes that this checkpoint itself had to write."""
        return sum(operator.checkpointed_size for operator in self.operator_states)

    def files(self) -> tuple[str, ...]:
        """Return the path of every file referred to, each once, in the order in which they first appear."""
        return tuple(dict.fromkeys(path for operator in self.operator_states for path in operator.files()))

    def __repr__(self) -> str:
        return f"CheckpointMetadata({self.checkpoint_id}, {len(self.operator_states)} operators, {self.state_size} B)"


# --- files ------------------------------------------------------------------------------------------------------------


def read_metadata(
    data: bytes, base: str, layout: MetadataVersion | None = None
) -> tuple[CheckpointMetadata, MetadataVersion]:
    """Return the content of a `_metadata` file and its layout.

    `base` is the directory of the file, which relative paths start from. Pass `layout` if you know which Flink wrote a
    file of version 3. Raises `MetadataError` for anything that is not a complete, valid file of version 2 to 6.
    """
    header = DataInput(data, NEWEST, base)
    magic = header.int32("the magic number") & 0xFFFFFFFF
    if magic != MAGIC:
        raise header.error(
            f"0x{magic:08x}", f"the magic number 0x{MAGIC:08x} of checkpoint metadata", "give a file named _metadata", 0
        )
    layouts = _layouts_of(header, header.int32("the version"))
    if layout is not None and layout not in layouts:
        raise header.error(f"version {layouts[0].number}", f"{layout!r}", "leave out the layout", header.pos - 4)
    base = f"{base.rstrip('/')}/" if base else ""
    errors = []
    for version in layouts if layout is None else (layout,):
        try:
            return _read_body(DataInput(data, version, base, header.pos)), version
        except MetadataError as error:
            errors.append(error)
    # the layout that got furthest is the most likely one
    raise max(errors, key=lambda error: error.offset or 0)


def write_metadata(metadata: CheckpointMetadata, version: MetadataVersion | int = NEWEST) -> bytes:
    """Return the bytes of a `_metadata` file, by default in the newest version, which Flink 2.1 and later read.

    A number means the last layout of that version. An older version drops the names, uids, ids and properties that it
    has no place for. State that it cannot hold raises `MetadataError`, as does a value that does not fit its field.

    Flink: `Checkpoints.storeCheckpointMetadata`.
    """
    if isinstance(version, int):
        if version not in LAYOUTS:
            raise MetadataError(f"version {version}", f"one of {', '.join(map(str, LAYOUTS))}", "choose one of these")
        version = LAYOUTS[version][0]
    out = DataOutput.of(version)
    try:
        out.int32(MAGIC)
        out.int32(version.number)
        _write_body(out, metadata)
    except (struct.error, OverflowError) as error:
        raise _out_of_range(error) from error
    return bytes(out)


def _layouts_of(header: DataInput, number: int) -> tuple[MetadataVersion, ...]:
    if number == 1:
        found = "version 1, of Flink 1.1 or 1.2"
        way_out = "restore it with Flink 1.10 or earlier and take a savepoint there"
        raise header.error(found, "version 2 to 6", way_out, header.pos - 4)
    if number not in LAYOUTS:
        way_out = "read it with the Flink that wrote it and take a savepoint in a known version"
        raise header.error(f"version {number}", "version 2 to 6", way_out, header.pos - 4)
    return LAYOUTS[number]


def _read_body(source: DataInput) -> CheckpointMetadata:
    checkpoint_id = source.int64("the checkpoint id")
    if checkpoint_id < 0:
        raise source.error(f"checkpoint id {checkpoint_id}", "0 or more", offset=source.pos - 8)
    count = source.count(_MIN_MASTER_STATE, "master states")
    master_states = tuple(read_master_state(source) for _ in range(count))
    count = source.count(_MIN_OPERATOR_STATE, "operators")
    operator_states = tuple(read_operator_state(source) for _ in range(count))
    properties = read_properties(source) if source.version.properties else None
    if source.pos != source.end:
        raise source.error(f"{source.end - source.pos} more bytes", "the end of the file")
    return CheckpointMetadata(checkpoint_id, operator_states, master_states, properties)


def _write_body(out: DataOutput, metadata: CheckpointMetadata) -> None:
    if metadata.checkpoint_id < 0:
        raise MetadataError(f"checkpoint id {metadata.checkpoint_id}", "0 or more", "give the checkpoint its id first")
    out.int64(metadata.checkpoint_id)
    out.int32(len(metadata.master_states))
    for state in metadata.master_states:
        _write_master_state(out, state)
    out.int32(len(metadata.operator_states))
    for operator in metadata.operator_states:
        write_operator_state(out, operator)
    if out.version.properties:
        write_properties(out, metadata.properties)


def read_master_state(source: DataInput) -> MasterState:
    """Read the next master hook's state."""
    magic = source.int32("the magic number of a master state") & 0xFFFFFFFF
    if magic != MASTER_STATE_MAGIC:
        raise source.error(f"0x{magic:08x}", f"a master state's 0x{MASTER_STATE_MAGIC:08x}", offset=source.pos - 4)
    length = source.count(1, "bytes of a master state")
    end = source.pos + length
    version = source.int32("the version of a master state")
    name = source.utf("the name of a master state")
    state = MasterState(name, version, source.blob("bytes of a master state"))
    if source.pos != end:
        raise source.error(f"a master state that ends {source.pos - end:+d} bytes off", f"its end at byte {end}")
    return state


def _write_master_state(out: DataOutput, state: MasterState) -> None:
    content = DataOutput.of(out.version)
    content.int32(state.version)
    content.utf(state.name)
    content.blob(state.data)
    out += struct.pack(">I", MASTER_STATE_MAGIC)
    out.blob(content)


# --- between our own processes ----------------------------------------------------------------------------------------


def encode_subtask_state(state: OperatorSubtaskState) -> bytes:
    """Encode one subtask's state for the socket: any number of handles of each kind, nothing dropped."""
    return _encode(_write_subtask_on_socket, state)


def decode_subtask_state(data: bytes) -> OperatorSubtaskState:
    """Decode what `encode_subtask_state` wrote. Raises `MetadataError` for other bytes."""
    return _decode(_read_subtask_on_socket, data)


def encode_task_state_snapshot(snapshot: TaskStateSnapshot) -> bytes:
    """Encode one task's acknowledgement for the socket."""
    return _encode(_write_snapshot, snapshot)


def decode_task_state_snapshot(data: bytes) -> TaskStateSnapshot:
    """Decode what `encode_task_state_snapshot` wrote. Raises `MetadataError` for other bytes."""
    return _decode(_read_snapshot, data)


def _encode(write: Callable[[DataOutput, T], None], value: T) -> bytes:
    out = DataOutput.of(SOCKET)
    try:
        write(out, value)
    except (struct.error, OverflowError) as error:
        raise _out_of_range(error) from error
    return bytes(out)


def _decode(read: Callable[[DataInput], T], data: bytes) -> T:
    source = DataInput(data, SOCKET, "")
    value = read(source)
    if source.pos != source.end:
        raise source.error(f"{source.end - source.pos} more bytes", "the end of the message")
    return value


def _write_subtask_on_socket(out: DataOutput, state: OperatorSubtaskState) -> None:
    out.int8(state.finished)
    if not state.finished:
        write_subtask_state(out, state)


def _read_subtask_on_socket(source: DataInput) -> OperatorSubtaskState:
    return FINISHED_SUBTASK_STATE if source.int8("whether a subtask has finished") else read_subtask_state(source, 0)


def _write_snapshot(out: DataOutput, snapshot: TaskStateSnapshot) -> None:
    out.int8(snapshot.is_task_deployed_as_finished)
    out.int8(snapshot.is_task_finished)
    out.int32(len(snapshot.subtask_states))
    for operator_id, state in snapshot.subtask_states.items():
        write_operator_id(out, operator_id)
        _write_subtask_on_socket(out, state)


def _read_snapshot(source: DataInput) -> TaskStateSnapshot:
    deployed_as_finished = bool(source.int8("whether a task was deployed as finished"))
    finished = bool(source.int8("whether a task has finished"))
    states: dict[str, OperatorSubtaskState] = {}
    for _ in range(source.count(_MIN_SUBTASK_ON_SOCKET, "operators of a task")):
        operator_id = read_operator_id(source)
        states[operator_id] = _read_subtask_on_socket(source)
    return TaskStateSnapshot(states, deployed_as_finished, finished)


def _out_of_range(error: Exception) -> MetadataError:
    return MetadataError(f"a value that does not fit its field ({error})", "one that does", "check the numbers given")

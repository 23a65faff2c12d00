"""Savepoints written here, byte by byte, where no real one is large or broken enough."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from kit.core.metadata import NEWEST, CheckpointMetadata, write_metadata
from kit.core.state.handles import (
    ByteStreamStateHandle,
    KeyGroupRange,
    KeyGroupsSavepointStateHandle,
    KeyGroupsStateHandle,
    OperatorStateMode,
    OperatorStreamStateHandle,
    RelativeFileStateHandle,
    StateMetaInfo,
)
from kit.core.state.operator_state import OperatorState, OperatorSubtaskState
from kit.stream.backend.keys.key_hashing import key_groups
from kit.stream.graph.hashing import operator_id_of_uid

BASE = "org.apache.flink.api.common.typeutils.base."
LONG = "LongSerializer$LongSerializerSnapshot"
VOID = "org.apache.flink.runtime.state.VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot"


def utf(text: str) -> bytes:
    """Return what `writeUTF` writes."""
    return struct.pack(">H", len(text)) + text.encode()


def snapshot(name: str, body: bytes = b"") -> bytes:
    """Return a serializer's snapshot."""
    return utf(name) + struct.pack(">i", 3) + body


def header(value: bytes, name: str = "total", kind: str = "VALUE") -> bytes:
    """Return the head of keyed state with Long keys and one state, a value unless another kind is given."""
    return header_of({name: (kind, value)})


def header_of(states: dict[str, tuple[str, bytes]], key: bytes = b"", *, is_compressed: bool = False) -> bytes:
    """Return the head of keyed state, of Long keys unless others are given: by name, kind and serializer of states."""
    versioned = struct.pack(">i", 2)
    head = struct.pack(">i?", 6, is_compressed) + versioned + (key or snapshot(BASE + LONG))
    head += struct.pack(">h", len(states))
    for name, (kind, value) in states.items():
        head += utf(name) + struct.pack(">ii", 0, 1) + utf("KEYED_STATE_TYPE") + utf(kind) + struct.pack(">i", 2)
        head += utf("NAMESPACE_SERIALIZER") + versioned + snapshot(VOID)
        head += utf("VALUE_SERIALIZER") + versioned + value
    return head


def native(folder: Path, head: bytes, groups: list[list[bytes]], uid: str = "sums") -> Path:
    """Write a savepoint in the heap's layout: of each key group the entries of its states, with their number."""
    return savepoint(folder, *_of_heap(head, groups, 0), uid, handle_type=KeyGroupsStateHandle)


def _of_heap(head: bytes, groups: list[list[bytes]], first: int) -> tuple[bytes, tuple[int, ...]]:
    """Return a file in the heap's layout, and where its key groups begin."""
    data, offsets = head, []
    for group, states in enumerate(groups, first):
        offsets.append(len(data))
        data += struct.pack(">i", group) + b"".join(
            struct.pack(">h", place) + held for place, held in enumerate(states)
        )
    return data, tuple(offsets)


def of_subtasks(folder: Path, parts: list[tuple[bytes, list[list[bytes]]]], uid: str = "sums") -> Path:
    """Write a savepoint of several subtasks in the heap's layout: of each its header and its key groups, in order."""
    folder.mkdir(parents=True, exist_ok=True)
    first, states = 0, {}
    for subtask, (head, groups) in enumerate(parts):
        data, offsets = _of_heap(head, groups, first)
        (folder / f"keyed-{subtask}").write_bytes(data)
        delegate = RelativeFileStateHandle(f"keyed-{subtask}", len(data), str(folder / f"keyed-{subtask}"))
        handle = KeyGroupsStateHandle(KeyGroupRange(first, first + len(groups) - 1), offsets, delegate)
        states[subtask] = OperatorSubtaskState(managed_keyed_state=(handle,))
        first += len(groups)
    state = OperatorState(operator_id_of_uid(uid), len(parts), first, states, name=uid, uid=uid)
    (folder / "_metadata").write_bytes(write_metadata(CheckpointMetadata(1, (state,)), NEWEST))
    return folder


def savepoint(
    folder: Path,
    data: bytes,
    offsets: tuple[int, ...],
    uid: str = "sums",
    size: int | None = None,
    *,
    handle_type: type[KeyGroupsStateHandle] = KeyGroupsSavepointStateHandle,
) -> Path:
    """Write a savepoint of one subtask with this file of keyed state."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "keyed").write_bytes(data)
    delegate = RelativeFileStateHandle("keyed", len(data) if size is None else size, str(folder / "keyed"))
    handle = handle_type(KeyGroupRange(0, len(offsets) - 1), offsets, delegate)
    state = OperatorState(
        operator_id_of_uid(uid),
        1,
        len(offsets),
        {0: OperatorSubtaskState(managed_keyed_state=(handle,))},
        name=uid,
        uid=uid,
    )
    metadata = CheckpointMetadata(1, (state,))
    (folder / "_metadata").write_bytes(write_metadata(metadata, NEWEST))
    return folder


def lists(folder: Path, states: dict[tuple[str, str], list[bytes]]) -> Path:
    """Write a savepoint of operators with lists of byte arrays, by uid and the list's name; a list may be empty."""
    operators = []
    for (uid, name), entries in states.items():
        head = struct.pack(">i?h", 6, False, 1) + utf(name) + struct.pack(">ii", 1, 1)
        head += utf("OPERATOR_STATE_DISTRIBUTION_MODE") + utf("SPLIT_DISTRIBUTE") + struct.pack(">i", 1)
        head += utf("VALUE_SERIALIZER") + struct.pack(">i", 2)
        head += snapshot("org.apache.flink.api.common.typeutils.base.array.BytePrimitiveArraySerializer$Snapshot")
        data, offsets = head + struct.pack(">h", 0), []
        for entry in entries:
            offsets.append(len(data))
            data += struct.pack(">i", len(entry)) + entry
        delegate = ByteStreamStateHandle(f"{uid}-{name}", data)
        info = StateMetaInfo(tuple(offsets), OperatorStateMode.SPLIT_DISTRIBUTE)
        part = OperatorSubtaskState(managed_operator_state=(OperatorStreamStateHandle({name: info}, delegate),))
        operators.append(OperatorState(operator_id_of_uid(uid), 1, 128, {0: part}, name=uid, uid=uid))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "_metadata").write_bytes(write_metadata(CheckpointMetadata(1, tuple(operators)), NEWEST))
    return folder


def broadcast(folder: Path, states: dict[str, tuple[bytes, bytes, list[bytes]]], uid: str = "rules") -> Path:
    """Write a savepoint of broadcast states: by name, the serializers of keys and of values, and the pairs."""
    data = struct.pack(">i?hh", 6, False, 0, len(states))
    for name, (key, value, _) in states.items():
        data += utf(name) + struct.pack(">ii", 0, 1) + utf("OPERATOR_STATE_DISTRIBUTION_MODE") + utf("BROADCAST")
        data += struct.pack(">i", 2)
        for kind, held in (("KEY_SERIALIZER", key), ("VALUE_SERIALIZER", value)):
            data += utf(kind) + struct.pack(">i", 2) + held
    infos = {}
    for name, (_, _, pairs) in states.items():
        infos[name] = StateMetaInfo((len(data),), OperatorStateMode.BROADCAST)
        data += struct.pack(">i", len(pairs)) + b"".join(pairs)
    handle = OperatorStreamStateHandle(infos, ByteStreamStateHandle(uid, data))
    part = OperatorSubtaskState(managed_operator_state=(handle,))
    state = OperatorState(operator_id_of_uid(uid), 1, 128, {0: part}, name=uid, uid=uid)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "_metadata").write_bytes(write_metadata(CheckpointMetadata(1, (state,)), NEWEST))
    return folder


def longs(folder: Path, keys: np.ndarray[tuple[int], np.dtype[np.int64]], max_parallelism: int = 128) -> Path:
    """Write a savepoint of one value state with Long keys, each with its negative as value."""
    head = header(snapshot(BASE + LONG))
    layout = np.dtype([("k", ">i4"), ("group", "u1"), ("key", ">i8"), ("n", "u1"), ("v", ">i4"), ("value", ">i8")])
    of_group = key_groups(keys, max_parallelism)
    parts, offsets, at = [head], [], len(head)
    for group in range(max_parallelism):
        own = keys[of_group == group]
        if not len(own):
            offsets.append(0)
            continue
        rows = np.zeros(len(own), layout)
        rows["k"], rows["group"], rows["key"], rows["v"], rows["value"] = 10, group, own, 8, -own
        rows["group"][-1] |= 0x80
        held = b"\0\0" + rows.tobytes() + b"\xff\xff"
        parts.append(held)
        offsets.append(at)
        at += len(held)
    return savepoint(folder, b"".join(parts), tuple(offsets))


def item(held: bytes, version: int = 1) -> bytes:
    """Return an item with its version and length in front."""
    return struct.pack(">ii", version, len(held)) + held


def _listed(version: int, *items: bytes) -> bytes:
    held = b"".join(struct.pack(">i", len(each)) + each for each in items)
    return struct.pack(">ii", version, len(items)) + held


def collected(*committables: bytes, checkpoint_id: int = 7, subtask: int = 1) -> bytes:
    """Return an entry of a committer's state, in the layout of Flink 2.0 and newer."""
    requests = [each + struct.pack(">ii", 2, 1) for each in committables]
    of_subtask = struct.pack(">i", subtask) + _listed(0, *requests) + struct.pack(">ii", len(requests), 0)
    of_checkpoint = struct.pack(">qi", checkpoint_id, 2) + _listed(2, of_subtask)
    return item(struct.pack(">I", 0xB91F252C) + _listed(1, of_checkpoint), version=2)

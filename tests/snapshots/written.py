"""Savepoints written here, byte by byte, where no real one is large or broken enough."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from kit.core.metadata import NEWEST, CheckpointMetadata, write_metadata
from kit.core.state.handles import KeyGroupRange, KeyGroupsSavepointStateHandle, RelativeFileStateHandle
from kit.core.state.operator_state import OperatorState, OperatorSubtaskState
from kit.stream.backend.keys.key_hashing import key_groups
from kit.stream.graph.hashing import operator_id_of_uid

BASE = "org.apache.flink.api.common.typeutils.base."
LONG = "LongSerializer$LongSerializerSnapshot"
VOID = "org.apache.flink.runtime.state.VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot"


def utf(text: str) -> bytes:
    """Give what `writeUTF` writes."""
    return struct.pack(">H", len(text)) + text.encode()


def snapshot(name: str, body: bytes = b"") -> bytes:
    """Give a serializer's snapshot."""
    return utf(name) + struct.pack(">i", 3) + body


def header(value: bytes, name: str = "total") -> bytes:
    """Give the head of keyed state with Long keys and one value state."""
    versioned = struct.pack(">i", 2)
    state = utf(name) + struct.pack(">ii", 0, 1) + utf("KEYED_STATE_TYPE") + utf("VALUE") + struct.pack(">i", 2)
    state += utf("NAMESPACE_SERIALIZER") + versioned + snapshot(VOID)
    state += utf("VALUE_SERIALIZER") + versioned + value
    return struct.pack(">i?", 6, False) + versioned + snapshot(BASE + LONG) + struct.pack(">h", 1) + state


def savepoint(folder: Path, data: bytes, offsets: tuple[int, ...], uid: str = "sums", size: int | None = None) -> Path:
    """Write a savepoint of one subtask with this file of keyed state."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "keyed").write_bytes(data)
    delegate = RelativeFileStateHandle("keyed", len(data) if size is None else size, str(folder / "keyed"))
    handle = KeyGroupsSavepointStateHandle(KeyGroupRange(0, len(offsets) - 1), offsets, delegate)
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

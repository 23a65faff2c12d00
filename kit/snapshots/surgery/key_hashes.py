"""Java's hash codes of keys from their bytes: what decides the key group of a key.

Only types whose `hashCode` Java or Flink defines are known. What a user's class computes cannot be known here.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kit.core.state.errors import CheckpointError
from kit.snapshots.formats.headers import TIMER, KeyedState
from kit.snapshots.serializers.basic import BOOLEAN, BYTE, CHARACTER, DOUBLE, FLOAT, INTEGER, LONG, SHORT, STRING
from kit.snapshots.serializers.reading import Reader
from kit.snapshots.serializers.table import RowData
from kit.snapshots.serializers.types import Struct, Type
from kit.stream.backend.keys.key_hashing import java_hash_code, key_groups_for_hashes

SINGLE = (LONG, INTEGER, SHORT, BYTE, DOUBLE, FLOAT, BOOLEAN, STRING, CHARACTER)
KNOWN = "Long, Integer, Short, Byte, Double, Float, Boolean, Character, String, tuples of these, and rows of SQL"
TIME_BYTES = 8
ROW_SEED = 42
_WORD = struct.Struct("<I")
_MASK = 0xFFFFFFFF


def has_known_hash(key: Type) -> bool:
    """Return True if the hash code of keys of this type is known here."""
    if isinstance(key, RowData) or any(key is each for each in SINGLE):
        return True
    return is_tuple(key) and all(has_known_hash(part) and not isinstance(part, RowData) for part in key.parts)


def is_tuple(key: Type) -> bool:
    """Return True for a tuple of Flink, whose hash code is known, unlike that of a case class of Scala."""
    return type(key) is Struct and key.name.startswith(f"Tuple{len(key.parts)}<")


def check_hash(key: Type) -> None:
    """Raise CheckpointError unless the hash code of keys of this type is known."""
    if not has_known_hash(key):
        raise CheckpointError(
            f"keys of type {key.name} have a hash code that only their Java class knows, so their new key groups "
            f"cannot be computed; known are those of {KNOWN}"
        )


def key_bytes(state: KeyedState, composite: bytes) -> bytes:
    """Return the bytes of the key in the key of a pair. Raises CheckpointError."""
    reader = key_reader(state, composite)
    start = reader.at
    state.key.read(reader)
    return composite[start : reader.at]


def key_of(state: KeyedState, composite: bytes) -> Any:
    """Return the key in the key of a pair. Raises CheckpointError."""
    return state.key.read(key_reader(state, composite))


def key_reader(state: KeyedState, composite: bytes) -> Reader:
    """Return a reader that is at the key in the key of a pair: behind the time of a timer."""
    return Reader(composite, TIME_BYTES if state.kind == TIMER else 0)


def hashes(state: KeyedState, composites: Sequence[bytes]) -> npt.NDArray[np.int32]:
    """Return the hash code of the key in each key of a pair. Raises CheckpointError."""
    check_hash(state.key)
    if isinstance(state.key, RowData):
        found = [row_hash(key_bytes(state, each)[4:]) for each in composites]
    else:
        found = [hash_of(state.key, key_of(state, each)) for each in composites]
    return np.array(found, np.int64).astype(np.int32)


def hash_of(key: Type, value: Any) -> int:
    """Return the hash code of one key of a known type, in the form in which its type reads it."""
    if isinstance(key, RowData):
        return row_hash(key.encode(value))
    return java_hash_code(value, key.arrow)


def groups_of(state: KeyedState, composites: Sequence[bytes], max_parallelism: int) -> list[int]:
    """Return the key group of each pair. Raises CheckpointError."""
    return key_groups_for_hashes(hashes(state, composites), max_parallelism).tolist()


def row_hash(row: bytes) -> int:
    """Return the hash code of a binary row (`BinaryRowData`): murmur over its words."""
    code = ROW_SEED
    for (word,) in _WORD.iter_unpack(row):
        word = word * 0xCC9E2D51 & _MASK
        word = (word << 15 | word >> 17) & _MASK
        code ^= word * 0x1B873593 & _MASK
        code = (code << 13 | code >> 19) & _MASK
        code = code * 5 + 0xE6546B64 & _MASK
    code ^= len(row)
    code ^= code >> 16
    code = code * 0x85EBCA6B & _MASK
    code ^= code >> 13
    code = code * 0xC2B2AE35 & _MASK
    code ^= code >> 16
    return code - (1 << 32) if code >= 1 << 31 else code

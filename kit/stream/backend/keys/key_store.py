"""Key stores: keys of one type by row, which are only appended, taken, hashed and compared, a batch at a time.

A store has the shape of its type. Numbers are kept in an int64 array. Strings and bytes are concatenated in one buffer,
with separate offsets, so that Arrow reads them in place. A struct has a store for each field, and the mask of null
fields. A written row never changes, and arrays grow by being replaced, so a shallow copy of a store is a snapshot of
it.

Each store first converts a column of keys into its own form (`parts`); rows refer to that form.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kit.core.arrow_kinds import KeyForm, kind_of, no_key
from kit.core.state.errors import StateTypeError
from kit.stream.backend.keys.key_columns import (
    as_codes,
    from_codes,
    numbers,
    storage_dtype,
)
from kit.stream.backend.keys.key_hashing import bytes_and_offsets
from kit.stream.backend.keys.slot_index import extended
from kit.stream.backend.picking import rows_at

Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Hashes = npt.NDArray[np.uint64]

_ODD = np.uint64(0xFF51AFD7ED558CCD)
_HALF = np.uint64(32)
_UINT64 = 0xFFFFFFFFFFFFFFFF
_FIRST_BYTES = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)
_LONG_BYTES = 128
"""The length from which strings are hashed one by one: in a batch each eight bytes of the longest cost a pass."""


class KeyStore(Protocol):
    """Keys of one type; `size` is the number of rows."""

    size: int

    @property
    def nbytes(self) -> int:
        """The bytes of all rows."""

    def parts(self, keys: pa.Array) -> Any:
        """Return the keys in the form that this store uses; nulls become any value."""

    def mix(self, hashes: Hashes, parts: Any) -> None:
        """Mix each key into its hash."""

    def append(self, parts: Any, rows: Rows) -> None:
        """Add these rows of a batch."""

    def equal(self, stored: Rows, parts: Any, rows: Rows | None = None) -> Mask:
        """Return where each stored row equals that of the batch (all of it, unless `rows` selects some)."""

    def take(self, stored: Rows) -> pa.Array:
        """Return the keys of rows, in their Arrow type."""

    def value(self, parts: Any, row: int) -> Hashable:
        """Return one key of a batch as Python values that are equal where keys are."""


def key_store(arrow_type: pa.DataType) -> KeyStore:
    """Return the store for keys of a type that can be one."""
    match kind_of(arrow_type).key:
        case KeyForm.STRUCT:
            return StructStore(arrow_type)
        case KeyForm.FIXED:
            return FixedStore(arrow_type)
        case KeyForm.NUMBER:
            return NumberStore(arrow_type)
        case KeyForm.TEXT | KeyForm.BYTES:
            return TextStore(arrow_type)
    raise StateTypeError(no_key(arrow_type))


def hashes(store: KeyStore, parts: Any, rows: int) -> Hashes:
    """Return 64 bits for each key of a batch: the same for equal keys, in every process."""
    mixed = np.zeros(rows, np.uint64)
    store.mix(mixed, parts)
    return mixed


def _is_text(arrow_type: pa.DataType) -> bool:
    return kind_of(arrow_type).key is KeyForm.TEXT


def hash_of_text(data: bytes) -> int:
    """Return what `hashes` returns for a string (its UTF-8 bytes) or bytes."""
    mixed = _mixed_one(0, len(data))
    if len(data) > _LONG_BYTES:
        return mixed ^ int.from_bytes(_digest(data), "little")
    for position in range(0, len(data), 8):
        mixed = _mixed_one(mixed, int.from_bytes(data[position : position + 8], "little"))
    return mixed


class NumberStore:
    """Numbers, bools and times, as their codes."""

    def __init__(self, arrow_type: pa.DataType) -> None:
        self.size = 0
        self._type = arrow_type
        self._storage = storage_dtype(arrow_type)
        self._codes = np.empty(0, np.int64)

    @property
    def nbytes(self) -> int:
        """The bytes of the codes."""
        return self._codes.nbytes

    def parts(self, keys: pa.Array) -> Rows:
        """Return the codes of keys."""
        if keys.null_count:
            if kind_of(keys.type).is_time:
                keys = keys.view(pa.int32() if keys.type.bit_width == 32 else pa.int64())
            keys = keys.fill_null(pa.scalar(self._storage.type(0), keys.type))
        return as_codes(numbers(keys))

    def mix(self, hashes: Hashes, parts: Rows) -> None:
        """Mix in one round."""
        _mix(hashes, parts.view(np.uint64))

    def append(self, parts: Rows, rows: Rows) -> None:
        """Append codes."""
        end = self.size + len(rows)
        self._codes = _with_room(self._codes, end)
        self._codes[self.size : end] = parts.take(rows)
        self.size = end

    def equal(self, stored: Rows, parts: Rows, rows: Rows | None = None) -> Mask:
        """Compare codes."""
        return np.equal(self._codes.take(stored), parts if rows is None else parts.take(rows))

    def take(self, stored: Rows) -> pa.Array:
        """Convert codes to keys."""
        return from_codes(self._codes.take(stored), self._type, self._storage)

    def value(self, parts: Rows, row: int) -> int:
        """Return the code."""
        return int(parts[row])


class TextStore:
    """Strings and bytes."""

    def __init__(self, arrow_type: pa.DataType) -> None:
        self.size = 0
        self._type = arrow_type
        self._large = pa.large_string() if _is_text(arrow_type) else pa.large_binary()
        self._offsets = np.zeros(1, np.int64)
        self._bytes = np.empty(0, np.uint8)

    @property
    def nbytes(self) -> int:
        """The bytes of keys and offsets."""
        return self._bytes.nbytes + self._offsets.nbytes

    def parts(self, keys: pa.Array) -> pa.Array:
        """Return an array with 64-bit offsets."""
        keys = keys.cast(self._large)
        return keys.fill_null("" if _is_text(self._type) else b"") if keys.null_count else keys

    def mix(self, hashes: Hashes, parts: pa.Array) -> None:
        """Mix in a round for the length, and one for every eight bytes."""
        data, offsets = bytes_and_offsets(parts, self._large)
        starts, lengths = offsets[:-1], np.diff(offsets)
        _mix(hashes, lengths.view(np.uint64))
        short = lengths
        if int(lengths.max(initial=0)) > _LONG_BYTES:
            long = np.flatnonzero(lengths > _LONG_BYTES)
            strings = [data[offsets[row] : offsets[row + 1]].tobytes() for row in long.tolist()]
            hashes[long] ^= np.frombuffer(b"".join(map(_digest, strings)), np.uint64)
            short = np.where(lengths > _LONG_BYTES, 0, lengths)
        _mix_words(hashes, data, starts, short)

    def append(self, parts: pa.Array, rows: Rows) -> None:
        """Append bytes."""
        data, offsets = bytes_and_offsets(parts.take(pa.array(rows)), self._large)
        end, begin = self.size + len(rows), int(self._offsets[self.size])
        self._offsets = _with_room(self._offsets, end + 1)
        self._offsets[self.size + 1 : end + 1] = offsets[1:] + begin
        self._bytes = _with_room(self._bytes, begin + len(data))
        self._bytes[begin : begin + len(data)] = data
        self.size = end

    def equal(self, stored: Rows, parts: pa.Array, rows: Rows | None = None) -> Mask:
        """Compare bytes."""
        given = parts if rows is None else parts.take(pa.array(rows))
        return pc.equal(self._taken(stored), given).to_numpy(zero_copy_only=False)

    def take(self, stored: Rows) -> pa.Array:
        """Return a copy of the bytes."""
        return self._taken(stored).cast(self._type)

    def one(self, stored: int) -> str | bytes:
        """Return the string, or the bytes, of one row."""
        data = self._bytes[self._offsets.item(stored) : self._offsets.item(stored + 1)].tobytes()
        return data.decode() if _is_text(self._type) else data

    def value(self, parts: pa.Array, row: int) -> Hashable:
        """Return the key as a Python value."""
        return parts[row].as_py()

    def _taken(self, stored: Rows) -> pa.Array:
        buffers = [None, pa.py_buffer(self._offsets), pa.py_buffer(self._bytes)]
        return rows_at(pa.Array.from_buffers(self._large, self.size, buffers), stored)


class FixedStore(TextStore):
    """Decimals, and bytes of a fixed size, each as the bytes in which Arrow holds it."""

    def parts(self, keys: pa.Array) -> pa.Array:
        """Return the bytes, with 64-bit offsets."""
        width = self._type.bit_width // 8
        data = np.empty(0, np.uint8)
        if len(keys):
            data = np.frombuffer(keys.buffers()[1], np.uint8, len(keys) * width, keys.offset * width)
        if keys.null_count:
            data = data.copy()
            data.reshape(len(keys), width)[keys.is_null().to_numpy(zero_copy_only=False)] = 0
        offsets = np.arange(len(keys) + 1, dtype=np.int64) * width
        return pa.Array.from_buffers(self._large, len(keys), [None, pa.py_buffer(offsets), pa.py_buffer(data)])

    def take(self, stored: Rows) -> pa.Array:
        """Return a copy of the bytes."""
        data, _ = bytes_and_offsets(self._taken(stored), self._large)
        return pa.Array.from_buffers(self._type, len(stored), [None, pa.py_buffer(data)])


class StructStore:
    """Structs: a store for each field, and the mask of null fields."""

    def __init__(self, arrow_type: pa.DataType) -> None:
        self.size = 0
        self._type = arrow_type
        self._fields = [key_store(field.type) for field in arrow_type]
        self._nulls: list[Mask | None] = [None] * len(self._fields)

    def __copy__(self) -> StructStore:
        copied = object.__new__(StructStore)
        vars(copied).update(vars(self))
        copied._fields = [copy.copy(field) for field in self._fields]
        copied._nulls = list(self._nulls)
        return copied

    @property
    def nbytes(self) -> int:
        """The bytes of all fields."""
        return sum(field.nbytes for field in self._fields)

    def parts(self, keys: pa.StructArray) -> list[tuple[Mask | None, Any]]:
        """Return for each field which rows are null (None: no row is), and its parts."""
        return [
            (column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None, field.parts(column))
            for field, column in zip(self._fields, keys.flatten(), strict=True)
        ]

    def mix(self, hashes: Hashes, parts: list[tuple[Mask | None, Any]]) -> None:
        """Mix in field by field."""
        for field, (nulls, part) in zip(self._fields, parts, strict=True):
            field.mix(hashes, part)
            if nulls is not None:
                hashes[nulls] ^= _ODD

    def append(self, parts: list[tuple[Mask | None, Any]], rows: Rows) -> None:
        """Append field by field."""
        end = self.size + len(rows)
        for number, (field, (nulls, part)) in enumerate(zip(self._fields, parts, strict=True)):
            field.append(part, rows)
            stored = self._nulls[number]
            if nulls is not None or stored is not None:
                stored = _with_room(np.zeros(self.size, np.bool_) if stored is None else stored, end)
                stored[self.size : end] = False if nulls is None else nulls.take(rows)
                self._nulls[number] = stored
        self.size = end

    def equal(self, stored: Rows, parts: list[tuple[Mask | None, Any]], rows: Rows | None = None) -> Mask:
        """Return where all fields are equal, and null in both."""
        same = np.ones(len(stored), np.bool_)
        for field, stored_nulls, (nulls, part) in zip(self._fields, self._nulls, parts, strict=True):
            same &= field.equal(stored, part, rows)
            if nulls is not None or stored_nulls is not None:
                of_stored = False if stored_nulls is None else stored_nulls.take(stored)
                of_given = False if nulls is None else nulls if rows is None else nulls.take(rows)
                same &= np.equal(of_stored, of_given)
        return same

    def take(self, stored: Rows) -> pa.StructArray:
        """Take field by field."""
        columns = []
        for field, nulls in zip(self._fields, self._nulls, strict=True):
            column = field.take(stored)
            if nulls is not None:
                present = pa.array(~nulls.take(stored))
                column = pc.if_else(present, column, pa.scalar(None, column.type)).cast(column.type)  # decimals widen
            columns.append(column)
        return pa.StructArray.from_arrays(columns, fields=list(self._type))

    def value(self, parts: list[tuple[Mask | None, Any]], row: int) -> Hashable:
        """Return a pair for each field."""
        return tuple(
            (nulls is not None and bool(nulls[row]), field.value(part, row))
            for field, (nulls, part) in zip(self._fields, parts, strict=True)
        )


def _mix(hashes: Hashes, words: Hashes) -> None:
    hashes ^= words
    hashes *= _ODD
    hashes ^= hashes >> _HALF


def _mixed_one(mixed: int, word: int) -> int:
    mixed = ((mixed ^ word) * int(_ODD)) & _UINT64
    return mixed ^ (mixed >> 32)


def _digest(string: bytes) -> bytes:
    return blake2b(string, digest_size=8).digest()


def _mix_words(hashes: Hashes, data: npt.NDArray[np.uint8], starts: Rows, lengths: Rows) -> None:
    """Mix in every eight bytes of each row as one word, position by position over all rows that are long enough."""
    padded = np.zeros(len(data) + 8, np.uint8)
    padded[: len(data)] = data
    words = np.ndarray((len(data) + 1,), "<u8", padded, 0, (1,))  # the word that starts at each byte
    shortest, longest = int(lengths.min(initial=_LONG_BYTES)), int(lengths.max(initial=0))
    for position in range(0, longest, 8):
        if position < shortest:
            _mix(hashes, words[starts + position] & _FIRST_BYTES[np.minimum(lengths - position, 8)])
            continue
        rows = np.flatnonzero(lengths > position)
        mixed = hashes[rows]
        _mix(mixed, words[starts[rows] + position] & _FIRST_BYTES[np.minimum(lengths[rows] - position, 8)])
        hashes[rows] = mixed


def _with_room(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    """Return the array, or a larger copy of it with room for this many elements."""
    return array if size <= len(array) else extended(array, max(size, 2 * len(array), 16))

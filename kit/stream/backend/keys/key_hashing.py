"""The key group of a key.

A key's Java `hashCode` goes through a murmur mix, modulo the maximum parallelism; the result is its *key group*.
`kit.core.state.key_groups` computes which subtask owns it. Everything here returns exactly what Flink returns for the
same key and type, so a key is in the same key group as in Flink.

Each function has a scalar form (one Python key) and a column form (an Arrow array, one numpy pass). Follows
`KeyGroupRangeAssignment` and `MathUtils.murmurHash`.

Arrow types and the Java types whose `hashCode` is used: int8/16/32, uint8/16, date32, time32 -> Integer (Byte, Short);
int64, uint32/64, timestamp, duration, date64, time64 -> Long; float -> Float; double -> Double; bool -> Boolean;
decimal -> BigDecimal of the type's scale; string -> String (UTF-16 code units); struct -> TupleN (fields in order, null
fields count 0). A dictionary is hashed as its values. Binary keys hash like `Arrays.hashCode(byte[])`; Flink itself
rejects arrays as keys.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.core.arrow_kinds import JavaHash, kind_of, no_key
from kit.core.state.key_groups import check_parallelism, operator_index_for_key_group
from kit.stream.backend.types import decimals
from kit.stream.backend.types.repeated_text import as_dictionary

_UINT32 = 0xFFFFFFFF
_FEW_ROWS = 4  # up to this number, one by one is faster than the passes
_FEW_STRINGS = 128  # the same for strings, most of which were hashed before
_MOST_STRINGS = 1 << 14
_BLOCK_ROWS = 1 << 16  # two uint32 scratch arrays of this size fit in the second-level cache
CANONICAL_NAN = {8: 0x7FF8000000000000, 4: 0x7FC00000}


# ---- one key ----------------------------------------------------------------------------------------------------


def murmur_hash(code: int) -> int:
    """Return Flink's mix of a Java int: a non-negative int."""
    code = (code * 0xCC9E2D51) & _UINT32
    code = ((code << 15) | (code >> 17)) & _UINT32
    code = (code * 0x1B873593) & _UINT32
    code = ((code << 13) | (code >> 19)) & _UINT32
    code = (code * 5 + 0xE6546B64) & _UINT32
    code ^= 4
    code ^= code >> 16
    code = (code * 0x85EBCA6B) & _UINT32
    code ^= code >> 13
    code = (code * 0xC2B2AE35) & _UINT32
    code ^= code >> 16
    return abs(_as_int(code)) & 0x7FFFFFFF  # Integer.MIN_VALUE has no positive counterpart and becomes 0


def key_group_for_hash(key_hash: int, max_parallelism: int) -> int:
    """Return the key group of a key with the Java hash code `key_hash`."""
    return murmur_hash(key_hash) % max_parallelism


def java_hash_code(key: Any, key_type: pa.DataType | None = None) -> int:
    """Return Java's `hashCode` of one key.

    `key_type` is the Arrow type of the key. Without it int means int64, float means float64 and a tuple means a TupleN
    of such. A struct key may be a tuple or a dict. Raises ValueError for None, TypeError for a type that cannot be a
    key.
    """
    if key is None:
        raise ValueError("Assigned key must not be null: a record without a key cannot be given to a key group")
    if key_type is None:
        key_type = infer_key_type(key)
    kind = kind_of(key_type)
    match kind.java_hash:
        case JavaHash.NUMBER if kind.python is int:
            is_java_int = kind.width < 32 or key_type.equals(pa.int32())
            return _as_int(key) if is_java_int else _fold(key)
        case JavaHash.TEXT:
            return _polynomial(memoryview(key.encode("utf-16-le", "surrogatepass")).cast("H"), 0)
        case JavaHash.BYTES:
            return _polynomial(memoryview(key).cast("b"), 1)
        case JavaHash.BOOL:
            return 1231 if key else 1237
        case JavaHash.STRUCT:
            return _tuple_hash_code(key, key_type)
        case JavaHash.NUMBER if kind.python is float:
            return _float_hash_code(key, kind.width)
        case None:
            raise TypeError(no_key(key_type))
    return int(java_hash(pa.array([key], key_type))[0])


def assign_to_key_group(key: Any, max_parallelism: int, key_type: pa.DataType | None = None) -> int:
    """Return the key group of one key."""
    if type(key) is str and (key_type is None or _is_string(key_type)):
        return _group_of_string(key, max_parallelism)
    return key_group_for_hash(java_hash_code(key, key_type), max_parallelism)


@lru_cache(maxsize=_MOST_STRINGS)
def _group_of_string(key: str, max_parallelism: int) -> int:
    """Return the key group of a string, computed once because keys repeat."""
    units = memoryview(key.encode("utf-16-le", "surrogatepass")).cast("H")
    return key_group_for_hash(_polynomial(units, 0), max_parallelism)


def assign_key_to_parallel_operator(
    key: Any, max_parallelism: int, parallelism: int, key_type: pa.DataType | None = None
) -> int:
    """Return the subtask that owns one key."""
    return operator_index_for_key_group(
        max_parallelism, parallelism, assign_to_key_group(key, max_parallelism, key_type)
    )


def infer_key_type(key: Any) -> pa.DataType:
    """Return the Arrow type of a Python key: int64, double, bool, string, binary, or a struct f0, f1, ..."""
    if isinstance(key, tuple):
        return pa.struct([(f"f{i}", infer_key_type(field)) for i, field in enumerate(key)])
    return pa.scalar(key).type


def _tuple_hash_code(key: Any, key_type: pa.StructType) -> int:
    fields: Sequence[Any] = [key[f.name] for f in key_type] if isinstance(key, Mapping) else key
    if len(fields) != key_type.num_fields:
        raise ValueError(f"Key {key!r} has {len(fields)} fields, its type {key_type} has {key_type.num_fields}")
    result = 0
    for value, field in zip(fields, key_type, strict=True):
        result = result * 31 + (0 if value is None else java_hash_code(value, field.type))
    return _as_int(result)


def _float_hash_code(key: float, width: int) -> int:
    if width == 64:
        return _fold(CANONICAL_NAN[8] if math.isnan(key) else struct.unpack("<q", struct.pack("<d", key))[0])
    return _as_int(CANONICAL_NAN[4] if math.isnan(key) else struct.unpack("<i", struct.pack("<f", key))[0])


def _polynomial(units: memoryview, start: int) -> int:
    result = start
    for unit in units:
        result = (result * 31 + unit) & _UINT32
    return _as_int(result)


def _fold(value: int) -> int:
    """Return `Long.hashCode`: the upper half xor the lower half."""
    bits = value & 0xFFFFFFFFFFFFFFFF
    return _as_int(bits ^ (bits >> 32))


def _as_int(value: int) -> int:
    """Return the low 32 bits as a Java int."""
    value &= _UINT32
    return value - (1 << 32) if value >= 1 << 31 else value


# ---- a column of keys -------------------------------------------------------------------------------------------


def key_groups(keys: pa.Array | npt.NDArray[Any], max_parallelism: int) -> npt.NDArray[np.uint16]:
    """Return the key group of each key: uint16. A column is an Arrow array or a numpy array of numbers or bools.

    Raises ValueError if a key is null, TypeError for a type that cannot be a key.
    """
    if len(keys) <= _FEW_ROWS and isinstance(keys, pa.Array) and not keys.null_count and _is_quick_alone(keys.type):
        return np.array([assign_to_key_group(key, max_parallelism, keys.type) for key in keys.to_pylist()], np.uint16)
    if isinstance(keys, pa.Array) and len(keys) <= _FEW_STRINGS and not keys.null_count and _is_string(keys.type):
        return np.array([_group_of_string(key, max_parallelism) for key in keys.to_pylist()], np.uint16)
    numbered = _numbered(keys)
    if numbered is not None:
        groups = key_groups_for_hashes(_hash_array(numbered.dictionary), max_parallelism)
        return groups.take(as_numbers(numbered.indices))
    return key_groups_for_hashes(java_hash(keys), max_parallelism)


def _numbered(keys: pa.Array | npt.NDArray[Any]) -> pa.DictionaryArray | None:
    """Return keys as a dictionary if hashing only distinct keys pays; None if not, or if they are invalid."""
    if not isinstance(keys, pa.Array) or keys.null_count:
        return None
    if pa.types.is_dictionary(keys.type):
        return keys if not keys.dictionary.null_count and len(keys.dictionary) <= len(keys) else None
    return as_dictionary(keys) if _is_string(keys.type) else None


def _is_quick_alone(key_type: pa.DataType) -> bool:
    kind = kind_of(key_type)
    return kind.java_hash is JavaHash.BYTES or (kind.python is int and kind.java_hash is not None)


def key_groups_for_hashes(hashes: npt.NDArray[np.int32], max_parallelism: int) -> npt.NDArray[np.uint16]:
    """Return the key group of each Java hash code."""
    check_parallelism(max_parallelism)
    groups = np.empty(len(hashes), np.uint16)
    codes = hashes.view(np.uint32)
    block, scratch = np.empty((2, min(len(hashes), _BLOCK_ROWS)), np.uint32)
    for start in range(0, len(hashes), _BLOCK_ROWS):
        source = codes[start : start + _BLOCK_ROWS]
        mixed = block[: len(source)]
        _murmur_into(source, mixed, scratch[: len(source)])
        if max_parallelism & (max_parallelism - 1) == 0:
            mixed &= np.uint32(max_parallelism - 1)
        else:  # numpy divides by a constant faster than it computes a remainder
            quotient = np.floor_divide(mixed, np.uint32(max_parallelism), out=scratch[: len(source)])
            quotient *= np.uint32(max_parallelism)
            mixed -= quotient
        groups[start : start + _BLOCK_ROWS] = mixed
    return groups


def java_hash(keys: pa.Array | pa.ChunkedArray | npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """Return Java's `hashCode` of each key: int32. Same types and errors as `java_hash_code`."""
    if isinstance(keys, np.ndarray):
        return _hash_numbers(keys)
    if isinstance(keys, pa.ChunkedArray):
        keys = keys.combine_chunks()
    if keys.null_count:
        row = int(np.flatnonzero(keys.is_null().to_numpy(zero_copy_only=False))[0])
        raise ValueError(f"Assigned key must not be null: row {row} has no key, and no key group can be given to it")
    return _hash_array(keys)


def _hash_array(keys: pa.Array) -> npt.NDArray[np.int32]:
    if isinstance(keys.type, pa.BaseExtensionType):
        return _hash_array(keys.storage)
    how = kind_of(keys.type).java_hash
    if how is None:
        raise TypeError(no_key(keys.type))
    return _HASHES[how](keys)


def _hash_dictionary(keys: pa.DictionaryArray) -> npt.NDArray[np.int32]:
    if keys.dictionary.null_count:
        return _hash_array(keys.dictionary_decode())
    return java_hash(keys.dictionary).take(keys.indices.to_numpy())


def _hash_bytes(keys: pa.Array) -> npt.NDArray[np.int32]:
    data, offsets = bytes_and_offsets(keys, pa.large_binary())
    return _hash_segments(data.view(np.int8), offsets, 1)


def _hash_tuples(keys: pa.StructArray) -> npt.NDArray[np.int32]:
    result = np.zeros(len(keys), np.uint32)
    for column in keys.flatten():
        result *= np.uint32(31)
        if column.null_count == 0:
            result += _hash_array(column).view(np.uint32)
        else:
            present = column.is_valid().to_numpy(zero_copy_only=False)
            result[present] += _hash_array(column.drop_null()).view(np.uint32)
    return result.view(np.int32)


def _hash_strings(keys: pa.Array) -> npt.NDArray[np.int32]:
    data, offsets = bytes_and_offsets(keys, pa.large_string())
    if not len(data) or data.max() < 0x80:
        return _hash_segments(data, offsets, 0)
    # One UTF-16 unit per character, and a second one for each character of four UTF-8 bytes.
    units_of_byte = ((data & 0xC0) != 0x80).astype(np.int64) + (data >= 0xF0)
    units_before = np.concatenate(([0], np.cumsum(units_of_byte)))
    units = np.frombuffer(data.tobytes().decode().encode("utf-16-le"), np.uint16)
    return _hash_segments(units, units_before[offsets], 0)


def bytes_and_offsets(keys: pa.Array, large: pa.DataType) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return the bytes of a string or binary column, and where each row starts (and the last one ends) in them."""
    keys = keys.cast(large)
    _, offset_buffer, data_buffer = keys.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[keys.offset : keys.offset + len(keys) + 1]
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
    return data[offsets[0] : offsets[-1]], offsets - offsets[0]


def _hash_segments(units: npt.NDArray[Any], offsets: npt.NDArray[np.int64], start: int) -> npt.NDArray[np.int32]:
    """Return the polynomial in 31 of each segment.

    If rows are short and many, it goes position by position over all rows. Otherwise it is one weighted sum,
    differenced at the segment borders (exact, as both wrap around at 32 bits).
    """
    starts, lengths = offsets[:-1], np.diff(offsets)
    longest = int(lengths.max(initial=0))
    if longest <= 64:
        return _hash_short_segments(units, starts, lengths, longest, start)
    powers = np.ones(longest + 1, np.uint32)
    np.cumprod(np.full(longest, 31, np.uint32), out=powers[1:])
    exponents = np.repeat(offsets[1:], lengths) - np.arange(1, len(units) + 1)
    sums = np.zeros(len(units) + 1, np.uint32)
    np.cumsum(units.astype(np.uint32) * powers[exponents], out=sums[1:])
    return (sums[offsets[1:]] - sums[starts] + np.uint32(start) * powers[lengths]).view(np.int32)


def _hash_short_segments(
    units: npt.NDArray[Any], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], longest: int, start: int
) -> npt.NDArray[np.int32]:
    result = np.full(len(lengths), start, np.uint32)
    shortest = int(lengths.min(initial=longest))
    for position in range(shortest):
        result *= np.uint32(31)
        result += units[starts + position].astype(np.uint32)
    for position in range(shortest, longest):
        rows = np.flatnonzero(lengths > position)
        result[rows] = result[rows] * np.uint32(31) + units[starts[rows] + position].astype(np.uint32)
    return result.view(np.int32)


def _hash_numbers(values: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    kind, size = values.dtype.kind, values.dtype.itemsize
    if kind == "b":
        return np.where(values, np.int32(1231), np.int32(1237))
    if kind == "f" and size in CANONICAL_NAN:
        bits = values.view(np.int64 if size == 8 else np.int32)
        nan = np.isnan(values)
        values = np.where(nan, bits.dtype.type(CANONICAL_NAN[size]), bits) if nan.any() else bits
    elif kind not in "iu":
        raise TypeError(f"A numpy array of {values.dtype} cannot hold keys: pass an Arrow array")
    if size == 8:
        halves = np.ascontiguousarray(values).view(np.int32)
        return halves[0::2] ^ halves[1::2]
    if kind == "u" and size == 4:
        return values.view(np.int32)
    return values.astype(np.int32, copy=False)


def as_numbers(column: pa.Array) -> npt.NDArray[Any]:
    """Return a number or time column without nulls as the numpy integers or floats in which it is stored."""
    dtype = _dtype_of_numbers(column.type)
    if not len(column):
        return np.empty(0, dtype)
    # Like `to_numpy`, which would let other threads run meanwhile, and that costs more than everything else here.
    return np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * dtype.itemsize)


@lru_cache(maxsize=256)
def _dtype_of_numbers(arrow_type: pa.DataType) -> np.dtype[Any]:
    kind = kind_of(arrow_type)
    if kind.java_hash is not JavaHash.NUMBER:
        raise TypeError(no_key(arrow_type))
    return np.dtype(f"i{kind.width // 8}" if kind.is_time else arrow_type.to_pandas_dtype())


def _murmur_into(source: npt.NDArray[np.uint32], out: npt.NDArray[np.uint32], scratch: npt.NDArray[np.uint32]) -> None:
    """Compute `murmur_hash` of a block, in place, without allocating."""
    np.multiply(source, np.uint32(0xCC9E2D51), out=out)
    _rotate_left(out, 15, scratch)
    out *= np.uint32(0x1B873593)
    _rotate_left(out, 13, scratch)
    out *= np.uint32(5)
    out += np.uint32(0xE6546B64)
    out ^= np.uint32(4)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        np.right_shift(out, np.uint32(shift), out=scratch)
        out ^= scratch
        if factor != 1:
            out *= np.uint32(factor)
    signed = out.view(np.int32)
    np.absolute(signed, out=signed)  # keeps Integer.MIN_VALUE, whose low 31 bits are 0
    out &= np.uint32(0x7FFFFFFF)


def _rotate_left(codes: npt.NDArray[np.uint32], bits: int, scratch: npt.NDArray[np.uint32]) -> None:
    np.right_shift(codes, np.uint32(32 - bits), out=scratch)
    np.left_shift(codes, np.uint32(bits), out=codes)
    codes |= scratch


# ---- types ------------------------------------------------------------------------------------------------------


def _is_string(arrow_type: pa.DataType) -> bool:
    return kind_of(arrow_type).java_hash is JavaHash.TEXT


_HASHES: dict[JavaHash, Callable[[pa.Array], npt.NDArray[np.int32]]] = {
    JavaHash.NUMBER: lambda keys: _hash_numbers(as_numbers(keys)),
    JavaHash.BOOL: lambda keys: _hash_numbers(keys.to_numpy(zero_copy_only=False)),
    JavaHash.DECIMAL: decimals.java_hash,
    JavaHash.TEXT: _hash_strings,
    JavaHash.BYTES: _hash_bytes,
    JavaHash.STRUCT: _hash_tuples,
    JavaHash.VALUES: _hash_dictionary,
}

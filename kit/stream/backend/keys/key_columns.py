"""Key columns: Arrow columns of keys as the code around them uses them.

The types that can be keys, the checks of their columns, and the conversion of numbers, bools and times to int64 codes
and back: floats by their bits, with one NaN.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.core.state.errors import StateTypeError
from kit.stream.backend.keys.key_hashing import CANONICAL_NAN, as_numbers

Codes = npt.NDArray[np.int64]
Column: TypeAlias = "pa.Array | pa.ChunkedArray | npt.NDArray[Any]"

# ---- types ------------------------------------------------------------------------------------------------------


def is_direct(arrow_type: pa.DataType) -> bool:
    """Return True for numbers, bools and times: they are kept in a numpy array, and such keys are their own codes."""
    return (
        pa.types.is_integer(arrow_type)
        or pa.types.is_boolean(arrow_type)
        or pa.types.is_float32(arrow_type)
        or pa.types.is_float64(arrow_type)
        or (pa.types.is_temporal(arrow_type) and not pa.types.is_interval(arrow_type))
    )


def is_text(arrow_type: pa.DataType) -> bool:
    """Return True if keys of this type are strings."""
    return pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type)


def is_text_or_bytes(arrow_type: pa.DataType) -> bool:
    """Return True if keys of this type are strings or bytes."""
    return is_text(arrow_type) or pa.types.is_binary(arrow_type) or pa.types.is_large_binary(arrow_type)


def is_fixed_bytes(arrow_type: pa.DataType) -> bool:
    """Return True if keys of this type have a fixed number of bytes: decimals, and bytes of a fixed size."""
    return pa.types.is_decimal(arrow_type) or pa.types.is_fixed_size_binary(arrow_type)


def can_be_key(arrow_type: pa.DataType) -> bool:
    """Return True if this type can be a key."""
    if pa.types.is_struct(arrow_type):
        return arrow_type.num_fields > 0 and all(can_be_key(field.type) for field in arrow_type)
    return is_direct(arrow_type) or is_text_or_bytes(arrow_type) or is_fixed_bytes(arrow_type)


def storage_dtype(arrow_type: pa.DataType) -> np.dtype[Any]:
    """Return the dtype in which a direct type is stored in memory."""
    if pa.types.is_temporal(arrow_type):
        return np.dtype(np.int32 if arrow_type.bit_width == 32 else np.int64)
    return np.dtype(arrow_type.to_pandas_dtype())


# ---- checks -----------------------------------------------------------------------------------------------------


def checked(keys: pa.Array | pa.ChunkedArray, arrow_type: pa.DataType, what: str) -> pa.Array:
    """Return the keys as one array. Raises StateTypeError if they are of another type, or some are null."""
    if isinstance(keys, pa.ChunkedArray):
        keys = keys.combine_chunks()
    found = keys.type.value_type if pa.types.is_dictionary(keys.type) else keys.type
    if found != arrow_type:
        raise StateTypeError(f"The {what}s have Arrow type {found}, this state has {what}s of type {arrow_type}")
    if keys.null_count:
        raise StateTypeError(f"A {what} must not be null: {keys.null_count} of {len(keys)} rows have none")
    return keys


def one(key: Any, arrow_type: pa.DataType, what: str) -> pa.Array:
    """Return a Python key as a column of one row. Raises StateTypeError if it does not fit the type."""
    if key is None:
        raise StateTypeError(f"A {what} must not be null")
    try:
        if not (isinstance(key, bool) and pa.types.is_integer(arrow_type)):
            return pa.array([key], arrow_type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    raise StateTypeError(f"The {what} {key!r} ({type(key).__name__}) does not fit Arrow type {arrow_type}")


# ---- numbers ----------------------------------------------------------------------------------------------------


def numbers(keys: pa.Array) -> npt.NDArray[Any]:
    """Return keys of a direct type, without nulls, as a numpy array."""
    if pa.types.is_dictionary(keys.type):
        keys = keys.dictionary_decode()
    return keys.to_numpy(zero_copy_only=False) if pa.types.is_boolean(keys.type) else as_numbers(keys)


def as_codes(values: npt.NDArray[Any]) -> Codes:
    """Return numbers as codes."""
    dtype = values.dtype
    if dtype.kind != "f":
        return values.view(np.int64) if dtype == np.uint64 else values.astype(np.int64, copy=False)
    bits = np.ascontiguousarray(values).view(np.int64 if dtype.itemsize == 8 else np.int32)
    nan = np.isnan(values)
    return (np.where(nan, CANONICAL_NAN[dtype.itemsize], bits) if nan.any() else bits).astype(np.int64, copy=False)


def from_codes(codes: Codes, arrow_type: pa.DataType, storage: np.dtype[Any]) -> pa.Array:
    """Return codes as keys of a direct type, which is stored in memory as `storage`."""
    if storage.kind == "f":
        values: npt.NDArray[Any] = codes.astype(np.int64 if storage.itemsize == 8 else np.int32).view(storage)
    else:
        values = codes.view(np.uint64) if storage == np.uint64 else codes.astype(storage, copy=False)
    return pa.array(values).view(arrow_type) if pa.types.is_temporal(arrow_type) else pa.array(values, arrow_type)

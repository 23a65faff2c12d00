"""Key columns: Arrow columns of keys as the code around them uses them.

The checks of columns of keys, and the conversion of numbers, bools and times to int64 codes
and back: floats by their bits, with one NaN.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.core.arrow_kinds import Family, kind_of
from kit.core.state.errors import StateTypeError
from kit.stream.backend.keys.key_hashing import CANONICAL_NAN, as_numbers

Codes = npt.NDArray[np.int64]
Column: TypeAlias = "pa.Array | pa.ChunkedArray | npt.NDArray[Any]"

# ---- types ------------------------------------------------------------------------------------------------------


def storage_dtype(arrow_type: pa.DataType) -> np.dtype[Any]:
    """Return the dtype in which a number, a bool or a time is stored in memory."""
    kind = kind_of(arrow_type)
    return np.dtype(f"i{kind.width // 8}" if kind.is_time else arrow_type.to_pandas_dtype())


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
        if not (isinstance(key, bool) and kind_of(arrow_type).family is Family.INTEGER):
            return pa.array([key], arrow_type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    raise StateTypeError(f"The {what} {key!r} ({type(key).__name__}) does not fit Arrow type {arrow_type}")


# ---- numbers ----------------------------------------------------------------------------------------------------


def numbers(keys: pa.Array) -> npt.NDArray[Any]:
    """Return keys of a direct type, without nulls, as a numpy array."""
    family = kind_of(keys.type).family
    if family is Family.DICTIONARY:
        return numbers(keys.dictionary_decode())
    return keys.to_numpy(zero_copy_only=False) if family is Family.BOOL else as_numbers(keys)


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
    return pa.array(values).view(arrow_type) if kind_of(arrow_type).is_time else pa.array(values, arrow_type)

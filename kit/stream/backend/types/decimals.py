"""Decimals as numpy numbers: each as limbs of 64 bits (a decimal32 as one of 32), the lowest first.

A decimal column of Arrow is an array of unscaled integers in two's complement. Here it is split into a column per limb,
and put together again. Java's `BigDecimal.hashCode` is computed on them as well.
"""

from __future__ import annotations

from decimal import Context
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Limb = npt.NDArray[Any]

EXACT = Context(prec=200)
"""The context for adding decimals: Python's default rounds to 28 digits."""


def sortable(column: pa.Array) -> pa.Array:
    """Return a column in a type that Arrow can sort and encode: small decimals as those of 128 bits."""
    if pa.types.is_decimal(column.type) and column.type.bit_width < 128:
        return column.cast(pa.decimal128(column.type.precision, column.type.scale))
    return column


def limb_type(arrow_type: pa.DataType) -> pa.DataType:
    """Return the Arrow type of a limb."""
    return pa.int32() if arrow_type.bit_width == 32 else pa.int64()


def limb_count(arrow_type: pa.DataType) -> int:
    """Return the number of limbs of a decimal."""
    return max(1, int(arrow_type.bit_width) // 64)


def limbs(column: pa.Array) -> list[Limb]:
    """Return a decimal column as its limbs, the lowest first, with arbitrary values where it is null."""
    count, dtype = limb_count(column.type), np.dtype(limb_type(column.type).to_pandas_dtype())
    if not len(column):
        return [np.empty(0, dtype) for _ in range(count)]
    start = column.offset * count * dtype.itemsize
    flat = np.frombuffer(column.buffers()[1], dtype, len(column) * count, start)
    return [flat[number::count] for number in range(count)]


def from_limbs(arrow_type: pa.DataType, parts: list[Limb], nulls: npt.NDArray[np.bool_] | None) -> pa.Array:
    """Return the column of these limbs, null where `nulls` is True; the inverse of `limbs`."""
    flat = np.ascontiguousarray(np.stack(parts, axis=1))
    validity = None if nulls is None else pa.array(~nulls).buffers()[1]
    return pa.Array.from_buffers(arrow_type, len(flat), [validity, pa.py_buffer(flat)])


def java_hash(column: pa.Array) -> npt.NDArray[np.int32]:
    """Return Java's `BigDecimal.hashCode` of each decimal of a column without nulls: int32."""
    parts = [part.astype(np.int64) for part in limbs(column)]
    negative = parts[-1] < 0
    result = np.zeros(len(column), np.uint32)
    carry = negative  # the negative of a number is its complement plus one
    words = []
    for part in parts:
        magnitude = np.where(negative, ~part, part).view(np.uint64) + carry.astype(np.uint64)
        carry = carry & (magnitude == 0)
        words += [magnitude.astype(np.uint32), (magnitude >> np.uint64(32)).astype(np.uint32)]
    for word in reversed(words):  # `BigInteger.hashCode`; leading words of 0 have no effect
        result = result * np.uint32(31) + word
    result = np.where(negative, -result.view(np.int32), result.view(np.int32)).view(np.uint32)
    scale = np.uint32(column.type.scale & 0xFFFFFFFF)
    return (result * np.uint32(31) + scale).view(np.int32)

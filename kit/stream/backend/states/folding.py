"""Folds for which numpy has no ufunc: exact sums of decimals and of uint64, minimum and maximum of any type.

A batch is first folded by slot within Arrow, then into the slots' entries. Sums are computed with more digits than any
type has in which they are kept, and an overflow is an error: the sum never wraps around.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kit.stream.backend.types.decimals import EXACT
from kit.stream.backend.types.value_columns import DecimalColumn, NumberColumn, ObjectColumn

Slots = npt.NDArray[np.int64]
_DIGITS = 60
"""The digits with which sums are computed; the summands have fewer, so that a batch cannot overflow them."""
_MOST_DIGITS = 50
"""The digits with which Arrow has enough to spare for a sum; it supports no negative scale."""
_UINT64 = 1 << 64


class FoldOverflowError(Exception):
    """The entry of `slot` would become `total`, which its type cannot hold."""

    def __init__(self, slot: int, total: Any) -> None:
        super().__init__(slot, total)
        self.slot = slot
        self.total = total


def fold(
    column: NumberColumn | DecimalColumn | ObjectColumn, word: str, slots: Slots, values: pa.Array, fresh: Slots
) -> None:
    """Fold non-null values into the entries of their slots: "sum", "min" or "max".

    `fresh` are slots that were never set; those that meet no value become null. Raises FoldOverflowError, and then
    changes nothing else.
    """
    if len(fresh):
        column.put(fresh, pa.nulls(len(fresh), column.type))
    if not len(slots):
        return
    is_sum_of_decimals = word == "sum" and pa.types.is_decimal(column.type)
    if is_sum_of_decimals and (column.type.precision > _MOST_DIGITS or column.type.scale < 0):  # Arrow cannot
        _sum_one_by_one(column, slots, values)
        return
    working = _working_type(column.type)
    table = pa.table({"slot": slots, "value": _cast(values, working)})
    folded = table.group_by("slot", use_threads=False).aggregate([("value", word)])
    touched, new = folded["slot"].to_numpy(), folded[f"value_{word}"].combine_chunks()
    before = _cast(column.get(touched), working)
    if word != "sum":
        elementwise = pc.min_element_wise if word == "min" else pc.max_element_wise
        column.put(touched, elementwise(before, new).cast(column.type))
        return
    totals = pc.add(pc.coalesce(before, pa.scalar(Decimal(0), working)), new.cast(working))
    try:
        column.put(touched, totals.cast(column.type))
    except pa.ArrowInvalid:
        for slot, total in zip(touched.tolist(), totals, strict=True):
            _checked(column.type, slot, total)
        raise


def may_overflow(column: NumberColumn, slots: Slots, numbers: npt.NDArray[Any]) -> bool:
    """Return True if a sum of these uint64 might reach 2^64: only then is an exact sum worth its cost."""
    most = int(numbers.max(initial=0)) * len(numbers) + int(column.values[slots].max(initial=0))
    return most >= _UINT64


def _working_type(arrow_type: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(arrow_type):
        return pa.decimal256(max(_DIGITS, arrow_type.precision), arrow_type.scale)
    return pa.decimal256(_DIGITS, 0) if pa.types.is_uint64(arrow_type) else arrow_type


def _cast(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_uint64(values.type) and pa.types.is_decimal(wanted):
        values = values.cast(pa.decimal128(20, 0))
    return values.cast(wanted)


def _sum_one_by_one(column: Any, slots: Slots, values: pa.Array) -> None:
    """Sum what Arrow cannot sum."""
    totals: dict[int, Any] = {}
    for slot, value in zip(slots.tolist(), values.to_pylist(), strict=True):
        before = totals[slot] if slot in totals else column.get_one(slot)
        totals[slot] = value if before is None else EXACT.add(before, value)
    for slot, total in totals.items():
        _checked(column.type, slot, total)
    column.put(np.array(list(totals)), pa.array(list(totals.values()), column.type))


def _checked(arrow_type: pa.DataType, slot: int, total: Any) -> None:
    try:
        if isinstance(total, pa.Scalar):
            total.cast(arrow_type)
        else:
            pa.scalar(total, arrow_type)
    except pa.ArrowInvalid:
        raise FoldOverflowError(slot, total) from None

"""Key order: the order of keys in a checkpoint, on whole columns.

Numbers and times are ordered by value, floats by their bits, strings by their UTF-8 bytes, structs field by field with
nulls last. Keys are compared as *sort columns*, whose order numpy or Arrow have.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kit.core.arrow_kinds import Family, kind_of
from kit.stream.backend.keys.key_columns import as_codes, numbers
from kit.stream.backend.picking import column_of, rows_at
from kit.stream.backend.types.decimals import sortable

Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def sort_columns(keys: Sequence[pa.Array]) -> list[pa.Array]:
    """Return columns that have the order of keys, given by the columns of their parts: the first counts most."""
    return [column for part in keys for column in _of_part(part)]


def leaves(column: pa.Array) -> list[pa.Array]:
    """Return the leaves of a struct in sort order, with floats as their codes, so that Arrow's order of them is total.

    What is no struct is its own leaf.
    """
    if pa.types.is_struct(column.type):
        found = []
        for child in column.flatten():
            found += [child.is_null()] if pa.types.is_struct(child.type) else []
            found += leaves(child)
        return found
    if kind_of(column.type).family is Family.FLOAT:
        codes = pa.array(as_codes(column.fill_null(0).to_numpy(zero_copy_only=False)))
        return [pc.if_else(column.is_valid(), codes, pa.scalar(None, pa.int64()))]
    return [sortable(column)]


def ascend(columns: Sequence[pa.Array]) -> bool:
    """Return True if each row of sort columns comes after the one before it."""
    rows = len(columns[0])
    return rows < 2 or bool(
        _precede([each.slice(0, rows - 1) for each in columns], [each.slice(1) for each in columns]).all()
    )


def rows_of(wanted: Sequence[pa.Array], columns: Sequence[pa.Array]) -> Rows:
    """Return the row of each wanted key among ascending ones, -1 if it is not there; both are given by sort columns."""
    rows = len(columns[0])
    if len(columns) == 1 and pa.types.is_int64(columns[0].type):
        there, codes = columns[0].to_numpy(), wanted[0].to_numpy()
        low = np.searchsorted(there, codes)
        found = low < rows
        found[found] = there[low[found]] == codes[found]
        return np.where(found, low, -1)
    low, behind = np.zeros(len(wanted[0]), np.int64), np.full(len(wanted[0]), rows)
    for _ in range(rows.bit_length()):
        middle = np.minimum((low + behind) // 2, rows - 1)
        before = _precede([rows_at(each, middle) for each in columns], wanted)
        low, behind = np.where(before, np.minimum(middle + 1, behind), low), np.where(before, behind, middle)
    found = low < rows
    at = np.flatnonzero(found)
    found[at] = ~_precede([rows_at(each, at) for each in wanted], [rows_at(each, low[at]) for each in columns])
    return np.where(found, low, -1)


def _of_part(part: pa.Array) -> list[pa.Array]:
    if kind_of(part.type).is_number_in_memory:
        return [column_of(as_codes(numbers(part)), pa.int64())]
    return leaves(part)


def _precede(some: Sequence[pa.Array], others: Sequence[pa.Array]) -> Mask:
    """Return where a row comes before that of the others; in each column nulls are last."""
    before = np.zeros(len(some[0]), np.bool_)
    for one, other in zip(reversed(some), reversed(others), strict=True):
        less, same = pc.less(one, other), pc.equal(one, other)
        if one.null_count or other.null_count:
            no_one, no_other = one.is_null(), other.is_null()
            less = pc.or_(less.fill_null(False), pc.and_not(no_other, no_one))
            same = pc.or_(same.fill_null(False), pc.and_(no_one, no_other))
        before = _mask(less) | (_mask(same) & before)
    return before


def _mask(column: pa.Array) -> Mask:
    mask: Mask = column.to_numpy(zero_copy_only=False)
    return mask

"""Selection of rows of an Arrow column or batch, by number.

For the few rows of a lesson, the overhead of `take` exceeds the work; here the kernel is called directly.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Rows = TypeVar("Rows", pa.Array, pa.RecordBatch)

_TAKE = pc.get_function("take")
_CHECKED, _UNCHECKED = pc.TakeOptions(boundscheck=True), pc.TakeOptions(boundscheck=False)
_INT32, _INT64 = pa.int32(), pa.int64()


def rows_at(values: Rows, rows: npt.NDArray[np.int64] | npt.NDArray[np.int32], *, are_there: bool = False) -> Rows:
    """Return the rows with these numbers, in their order. With `are_there`, the caller guarantees that they exist."""
    found: Rows = _TAKE.call([values, numbers_column(rows)], _UNCHECKED if are_there else _CHECKED)
    return found


def numbers_column(numbers: npt.NDArray[Any]) -> pa.Array:
    """Return an int64 or int32 array of numpy as an Arrow array in the same memory."""
    numbers = np.ascontiguousarray(numbers)
    return column_of(numbers, _INT32 if numbers.dtype == np.int32 else _INT64)


def column_of(values: npt.NDArray[Any], arrow_type: pa.DataType) -> pa.Array:
    """Return a numpy array as a column of a type with the same layout, without nulls, in the same memory."""
    return pa.Array.from_buffers(arrow_type, len(values), [None, pa.py_buffer(values)])

"""Some rows of an Arrow column or batch, by number.

What `take` does around the kernel takes longer, of the few rows of a lesson, than the rows; here is the kernel alone.
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


def picked(values: Rows, rows: npt.NDArray[np.int64] | npt.NDArray[np.int32], *, are_there: bool = False) -> Rows:
    """The rows with these numbers, in their order. Whoever says that all `are_there` must know: it is not checked."""
    found: Rows = _TAKE.call([values, numbers_column(rows)], _UNCHECKED if are_there else _CHECKED)
    return found


def numbers_column(numbers: npt.NDArray[Any]) -> pa.Array:
    """An int64 or int32 array of numpy's as Arrow's, which looks at the same memory."""
    numbers = np.ascontiguousarray(numbers)
    return column_of(numbers, _INT32 if numbers.dtype == np.int32 else _INT64)


def column_of(values: npt.NDArray[Any], arrow_type: pa.DataType) -> pa.Array:
    """An array of numpy's as a column of a type that is stored in the same way, without nulls, in the same memory."""
    return pa.Array.from_buffers(arrow_type, len(values), [None, pa.py_buffer(values)])

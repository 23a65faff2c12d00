"""Some rows of an Arrow column or batch, by number.

What `take` does around the kernel takes longer, of the few rows of a lesson, than the rows; here is the kernel alone.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Rows = TypeVar("Rows", pa.Array, pa.RecordBatch)

_TAKE = pc.get_function("take")
_OPTIONS = pc.TakeOptions(boundscheck=True)
_INT64 = pa.int64()


def picked(values: Rows, rows: npt.NDArray[np.int64]) -> Rows:
    """The rows with these numbers, in their order."""
    found: Rows = _TAKE.call([values, numbers_column(rows)], _OPTIONS)
    return found


def numbers_column(numbers: npt.NDArray[np.int64]) -> pa.Array:
    """An int64 array of numpy's as Arrow's, which looks at the same memory."""
    numbers = np.ascontiguousarray(numbers)
    return pa.Array.from_buffers(_INT64, len(numbers), [None, pa.py_buffer(numbers)])

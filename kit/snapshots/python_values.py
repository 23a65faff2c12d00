"""Arrow columns as Python values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def python_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return Python values; times beyond Python's range as Arrow's text."""
    try:
        return column.to_pylist()
    except (ValueError, OverflowError):
        return column.cast(pa.string()).to_pylist()

"""Arrow columns as Python values, and values as JSON and text."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa


def python_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return Python values; times beyond Python's range as Arrow's text."""
    try:
        return column.to_pylist()
    except (ValueError, OverflowError):
        return column.cast(pa.string()).to_pylist()


def json_value(value: Any) -> Any:
    """Return a value as JSON has it: bytes in hexadecimal, times in ISO 8601, numbers beyond JSON's as text."""
    if isinstance(value, dict):
        return {str(name): json_value(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(each) for each in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float):
        return value if abs(value) < float("inf") else str(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def value_text(value: Any) -> str:
    """Return a value as text for people: nothing for null, JSON for nested values and unprintable text."""
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    plain = json_value(value)
    text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(text, ensure_ascii=False)

"""Copies of a world share their columns.

Arrow data never changes, so a copy of a world may refer to the same arrays, batches and tables as the world itself;
without this `copy.deepcopy` would take each apart and build it anew, slower, and in buffers of other sizes.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import TypeVar

import pyarrow as pa

T = TypeVar("T")

SHARED: tuple[type, ...] = (
    pa.Array,
    pa.ChunkedArray,
    pa.RecordBatch,
    pa.Table,
    pa.Buffer,
    pa.Scalar,
    pa.DataType,
    pa.Field,
    pa.Schema,
)
"""The kinds of Arrow object that copies have in common."""


def share_columns() -> None:
    """Make `copy.deepcopy` keep Arrow objects as they are; its table goes by exact type, hence every one is listed."""
    table: dict[type, object] = copy._deepcopy_dispatch  # type: ignore[attr-defined]
    for kind in SHARED:
        table.update(dict.fromkeys((kind, *_below(kind)), _itself))


def _below(kind: type) -> Iterator[type]:
    subclasses: list[type] = kind.__subclasses__()
    for each in subclasses:
        yield each
        yield from _below(each)


def _itself(value: T, memo: dict[int, object]) -> T:
    return value

"""A reader that keeps its splits open between two reads, and columns that have one value for a whole file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kit.stream.connectors.file_versions import unchanged
from kit.stream.operators.sources.source import ReadResult, Split

MOST_OPEN_SPLITS = 64


@dataclass(slots=True)
class _OpenSplit:
    """A split being read: its position, what was read ahead of that, and what is still to come."""

    position: int
    ahead: pa.RecordBatch | None
    stream: Iterator[pa.RecordBatch]

    def advance(self) -> None:
        self.ahead = next((batch for batch in self.stream if batch.num_rows), None)


class StreamReader:
    """A reader that keeps its splits open, and seeks only when asked for another position."""

    def __init__(self) -> None:
        self._open_splits: dict[str, _OpenSplit] = {}

    def read(self, split: Split, position: int, max_rows: int) -> ReadResult:
        """Return at most `max_rows` rows of the split from `position` on."""
        opened = self._open_splits.pop(split["id"], None)
        if opened is None or opened.position != position:
            opened = _OpenSplit(position, None, unchanged(split, self._stream(split, position)))
            opened.advance()
        if opened.ahead is None:
            return ReadResult(None, position, finished=True)
        batch = opened.ahead.slice(0, max_rows)
        opened.position += batch.num_rows
        opened.ahead = opened.ahead.slice(batch.num_rows)
        if opened.ahead.num_rows == 0:
            opened.advance()
        if opened.ahead is not None:
            self._open_splits[split["id"]] = opened
            if len(self._open_splits) > MOST_OPEN_SPLITS:
                del self._open_splits[next(iter(self._open_splits))]
        return ReadResult(batch, opened.position, finished=opened.ahead is None)

    def close(self) -> None:
        self._open_splits.clear()

    def _stream(self, split: Split, position: int) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError


def with_keys(batch: pa.RecordBatch, keys: Mapping[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows with the columns that have one value for all of them."""
    columns = [
        pa.repeat(pa.scalar(keys[column.name], column.type), batch.num_rows)
        if column.name in keys
        else batch.column(column.name)
        for column in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)

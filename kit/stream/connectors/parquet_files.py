"""Files in the format Parquet: their columns, their row groups, and their rows by ranges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kit.filesystems.places import open_path
from kit.stream.connectors.file_versions import check_unchanged
from kit.stream.connectors.found_files import check_columns
from kit.stream.connectors.stream_reader import MOST_OPEN_SPLITS, StreamReader, with_keys
from kit.stream.operators.sources.source import Split
from kit.stream.operators.spec import SchemaError, column_list

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_READ_ROWS = 1 << 16
"""The number of rows decoded at a time; smaller reads use one thread, since waking others would cost more."""


def parquet_schema(paths: Sequence[str]) -> pa.Schema:
    """Return the columns that all these files have, in the order of the first one.

    Raises ValueError or SchemaError naming the invalid file.
    """
    first = _parquet_file(paths[0]).schema_arrow.remove_metadata()
    columns = {column.name: column for column in first}
    for path in paths[1:]:
        other = _parquet_file(path).schema_arrow
        check_columns(path, other, paths[0], first)
        for column in other:
            if column.nullable:
                columns[column.name] = columns[column.name].with_nullable(True)
    return pa.schema(list(columns.values()))


def row_groups(path: str) -> list[tuple[int, int]]:
    """Return the rows of each non-empty row group, as (start, end) from the start of the file, the end excluded."""
    metadata = _parquet_file(path).metadata
    ranges = []
    start = 0
    for group in range(metadata.num_row_groups):
        end = start + metadata.row_group(group).num_rows
        if end > start:
            ranges.append((start, end))
        start = end
    return ranges


def _parquet_file(path: str, int96_unit: str | None = None) -> pq.ParquetFile:
    import pyarrow.parquet as pq

    system, inner = open_path(path)
    try:
        return pq.ParquetFile(system.open_file(inner), coerce_int96_timestamp_unit=int96_unit)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} is not a Parquet file: {error}") from error


class ParquetReader(StreamReader):
    """A reader of the columns of `schema` from ranges of Parquet rows; those in a split's `keys` have one value.

    `int96_unit` is the unit of times in the old format INT96, "ns" if it is None.
    """

    def __init__(self, schema: pa.Schema, int96_unit: str | None = None) -> None:
        super().__init__()
        self._schema = schema
        self._int96_unit = int96_unit
        self._file = lru_cache(maxsize=MOST_OPEN_SPLITS)(_parquet_file)

    def close(self) -> None:
        """Close the files."""
        super().close()
        self._file.cache_clear()

    def _stream(self, split: Split, position: int) -> Iterator[pa.RecordBatch]:
        keys = split.get("keys", {})
        file = self._file(split["path"], self._int96_unit)
        start, end = split["start"] + position, split.get("end", file.metadata.num_rows)
        check_unchanged(split, rows=file.metadata.num_rows)
        groups, row = _groups_of(file.metadata, start, end)
        stored = [name for name in self._schema.names if name not in keys]
        there = file.schema_arrow
        for name in stored:
            if name not in there.names:
                raise SchemaError(f"{split['path']} has no column {name!r}; its columns are {column_list(there)}")
        many = sum(file.metadata.row_group(group).num_rows for group in groups) > _READ_ROWS
        for batch in file.iter_batches(_READ_ROWS, row_groups=groups, columns=stored, use_threads=many):
            skip, stop = max(start - row, 0), min(end - row, batch.num_rows)
            row += batch.num_rows
            if skip < stop:
                try:
                    rows = self._rows(batch.slice(skip, stop - skip), keys)
                except pa.ArrowException as error:
                    raise SchemaError(
                        f"{split['path']} does not have the columns {column_list(self._schema)}: {error}"
                    ) from error
                yield rows

    def _rows(self, batch: pa.RecordBatch, keys: Mapping[str, Any]) -> pa.RecordBatch:
        return with_keys(batch, keys, self._schema)


def _groups_of(metadata: pq.FileMetaData, start: int, end: int) -> tuple[list[int], int]:
    """Return the row groups that hold the rows `start` to `end`, and the number of their first row."""
    ends = list(accumulate(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)))
    starts = [0, *ends[:-1]]
    groups = [group for group in range(len(ends)) if ends[group] > start and starts[group] < end]
    return groups, starts[groups[0]] if groups else start

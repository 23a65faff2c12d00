"""Rows that Spark has written to Parquet files for a job: what the sources that read such files have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kit.stream.connectors.files import ParquetReader
from kit.stream.operators.sources.source import ReadResult, Source, Split, SplitReader


@dataclass(frozen=True, eq=False)
class CopiedRows(Source):
    """A source of Parquet files that Spark wrote; splits are ranges of rows."""

    columns: pa.Schema

    @property
    def schema(self) -> pa.Schema:
        """The columns of the DataFrame."""
        return self.columns

    @property
    def sequences(self) -> int:
        """More than one: two files may cover the same time."""
        return 2

    def sequence_of(self, split: Split) -> str:
        """Return the file."""
        return str(split["path"])

    def read_split(self, split: Split, position: int, max_rows: int) -> ReadResult:
        """Read once; for several reads in a row, `open_reader` is far faster."""
        reader = self.open_reader()
        try:
            return reader.read(split, position, max_rows)
        finally:
            reader.close()

    def open_reader(self) -> SplitReader:
        """Return a reader that continues where it was without seeking."""
        return _CopyReader(self.columns)


class _CopyReader(ParquetReader):
    """A reader of Parquet files that Spark wrote, where times may be INT96 without a zone."""

    def __init__(self, schema: pa.Schema) -> None:
        super().__init__(schema, int96_unit="us")

    def _rows(self, batch: pa.RecordBatch, keys: Mapping[str, Any]) -> pa.RecordBatch:
        return batch.cast(self._schema)

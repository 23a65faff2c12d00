"""Rows that Spark has written to Parquet files for a job: what the sources that read such files have in common."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from kit.stream.connectors.frame_files import FrameFilesReader
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
        return FrameFilesReader(self.columns)

"""Sources that read files: Parquet by ranges of rows, CSV file by file.

Whatever can be wrong with a file (it is not there, it is empty, it lacks a column) ends in an error when the source
is made, on the driver, and not hours later in a task. The reading itself is in `kit.operators.files`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pyarrow as pa

from kit.operators import files
from kit.operators.source import ReadResult, Source, Split, SplitReader
from kit.operators.spec import column_field

RowRange = tuple[str, int, int]


@dataclass(frozen=True, eq=False)
class _FileSource(Source):
    """Base of both: the paths, made absolute, and reads that open their file."""

    path: str | Iterable[str]

    def _set(self, **values: Any) -> None:
        for attribute, value in values.items():
            object.__setattr__(self, attribute, value)

    @property
    def paths(self) -> tuple[str, ...]:
        """All files, absolute, in the order in which they are read."""
        return (self.path,) if isinstance(self.path, str) else tuple(self.path)

    def read_split(self, split: Split, position: int, max_rows: int) -> ReadResult:
        """One read; for several in a row, `open_reader` is far faster."""
        reader = self.open_reader()
        try:
            return reader.read(split, position, max_rows)
        finally:
            reader.close()


@dataclass(frozen=True, eq=False)
class ParquetSource(_FileSource):
    """Parquet files: one, several, or a directory of them (in order of name), all of the first one's schema.

    `columns` picks columns. `splits` cuts all rows into so many ranges of about the same length (none goes across
    files); None makes a split of each row group. Positions are rows of the split.

    Raises when it is made: FileNotFoundError, SchemaError, or ValueError for a file without bytes or of another
    format, each naming the file. A file with no rows is legal: its source ends at once.
    """

    columns: tuple[str, ...] | None = None
    splits: int | None = None
    _schema: pa.Schema = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        paths = files.resolve_paths(self.path, ".parquet")
        schema = files.parquet_schema(paths)
        if self.columns is not None:
            operator = f"ParquetSource({paths[0]})"
            schema = pa.schema([column_field(schema, column, operator) for column in self.columns])
        if self.splits is not None and self.splits < 1:
            raise ValueError(
                f"ParquetSource: splits is {self.splits}, but must be 1 or more, or None for one a row group"
            )
        self._set(path=paths[0] if len(paths) == 1 else paths, columns=tuple(schema.names), _schema=schema)

    @property
    def schema(self) -> pa.Schema:
        """The columns picked."""
        return self._schema

    def enumerate_splits(self) -> list[Split]:
        """Ranges of rows: `{"id", "path", "start", "end"}`, the end excluded."""
        ranges = [(path, start, end) for path in self.paths for start, end in files.row_groups(path)]
        if self.splits is not None:
            ranges = _even_ranges(ranges, self.splits)
        numbers = dict.fromkeys(self.paths, 0)
        splits: list[Split] = []
        for path, start, end in ranges:
            splits.append({"id": f"{path}#{numbers[path]}", "path": path, "start": start, "end": end})
            numbers[path] += 1
        return splits

    def open_reader(self) -> SplitReader:
        """A reader that goes on where it was without seeking."""
        return files.ParquetReader(self._schema)


def _even_ranges(row_groups: list[RowRange], splits: int) -> list[RowRange]:
    """Cut the rows of all files into `splits` ranges of about the same length; the end of a file is always a cut."""
    rows = {path: end for path, _, end in row_groups}
    total = sum(rows.values())
    ranges: list[RowRange] = []
    before = 0
    for path, count in rows.items():
        cuts = (total * number // splits - before for number in range(1, splits))
        edges = [0, *sorted({cut for cut in cuts if 0 < cut < count}), count]
        ranges += [(path, start, end) for start, end in pairwise(edges)]
        before += count
    return ranges


@dataclass(frozen=True, eq=False)
class CsvSource(_FileSource):
    """CSV files with a header line: one, several, or a directory of them; each is one split, as only counting finds a
    row.

    `columns` is the schema of what to read; columns of the file that it does not name are skipped. The texts in
    `null_values` are null. Positions are rows of the file.

    Raises when it is made: FileNotFoundError, SchemaError, or ValueError for a file without bytes, each naming the
    file. Raises while reading: ValueError naming file, line, column and value where a row does not parse.
    """

    columns: pa.Schema = field(repr=False)
    delimiter: str = ","
    null_values: tuple[str, ...] = ("", "NA", "null")

    def __post_init__(self) -> None:
        super().__post_init__()
        paths = files.resolve_paths(self.path, ".csv")
        for path in paths:
            header = pa.schema([(name, pa.string()) for name in files.csv_header(path, self.delimiter)])
            for name in self.columns.names:
                column_field(header, name, f"CsvSource({path})")
        self._set(path=paths[0] if len(paths) == 1 else paths)

    @property
    def schema(self) -> pa.Schema:
        """The columns to read."""
        return self.columns

    def enumerate_splits(self) -> list[Split]:
        """One a file: `{"id", "path"}`."""
        return [{"id": path, "path": path} for path in self.paths]

    def open_reader(self) -> SplitReader:
        """A reader that goes on where it was without reading the file again."""
        return files.CsvReader(self.columns, self.delimiter, self.null_values)

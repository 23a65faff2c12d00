"""A directory whose files are read as they appear.

A file must appear as a whole: write it elsewhere, or under a name that begins with `.` or `_`, and then rename it. It
must never change afterwards; otherwise the job fails with the file's name (`kit.stream.connectors.file_versions`). Each
file is one bounded split, and the directory is listed repeatedly for new ones. The known files are in the coordinator's
part of each checkpoint, so a file is read once even if the job fails, is rescaled, or is resumed from a savepoint. A
file may be deleted once a checkpoint has completed after it was read; its name must not be used again.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from kit.core.arguments.allowed import COLUMN_NAMES, or_none
from kit.core.arguments.durations import Duration, to_ms
from kit.filesystems.file_system import is_directory
from kit.filesystems.places import open_path
from kit.stream.connectors.csv_files import CsvDialect, CsvReader, csv_schema
from kit.stream.connectors.found_files import directory_path, is_hidden
from kit.stream.connectors.parquet_files import ParquetReader, parquet_schema
from kit.stream.connectors.text_files import COLUMNS, TextReader
from kit.stream.operators.sources.source import ReadResult, Source, Split, SplitReader
from kit.stream.operators.spec import column_field, columns_given

_SUFFIXES = {"parquet": (".parquet",), "csv": (".csv", ".csv.gz", ".csv.bz2", ".csv.zst"), "text": ("",)}


@dataclass(frozen=True, eq=False)
class DirectorySource(Source):
    """The files in a directory and below it: existing ones, and those that appear while the job runs. The job ends only
    when it is stopped.

        env.from_source(DirectorySource("incoming"))
        env.from_source(DirectorySource("incoming", format="csv", columns={"zip": pa.string(), "n": pa.int64()}))

    `format` is "parquet", "csv" (with a header line) or "text" (lines; `columns` picks from `line`, `path` and
    `offset`). `columns` may be left out if a file exists already, which then determines the columns of all files. The
    directory is listed every `discover_every`. Each reader reads its files listing by listing, in the order in which
    they were written.

    The constructor raises FileNotFoundError if the directory does not exist, and ValueError if `columns` is left out
    and the directory has no file.
    """

    path: str
    format: Literal["parquet", "csv", "text"] = "parquet"
    columns: Any = None
    discover_every: Duration = 1_000
    _schema: pa.Schema = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "path", directory_path("DirectorySource", self.path).rstrip("/"))
        object.__setattr__(self, "discover_every", to_ms(self.discover_every, "discover_every"))
        if not isinstance(self.format, str) or self.format not in _SUFFIXES:
            raise ValueError(f"DirectorySource: format is {self.format!r}, but must be 'parquet', 'csv' or 'text'")
        if self.discover_every_ms < 1:
            raise ValueError(f"DirectorySource: discover_every is {self.discover_every}, but must be 1 ms or more")
        system, inner = open_path(self.path)
        if not is_directory(system.info(inner)):
            raise FileNotFoundError(f"there is no directory {self.path}: make it before the job begins")
        object.__setattr__(self, "_schema", self._find_schema())

    def _find_schema(self) -> pa.Schema:
        if self.format == "text":
            self._check(columns=or_none(COLUMN_NAMES, "`line`"))
            names = ("line",) if self.columns is None else tuple(self.columns)
            return pa.schema([column_field(COLUMNS, column, "DirectorySource") for column in names])
        if self.columns is not None:
            return columns_given("DirectorySource: columns", self.columns)
        paths = [split["path"] for split in self.enumerate_splits()]
        if not paths:
            raise ValueError(f"DirectorySource: {self.path} has no files yet that say their columns: give `columns`")
        return parquet_schema(paths) if self.format == "parquet" else csv_schema(paths, CsvDialect())

    @property
    def schema(self) -> pa.Schema:
        """The columns to read."""
        return self._schema

    @property
    def discover_every_ms(self) -> int:
        """The time between two listings, in ms."""
        assert isinstance(self.discover_every, int)  # in ms, since the source was made
        return self.discover_every

    @property
    def sequences(self) -> int:
        """More than one: two files may cover the same time."""
        return 2

    def sequence_of(self, split: Split) -> str:
        """Return the file."""
        return str(split["path"])

    def enumerate_splits(self) -> list[Split]:
        """Return the present files, one split each, in the order in which they were written."""
        system, inner = open_path(self.path)
        start = len(inner.rstrip("/")) + 1
        found = system.entries(inner, recursive=True, missing_ok=False)
        named = [(info.path[start:], info) for info in found if info.is_file]
        visible = [each for each in named if each[0].endswith(_SUFFIXES[self.format]) and not is_hidden(each[0])]
        splits: list[Split] = []
        for name, info in sorted(visible, key=lambda each: (each[1].mtime_ns or 0, each[0])):
            path, version = f"{self.path}/{name}", {"size": info.size, "modified_ns": info.mtime_ns}
            start_of = {} if self.format == "csv" else {"start": 0}
            splits.append({"id": path, "path": path, "version": version, **start_of})
        return splits

    def check_split(self, split: Split) -> None:
        """Raise ValueError for a file that is not in the directory."""
        path = str(split["path"])
        if not path.startswith(f"{self.path}/") or "/../" in path or "/./" in path:
            raise ValueError(
                f"the checkpoint resumes reading {path}, which is not in {self.path}: give the source the directory "
                "that it had when the checkpoint was taken"
            )

    def read_split(self, split: Split, position: int, max_rows: int) -> ReadResult:
        """One read; for several in a row, `open_reader` is far faster."""
        with closing(self.open_reader()) as reader:
            return reader.read(split, position, max_rows)

    def open_reader(self) -> SplitReader:
        """A reader that continues at its last position."""
        if self.format == "parquet":
            return ParquetReader(self._schema)
        return CsvReader(self._schema, CsvDialect()) if self.format == "csv" else TextReader(self._schema)

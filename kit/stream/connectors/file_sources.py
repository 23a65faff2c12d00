"""Sources that read files: Parquet by ranges of rows, text by ranges of bytes, CSV file by file.

A path is a file, a directory, a pattern (`"data/*.csv"`), or several of these; the files are read in order of name.
Values in the names of directories (`year=2013/month=1/`, as Hive and Spark write them) are columns of the rows there.

A problem with a file that can be detected early (it is missing, is empty, or lacks a column) raises an error on the
driver when the source is created, and not hours later in a task. `kit.stream.connectors.parquet_files`,
`csv_files` and `text_files` do the reading.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pyarrow as pa

from kit.core.arguments.allowed import COLUMN_NAMES, FLAG, STRINGS, count, or_none
from kit.stream.connectors.csv_files import NULL_VALUES, CsvDialect, CsvReader, csv_header, csv_schema
from kit.stream.connectors.file_versions import Version, version_of
from kit.stream.connectors.found_files import Found, Paths, find_files, key_schema
from kit.stream.connectors.parquet_files import ParquetReader, parquet_schema, row_groups
from kit.stream.connectors.text_files import COLUMNS, TextReader, is_compressed
from kit.stream.operators.sources.source import ReadResult, Source, Split, SplitReader
from kit.stream.operators.spec import column_field, columns_given

RowRange = tuple[str, int, int]

_MOST_BYTES = 64 << 20
_MOST_TOLD = 4


class _Paths(tuple[str, ...]):
    """Many paths, with a short repr."""

    __slots__ = ()

    def __repr__(self) -> str:
        return super().__repr__() if len(self) < _MOST_TOLD else f"({self[0]!r}, ...: {len(self)} files)"


@dataclass(frozen=True, eq=False)
class _FileSource(Source):
    """The base of file sources: the paths, made absolute, and reads that open their file."""

    path: Paths
    _keys: Mapping[str, Mapping[str, Any]] = field(init=False, repr=False, default_factory=dict)
    """The column values that directories give all rows of a file, by path, for files that have any."""
    _known: frozenset[str] = field(init=False, repr=False, default=frozenset())
    """All files."""

    def _find(self, suffixes: tuple[str, ...], *, may_be_empty: bool = False) -> tuple[Found, ...]:
        """Return the files, which become the new `path`."""
        found = find_files(self.path, suffixes, may_be_empty=may_be_empty)
        paths = tuple(file.path for file in found)
        self._set(path=paths[0] if len(paths) == 1 else _Paths(paths), _known=frozenset(paths))
        return found

    def _take_keys(self, found: Sequence[Found], types: pa.Schema) -> None:
        keys = {
            file.path: {
                key: pa.scalar(text, pa.string()).cast(types.field(key).type).as_py() for key, text in file.keys
            }
            for file in found
        }
        self._set(_keys={path: values for path, values in keys.items() if values})

    def _split(self, path: str, version: Version | None, **what: Any) -> Split:
        keys = self._keys.get(path)
        return {"path": path, **what, **({"version": version} if version else {}), **({"keys": keys} if keys else {})}

    def _set(self, **values: Any) -> None:
        for attribute, value in values.items():
            object.__setattr__(self, attribute, value)

    @property
    def paths(self) -> tuple[str, ...]:
        """All files, absolute, in the order in which they are read."""
        return (self.path,) if isinstance(self.path, str) else tuple(map(str, self.path))  # type: ignore[arg-type]

    @property
    def sequences(self) -> int:
        """The number of files: two of them may cover the same time."""
        return len(self.paths)

    def sequence_of(self, split: Split) -> str:
        """Return the file."""
        return str(split["path"])

    def check_split(self, split: Split) -> None:
        """Raise ValueError for a file that does not belong to the source."""
        if split["path"] not in self._known:
            raise ValueError(
                f"the checkpoint resumes reading {split['path']}, which is not among the files of this source: give "
                "the source the files that it had when the checkpoint was taken"
            )

    def read_split(self, split: Split, position: int, max_rows: int) -> ReadResult:
        """Read once; for several reads in a row, `open_reader` is far faster."""
        with closing(self.open_reader()) as reader:
            return reader.read(split, position, max_rows)


@dataclass(frozen=True, eq=False)
class ParquetSource(_FileSource):
    """Parquet files: one, several, a directory or a pattern, all with the same columns.

    Directories named `key=value` below the given one make columns (int32, int64 or string), after those of the files; a
    column of such a name in the files is not read. `columns` selects columns. `splits` divides all rows into this many
    ranges of about the same length (none spans two files); None makes a split of each row group. Positions are rows of
    the split.

    The splits of one file may go to several subtasks, which read them at the same time. Records of one key then reach
    the next operator in another order than the file has them: `key_by` keeps only the order of records that one subtask
    sends. Where the order per key matters, `splits=1` makes each file one split, and with a key in several files the
    source needs parallelism 1; or let windows and timers go by event time.

    Raises on creation FileNotFoundError, SchemaError, or ValueError for a file without bytes or of another format, each
    naming the file. A file with no rows is legal: its source ends at once.
    """

    columns: tuple[str, ...] | None = None
    splits: int | None = None
    _schema: pa.Schema = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(splits=or_none(count(1), "one per row group"), columns=or_none(COLUMN_NAMES, "all"))
        found = self._find((".parquet",))
        paths, keys = self.paths, key_schema(found)
        schema = with_keys(parquet_schema(paths), keys)
        if self.columns is not None:
            operator = f"ParquetSource({paths[0]})"
            schema = pa.schema([column_field(schema, column, operator) for column in self.columns])
        self._take_keys(found, keys)
        self._set(columns=tuple(schema.names), _schema=schema)

    @property
    def schema(self) -> pa.Schema:
        """The selected columns."""
        return self._schema

    def enumerate_splits(self) -> list[Split]:
        """Return ranges of rows: `{"id", "path", "start", "end"}`, the end excluded."""
        versions = {path: version_of(path) for path in self.paths}  # before their content is read
        ranges = [(path, start, end) for path in self.paths for start, end in row_groups(path)]
        for path, _, end in ranges:
            versions[path] = (versions[path] or {}) | {"rows": end}
        if self.splits is not None:
            ranges = _even_ranges(ranges, self.splits)
        numbers = dict.fromkeys(self.paths, 0)
        splits: list[Split] = []
        for path, start, end in ranges:
            splits.append(self._split(path, versions[path], id=f"{path}#{numbers[path]}", start=start, end=end))
            numbers[path] += 1
        return splits

    def open_reader(self) -> SplitReader:
        """Return a reader that continues where it was without seeking."""
        return ParquetReader(self._schema)


def with_keys(schema: pa.Schema, keys: pa.Schema) -> pa.Schema:
    """Return the columns of files and those of their directories."""
    return pa.schema([*(column for column in schema if column.name not in keys.names), *keys])


def _even_ranges(row_groups: list[RowRange], splits: int) -> list[RowRange]:
    """Divide the rows of all files into `splits` ranges of about the same length, none across two files."""
    rows = {path: end for path, _, end in row_groups}
    total = sum(rows.values())
    ranges: list[RowRange] = []
    before = 0
    for path, end in rows.items():
        cuts = (total * number // splits - before for number in range(1, splits))
        edges = [0, *sorted({cut for cut in cuts if 0 < cut < end}), end]
        ranges += [(path, start, end) for start, end in pairwise(edges)]
        before += end
    return ranges


@dataclass(frozen=True, eq=False)
class CsvSource(_FileSource):
    """CSV files with a header line: one, several, a directory or a pattern; each file is one split.

    A file cannot be divided because only counting finds a row. The columns are those of the header, and their types are
    inferred from the values (int64, float64, bool, dates and times, else string), as in pandas and Spark; `types` sets
    the types of some: `types={"zip": pa.string()}`. Alternatively, `columns` is the schema to read: columns of the file
    that it does not name are skipped. With `header=False` the columns are named f0, f1, ..., or by `columns`, which
    then names all. Directories `key=value` make columns as for `ParquetSource`.

    The texts in `null_values` are null, even if quoted. `quote` is None if nothing is quoted; `multiline` allows line
    ends in quoted values. Positions are rows of the file.

    Raises on creation FileNotFoundError, SchemaError, or ValueError for a file without bytes, each naming the file.
    While reading, a row that does not parse raises ValueError with file, line, column and value.
    """

    columns: pa.Schema | Mapping[str, pa.DataType] | None = field(default=None, repr=False)
    delimiter: str = ","
    null_values: tuple[str, ...] = field(default=NULL_VALUES, repr=False)
    header: bool = field(default=True, repr=False)
    quote: str | None = field(default='"', repr=False)
    escape: str | None = field(default=None, repr=False)
    multiline: bool = field(default=False, repr=False)
    encoding: str = field(default="utf8", repr=False)
    types: Mapping[str, pa.DataType] = field(default_factory=dict, repr=False)
    _schema: pa.Schema = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(header=FLAG, multiline=FLAG, null_values=STRINGS)
        columns_given("CsvSource: types", self.types)
        found = self._find((".csv", ".csv.gz", ".csv.bz2", ".csv.zst"))
        keys = key_schema(found)
        schema = None if self.columns is None else columns_given("CsvSource: columns", self.columns)
        if schema is None:
            schema = with_keys(csv_schema(self.paths, self._dialect), keys)
        else:
            self._set(columns=schema)
            for path in self.paths:
                names = [*csv_header(path, self._dialect), *keys.names]
                header = pa.schema([(name, pa.string()) for name in dict.fromkeys(names)])
                for name in schema.names:
                    column_field(header, name, f"CsvSource({path})")
            keys = pa.schema([schema.field(key.name) if key.name in schema.names else key for key in keys])
        self._take_keys(found, keys)
        self._set(_schema=schema)

    @property
    def _dialect(self) -> CsvDialect:
        names = self.columns.names if isinstance(self.columns, pa.Schema) and not self.header else ()
        how = (self.quote, self.escape, self.multiline, self.encoding)
        return CsvDialect(self.delimiter, tuple(self.null_values), self.header, tuple(names), *how, dict(self.types))

    @property
    def schema(self) -> pa.Schema:
        """The columns to read."""
        return self._schema

    def enumerate_splits(self) -> list[Split]:
        """Return one split per file: `{"id", "path"}`."""
        return [self._split(path, version_of(path), id=path) for path in self.paths]

    def open_reader(self) -> SplitReader:
        """Return a reader that continues where it was without reading the file again."""
        return CsvReader(self._schema, self._dialect)


@dataclass(frozen=True, eq=False)
class TextSource(_FileSource):
    r"""The lines of UTF-8 text files: one file, several, a directory or a pattern.

        env.from_source(TextSource("poems/*.txt")).flat_map(lambda row: [{"word": w} for w in row["line"].split()], ...)

    `columns` selects from `line` (string, without its end, which is `\n` or `\r\n`), `path` (string) and `offset`
    (int64, the byte at which the line begins). A last line without an end is a line; a file without bytes has none.

    `splits` divides all bytes into this many ranges of about the same length (none spans two files). Without it there
    are about as many as subtasks that read them when the job starts for the first time, or more, of at most 64 MB. A
    line belongs to the range in which it begins. A compressed file (`.gz`, `.bz2`, `.zst`, ...) is one split. Positions
    are bytes of the split.

    Raises FileNotFoundError on creation, and ValueError while reading, naming file and byte, for anything but UTF-8.
    Follows Hadoop's `TextInputFormat`.
    """

    columns: Sequence[str] = ("line",)
    splits: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(splits=or_none(count(1), "about one per subtask"), columns=COLUMN_NAMES)
        self._find(("",), may_be_empty=True)
        self._set(columns=tuple(self.columns))
        for column in self.columns:
            column_field(COLUMNS, column, "TextSource")

    @property
    def schema(self) -> pa.Schema:
        """The selected columns."""
        return pa.schema([COLUMNS.field(column) for column in self.columns])

    def enumerate_splits(self) -> list[Split]:
        """Return byte ranges: `{"id", "path", "start", "end"}`, the end excluded; a compressed file has no `end`."""
        return self._ranges(self.splits or 1)

    def splits_for(self, parallelism: int) -> list[Split]:
        """Return about one range for each subtask, unless `splits` is set."""
        return self.enumerate_splits() if self.splits is not None else self._ranges(parallelism)

    def _ranges(self, number: int) -> list[Split]:
        versions = {path: version_of(path) for path in self.paths}
        sizes = {path: version["size"] if version else 0 for path, version in versions.items()}
        whole = {path for path in self.paths if is_compressed(path)}
        cut = [(path, 0, size) for path, size in sizes.items() if size and path not in whole]
        if self.splits is None:
            number = max(number, -(-sum(size for _, _, size in cut) // _MOST_BYTES))
        ranges: dict[str, list[Split]] = {path: [] for path in self.paths}
        for path, start, end in _even_ranges(cut, number):
            split_id = f"{path}#{len(ranges[path])}"
            ranges[path].append(self._split(path, versions[path], id=split_id, start=start, end=end))
        for path in whole:
            ranges[path].append(self._split(path, versions[path], id=path, start=0))
        return [split for path in self.paths for split in ranges[path]]

    def open_reader(self) -> SplitReader:
        """Return a reader that continues where it was without seeking."""
        return TextReader(self.schema)

"""The files that a source reads: which they are, and the columns and rows in those of Parquet.

Hosts let a source read; operators never do. Paths are local (made absolute, since workers run elsewhere) or URIs
(`s3://`, `gs://`, `abfs://`, `hdfs://`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import accumulate
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from kit.core.arguments.allowed import PLACE, expect
from kit.filesystems.file_system import FileSystem, is_directory
from kit.filesystems.places import absolute, open_path
from kit.stream.connectors.file_versions import check_unchanged, unchanged
from kit.stream.connectors.partitions import keys_of
from kit.stream.operators.sources.source import ReadResult, Split
from kit.stream.operators.spec import SchemaError, column_list

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_READ_ROWS = 1 << 16
"""The number of rows decoded at a time; smaller reads use one thread, since waking others would cost more."""
_MOST_OPEN_SPLITS = 64
_WILDCARD = re.compile(r"[*?\[]")
_HIDDEN = re.compile(r"(?:^|/)[._]")

Paths: TypeAlias = str | PathLike[str] | Iterable[str | PathLike[str]]
"""A file, a directory or a pattern, or several of these."""


# --- paths ----------------------------------------------------------------------------------------------------------


def directory_path(of: str, path: object) -> str:
    """Return the absolute path of a directory. Raises SettingError, which begins with `of`, for anything but a path."""
    expect(isinstance(path, PathLike) or PLACE.test(path), f"{of}: path", path, "the path of a directory, or a URI")
    return absolute(path)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Found:
    """A file to read, and the values that its directories give all its rows: `year=2013` is {"year": "2013"}."""

    path: str
    keys: tuple[tuple[str, str | None], ...] = ()


def find_files(path: Paths, suffixes: tuple[str, ...], *, may_be_empty: bool = False) -> tuple[Found, ...]:
    """Return the files that `path` means, absolute and in order of name.

    `path` is a file, a directory (with its subdirectories, except names that begin with `.` or `_`), a pattern with
    `*`, `?`, `[...]` or `**`, or several of these. In a directory only files with one of the suffixes count. The parts
    `key=value` of a file's path below the given directory, or below the first part of a pattern that has a wildcard,
    are its keys. Raises FileNotFoundError for a missing file, ValueError for a file without bytes, both naming it.
    """
    given = [path] if isinstance(path, str | PathLike) else list(path) if isinstance(path, Iterable) else []
    if not all(isinstance(one, str | PathLike) for one in given) or not isinstance(path, str | PathLike | Iterable):
        raise TypeError(f"a path is a text, a pathlib.Path, or several of these, and this is {path!r}")
    found = [file for one in given for file in _files_at(absolute(one), suffixes)]
    if not found:
        kind = " or ".join(suffixes) + " " if any(suffixes) else ""
        raise FileNotFoundError(f"no {kind}files: {', '.join(map(str, given)) or 'no path was given'}")
    for file in found:
        if not may_be_empty and size_of(file.path) == 0:
            raise ValueError(f"{file.path} is empty: it has no bytes, not even a header; was it written to the end?")
    return tuple(found)


def is_hidden(name: str) -> bool:
    """Return True if a path, or a part of it, begins with `.` or `_`."""
    return _HIDDEN.search(name) is not None


def size_of(path: str) -> int:
    """Return the size of a file in bytes."""
    system, inner = open_path(path)
    return int(system.info(inner).size)


def _files_at(path: str, suffixes: tuple[str, ...]) -> list[Found]:
    system, inner = open_path(path)
    info = system.info(inner)
    if info.is_file:
        return [Found(path)]
    if is_directory(info):
        base, inside = path.rstrip("/"), _names_below(system, inner)
        return [Found(f"{base}/{name}", keys_of(name)) for name in inside if name.endswith(suffixes)]
    if not _WILDCARD.search(path):
        raise FileNotFoundError(f"there is no file or directory {path}")
    parts = path.split("/")
    first = next(number for number, part in enumerate(parts) if _WILDCARD.search(part))
    base = "/".join(parts[:first])
    system, inner = open_path(base or "/")
    names = sorted(set(_matching(system, inner.rstrip("/"), parts[first:], suffixes)))
    if not names:
        raise FileNotFoundError(f"nothing matches {path}: there is no such file below {base or '/'}")
    return [Found(f"{base}/{name}", keys_of(name)) for name in names]


def _matching(system: FileSystem, base: str, pattern: Sequence[str], suffixes: tuple[str, ...]) -> Iterator[str]:
    """Yield the files below a directory whose path in it matches; in a matching directory, those with a suffix."""
    wanted, rest = pattern[0], pattern[1:]
    if wanted == "**" and rest:
        yield from _matching(system, base, rest, suffixes)
    for entry in system.entries(f"{base}/"):
        name = entry.base_name
        if _HIDDEN.match(name) and not _HIDDEN.match(wanted):
            continue
        if wanted == "**" and not entry.is_file:
            yield from _below(name, _matching(system, f"{base}/{name}", pattern, suffixes))
        elif wanted == "**" and not rest and name.endswith(suffixes):
            yield name
        elif not fnmatchcase(name, wanted):
            continue
        elif rest and not entry.is_file:
            yield from _below(name, _matching(system, f"{base}/{name}", rest, suffixes))
        elif not rest and entry.is_file:
            yield name
        elif not rest:
            inside = _names_below(system, f"{base}/{name}")
            yield from _below(name, (each for each in inside if each.endswith(suffixes)))


def _below(directory: str, names: Iterable[str]) -> Iterator[str]:
    return (f"{directory}/{name}" for name in names)


def _names_below(system: FileSystem, directory: str) -> list[str]:
    """Return the files below a directory, by their path in it, without hidden files and directories."""
    start = len(directory.rstrip("/")) + 1
    names = (entry.path[start:] for entry in system.entries(directory, recursive=True) if entry.is_file)
    return sorted(name for name in names if not _HIDDEN.search(name))


def key_schema(found: Sequence[Found]) -> pa.Schema:
    """Return the columns from the files' directories: int32, int64 or string, the narrowest that holds all values.

    Raises SchemaError naming a file whose keys differ from the first one's.
    """
    names = [key for key, _ in found[0].keys]
    for file in found:
        if [key for key, _ in file.keys] != names:
            theirs = "/".join(f"{key}=..." for key, _ in file.keys) or "none"
            first = "/".join(f"{key}=..." for key in names) or "none"
            raise SchemaError(
                f"{file.path} has the partition columns {theirs}, expected {first} as {found[0].path} has"
            )
    return pa.schema([(name, _key_type(dict(file.keys)[name] for file in found)) for name in names])


def _key_type(values: Iterable[str | None]) -> pa.DataType:
    texts = pa.array([*dict.fromkeys(values)], pa.string())
    for type in (pa.int32(), pa.int64()):
        with suppress(pa.ArrowInvalid):
            return texts.cast(type).type
    return pa.string()


# --- Parquet --------------------------------------------------------------------------------------------------------


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


def check_columns(path: str, found: pa.Schema, first: str, expected: pa.Schema, remedy: str = "") -> None:
    """Raise SchemaError if the columns differ, with file, column, what was found and what was expected."""
    for column in expected:
        if column.name not in found.names:
            raise SchemaError(
                f"{path} has no column {column.name!r}, which {first} has; its columns are {column_list(found)}"
            )
        theirs = found.field(column.name).type
        if theirs != column.type:
            raise SchemaError(
                f"{path}, column {column.name!r}: found {theirs}, expected {column.type} as in {first}"
                f"{remedy.replace('<column>', column.name)}"
            )
    for name in found.names:
        if name not in expected.names:
            raise SchemaError(f"{path} has a column {name!r}, which {first} has not; expected {column_list(expected)}")


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
            if len(self._open_splits) > _MOST_OPEN_SPLITS:
                del self._open_splits[next(iter(self._open_splits))]
        return ReadResult(batch, opened.position, finished=opened.ahead is None)

    def close(self) -> None:
        self._open_splits.clear()

    def _stream(self, split: Split, position: int) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError


class ParquetReader(StreamReader):
    """A reader of the columns of `schema` from ranges of Parquet rows; those in a split's `keys` have one value.

    `int96_unit` is the unit of times in the old format INT96, "ns" if it is None.
    """

    def __init__(self, schema: pa.Schema, int96_unit: str | None = None) -> None:
        super().__init__()
        self._schema = schema
        self._int96_unit = int96_unit
        self._file = lru_cache(maxsize=_MOST_OPEN_SPLITS)(_parquet_file)

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


def with_keys(batch: pa.RecordBatch, keys: Mapping[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows with the columns that have one value for all of them."""
    columns = [
        pa.repeat(pa.scalar(keys[column.name], column.type), batch.num_rows)
        if column.name in keys
        else batch.column(column.name)
        for column in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _groups_of(metadata: pq.FileMetaData, start: int, end: int) -> tuple[list[int], int]:
    """Return the row groups that hold the rows `start` to `end`, and the number of their first row."""
    ends = list(accumulate(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)))
    starts = [0, *ends[:-1]]
    groups = [group for group in range(len(ends)) if ends[group] > start and starts[group] < end]
    return groups, starts[groups[0]] if groups else start

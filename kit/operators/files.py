"""The edge of the operators: reading input files, and staging and publishing output.

Hosts call what is here; operators never do. Paths are local (made absolute, since workers run elsewhere) or URIs that
Arrow knows (`s3://`, `gs://`, `hdfs://`).

Output is published in two phases. `stage` writes a file under a hidden directory while a checkpoint is being taken;
`commit` renames it to where readers look, once the checkpoint is complete. Committing again is committing once: a
file that is already where it belongs is left alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from posixpath import dirname
from urllib.parse import quote

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from pyarrow import fs

from kit.operators.source import ReadResult, Split
from kit.operators.spec import SchemaError
from kit.protocol.snapshots import Effect

STAGING = ".staging"

_READ_ROWS = 1 << 16
_MOST_OPEN_SPLITS = 16
_BAD_VALUE = re.compile(
    r"In CSV column #(\d+): (?:Row #(\d+): )?CSV conversion error to (\S+): invalid value '(.*)'", re.DOTALL
)
_BAD_ROW = re.compile(r"CSV parse error: (?:Row #(\d+): )?Expected (\d+) columns, got (\d+): (.*)", re.DOTALL)


class CommitError(OSError):
    """Staged output could not be written, or is not there to be published."""


# --- paths ----------------------------------------------------------------------------------------------------------


def open_path(path: str) -> tuple[fs.FileSystem, str]:
    """The file system of a path or URI, and the path within it."""
    if "://" in path:
        return fs.FileSystem.from_uri(path)
    return fs.LocalFileSystem(), os.path.abspath(path)


def absolute(path: str | os.PathLike[str]) -> str:
    """A path that means the same everywhere: local ones from the root, URIs as they are."""
    path = os.fspath(path)
    return path if "://" in path else os.path.abspath(os.path.expanduser(path))


def resolve_paths(path: str | os.PathLike[str] | Iterable[str], suffix: str) -> tuple[str, ...]:
    """The files that `path` means, absolute: one file, several, or a directory's with this suffix in order of name.

    Raises FileNotFoundError for what is not there, ValueError for a file of no bytes, both naming it.
    """
    given = [path] if isinstance(path, str | os.PathLike) else list(path)
    found = [file for one in given for file in _files_at(absolute(one), suffix)]
    if not found:
        raise FileNotFoundError(f"no {suffix} files: {', '.join(map(str, given)) or 'no path was given'}")
    return tuple(found)


def _files_at(path: str, suffix: str) -> list[str]:
    system, inner = open_path(path)
    info = system.get_file_info(inner)
    if info.type == fs.FileType.NotFound:
        raise FileNotFoundError(f"there is no file or directory {path}")
    if info.type == fs.FileType.File:
        if info.size == 0:
            raise ValueError(f"{path} is empty: it has no bytes, not even a header; was it written to the end?")
        return [path]
    inside = system.get_file_info(fs.FileSelector(inner))
    names = sorted(entry.base_name for entry in inside if entry.is_file and not entry.base_name.startswith((".", "_")))
    return [file for name in names if name.endswith(suffix) for file in _files_at(f"{path.rstrip('/')}/{name}", suffix)]


# --- Parquet --------------------------------------------------------------------------------------------------------


def parquet_schema(paths: Sequence[str]) -> pa.Schema:
    """The schema that all these files have; raises ValueError or SchemaError naming the file that is at fault."""
    first = _parquet_file(paths[0]).schema_arrow.remove_metadata()
    for path in paths[1:]:
        schema = _parquet_file(path).schema_arrow.remove_metadata()
        if not schema.equals(first):
            raise SchemaError(f"{path} has the columns {_columns(schema)}, but {paths[0]} has {_columns(first)}")
    return first


def row_groups(path: str) -> list[tuple[int, int]]:
    """The rows of each row group that has any, as (start, end) from the start of the file, the end excluded."""
    metadata = _parquet_file(path).metadata
    ranges = []
    start = 0
    for group in range(metadata.num_row_groups):
        end = start + metadata.row_group(group).num_rows
        if end > start:
            ranges.append((start, end))
        start = end
    return ranges


def _parquet_file(path: str) -> pq.ParquetFile:
    system, inner = open_path(path)
    try:
        return pq.ParquetFile(inner, filesystem=system)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} is not a Parquet file: {error}") from error


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{column.name}: {column.type}" for column in schema)


@dataclass(slots=True)
class _OpenSplit:
    """A split being read: where it stands, what was read ahead of that, and what is still to come."""

    position: int
    ahead: pa.RecordBatch | None
    stream: Iterator[pa.RecordBatch]

    def advance(self) -> None:
        self.ahead = next((batch for batch in self.stream if batch.num_rows), None)


class _StreamReader:
    """A reader that keeps the splits open that it reads, and seeks only when asked for another position."""

    def __init__(self) -> None:
        self._open_splits: dict[str, _OpenSplit] = {}

    def read(self, split: Split, position: int, max_rows: int) -> ReadResult:
        """At most `max_rows` rows of the split from `position` on."""
        opened = self._open_splits.pop(split["id"], None)
        if opened is None or opened.position != position:
            opened = _OpenSplit(position, None, self._stream(split, position))
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
        """Let go of the files."""
        self._open_splits.clear()

    def _stream(self, split: Split, position: int) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError


class ParquetReader(_StreamReader):
    """Reads the columns of `schema` from ranges of rows of Parquet files."""

    def __init__(self, schema: pa.Schema) -> None:
        super().__init__()
        self._schema = schema
        self._file = lru_cache(maxsize=_MOST_OPEN_SPLITS)(_parquet_file)

    def close(self) -> None:
        """Let go of the files."""
        super().close()
        self._file.cache_clear()

    def _stream(self, split: Split, position: int) -> Iterator[pa.RecordBatch]:
        start, end = split["start"] + position, split["end"]
        file = self._file(split["path"])
        groups, row = _groups_of(file.metadata, start, end)
        for batch in file.iter_batches(_READ_ROWS, row_groups=groups, columns=self._schema.names):
            skip, stop = max(start - row, 0), min(end - row, batch.num_rows)
            row += batch.num_rows
            if skip < stop:
                columns = [batch.column(name) for name in self._schema.names]
                yield pa.RecordBatch.from_arrays(columns, schema=self._schema).slice(skip, stop - skip)


def _groups_of(metadata: pq.FileMetaData, start: int, end: int) -> tuple[list[int], int]:
    """The row groups that hold the rows `start` to `end`, and the number of their first row."""
    ends = list(accumulate(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)))
    starts = [0, *ends[:-1]]
    groups = [group for group in range(len(ends)) if ends[group] > start and starts[group] < end]
    return groups, starts[groups[0]] if groups else start


# --- CSV ------------------------------------------------------------------------------------------------------------


def csv_header(path: str, delimiter: str) -> list[str]:
    """The column names in the first line of a CSV file; the lines after it may be wrong."""
    parse = pa_csv.ParseOptions(delimiter=delimiter, invalid_row_handler=lambda _: "skip")
    with _csv_stream(path, parse, pa_csv.ReadOptions(), pa_csv.ConvertOptions(check_utf8=False)) as stream:
        return list(stream.schema.names)


def _csv_stream(
    path: str, parse: pa_csv.ParseOptions, read: pa_csv.ReadOptions, convert: pa_csv.ConvertOptions
) -> pa_csv.CSVStreamingReader:
    system, inner = open_path(path)
    read.use_threads = False
    try:
        return pa_csv.open_csv(system.open_input_stream(inner), read, parse, convert)
    except pa.ArrowInvalid as error:
        raise ValueError(_csv_error(path, parse.delimiter, str(error))) from error


class CsvReader(_StreamReader):
    """Reads the columns of `schema` from CSV files with a header line."""

    def __init__(self, schema: pa.Schema, delimiter: str, null_values: Sequence[str]) -> None:
        super().__init__()
        self._schema = schema
        self._delimiter = delimiter
        self._null_values = list(null_values)

    def _stream(self, split: Split, position: int) -> Iterator[pa.RecordBatch]:
        read = pa_csv.ReadOptions(skip_rows_after_names=position)
        convert = pa_csv.ConvertOptions(
            column_types=self._schema,
            include_columns=self._schema.names,
            null_values=self._null_values,
            strings_can_be_null=True,
        )
        stream = _csv_stream(split["path"], pa_csv.ParseOptions(delimiter=self._delimiter), read, convert)
        while True:
            try:
                batch = stream.read_next_batch()
            except StopIteration:
                return
            except pa.ArrowInvalid as error:
                raise ValueError(_csv_error(split["path"], self._delimiter, str(error))) from error
            yield pa.RecordBatch.from_arrays(batch.columns, schema=self._schema)


def _csv_error(path: str, delimiter: str, message: str) -> str:
    """Arrow's message, with the names of file and column in it."""
    if bad := _BAD_VALUE.search(message):
        column, line, wanted, value = bad.groups()
        name = csv_header(path, delimiter)[int(column)]
        return f"{path}, line {line}, column {name!r}: {value!r} is not of type {wanted}"
    if bad := _BAD_ROW.search(message):
        line, wanted, found, text = bad.groups()
        return f"{path}, line {line}: {found} values where the header has {wanted} columns: {text!r}"
    return f"{path} cannot be read as CSV: {message}"


# --- output ---------------------------------------------------------------------------------------------------------


def staging_directory(path: str, job_id: str) -> str:
    """Where a job keeps output for `path` that is not yet visible."""
    return f"{path.rstrip('/')}/{STAGING}/{file_safe(job_id)}"


def file_safe(name: str) -> str:
    """A name with everything escaped that has a meaning in paths."""
    return quote(name, safe="").replace(".", "%2E")


def check_output_directory(path: str) -> None:
    """Raise CommitError naming `path` when it is clear already that no output can be written there."""
    system, inner = open_path(path)
    if not isinstance(system, fs.LocalFileSystem):
        return
    existing = inner
    while not os.path.lexists(existing):
        existing = dirname(existing)
    if not os.path.isdir(existing):
        raise CommitError(f"output directory {path} cannot be written: {existing} is a file, not a directory")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise CommitError(f"output directory {path} cannot be written: no permission for {existing}")


def stage(effect: Effect) -> None:
    """Write the effect's table to its staged file, whole or not at all; raises CommitError naming the file."""
    system, staged = open_path(effect.staged)
    unfinished = f"{staged}.unfinished"
    try:
        system.create_dir(dirname(staged), recursive=True)
        pq.write_table(effect.table, unfinished, filesystem=system)
        system.move(unfinished, staged)
    except OSError as error:
        directory = dirname(effect.final)
        raise CommitError(f"output directory {directory} cannot be written: {error}; make it writable") from error


def commit(effects: Iterable[Effect]) -> None:
    """Publish staged files by renaming them; what is published already is left alone.

    Raises CommitError when a file is neither staged nor published, or was published with other content.
    """
    for effect in effects:
        _commit(effect)


def _commit(effect: Effect) -> None:
    system, staged = open_path(effect.staged)
    _, final = open_path(effect.final)
    is_staged, is_final = (info.is_file for info in system.get_file_info([staged, final]))
    try:
        if is_final:
            if is_staged:
                _check_same(system, effect, staged, final)
                system.delete_file(staged)
        elif is_staged:
            system.create_dir(dirname(final), recursive=True)
            system.move(staged, final)
        else:
            raise CommitError(
                f"{effect.final} cannot be published: it is not there, and neither is {effect.staged}; "
                "one of them was deleted or moved away since the checkpoint"
            )
    except CommitError:
        raise
    except OSError as error:
        raise CommitError(f"{effect.final} cannot be published: {error}") from error


def _check_same(system: fs.FileSystem, effect: Effect, staged: str, final: str) -> None:
    with system.open_input_file(staged) as ours, system.open_input_file(final) as theirs:
        if ours.size() == theirs.size() and ours.readall() == theirs.readall():
            return
    raise CommitError(
        f"{effect.final} was published already with other rows: an earlier run of a job with the same id wrote to "
        f"{dirname(effect.final)}; empty that directory, or write to another"
    )


def drop(effects: Iterable[Effect]) -> None:
    """Delete staged files that will never be published; those that are gone already do not matter."""
    for effect in effects:
        system, staged = open_path(effect.staged)
        for path in (staged, f"{staged}.unfinished"):
            if system.get_file_info(path).is_file:
                system.delete_file(path)


def staged_files(path: str, job_id: str) -> list[str]:
    """The names of the files that a job has staged for `path`, finished or not."""
    system, inner = open_path(staging_directory(path, job_id))
    return sorted(info.base_name for info in system.get_file_info(fs.FileSelector(inner, allow_not_found=True)))


def remove_staged(path: str, job_id: str, names: Iterable[str]) -> None:
    """Delete staged files by name, and the directory with the last; those that are gone already do not matter."""
    system, inner = open_path(staging_directory(path, job_id))
    for name in names:
        if system.get_file_info(f"{inner}/{name}").is_file:
            system.delete_file(f"{inner}/{name}")
    for directory in (inner, dirname(inner)):
        _delete_if_empty(system, directory)


def published_files(path: str) -> list[str]:
    """The names of the Parquet files that a reader of the directory sees, in order."""
    system, inner = open_path(path)
    found = system.get_file_info(fs.FileSelector(inner, allow_not_found=True))
    names = [info.base_name for info in found if info.is_file and info.base_name.endswith(".parquet")]
    return sorted(name for name in names if not name.startswith((".", "_")))


def delete_published(path: str, names: Iterable[str]) -> None:
    """Delete these; those that are gone already do not matter."""
    system, inner = open_path(path)
    for name in names:
        if system.get_file_info(f"{inner}/{name}").is_file:
            system.delete_file(f"{inner}/{name}")


def _delete_if_empty(system: fs.FileSystem, directory: str) -> None:
    is_there = system.get_file_info(directory).type == fs.FileType.Directory
    if is_there and not system.get_file_info(fs.FileSelector(directory)):
        system.delete_dir(directory)

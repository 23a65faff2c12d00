"""Files that grow while a job reads them: lines of text, and rows of CSV.

A tailed file is one split without an end. Its position is the byte behind the last line that was read, so a line counts
once its end has been written; what is behind the last line end waits. Reading again from a position gives the same rows
as long as nobody changes what has been written. A file that became shorter, or that was replaced by another (as some
programs rotate logs), would give other rows. So each read compares the file with the one that the split was made of.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from kit.core.arguments.allowed import CHARACTER, COLUMN_NAMES, or_none
from kit.filesystems.places import open_path
from kit.stream.connectors.csv_files import CsvDialect, csv_header, csv_schema
from kit.stream.connectors.file_versions import FileChangedError
from kit.stream.connectors.found_files import Paths, find_files, size_of
from kit.stream.connectors.text_files import COLUMNS, batch_of_lines, cut_lines
from kit.stream.operators.sources.source import ReadResult, Source, Split
from kit.stream.operators.spec import column_field, columns_given

_BLOCK_BYTES = 1 << 20
_END = b"\n"


@dataclass(frozen=True, eq=False)
class TailSource(Source):
    r"""Rows of files that grow: one file, several, those of a directory or those that a pattern matches when the job
    begins. The job reads what is written to them, and ends only when it is stopped.

        env.from_source(TailSource("app.log"))
        env.from_source(TailSource("prices.csv", format="csv", columns={"at": pa.int64(), "price": pa.float64()}))

    A line is read once it ends in `\n`. `format="text"`: `columns` picks from `line`, `path` and `offset`, as for
    `TextSource`. `format="csv"`: the first line of each file names its columns; `columns` says which are read and of
    what type, and may be left out if the files have rows already from which the types follow. Quoted values have no
    line ends in them. Positions are bytes.

    A file only grows. One that became shorter, or was replaced by another file, fails the job with a FileChangedError
    that names it. Raises FileNotFoundError when it is made, for a missing file.
    """

    path: Paths
    format: Literal["text", "csv"] = "text"
    columns: object = None
    delimiter: str = ","
    _paths: tuple[str, ...] = field(init=False, repr=False, default=())
    _schema: pa.Schema = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.format not in ("text", "csv"):
            raise ValueError(f"TailSource: format is {self.format!r}, but must be 'text' or 'csv'")
        self._check(delimiter=CHARACTER)
        suffixes = ("",) if self.format == "text" else (".csv",)
        found = find_files(self.path, suffixes, may_be_empty=True)
        object.__setattr__(self, "_paths", tuple(file.path for file in found))
        object.__setattr__(self, "_schema", self._text_schema() if self.format == "text" else self._csv_schema())

    def _text_schema(self) -> pa.Schema:
        self._check(columns=or_none(COLUMN_NAMES, "`line`"))
        columns = ("line",) if self.columns is None else tuple(self.columns)  # type: ignore[arg-type]
        return pa.schema([column_field(COLUMNS, column, "TailSource") for column in columns])

    def _csv_schema(self) -> pa.Schema:
        if self.columns is not None:
            return columns_given("TailSource: columns", self.columns)
        if any(size_of(path) == 0 for path in self._paths):
            raise ValueError("TailSource: the files have no rows to infer types from: give `columns`")
        return csv_schema(self._paths, self._dialect)

    @property
    def _dialect(self) -> CsvDialect:
        return CsvDialect(self.delimiter)

    @property
    def schema(self) -> pa.Schema:
        """The columns to read."""
        return self._schema

    @property
    def endless(self) -> bool:
        """Return True: a file may always grow."""
        return True

    def enumerate_splits(self) -> list[Split]:
        """One a file: `{"id", "path"}`, and `"inode"` on a disk of this machine."""
        return [{"id": path, "path": path, **_inode(path)} for path in self._paths]

    def check_split(self, split: Split) -> None:
        """Raise ValueError for a file that is not one of the source's."""
        if split["path"] not in self._paths:
            raise ValueError(
                f"the checkpoint resumes reading {split['path']}, which is not among the files of this source: give "
                "the source the files that it had when the checkpoint was taken"
            )

    def has_rows(self, split: Split, position: int) -> bool:
        """Return True if a line has ended behind the position. Raises FileChangedError, as a read does."""
        path = split["path"]
        unchanged = size_of(path) == position and _inode(path).get("inode") == split.get("inode")
        return not unchanged and bool(_whole_lines(split, position))

    def read_split(self, split: Split, position: int, max_rows: int) -> ReadResult:
        """The lines that have ended behind byte `position`."""
        path = split["path"]
        data = _whole_lines(split, position)
        if not data:
            return ReadResult(None, position, finished=False)
        skipped = 0
        if self.format == "csv" and position == 0:  # the names of the columns
            skipped = data.index(_END) + 1
            data = data[skipped:]
            if not data:
                return ReadResult(None, skipped, finished=False)
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord(_END))
        data = data[: int(ends[min(max_rows, len(ends)) - 1]) + 1]
        at = position + skipped
        if self.format == "text":
            batch = batch_of_lines(cut_lines(path, data, at), path, self._schema)
        else:
            batch = self._parse(path, data, at)
        return ReadResult(batch, at + len(data), finished=False)

    def _parse(self, path: str, data: bytes, at: int) -> pa.RecordBatch:
        names = _names(path, self._dialect.delimiter, _inode(path).get("inode"))
        for column in self._schema.names:
            column_field(pa.schema([(name, pa.string()) for name in names]), column, f"TailSource({path})")
        read = pa_csv.ReadOptions(use_threads=False, column_names=names, block_size=max(len(data), _BLOCK_BYTES))
        dialect = self._dialect
        try:
            table = pa_csv.read_csv(
                io.BytesIO(data), read, dialect.parse_options(), dialect.convert_options(self._schema)
            )
        except pa.ArrowInvalid as error:
            raise ValueError(f"{path}, in the lines from byte {at} on: {error}") from error
        batches = table.combine_chunks().to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=self._schema)


@lru_cache(maxsize=256)
def _names(path: str, delimiter: str, inode: int | None) -> list[str]:
    """The names of the columns in the first line."""
    return csv_header(path, CsvDialect(delimiter))


def _inode(path: str) -> dict[str, int]:
    """Return which file has this name now, on a disk of this machine."""
    system, inner = open_path(path)
    inode = system.inode(inner)
    return {} if inode is None else {"inode": inode}


def _whole_lines(split: Split, position: int) -> bytes:
    """Some lines behind byte `position`, each with its end; none if the next one has not ended. Raises
    FileChangedError.
    """
    path = split["path"]
    system, inner = open_path(path)
    try:
        file = system.open_file(inner)
    except FileNotFoundError:
        raise FileChangedError(f"{path} is gone, while the job reads what is written to it: put it back") from None
    with file:
        size = file.size()
        if "inode" in split and _inode(path) != {"inode": split["inode"]}:
            raise FileChangedError(
                f"{path} was replaced by another file after {position:,} bytes of it had been read: put the old one "
                "back, or start the job from scratch, with other output"
            )
        if size < position:
            raise FileChangedError(
                f"{path} was cut off: {position:,} bytes of it had been read, and it has {size:,}. Files that a "
                "TailSource reads only grow: put back what was there, or start the job from scratch, with other output"
            )
        return _read_lines(file, max(0, position - 1), size, path)


def _read_lines(file: pa.NativeFile, begin: int, size: int, path: str) -> bytes:
    """Lines of the file from byte `begin` on; unless that is its beginning, a line has to end with this byte."""
    file.seek(begin)
    length = _BLOCK_BYTES
    while True:
        data = bytes(file.read(min(length, size - begin)))
        whole = data.rfind(_END) + 1
        if begin and data[:1] != _END:
            raise FileChangedError(
                f"{path} was rewritten: byte {begin:,}, where a line ended when it was read, is no line end. Put "
                "back what was there, or start the job from scratch, with other output"
            )
        skip = 1 if begin else 0
        if whole > skip or len(data) < length:
            return data[skip:whole]
        length *= 2
        file.seek(begin)

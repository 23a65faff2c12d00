"""Lines of text files, from any byte on; the source is `kit.stream.connectors.file_sources.TextSource`.

A line belongs to the range of bytes in which it begins. So the reader of a range that does not begin a file checks the
byte before it: unless a line ends there, the first line it sees belongs to the previous range. It reads past the end of
its range until its last line ends.

Arrow cuts the lines, one block of the file at a time; the rest of a block after its last line end is prepended to the
next.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kit.filesystems.places import open_path
from kit.stream.connectors.file_versions import unchanged
from kit.stream.operators.sources.source import ReadResult, Split

COLUMNS = pa.schema([("line", pa.string()), ("path", pa.string()), ("offset", pa.int64())])

_BLOCK_BYTES = 1 << 20
_MOST_OPEN_SPLITS = 64
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")  # formats that Arrow reads through
_BOM = b"\xef\xbb\xbf"
_END = b"\n"

Offsets = npt.NDArray[np.int64]


def is_compressed(path: str) -> bool:
    """Return True if the name says that the file must be read from the beginning."""
    return path.endswith(_COMPRESSED)


@dataclass(slots=True)
class Lines:
    """Consecutive lines: their texts, the byte at which each begins, and the byte after them."""

    texts: pa.Array
    starts: Offsets
    end: int

    def split(self, count: int) -> tuple[Lines, Lines | None]:
        """Return the first lines, and the others if there are any."""
        if count >= len(self.starts):
            return self, None
        at = int(self.starts[count])
        first = Lines(self.texts.slice(0, count), self.starts[:count], at)
        return first, Lines(self.texts.slice(count), self.starts[count:], self.end)


@dataclass(slots=True)
class _OpenSplit:
    """A split being read: the lines ahead, none at its end, and those still to come."""

    ahead: Lines | None
    stream: Iterator[Lines]


class TextReader:
    """A reader of lines that keeps its splits open, and seeks only when asked for another position."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._open: dict[tuple[str, int], _OpenSplit] = {}

    def read(self, split: Split, position: int, max_rows: int) -> ReadResult:
        """Return at most `max_rows` lines from byte `position` of the split on."""
        opened = self._open.pop((split["id"], position), None)
        if opened is None:
            stream = unchanged(split, _lines(split, position))
            opened = _OpenSplit(next(stream, None), stream)
        if opened.ahead is None:
            return ReadResult(None, position, finished=True)
        lines, opened.ahead = opened.ahead.split(max_rows)
        if opened.ahead is None:
            opened.ahead = next(opened.stream, None)
        after = lines.end - int(split["start"])
        if opened.ahead is not None:
            self._open[split["id"], after] = opened
            if len(self._open) > _MOST_OPEN_SPLITS:
                del self._open[next(iter(self._open))]
        return ReadResult(batch_of_lines(lines, split["path"], self._schema), after, finished=opened.ahead is None)

    def close(self) -> None:
        """Close the files."""
        self._open.clear()


def batch_of_lines(lines: Lines, path: str, schema: pa.Schema) -> pa.RecordBatch:
    """Return lines of a file as rows with the columns of `schema`."""
    made: dict[str, Any] = {
        "line": lines.texts,
        "path": pa.repeat(pa.scalar(path, pa.string()), len(lines.starts)),
        "offset": pa.array(lines.starts),
    }
    return pa.RecordBatch.from_arrays([made[name] for name in schema.names], schema=schema)


def _lines(split: Split, position: int) -> Iterator[Lines]:
    """Yield the lines of a split that begin at byte `position` of it or later, some at a time."""
    path, begin, end = split["path"], split["start"] + position, split.get("end")
    skips_first = position == 0 and begin > 0
    left, at = b"", begin - skips_first
    with _opened(path, at) as file:
        while end is None or at < end:
            block = file.read(max(_BLOCK_BYTES, len(left)))  # more for a long line
            data = left + block
            whole = data.rfind(_END) + 1 if block else len(data)
            if not block and (not whole or (at == 0 and data == _BOM)):  # a byte order mark alone is not a line
                return
            begins = 0
            if skips_first and whole:
                begins, skips_first = data.find(_END, 0, whole) + 1 or whole, False
            if begins < whole:
                lines = cut_lines(path, data[begins:whole], at + begins)
                belong = len(lines.starts) if end is None else int(np.searchsorted(lines.starts, end))
                if belong:
                    yield lines.split(belong)[0]
            left, at = data[whole:], at + whole


def _opened(path: str, begin: int) -> pa.NativeFile:
    """Open a file to be read from byte `begin` on."""
    system, inner = open_path(path)
    if not is_compressed(path):
        file = system.open_file(inner)
        file.seek(begin)
        return file
    stream = system.open_stream(inner)
    while begin:
        skipped = len(stream.read(min(begin, _BLOCK_BYTES)))
        begin = begin - skipped if skipped else 0
    return stream


def cut_lines(path: str, data: bytes, at: int) -> Lines:
    """Return the lines of `data`, of which only the last may lack its end; the first begins at byte `at`."""
    if not data.isascii():
        _check_utf8(path, data, at)
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord(_END))
    if not data.endswith(_END):
        ends = np.append(ends, len(data))
    starts = np.concatenate([[0], ends[:-1] + 1])
    bounds = np.append(starts - np.arange(len(starts)), ends[-1] - (len(ends) - 1))  # without the preceding line ends
    letters = pa.py_buffer(data.replace(_END, b""))
    texts = pa.LargeStringArray.from_buffers(len(starts), pa.py_buffer(bounds), letters)
    if b"\r" in data and b"\r\n" in data:  # searching one byte is ten times as fast as two
        texts = _without_return(texts, data.endswith(_END))
    if at == 0 and data.startswith(_BOM):
        texts = pa.concat_arrays([pc.utf8_slice_codeunits(texts.slice(0, 1), 1), texts.slice(1)])
    return Lines(texts.cast(pa.string()), at + starts, at + len(data))


def _without_return(texts: pa.Array, all_ended: bool) -> pa.Array:
    """Return the lines without the return before their end; a last line without an end is unchanged."""
    ended = texts if all_ended else texts.slice(0, len(texts) - 1)
    cut = pc.if_else(pc.ends_with(ended, "\r"), pc.utf8_slice_codeunits(ended, 0, -1), ended)
    return cut if all_ended else pa.concat_arrays([cut, texts.slice(len(texts) - 1)])


def _check_utf8(path: str, data: bytes, at: int) -> None:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        wrong = error.start
        raise ValueError(
            f"{path}, byte {at + wrong}: {data[wrong]:#04x} is not UTF-8; the text before it is "
            f"{data[max(wrong - 20, 0) : wrong].decode(errors='replace')!r}: convert the file to UTF-8"
        ) from None

"""Which file a split was made of, so that one that changed since is noticed.

The positions in a checkpoint are those of rows or bytes in a file. If somebody writes the file anew, rows are lost or
counted twice, and nothing else would tell. So a split remembers the size of its file and when it was written, of
Parquet the number of rows too. They are looked at before a split is opened and before its last rows are handed on. A
file that was deleted while it is read is read to its end, as the system still has it. Splits that an earlier kit made
remember nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from pyarrow import fs

from kit.stream.connectors.disk import open_path
from kit.stream.operators.sources.source import Split

Version = dict[str, Any]
T = TypeVar("T")


class FileChangedError(ValueError):
    """The file that a split was made of is no longer the same."""


def version_of(path: str, **more: int) -> Version | None:
    """Return what a split remembers of a file: `size` in bytes, `modified_ns` since 1970 where the file system tells,
    and `more`; None for a file that is not there.
    """
    system, inner = open_path(path)
    info = system.get_file_info(inner)
    return {"size": info.size, "modified_ns": info.mtime_ns, **more} if info.type is fs.FileType.File else None


def unchanged(split: Split, stream: Iterator[T]) -> Iterator[T]:
    """What is read of a split, which begins with the first look at `stream`. Raises FileChangedError."""
    check_unchanged(split)
    try:
        yield from stream
    except Exception:
        check_unchanged(split)
        raise
    check_unchanged(split)


def check_unchanged(split: Split, **more: int) -> None:
    """Raise FileChangedError unless the file is the one that the split was made of; `more` is known of it besides."""
    remembered, found = split.get("version"), version_of(split["path"], **more)
    if remembered is None or found is None:
        return
    if any(found[what] != remembered.get(what, found[what]) for what in found):
        raise FileChangedError(
            f"{split['path']} was written anew after the job had begun: it had {_described(remembered)}, and has "
            f"{_described(found)}. What was read before is of the old file: put that back, or start the job from "
            "scratch, with other output"
        )


def _described(version: Mapping[str, Any]) -> str:
    rows = f" and {version['rows']:,} rows" if "rows" in version else ""
    written = version["modified_ns"]
    when = "" if written is None else f", of {datetime.fromtimestamp(written / 1e9, UTC):%Y-%m-%d %H:%M:%S.%f} UTC"
    return f"{version['size']:,} bytes{rows}{when}"

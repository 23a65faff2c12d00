"""The version of the file that a split was made from, to detect a later change.

The positions in a checkpoint are rows or bytes in a file. If the file is rewritten, rows would be lost or counted twice
without any error. So a split remembers the size of its file and when it was written, and for Parquet the number of
rows. These are checked before a split is opened and before its last rows are passed on. A file that is deleted while it
is read is read to its end, since the system still has it. Splits from older versions of the kit remember nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from kit.filesystems.places import open_path
from kit.stream.operators.sources.source import Split

Version = dict[str, Any]
T = TypeVar("T")


class FileChangedError(ValueError):
    """The file that a split was made from has changed."""


def version_of(path: str, **more: int) -> Version | None:
    """Return what a split remembers of a file, or None if the file does not exist.

    That is `size` in bytes, `modified_ns` since 1970 if the file system has it, and `more`.
    """
    system, inner = open_path(path)
    info = system.info(inner)
    return {"size": info.size, "modified_ns": info.mtime_ns, **more} if info.is_file else None


def unchanged(split: Split, stream: Iterator[T]) -> Iterator[T]:
    """Yield what is read of a split, checking the file before and at the end. Raises FileChangedError."""
    check_unchanged(split)
    try:
        yield from stream
    except Exception:
        check_unchanged(split)
        raise
    check_unchanged(split)


def check_unchanged(split: Split, **more: int) -> None:
    """Raise FileChangedError unless the file is the one that the split was made from; `more` is compared too."""
    remembered, found = split.get("version"), version_of(split["path"], **more)
    if remembered is None or found is None:
        return
    if any(found[what] != remembered.get(what, found[what]) for what in found):
        raise FileChangedError(
            f"{split['path']} was rewritten after the job had started: it had {_described(remembered)}, and has "
            f"{_described(found)}. What was read before is of the old file: put that back, or start the job from "
            "scratch, with other output"
        )


def _described(version: Mapping[str, Any]) -> str:
    rows = f" and {version['rows']:,} rows" if "rows" in version else ""
    written = version["modified_ns"]
    when = "" if written is None else f", of {datetime.fromtimestamp(written / 1e9, UTC):%Y-%m-%d %H:%M:%S.%f} UTC"
    return f"{version['size']:,} bytes{rows}{when}"

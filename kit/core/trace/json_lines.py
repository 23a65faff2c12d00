"""Files of JSON lines, the format of saved traces, and checks of the paths that a user gives.

Nothing else in the protocol touches the disk.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any


def target_of(path: str | PathLike[str]) -> Path:
    """Return the path of a file or directory that is about to be written at a user's request.

    Creates nothing. Raises FileNotFoundError if the parent directory does not exist, NotADirectoryError if the parent
    is a file, and IsADirectoryError if `path` has no file name.
    """
    target = Path(path)
    parent = target.parent
    if not str(path) or target.name in ("", ".."):
        raise IsADirectoryError(f"{str(path)!r} names no file: expected a path that ends in a file's name")
    if parent.exists() and not parent.is_dir():
        raise NotADirectoryError(f"{parent} is a file, so nothing can be saved in it: choose another directory")
    if not parent.exists():
        raise FileNotFoundError(f"there is no directory {parent}: create it first, or save to one that exists")
    return target


def file_of(path: str | PathLike[str]) -> Path:
    """Return `target_of(path)` for a file. Raises IsADirectoryError if `path` is a directory."""
    target = target_of(path)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a directory: add a file's name, as in {target / 'run'}")
    return target


def write_lines(path: str | PathLike[str], lines: Iterable[Mapping[str, Any]]) -> Path:
    """Write each mapping as one line, and return the path. Raises OSError for an impossible path, as `file_of` does."""
    target = file_of(path)
    with target.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    return target


def read_lines(path: str | PathLike[str]) -> Iterator[Any]:
    """Yield what `write_lines` wrote, line by line."""
    with Path(path).open(encoding="utf-8") as file:
        yield from map(json.loads, file)

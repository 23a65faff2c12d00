"""Files of JSON lines, as traces are saved, and where a user's file may go: what of the protocol touches the disk."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any


def target_of(path: str | PathLike[str]) -> Path:
    """Return the path of a file, or of a directory, that is about to be written at a user's request.

    Creates nothing. Raises FileNotFoundError when the directory above does not exist, NotADirectoryError when that is a
    file, IsADirectoryError when `path` names no file.
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
    """The same of a file. Raises IsADirectoryError where `path` is a directory."""
    target = target_of(path)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a directory: add a file's name, as in {target / 'run'}")
    return target


def write_lines(path: str | PathLike[str], lines: Iterable[Mapping[str, Any]]) -> Path:
    """Write each of these as one line, and return the path. Raises OSError where that cannot be, as `file_of` does."""
    target = file_of(path)
    with target.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    return target


def read_lines(path: str | PathLike[str]) -> Iterator[Any]:
    """What `write_lines` wrote, line by line."""
    with Path(path).open(encoding="utf-8") as file:
        yield from map(json.loads, file)

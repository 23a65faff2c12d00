"""The files that a source reads: those that its paths mean, and the columns that all of them have.

Paths are local (made absolute, since workers run elsewhere) or URIs (`s3://`, `gs://`, `abfs://`, `hdfs://`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from os import PathLike
from typing import TypeAlias

import pyarrow as pa

from kit.core.arguments.allowed import PLACE, expect
from kit.filesystems.file_system import FileSystem, is_directory
from kit.filesystems.places import absolute, open_path
from kit.stream.connectors.partitions import keys_of
from kit.stream.operators.spec import SchemaError, column_list

_WILDCARD = re.compile(r"[*?\[]")
_HIDDEN = re.compile(r"(?:^|/)[._]")

Paths: TypeAlias = str | PathLike[str] | Iterable[str | PathLike[str]]
"""A file, a directory or a pattern, or several of these."""


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

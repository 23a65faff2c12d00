"""Records of what a sink publishes, which outlast the files that its readers take away.

A published file belongs to its readers: they may move or delete it at any time. After a failure the restored
checkpoint still names it, although nothing may be left that shows whether it was published. So before a staged file
gets its published name, a record is written in the same directory:

    <output>/.staging/<job id>/part-0-7.parquet             staged by checkpoint 7
    <output>/.staging/<job id>/part-0-7.parquet.published   {"bytes": 4711, "final": "part-...-00000-000007.parquet"}

The record is synced before the rename, as the rename is before it is confirmed. Whatever else deletes a staged file
deletes its record first. So a record whose staged file is gone says that the part was published; a part that is neither
staged, nor published, nor recorded, was never published. Several checkpoints may have staged the same part, under names
of their own (`part-0-7-in-8.parquet`): it is published once, so the record of one of them counts for all.

Nothing is opened or deleted under a name that a record contains: such names are only compared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from posixpath import basename, dirname

import pyarrow as pa

from kit.filesystems.file_system import FileSystem

SUFFIX = ".published"
_AGAIN = re.compile(r"(?:-in-\d+)?\.parquet$")


def write_record(system: FileSystem, staged: str, final: str, *, durable: bool) -> None:
    """Note that the staged file is about to be published as `final`. Raises OSError."""
    path = f"{staged}{SUFFIX}"
    record = {"bytes": system.info(staged).size, "final": basename(final)}
    data = json.dumps(record, sort_keys=True).encode()
    system.put(path, data, durable=durable, temporary=f"{path}.unfinished")


def was_published(system: FileSystem, staged: str, final: str) -> bool:
    """Return True if there is a record that this part was published, by whichever checkpoint. Raises OSError."""
    directory, part = dirname(staged), _AGAIN.sub("", basename(staged))
    names = {info.base_name for info in system.entries(directory)}
    return any(
        name not in names and recorded_name(system, f"{directory}/{name}{SUFFIX}") == basename(final)
        for name in (each.removesuffix(SUFFIX) for each in names if each.endswith(SUFFIX))
        if _AGAIN.sub("", name) == part
    )


def is_record(name: str) -> bool:
    """Return True if a file in a staging directory is a record, finished or not."""
    return name.removesuffix(".unfinished").endswith(SUFFIX)


def lone_records(names: Iterable[str]) -> set[str]:
    """Return the names of records whose staged file is not among these files of a staging directory."""
    found = set(names)
    return {name for name in found if name.endswith(SUFFIX) and name.removesuffix(SUFFIX) not in found}


def delete_staged(system: FileSystem, staged: str) -> None:
    """Delete a staged file, finished or not, after its record; those that are gone already do not matter."""
    for path in (f"{staged}{SUFFIX}", f"{staged}{SUFFIX}.unfinished", f"{staged}.unfinished", staged):
        if system.is_file(path):
            system.delete(path)


def recorded_name(system: FileSystem, path: str) -> str:
    """Return the published name in a record, "" if it cannot be read."""
    with suppress(OSError, pa.ArrowException, ValueError, AttributeError):
        return str(json.loads(system.read_range(path).to_pybytes()).get("final", ""))
    return ""

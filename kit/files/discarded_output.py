"""Marks of the output that was deleted because an older snapshot was restored, or because a run overwrote it.

Snapshots that cover this output may still exist. A job that restored one of them would miss the rows, so the restore is
rejected. Before the first file is deleted, an empty file says from which checkpoint on the output of a writer is gone:

    <output>/.staging/discarded-<writer>-from-6

Files that readers take away leave no such mark: their rows are not lost, but elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from posixpath import dirname

from kit.filesystems.places import open_path
from kit.stream.connectors.part_names import STAGING

_MARK = re.compile(r"discarded-(?P<writer>.+)-from-(?P<checkpoint_id>\d+)")


def mark_discarded(path: str, parts: Iterable[tuple[str, int]], *, durable: bool) -> None:
    """Mark these parts of the output in `path`, each given by its writer and its checkpoint, and all later ones.

    Raises OSError.
    """
    for writer, checkpoint_id in first_of_each(parts).items():
        system, inner = open_path(f"{path.rstrip('/')}/{STAGING}/discarded-{writer}-from-{checkpoint_id}")
        with system.create_in_directory(inner, durable=durable):
            pass
        if durable:
            system.sync(inner)
            system.sync(dirname(inner))


def discarded(path: str) -> dict[str, int]:
    """Return the first checkpoint of which the output in `path` was discarded, for each writer with such a mark."""
    system, inner = open_path(f"{path.rstrip('/')}/{STAGING}")
    found = filter(None, (_MARK.fullmatch(info.base_name) for info in system.entries(inner)))
    return first_of_each((each["writer"], int(each["checkpoint_id"])) for each in found)


def first_of_each(parts: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return the lowest checkpoint of each writer."""
    first: dict[str, int] = {}
    for writer, checkpoint_id in parts:
        first[writer] = min(checkpoint_id, first.get(writer, checkpoint_id))
    return first

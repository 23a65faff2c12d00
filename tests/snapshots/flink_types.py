"""The savepoints in tests/data/flink_types, which `python -m tests.interop.value_types` makes."""

from __future__ import annotations

import tarfile
from functools import cache
from pathlib import Path

from tests.flink_data import unpacked
from tests.interop.value_types import SAVED


@cache
def savepoints() -> Path:
    """Unpack the savepoints, once a session, and return their folder."""
    return unpacked(SAVED)


@cache
def cases() -> tuple[str, ...]:
    """Return the savepoints with values of many types: those with `truth.json`."""
    return tuple(name for name in _names() if f"{name}/truth.json" in _files())


@cache
def operator_cases() -> tuple[str, ...]:
    """Return the names of the savepoints with operators that Flink provides."""
    return tuple(name for name in _names() if name.startswith("operators-"))


def _names() -> list[str]:
    return sorted({name.partition("/")[0] for name in _files()})


@cache
def _files() -> frozenset[str]:
    with tarfile.open(SAVED) as archive:
        return frozenset(archive.getnames())

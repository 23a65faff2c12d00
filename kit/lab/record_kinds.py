"""The kinds of record that a trace of the lab may hold."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from kit.draw.captions import CAPTIONS
from kit.draw.frames import LEVELS
from kit.protocol.words import Word


@cache
def record_kinds() -> tuple[str, ...]:
    """All kinds in alphabetical order: every word of the protocol, and what the machines note beside them."""
    kinds = {kind for _, kind in CAPTIONS} | set(LEVELS) | {kind.__name__ for kind in _below(Word)}
    return tuple(sorted(kinds - {"Note", "TaskMessage", "JobMessage"}))


def _below(kind: type[Word]) -> Iterator[type[Word]]:
    for each in kind.__subclasses__():
        yield each
        yield from _below(each)

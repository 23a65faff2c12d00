"""Searches side by side, one a kind of fault, each in a process of its own.

A process is forked, so it has the job and the properties as they are, functions of the user's and all. What comes back
is numbers and steps: whoever asked shows the way from these.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")
_work: list[Callable[[str], Any]] = []
"""What a forked process finds to do."""


def side_by_side(search: Callable[[str], T], kinds: Sequence[str], processes: int) -> Iterator[T]:
    """`search(kind)` for each kind in order, so many at a time; in this process where it is one, or nothing forks."""
    processes = min(processes, len(kinds))
    if processes < 2 or "fork" not in multiprocessing.get_all_start_methods():
        yield from map(search, kinds)
        return
    _work.append(search)
    try:
        with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("fork")) as pool:
            yield from pool.map(_do, kinds)
    finally:
        _work.pop()


def _do(kind: str) -> Any:
    return _work[-1](kind)

"""Limiting Python's garbage collection to objects made during a run.

Python finds reference cycles by scanning all objects, again whenever their number has grown by a quarter. The objects
that exist when a lab starts to step (the libraries alone make more than a hundred thousand) hardly ever become garbage,
and those that a lab keeps never do.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def garbage_among_new_objects_only() -> Iterator[Callable[[], None]]:
    """Collect garbage among new objects only, unless the program has frozen objects itself.

    Yields a function that collects once, and then treats the present objects as old too.
    """
    is_ours = gc.get_freeze_count() == 0

    def settle() -> None:
        if is_ours:
            gc.collect()
            gc.freeze()

    unfreeze = gc.unfreeze if is_ours else int
    try:
        if is_ours:
            gc.freeze()
        yield settle
    finally:
        unfreeze()

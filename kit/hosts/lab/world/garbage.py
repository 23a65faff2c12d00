"""When Python looks for garbage: hardly ever in what there was before a run.

Objects that refer to each other in a circle are found by looking through all there are, again whenever these have grown
by a quarter. Of what a process holds when a lab begins to step (the libraries alone make more than a hundred thousand
objects) next to nothing becomes garbage meanwhile, and of what a lab keeps nothing at all.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def garbage_among_new_objects_only() -> Iterator[Callable[[], None]]:
    """Only in what is made from now on, unless a program has frozen objects itself: those it wants to stay so.

    Gives a function that looks once more, and then counts what there is now as old too.
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

"""A stretch of work without Python's cyclic garbage collector.

A picture, or a copy of a lab's state, is many small values without cycles. Searching them for cycles again and again
takes a quarter of the time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Pause the collector, and resume it afterwards if it was on."""
    restore = gc.enable if gc.isenabled() else gc.disable
    try:
        gc.disable()
        yield
    finally:
        restore()  # one call, so that no interrupt comes before it

"""A stretch of work without Python's collector of circles: a picture, or a copy of a world, is many small values and no
circles, and to look for those again and again takes a quarter of the time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """The collector rests, and goes on afterwards if it was on."""
    restore = gc.enable if gc.isenabled() else gc.disable
    try:
        gc.disable()
        yield
    finally:
        restore()  # one call, so that no interrupt comes before it

"""Frozen arrays: what an array held at one moment, while its owner goes on writing to it.

Freezing a large array copies nothing. From then on its owner keeps, before each write, what is about to be overwritten;
whoever asks for the frozen array copies the living one, and puts back what was kept, the latest first. So the owner
never waits for a copy of everything, and the copy may be made by another thread while the owner writes: whatever tears
it has been kept before. No lock is needed, since each side does one thing before the other can notice the next:

    owner     keep, then write
    reader    copy, then look at what was kept

Once the copy is made, nothing more is kept. If nobody asks for it for so long that as much was kept as the array holds,
the owner makes the copy itself. Small arrays are copied at once.

In the place of Flink's `CopyOnWriteStateTable`, which copies entries one by one.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

Slots = npt.NDArray[np.int64]

COPIED_AT_ONCE = 1 << 16
"""An array with no more elements than this is copied when it is frozen."""
_COST_OF_ONE = 8
"""Keeping a single element takes as much memory as this many of a batch."""


class FrozenArray:
    """The first `size` elements of `live` as they are now."""

    def __init__(self, live: npt.NDArray[Any], size: int) -> None:
        self._live: npt.NDArray[Any] | None = live[:size]
        self._kept: list[tuple[Any, Any]] = []
        self._kept_cost = 0
        self._copy: npt.NDArray[Any] | None = None
        if size <= COPIED_AT_ONCE:
            self.array()

    def __repr__(self) -> str:
        return f"FrozenArray({'copied' if self._live is None else f'{len(self._kept)} writes kept'})"

    def __deepcopy__(self, memo: dict[int, object]) -> FrozenArray:
        """Itself: once copied it never changes."""
        self.array()
        return self

    def array(self) -> npt.NDArray[Any]:
        """The elements, in an array of their own that nobody writes to. May be asked by any thread."""
        live, kept = self._live, self._kept
        if live is not None:
            copy = live.copy()
            if self._copy is None:  # else somebody was faster, and the owner may have written since without keeping
                for slots, values in reversed(kept.copy()):
                    _put_back(copy, slots, values)
                self._copy = copy
            self._live, self._kept = None, []
        assert self._copy is not None
        return self._copy

    def keep(self, slots: Slots | int) -> bool:
        """Keep what is in these slots, which the owner is about to overwrite; False when that is no longer needed."""
        live = self._live
        if live is None:
            return False
        if isinstance(slots, np.ndarray):
            self._kept_cost += len(slots)
            self._kept.append((slots.astype(np.int32), live.take(slots, mode="clip")))
        elif slots < len(live):
            self._kept_cost += _COST_OF_ONE
            self._kept.append((slots, live[slots]))
        if self._kept_cost > len(live):
            self.array()
        return True


def _put_back(copy: npt.NDArray[Any], slots: Any, values: Any) -> None:
    """Slots beyond the copy were not there when it was frozen."""
    if isinstance(slots, np.ndarray) and slots.max(initial=0) >= len(copy):
        within = slots < len(copy)
        slots, values = slots[within], values[within]
    copy[slots] = values


class Readers(list["weakref.ref[FrozenArray]"]):
    """The frozen arrays that still look at an array: its owner asks them before it writes, if there are any."""

    def freeze(self, array: npt.NDArray[Any], size: int) -> FrozenArray:
        """The first `size` elements of the owner's array."""
        frozen = FrozenArray(array, size)
        if size > COPIED_AT_ONCE:
            self.append(weakref.ref(frozen))
        return frozen

    def before_write(self, slots: Slots | int) -> None:
        """To be called before elements below what was frozen are written."""
        self[:] = [ref for ref in self if (frozen := ref()) is not None and frozen.keep(slots)]

    def __deepcopy__(self, memo: dict[int, object]) -> Readers:
        """Empty: the frozen arrays are not copied with their owner, and do not look at its copy."""
        return Readers()

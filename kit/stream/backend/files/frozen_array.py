"""Frozen arrays: the content of an array at one moment, while its owner continues to write to it.

Freezing a large array copies nothing. From then on, before each write, its owner keeps what is about to be overwritten.
A reader of the frozen array copies the live one, and restores what was kept, the latest first. So the owner never waits
for a copy of everything. Another thread may copy while the owner writes, because everything that changes during the
copy was kept before. No lock is needed, because each side takes its first step before its second:

    owner     keep, then write
    reader    copy, then look at what was kept

Once the copy is made, nothing more is kept. If no reader asks for it until as much was kept as the array holds, the
owner makes the copy itself. Small arrays are copied at once.

It replaces Flink's `CopyOnWriteStateTable`, which copies entries one by one.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

Slots = npt.NDArray[np.int64]

COPIED_AT_ONCE = 1 << 16
"""The size up to which an array is copied when it is frozen."""
_COST_OF_ONE = 8
"""Keeping a single element takes as much memory as keeping this many in a batch."""


class FrozenArray:
    """The first `size` elements of `live` at the time of freezing."""

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
        """Return the array itself: once copied it never changes."""
        self.array()
        return self

    def array(self) -> npt.NDArray[Any]:
        """Return the elements in an array that never changes. Any thread may call it."""
        live, kept = self._live, self._kept
        if live is not None:
            copy = live.copy()
            if self._copy is None:  # else another thread was faster, and the owner may have written without keeping
                for slots, values in reversed(kept.copy()):
                    _put_back(copy, slots, values)
                self._copy = copy
            self._live, self._kept = None, []
        assert self._copy is not None
        return self._copy

    def keep(self, slots: Slots | int) -> bool:
        """Keep the content of slots that the owner is about to overwrite; return False if that is no longer needed."""
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
    """Restore kept values; slots beyond the copy did not exist when it was frozen."""
    if isinstance(slots, np.ndarray) and slots.max(initial=0) >= len(copy):
        within = slots < len(copy)
        slots, values = slots[within], values[within]
    copy[slots] = values


class Readers(list["weakref.ref[FrozenArray]"]):
    """The frozen arrays that still depend on an array: its owner calls them before it writes, if there are any."""

    def freeze(self, array: npt.NDArray[Any], size: int) -> FrozenArray:
        """Freeze the first `size` elements of the owner's array."""
        frozen = FrozenArray(array, size)
        if size > COPIED_AT_ONCE:
            self.append(weakref.ref(frozen))
        return frozen

    def before_write(self, slots: Slots | int) -> None:
        """Keep frozen elements that are about to be written."""
        self[:] = [ref for ref in self if (frozen := ref()) is not None and frozen.keep(slots)]

    def __deepcopy__(self, memo: dict[int, object]) -> Readers:
        """Return an empty list: the frozen arrays are not copied with their owner, and do not depend on its copy."""
        return Readers()

"""Key context: the keys that a backend is working on, as codes.

All states of an operator share one codec. So a batch of keys is encoded once however many states it touches, and the
current key once however many calls a user function makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.core.state.errors import StateError
from kit.core.state.handles import KeyGroupRange
from kit.core.state.key_groups import check_parallelism
from kit.stream.backend.keys.key_codec import UNKNOWN, Codes, Column, codec_for
from kit.stream.backend.keys.key_hashing import assign_to_key_group, key_groups
from kit.stream.backend.keys.key_run import KeyRun, numbered
from kit.stream.backend.keys.slot_index import FEW_ROWS
from kit.stream.backend.ttl_time_provider import TtlTimeProvider

_NO_KEY = object()


class KeyContext:
    """The codec of the keys, the last encoded batch, the current key, and the key groups of the subtask."""

    without_effect: ClassVar = frozenset(
        {"turn", "run", "_code", "_code_known", "_code_at", "_batch", "_batch_codes", "_batch_created", "_clock"}
    )

    def __init__(
        self,
        key_type: pa.DataType,
        key_group_range: KeyGroupRange,
        max_parallelism: int,
        clock: TtlTimeProvider | None = None,
    ) -> None:
        check_parallelism(max_parallelism)
        if not len(key_group_range) or key_group_range.end >= max_parallelism:
            raise StateError(f"{key_group_range!r} holds no key groups of maximum parallelism {max_parallelism}")
        self.codec = codec_for(key_type)
        self.key_group_range = key_group_range
        self.max_parallelism = max_parallelism
        self._batch: Any = None
        self._batch_codes = np.empty(0, np.int64)
        self._batch_created = True
        self.turn = 0  # counts the current keys, so that a table knows if it has looked this one up
        self.run: KeyRun | None = None
        self._key: Any = _NO_KEY
        self._code = UNKNOWN
        self._code_known = False
        self._code_at = -1  # the position in a run where the code was known
        self._clock = clock
        self._listeners: list[Callable[[int], None]] = []

    @property
    def current_key(self) -> Any:
        """The key set last. Raises StateError without one."""
        if self.run is not None:
            return self.run.key
        if self._key is _NO_KEY:
            raise StateError("No current key: call set_current_key(key) before a keyed state is used")
        return self._key

    def now_ms(self) -> int:
        """Return the processing time. Raises StateError without a clock."""
        if self._clock is None:
            raise StateError(
                "State with TTL needs a clock: give the backend one, HeapKeyedStateBackend(..., clock=...)"
            )
        return self._clock.processing_time_ms

    def on_selection(self, listener: Callable[[int], None]) -> None:
        """Call a listener with the number of keys that are selected, before their state is used.

        Flink: `registerKeySelectionListener`.
        """
        self._listeners.append(listener)

    def keys_selected(self, rows: int) -> None:
        """Notify the listeners that the state of this number of keys will be used."""
        for listener in self._listeners:
            listener(rows)

    def set_current_key(self, key: Any) -> None:
        """Set the key for states that work on one key at a time."""
        if self._listeners:
            self.keys_selected(1)
        self._select(key)

    def _select(self, key: Any) -> None:
        self.run = None
        self._key = key
        self._code_known = False
        self.turn += 1

    def in_turn(self, keys: pa.Array) -> Iterator[None]:
        """Set the key of one row after another; a few rows are not worth a `KeyRun`."""
        if len(keys) <= FEW_ROWS:
            for key in keys.to_pylist():
                self.set_current_key(key)
                yield
            return
        self.keys_selected(len(keys))
        numbers, distinct = numbered(keys)
        run = self.run = KeyRun(distinct)
        self._code_at = -1
        for run.position in numbers.tolist():  # nothing else here: this runs for each row
            yield
        self._select(run.key)
        for each in run.postponed:
            each.settle(run)

    def current_code(self, create: bool) -> int:
        """Return the code of the current key."""
        if self.run is not None and self._code_at != self.run.position:
            self._code_known, self._code_at = False, self.run.position
        if not self._code_known or (create and self._code == UNKNOWN):
            self._code = self.codec.encode_one(self.current_key, create)
            self._code_known = True
        return self._code

    def codes(self, keys: Column, create: bool) -> Codes:
        """Return the codes of a batch of keys; the same Arrow array again costs nothing."""
        if not self.codec.interned or isinstance(keys, np.ndarray):  # numbers are fast; numpy arrays may have changed
            return self.codec.encode(keys, create)
        if keys is not self._batch or (create and not self._batch_created):
            self._batch_codes = self.codec.encode(keys, create)
            self._batch, self._batch_created = keys, create
        return self._batch_codes

    def key_groups(self, codes: Codes) -> npt.NDArray[np.uint16]:
        """Return the key group of each code."""
        return key_groups(self.codec.decode(codes), self.max_parallelism)

    def misplaced(self, codes: Codes) -> str | None:
        """Return what is wrong with the first code whose key belongs to another subtask, or None."""
        if len(codes) <= FEW_ROWS and all(map(self._is_placed, codes.tolist())):
            return None
        groups = self.key_groups(codes)
        start, end = self.key_group_range.start, self.key_group_range.end
        outside = np.flatnonzero((groups < start) | (groups > end))
        if not len(outside):
            return None
        key = self.codec.decode(codes[outside[:1]])[0].as_py()
        return (
            f"key {key!r} belongs to key group {groups[outside[0]]}, this subtask holds {start} to {end}: records must "
            "be partitioned by the same key, key type and maximum parallelism as their state"
        )

    def _is_placed(self, code: int) -> bool:
        """Return True if the key of this code belongs to this subtask."""
        key = self.codec.decode_one(code)
        group = assign_to_key_group(key, self.max_parallelism, self.codec.type)
        return self.key_group_range.start <= group <= self.key_group_range.end

    def release(self, codes: Codes) -> None:
        """Count one use less of each code; remembered codes may be invalid afterwards."""
        self.codec.release(codes)
        if self.codec.interned:
            self._batch, self._code_known = None, False

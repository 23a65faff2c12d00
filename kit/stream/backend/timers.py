"""Timers: actions for a key at a time.

A timer is a (timestamp, key, namespace); registering it twice has no further effect. There is a queue for event time,
which watermarks advance, and one for processing time, which the host's clock advances. Timers are kept in columns, and
a queue that advances returns all due timers at once: by timestamp, then key group, key and namespace, so that two hosts
fire them alike.

Follows `InternalTimerServiceImpl`; timers are part of the keyed state and are written key group by key group. Unlike
there, due timers are returned as columns. The caller calls `advance` again until nothing is due, since a timer that
fires may register another that is already due.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.core.state.errors import StateError, StateTypeError
from kit.stream.backend.files.sorting import distinct, order_of_rows
from kit.stream.backend.keys.changed_rows import ChangedRows, Columns
from kit.stream.backend.keys.key_codec import Codes, Column, KeyCodec, codec_for
from kit.stream.backend.keys.key_context import KeyContext
from kit.stream.backend.keys.key_run import KeyRun
from kit.stream.backend.keys.slot_index import ABSENT, SlotIndex

MIN_WATERMARK_MS = -(1 << 63)  # no watermark yet
_NEVER = (1 << 63) - 1


EVENT_TIMER_PREFIX, PROCESSING_TIMER_PREFIX = "_timer_state/event_", "_timer_state/processing_"
"""The prefixes of a service's name in the names of its queues' states (`InternalTimeServiceManagerImpl`)."""


class DueTimers(NamedTuple):
    """Timers in the order they fire: int64 timestamps in ms, keys, and namespaces (None without namespaces)."""

    timestamps_ms: npt.NDArray[np.int64]
    keys: pa.Array
    namespaces: pa.Array | None


class TimerQueue:
    """The timers of one time domain: a set of (timestamp, key, namespace)."""

    def __init__(self, name: str, context: KeyContext, namespace_type: pa.DataType | None) -> None:
        self.name = name
        self.context = context
        self.namespace_type = namespace_type
        self.namespace_codec = None if namespace_type is None else codec_for(namespace_type, "namespace")
        self.index = SlotIndex(2 if namespace_type is None else 3)
        self.changes: ChangedRows | None = None
        """What changed since earlier snapshots, if they are incremental."""
        self._earliest_ms = _NEVER  # never later than the earliest timer
        self._earliest_known = True
        self._asked: dict[tuple[int, int], bool] = {}  # in a run: whether this timer of this key should exist

    def __len__(self) -> int:
        return len(self.index)

    def __repr__(self) -> str:
        return f"TimerQueue({self.name!r}, {len(self)} timers)"

    def next_timestamp_ms(self) -> int | None:
        """Return when the earliest timer is due, or None without timers."""
        if not self._earliest_known:
            in_use = self.index.slots_in_use()
            self._earliest_ms = int(self.index.columns[0].take(in_use).min(initial=_NEVER))
            self._earliest_known = True
        return self._earliest_ms if len(self) else None

    def register(self, keys: Column, timestamps_ms: Column, namespaces: Column | None = None) -> None:
        """Register a timer for each row."""
        self._add(self._codes(keys, timestamps_ms, namespaces, create=True))

    def register_several(self, keys: Column, times_ms: Sequence[Codes], namespaces: Column | None = None) -> None:
        """Register one timer for each row and column of times."""
        if not len(times_ms):
            return
        _, *others = self._codes(keys, times_ms[0], namespaces, create=True)
        self._add([np.concatenate(times_ms), *(np.tile(column, len(times_ms)) for column in others)])

    def _add(self, codes: list[Codes]) -> None:
        _, added = self.index.find_or_add(codes)
        if len(added):
            self._take_in(added)

    def delete(self, keys: Column, timestamps_ms: Column, namespaces: Column | None = None) -> None:
        """Delete the timer of each row, if it exists."""
        slots = self.index.find(self._codes(keys, timestamps_ms, namespaces, create=False))
        self._remove(distinct(slots[slots >= 0], self.index.size))

    def register_one(self, timestamp_ms: int, namespace: Any = None) -> None:
        """Register a timer for the current key."""
        if self._postpones(timestamp_ms, registers=True):
            return
        codes = self._codes_of_one(timestamp_ms, namespace, create=True)
        if self.index.find_one(codes) == ABSENT:
            self._take_in(np.array([self.index.add_one(codes)]))

    def delete_one(self, timestamp_ms: int, namespace: Any = None) -> None:
        """Delete a timer of the current key, if it exists."""
        if self._postpones(timestamp_ms, registers=False):
            return
        slot = self.index.find_one(self._codes_of_one(timestamp_ms, namespace, create=False))
        if slot != ABSENT:
            self._remove(np.array([slot]))

    def _postpones(self, timestamp_ms: int, *, registers: bool) -> bool:
        """Return True if there is a run, at whose end this is done."""
        run = self.context.run
        if run is None or self.namespace_codec is not None:
            return False
        if not self._asked:
            run.postponed.append(self)
        self._asked[int(timestamp_ms), run.position] = registers
        return True

    def settle(self, run: KeyRun) -> None:
        """Apply the requests of a run."""
        asked, self._asked = self._asked, {}
        wanted = np.fromiter(asked.values(), np.bool_, len(asked))
        timers = np.array(list(asked), np.int64)
        for timestamps_ms, positions, change in (
            (*timers[~wanted].T, self.delete),
            (*timers[wanted].T, self.register),
        ):
            if len(positions):
                change(run.keys.take(pa.array(positions)), timestamps_ms)

    def pop_due(self, until_ms: int) -> DueTimers:
        """Remove and return the timers up to and including `until_ms`."""
        slots = np.empty(0, np.int64)
        earliest_ms = self.next_timestamp_ms()
        if earliest_ms is not None and earliest_ms <= until_ms:
            in_use = self.index.slots_in_use()
            slots = in_use[self.index.columns[0].take(in_use) <= until_ms]
        due = self._in_order(slots)
        self._remove(slots)
        return due

    def entries(self) -> DueTimers:
        """Return all timers, in the order they would fire, without removing them."""
        return self._in_order(self.index.slots_in_use())

    def _in_order(self, slots: npt.NDArray[np.int64]) -> DueTimers:
        columns = [column.take(slots) for column in self.index.columns]
        ranks = [decoder.ranks(column) for decoder, column in zip(self.decoders(), columns, strict=True)]
        groups = self.context.key_groups(columns[1]).astype(np.int64)
        order = order_of_rows([ranks[0], groups, *ranks[1:]])
        timestamps, keys, *namespaces = [column.take(order) for column in columns]
        return DueTimers(
            timestamps,
            self.context.codec.decode(keys),
            None if self.namespace_codec is None else self.namespace_codec.decode(namespaces[0]),
        )

    def columns(self, slots: npt.NDArray[np.int64]) -> Columns:
        """Return the time, the key, and the namespace if there are namespaces, of the timers in these slots."""
        codes = [column.take(slots) for column in self.index.columns]
        return tuple(decoder.decode(column) for decoder, column in zip(self.decoders(), codes, strict=True))

    def decoders(self) -> list[KeyCodec]:
        """Return the codec of each column of the index."""
        namespace = [] if self.namespace_codec is None else [self.namespace_codec]
        return [codec_for(pa.int64(), "timestamp"), self.context.codec, *namespace]

    def _codes(self, keys: Column, timestamps_ms: Column, namespaces: Column | None, create: bool) -> list[Codes]:
        if (namespaces is None) != (self.namespace_codec is None):
            raise StateTypeError(f"Timers {self.name!r} have namespaces of type {self.namespace_type}")
        codes = [_milliseconds(timestamps_ms), self.context.codes(keys, create)]
        if self.namespace_codec is not None and namespaces is not None:
            codes.append(self.namespace_codec.encode(namespaces, create))
        if len({len(column) for column in codes}) > 1:
            raise StateError(f"Timers {self.name!r}: keys, timestamps and namespaces differ in length")
        return codes

    def _codes_of_one(self, timestamp_ms: int, namespace: Any, create: bool) -> list[int]:
        codes = [int(timestamp_ms), self.context.current_code(create)]
        if self.namespace_codec is not None:
            codes.append(self.namespace_codec.encode_one(namespace, create))
        return codes

    def _take_in(self, added: npt.NDArray[np.int64]) -> None:
        if self.changes is not None:
            self.changes.add(added, self.index.capacity)
        timestamps, keys, *namespaces = [column.take(added) for column in self.index.columns]
        self._earliest_ms = min(self._earliest_ms, int(timestamps.min()))
        self.context.codec.retain(keys)
        if self.namespace_codec is not None:
            self.namespace_codec.retain(namespaces[0])
        misplaced = self.context.misplaced(keys)
        if misplaced:
            self._remove(added)
            raise StateError(f"Timers {self.name!r}: {misplaced}")

    def _remove(self, slots: npt.NDArray[np.int64]) -> None:
        if not len(slots):
            return
        if self.changes is not None:
            self.changes.remove(slots, self.columns)
        _, keys, *namespaces = [column.take(slots) for column in self.index.columns]
        self.index.remove(slots)
        self.context.release(keys)
        if self.namespace_codec is not None:
            self.namespace_codec.release(namespaces[0])
        self._earliest_known = False


class TimerService:
    """The timers of one operator: event time, processing time, and the current watermark."""

    def __init__(self, name: str, context: KeyContext, namespace_type: pa.DataType | None) -> None:
        self.name = name
        self.event_time = TimerQueue(EVENT_TIMER_PREFIX + name, context, namespace_type)
        self.processing_time = TimerQueue(PROCESSING_TIMER_PREFIX + name, context, namespace_type)
        self.current_watermark_ms = MIN_WATERMARK_MS

    def __repr__(self) -> str:
        return f"TimerService({self.name!r}, {len(self.event_time)} event, {len(self.processing_time)} processing)"

    def advance(self, watermark_ms: int) -> DueTimers:
        """Set the watermark; remove and return the event time timers that are due."""
        self.current_watermark_ms = watermark_ms
        return self.event_time.pop_due(watermark_ms)

    def advance_processing_time(self, now_ms: int) -> DueTimers:
        """Remove and return the processing time timers that are due at `now_ms`."""
        return self.processing_time.pop_due(now_ms)

    def next_processing_time_ms(self) -> int | None:
        """Return when the next processing time timer is due, or None without one."""
        return self.processing_time.next_timestamp_ms()


def time_of_timer(timestamp_ms: Any) -> int:
    """Return the time. Raises StateTypeError, with what to write, for anything but a whole number of ms."""
    if type(timestamp_ms) is int:
        return timestamp_ms
    if isinstance(timestamp_ms, np.integer) and not isinstance(timestamp_ms, np.timedelta64):
        return int(timestamp_ms)
    raise StateTypeError(
        f"a timer at {timestamp_ms!r}: expected whole ms since 1970, such as ctx.timestamp_ms + 60_000; of a datetime "
        "int(at.timestamp() * 1_000)"
    )


def _milliseconds(timestamps_ms: Column) -> Codes:
    if isinstance(timestamps_ms, pa.ChunkedArray):
        timestamps_ms = timestamps_ms.combine_chunks()
    if isinstance(timestamps_ms, pa.Array):
        if pa.types.is_timestamp(timestamps_ms.type):
            timestamps_ms = timestamps_ms.cast(pa.timestamp("ms", timestamps_ms.type.tz)).view(pa.int64())
        timestamps_ms = timestamps_ms.to_numpy(zero_copy_only=False)
    timestamps_ms = np.asarray(timestamps_ms)
    if timestamps_ms.dtype.kind not in "iu":
        raise StateTypeError(f"Timestamps are int64 milliseconds, not {timestamps_ms.dtype}")
    return np.ascontiguousarray(timestamps_ms, np.int64)

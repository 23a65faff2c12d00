"""The operator of merging windows: sessions, which grow with each row and merge when they touch.

A batch is sorted by key and window, and divided where two windows neither overlap nor touch. Each part is merged with
the sessions that it touches, which a `KeyTimeIndex` finds. Of sessions that merge, one keeps its state and adds that of
the others. The namespace of a session's state is its first start (Flink's *state window*), however it grows; its bounds
are in a state of their own.

Follows Flink's `MergingWindowSet` and the merging side of `WindowOperator`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kit.core.event_time import MAX_WATERMARK_MS, MIN_WATERMARK_MS
from kit.stream.backend.files.sorting import distinct
from kit.stream.backend.spill.places import tokens
from kit.stream.backend.states.descriptors import ValueStateDescriptor
from kit.stream.backend.states.tables import one_array
from kit.stream.operators.spec import keys_of
from kit.stream.operators.watermarks import event_times_ms
from kit.stream.operators.windows.key_time_index import KeyTimeIndex, Mask, Numbers, expand
from kit.stream.operators.windows.window_operator import WindowOperatorBase, where

_BOUNDS = ValueStateDescriptor(
    "merging-window-set", pa.struct([pa.field("start", pa.int64()), pa.field("end", pa.int64())])
)
_STARTS, _ENDS, _WINDOWS = 1, 2, 3
"""Columns of the index; the windows are the namespaces of the state."""
_NEVER = (1 << 63) - 1
"""A time after the end of every session."""


@dataclass(frozen=True, slots=True)
class _Sessions:
    """The sessions after a batch.

    `session_of` is the session of each row. For each session there are the first row of its key (`rows`), its bounds,
    and the window under which its state is kept. `old` are the index positions of the sessions that it replaces, and
    `old_in` the session of which each of them is now a part.
    """

    session_of: Numbers
    rows: Numbers
    codes: Numbers
    starts: Numbers
    ends: Numbers
    windows: Numbers
    old: Numbers
    old_in: Numbers


class MergingWindowOperator(WindowOperatorBase):
    """The operator that adds rows to the sessions of their key, and fires the sessions that are over."""

    def initialize_state(self) -> None:
        """Register the sessions; build the index from the restored ones."""
        super().initialize_state()
        self._bounds = self.context.keyed_state.table(_BOUNDS, pa.int64())
        self._index = KeyTimeIndex(self._spec.key_type, 2)
        for rows in self.context.keyed_state.rows(self._bounds):
            starts, ends = _in_ms(rows["value"])
            codes = self._index.codes(one_array(rows["key"]), create=True)
            self._index.add(codes, starts, ends, rows["namespace"].to_numpy())

    def _bounds_in_ms(self, keys: pa.Array, windows: Numbers) -> tuple[Numbers, Numbers]:
        return self._bounds_of(self._bounds.slots(keys, windows, create=False))

    def _bounds_seen(self, keys: pa.Array, windows: pa.Array) -> tuple[Numbers, Numbers]:
        rows = self.context.keyed_state.all_rows(self._bounds)
        known = tokens([one_array(rows["key"]), one_array(rows["namespace"])])
        at = {token: row for row, token in enumerate(known)}
        return _in_ms(rows["value"].take(pa.array([at[token] for token in tokens([keys, windows])], pa.int64())))

    def process_batch(self, batch: pa.RecordBatch, input_index: int = 0) -> None:
        """Add the rows to their sessions."""
        assigner = self._spec.assigner
        times = event_times_ms(batch, self._spec.time_column, self._spec.name)
        _, windows = assigner.assign(times)
        if not len(windows):
            return
        codes = self._index.codes(keys_of(batch, self._spec.keys), create=True)
        late = assigner.ends(windows) <= self._latest_over_ms
        lost = self._lost(windows, codes, late) if late.any() else late
        if not lost.any():
            self._take_in(batch, windows, codes)
            return
        self._set_aside(batch, times, lost)
        self._take_in(batch.filter(pa.array(~lost)), windows[~lost], codes[~lost])
        self._index.forget_unused(codes[lost])

    def _process_due(self, keys: pa.Array, windows: Numbers, times: Numbers) -> None:
        slots = self._bounds.slots(keys, windows, create=False)
        # None for a timer with the allowed lateness from before a restore.
        keys, windows, times, slots = where(slots >= 0, keys, windows, times, slots)
        starts, ends = self._bounds_of(slots)
        self._fire(*where(times == ends - 1, keys, windows, starts, ends))
        self._clear(*where(times >= self._clears_at(ends - 1), keys, windows))

    def process_watermark(self, timestamp_ms: int) -> None:
        """Fire the sessions that end at or before the watermark, clear overdue ones, then pass the watermark on."""
        due = self._timers.advance(timestamp_ms)
        if due.namespaces is not None and len(due.keys):
            for piece in self.context.keyed_state.pieces(len(due.keys)):
                self._process_due(due.keys[piece], due.namespaces[piece].to_numpy(), due.timestamps_ms[piece])
        self.context.output.emit_watermark(timestamp_ms)

    @property
    def _latest_over_ms(self) -> int:
        """The latest end of a session that has been cleared by now."""
        watermark_ms = self.context.current_watermark_ms
        if watermark_ms == MAX_WATERMARK_MS:
            return MAX_WATERMARK_MS
        return max(watermark_ms + 1 - self._spec.allowed_lateness_ms, MIN_WATERMARK_MS)

    # ---- late rows ------------- ---------------------------------------------------------------------------------

    def _lost(self, windows: Numbers, codes: Numbers, late: Mask) -> Mask:
        """Return which of the late rows join no session that continues.

        A row that is late by itself is kept if it touches a session that is open when the row arrives. Such a session
        lasts beyond `_latest_over_ms`, and the row begins before that time, so the session covers it. A key has only
        one session that does, and earlier rows can only move its begin further back. So a loop over the rows of the
        keys concerned, in order of arrival, has to keep one number per key.
        """
        starts, ends = self._spec.assigner.starts(windows), self._spec.assigner.ends(windows)
        rows = np.flatnonzero(starts <= self._latest_over_ms)
        rows = rows[np.isin(codes[rows], codes[late])]
        rows = rows[np.argsort(codes[rows], kind="stable")]
        codes, starts, ends = codes[rows], starts[rows], ends[rows]
        is_first = np.ones(len(rows), np.bool_)
        is_first[1:] = codes[1:] != codes[:-1]
        kept = _joins(
            is_first.tolist(),
            self._open_since(codes).tolist(),
            self._reaches_back_to(codes, starts, ends).tolist(),
            np.where(late[rows], ends, _NEVER).tolist(),
        )
        lost = late.copy()
        lost[rows] &= ~np.array(kept, np.bool_)
        return lost

    def _open_since(self, codes: Numbers) -> Numbers:
        """Return the start of each key's session that covers `_latest_over_ms`; `_NEVER` if it has none."""
        over_ms = np.full(len(codes), self._latest_over_ms)
        starts, found = self._first_ending_at(codes, over_ms, after_equal=True)
        return np.where(found & (starts <= over_ms), starts, _NEVER)

    def _reaches_back_to(self, codes: Numbers, row_starts: Numbers, row_ends: Numbers) -> Numbers:
        """Return the latest possible start of a row's session: that of the row, or of a session that it touches.

        The latter may be over and not yet cleared, because more lateness was allowed before a restore.
        """
        starts, found = self._first_ending_at(codes, row_starts)
        return np.where(found & (starts <= row_ends), np.minimum(starts, row_starts), row_starts)

    def _first_ending_at(self, codes: Numbers, times: Numbers, *, after_equal: bool = False) -> tuple[Numbers, Mask]:
        """Return the start of each key's first session that ends at a time or later, and whether there is one."""
        at = self._index.position(codes, times, after_equal=after_equal, column=_ENDS)
        if not len(self._index):
            return times, np.zeros(len(times), np.bool_)
        of_codes, starts = (column.take(at, mode="clip") for column in self._index.columns[:_ENDS])
        return starts, (at < len(self._index)) & (of_codes == codes)

    # ---- merging ------------------------------------------------------------------------------------------------

    def _take_in(self, batch: pa.RecordBatch, windows: Numbers, codes: Numbers) -> None:
        """Merge the rows with the sessions that they touch, and fire overdue ones."""
        if not len(windows):
            return
        keys = keys_of(batch, self._spec.keys)
        sessions = self._merged(codes, windows)
        keys_of_sessions = keys.take(pa.array(sessions.rows))
        self._replace(sessions, keys_of_sessions)
        slots = self._table.slots(keys, sessions.windows[sessions.session_of])
        self._contents.add(self._table, slots, batch)
        overdue = self._register(keys_of_sessions, sessions.ends - 1, sessions.windows)
        if overdue is not None:
            fired = keys_of_sessions, sessions.windows, sessions.starts, sessions.ends
            self._fire(*where(overdue, *fired))

    def _bounds_of(self, slots: Numbers) -> tuple[Numbers, Numbers]:
        """Return the starts and ends of sessions; undefined for a slot of -1."""
        start, end = self._bounds.get(slots).flatten()
        return start.fill_null(0).to_numpy(), end.fill_null(0).to_numpy()

    def _merged(self, codes: Numbers, row_windows: Numbers) -> _Sessions:
        """Return the sessions with these rows added, each as a window of its own; state is not changed yet."""
        row_starts = self._spec.assigner.starts(row_windows)
        order = np.lexsort((row_starts, codes))
        codes, row_starts, row_ends = codes[order], row_starts[order], self._spec.assigner.ends(row_windows[order])
        begins = np.ones(len(codes), np.bool_)
        begins[1:] = (codes[1:] != codes[:-1]) | (row_starts[1:] > row_ends[:-1])
        first = np.flatnonzero(begins)
        last = np.append(first[1:], len(codes)) - 1
        piece_of = np.empty(len(order), np.int64)
        piece_of[order] = np.cumsum(begins) - 1

        piece_codes, piece_starts, piece_ends = codes[first], row_starts[first], row_ends[last]
        low = self._index.position(piece_codes, piece_starts, column=_ENDS)
        high = self._index.position(piece_codes, piece_ends, after_equal=True)
        old = distinct(expand(low, high)[1], len(self._index))
        old_codes, old_starts, old_ends, old_windows = (column[old] for column in self._index.columns)

        all_starts = np.concatenate((old_starts, piece_starts))
        all_ends = np.concatenate((old_ends, piece_ends))
        group_of = _touching(np.concatenate((old_codes, piece_codes)), all_starts, all_ends)
        groups = int(group_of.max()) + 1
        starts = np.full(groups, np.iinfo(np.int64).max)
        np.minimum.at(starts, group_of, all_starts)
        ends = np.full(groups, np.iinfo(np.int64).min)
        np.maximum.at(ends, group_of, all_ends)
        old_in, piece_in = group_of[: len(old)], group_of[len(old) :]
        windows = starts.copy()
        windows[old_in[::-1]] = old_windows[::-1]  # the earliest of the merging sessions stays
        rows = np.empty(groups, np.int64)
        rows[piece_in] = order[first]
        group_codes = np.empty(groups, np.int64)
        group_codes[piece_in] = piece_codes
        return _Sessions(piece_in[piece_of], rows, group_codes, starts, ends, windows, old, old_in)

    def _replace(self, sessions: _Sessions, keys: pa.Array) -> None:
        """Put the sessions in place of those that they replace: bounds, contents, timers, index."""
        if len(sessions.old):
            _, _, old_ends, old_windows = (column[sessions.old] for column in self._index.columns)
            old_keys = keys.take(pa.array(sessions.old_in))
            moved = old_ends != sessions.ends[sessions.old_in]
            absorbed = old_windows != sessions.windows[sessions.old_in]
            self._forget_timers(*where(moved | absorbed, old_keys, old_windows, old_ends))
            if absorbed.any():
                gone_keys, gone, into = where(absorbed, old_keys, old_windows, sessions.windows[sessions.old_in])
                self._bounds.clear(self._bounds.slots(gone_keys, gone, create=False))
                into_slots = self._table.slots(gone_keys, into, create=False)
                self._table.merge(into_slots, self._table.slots(gone_keys, gone, create=False))
        bounds = pa.StructArray.from_arrays([pa.array(sessions.starts), pa.array(sessions.ends)], ["start", "end"])
        self._bounds.put(self._bounds.slots(keys, sessions.windows), bounds)
        old_codes = self._index.columns[0][sessions.old]
        self._index.codec.retain(old_codes)  # codes stay valid between removing and adding
        self._index.remove(sessions.old)
        self._index.add(sessions.codes, sessions.starts, sessions.ends, sessions.windows)
        self._index.codec.release(old_codes)

    def _forget_timers(self, keys: pa.Array, windows: Numbers, ends: Numbers) -> None:
        self._timers.event_time.delete(keys, ends - 1, windows)
        if self._spec.allowed_lateness_ms:
            self._timers.event_time.delete(keys, self._clears_at(ends - 1), windows)

    def _clear(self, keys: pa.Array, windows: Numbers) -> None:
        """Remove sessions. One may be given twice, by its timer and by one with the lateness from before a restore."""
        if not len(keys):
            return
        at = self._index.position(self._index.codes(keys), windows, after_equal=True) - 1
        self._index.remove(distinct(at, len(self._index)))
        for table in (self._table, self._bounds):
            table.clear(table.slots(keys, windows, create=False))


def _joins(is_first: list[bool], open_since: list[int], starts: list[int], ends: list[int]) -> list[bool]:
    """Return which rows join the open session of their key, each row given the rows of the key before it.

    The rows come key by key. `is_first` marks the first row of each key; `open_since` says where the session of the key
    began before it, `_NEVER` if it had none. `starts` and `ends` are the bounds of each row's own session. The
    start of a session depends on each row before, so this is a loop; it handles numbers only.
    """
    joins = []
    begins = _NEVER
    for first, since, start, end in zip(is_first, open_since, starts, ends, strict=True):
        if first:
            begins = since
        joins.append(end >= begins or end == _NEVER)
        if joins[-1] and start < begins:
            begins = start
    return joins


def _touching(codes: Numbers, starts: Numbers, ends: Numbers) -> Numbers:
    """Return the group of each interval; intervals of one code that overlap or touch share a group."""
    order = np.lexsort((starts, codes))
    codes, starts = codes[order], starts[order]
    by_end = np.lexsort((ends[order], codes))
    rank = np.empty(len(order), np.int64)
    rank[by_end] = np.arange(len(order))
    furthest = ends[order][by_end[np.maximum.accumulate(rank)]]  # the latest end so far, code by code
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (codes[1:] != codes[:-1]) | (starts[1:] > furthest[:-1])
    group_of = np.empty(len(order), np.int64)
    group_of[order] = np.cumsum(begins) - 1
    return group_of


def _in_ms(bounds: pa.ChunkedArray) -> tuple[Numbers, Numbers]:
    starts, ends = one_array(bounds).flatten()
    return starts.to_numpy(), ends.to_numpy()

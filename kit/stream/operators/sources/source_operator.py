"""The operator at the head of a source's task: it decides what to read next.

The operator never reads. The task calls `next_read(now)`, carries out the answer (a read or a wait), and passes the
rows to `on_split_read`, which emits them. One read is in flight at a time. Without a split, the operator requests one
from its coordinator; `kit.stream.operators.sources.held_splits` chooses among several. A reader *takes all* its splits
before it reads in two cases: event time follows a source with several sequences of splits (`follow_splits`), or splits
may never end. Its state, an entry with the position for each of its splits, is redistributed on a rescale.

Splits without rows are not read: the host watches them for the task (`changed_watch`), and `rows_available` names those
that may be read again.

A limit on rows per second depends on processing time alone: a batch is due when the batches before it have used up
their time, counted from the first read. A reader that falls more than a second behind does not catch up.

Follows Flink's `SourceOperator` and `SourceReaderBase`. There several fetchers may read at the same time, and fill a
queue; here the rows of a read reach the operator before the next read begins.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from kit.core.event_time import MIN_WATERMARK_MS
from kit.stream.backend.states.descriptors import ListStateDescriptor
from kit.stream.operators.base import Operator
from kit.stream.operators.sources.held_splits import HeldSplit, HeldSplits
from kit.stream.operators.sources.source import Source, SourceListener, Split
from kit.stream.operators.sources.split_alignment import ALIGN, ReaderAlignment
from kit.stream.operators.sources.split_enumerator import (
    ASSIGN_SPLIT,
    BACKLOG,
    HELD,
    NO_MORE_SPLITS,
    NO_SPLITS_NOW,
    OWN,
    REMOVE_SPLITS,
    REQUEST_SPLIT,
)
from kit.stream.operators.sources.split_watermarks import SplitWatermarks
from kit.stream.operators.spec import UserFunctionError, as_rows

SPLITS_STATE = ListStateDescriptor(
    "SourceReaderState", pa.struct([pa.field("split", pa.string()), pa.field("position", pa.int64())])
)

_MOST_LAG_MS = 1_000
_LIMITED_BATCHES_PER_SECOND = 10


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """The request to read at most `max_rows` rows of `split` from `position` on, and then call `on_split_read`."""

    split: Split
    position: int
    max_rows: int


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """The answer that no read may start before processing time `due_ms`."""

    due_ms: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """The answer that the operator waits: for the coordinator, for the last read, or for splits without rows."""


@dataclass(frozen=True, slots=True)
class Exhausted:
    """The answer that all splits have been read, and that none will follow."""


@dataclass(frozen=True, slots=True)
class SplitsPaused:
    """The splits of a reader that has to wait for slower ones, each with its watermark, and the watermark up to which
    it may read.
    """

    splits: tuple[tuple[str, int], ...]
    max_watermark_ms: int


NextRead = ReadRequest | WaitUntil | Waiting | Exhausted
Watch = tuple[tuple[Split, int], ...]
"""Splits without rows, each with the position at its present end."""


class SourceOperator(Operator):
    """Reads the splits that its coordinator assigns."""

    def __init__(self, source: Source, name: str, schema: pa.Schema | None = None) -> None:
        self._source = source
        self._name = name
        self._schema = schema  # None: rows are passed on unchanged
        self._held = HeldSplits(source.sequence_of, in_turn=source.endless)
        self._takes_all = source.endless
        """Whether it asks for all splits that are meant for it before it reads."""
        self._current: HeldSplit | None = None
        """The split that is being read."""
        self._watched: set[str] = set()
        """The splits that the host was last asked to watch, and has not spoken of."""
        self._watermarks: Sequence[SplitWatermarks] = ()
        """One for each operator in the chain that makes watermarks, where splits are read side by side."""
        self._alignment: ReaderAlignment | None = None
        self._last_index = -1
        self._asking = self._reading = self._exhausted = False
        self._due_ms: float | None = None
        self._listener = source.create_listener()
        self._read: list[HeldSplit] = []
        """The splits that were read to the end since the last snapshot, if a listener needs them."""

    @property
    def checkpoint_listener(self) -> SourceListener | None:
        """The source's listener, or None."""
        return self._listener

    @property
    def splits(self) -> list[tuple[Split, int]]:
        """The reader's splits in order, each with its position."""
        return [(held.split, held.position) for held in self._held]

    @property
    def reads_side_by_side(self) -> bool:
        """Return True if the source has splits that may cover the same time."""
        return self._source.sequences > 1

    @property
    def has_nothing(self) -> bool:
        """True if the source could be read and has no rows.

        Each split was read to its present end, or none is held, or the limit on rows per second holds the rows back:
        it is a part of the source.
        """
        if self._reading or self._asking or self._exhausted:
            return False
        if all(held.is_empty for held in self._held):
            return True
        is_limited = self._due_ms is not None and self.context.processing_time_ms < self._due_ms
        return is_limited and not self.is_paused

    @property
    def is_paused(self) -> bool:
        """True if splits have rows, and alignment lets none of these be read."""
        return self.paused is not None

    @property
    def poll_every_ms(self) -> int:
        """The time, in ms, between two checks whether a split has rows."""
        return self._source.poll_every_ms

    def follow_splits(self, watermarks: Sequence[SplitWatermarks], max_drift_ms: int | None = None) -> None:
        """Read the splits side by side, ordered by their event time. Called before state is restored.

        With `max_drift_ms`, splits that are further ahead of the slowest split of all readers are not read.
        """
        self._watermarks = watermarks
        if watermarks and max_drift_ms is not None:
            self._alignment = ReaderAlignment(watermarks[0], max_drift_ms)
        self._takes_all |= bool(watermarks)

    def initialize_state(self) -> None:
        """Take over the restored splits."""
        self._state = self.context.operator_state.list_state(SPLITS_STATE)
        self._held.add(HeldSplit(json.loads(entry["split"]), entry["position"]) for entry in self._state.get())
        self._register_splits()

    def open(self) -> None:
        """Request the first split, or one before those restored."""
        if self._alignment is not None:
            self._alignment.begin(self.context.processing_time_ms)
        self._ask()

    # --- reading --------------------------------------------------------------------------------------------------

    def next_read(self, now_ms: int) -> NextRead:
        """Return the next action at processing time `now_ms`: a read, or a wait."""
        if self._exhausted:
            return Exhausted()
        if self._asking or self._reading:
            return Waiting()
        current = self._next_split()
        if current is None:
            return Waiting()
        if self._due_ms is not None and now_ms < self._due_ms:
            return WaitUntil(math.ceil(self._due_ms))
        if self._source.rows_per_second is not None:
            self._due_ms = now_ms if self._due_ms is None else max(self._due_ms, now_ms - _MOST_LAG_MS)
        self._reading = True
        self._current = current
        self._held.begin_read(current)
        return ReadRequest(current.split, current.position, self._rows_to_read(current))

    def _next_split(self) -> HeldSplit | None:
        """Return the split to read now; None if no split has rows that may be read."""
        limit_ms = None if self._alignment is None else self._alignment.max_watermark_ms
        return self._held.next(self._watermarks[0].of if self._watermarks else None, limit_ms)

    @property
    def paused(self) -> SplitsPaused | None:
        """The splits that alignment pauses, if these are all that the reader could read, otherwise None."""
        if self._alignment is None or self._alignment.max_watermark_ms is None or self._reading or self._asking:
            return None
        if self._next_split() is not None:
            return None
        watermark_of = self._watermarks[0].of
        ahead = ((held.id, watermark_of(self._source.sequence_of(held.split))) for held in self._held.with_rows)
        splits = tuple(ahead)
        return SplitsPaused(splits, self._alignment.max_watermark_ms) if splits else None

    def on_split_read(self, split_id: str, batch: pa.RecordBatch | None, position: int, finished: bool) -> None:
        """Process the answer to the last `ReadRequest`, and emit the rows."""
        current = self._current if self._reading else None
        if current is None or current.id != split_id:
            expected = "no read" if current is None else f"a read of {current.split['id']!r}"
            raise RuntimeError(f"{self._name}: rows of split {split_id!r} arrived, but {expected} was asked for")
        self._reading = False
        if current not in self._held:  # it was removed meanwhile
            return
        current.is_woken = False
        stays, current.position = position == current.position, position
        if batch is not None and batch.num_rows:
            self._emit(current, batch)
        elif stays and not finished:
            self._nothing_now(current)
        if finished:
            self._last_index = current.index
            if self._listener is not None:
                self._read.append(current)
            self._held.remove([split_id])
            self._register_splits()
            self._ask()

    def _emit(self, current: HeldSplit, batch: pa.RecordBatch) -> None:
        if self._due_ms is not None and self._source.rows_per_second is not None:
            self._due_ms += batch.num_rows * 1_000 / self._source.rows_per_second
        for watermarks in self._watermarks:
            watermarks.begin(self._source.sequence_of(current.split))
        self.context.output.emit(batch if self._schema is None else as_rows(batch.to_struct_array(), self._schema))

    def _nothing_now(self, current: HeldSplit) -> None:
        """Read the other splits meanwhile, and request all of this reader's, since this one may never end."""
        current.is_empty = True
        for watermarks in self._watermarks:
            watermarks.nothing_now(self._source.sequence_of(current.split), self.context.activity.ms)
        self._held.in_turn = True
        if not self._takes_all:
            self._takes_all = True
            self._ask()

    def changed_watch(self) -> Watch | None:
        """Return the splits to watch if they have changed since the last call, otherwise None.

        If several splits have new rows, the watch changes only after all of them have been read.
        """
        if self._reading and self._current is not None and self._current.is_woken:
            return None
        empty = self._held.empty
        ids = {held.id for held in empty}
        if ids == self._watched:
            return None
        self._watched = ids
        return tuple((held.split, held.position) for held in empty)

    def rows_available(self, split_ids: Iterable[str]) -> None:
        """Read these splits again. The host no longer watches any split."""
        self._watched = set()
        for held in self._held.have_rows(split_ids):
            for watermarks in self._watermarks:
                watermarks.may_have_rows(self._source.sequence_of(held.split))

    def next_processing_time_ms(self) -> int | None:
        """Return the time of the next watermark report to the coordinator."""
        return None if self._alignment is None else self._alignment.due_ms

    def on_processing_time(self, now_ms: int) -> None:
        """Report the watermark of the reader's splits, if the report is due and has changed."""
        if self._alignment is not None:
            report = self._alignment.report(now_ms)
            if report is not None:
                self.context.send_to_coordinator(report)

    def finish(self) -> None:
        """Report to the coordinator that no split of this reader holds back the other readers any longer."""
        if self._alignment is not None:
            self.context.send_to_coordinator(self._alignment.last_report())

    # --- the coordinator ------------------------------------------------------------------------------------------

    def handle_coordinator_event(self, payload: dict[str, Any]) -> None:
        """Take a split, give splits up, or note that there are none, for now or for good."""
        kind = payload["kind"]
        if kind == ALIGN and self._alignment is not None:
            self._alignment.take(payload)
            return
        if kind == REMOVE_SPLITS:
            self._held.remove(payload["ids"])
            self._register_splits()
            return
        self._asking = False
        if kind == ASSIGN_SPLIT:
            self._held.add([HeldSplit(payload["split"], 0)])
            self._register_splits()
            if self._takes_all:
                self._ask()
        elif kind == NO_MORE_SPLITS:
            self._exhausted = not len(self._held)
        elif kind != NO_SPLITS_NOW:
            expected = ", ".join(map(repr, (ASSIGN_SPLIT, NO_MORE_SPLITS, NO_SPLITS_NOW, REMOVE_SPLITS)))
            raise ValueError(f"{self._name}: the coordinator sent {payload}, expected one of {expected}")

    def snapshot_state(self, checkpoint_id: int) -> None:
        """Store each split with its position, and notify the listener."""
        if self._listener is not None:
            splits = [(held.split, held.position) for held in (*self._read, *self._held)]
            self._read = []
            note = self._listener.snapshot_state
            try:
                note(checkpoint_id, splits)
            except Exception as error:
                raise UserFunctionError.of(self._name, note, f"checkpoint {checkpoint_id}", error) from error
        encode = partial(json.dumps, sort_keys=True, separators=(",", ":"))
        self._state.update({"split": encode(held.split), "position": held.position} for held in self._held)

    def _ask(self) -> None:
        """Ask for the next split: any, or one that comes before the first of those held."""
        self._asking = True
        before = None if self._held.first is None else self._held.first.index
        request: dict[str, Any] = {"kind": REQUEST_SPLIT, "after": self._last_index, "before": before}
        if any(held.split.get(BACKLOG) for held in self._held):
            request[BACKLOG] = True
        if self._takes_all:
            request |= {"before": None, OWN: True, HELD: len(self._held)}
        self.context.send_to_coordinator(request)

    def _register_splits(self) -> None:
        for watermarks in self._watermarks:
            watermarks.register(self._source.sequence_of(held.split) for held in self._held)

    def _rows_to_read(self, held: HeldSplit) -> int:
        """Return the batch size: a few rows for a sequence without a watermark, to find where its event time begins."""
        limit, rows = self._source.rows_per_second, self._source.batch_rows
        if limit is not None:
            rows = max(1, min(rows, int(limit // _LIMITED_BATCHES_PER_SECOND)))
        if not self._watermarks or self._watermarks[0].of(self._source.sequence_of(held.split)) > MIN_WATERMARK_MS:
            return rows
        return min(rows, max(1, held.position))

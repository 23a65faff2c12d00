"""The operator at the head of a source's task: it knows what to read next, and asks for it.

The operator never reads. The task asks it `next_read(now)`, carries out the answer (a read, a wait) and hands the rows
to `on_split_read`, which emits them. One read is under way at a time. When no split is at hand the operator asks its
coordinator; which of several it reads is in `kit.stream.operators.sources.held_splits`. A reader *takes all* splits
that are meant for it, before it reads, where event time follows a source with several sequences of splits
(`follow_splits`), or where splits may never end. Its state, one entry for each split it holds with the position in it,
is distributed again on a rescale.

Splits that have nothing now are not read: the task has the host watch them (`changed_watch`), and `rows_available` says
which may be read again.

A limit on rows per second is kept by processing time alone: a batch is due when the batches before it have used up
their time, counted from the first read; a reader that falls more than a second behind does not make up for it.

Follows Flink's `SourceOperator` and `SourceReaderBase`. There several fetchers may read at the same time, and fill a
queue; here the rows of a read reach the operator before the next read begins.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kit.core.protocol.elements import MIN_WATERMARK_MS
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
    """Read at most `max_rows` of `split` from `position` on, then call `on_split_read`."""

    split: Split
    position: int
    max_rows: int


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """Nothing may be read before processing time `due_ms`."""

    due_ms: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """An answer is outstanding: of the coordinator, of the last read, or of the splits that have nothing now."""


@dataclass(frozen=True, slots=True)
class Exhausted:
    """All splits have been read, and there will be no more."""


NextRead = ReadRequest | WaitUntil | Waiting | Exhausted
Watch = tuple[tuple[Split, int], ...]
"""Splits without rows, each with the position from which on it has none."""


class SourceOperator(Operator):
    """Reads the splits that its coordinator assigns."""

    def __init__(self, source: Source, name: str, schema: pa.Schema | None = None) -> None:
        self._source = source
        self._name = name
        self._schema = schema  # None: what is read goes on as it is
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
        """The splits that were read to the end since the last snapshot, if a listener is to hear of them."""

    @property
    def checkpoint_listener(self) -> SourceListener | None:
        """What the source has made to be notified."""
        return self._listener

    @property
    def splits(self) -> list[tuple[Split, int]]:
        """The splits that it holds, in order, each with the position up to which it was read."""
        return [(held.split, held.position) for held in self._held]

    @property
    def reads_side_by_side(self) -> bool:
        """Return True if the source has splits that may cover the same time."""
        return self._source.sequences > 1

    @property
    def poll_every_ms(self) -> int:
        """The time between two questions whether a split has rows."""
        return self._source.poll_every_ms

    def follow_splits(self, watermarks: Sequence[SplitWatermarks], max_drift_ms: int | None = None) -> None:
        """Read the splits side by side, as far as event time has come in each; called before anything is restored. With
        `max_drift_ms` none that is further ahead of the least of all readers' splits.
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
        """Ask for the first split, or whether there is one before those restored."""
        if self._alignment is not None:
            self._alignment.begin(self.context.processing_time_ms)
        self._ask()

    # --- reading --------------------------------------------------------------------------------------------------

    def next_read(self, now_ms: int) -> NextRead:
        """What to do next, at processing time `now_ms`."""
        if self._exhausted:
            return Exhausted()
        if self._asking or self._reading:
            return Waiting()
        limit_ms = None if self._alignment is None else self._alignment.max_watermark_ms
        current = self._held.next(self._watermarks[0].of if self._watermarks else None, limit_ms)
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

    def on_split_read(self, split_id: str, batch: pa.RecordBatch | None, position: int, finished: bool) -> None:
        """Take the answer to the last `ReadRequest` and emit the rows."""
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
        """Read the others meanwhile, all that are meant for this reader: this split may never end."""
        current.is_empty = True
        for watermarks in self._watermarks:
            watermarks.nothing_now(self._source.sequence_of(current.split), self.context.processing_time_ms)
        self._held.in_turn = True
        if not self._takes_all:
            self._takes_all = True
            self._ask()

    def changed_watch(self) -> Watch | None:
        """The splits whose rows are to be waited for, if these are others than last time; None if they are not.

        When several splits were woken, the host is asked again only after all of them have been read.
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
        """Read these splits again. The host watches none any longer."""
        self._watched = set()
        self._held.have_rows(split_ids)

    def next_processing_time_ms(self) -> int | None:
        """When its watermark is to be reported to the coordinator."""
        return None if self._alignment is None else self._alignment.due_ms

    def on_processing_time(self, now_ms: int) -> None:
        """Report the watermark of the splits it holds, if that is due and something new."""
        if self._alignment is not None:
            report = self._alignment.report(now_ms)
            if report is not None:
                self.context.send_to_coordinator(report)

    # --- the coordinator ------------------------------------------------------------------------------------------

    def handle_coordinator_event(self, payload: dict[str, Any]) -> None:
        """Take a split, give some up, or note that this reader gets none, at all or for now."""
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
        """Keep every split held and how far it has been read; tell the listener, too."""
        if self._listener is not None:
            splits = [(held.split, held.position) for held in (*self._read, *self._held)]
            self._read = []
            try:
                self._listener.snapshot_state(checkpoint_id, splits)
            except Exception as error:
                raise UserFunctionError.of(
                    self._name, self._listener.snapshot_state, f"checkpoint {checkpoint_id}", error
                ) from error
        self._state.update(
            [
                {"split": json.dumps(held.split, sort_keys=True, separators=(",", ":")), "position": held.position}
                for held in self._held
            ]
        )

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
        """Of a sequence without a watermark a few rows: enough to know where its event time begins."""
        rows = self._batch_rows()
        if not self._watermarks or self._watermarks[0].of(self._source.sequence_of(held.split)) > MIN_WATERMARK_MS:
            return rows
        return min(rows, max(1, held.position))

    def _batch_rows(self) -> int:
        limit = self._source.rows_per_second
        rows = self._source.batch_rows
        return rows if limit is None else max(1, min(rows, int(limit // _LIMITED_BATCHES_PER_SECOND)))

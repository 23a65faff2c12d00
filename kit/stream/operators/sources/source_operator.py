"""The operator at the head of a source's task: it knows what to read next, and asks for it.

The operator never reads. The task asks it `next_read(now)`, carries out the answer (a read, a wait) and hands the rows
to `on_split_read`, which emits them. Splits are read one at a time, in ascending order; when none is at hand the
operator asks its coordinator. Where event time follows a source with several sequences of splits (`follow_splits`), the
operator asks for all splits that are meant for it before it reads, and reads them side by side. Its state, one entry
for each split it holds with the position in it, is distributed again on a rescale.

A limit on rows per second is kept by processing time alone: a batch is due when the batches before it have used up
their time, counted from the first read; a reader that falls more than a second behind does not make up for it.

Follows Flink's `SourceOperator` and `SourceReaderBase`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kit.core.protocol.elements import MIN_WATERMARK_MS
from kit.stream.backend.states.descriptors import ListStateDescriptor
from kit.stream.operators.base import Operator
from kit.stream.operators.sources.source import Source, SourceListener, Split
from kit.stream.operators.sources.split_enumerator import (
    ASSIGN_SPLIT,
    BACKLOG,
    HELD,
    NO_MORE_SPLITS,
    OWN,
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
    """An answer is outstanding: of the coordinator, or of the last read."""


@dataclass(frozen=True, slots=True)
class Exhausted:
    """All splits have been read, and there will be no more."""


NextRead = ReadRequest | WaitUntil | Waiting | Exhausted


@dataclass(slots=True)
class _HeldSplit:
    """A split of this reader and how far it has been read."""

    split: Split
    position: int


class SourceOperator(Operator):
    """Reads the splits that its coordinator assigns, one after the other."""

    def __init__(self, source: Source, name: str, schema: pa.Schema | None = None) -> None:
        self._source = source
        self._name = name
        self._schema = schema  # None: what is read goes on as it is
        self._held: list[_HeldSplit] = []
        self._current: _HeldSplit | None = None
        """The split that is being read."""
        self._watermarks: Sequence[SplitWatermarks] = ()
        """One for each operator in the chain that makes watermarks, where splits are read side by side."""
        self._last_index = -1
        self._asking = self._reading = self._exhausted = False
        self._due_ms: float | None = None
        self._listener = source.create_listener()
        self._read: list[_HeldSplit] = []
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

    def follow_splits(self, watermarks: Sequence[SplitWatermarks]) -> None:
        """Read the splits side by side, as far as event time has come in each; called before anything is restored."""
        self._watermarks = watermarks

    def initialize_state(self) -> None:
        """Take over the restored splits."""
        self._state = self.context.operator_state.list_state(SPLITS_STATE)
        self._held = [_HeldSplit(json.loads(entry["split"]), entry["position"]) for entry in self._state.get()]
        self._held.sort(key=_index)
        self._register_splits()

    def open(self) -> None:
        """Ask for the first split, or whether there is one before those restored."""
        self._ask()

    def next_read(self, now_ms: int) -> NextRead:
        """What to do next, at processing time `now_ms`."""
        if self._exhausted:
            return Exhausted()
        if self._asking or self._reading:
            return Waiting()
        if self._due_ms is not None and now_ms < self._due_ms:
            return WaitUntil(math.ceil(self._due_ms))
        if self._source.rows_per_second is not None:
            self._due_ms = now_ms if self._due_ms is None else max(self._due_ms, now_ms - _MOST_LAG_MS)
        self._reading = True
        current = self._current = self._next_split()
        return ReadRequest(current.split, current.position, self._rows_to_read(current))

    def on_split_read(self, split_id: str, batch: pa.RecordBatch | None, position: int, finished: bool) -> None:
        """Take the answer to the last `ReadRequest` and emit the rows."""
        current = self._current if self._reading else None
        if current is None or current.split["id"] != split_id:
            expected = "no read" if current is None else f"a read of {current.split['id']!r}"
            raise RuntimeError(f"{self._name}: rows of split {split_id!r} arrived, but {expected} was asked for")
        self._reading = False
        current.position = position
        if batch is not None and batch.num_rows:
            if self._due_ms is not None and self._source.rows_per_second is not None:
                self._due_ms += batch.num_rows * 1_000 / self._source.rows_per_second
            for watermarks in self._watermarks:
                watermarks.begin(self._source.sequence_of(current.split))
            self.context.output.emit(batch if self._schema is None else as_rows(batch.to_struct_array(), self._schema))
        if finished:
            self._last_index = _index(current)
            if self._listener is not None:
                self._read.append(current)
            self._held.remove(current)
            self._register_splits()
            self._ask()

    def handle_coordinator_event(self, payload: dict[str, Any]) -> None:
        """Take a split, or learn that there are no more for this reader."""
        self._asking = False
        if payload["kind"] == ASSIGN_SPLIT:
            self._held.append(_HeldSplit(payload["split"], 0))
            self._held.sort(key=_index)
            if self._watermarks:
                self._register_splits()
                self._ask()  # until it has all that are meant for it
        elif payload["kind"] != NO_MORE_SPLITS:
            expected = f"{ASSIGN_SPLIT!r} or {NO_MORE_SPLITS!r}"
            raise ValueError(f"{self._name}: the coordinator sent {payload}, expected {expected}")
        else:
            self._exhausted = not self._held

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
        before = _index(self._held[0]) if self._held else None
        request: dict[str, Any] = {"kind": REQUEST_SPLIT, "after": self._last_index, "before": before}
        if any(held.split.get(BACKLOG) for held in self._held):
            request[BACKLOG] = True
        if self._watermarks:
            request |= {"before": None, OWN: True, HELD: len(self._held)}
        self.context.send_to_coordinator(request)

    def _next_split(self) -> _HeldSplit:
        """Return the split to read: the first, or of the first ones of all sequences that whose event time is furthest
        behind.
        """
        if not self._watermarks:
            return self._held[0]
        first: dict[str, _HeldSplit] = {}
        for held in self._held:
            first.setdefault(self._source.sequence_of(held.split), held)
        return first[min(first, key=self._watermarks[0].of)]

    def _register_splits(self) -> None:
        sequences = [self._source.sequence_of(held.split) for held in self._held] if self._watermarks else ()
        for watermarks in self._watermarks:
            watermarks.register(sequences)

    def _rows_to_read(self, held: _HeldSplit) -> int:
        """Of a sequence without a watermark a few rows: enough to know where its event time begins."""
        rows = self._batch_rows()
        if not self._watermarks or self._watermarks[0].of(self._source.sequence_of(held.split)) > MIN_WATERMARK_MS:
            return rows
        return min(rows, max(1, held.position))

    def _batch_rows(self) -> int:
        limit = self._source.rows_per_second
        rows = self._source.batch_rows
        return rows if limit is None else max(1, min(rows, int(limit // _LIMITED_BATCHES_PER_SECOND)))


def _index(held: _HeldSplit) -> int:
    return int(held.split.get("index", 0))

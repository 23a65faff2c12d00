"""Values that Flink's own operators keep: elements of streams, buffers of joins, partial matches of CEP, transactions.

Flink: `StreamElementSerializer`, `IntervalJoinOperator.BufferEntrySerializer`, `CoGroupedStreams.UnionSerializer`,
`TwoPhaseCommitSinkFunction.StateSerializer`, `NFAStateSerializer` and the serializers of its shared buffer.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from kit.snapshots.serializers.basic import BOOLEAN, INTEGER, LONG, STRING, Numbers
from kit.snapshots.serializers.composite import OneOfTwo, Optional
from kit.snapshots.serializers.reading import Reader
from kit.snapshots.serializers.types import Sequential, Struct, Type, with_nulls
from kit.snapshots.serializers.writing import Writer

RECORD_AT, RECORD, WATERMARK, LATENCY_MARKER, STATUS, ATTRIBUTES, WATERMARK_OF_PART = range(7)
"""The tags of `StreamElementSerializer`."""
_KINDS = ("record", "record", "watermark", "latency marker", "status", "attributes", "watermark")
_SKIPPED = {LATENCY_MARKER: 28, STATUS: 4, ATTRIBUTES: 1}
"""The bytes of elements that hold neither a record nor a watermark."""
_FIRST, _SECOND = 1, 2


class StreamElement(Type):
    """An element of a stream: its kind, the time of a record or a watermark in ms, and the record."""

    def __init__(self, record: Type) -> None:
        self.name, self.parts, self.is_opaque = f"StreamElement<{record.name}>", (record,), record.is_opaque
        self.arrow = self._struct(record.arrow)

    @staticmethod
    def _struct(record: pa.DataType) -> pa.DataType:
        return pa.struct([("element", pa.string()), ("time_ms", pa.int64()), ("record", record)])

    def read(self, reader: Reader) -> Any:
        tag = reader.uint8()
        if tag >= len(_KINDS):
            reader.at -= 1
            raise reader.error(f"tag {tag} of a stream's element", f"0 to {len(_KINDS) - 1}")
        if tag in _SKIPPED:
            reader.skip(_SKIPPED[tag])
            return (_KINDS[tag], None, None)
        if tag == WATERMARK_OF_PART:
            reader.skip(4)
        time_ms = None if tag == RECORD else reader.int64()
        return (_KINDS[tag], time_ms, self.parts[0].read(reader) if tag <= RECORD else None)

    def write(self, out: Writer, value: Any) -> None:
        kind, time_ms, record = value
        if kind != "record":
            raise ValueError(f"{kind}, but only records are written here")
        out.append(RECORD if time_ms is None else RECORD_AT)
        if time_ms is not None:
            out.int64(time_ms)
        self.parts[0].write(out, record)

    def from_arrow(self, array: pa.Array) -> list[Any]:
        kinds, times, records = array.flatten()
        held = self.parts[0].from_arrow(records)
        return with_nulls(array, list(zip(kinds.to_pylist(), times.to_pylist(), held, strict=True)))

    @property
    def text_arrow(self) -> pa.DataType:
        return self._struct(self.parts[0].text_arrow)

    def to_text(self, value: Any) -> Any:
        return None if value is None else (*value[:2], None if value[2] is None else self.parts[0].to_text(value[2]))


class TaggedUnion(OneOfTwo):
    """A row of one of two inputs, after a byte. `input` says which: 1 or 2."""

    tag = ("input", pa.int8())
    columns = ("first", "second")

    def __init__(self, first: Type, second: Type) -> None:
        super().__init__("Union", first, second)

    def read(self, reader: Reader) -> Any:
        tag = reader.uint8()
        if tag not in (_FIRST, _SECOND):
            reader.at -= 1
            raise reader.error(f"input {tag} of a union", "1 or 2")
        held = self.parts[tag - 1].read(reader)
        return (tag, held, None) if tag == _FIRST else (tag, None, held)

    def write(self, out: Writer, value: Any) -> None:
        out.append(value[0])
        self.parts[value[0] - 1].write(out, value[value[0]])


def struct(name: str, **fields: Type) -> Struct:
    """Return a value of these fields, one after another."""
    return Struct(name, tuple(fields.items()), is_fixed=False)


def buffered(element: Type) -> Struct:
    """Return an element that an interval join keeps, and whether it was joined."""
    return struct(f"BufferEntry<{element.name}>", joined=BOOLEAN, element=element)


def transactions(transaction: Type, context: Type) -> Struct:
    """Return the transactions of a sink that commits in two phases: the open one, those to commit, the user's own."""
    holder = struct("Transaction", transaction=transaction, started_ms=LONG)
    pending = Sequential("List<Transaction>", holder)
    return struct(
        f"State<{transaction.name}, {context.name}>",
        open=Optional(holder.name, holder, null_flag=False),
        to_commit=pending,
        context=Optional(context.name, context, null_flag=False),
    )


# --- CEP --------------------------------------------------------------------------------------------------------------

EVENT_ID = struct("EventId", id=INTEGER, time_ms=LONG)
DEWEY_NUMBER = Numbers(INTEGER)
"""The version of a partial match."""


def node_id(event_id: Type) -> Optional:
    """Return the place of an event in the shared buffer, or null."""
    return Optional("NodeId", struct("NodeId", event=event_id, page=STRING), null_flag=False)


def edge(node: Type, version: Type) -> Struct:
    """Return a link from an event to the one before it."""
    return struct("SharedBufferEdge", target=node, version=version)


def buffer_node(of_edge: Type) -> Sequential:
    """Return the links of an event, each with the number of references to it."""
    return Sequential("List<SharedBufferEdge>", struct("Lockable", references=INTEGER, element=of_edge))


def matches(version: Type, node: Type, event_id: Type, *, has_previous: bool) -> Struct:
    """Return the partial matches of a key, and those that are complete but not emitted."""
    previous = {"previous_ms": LONG} if has_previous else {}
    start = Optional(event_id.name, event_id, null_flag=False)
    match = struct("Match", state=STRING, previous=node, version=version, start_ms=LONG, **previous, start=start)
    matches_ = Sequential("List<Match>", match)
    return struct("NFAState", partial=matches_, completed=matches_)

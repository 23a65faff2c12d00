"""The records in flight of a checkpoint that Flink took, cut out of the buffers of its channels.

A record is its length and its bytes, and may span buffers. The buffers that an input channel had received begin with a
record. The last record may go on in the buffers that the sender had not sent, whose first bytes are then its rest.
Metadata does not say which output feeds which input. The two are paired if the bytes of all channels between two
operators, put together, end with a record.

Flink: `SpanningWrapper`, `RecordWriter`, `StreamElementSerializer`.
"""

from __future__ import annotations

import io
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any

import pyarrow as pa

from kit.core.metadata import CheckpointMetadata
from kit.core.protocol.elements import Buffer, Watermark
from kit.core.state.errors import DamagedError, StateRestoreError
from kit.core.state.operator_state import OperatorState
from kit.machines.channel.channel_state.channel_state_serializer import ChannelStateSerializer
from kit.snapshots.checkpoints.frames import channel_numbers
from kit.snapshots.checkpoints.state_bytes import How, StateBytes, Stream
from kit.snapshots.serializers.opaque import Opaque
from kit.snapshots.serializers.operators import StreamElement
from kit.snapshots.serializers.reading import Reader
from kit.snapshots.serializers.types import Type, column

LENGTH_BYTES = 4
ARROW_STREAM = b"\xff\xff\xff\xff"
"""How the kit's own buffers begin: no record of Flink has this length."""
UNREAD = "part of a record"

Channels = Mapping[tuple[int, int], bytes]
"""The bytes between two operators, by the receiving and the sending subtask."""


@dataclass(frozen=True)
class _Side:
    """The buffers of one gate, or of one result partition, of an operator."""

    operator: OperatorState
    number: int
    channels: Channels
    streams: Mapping[tuple[int, int], tuple[Stream, int]]
    """The stream of the buffers of each channel, and where the first one begins."""

    @contextmanager
    def damage_in(self, place: tuple[int, int]) -> Iterator[None]:
        """Name the file in an error of the records of a channel, and where its buffers begin."""
        stream, start = self.streams[place]
        with stream.damage_from(start):
            try:
                yield
            except DamagedError as error:
                raise error.inside("the records in the channel's buffers") from error


def records_in_flight(
    metadata: CheckpointMetadata, operator: OperatorState, source: StateBytes, record: Type | None
) -> pa.Table:
    """Return the records that begin in the channel state of one operator. Raises CheckpointError.

    Columns: subtask, side (input, output), gate (of an output its partition), channel, element, time_ms, record.
    Without the type of its records a record is bytes.
    """
    inputs = _sides(metadata, source, "input_channel_state")
    outputs = _sides(metadata, source, "result_subpartition_state")
    if any(held.startswith(ARROW_STREAM) for side in (*inputs, *outputs) for held in side.channels.values()):
        return _own_records(operator, inputs, outputs)
    element = StreamElement(Opaque("a record") if record is None else record)
    pairs = _pairs(inputs, outputs)
    rows: list[tuple[Any, ...]] = []
    for side in (each for each in inputs if each.operator is operator):
        sender = pairs.get(id(side))
        for (subtask, channel), held in sorted(side.channels.items()):
            rest = b"" if sender is None else sender.channels.get((subtask, channel), b"")
            with side.damage_in((subtask, channel)):
                parts = list(_elements(held + rest, element, until=len(held)))
            rows += [(subtask, "input", side.number, channel, *each) for each in parts]
    receivers = {id(pairs[id(side)]): side for side in inputs if id(side) in pairs}
    for side in (each for each in outputs if each.operator is operator):
        receiver = receivers.get(id(side))
        for (channel, subtask), held in sorted(side.channels.items(), key=lambda each: each[0][::-1]):
            head = b"" if receiver is None else receiver.channels.get((channel, subtask), b"")
            framed = _frames(head + held, len(head))
            is_cut = receiver is None and framed.end < len(held)
            with side.damage_in((channel, subtask)):
                parts = list(_elements(head + held, element, start=len(held) if is_cut else framed.next))
            if is_cut:
                parts = [(UNREAD, None, held if record is None else None)]
            rows += [(subtask, "output", side.number, channel, *each) for each in parts]
    (of_record,) = element.parts
    return _table([each[:-1] for each in rows], column(of_record, [each[-1] for each in rows]))


_COLUMNS = {
    "subtask": pa.int32(),
    "side": pa.string(),
    "gate": pa.int32(),
    "channel": pa.int32(),
    "element": pa.string(),
    "time_ms": pa.int64(),
}


def _table(rows: list[tuple[Any, ...]], records: pa.Array) -> pa.Table:
    """Return the table of these rows of `_COLUMNS`, each with its record."""
    columns = list(zip(*rows, strict=True)) or [()] * len(_COLUMNS)
    made = [pa.array(held, kind) for held, kind in zip(columns, _COLUMNS.values(), strict=True)]
    return pa.table([*made, records], [*_COLUMNS, "record"])


# --- buffers ----------------------------------------------------------------------------------------------------------


def _sides(metadata: CheckpointMetadata, source: StateBytes, kind: str) -> list[_Side]:
    """Return the buffers of every gate or result partition, by the receiving and the sending subtask."""
    found: dict[tuple[str, int], dict[tuple[int, int], bytes]] = defaultdict(dict)
    streams: dict[tuple[str, int], dict[tuple[int, int], tuple[Stream, int]]] = defaultdict(dict)
    for operator in metadata.operator_states:
        for subtask, state in sorted(operator.subtask_states.items()):
            for handle in getattr(state, kind):
                stream = source.stream(handle.delegate)
                for part in handle.unmerge():
                    number, channel = channel_numbers(part.info)
                    place = (subtask, channel) if kind == "input_channel_state" else (channel, subtask)
                    held = b"".join(_buffer(stream, offset) for offset in part.offsets)
                    found[operator.operator_id, number][place] = held
                    streams[operator.operator_id, number][place] = stream, min(part.offsets, default=0)
    operators = {each.operator_id: each for each in metadata.operator_states}
    return [_Side(operators[own], number, channels, streams[own, number]) for (own, number), channels in found.items()]


def _buffer(stream: Stream, offset: int) -> bytes:
    size = int.from_bytes(stream.read(offset, LENGTH_BYTES), "big", signed=True)
    return stream.read(offset + LENGTH_BYTES, size)


def check_buffers(handle: Any, stream: Stream) -> How:
    """Read the buffers of a handle of channel state, and compare their checksums, which those of the kit have.

    Raises CheckpointError.
    """
    how = How.LAYOUT
    for part in handle.unmerge():
        held = b"".join(_buffer(stream, offset) for offset in part.offsets)
        if held.startswith(ARROW_STREAM):
            how = How.CHECKSUMS
            with stream.damage_from(min(part.offsets)):
                for _ in _own_elements(held):
                    pass
    return how


# --- records ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Framed:
    """The places of the records in some bytes; `next` is the first at or behind `start` where one begins."""

    places: list[tuple[int, int]]
    next: int
    end: int
    """Where the last whole record ends."""


def _frames(held: bytes, start: int = 0) -> _Framed:
    places, at, after = [], 0, 0 if start == 0 else -1
    while at + LENGTH_BYTES <= len(held):
        size = int.from_bytes(held[at : at + LENGTH_BYTES], "big", signed=True)
        end = at + LENGTH_BYTES + size
        if size <= 0 or end > len(held):
            break
        places.append((at + LENGTH_BYTES, end))
        at = end
        if after < 0 and at >= start:
            after = at
    return _Framed(places, len(held) if after < 0 else after, at)


def _elements(held: bytes, element: StreamElement, start: int = 0, until: int | None = None) -> Iterator[Any]:
    """Yield kind, time and record of each element that begins from `start` on, and before `until`."""
    until = len(held) if until is None else until
    framed = _frames(held)
    for begin, end in framed.places:
        if not start <= begin - LENGTH_BYTES < until:
            continue
        reader = Reader(held, begin, end)
        found = element.read(reader)
        if reader.left:
            raise reader.error(
                f"{reader.left} more bytes of a record", f"the end of a record of {element.parts[0].name}"
            )
        yield found
    rest = held[max(framed.end, start) : until]
    if rest and framed.end < until:
        yield UNREAD, None, rest if element.parts[0].is_opaque else None


# --- which output feeds which input -----------------------------------------------------------------------------------


def _pairs(inputs: list[_Side], outputs: list[_Side]) -> dict[int, _Side]:
    """Return the output with the rest of the records that an input holds, by the id of the input.

    An input is left out if its records are whole, or if the bytes leave a doubt.
    """
    cut = [side for side in inputs if not all(_frames(each).end == len(each) for each in side.channels.values())]
    fits = [(side, each) for side in cut for each in outputs if each.operator is not side.operator and _fit(side, each)]
    many = Counter(id(part) for pair in fits for part in pair)
    return {id(side): each for side, each in fits if many[id(side)] == many[id(each)] == 1}


def _fit(receiver: _Side, sender: _Side) -> bool:
    """Return True if the bytes of all channels end with a record, once those of both sides are put together."""
    subtasks, channels = receiver.operator.parallelism, sender.operator.parallelism
    places = {*receiver.channels, *sender.channels}
    if any(subtask >= subtasks or channel >= channels for subtask, channel in places):
        return False
    every = product(range(subtasks), range(channels))
    joined = (receiver.channels.get(place, b"") + sender.channels.get(place, b"") for place in every)
    return all(_frames(held).end == len(held) for held in joined)


# --- the kit's own ----------------------------------------------------------------------------------------------------


def _own_records(operator: OperatorState, inputs: list[_Side], outputs: list[_Side]) -> pa.Table:
    """Return the rows in the buffers of a checkpoint that the kit took."""
    rows: list[tuple[Any, ...]] = []
    parts: list[Any] = []
    for name, sides in (("input", inputs), ("output", outputs)):
        for side in (each for each in sides if each.operator is operator):
            for (receiver, sender), held in sorted(side.channels.items()):
                subtask, channel = (receiver, sender) if name == "input" else (sender, receiver)
                with side.damage_in((receiver, sender)):
                    elements = list(_own_elements(held))
                for kind, time_ms, batch in elements:
                    many = batch.num_rows if batch is not None else 1
                    rows += [(subtask, name, side.number, channel, kind, time_ms)] * many
                    parts += batch.to_pylist() if batch is not None else [None]
    return _table(rows, pa.array(parts))


def _own_elements(held: bytes) -> Iterator[tuple[str, int | None, Any]]:
    try:
        elements = ChannelStateSerializer().read_data(io.BytesIO(held), len(held))
    except StateRestoreError as error:
        raise DamagedError(str(error)) from error
    for each in elements:
        if isinstance(each, Buffer):
            yield "record", None, each.batch
        elif isinstance(each, Watermark):
            yield "watermark", each.timestamp_ms, None
        else:
            yield type(each).__name__, None, None

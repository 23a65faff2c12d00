"""Frames, control messages and batches, from bytes to bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.hosts.spark.wire.wire import (
    FRAME_RULES,
    HEADER,
    MAGIC,
    VERSION,
    BatchDecoder,
    BatchEncoder,
    Buffers,
    ControlMessage,
    Frame,
    FrameKind,
    FrameReader,
    WireError,
    pack_credit,
    pack_frame,
    unpack_credit,
)
from kit.machines.channel.channel_state.channel_state_serializer import decode_elements, write_batch
from kit.stream.backend.types.arrow_types import as_type, stream_type
from tests.arrow_values import LEAVES, NESTED, column


def joined(buffers: Buffers) -> bytes:
    return b"".join(buffers)


def reader_of(chunks: Iterator[bytes] | list[bytes], **options: int) -> FrameReader:
    """A reader of a stream that arrives in these chunks (cut further where a chunk is longer than asked for)."""
    pieces = iter(chunks)
    rest = b""

    def receive(view: memoryview, fill: bool) -> int:
        nonlocal rest
        while not rest:
            piece = next(pieces, None)
            if piece is None:
                return 0
            rest = piece
        count = min(len(rest), len(view))
        view[:count] = rest[:count]
        rest = rest[count:]
        return count

    return FrameReader(receive, **options)


def all_frames(reader: FrameReader) -> list[tuple[FrameKind, int, int, bytes]]:
    frames = []
    while (frame := reader.read()) is not None:
        frames.append((frame.kind, frame.flags, frame.channel, bytes(frame.payload)))
    return frames


@st.composite
def valid_frames(draw: st.DrawFn) -> tuple[FrameKind, int, int, bytes]:
    kind = draw(st.sampled_from(FrameKind))
    rule = FRAME_RULES[kind]
    size = draw(st.integers(0, 200)) if rule.payload_bytes is None else rule.payload_bytes
    payload = draw(st.binary(min_size=size, max_size=size))
    flags = draw(st.sampled_from([0, int(rule.flags)]))
    channel = draw(st.integers(0, 2**32 - 1)) if rule.channel else 0
    return kind, flags, channel, payload


def stream_of(frames: list[tuple[FrameKind, int, int, bytes]]) -> bytes:
    return b"".join(joined(pack_frame(kind, [payload], channel, flags)) for kind, flags, channel, payload in frames)


@given(st.lists(valid_frames(), max_size=8), st.data())
def test_frames_survive_any_cut_of_the_stream(frames: list[Any], data: st.DataObject) -> None:
    stream = stream_of(frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    chunks = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    # A buffer of 64 bytes makes most payloads "large" ones, which take the other path.
    buffer_bytes = data.draw(st.sampled_from([16, 64, 4096]))
    assert all_frames(reader_of(chunks, buffer_bytes=buffer_bytes)) == frames


@given(st.lists(valid_frames(), min_size=1, max_size=4), st.data())
def test_a_truncated_stream_yields_its_whole_frames_and_then_an_error(frames: list[Any], data: st.DataObject) -> None:
    whole, last = stream_of(frames[:-1]), stream_of(frames[-1:])
    kept = data.draw(st.integers(1, len(last) - 1))
    reader = reader_of([whole + last[:kept]], buffer_bytes=64)
    assert [tuple(_fields(reader.read())) for _ in frames[:-1]] == frames[:-1]
    with pytest.raises(WireError, match=r"ended inside a \w+ after \d+ of \d+ bytes"):
        reader.read()


def _fields(frame: Frame | None) -> Iterator[Any]:
    assert frame is not None
    yield from (frame.kind, frame.flags, frame.channel, bytes(frame.payload))


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ((MAGIC + 1, VERSION, FrameKind.EVENT, 0, 0, 0), "not one of our slots"),
        ((MAGIC, VERSION + 1, FrameKind.EVENT, 0, 0, 0), "another version of the kit"),
        ((MAGIC, VERSION, 0, 0, 0, 0), "unknown kind 0"),
        ((MAGIC, VERSION, 99, 0, 0, 0), "unknown kind 99"),
        ((MAGIC, VERSION, FrameKind.EVENT, 0x80, 0, 0), "EVENT frame with flags 0x80, allowed are 0x00"),
        ((MAGIC, VERSION, FrameKind.CREDIT, 0, 0, 9), "CREDIT frame of 9 bytes, expected 16"),
        ((MAGIC, VERSION, FrameKind.END, 0, 0, 1), "END frame of 1 bytes, expected 0"),
        ((MAGIC, VERSION, FrameKind.CONTROL, 0, 5, 0), "names channel 5"),
        ((MAGIC, VERSION, FrameKind.BATCH, 0, 0, 1001), "announces 1001 bytes, more than max_frame_bytes=1000"),
        ((MAGIC, VERSION, FrameKind.BATCH, 0, 0, 2**64 - 1), "more than max_frame_bytes=1000"),
    ],
)
def test_a_malformed_header_is_refused_before_its_payload(header: tuple[int, ...], message: str) -> None:
    reader = reader_of([HEADER.pack(*header)], max_frame_bytes=1000)
    with pytest.raises(WireError, match=message):
        reader.read()


@given(st.binary(max_size=100))
def test_noise_ends_in_a_wire_error_or_in_nothing(noise: bytes) -> None:
    reader = reader_of([noise], max_frame_bytes=1000)
    try:
        frames = all_frames(reader)
    except WireError:
        return
    assert stream_of(frames) == noise


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


def unpacked(buffers: Buffers) -> ControlMessage:
    return ControlMessage.unpack(joined(buffers)[HEADER.size :])


@given(st.text(), st.dictionaries(st.text(), json_values, max_size=4), st.lists(st.binary(max_size=20), max_size=4))
def test_control_messages_arrive_as_they_were_sent(kind: str, fields: dict[str, Any], blobs: list[bytes]) -> None:
    message = ControlMessage(kind, fields, blobs)
    assert unpacked(message.pack()) == message


@given(st.data())
def test_a_damaged_control_message_is_refused(data: st.DataObject) -> None:
    payload = joined(ControlMessage("ack", {"checkpoint": 3}, [b"state", b""]).pack())[HEADER.size :]
    kept = data.draw(st.integers(0, len(payload) - 1))
    with pytest.raises(WireError):
        ControlMessage.unpack(payload[:kept])
    with pytest.raises(WireError):
        ControlMessage.unpack(payload + b"x")


@pytest.mark.parametrize(
    "text", ["", "[]", "nonsense", '{"kind":1,"fields":{}}', '{"kind":"a","fields":[]}', "[" * 9999]
)
def test_a_control_message_must_have_a_kind_and_fields(text: str) -> None:
    payload = len(text).to_bytes(4, "big") + bytes(4) + text.encode()
    with pytest.raises(WireError, match="control message"):
        ControlMessage.unpack(payload)


def test_a_control_message_must_be_json_both_ways() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        ControlMessage("ack", {"duration": float("nan")}).pack()
    with pytest.raises(TypeError):
        ControlMessage("ack", {"handle": object()}).pack()
    text = b'{"kind":"a","fields":{"x":NaN}}'
    with pytest.raises(WireError, match="NaN is not JSON"):
        ControlMessage.unpack(len(text).to_bytes(4, "big") + bytes(4) + text)


def test_a_control_message_has_a_short_repr() -> None:
    message = ControlMessage("ack", {"checkpoint": 3, "states": list(range(1000))}, [b"12345"])
    assert repr(message).startswith("ControlMessage('ack', checkpoint=3, states=[0, 1, 2")
    assert repr(message).endswith("..., blobs=[5])")
    assert len(repr(message)) < 120


@pytest.mark.parametrize("max_rows", [None, 200])
def test_credits_are_carried(max_rows: int | None) -> None:
    frame = reader_of([joined(pack_credit(7, 12, max_rows))]).read()
    assert frame is not None
    assert (frame.kind, frame.channel, unpack_credit(frame.payload)) == (FrameKind.CREDIT, 7, (12, max_rows))


def sent_over(encoder: BatchEncoder, decoder: BatchDecoder, batch: pa.RecordBatch) -> tuple[list[FrameKind], Any]:
    """The kinds of the frames that carry a batch, and the batch that arrives."""
    reader = reader_of([joined(encoder.encode(batch))])
    kinds, arrived = [], None
    while (frame := reader.read()) is not None:
        kinds.append(frame.kind)
        arrived = decoder.decode(frame)
    return kinds, arrived


@pytest.mark.parametrize("name", [*LEAVES, *NESTED])
@settings(max_examples=10, deadline=None)
@given(st.data())
def test_columns_of_any_type_arrive_as_they_were(name: str, data: st.DataObject) -> None:
    encoder, decoder = BatchEncoder(3), BatchDecoder(3)
    rows = column(data.draw, 5, name)
    rows = as_type(rows, stream_type(rows.type))
    for part in (rows, rows.slice(2), rows.slice(1, 2), rows.slice(5)):
        batch = pa.record_batch([part], names=["v"])
        _, arrived = sent_over(encoder, decoder, batch)
        arrived.validate(full=True)
        assert arrived.schema.equals(batch.schema)
        assert arrived.equals(batch)
        (element,) = decode_elements(in_a_file(batch))
        assert element.batch.equals(batch)


@pytest.mark.parametrize("sliced", [slice(None), slice(1, None), slice(1, 2), slice(0, 0)])
@pytest.mark.parametrize("kind", ["list_view", "fixed_size_list"])
def test_lists_of_numbered_values_of_an_extension_take_another_form(kind: str, sliced: slice) -> None:
    ids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes([n] * 16) for n in range(3)], pa.binary(16)))
    numbered = pa.DictionaryArray.from_arrays(pa.array([0, 2, None, 1, 1, 0], pa.int8()), ids)
    if kind == "list_view":
        offsets, sizes = pa.array([0, 2, 0, 1], pa.int32()), pa.array([2, 3, 0, 5], pa.int32())
        column = pa.ListViewArray.from_arrays(offsets, sizes, numbered, mask=pa.array([False, False, True, False]))
    else:
        column = pa.FixedSizeListArray.from_arrays(numbered, 2, mask=pa.array([False, True, False]))
    column = column[sliced]
    changed = as_type(column, stream_type(column.type))
    changed.validate(full=True)
    assert changed.type != column.type
    assert changed.to_pylist() == column.to_pylist()


def in_a_file(batch: pa.RecordBatch) -> pa.Buffer:
    """As a checkpoint keeps what was in flight, and fragments of a long row carry it."""
    sink = pa.BufferOutputStream()
    write_batch(batch, sink)
    return sink.getvalue()


def test_the_schema_travels_once_and_again_when_it_changes() -> None:
    encoder, decoder = BatchEncoder(3), BatchDecoder(3)
    first = pa.record_batch({"word": ["a", None, "c"], "count": [1, 2, 3]})
    with_metadata = first.replace_schema_metadata({"origin": "a"})
    for batch, kinds in (
        (first, [FrameKind.SCHEMA, FrameKind.BATCH]),
        (first.slice(1, 2), [FrameKind.BATCH]),
        (first.slice(0, 0), [FrameKind.BATCH]),
        (with_metadata, [FrameKind.SCHEMA, FrameKind.BATCH]),
        (pa.record_batch({"other": [1.5]}), [FrameKind.SCHEMA, FrameKind.BATCH]),
        (first, [FrameKind.SCHEMA, FrameKind.BATCH]),
    ):
        found, arrived = sent_over(encoder, decoder, batch)
        assert found == kinds
        assert arrived.equals(batch, check_metadata=True)


def test_dictionary_columns_travel_with_their_dictionaries() -> None:
    encoder, decoder = BatchEncoder(1), BatchDecoder(1)
    for words in (["a", "b", "a"], ["c", None]):
        column = pa.array(words).dictionary_encode()
        nested = pa.StructArray.from_arrays([column], ["word"])
        batch = pa.record_batch({"nested": nested})
        kinds, arrived = sent_over(encoder, decoder, batch)
        assert kinds == [FrameKind.BATCH]
        assert arrived.equals(batch)


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_large_batches_survive_with_and_without_compression(compression: Any) -> None:
    batch = pa.record_batch({"key": np.arange(50_000), "value": np.ones(50_000)})
    encoder, decoder = BatchEncoder(1, compression), BatchDecoder(1)
    _, arrived = sent_over(encoder, decoder, batch)
    assert arrived.equals(batch)


def test_sending_a_batch_does_not_copy_its_columns() -> None:
    batch = pa.record_batch({"key": np.arange(1000)})
    buffers = BatchEncoder(1).encode(batch)
    addresses = [buffer.address for buffer in buffers if isinstance(buffer, pa.Buffer)]
    assert batch.column(0).buffers()[1].address in addresses


def test_a_batch_before_its_schema_is_refused() -> None:
    frame = Frame(FrameKind.BATCH, 4, b"")
    with pytest.raises(WireError, match="before its schema on channel 4"):
        BatchDecoder(4).decode(frame)


@given(st.binary(max_size=64))
def test_noise_is_not_taken_for_a_batch(noise: bytes) -> None:
    decoder = BatchDecoder(4)
    with pytest.raises(WireError, match="channel 4: a SCHEMA frame is not Arrow's"):
        decoder.decode(Frame(FrameKind.SCHEMA, 4, noise))
    decoder.decode(Frame(FrameKind.SCHEMA, 4, pa.schema({"a": pa.int64()}).serialize()))
    with pytest.raises(WireError, match="channel 4: a BATCH frame is not Arrow's"):
        decoder.decode(Frame(FrameKind.BATCH, 4, noise))


def test_parts_have_short_reprs() -> None:
    assert repr(Frame(FrameKind.EVENT, 2, b"abc")) == "Frame(EVENT, channel=2, 3 bytes)"
    assert repr(BatchEncoder(2)) == "BatchEncoder(channel=2, schema=None)"
    assert repr(BatchDecoder(2)) == "BatchDecoder(channel=2, schema=None)"
    assert repr(reader_of([])) == "FrameReader(0 bytes buffered)"

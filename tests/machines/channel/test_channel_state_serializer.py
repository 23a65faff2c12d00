"""In-flight data as bytes: Flink's frame around elements that describe themselves."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.protocol.elements import Buffer, DataElement, RecordFragment, Watermark, WatermarkStatus
from kit.core.state.errors import StateRestoreError
from kit.machines.channel.channel_state.channel_state_serializer import ChannelStateSerializer, decode_elements
from tests.machines.channel.channel_state import buffer, encode_element, values

SERIALIZER = ChannelStateSerializer()

COLUMNS = st.sampled_from(
    [
        pa.array([1, 2, None], pa.int64()),
        pa.array(["a", None, "cc"]),
        pa.array(["x", "y", "x"]).dictionary_encode(),
        pa.array([[1], [], None], pa.list_(pa.int32())),
        pa.array([{"a": 1, "b": "z"}] * 3),
        pa.array([b"\0", b"", b"\xff"]),
        pa.nulls(3),
        pa.array([1.5, float("inf"), -0.0]),
    ]
)


@st.composite
def elements(draw: st.DrawFn) -> DataElement:
    """A buffer of any columns, cut anywhere; a fragment of a record; a watermark; a status."""
    kind = draw(st.integers(0, 5))
    if kind == 0:
        return Watermark(draw(st.integers(-(2**63), 2**63 - 1)))
    if kind == 1:
        return WatermarkStatus(draw(st.booleans()))
    if kind == 2:
        return RecordFragment(draw(st.binary(max_size=40)), draw(st.booleans()))
    columns = draw(st.lists(COLUMNS, max_size=3))
    batch = pa.record_batch(columns, names=[f"c{number}" for number in range(len(columns))])
    start = draw(st.integers(0, 3))
    return Buffer(batch.slice(start, draw(st.integers(0, 3))))


def same(one: list[DataElement], other: list[DataElement]) -> bool:
    """Return True if these are equal; buffers are compared by their data and schema."""
    return len(one) == len(other) and all(
        a.batch.equals(b.batch, check_metadata=True) if isinstance(a, Buffer) and isinstance(b, Buffer) else a == b
        for a, b in zip(one, other, strict=True)
    )


def decoded(data: bytes | pa.Buffer) -> list[DataElement]:
    """Return the elements whose bytes these are, as a chunk has them."""
    return SERIALIZER.read_data(pa.BufferReader(data), len(data))


# --- elements ---------------------------------------------------------------------------------------------------------


@given(st.lists(elements(), max_size=6))
def test_elements_say_themselves_what_they_are_and_where_they_end(given_: list[DataElement]) -> None:
    data = b"".join(encode_element(element).to_pybytes() for element in given_)
    assert same(decoded(data), given_)


@given(st.lists(st.tuples(st.text(max_size=3), st.binary(max_size=80), st.none() | st.integers(-9, 9)), min_size=1))
def test_equal_records_make_equal_bytes_wherever_they_were_cut_from(rows: list[tuple[str, bytes, int | None]]) -> None:
    columns = [
        pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), (pa.string(), pa.binary(), pa.int64()))
    ]
    whole = pa.RecordBatch.from_arrays(columns, names=["text", "data", "number"])
    for row in range(len(rows)):
        alone = pa.RecordBatch.from_pylist(whole.slice(row, 1).to_pylist(), schema=whole.schema)
        assert encode_element(Buffer(whole.slice(row, 1))) == encode_element(Buffer(alone))


def test_what_a_slice_does_not_show_is_not_written() -> None:
    large = pa.record_batch([pa.array(range(100_000))], names=["n"])
    assert encode_element(Buffer(large.slice(7, 2))).size < 1_000


@pytest.mark.parametrize(
    "data", [b"\0" * 8, b"hello, world", encode_element(buffer(1)).to_pybytes()[:-100], b"\x80\x04."]
)
def test_other_bytes_are_no_elements(data: bytes) -> None:
    with pytest.raises(StateRestoreError, match="hold no element"):
        decode_elements(data)


@given(elements(), st.data())
def test_damaged_bytes_end_in_one_clear_error(element: DataElement, data: st.DataObject) -> None:
    damaged = bytearray(encode_element(element).to_pybytes())
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with suppress(StateRestoreError):
        assert same(decoded(bytes(damaged)), [element])


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        ("CheckpointBarrier", {"checkpoint_id": [1]}),
        ("Watermark", {"timestamp_ms": [True]}),
        ("Watermark", {"timestamp_ms": [1, 2]}),
        ("Watermark", {"timestamp": [1]}),
        ("WatermarkStatus", {"idle": pa.array([None], pa.bool_())}),
        ("RecordFragment", {"data": [b"a"]}),
        ("RecordFragment", {"data": [b"a"], "last": [1]}),
        ("RecordFragment", {"data": pa.array([None], pa.binary()), "last": [True]}),
        ("RecordFragment", {"data": [b"a"], "last": pa.array([None], pa.bool_())}),
    ],
)
def test_what_says_that_it_is_no_batch_must_be_one_of_the_others(kind: str, columns: dict[str, Any]) -> None:
    batch = pa.RecordBatch.from_pydict(columns).replace_schema_metadata({"kit.element": kind})
    with pytest.raises(StateRestoreError, match="is not an element of a channel"):
        decoded(encode_element(Buffer(batch)))


def test_two_batches_in_one_stream_are_no_element() -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, buffer(1).batch.schema) as stream:
        stream.write_batch(buffer(1).batch)
        stream.write_batch(buffer(2).batch)
    with pytest.raises(StateRestoreError, match="too many values"):
        decode_elements(sink.getvalue())


# --- the frame --------------------------------------------------------------------------------------------------------


@pytest.mark.flink("ChannelStateSerializerImplTest.testReadWrite")
def test_what_was_written_is_read() -> None:
    data, offsets = SERIALIZER.encode([buffer(1, 2, 3)])
    source = pa.BufferReader(data)
    SERIALIZER.read_header(source)
    length = SERIALIZER.read_length(source)
    assert offsets == (4, 4 + 4 + length)
    assert length == encode_element(buffer(1, 2, 3)).size
    assert values(SERIALIZER.read_data(source, length)) == [[1, 2, 3]]
    assert source.tell() == data.size == offsets[-1]
    assert data.to_pybytes()[:8] == b"\0\0\0\0" + length.to_bytes(4, "big")


@pytest.mark.flink("ChannelStateSerializerImplTest.testReadWriteWithMultipleBuffers")
def test_any_number_of_buffers_make_one_chunk() -> None:
    sink = pa.BufferOutputStream()
    SERIALIZER.write_header(sink)
    sizes = [SERIALIZER.write_data(sink, *[buffer(7)] * count) for count in (0, 1, 2, 3)]
    one = encode_element(buffer(7)).size
    assert sizes == [4, 4 + one, 4 + 2 * one, 4 + 3 * one]
    source = pa.BufferReader(sink.getvalue())
    SERIALIZER.read_header(source)
    for count in (0, 1, 2, 3):
        length = SERIALIZER.read_length(source)
        assert length == count * one
        assert values(SERIALIZER.read_data(source, length)) == [[7]] * count


@pytest.mark.flink("ChannelStateSerializerImplTest.testReadToBufferBuilder")
def test_what_is_read_stands_by_itself() -> None:
    """Flink copies into a buffer of its own; so that a buffer does not keep the whole file, nor its alignment."""
    data, _ = SERIALIZER.encode([buffer(1), buffer(2, 3)])
    memory = bytearray(data.to_pybytes())
    source = pa.BufferReader(pa.py_buffer(memory))
    source.seek(4)
    SERIALIZER.read_data(source, SERIALIZER.read_length(source))
    (read,) = SERIALIZER.read_data(source, SERIALIZER.read_length(source))
    memory[:] = bytes(len(memory))
    assert values([read]) == [[2, 3]]
    assert isinstance(read, Buffer)
    assert all(part is None or part.address % 8 == 0 for part in read.batch.column(0).buffers())


@given(st.lists(st.tuples(st.integers(0, 2), elements()), max_size=12))
def test_the_chunks_of_one_channel_can_be_cut_out_and_merged(written: list[tuple[int, DataElement]]) -> None:
    data, offsets = SERIALIZER.encode([element for _, element in written])
    for channel in range(3):
        mine = [number for number, (of, _) in enumerate(written) if of == channel]
        cut = SERIALIZER.extract_and_merge(data.to_pybytes(), [offsets[number] for number in mine])
        source = pa.BufferReader(cut)
        SERIALIZER.read_header(source)
        read = SERIALIZER.read_data(source, SERIALIZER.read_length(source))
        assert same(read, [written[number][1] for number in mine])
        assert source.tell() == len(cut)


@pytest.mark.parametrize(
    ("data", "what"),
    [(b"\0\0\0\1", "of version 1"), (b"", "after 0 of 4"), (b"\0\0", "after 2 of 4")],
)
def test_a_file_of_another_version_is_refused(data: bytes, what: str) -> None:
    with pytest.raises(StateRestoreError, match=what):
        SERIALIZER.read_header(pa.BufferReader(data))


def test_a_damaged_chunk_is_refused() -> None:
    with pytest.raises(StateRestoreError, match="negative length -1"):
        SERIALIZER.read_length(pa.BufferReader(b"\xff" * 4))
    with pytest.raises(StateRestoreError, match="ends 3 bytes early"):
        SERIALIZER.read_data(pa.BufferReader(b"12345"), 8)

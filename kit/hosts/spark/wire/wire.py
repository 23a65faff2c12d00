"""The bytes of the Spark host: frames, control messages and Arrow batches, without a socket.

Theory of operation. A connection carries *frames*: a header of 16 bytes and a payload.

    magic u8 | version u8 | kind u8 | flags u8 | channel u32 | payload length u64        (big endian)

`FRAME_RULES` defines the valid form of each kind. A header is checked against it, and against the maximal frame length,
before any payload is allocated. The first violation is a `WireError` and ends the connection.

A batch is an Arrow IPC message without its schema. The schema travels once per channel, and again when it changes.
Sending copies nothing: Arrow's stream writer hands its buffers to a list and `sendmsg` gathers them. Receiving
copies nothing either: the payload is received into an Arrow buffer and the columns are views of it.

Nothing is unpickled. Control messages are JSON plus attachments of raw bytes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from io import RawIOBase
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from kit.stream.backend.types.arrow_types import empty_batch

Buffers = list[Any]
"""Objects with the buffer protocol (bytes, memoryview, pyarrow.Buffer), which `sendmsg` gathers."""

HEADER = struct.Struct("!BBBBIQ")
MAGIC = 0xC4
VERSION = 1
MAX_FRAME_BYTES = 256 << 20

_CONTROL_HEADER = struct.Struct("!II")
_BLOB_LENGTH = struct.Struct("!Q")
_CREDIT = struct.Struct("!QQ")


class WireError(ConnectionError):
    """Data from a peer that violates the protocol. The connection cannot be used any more."""


class FrameKind(IntEnum):
    """The kind of a frame's content."""

    CONTROL = 1
    """A `ControlMessage`."""
    SCHEMA = 2
    """The Arrow schema of the batches that follow on this channel."""
    BATCH = 3
    """An Arrow record batch of the channel's schema."""
    EVENT = 4
    """A small element between batches (barrier, watermark, end of partition), opaque here."""
    CREDIT = 5
    """The number of further buffers that the receiver grants on the channel."""
    HEARTBEAT = 6
    """A sign of life without content."""
    END = 7
    """The last frame of this direction; it marks the end-of-file that follows as intended."""


class FrameFlag(IntFlag):
    """The flags of a header."""

    SELF_CONTAINED = 2
    """The batch is a whole Arrow IPC stream (schema, dictionaries, batch): it has dictionary columns."""


class FrameRule(NamedTuple):
    """The valid form of frames of one kind."""

    payload_bytes: int | None
    """The only length allowed; None: any up to the maximum."""
    flags: int = 0
    """The flags allowed."""
    channel: bool = False
    """True if the frame belongs to a channel; otherwise its channel must be 0."""


FRAME_RULES = {
    FrameKind.CONTROL: FrameRule(None),
    FrameKind.SCHEMA: FrameRule(None, channel=True),
    FrameKind.BATCH: FrameRule(None, FrameFlag.SELF_CONTAINED, channel=True),
    FrameKind.EVENT: FrameRule(None, channel=True),
    FrameKind.CREDIT: FrameRule(_CREDIT.size, channel=True),
    FrameKind.HEARTBEAT: FrameRule(0),
    FrameKind.END: FrameRule(0),
}
_RULES_BY_NUMBER = {kind.value: (kind, rule) for kind, rule in FRAME_RULES.items()}


@dataclass(frozen=True, slots=True)
class Frame:
    """One received frame. `payload` is bytes when small, a pyarrow.Buffer when large."""

    kind: FrameKind
    channel: int
    payload: Any
    flags: int = 0

    def __repr__(self) -> str:
        return f"Frame({self.kind.name}, channel={self.channel}, {len(self.payload)} bytes)"


def pack_frame(kind: FrameKind, parts: Sequence[Any] = (), channel: int = 0, flags: int = 0) -> Buffers:
    """Return the header and parts of one frame, to be gathered into one write."""
    length = sum(map(len, parts))
    return [HEADER.pack(MAGIC, VERSION, kind, flags, channel, length), *parts]


def parse_header(header: memoryview | bytes, max_frame_bytes: int = MAX_FRAME_BYTES) -> tuple[FrameKind, int, int, int]:
    """Return `(kind, flags, channel, payload length)` of a header. Raises WireError if it violates a rule."""
    magic, version, number, flags, channel, length = HEADER.unpack(header)
    if magic != MAGIC or version != VERSION:
        raise WireError(
            f"a frame begins with {magic:#04x} version {version}, expected {MAGIC:#04x} version {VERSION}: "
            "the peer is not one of our slots, or runs another version of the kit"
        )
    if number not in _RULES_BY_NUMBER:
        raise WireError(f"a frame of unknown kind {number}")
    kind, rule = _RULES_BY_NUMBER[number]
    if length > max_frame_bytes:
        raise WireError(
            f"a {kind.name} frame announces {length} bytes, more than max_frame_bytes={max_frame_bytes}: "
            "send smaller batches or raise the setting on all sides"
        )
    if rule.payload_bytes is not None and length != rule.payload_bytes:
        raise WireError(f"a {kind.name} frame of {length} bytes, expected {rule.payload_bytes}")
    if flags & ~int(rule.flags):  # ~ of an IntFlag would drop the unknown bits
        raise WireError(f"a {kind.name} frame with flags {flags:#04x}, allowed are {rule.flags:#04x}")
    if channel and not rule.channel:
        raise WireError(f"a {kind.name} frame names channel {channel}, but its kind belongs to no channel")
    return kind, flags, channel, length


class FrameReader:
    """A reader that cuts a byte stream into frames.

    `receive(view, fill)` writes bytes into the view and returns their number, 0 at end-of-file. `fill=True` requests
    the whole view, so that the kernel may wait for all of it in one call.

    Small frames are parsed from a buffer (one call may return many). The rest of a large frame is received directly
    into its final place.
    """

    def __init__(
        self,
        receive: Callable[[memoryview, bool], int],
        max_frame_bytes: int = MAX_FRAME_BYTES,
        buffer_bytes: int = 64 << 10,
    ) -> None:
        self._receive = receive
        self._max_frame_bytes = max_frame_bytes
        self._view = memoryview(bytearray(max(buffer_bytes, HEADER.size)))
        self._start = 0
        self._end = 0
        self._frame_bytes = 0

    def __repr__(self) -> str:
        return f"FrameReader({self._end - self._start} bytes buffered)"

    @property
    def begun_bytes(self) -> int:
        """The length of the frame that has partly arrived; 0 between frames."""
        return self._frame_bytes or (HEADER.size if self._start != self._end else 0)

    def read(self) -> Frame | None:
        """Return the next frame; None at end-of-file between frames. Raises WireError for an invalid frame."""
        if not self._buffer_up(HEADER.size) and self._start == self._end:
            return None
        self._require(HEADER.size, "header")
        header = self._view[self._start : self._start + HEADER.size]
        kind, flags, channel, length = parse_header(header, self._max_frame_bytes)
        self._start += HEADER.size
        self._frame_bytes = HEADER.size + length
        if length > len(self._view):
            payload: Any = self._read_large(kind, length)
        else:
            self._buffer_up(length)
            self._require(length, kind.name)
            payload = bytes(self._view[self._start : self._start + length])
            self._start += length
        self._frame_bytes = 0
        return Frame(kind, channel, payload, flags)

    def _buffer_up(self, count: int) -> bool:
        """Receive until `count` bytes are buffered; return False at end-of-file."""
        if self._start == self._end:
            self._start = self._end = 0
        if self._start + count > len(self._view):
            kept = self._end - self._start
            self._view[:kept] = bytes(self._view[self._start : self._end])
            self._start, self._end = 0, kept
        while self._end - self._start < count:
            received = self._receive(self._view[self._end :], False)
            if not received:
                return False
            self._end += received
        return True

    def _require(self, count: int, what: str) -> None:
        if self._end - self._start < count:
            raise _truncated(what, self._end - self._start, count)

    def _read_large(self, kind: FrameKind, length: int) -> pa.Buffer:
        buffer = pa.allocate_buffer(length)
        target = memoryview(buffer).cast("B")
        filled = self._end - self._start
        target[:filled] = self._view[self._start : self._end]
        self._start = self._end
        while filled < length:
            received = self._receive(target[filled:], True)
            if not received:
                raise _truncated(kind.name, filled, length)
            filled += received
        return buffer


def _truncated(what: str, found: int, expected: int) -> WireError:
    return WireError(f"the connection ended inside a {what} after {found} of {expected} bytes")


@dataclass(frozen=True, slots=True)
class ControlMessage:
    """A message between driver and slots: a kind, JSON fields, and attachments of raw bytes.

    The payload of its CONTROL frame: JSON length u32, number of blobs u32, length of each blob u64, JSON, blobs.
    """

    kind: str
    fields: dict[str, Any] = field(default_factory=dict)
    blobs: list[bytes] = field(default_factory=list)

    def __repr__(self) -> str:
        fields = "".join(f", {name}={_shorten(repr(value))}" for name, value in self.fields.items())
        blobs = f", blobs={[len(blob) for blob in self.blobs]}" if self.blobs else ""
        return f"ControlMessage({self.kind!r}{fields}{blobs})"

    def pack(self) -> Buffers:
        """Return the frame's buffers. Raises TypeError or ValueError if the fields are not JSON (NaN is not)."""
        body = {"kind": self.kind, "fields": self.fields}
        text = json.dumps(body, separators=(",", ":"), allow_nan=False).encode()
        lengths = [_BLOB_LENGTH.pack(len(blob)) for blob in self.blobs]
        parts = [_CONTROL_HEADER.pack(len(text), len(self.blobs)), *lengths, text, *self.blobs]
        return pack_frame(FrameKind.CONTROL, parts)

    @classmethod
    def unpack(cls, payload: Any) -> ControlMessage:
        """Return the message in a CONTROL frame's payload. Raises WireError if it is malformed."""
        view = memoryview(payload).cast("B")
        if len(view) < _CONTROL_HEADER.size:
            raise WireError(f"a control message of {len(view)} bytes, expected at least {_CONTROL_HEADER.size}")
        text_length, count = _CONTROL_HEADER.unpack_from(view)
        position = _CONTROL_HEADER.size + count * _BLOB_LENGTH.size
        if position + text_length > len(view):
            raise WireError(f"a control message of {len(view)} bytes announces {text_length} of JSON and {count} blobs")
        lengths = [length for (length,) in _BLOB_LENGTH.iter_unpack(view[_CONTROL_HEADER.size : position])]
        if position + text_length + sum(lengths) != len(view):
            raise WireError(f"a control message of {len(view)} bytes with blobs of {_shorten(repr(lengths))} bytes")
        kind, fields = _parse_json(view[position : position + text_length])
        position += text_length
        blobs = []
        for length in lengths:
            blobs.append(bytes(view[position : position + length]))
            position += length
        return cls(kind, fields, blobs)


def _parse_json(text: memoryview) -> tuple[str, dict[str, Any]]:
    try:
        body = json.loads(str(text, "utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise WireError(f"a control message is not JSON: {error}") from None
    match body:
        case {"kind": str(kind), "fields": dict(fields)} if len(body) == 2:
            return kind, fields
    raise WireError('a control message is not of the form {"kind": text, "fields": {...}}')


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _shorten(text: str, limit: int = 60) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."


def pack_credit(channel: int, credits: int, max_rows: int | None = None) -> Buffers:
    """Return a frame that grants `credits` more buffers on the channel, of at most `max_rows` rows if given."""
    return pack_frame(FrameKind.CREDIT, [_CREDIT.pack(credits, max_rows or 0)], channel)


def unpack_credit(payload: Any) -> tuple[int, int | None]:
    """Return the number of credits in a CREDIT frame's payload, and the limit on the rows of a buffer."""
    credits, max_rows = _CREDIT.unpack(payload)
    return int(credits), int(max_rows) or None


class _PartsSink(RawIOBase):
    """A file object for Arrow that keeps the written buffers in a list, without copying the columns."""

    def __init__(self) -> None:
        self.parts: Buffers = []

    def writable(self) -> bool:
        return True

    def write(self, part: Any) -> int:
        self.parts.append(part)
        return len(part)

    def take(self) -> Buffers:
        parts, self.parts = self.parts, []
        return parts


class BatchEncoder:
    """An encoder for the batches of one channel: a SCHEMA frame first and whenever it changes, then BATCH frames.

    Batches with dictionary columns are sent self-contained, because dictionaries may change from batch to batch.
    The frames refer to the batch's memory: keep it unchanged until they are written.
    """

    def __init__(self, channel: int, compression: Literal["lz4", "zstd"] | None = None) -> None:
        self.channel = channel
        self._options = pa.ipc.IpcWriteOptions(compression=compression)
        self._schema: pa.Schema | None = None
        self._sink = _PartsSink()
        self._writer: Any = None
        self._self_contained = False

    def __repr__(self) -> str:
        return f"BatchEncoder(channel={self.channel}, schema={_names(self._schema)})"

    def encode(self, batch: pa.RecordBatch) -> Buffers:
        """Return the buffers of the frames for the batch."""
        buffers: Buffers = []
        if self._schema is None or not batch.schema.equals(self._schema, check_metadata=True):
            buffers = self._begin(batch.schema)
        if self._self_contained:
            self._writer = self._new_writer(batch.schema)
        self._writer.write_batch(batch)
        flags = FrameFlag.SELF_CONTAINED if self._self_contained else 0
        return buffers + pack_frame(FrameKind.BATCH, self._sink.take(), self.channel, flags)

    def _begin(self, schema: pa.Schema) -> Buffers:
        self._schema = schema
        self._self_contained = any(_has_dictionary(type_) for type_ in schema.types)
        if self._self_contained:
            return []
        # Arrow writes the schema with the first batch, so write an empty one first.
        self._writer = self._new_writer(schema)
        self._writer.write_batch(empty_batch(schema))
        self._sink.take()
        return pack_frame(FrameKind.SCHEMA, [schema.serialize()], self.channel)

    def _new_writer(self, schema: pa.Schema) -> Any:
        self._sink = _PartsSink()
        return pa.ipc.new_stream(pa.PythonFile(self._sink, mode="w"), schema, options=self._options)


class BatchDecoder:
    """The counterpart of `BatchEncoder`: it turns SCHEMA and BATCH frames of one channel into batches."""

    def __init__(self, channel: int) -> None:
        self.channel = channel
        self._schema: pa.Schema | None = None

    def __repr__(self) -> str:
        return f"BatchDecoder(channel={self.channel}, schema={_names(self._schema)})"

    def decode(self, frame: Frame) -> pa.RecordBatch | None:
        """Return the batch, or None for a SCHEMA frame. Raises WireError if Arrow rejects the payload."""
        payload = pa.py_buffer(frame.payload)
        try:
            if frame.kind is FrameKind.SCHEMA:
                self._schema = pa.ipc.read_schema(payload)
                return None
            if frame.flags & FrameFlag.SELF_CONTAINED:
                batch = pa.ipc.open_stream(payload).read_next_batch()
            elif self._schema is None:
                raise WireError(f"a batch came before its schema on channel {self.channel}")
            else:
                batch = pa.ipc.read_record_batch(payload, self._schema)
            batch.validate()
        except (pa.ArrowException, OSError, EOFError, StopIteration) as error:
            if isinstance(error, WireError):
                raise
            raise WireError(f"channel {self.channel}: a {frame.kind.name} frame is not Arrow's: {error}") from None
        return batch


def _has_dictionary(type_: pa.DataType) -> bool:
    if pa.types.is_dictionary(type_):
        return True
    if isinstance(type_, pa.BaseExtensionType):
        return _has_dictionary(type_.storage_type)
    return any(_has_dictionary(type_.field(index).type) for index in range(type_.num_fields))


def _names(schema: pa.Schema | None) -> list[str] | None:
    return None if schema is None else schema.names

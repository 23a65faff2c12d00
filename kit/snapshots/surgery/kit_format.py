"""Keyed state of Flink in the kit's own format: columns of Arrow."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import pyarrow as pa

from kit.core.state.errors import CheckpointError
from kit.core.state.handles import NO_OFFSET_SET
from kit.snapshots.formats.canonical import Pair
from kit.snapshots.formats.headers import KeyedState
from kit.snapshots.formats.rows import PairDecoder, Rows
from kit.snapshots.surgery.key_hashes import check_hash
from kit.snapshots.surgery.target import Write
from kit.stream.backend.files.framing import Piece, header, section
from kit.stream.backend.files.snapshot import MAGIC
from kit.stream.backend.states import last_access

FRAME = struct.Struct("<II")


class KitWriter:
    """Writes keyed state of one subtask as `kit.stream.backend.files.snapshot` does, a key group at a time."""

    def __init__(self, out: Write, states: Sequence[KeyedState], max_parallelism: int) -> None:
        self._out, self._size = out, 0
        self._states = sorted(states, key=lambda state: state.name)
        self._schemas = [_schema(state, max_parallelism) for state in self._states]
        self._write(header(MAGIC, self._schemas))

    def write(self, group: int, states: Mapping[str, Sequence[Pair]]) -> int:
        """Write the pairs of one key group; return its offset, or that of none. Raises CheckpointError."""
        body: list[Piece] = []
        for number, (state, schema) in enumerate(zip(self._states, self._schemas, strict=True)):
            pairs = states.get(state.name, ())
            if pairs:
                body += (FRAME.pack(number, 0), _batch(state, schema, group, pairs).serialize())
        if not body:
            return NO_OFFSET_SET
        offset = self._size
        self._write(section((group, len(body) // 2, 0), body))
        return offset

    def _write(self, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            held = bytes(piece)
            self._out(held)
            self._size += len(held)


def _schema(state: KeyedState, max_parallelism: int) -> pa.Schema:
    if state.kind != "VALUE" or state.has_namespace or state.item.is_opaque:
        raise CheckpointError(
            f"state {state.name!r} is {state.kind} of {state.value.name}: a job of the kit continues value states "
            "without windows and types that only Java code reads; drop the state"
        )
    check_hash(state.key)
    fields = [pa.field("key", state.key.arrow, nullable=False), pa.field("value", state.item.arrow)]
    if state.has_ttl:
        fields.append(pa.field(last_access.COLUMN, last_access.TIME))
    return pa.schema(fields, {"state": state.name, "kind": "value", "max_parallelism": str(max_parallelism)})


def _batch(state: KeyedState, schema: pa.Schema, group: int, pairs: Sequence[Pair]) -> pa.RecordBatch:
    """Return the rows, sorted by key as the kit sorts them."""
    rows, decoder = Rows(state), PairDecoder(state, 0)
    for key, value in pairs:
        decoder.add(rows, group, key, value)
    table = rows.table()
    order = sorted(range(table.num_rows), key=table["key"].to_pylist().__getitem__)
    ordered = table.take(pa.array(order, pa.int64())).combine_chunks()
    try:
        columns = [ordered[field.name].combine_chunks().cast(field.type) for field in schema]
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    except (pa.ArrowException, ValueError) as error:
        raise CheckpointError(f"state {state.name!r}: its values do not fit a column of the kit: {error}") from None

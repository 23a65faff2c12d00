"""The positions at which sources continue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kit.core.state.errors import CheckpointError
from kit.snapshots.checkpoints.operator_parts import OperatorPart, operator_parts_of
from kit.snapshots.checkpoints.versioned_items import SOURCE_READER_STATE, decoded_items, split_of, with_offset
from kit.snapshots.formats.headers import OperatorState
from kit.snapshots.serializers.basic import BYTES
from kit.snapshots.serializers.reading import Reader
from kit.snapshots.surgery.drafts import ChangeEntries, Draft, Origin


def splits_of(draft: Draft, origin: Origin) -> Iterator[Any]:
    """Yield what each split of a source goes by. Raises CheckpointError for splits that are not decoded."""
    for _, state in sorted(draft.old.subtask_states.items()):
        handles = state.managed_operator_state
        streams = (origin.source.stream(each.delegate) for each in handles)
        for part in operator_parts_of(iter(handles), streams, origin.decoders):
            if isinstance(part, OperatorPart):
                for entry in part.raw_entries(SOURCE_READER_STATE):
                    yield split_of(_item(entry))


def at_offsets(offsets: Mapping[Any, int], before: ChangeEntries | None) -> ChangeEntries:
    """Return the change that lets splits continue at these offsets; the others stay where `before` leaves them."""

    def change(state: OperatorState, entries: Sequence[bytes]) -> Sequence[bytes]:
        found = []
        for entry in entries if before is None else before(state, entries):
            offset = offsets.get(split_of(_item(entry)))
            if offset is not None:
                held = with_offset(SOURCE_READER_STATE, _held(entry), offset)
                entry = len(held).to_bytes(4, "big") + held
            found.append(entry)
        return found

    return change


def _held(entry: bytes) -> bytes:
    return BYTES.read(Reader(entry))


def _item(entry: bytes) -> dict[str, Any]:
    items = decoded_items(SOURCE_READER_STATE, _held(entry))
    if not items:
        raise CheckpointError("the splits of this source have a format that is not decoded here")
    return items[0]

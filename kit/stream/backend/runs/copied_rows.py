"""The rows of a run: entries that are copied at once, because they are few, and the keys of removed ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.stream.backend.files.snapshot import FrozenState, Layout
from kit.stream.backend.keys.changed_rows import Columns
from kit.stream.backend.keys.key_codec import codec_for
from kit.stream.backend.keys.slot_index import FrozenIndex, SlotIndex
from kit.stream.backend.runs.run_file import REMOVED
from kit.stream.backend.types.value_columns import CopiedColumn

_NO_SLOTS = np.empty(0, np.int64)


def copied_rows(
    layout: Layout,
    index: SlotIndex,
    slots: npt.NDArray[np.int64],
    values: Sequence[pa.Array],
    removed: Sequence[Columns],
) -> list[FrozenState]:
    """Return the entries in these slots, and the keys of removed ones, each if there are any.

    `values` are those of the slots, in the same order.
    """
    states = []
    if len(slots):
        codes = tuple(column.take(slots) for column in index.columns)
        states.append(layout.with_rows(FrozenIndex(codes, _NO_SLOTS), tuple(map(CopiedColumn, values))))
    if removed:
        states.append(removed_rows(layout, removed))
    return states


def removed_rows(layout: Layout, removed: Sequence[Columns]) -> FrozenState:
    """Return the distinct keys of removed entries, with codes of their own: the backend may have reused theirs."""
    columns = [pa.concat_arrays(parts) for parts in zip(*removed, strict=True)]
    codecs = tuple(codec_for(column.type) for column in columns)
    codes = [codec.encode(column, create=True) for codec, column in zip(codecs, columns, strict=True)]
    for codec, column in zip(codecs, codes, strict=True):
        codec.retain(column)
    distinct = SlotIndex(len(codes))
    distinct.find_or_add(codes)
    keys = replace(layout, kind=REMOVED + layout.kind, fields=layout.fields[: len(columns)], decoders=codecs)
    return keys.with_rows(distinct.freeze(), ())

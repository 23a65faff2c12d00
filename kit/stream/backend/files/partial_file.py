"""The parts of a file of keyed state that a subtask wants, read without the rest.

After a rescale a subtask wants some of a file's key groups. They lie one after another; its handle says where each of
them begins, and the first bytes of the last say where that ends. So three ranges are read: the header, those first
bytes, and from the first key group that is wanted to the end of the last. A short file is read at once.

Follows `HeapRestoreOperation`, which seeks its way through a stream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa

from kit.core.state.handles import NO_OFFSET_SET, KeyGroupsStateHandle
from kit.stream.backend.files.framing import PREFIX_BYTES, body_bytes, header_bytes

READ_WHOLE_BYTES = 1 << 20
"""Up to this size a file is read at once: another request takes longer than so many bytes."""
HEADER_READ_BYTES = 1 << 14
"""A header is hardly ever longer."""

ReadRange: TypeAlias = Callable[[int, int], pa.Buffer]
"""So many bytes of a file from an offset on: called with offset and length."""


class PartialFile:
    """A file of `size` bytes of which some ranges are here: offset and bytes of each."""

    def __init__(self, size: int, ranges: list[tuple[int, pa.Buffer]]) -> None:
        self.size = size
        self._ranges = ranges

    def __len__(self) -> int:
        return sum(data.size for _, data in self._ranges)

    def __repr__(self) -> str:
        here = " and ".join(f"{start} to {start + data.size}" for start, data in self._ranges) or "nothing"
        return f"PartialFile({here} of {self.size} bytes)"

    def to_loggable(self) -> dict[str, object]:
        """What a trace says of it: how many bytes are here."""
        return {"bytes": len(self)}

    def __deepcopy__(self, memo: dict[int, object]) -> PartialFile:
        """Bytes never change: copies of a world share them."""
        return self

    def slice(self, offset: int, length: int) -> pa.Buffer:
        """`length` bytes from `offset` on. Raises ValueError when they are not here."""
        for start, data in self._ranges:
            if start <= offset and offset + length <= start + data.size:
                return data.slice(offset - start, length)
        raise ValueError(f"bytes {offset} to {offset + length} are none of its key groups'")


def read_wanted(
    handle: KeyGroupsStateHandle, read_range: ReadRange, whole_bytes: int = READ_WHOLE_BYTES
) -> pa.Buffer | PartialFile:
    """What a file holds of the key groups of `handle`, and its header; all of it up to `whole_bytes`.

    Raises what `read_range` raises. What is damaged is found when it is parsed.
    """
    size = handle.delegate.state_size
    if size <= whole_bytes:
        return read_range(0, size)
    offsets = [offset for offset in handle.offsets if offset != NO_OFFSET_SET]
    if not offsets:
        return PartialFile(size, [])
    first, last = min(offsets), max(offsets)
    header = read_range(0, min(HEADER_READ_BYTES, size))
    if (whole_header := header_bytes(header)) > header.size:
        header = read_range(0, min(whole_header, size))
    end = last + PREFIX_BYTES + body_bytes(read_range(last, PREFIX_BYTES))
    return PartialFile(size, [(0, header), (first, read_range(first, min(end, size) - first))])

"""The parts of a keyed state file that a subtask needs, read without the rest.

After a rescale a subtask needs some of a file's key groups. They are stored one after another. Its handle has the start
of each of them, and the first bytes of the last one contain its length. So three ranges are read: the header, those
first bytes, and everything from the first to the last needed key group. A short file is read at once.

Follows `HeapRestoreOperation`, which seeks its way through a stream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa

from kit.core.state.handles import NO_OFFSET_SET, KeyGroupsStateHandle
from kit.stream.backend.files.framing import PREFIX_BYTES, body_bytes, header_bytes

READ_WHOLE_BYTES = 1 << 20
"""The size up to which a file is read at once: a second request takes longer than that many bytes."""
HEADER_READ_BYTES = 1 << 14
"""A size that headers hardly ever exceed."""

ReadRange: TypeAlias = Callable[[int, int], pa.Buffer]
"""A function of offset and length that reads a range of a file."""


class PartialFile:
    """A file of `size` bytes with some ranges available, as pairs of offset and bytes."""

    def __init__(self, size: int, ranges: list[tuple[int, pa.Buffer]]) -> None:
        self.size = size
        self._ranges = ranges

    def __len__(self) -> int:
        return sum(data.size for _, data in self._ranges)

    def __repr__(self) -> str:
        here = " and ".join(f"{start} to {start + data.size}" for start, data in self._ranges) or "nothing"
        return f"PartialFile({here} of {self.size} bytes)"

    def to_loggable(self) -> dict[str, object]:
        """Return its description in a trace: the number of available bytes."""
        return {"bytes": len(self)}

    def __deepcopy__(self, memo: dict[int, object]) -> PartialFile:
        """Return the file itself: it is immutable, so copies of a world share it."""
        return self

    def slice(self, offset: int, length: int) -> pa.Buffer:
        """Return `length` bytes from `offset` on. Raises ValueError if they are not available."""
        for start, data in self._ranges:
            if start <= offset and offset + length <= start + data.size:
                return data.slice(offset - start, length)
        raise ValueError(f"bytes {offset} to {offset + length} do not belong to its key groups")


def read_wanted(
    handle: KeyGroupsStateHandle, read_range: ReadRange, whole_bytes: int = READ_WHOLE_BYTES
) -> pa.Buffer | PartialFile:
    """Read what a file holds of the key groups of `handle`, and its header; all of it up to `whole_bytes`.

    Raises what `read_range` raises. Damage is found when the file is parsed.
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

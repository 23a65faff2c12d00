"""Of a file of keyed state a subtask reads the key groups that it wants, and restores from them as from all of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.state.errors import StateRestoreError, StorageError
from kit.core.state.handles import NO_OFFSET_SET, ByteStreamStateHandle, KeyGroupRange, KeyGroupsStateHandle
from kit.core.state.key_groups import key_group_partitions
from kit.core.state.operator_state import OperatorSubtaskState
from kit.files.local_state import StateReader
from kit.files.storage import CheckpointStorage
from kit.stream.backend.files.framing import PREFIX_BYTES
from kit.stream.backend.files.partial_file import HEADER_READ_BYTES, READ_WHOLE_BYTES, PartialFile, read_wanted
from kit.stream.backend.heap import HeapKeyedStateBackend
from kit.stream.backend.states.descriptors import ReducingStateDescriptor
from tests.stream.backend.conftest import contents, written

MAXIMUM = 32
ALL = KeyGroupRange(0, MAXIMUM - 1)
COUNT = ReducingStateDescriptor("flights", pa.int64(), "count")
RANGES = st.lists(st.integers(0, MAXIMUM - 1), min_size=2, max_size=2).map(lambda ends: KeyGroupRange(*sorted(ends)))


def handle_of(keys: Any, *others: ReducingStateDescriptor) -> tuple[KeyGroupsStateHandle, bytes]:
    backend = HeapKeyedStateBackend(pa.int64(), ALL, MAXIMUM)
    for descriptor in (COUNT, *others):
        table = backend.table(descriptor)
        table.reduce(table.slots(keys))
    encoded = written(backend)
    assert encoded is not None
    data, offsets = encoded
    return KeyGroupsStateHandle(ALL, offsets, ByteStreamStateHandle("f", data)), data


def restored(wanted: KeyGroupRange, handle: Any, data: Any) -> dict[Any, Any]:
    backend = HeapKeyedStateBackend(pa.int64(), wanted, MAXIMUM)
    backend.restore([(handle, data)])
    return contents(backend.table(COUNT))


class Ranges:
    """A reader of ranges of some bytes that records each range."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.read: list[tuple[int, int]] = []

    def __call__(self, offset: int, length: int) -> pa.Buffer:
        if offset + length > len(self.data):
            raise StorageError("it was cut off")
        self.read.append((offset, length))
        return pa.py_buffer(self.data[offset : offset + length])


@given(st.lists(st.integers(0, 400), min_size=1, max_size=200), RANGES)
def test_what_is_restored_is_the_same(keys: list[int], wanted: KeyGroupRange) -> None:
    handle, data = handle_of(np.array(keys))
    mine = handle.intersection(wanted)
    assert mine is not None
    ranges = Ranges(data)
    assert restored(wanted, mine, read_wanted(mine, ranges, 0)) == restored(wanted, handle, data)
    assert len(ranges.read) <= 3


def test_the_rest_is_not_read() -> None:
    """Nor is more than the first bytes of the last section read twice."""
    handle, data = handle_of(np.arange(20_000))
    sizes = []
    for wanted in key_group_partitions(MAXIMUM, 4):
        mine = handle.intersection(wanted)
        assert mine is not None
        found = read_wanted(mine, ranges := Ranges(data), 0)
        assert isinstance(found, PartialFile)
        assert len(found) == sum(length for _, length in ranges.read) - PREFIX_BYTES == found.to_loggable()["bytes"]
        sizes.append(len(found) - HEADER_READ_BYTES)
    first = min(offset for offset in handle.offsets)
    assert sum(sizes) == len(data) - first, "each key group once"
    assert repr(found).startswith(f"PartialFile(0 to {HEADER_READ_BYTES} and ")


def test_of_a_subtask_that_wants_nothing_nothing_is_read() -> None:
    handle, data = handle_of(np.array([7]))
    mine = handle.intersection(KeyGroupRange(0, 0))
    assert mine is not None
    assert mine.offsets == (NO_OFFSET_SET,)
    found = read_wanted(mine, ranges := Ranges(data), 0)
    assert (len(found), ranges.read) == (0, [])
    assert repr(found) == f"PartialFile(nothing of {len(data)} bytes)"
    assert restored(KeyGroupRange(0, 0), mine, found) == {}


def test_a_short_file_is_read_at_once() -> None:
    handle, data = handle_of(np.arange(100))
    assert len(data) < READ_WHOLE_BYTES
    assert read_wanted(handle, ranges := Ranges(data)) == pa.py_buffer(data)
    assert ranges.read == [(0, len(data))]


def test_a_header_may_be_long() -> None:
    handle, data = handle_of(np.arange(500), ReducingStateDescriptor("x" * 2 * HEADER_READ_BYTES, pa.int64(), "count"))
    wanted = KeyGroupRange(3, 9)
    mine = handle.intersection(wanted)
    assert mine is not None
    assert restored(wanted, mine, read_wanted(mine, Ranges(data), 0)) == restored(wanted, handle, data)


@given(st.data())
def test_damage_ends_in_one_error(data: st.DataObject) -> None:
    """If any byte changes, or the file is truncated anywhere, the result is correct or an error."""
    handle, good = handle_of(np.arange(300))
    wanted = data.draw(RANGES)
    mine = handle.intersection(wanted)
    assert mine is not None
    at = data.draw(st.integers(0, len(good) - 1))
    bad = good[:at] if data.draw(st.booleans()) else good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1 :]
    try:
        found = restored(wanted, mine, read_wanted(mine, Ranges(bad), 0))
    except (StateRestoreError, StorageError):
        return
    assert found == restored(wanted, handle, good)


def test_a_host_reads_what_its_subtask_wants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = CheckpointStorage(tmp_path, "0" * 32)
    handle, data = handle_of(np.arange(200_000))
    assert len(data) > 2 * READ_WHOLE_BYTES
    stream = storage.to_handle(data, storage.initialize_location_for_checkpoint(1), "flights")
    lengths: list[int] = []
    read_file = CheckpointStorage.read_part

    def counted(self: CheckpointStorage, path: str, offset: int, length: int) -> pa.Buffer:
        lengths.append(length)
        return read_file(self, path, offset, length)

    monkeypatch.setattr(CheckpointStorage, "read_part", counted)
    together: dict[Any, Any] = {}
    for wanted in key_group_partitions(MAXIMUM, 3):
        mine = KeyGroupsStateHandle(ALL, handle.offsets, stream).intersection(wanted)
        assert mine is not None
        reader = StateReader(storage, None, 1, wanted)
        ((_, _, found),) = reader.read(OperatorSubtaskState(managed_keyed_state=(mine,)))
        together |= restored(wanted, mine, found)
    assert together == restored(ALL, handle, data)
    assert len(data) < sum(lengths) < 1.1 * len(data)

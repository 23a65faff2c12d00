"""Frozen arrays: old values stay readable, whatever is written, and whenever and wherever the copy is made."""

from __future__ import annotations

import copy
import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.core.state.handles import KeyGroupRange
from kit.stream.backend.files import frozen_array, row_order
from kit.stream.backend.files.frozen_array import FrozenArray, Readers
from kit.stream.backend.files.snapshot import KeyedStateFile
from kit.stream.backend.heap import HeapKeyedStateBackend
from kit.stream.backend.states.descriptors import ReducingStateDescriptor, ValueStateDescriptor
from tests.properties import examples
from tests.stream.backend.conftest import KEYS

SIZE = 12
SLOTS = st.lists(st.integers(0, SIZE + 3), max_size=6)
MAXIMUM = 8
TOTAL = ReducingStateDescriptor(
    "total", pa.struct([("n", pa.int64()), ("low", pa.float64())]), {"n": "count", "low": "min"}
)
AT = ValueStateDescriptor("at", pa.timestamp("ms"))
INSTANT = ValueStateDescriptor("instant", pa.timestamp("ns"))
WORD = ValueStateDescriptor("word", pa.string())


@pytest.fixture(autouse=True)
def _nothing_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a few rows be handled as millions are."""
    monkeypatch.setattr(frozen_array, "COPIED_AT_ONCE", 0)
    monkeypatch.setattr(row_order, "SPAN_ROWS", 4)


@settings(max_examples=examples(300))
@given(data=st.data())
def test_every_frozen_array_is_what_the_array_was(data: st.DataObject) -> None:
    live = np.arange(SIZE + 4)
    readers = Readers()
    frozen: list[tuple[FrozenArray, np.ndarray[Any, Any]]] = []
    for turn in range(data.draw(st.integers(0, 12))):
        action = data.draw(st.sampled_from(["freeze", "write", "write", "write one", "read", "let go"]))
        if action == "freeze":
            frozen.append((readers.freeze(live, SIZE), live[:SIZE].copy()))
        elif action == "write":
            slots = np.array(data.draw(SLOTS), np.int64)
            readers.before_write(slots)
            live[slots] = -turn
            slots[:] = 0  # the caller's own again
        elif action == "write one":
            slot = data.draw(st.integers(0, SIZE + 3))
            readers.before_write(slot)
            live[slot] = -turn
        elif frozen:
            one, was = frozen.pop(data.draw(st.integers(0, len(frozen) - 1)))
            assert action == "let go" or np.array_equal(one.array(), was)
            del one
    for one, was in frozen:
        assert np.array_equal(one.array(), was)
    readers.before_write(0)
    assert not readers  # nobody needs a value any more


def test_nothing_is_kept_beyond_the_size_of_the_array() -> None:
    live, readers = np.arange(1000), Readers()
    frozen = readers.freeze(live, 1000)
    for _ in range(11):
        readers.before_write(np.arange(100))
        live[:100] = -1
    assert repr(frozen) == "FrozenArray(copied)"
    assert np.array_equal(frozen.array(), np.arange(1000))


def test_what_nobody_will_read_is_not_kept() -> None:
    live, readers = np.arange(1000), Readers()
    readers.freeze(live, 1000)  # released immediately
    readers.before_write(np.arange(10))
    assert not readers


def test_the_owner_writes_while_another_thread_copies() -> None:
    live, readers = np.arange(2_000_000), Readers()
    slots = np.random.default_rng(0).integers(0, len(live), 10_000)
    for _ in range(5):
        was, frozen, got = live.copy(), readers.freeze(live, len(live)), []
        reader = threading.Thread(target=lambda frozen=frozen, got=got: got.append(frozen.array()))
        reader.start()
        while reader.is_alive():
            readers.before_write(slots)
            live[slots] += 1
        assert np.array_equal(got[0], was)


def test_a_copy_of_the_owner_keeps_nothing_for_readers_of_the_first() -> None:
    live, readers = np.arange(1000), Readers()
    frozen = readers.freeze(live, 1000)
    other_live, other_readers, other_frozen = copy.deepcopy((live, readers, frozen))
    other_readers.before_write(np.arange(10))
    other_live[:10] = -1
    assert np.array_equal(frozen.array(), np.arange(1000))
    assert np.array_equal(other_frozen.array(), np.arange(1000))


# --- a whole backend --------------------------------------------------------------------------------------------------


def work(backend: HeapKeyedStateBackend, data: st.DataObject, keys: st.SearchStrategy[Any]) -> None:
    """One write, of any kind there is."""
    total, at, word = backend.table(TOTAL), backend.table(AT, pa.int64()), backend.table(WORD)
    some = pa.array(data.draw(st.lists(keys, min_size=1, max_size=8)), backend.key_type)
    numbers = pa.array(data.draw(st.lists(st.none() | st.integers(0, 99), min_size=len(some), max_size=len(some))))
    match data.draw(st.sampled_from(["reduce", "put", "put words", "clear", "one", "timers"])):
        case "reduce":
            total.reduce(total.slots(some), {"low": numbers.cast(pa.float64())})
        case "put":
            at.put(at.slots(some, np.arange(len(some)) % 2), numbers.cast(pa.int64()).cast(pa.timestamp("ms")))
        case "put words":
            word.put(word.slots(some), numbers.cast(pa.string()))
        case "clear":
            for table in (total, word):
                table.clear(table.slots(some, create=False))
        case "one":
            backend.set_current_key(some[0].as_py())
            backend.state(AT, 1, pa.int64()).update(None if numbers[0].as_py() is None else 7)
            backend.state(TOTAL).add({"low": 3.5})
        case "timers":
            backend.timer_service("timer").event_time.register(some, np.arange(len(some)))


@pytest.mark.parametrize("keys", KEYS)
@settings(max_examples=examples(25))
@given(data=st.data())
def test_a_snapshot_is_encoded_as_a_copy_made_when_it_was_taken(keys: str, data: st.DataObject) -> None:
    key_type, key = KEYS[keys]
    backend = HeapKeyedStateBackend(key_type, KeyGroupRange(0, MAXIMUM - 1), MAXIMUM)
    taken = []
    for _ in range(data.draw(st.integers(1, 12))):
        if data.draw(st.integers(0, 2)):
            work(backend, data, key)
        else:
            taken.append((backend.snapshot(), copy.deepcopy(backend)))
            if data.draw(st.booleans()):
                snapshot, as_it_was = taken.pop(data.draw(st.integers(0, len(taken) - 1)))
                check(snapshot, as_it_was)
    for snapshot, as_it_was in taken:
        check(snapshot, as_it_was)


def check(snapshot: Any, as_it_was: HeapKeyedStateBackend) -> None:
    again = as_it_was.snapshot()
    assert (snapshot is None) == (again is None)
    if snapshot is not None:
        assert snapshot.encode() == again.encode()


@pytest.mark.parametrize("span", [4, 100])
def test_the_spans_of_a_large_state_make_no_difference(span: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file equals one whose rows were sorted all at once, nulls included."""
    backend = HeapKeyedStateBackend(pa.int64(), KeyGroupRange(0, MAXIMUM - 1), MAXIMUM)
    table, instant, word = backend.table(TOTAL), backend.table(INSTANT), backend.table(WORD)
    keys = np.random.default_rng(0).permutation(500) * 7
    table.reduce(table.slots(keys), {"low": pa.array(keys / 2, mask=keys % 4 == 1)})
    instant.put(instant.slots(keys), pa.array(keys + 1_700_000_000_000_000_001, mask=keys % 5 == 1).view(INSTANT.type))
    word.put(word.slots(keys), pa.array(keys).cast(pa.string()))
    for each in (table, instant, word):
        each.clear(each.slots(keys[::3]))
    monkeypatch.setattr(row_order, "SPAN_ROWS", 1 << 16)
    at_once = written(backend)
    monkeypatch.setattr(row_order, "SPAN_ROWS", span)
    assert written(backend) == at_once
    assert len(at_once) == 3 * MAXIMUM


@settings(max_examples=examples(60))
@given(data=st.data())
def test_an_order_that_is_remembered_is_that_of_rows_sorted_anew(data: st.DataObject) -> None:
    """Rows come, and go and come again in slots of others; snapshots are encoded in any order."""
    backend = HeapKeyedStateBackend(pa.int64(), KeyGroupRange(0, MAXIMUM - 1), MAXIMUM)
    table, keys = backend.table(WORD), st.lists(st.integers(-30, 30), min_size=1, max_size=20, unique=True)
    taken = []
    for turn in range(data.draw(st.integers(2, 8))):
        some = np.array(data.draw(keys), np.int64)
        if data.draw(st.booleans()):
            table.put(table.slots(some), pa.array([f"{turn}"] * len(some)))
        else:
            table.clear(table.slots(some, create=False))
        if data.draw(st.booleans()):  # slots that are handed out, and not written yet
            table.slots(np.array(data.draw(keys), np.int64))
        snapshot = backend.snapshot()
        if snapshot is not None:
            taken.append((snapshot, copy.deepcopy(backend).snapshot().encode()))
        if taken and data.draw(st.booleans()):
            snapshot, expected = taken.pop(data.draw(st.integers(0, len(taken) - 1)))
            assert snapshot.encode() == expected
    for snapshot, expected in taken:
        assert snapshot.encode() == expected


def written(backend: HeapKeyedStateBackend) -> dict[tuple[int, int], pa.RecordBatch]:
    """The rows of each key group and state in the file of a snapshot, whose bytes may have neighbours' strings."""
    data, offsets = backend.snapshot().encode()
    file = KeyedStateFile(data, "file")
    return {
        (group, number): batch
        for group, offset in enumerate(offsets)
        for number, batch in file.key_group(group, offset)
    }

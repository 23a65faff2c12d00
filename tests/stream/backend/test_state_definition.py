"""The definition of state in a snapshot: canonical, compared by what both sides have, and optional."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.state.errors import StateDescriptorError
from kit.core.state.handles import ByteStreamStateHandle, KeyGroupRange, KeyGroupsStateHandle
from kit.stream.backend.files.snapshot import KeyedStateFile
from kit.stream.backend.heap import HeapKeyedStateBackend
from kit.stream.backend.keys.key_hashing import assign_to_key_group
from kit.stream.backend.states.descriptors import ReducingStateDescriptor, ValueStateDescriptor
from kit.stream.backend.states.state_definition import StateDefinition, aspects_of, to_metadata

ALL = KeyGroupRange(0, 3)
VALUE = ValueStateDescriptor("value", pa.int64())
TEXTS = st.text(max_size=5)
ASPECTS = st.dictionaries(TEXTS, TEXTS | st.lists(TEXTS, max_size=3) | st.dictionaries(TEXTS, TEXTS, max_size=3))


def backend(aspects: dict[str, Any] | None = None, own: KeyGroupRange = ALL) -> HeapKeyedStateBackend:
    return HeapKeyedStateBackend(pa.int64(), own, 4, StateDefinition("operator 'sums' (uid 's')", aspects or {}))


def stored(of: HeapKeyedStateBackend) -> tuple[KeyGroupsStateHandle, pa.Buffer]:
    snapshot = of.snapshot()
    assert snapshot is not None
    data, offsets = snapshot.encode()
    handle = ByteStreamStateHandle(f"file of {of.key_group_range.start}", data.to_pybytes())
    return KeyGroupsStateHandle(of.key_group_range, offsets, handle), data


def with_values(of: HeapKeyedStateBackend) -> HeapKeyedStateBackend:
    groups = of.key_group_range
    keys = [key for key in range(100) if assign_to_key_group(key, 4, pa.int64()) in groups][:10]
    table = of.table(VALUE)
    table.put(table.slots(pa.array(keys)), pa.array(keys))
    return of


@given(ASPECTS)
def test_what_a_schema_holds_is_read_back(aspects: dict[str, Any]) -> None:
    assert aspects_of(pa.schema([], to_metadata(aspects))) == aspects


@given(ASPECTS)
def test_equal_definitions_are_equal_bytes(aspects: dict[str, Any]) -> None:
    assert to_metadata(aspects) == to_metadata(dict(reversed(aspects.items())))


def test_states_and_timers_hold_the_definition() -> None:
    made = with_values(backend({"key_by": ["n"]}))
    made.set_current_key(1)
    made.state(ReducingStateDescriptor("sum", pa.int64(), "sum")).add(1)
    made.timer_service("timers").event_time.register_one(5)
    _, data = stored(made)
    schemas = KeyedStateFile(data, "file").schemas
    assert [aspects_of(schema) for schema in schemas] == [
        {"key_by": ["n"], "reduce": "sum"},
        {"key_by": ["n"]},
        {"key_by": ["n"]},
    ]


def test_timers_of_another_key_are_rejected() -> None:
    made = backend({"key_by": ["n"]})
    made.set_current_key(1)
    made.timer_service("timers").event_time.register_one(5)
    with pytest.raises(StateDescriptorError, match=r"uid 's'\) was written with key_by\('n'\), .* key_by\('m'\)"):
        backend({"key_by": ["m"]}).restore([stored(made)])


@pytest.mark.parametrize("registered_first", [False, True])
@pytest.mark.parametrize(("before", "after"), [("sum", "max"), ({"a": "sum", "b": "min"}, {"a": "sum", "b": "max"})])
def test_other_words_are_rejected_whichever_comes_first(before: Any, after: Any, registered_first: bool) -> None:
    fields = pa.struct([("a", pa.int64()), ("b", pa.int64())])
    kind, value = (pa.int64(), 1) if isinstance(before, str) else (fields, {"a": 1, "b": 2})
    made = backend()
    made.set_current_key(1)
    made.state(ReducingStateDescriptor("folded", kind, before)).add(value)
    restored = backend()
    if registered_first:
        restored.table(ReducingStateDescriptor("folded", kind, after))
        with pytest.raises(StateDescriptorError, match=r"reduce .*sum.* reduce .*max"):
            restored.restore([stored(made)])
    else:
        restored.restore([stored(made)])
        with pytest.raises(StateDescriptorError, match=r"reduce .*sum.* reduce .*max"):
            restored.table(ReducingStateDescriptor("folded", kind, after))


@pytest.mark.parametrize("known_first", [False, True])
def test_files_with_and_without_a_definition_are_restored_together(known_first: bool) -> None:
    """Subtasks that restored a snapshot without definitions write them one after the other, as state is asked for."""
    halves = KeyGroupRange(0, 1), KeyGroupRange(2, 3)
    parts = [
        stored(with_values(backend({"key_by": ["n"]} if known else {}, own)))
        for known, own in zip((known_first, not known_first), halves, strict=True)
    ]
    restored = backend({"key_by": ["n"]})
    restored.restore(parts)
    assert len(restored.table(VALUE)) == 20
    with pytest.raises(StateDescriptorError, match="key_by"):
        backend({"key_by": ["m"]}).restore(parts)


def test_state_that_nobody_asks_for_keeps_its_words() -> None:
    made = backend()
    made.set_current_key(1)
    made.state(ReducingStateDescriptor("folded", pa.int64(), "sum")).add(1)
    between = backend()
    between.restore([stored(made)])
    last = backend()
    last.restore([stored(between)])
    with pytest.raises(StateDescriptorError, match="reduce sum"):
        last.table(ReducingStateDescriptor("folded", pa.int64(), "max"))

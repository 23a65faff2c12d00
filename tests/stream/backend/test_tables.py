"""Tables against plain dicts, a batch at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.core.state.errors import StateDescriptorError, StateError, StateTypeError
from kit.core.state.handles import KeyGroupRange
from kit.stream.backend.heap import HeapKeyedStateBackend
from kit.stream.backend.keys.key_hashing import key_groups
from kit.stream.backend.states.descriptors import (
    AggregateFunction,
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateKind,
    ValueStateDescriptor,
)
from kit.stream.backend.states.keyed_states import KINDS
from tests.properties import examples
from tests.stream.backend.conftest import KEYS, contents, plain

DELAYS = pa.struct([("flights", pa.int64()), ("delay", pa.float64()), ("worst", pa.int32()), ("first", pa.int16())])
REDUCE = {"flights": "count", "delay": "sum", "worst": "max", "first": "min"}


def backend(key_type: pa.DataType | None = None) -> HeapKeyedStateBackend:
    return HeapKeyedStateBackend(key_type or pa.int64(), KeyGroupRange(0, 127), 128)


def reduced(before: dict[str, Any] | None, row: dict[str, Any]) -> dict[str, Any]:
    before = before or {"flights": 0, "delay": None, "worst": None, "first": None}
    folds = {"delay": lambda a, b: a + b, "worst": max, "first": min}
    after = {"flights": before["flights"] + 1}
    for field, fold in folds.items():
        old, new = before[field], row[field]
        after[field] = old if new is None else new if old is None else fold(old, new)
    return after


@pytest.mark.parametrize("keys", KEYS)
@settings(max_examples=examples(40))
@given(data=st.data())
def test_tables_behave_like_dicts(keys: str, data: st.DataObject) -> None:
    key_type, key = KEYS[keys]
    by_namespace = data.draw(st.booleans())
    namespace = st.integers(0, 3) if by_namespace else st.none()
    state = backend(key_type)
    values = state.table(ValueStateDescriptor("value", pa.int64()), pa.int64() if by_namespace else None)
    totals = state.table(ReducingStateDescriptor("total", DELAYS, REDUCE), pa.int64() if by_namespace else None)
    value_model: dict[Any, Any] = {}
    total_model: dict[Any, Any] = {}
    row = st.fixed_dictionaries(
        {
            "delay": st.none() | st.integers(-9, 9).map(float),
            "worst": st.none() | st.integers(-9, 9),
            "first": st.none() | st.integers(-9, 9),
        }
    )
    steps = st.tuples(
        st.sampled_from(["put", "reduce", "reduce", "clear"]),
        st.lists(st.tuples(key, namespace, st.none() | st.integers(0, 99), row), max_size=25),
    )
    for step, rows in data.draw(st.lists(steps, max_size=8)):
        key_column = pa.array([r[0] for r in rows], key_type)
        namespaces = np.array([r[1] for r in rows], np.int64) if by_namespace else None
        entries = [(plain(key_column[i].as_py()), r[1]) for i, r in enumerate(rows)]
        if step == "put":
            values.put(values.slots(key_column, namespaces), pa.array([r[2] for r in rows], pa.int64()))
            for entry, r in zip(entries, rows, strict=True):
                value_model[entry] = r[2]
            value_model = {entry: value for entry, value in value_model.items() if value is not None}
        elif step == "reduce":
            columns = {name: pa.array([r[3][name] for r in rows], DELAYS.field(name).type) for name in list(REDUCE)[1:]}
            totals.reduce(totals.slots(key_column, namespaces), columns)
            for entry, r in zip(entries, rows, strict=True):
                total_model[entry] = reduced(total_model.get(entry), r[3])
        else:
            for table, model in ((values, value_model), (totals, total_model)):
                table.clear(table.slots(key_column, namespaces, create=False))
                for entry in entries:
                    model.pop(entry, None)
        for table, model in ((values, value_model), (totals, total_model)):
            found = table.get(table.slots(key_column, namespaces, create=False))
            assert found.to_pylist() == [model.get(entry) for entry in entries]
            assert len(table) == len(model)
            table.index.validate()
    assert contents(values) == value_model
    assert contents(totals) == total_model


@pytest.mark.parametrize(("word", "expected"), [("sum", [9, 5]), ("min", [2, 5]), ("max", [4, 5]), ("count", [3, 1])])
@pytest.mark.parametrize("arrow_type", [pa.int64(), pa.int16(), pa.float64(), pa.float32(), pa.duration("ms")])
def test_numbers_reduce(word: str, expected: list[int], arrow_type: pa.DataType) -> None:
    table = backend(pa.string()).table(ReducingStateDescriptor("n", arrow_type, word))
    slots = table.slots(pa.array(["a", "b", "a", "a"]))
    number = pa.int16() if not pa.types.is_duration(arrow_type) else pa.int64()
    column = pa.array([3, 5, 2, 4], number)
    table.reduce(slots, column.cast(arrow_type))
    assert table.get(slots[:2]) == pa.array(expected, number).cast(arrow_type)


def test_numpy_values_and_a_validity_mask_reduce() -> None:
    table = backend().table(ReducingStateDescriptor("n", pa.int64(), "sum"))
    slots = table.slots(np.array([7, 8, 7, 9]))
    table.reduce(slots, np.array([1, 2, 4, 8]), validity=np.array([True, True, False, False]))
    assert table.get(slots).to_pylist() == [1, 2, 1, None]
    table.reduce(slots[3:], np.array([5], np.int32))
    assert table.get(slots[3:]).to_pylist() == [5]


def test_a_function_reduces_values_of_any_type() -> None:
    table = backend().table(ReducingStateDescriptor("longest", pa.string(), lambda a, b: max(a, b, key=len)))
    slots = table.slots(np.array([1, 1, 2, 1]))
    table.reduce(slots, pa.array(["a", "bbb", "c", "dd"]))
    assert table.get(slots[1:3]).to_pylist() == ["bbb", "c"]


def test_struct_batches_reduce_by_field() -> None:
    pair = pa.struct([("n", pa.int64()), ("top", pa.int64())])
    table = backend().table(ReducingStateDescriptor("pair", pair, {"n": "sum", "top": "max"}))
    slots = table.slots(np.array([1, 1]))
    rows = pa.array([{"n": 1, "top": 5}, {"n": 2, "top": 3}], pair)
    table.reduce(slots, rows)
    table.reduce(slots, pa.RecordBatch.from_struct_array(rows))
    assert table.get(slots[:1]).to_pylist() == [{"n": 6, "top": 5}]


def test_elements_are_added_to_lists_in_row_order() -> None:
    table = backend(pa.string()).table(ListStateDescriptor("seen", pa.int64()))
    slots = table.slots(pa.array(["a", "b", "a"]))
    table.add(slots, pa.array([1, 2, 3]))
    assert table.get(slots).to_pylist() == [[1, 3], [2], [1, 3]]


def test_of_equal_slots_the_last_wins_nulls_included() -> None:
    table = backend().table(ValueStateDescriptor("v", pa.string()))
    slots = table.slots(np.array([1, 2, 1, 2]))
    table.put(slots, pa.array([None, "b", "c", None]))
    assert contents(table) == {(1, None): "c"}


def test_a_slot_is_no_entry_before_it_is_written() -> None:
    table = backend().table(ReducingStateDescriptor("n", pa.int64(), "min"))
    slots = table.slots(np.array([1, 2]))
    assert len(table) == 0
    assert table.get(slots).to_pylist() == [None, None]
    table.reduce(slots[:1], np.array([4]))
    assert contents(table) == {(1, None): 4}


def test_dictionary_keys_are_the_keys_they_stand_for() -> None:
    table = backend(pa.string()).table(ReducingStateDescriptor("n", pa.int64(), "count"))
    carriers = pa.array(["UA", "AA", "UA", "DL"]).dictionary_encode().slice(1, 2)
    table.reduce(table.slots(carriers))
    assert contents(table) == {("AA", None): 1, ("UA", None): 1}


def test_a_codec_forgets_keys_that_no_state_uses() -> None:
    state = backend(pa.string())
    one, two = (state.table(ValueStateDescriptor(name, pa.int64())) for name in ("one", "two"))
    batch = pa.array(["a", "b"])
    for table in (one, two):
        table.put(table.slots(batch), pa.array([1, 2]))
    one.clear(one.slots(batch))
    assert contents(two) == {("a", None): 1, ("b", None): 2}
    two.clear(two.slots(batch))
    for table in (one, two):
        table.put(table.slots(pa.array(["c", "a"])), pa.array([3, 4]))
    assert contents(one) == contents(two) == {("c", None): 3, ("a", None): 4}


def test_keys_of_other_subtasks_are_refused() -> None:
    keys = np.arange(100)
    groups = key_groups(keys, 128)
    state = HeapKeyedStateBackend(pa.int64(), KeyGroupRange(0, 63), 128)
    table = state.table(ReducingStateDescriptor("n", pa.int64(), "count"))
    with pytest.raises(StateError, match="this subtask holds 0 to 63"):
        table.slots(keys)
    assert len(table.index) == 0
    table.reduce(table.slots(keys[groups < 64]))
    assert len(table) == (groups < 64).sum()


REFUSED: list[tuple[StateDescriptor, Any, str]] = [
    (ValueStateDescriptor("v", pa.int32()), pa.array([1 << 40]), "'v' .value of int32. cannot take int64"),
    (ValueStateDescriptor("v", pa.int32()), pa.array(["x"]), "cannot take string"),
    (ValueStateDescriptor("v", pa.list_(pa.int64())), pa.array([1]), "cannot take int64"),
    (ValueStateDescriptor("v", pa.int32()), pa.array([1, 2]), "1 slots and 2 values"),
]


@pytest.mark.parametrize(("descriptor", "values", "message"), REFUSED)
def test_values_of_another_type_are_refused(descriptor: StateDescriptor, values: pa.Array, message: str) -> None:
    table = backend().table(descriptor)
    with pytest.raises(StateError, match=message):
        table.put(table.slots(np.array([1])), values)


def test_misuse_is_refused() -> None:
    state = backend()
    total = state.table(ReducingStateDescriptor("n", pa.int64(), "sum"))
    slots = total.slots(np.array([1]))
    with pytest.raises(StateTypeError, match="cannot take numbers of float64"):
        total.reduce(slots, np.array([1.5]))
    with pytest.raises(StateError, match="no values to sum"):
        total.reduce(slots)
    with pytest.raises(StateError, match="a slot is -1"):
        total.reduce(np.array([-1]), np.array([1]))
    with pytest.raises(StateTypeError, match="keys have Arrow type string"):
        total.slots(pa.array(["a"]))
    with pytest.raises(StateTypeError, match="must not be null"):
        total.slots(pa.array([1, None]))
    with pytest.raises(StateTypeError, match="no namespaces"):
        total.slots(np.array([1]), np.array([1]))
    with pytest.raises(StateDescriptorError, match="only a reducing state"):
        state.table(ValueStateDescriptor("v", pa.int64())).reduce(slots, np.array([1]))
    with pytest.raises(StateTypeError, match="needs a namespace"):
        state.table(ValueStateDescriptor("w", pa.int64()), pa.int64()).slots(np.array([1]))
    for keys, namespaces in (([1, 2], [1]), ([1], [1, 2])):
        with pytest.raises(StateError, match=f"'w': {len(keys)} keys and {len(namespaces)} namespaces"):
            state.table(ValueStateDescriptor("w", pa.int64()), pa.int64()).slots(np.array(keys), np.array(namespaces))


def test_one_name_is_one_state() -> None:
    state = backend()
    state.table(ReducingStateDescriptor("n", pa.int64(), "sum"))
    assert state.table(ReducingStateDescriptor("n", pa.int64(), "sum")) is state.table(
        ReducingStateDescriptor("n", pa.int64(), "sum")
    )
    for descriptor, message in [
        (ReducingStateDescriptor("n", pa.int32(), "sum"), "registered as reducing of int64.*as reducing of int32"),
        (ValueStateDescriptor("n", pa.int64()), "requested as value of int64"),
        (ReducingStateDescriptor("n", pa.int64(), "max"), "reduce by 'sum'"),
    ]:
        with pytest.raises(StateDescriptorError, match=message):
            state.table(descriptor)
    with pytest.raises(StateDescriptorError, match="by namespace int64"):
        state.table(ReducingStateDescriptor("n", pa.int64(), "sum"), pa.int64())


class Spread(AggregateFunction):
    """The least and the greatest, as one list."""

    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        return self.merge([value], accumulator)

    def get_result(self, accumulator: list[int]) -> int:
        return accumulator[-1] - accumulator[0]

    def merge(self, one: list[int], other: list[int]) -> list[int]:
        both = sorted(one + other)
        return [both[0], both[-1]]


MERGED: dict[str, tuple[StateDescriptor, pa.Array, list[Any]]] = {
    "lists": (
        ListStateDescriptor("state", pa.int64()),
        pa.array([[7], [1, 2], [3]], pa.list_(pa.int64())),
        [[7, 3], [1, 2]],
    ),
    "by a word": (ReducingStateDescriptor("state", pa.int64(), "sum"), pa.array([7, 1, 3]), [10, 1]),
    "by a function": (
        ReducingStateDescriptor("state", pa.string(), lambda a, b: a + b),
        pa.array(["x", "y", "z"]),
        ["xz", "y"],
    ),
    "accumulators": (
        AggregatingStateDescriptor("state", pa.list_(pa.int64()), Spread()),
        pa.array([[7, 9], [1, 2], [3, 4]], pa.list_(pa.int64())),
        [[3, 9], [1, 2]],
    ),
}


@pytest.mark.parametrize("kind", MERGED)
def test_entries_of_a_kind_that_merges_become_one(kind: str) -> None:
    descriptor, values, expected = MERGED[kind]
    table = backend().table(descriptor)
    slots = table.slots(np.array([0, 1, 2]))
    table.put(slots, values)
    table.merge(slots[:1], slots[2:])
    assert table.get(slots[:2]).to_pylist() == expected
    assert len(table) == 2


@pytest.mark.parametrize(
    "descriptor", [ValueStateDescriptor("state", pa.int64()), MapStateDescriptor("state", pa.int64(), pa.int64())]
)
def test_entries_of_other_kinds_do_not_merge(descriptor: StateDescriptor) -> None:
    table = backend().table(descriptor)
    with pytest.raises(StateDescriptorError, match=f"of kind {descriptor.kind}: its entries do not merge"):
        table.merge(table.slots(np.array([0])), table.slots(np.array([1])))


def test_what_a_function_reduced_may_be_reduced_by_a_word() -> None:
    """A job may say it in words after a restore: entries it makes from then on start from what changes nothing."""
    state = backend()
    table = state.table(ReducingStateDescriptor("least", pa.int64(), min))
    table.reduce(table.slots(np.array([0])), np.array([5]))
    table = state.table(ReducingStateDescriptor("least", pa.int64(), "min"))
    slots = table.slots(np.array([0, 1]))
    table.reduce(slots, np.array([7, 9]))
    assert table.get(slots).to_pylist() == [5, 9]


def test_every_kind_of_state_has_a_table() -> None:
    assert set(KINDS) == set(StateKind)

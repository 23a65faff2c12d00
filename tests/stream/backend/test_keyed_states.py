"""The states of the current key against plain dicts, and the values they refuse."""

from __future__ import annotations

from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.core.state.errors import StateDescriptorError, StateError, StateTypeError
from kit.core.state.handles import KeyGroupRange
from kit.stream.backend.heap import HeapKeyedStateBackend
from kit.stream.backend.states.descriptors import (
    AggregateFunction,
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from tests.properties import examples
from tests.stream.backend.conftest import written

TOTALS = pa.struct([("total", pa.int64()), ("count", pa.int64())])


class Average(AggregateFunction):
    def create_accumulator(self) -> Any:
        return {"total": 0, "count": 0}

    def add(self, value: Any, accumulator: Any) -> Any:
        return {"total": accumulator["total"] + value, "count": accumulator["count"] + 1}

    def get_result(self, accumulator: Any) -> Any:
        return accumulator["total"] / accumulator["count"]

    def merge(self, one: Any, other: Any) -> Any:
        return {name: one[name] + other[name] for name in one}


VALUE = ValueStateDescriptor("value", pa.string(), "none yet")
LIST = ListStateDescriptor("list", pa.int64())
MAP = MapStateDescriptor("map", pa.string(), pa.int64())
SUM = ReducingStateDescriptor("sum", pa.int64(), "sum")
RANGE = ReducingStateDescriptor(
    "range",
    pa.struct([("low", pa.int64()), ("high", pa.int64()), ("n", pa.int64())]),
    {"low": "min", "high": "max", "n": "count"},
)
LONGEST = ReducingStateDescriptor("longest", pa.string(), lambda a, b: max(a, b, key=len))
AVERAGE = AggregatingStateDescriptor("average", TOTALS, Average())


def backend(key_type: pa.DataType | None = None) -> HeapKeyedStateBackend:
    return HeapKeyedStateBackend(key_type or pa.string(), KeyGroupRange(0, 127), 128)


@pytest.mark.parametrize("namespace", [None, 7, "w"])
@settings(max_examples=examples(40))
@given(data=st.data())
def test_states_behave_like_dicts(namespace: Any, data: st.DataObject) -> None:
    state = backend()
    value, listed, mapped = (
        state.state(VALUE, namespace),
        state.state(LIST, namespace),
        state.state(MAP, namespace),
    )
    total, average = state.state(SUM, namespace), state.state(AVERAGE, namespace)
    models: dict[str, dict[str, Any]] = {}
    number, field = st.integers(-5, 5), st.sampled_from("xyz")
    frozen = None
    for key in data.draw(st.lists(st.sampled_from(["a", "b", "é"]), max_size=30)):
        state.set_current_key(key)
        model = models.setdefault(key, {"value": None, "list": [], "map": {}, "numbers": []})
        match data.draw(st.sampled_from(["set", "add", "replace", "put", "remove", "fold", "clear", "freeze"])):
            case "set":
                model["value"] = data.draw(st.none() | field)
                value.update(model["value"])
            case "add":
                model["list"] += (added := data.draw(st.lists(number, max_size=3)))
                listed.add_all(added)
            case "replace":
                listed.update(replaced := data.draw(st.lists(number, max_size=2)))
                model["list"] = list(replaced)
            case "put":
                name, new = data.draw(field), data.draw(st.none() | number)
                mapped.put(name, new)
                model["map"][name] = new
            case "remove":
                mapped.remove(name := data.draw(field))
                model["map"].pop(name, None)
            case "fold":
                model["numbers"].append(new := data.draw(number))
                total.add(new)
                average.add(new)
            case "clear":
                for one in (value, listed, mapped, total, average):
                    one.clear()
                models.pop(key)
            case "freeze":
                if frozen is not None:
                    assert frozen[0].encode() == frozen[1]  # later changes are not in the snapshot
                snapshot = state.snapshot()
                frozen = None if snapshot is None else (snapshot, snapshot.encode())
        check(models, state, value, listed, mapped, total, average)
    if frozen is not None:
        assert frozen[0].encode() == frozen[1]


def check(models: dict[str, Any], state: Any, value: Any, listed: Any, mapped: Any, total: Any, average: Any) -> None:
    for key in ("a", "b", "é"):
        state.set_current_key(key)
        model = models.get(key, {"value": None, "list": [], "map": {}, "numbers": []})
        assert value.value() == (model["value"] or "none yet")
        assert listed.get() == model["list"]
        assert mapped.items() == list(model["map"].items())
        assert list(zip(mapped.keys(), mapped.values(), strict=True)) == mapped.items()
        assert mapped.is_empty() == (not model["map"])
        assert mapped.contains("x") == ("x" in model["map"])
        assert mapped.get("x") == model["map"].get("x")
        numbers = model["numbers"]
        assert total.get() == (sum(numbers) if numbers else None)
        assert average.get() == (sum(numbers) / len(numbers) if numbers else None)


def test_namespaces_of_one_key_are_apart() -> None:
    state = backend()
    state.set_current_key("a")
    for namespace in (1, 2, 3):
        state.state(VALUE, namespace).update(str(namespace))
    state.state(VALUE, 2).clear()
    assert [state.state(VALUE, n).value() for n in (1, 2, 3)] == ["1", "none yet", "3"]


def test_a_window_can_be_a_namespace() -> None:
    window = pa.struct([("start", pa.int64()), ("end", pa.int64())])
    state = backend()
    state.set_current_key("a")
    state.state(LIST, (0, 10), window).add(1)
    state.state(LIST, {"start": 0, "end": 10}, window).add(2)
    assert state.state(LIST, (0, 10), window).get() == [1, 2]
    assert state.state(LIST, (10, 20), window).get() == []


def test_reductions_a_row_at_a_time() -> None:
    state = backend()
    state.set_current_key("a")
    for low, high in ((3, 4), (1, 9), (2, 2)):
        state.state(RANGE).add({"low": low, "high": high})
    assert state.state(RANGE).get() == {"low": 1, "high": 9, "n": 3}
    for word in ("to", "three", "four"):
        state.state(LONGEST).add(word)
    assert state.state(LONGEST).get() == "three"


def test_rows_and_batches_see_the_same_entries() -> None:
    state = backend()
    table = state.table(SUM)
    table.reduce(table.slots(pa.array(["a", "b", "a"])), pa.array([1, 2, 3]))
    state.set_current_key("a")
    state.state(SUM).add(10)
    assert state.state(SUM).get() == 14
    assert table.get(table.slots(pa.array(["a"]))).to_pylist() == [14]


STRUCT = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])
REFUSED: list[tuple[pa.DataType, Any, str]] = [
    (pa.int64(), "7", r"State 'v' \(value of int64\) rejects '7': '7' \(str\) is not int64"),
    (pa.int64(), True, r"True \(bool\) is not int64"),
    (pa.int64(), 1.0, r"1.0 \(float\) is not int64"),
    (pa.int8(), 128, "128 is outside int8's -128 to 127"),
    (pa.float64(), "x", "is not double"),
    (pa.string(), 7, r"7 \(int\) is not string"),
    (pa.string(), "\ud800", "lone surrogate"),
    (pa.bool_(), 1, "is not bool"),
    (pa.binary(), "x", "is not binary"),
    (pa.date32(), "tomorrow", "is not date32"),
    (STRUCT, {"a": 1, "c": 2}, r"fields \['c'\]"),
    (STRUCT, (1,), "is not struct"),
    (STRUCT, {"a": 1, "b": [2]}, r"2 \(int\) is not string"),
]


@pytest.mark.parametrize(("arrow_type", "value", "message"), REFUSED)
def test_values_that_do_not_fit_are_refused_at_once(arrow_type: pa.DataType, value: Any, message: str) -> None:
    state = backend()
    state.set_current_key("a")
    with pytest.raises(StateTypeError, match=message):
        state.state(ValueStateDescriptor("v", arrow_type)).update(value)
    assert written(state) is None


@pytest.mark.parametrize(
    ("arrow_type", "value", "read"),
    [
        (pa.float64(), 3, 3.0),
        (pa.float32(), 0.1, pa.scalar(0.1, pa.float32()).as_py()),
        (STRUCT, (1, ("x",)), {"a": 1, "b": ["x"]}),
        (STRUCT, {"b": None}, {"a": None, "b": None}),
        (pa.map_(pa.string(), pa.int64()), {"x": 1}, [("x", 1)]),
        (pa.date32(), date(2013, 1, 1), date(2013, 1, 1)),
        (TOTALS, (1, None), {"total": 1, "count": None}),
    ],
)
def test_values_read_as_arrow_would_give_them(arrow_type: pa.DataType, value: Any, read: Any) -> None:
    state = backend()
    state.set_current_key("a")
    held = state.state(ValueStateDescriptor("v", arrow_type))
    held.update(value)
    assert held.value() == read
    assert written(state) is not None


def test_a_list_or_map_takes_all_or_nothing() -> None:
    state = backend()
    state.set_current_key("a")
    with pytest.raises(StateTypeError, match=r"'list' \(list of list<.*rejects 'x'"):
        state.state(LIST).add_all([1, "x"])
    with pytest.raises(StateTypeError, match="None is not a value"):
        state.state(LIST).add(None)
    with pytest.raises(StateTypeError, match=r"'map' .*rejects 7"):
        state.state(MAP).put_all({"x": 1, 7: 2})
    assert state.state(LIST).get() == []
    assert state.state(MAP).is_empty()
    assert written(state) is None


def test_a_state_needs_a_current_key_of_its_type() -> None:
    state = backend(pa.int32())
    with pytest.raises(StateError, match="No current key"):
        state.state(VALUE).value()
    for key in ("a", 1 << 40, None, True):
        state.set_current_key(key)
        with pytest.raises(StateTypeError):
            state.state(VALUE).update("x")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ValueStateDescriptor("", pa.int64()), "needs a name"),
        (lambda: ValueStateDescriptor("v", int), "expected an Arrow type"),
        (lambda: ReducingStateDescriptor("v", pa.string(), "sum"), "'sum' needs a number, not string"),
        (lambda: ReducingStateDescriptor("v", pa.int64(), "mean"), "unknown reduce 'mean'"),
        (lambda: ReducingStateDescriptor("v", TOTALS, {"total": "sum"}), r"fields \['total'\]"),
        (lambda: ReducingStateDescriptor("v", TOTALS, {"total": "sum", "count": "top"}), "field 'count'"),
        (lambda: ReducingStateDescriptor("v", pa.int64(), {"a": "sum"}), "expected one of"),
        (lambda: MapStateDescriptor("v", TOTALS, pa.int64()), "keys of a map"),
    ],
)
def test_descriptors_that_make_no_sense(make: Any, message: str) -> None:
    with pytest.raises(StateDescriptorError, match=message):
        make()


def test_descriptors_are_values() -> None:
    made: list[StateDescriptor] = [ReducingStateDescriptor("v", TOTALS, {"total": "sum", "count": "sum"}) for _ in "ab"]
    assert made[0] == made[1]
    assert hash(made[0]) == hash(made[1])

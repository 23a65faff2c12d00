"""States with TTL against plain dicts with a clock: all settings, one key at a time, in runs and in batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit import StateTtlConfig
from kit.stream.backend.keys.slot_index import FEW_ROWS
from kit.stream.operators.functions.batch_process import TtlBatchState
from tests.properties import examples
from tests.stream.backend.ttl import TTL_MS, Backend, config, descriptor

Timed = tuple[Any, int]
SETTINGS = st.fixed_dictionaries(
    {
        "update_type": st.sampled_from(["on_create_and_write", "on_read_and_write"]),
        "state_visibility": st.sampled_from(["never_return_expired", "return_expired_if_not_cleaned_up"]),
        "cleanup_full_snapshot": st.booleans(),
    }
)
KEYS = st.sampled_from(["a", "b", "c", "é"])
FIELD = st.sampled_from("xyz")
NUMBER = st.integers(-9, 9)
STEPS_MS = st.sampled_from([0, 1, 30, 60, TTL_MS - 1, TTL_MS, 250])


class Model:
    """A model of the states of all keys: under each key an entry with a time, or parts with times."""

    def __init__(self, kind: str, ttl: StateTtlConfig) -> None:
        self.kind, self.ttl = kind, ttl
        self.now_ms = 0
        self.held: dict[str, Any] = {}

    def expired(self, timed: Timed) -> bool:
        return timed[1] + TTL_MS <= self.now_ms

    def write(self, key: str, number: int, field: str) -> None:
        if self.kind == "list":
            self.held.setdefault(key, []).append((number, self.now_ms))
        elif self.kind == "map":
            self.held.setdefault(key, {})[field] = (number, self.now_ms)
        else:
            before = self.held.get(key)
            if self.kind == "value" or before is None or (self.expired(before) and not self.ttl.returns_expired):
                numbers = [number]
            else:
                numbers = [*before[0], number]
            self.held[key] = numbers, self.now_ms

    def read(self, key: str) -> Any:
        held = self.held.get(key)
        if held is None:
            return None
        if self.kind == "list":
            return self.read_list(key, held)
        if self.kind == "map":
            return {f: found for f in list(held) if (found := self.read_field(key, f)) is not None} or None
        return self.result(self.read_one(self.held, key))

    def read_list(self, key: str, held: list[Timed]) -> Any:
        left = [each for each in held if not self.expired(each)]
        found = [number for number, _ in (held if self.ttl.returns_expired else left)]
        if not left:
            del self.held[key]
        elif self.ttl.renews_on_read:
            self.held[key] = [(number, self.now_ms) for number, _ in left]
        return found or None

    def read_field(self, key: str, field: str) -> Any:
        if field not in self.held.get(key, {}):
            return None
        found = self.read_one(self.held[key], field)
        if not self.held[key]:
            del self.held[key]
        return found

    def read_one(self, held: dict[str, Timed], name: str) -> Any:
        value, _ = timed = held[name]
        if self.expired(timed):
            del held[name]
            return value if self.ttl.returns_expired else None
        if self.ttl.renews_on_read:
            held[name] = value, self.now_ms
        return value

    def result(self, numbers: list[int] | None) -> Any:
        if numbers is None or self.kind == "value":
            return None if numbers is None else numbers[-1]
        return sum(numbers) if self.kind == "reducing" else sum(numbers) / len(numbers)

    def remove(self, key: str, field: str) -> None:
        if self.kind == "map" and key in self.held:
            self.held[key].pop(field, None)
        if self.kind != "map" or not self.held.get(key):
            self.held.pop(key, None)

    def without_expired(self) -> None:
        """Remove what a snapshot omits that leaves out expired entries."""
        for key, held in list(self.held.items()):
            if self.kind in ("list", "map"):
                parts = held.items() if self.kind == "map" else enumerate(held)
                left: Any = {name: timed for name, timed in parts if not self.expired(timed)}
                self.held[key] = left if self.kind == "map" else list(left.values())
            if not self.held[key] or (self.kind not in ("list", "map") and self.expired(held)):
                del self.held[key]


def write(state: Any, kind: str, number: int, field: str) -> None:
    if kind == "map":
        state.put(field, number)
    elif kind == "value":
        state.update(number)
    else:
        state.add(number)


def read(state: Any, kind: str) -> Any:
    found = dict(state.items()) if kind == "map" else state.value() if kind == "value" else state.get()
    return None if found in ([], {}) else found


def act(state: Any, model: Model, key: str, action: str, number: int, field: str) -> None:
    """Do the same to the state of a key and in the model, and compare what a read returns."""
    kind = model.kind
    if action == "write":
        write(state, kind, number, field)
        model.write(key, number, field)
    elif action == "read":
        assert read(state, kind) == model.read(key)
    elif action == "remove":
        state.remove(field) if kind == "map" else state.clear()
        model.remove(key, field)
    elif kind == "map":
        assert state.get(field) == model.read_field(key, field)


ACTIONS = st.lists(st.tuples(KEYS, st.sampled_from(["write", "read", "remove", "look"]), NUMBER, FIELD), max_size=6)
RUN = st.lists(
    st.tuples(KEYS, st.sampled_from(["write", "read", "remove", "look"]), NUMBER, FIELD),
    min_size=FEW_ROWS + 1,
    max_size=FEW_ROWS + 6,
)
EVENTS = st.lists(st.tuples(STEPS_MS, ACTIONS | RUN, st.sampled_from(["", "", "restore", "snapshot"])), max_size=12)


@pytest.mark.parametrize("kind", ["value", "list", "map", "reducing", "aggregating"])
@settings(max_examples=examples(150))
@given(given_settings=SETTINGS, events=EVENTS, cleanup=st.sampled_from([(0, False), (2, False), (3, True)]))
def test_states_behave_as_flinks_do(
    kind: str, given_settings: dict[str, Any], events: list[Any], cleanup: tuple[int, bool]
) -> None:
    if cleanup[0]:  # when an expired entry is removed decides if it is returned
        given_settings = given_settings | {"state_visibility": "never_return_expired"}
    ttl = config(**given_settings, cleanup_size=cleanup[0], cleanup_for_every_record=cleanup[1])
    backend, state, model = Backend(), descriptor(kind, ttl), Model(kind, ttl)
    for step_ms, actions, then in events:
        model.now_ms += step_ms
        backend.at(model.now_ms)
        view = backend.heap.state(state)
        keys = pa.array([key for key, *_ in actions], pa.string())
        for (key, action, number, name), _ in zip(actions, turns(backend, keys), strict=True):
            act(view, model, key, action, number, name)
        if not cleanup[0]:
            assert backend.entries(kind) == len(model.held)
        if then == "snapshot":
            backend.heap.snapshot()
        elif then == "restore":
            backend = backend.restored()
            if ttl.cleanup_full_snapshot:
                model.without_expired()
    for key in "abcé":
        assert read(backend.of(key, state), kind) == model.read(key)


def turns(backend: Backend, keys: pa.Array) -> Iterator[None]:
    return backend.heap.in_turn(keys)


@pytest.mark.parametrize("kind", ["value", "list", "reducing"])
@settings(max_examples=examples(150))
@given(
    given_settings=SETTINGS,
    events=st.lists(
        st.tuples(STEPS_MS, st.sampled_from(["write", "read", "remove"]), st.lists(KEYS, min_size=1)), max_size=12
    ),
    cleanup_size=st.sampled_from([0, 2]),
)
def test_batches_do_what_is_done_key_by_key(
    kind: str, given_settings: dict[str, Any], events: list[Any], cleanup_size: int
) -> None:
    if cleanup_size:
        given_settings = given_settings | {"state_visibility": "never_return_expired"}
    ttl = config(**given_settings, cleanup_size=cleanup_size)
    backend, state, model = Backend(), descriptor(kind, ttl), Model(kind, ttl)
    for step_ms, action, keys in events:
        model.now_ms += step_ms
        backend.at(model.now_ms)
        batch = TtlBatchState(backend.heap.table(state), pa.array(keys))  # type: ignore[arg-type]
        numbers = pa.array(range(len(keys)), pa.int64())
        if action == "write":
            batch.update(numbers) if kind == "value" else batch.add(numbers)
            for number, key in enumerate(keys):
                model.write(key, number, "")
        elif action == "read":
            seen = {key: model.read(key) for key in dict.fromkeys(keys)}  # all rows of a key see the same entry
            assert batch.get().to_pylist() == [seen[key] for key in keys]
        else:
            batch.clear()
            for key in keys:
                model.remove(key, "")
        if not cleanup_size:
            assert backend.entries(kind) == len(model.held)
    for key in "abcé":
        assert read(backend.of(key, state), kind) == model.read(key)

"""Timers against a set, in batches and one at a time; the order they fire in."""

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
from kit.stream.backend.keys.key_hashing import assign_to_key_group
from kit.stream.backend.timers import TimerService
from tests.properties import examples

MAXIMUM = 16


def service(namespace_type: pa.DataType | None = None) -> tuple[HeapKeyedStateBackend, TimerService]:
    backend = HeapKeyedStateBackend(pa.string(), KeyGroupRange(0, MAXIMUM - 1), MAXIMUM)
    return backend, backend.timer_service("timers", namespace_type)


def rows(due: Any) -> list[tuple[int, str, Any]]:
    namespaces = [None] * len(due.keys) if due.namespaces is None else due.namespaces.to_pylist()
    return list(zip(due.timestamps_ms.tolist(), due.keys.to_pylist(), namespaces, strict=True))


@settings(max_examples=examples(60))
@given(data=st.data())
def test_timers_behave_like_a_set(data: st.DataObject) -> None:
    by_namespace = data.draw(st.booleans())
    backend, timers = service(pa.int64() if by_namespace else None)
    model: set[tuple[int, str, Any]] = set()
    timer = st.tuples(
        st.integers(-5, 20), st.sampled_from(["a", "b", "é"]), st.integers(0, 2) if by_namespace else st.none()
    )
    steps = st.tuples(st.sampled_from(["register", "one", "delete", "advance"]), st.lists(timer, max_size=15))
    for step, batch in data.draw(st.lists(steps, max_size=10)):
        keys = pa.array([key for _, key, _ in batch], pa.string())
        times = np.array([time for time, _, _ in batch], np.int64)
        namespaces = np.array([n for _, _, n in batch], np.int64) if by_namespace else None
        if step == "register":
            timers.event_time.register(keys, times, namespaces)
            model |= set(batch)
        elif step == "delete":
            timers.event_time.delete(keys, times, namespaces)
            model -= set(batch)
        elif step == "one":
            for number, (time, key, namespace) in enumerate(batch):
                backend.set_current_key(key)
                if number % 2:
                    timers.event_time.delete_one(time, namespace)
                    model.discard((time, key, namespace))
                else:
                    timers.event_time.register_one(time, namespace)
                    model.add((time, key, namespace))
        elif batch:
            watermark = batch[0][0]
            due = sorted(
                (t for t in model if t[0] <= watermark),
                key=lambda t: (t[0], assign_to_key_group(t[1], MAXIMUM), t[1].encode(), t[2]),
            )
            assert rows(timers.advance(watermark)) == due
            assert timers.current_watermark_ms == watermark
            model -= set(due)
        assert timers.event_time.next_timestamp_ms() == min((t[0] for t in model), default=None)
        assert len(timers.event_time) == len(model)


def test_the_two_time_domains_are_apart() -> None:
    backend, timers = service()
    backend.set_current_key("a")
    timers.event_time.register_one(5)
    timers.processing_time.register_one(7)
    assert timers.next_processing_time_ms() == 7
    assert rows(timers.advance(100)) == [(5, "a", None)]
    assert rows(timers.advance_processing_time(6)) == []
    assert rows(timers.advance_processing_time(7)) == [(7, "a", None)]
    assert timers.next_processing_time_ms() is None


def test_timers_that_come_after_all_were_gone_are_due_at_their_own_time() -> None:
    backend, timers = service()
    for key in "ab":
        backend.set_current_key(key)
        timers.event_time.register_one(5)
    assert timers.event_time.next_timestamp_ms() == 5
    for key in "ab":
        backend.set_current_key(key)
        timers.event_time.delete_one(5)
    assert timers.event_time.next_timestamp_ms() is None
    for at_ms, key in ((40, "a"), (30, "b")):
        backend.set_current_key(key)
        timers.event_time.register_one(at_ms)
    assert timers.event_time.next_timestamp_ms() == 30
    assert rows(timers.advance(30)) == [(30, "b", None)]
    assert timers.event_time.next_timestamp_ms() == 40
    assert rows(timers.advance(40)) == [(40, "a", None)]
    timers.event_time.register_one(90)
    assert timers.event_time.next_timestamp_ms() == 90


def test_processing_time_timers_in_batches() -> None:
    _, timers = service()
    keys = pa.array(["a", "b", "c"])
    timers.processing_time.register(keys, pa.array([3, 1, 2]))
    timers.processing_time.delete(keys.slice(2), np.array([2]))
    assert rows(timers.advance_processing_time(9)) == [(1, "b", None), (3, "a", None)]


def test_a_timer_may_be_registered_again_after_it_fired() -> None:
    backend, timers = service(pa.string())
    backend.set_current_key("a")
    for _ in range(2):
        timers.event_time.register_one(5, "w")
        timers.event_time.register_one(5, "w")
        assert rows(timers.advance(5)) == [(5, "a", "w")]


def test_timestamps_may_be_arrow_timestamps() -> None:
    _, timers = service()
    timers.event_time.register(pa.array(["a"]), pa.array([1_500_000], pa.timestamp("us")))
    assert rows(timers.advance(1500)) == [(1500, "a", None)]


def test_misuse_is_refused() -> None:
    backend, timers = service()
    keys = pa.array(["a", "b"])
    with pytest.raises(StateError, match="differ in length"):
        timers.event_time.register(keys, np.array([1]))
    with pytest.raises(StateTypeError, match="int64 milliseconds, not float64"):
        timers.event_time.register(keys, np.array([1.0, 2.0]))
    with pytest.raises(StateTypeError, match="namespaces of type None"):
        timers.event_time.register(keys, np.array([1, 2]), np.array([1, 2]))
    with pytest.raises(StateDescriptorError, match="requested with int64"):
        backend.timer_service("timers", pa.int64())
    other = HeapKeyedStateBackend(pa.string(), KeyGroupRange(0, 0), MAXIMUM).timer_service("timers")
    with pytest.raises(StateError, match="this subtask holds 0 to 0"):
        other.event_time.register(pa.array(list("abcdefgh")), np.arange(8))
    assert len(other.event_time) == 0

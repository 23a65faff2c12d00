"""A backend with a clock and states with TTL, for the tests of TTL."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from kit import StateTtlConfig
from kit.core.state.handles import KeyGroupRange
from kit.stream.backend.heap import HeapKeyedStateBackend
from kit.stream.backend.states.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from tests.stream.backend.test_keyed_states import TOTALS, Average
from tests.stream.backend.test_snapshot import part

MAXIMUM = 32
TTL_MS = 100
KINDS = ("value", "list", "map", "reducing", "aggregating")


def config(**other: Any) -> StateTtlConfig:
    """Return a TTL of 100 ms, without incremental cleanup unless it is given."""
    return StateTtlConfig(TTL_MS, **{"cleanup_size": 0, **other})


def descriptor(kind: str, ttl: StateTtlConfig | None) -> Any:
    """Return the state of a kind, which has the kind's name."""
    made: dict[str, StateDescriptor] = {
        "value": ValueStateDescriptor("value", pa.int64(), ttl=ttl),
        "list": ListStateDescriptor("list", pa.int64(), ttl=ttl),
        "map": MapStateDescriptor("map", pa.string(), pa.int64(), ttl=ttl),
        "reducing": ReducingStateDescriptor("reducing", pa.int64(), "sum", ttl=ttl),
        "aggregating": AggregatingStateDescriptor("aggregating", TOTALS, Average(), ttl=ttl),
    }
    return made[kind]


@dataclass
class Clock:
    """The time of the present event."""

    processing_time_ms: int = 0


@dataclass
class Backend:
    """A keyed backend with a clock."""

    clock: Clock = field(default_factory=Clock)
    groups: KeyGroupRange = field(default_factory=lambda: KeyGroupRange(0, MAXIMUM - 1))

    def __post_init__(self) -> None:
        self.heap = HeapKeyedStateBackend(pa.string(), self.groups, MAXIMUM, clock=self.clock)

    def at(self, ms: int) -> Backend:
        """Set the time."""
        self.clock.processing_time_ms = ms
        return self

    def of(self, key: str, state: StateDescriptor) -> Any:
        """Return the state of a key."""
        self.heap.set_current_key(key)
        return self.heap.state(state)

    def entries(self, name: str) -> int:
        """Return the number of entries of a state, expired ones included."""
        return len(self.heap.tables[name])

    def restored(self) -> Backend:
        """Return a new backend with what a snapshot of this one holds."""
        return restored([self], self.groups)


def restored(backends: list[Backend], groups: KeyGroupRange) -> Backend:
    """Return a new backend with a range of key groups, from snapshots of others."""
    made = Backend(backends[0].clock, groups)
    made.heap.restore([each for number, one in enumerate(backends) for each in part(one.heap, f"file-{number}")])
    return made


def write(state: Any, kind: str, number: int) -> None:
    """Write a number to a state of a kind; those before are replaced, or the number is added."""
    if kind == "value":
        state.update(number)
    elif kind == "map":
        state.put(f"k{number}", number)
    else:
        state.add(number)


def read(state: Any, kind: str) -> Any:
    """Return everything that a state holds, None if it is empty."""
    if kind == "value":
        return state.value()
    found = dict(state.items()) if kind == "map" else state.get()
    return None if found in ({}, []) else found


SEVEN = {"value": 7, "list": [7], "map": {"k7": 7}, "reducing": 7, "aggregating": 7.0}
"""What `read` returns after `write` of 7."""

"""State descriptors: the name and the Arrow type of a keyed or operator state.

A type that a checkpoint could not restore is rejected here (StateDescriptorError). Dictionaries, runs and views are
kept as their plain values, in the form that `stored_type` returns.

With `ttl`, the entries of keyed state expire (`kit.stream.backend.states.state_ttl_config`).

A user function passes a descriptor to its backend to get the state. A descriptor is immutable and compared by value.
Functions in it (a `reduce`, an `aggregate`) are never stored in a checkpoint, so a restored job brings its own. Follows
`StateDescriptor` and its subclasses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kit.core.arguments.signposts import DESCRIPTOR, no_attribute
from kit.core.arrow_kinds import Family, can_be_key, kind_of
from kit.core.state.errors import StateDescriptorError
from kit.stream.backend.states.state_definition import Aspects
from kit.stream.backend.states.state_ttl_config import StateTtlConfig
from kit.stream.backend.types.arrow_types import NO_NANOSECONDS, has_nanosecond_times, stored_type, why_not_in_state

REDUCTIONS = ("sum", "min", "max", "count")
Reduction = str | Mapping[str, str] | Callable[[Any, Any], Any]


class StateKind(StrEnum):
    """The kinds of state, by their names in a snapshot."""

    VALUE = "value"
    LIST = "list"
    MAP = "map"
    REDUCING = "reducing"
    AGGREGATING = "aggregating"


class AggregateFunction(ABC):
    """A function that folds values into an accumulator and reads a result from it. Follows `AggregateFunction`.

    A struct accumulator is a dict with its fields' names.
    """

    @abstractmethod
    def create_accumulator(self) -> Any:
        """Return a new accumulator without values."""

    @abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """Return the accumulator with one value added; it may be changed in place."""

    @abstractmethod
    def get_result(self, accumulator: Any) -> Any:
        """Return the result for the accumulated values."""

    @abstractmethod
    def merge(self, one: Any, other: Any) -> Any:
        """Return one accumulator for the values of both, as merging windows need."""


class _Descriptor:
    """The base of all descriptors: the error for a missing attribute says what to write."""

    __slots__ = ()

    if not TYPE_CHECKING:  # else mypy would accept any attribute

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name, DESCRIPTOR)


@dataclass(frozen=True, slots=True)
class ValueStateDescriptor(_Descriptor):
    """One value per key; `default` is read if none was written."""

    name: str
    type: pa.DataType
    default: Any = None
    ttl: StateTtlConfig | None = None

    kind = StateKind.VALUE

    def __post_init__(self) -> None:
        _check(self.name, self.ttl, type=self.type)
        if self.ttl is not None and self.default is not None:
            raise StateDescriptorError(
                f"State {self.name!r} has a TTL and the default {self.default!r}: as in Flink, state with TTL has no "
                "default. Remove it, and handle None where the value is read"
            )

    @property
    def stored_type(self) -> pa.DataType:
        """The Arrow type of the stored value of a key."""
        return stored_type(self.type)


@dataclass(frozen=True, slots=True)
class ListStateDescriptor(_Descriptor):
    """A list of elements per key, or per subtask of an operator."""

    name: str
    element_type: pa.DataType
    ttl: StateTtlConfig | None = None

    kind = StateKind.LIST

    def __post_init__(self) -> None:
        _check(self.name, self.ttl, element_type=self.element_type)

    @property
    def stored_type(self) -> pa.DataType:
        """The Arrow type of the stored value of a key."""
        return pa.list_(stored_type(self.element_type))


@dataclass(frozen=True, slots=True)
class MapStateDescriptor(_Descriptor):
    """A map per key or, as broadcast state, per operator. Its keys are numbers, strings, bytes or times."""

    name: str
    key_type: pa.DataType
    value_type: pa.DataType
    ttl: StateTtlConfig | None = None

    kind = StateKind.MAP

    def __post_init__(self) -> None:
        _check(self.name, self.ttl, key_type=self.key_type, value_type=self.value_type)
        if pa.types.is_nested(stored_type(self.key_type)):
            raise StateDescriptorError(
                f"State {self.name!r}: the keys of a map cannot be {self.key_type}; use a number, string, bytes or time"
            )

    @property
    def stored_type(self) -> pa.DataType:
        """The Arrow type of the stored value of a key."""
        return pa.map_(stored_type(self.key_type), stored_type(self.value_type))


@dataclass(frozen=True, slots=True)
class ReducingStateDescriptor(_Descriptor):
    """One value per key, into which each added value is folded.

    `reduce` is "sum", "min", "max" or "count" for a number, and "min" or "max" for other ordered types (times, strings,
    bytes, bools). For a struct it has one such word per field, as in `{"flights": "sum", "delay": "max"}`. For any type
    it may be a function of two values. A NaN is larger than any number, as in Spark SQL and Java. A sum of decimals or
    of uint64 that its type cannot hold raises StateOverflowError; other integer sums wrap around in a batch, as in
    Java.
    """

    name: str
    type: pa.DataType
    reduce: Reduction = field(hash=False)
    ttl: StateTtlConfig | None = None

    kind = StateKind.REDUCING

    def __post_init__(self) -> None:
        _check(self.name, self.ttl, type=self.type)
        _check_reduction(self)

    @property
    def stored_type(self) -> pa.DataType:
        """The Arrow type of the stored value of a key."""
        return stored_type(self.type)


@dataclass(frozen=True, slots=True)
class AggregatingStateDescriptor(_Descriptor):
    """One accumulator per key; added values and results may have other types."""

    name: str
    accumulator_type: pa.DataType
    aggregate: AggregateFunction
    ttl: StateTtlConfig | None = None

    kind = StateKind.AGGREGATING

    def __post_init__(self) -> None:
        _check(self.name, self.ttl, accumulator_type=self.accumulator_type)

    @property
    def stored_type(self) -> pa.DataType:
        """The Arrow type of the stored value of a key."""
        return stored_type(self.accumulator_type)


StateDescriptor = (
    ValueStateDescriptor
    | ListStateDescriptor
    | MapStateDescriptor
    | ReducingStateDescriptor
    | AggregatingStateDescriptor
)


def aspects_of_values(descriptor: StateDescriptor) -> Aspects:
    """Return what gives the state's values a meaning beyond their type: the words of a reduction."""
    if isinstance(descriptor, ReducingStateDescriptor) and not callable(descriptor.reduce):
        return {"reduce": descriptor.reduce if isinstance(descriptor.reduce, str) else dict(descriptor.reduce)}
    return {}


_PYTHONS = ("element_type", "key_type", "value_type", "accumulator_type")
"""The types whose values are kept as Python objects, not in columns."""


def _check(name: str, ttl: StateTtlConfig | None, **types: pa.DataType) -> None:
    if not isinstance(name, str) or not name:
        raise StateDescriptorError(f"A state needs a name, a text by which its checkpoints find it, found {name!r}")
    if ttl is not None and not isinstance(ttl, StateTtlConfig):
        raise StateDescriptorError(
            f"State {name!r}: ttl is {ttl!r}, expected a StateTtlConfig, such as StateTtlConfig('1h')"
        )
    for argument, arrow_type in types.items():
        if not isinstance(arrow_type, pa.DataType):
            raise StateDescriptorError(
                f"State {name!r}: {argument} is {arrow_type!r}, expected an Arrow type such as pa.int64()"
            )
        reason = why_not_in_state(arrow_type)
        if reason is None and argument in _PYTHONS and has_nanosecond_times(arrow_type):
            reason = NO_NANOSECONDS
        if reason is not None:
            raise StateDescriptorError(f"State {name!r}: {argument} {arrow_type} cannot be kept: {reason}")


def _check_reduction(descriptor: ReducingStateDescriptor) -> None:
    name, arrow_type, reduce = descriptor.name, descriptor.stored_type, descriptor.reduce
    if callable(reduce):
        return
    if isinstance(reduce, str):
        wanted, types = {"": reduce}, {"": arrow_type}
    elif isinstance(reduce, Mapping) and pa.types.is_struct(arrow_type):
        wanted, types = dict(reduce), {f.name: f.type for f in arrow_type}
    else:
        raise StateDescriptorError(
            f"State {name!r} of {arrow_type}: reduce is {reduce!r}, expected one of {', '.join(REDUCTIONS)}, "
            "a mapping from struct field to one of these, or a function of two values"
        )
    if wanted.keys() != types.keys():
        raise StateDescriptorError(
            f"State {name!r}: reduce names the fields {sorted(wanted)}, its type has {sorted(types)}"
        )
    for part, word in wanted.items():
        where = f"State {name!r}" + (f", field {part!r}" if part else "")
        if word not in REDUCTIONS:
            raise StateDescriptorError(f"{where}: unknown reduce {word!r}, expected one of {', '.join(REDUCTIONS)}")
        if not _can_reduce(types[part], word):
            raise StateDescriptorError(f"{where}: {word!r} needs a number, not {types[part]}; give a function instead")


def _can_reduce(arrow_type: pa.DataType, word: str) -> bool:
    kind = kind_of(arrow_type)
    is_number = kind.python in (int, float) or kind.family is Family.DURATION
    if is_number or (kind.family is Family.DECIMAL and word == "sum"):
        return True
    return word in {"min", "max"} and has_order(arrow_type)


def has_order(arrow_type: pa.DataType) -> bool:
    """Return True if Arrow defines an order of such values."""
    return can_be_key(arrow_type) and not pa.types.is_struct(arrow_type)

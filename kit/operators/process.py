"""A function per row, on one stream or on two: whatever the other operators cannot say.

Write a class derived from one of those here. On a keyed stream the context gives the states and timers of the row's
key; a timer calls `on_timer` with the key it was set for. On two streams there is a hook for each, and both share the
state: that is how one stream is joined to, or steered by, another.

Follows Flink's `ProcessFunction`, `KeyedProcessFunction`, `CoProcessFunction` and `KeyedCoProcessFunction`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from kit.backend.arrow_types import has_nanosecond_times, stored_type
from kit.operators.function_operator import (
    FunctionInput,
    FunctionOperator,
    KeyedFunctionOperator,
    KeyedProcessFunctionContext,
    ProcessFunctionContext,
)
from kit.operators.rows import Row
from kit.operators.spec import ResolvedSpec, SchemaError, check_made_of_rows


class ProcessFunction:
    """What a user writes for a stream without a key: any number of rows, also to side outputs, for each.

    Each hook gets a `ProcessFunctionContext`: what it may do there.
    """

    def open(self, ctx: ProcessFunctionContext) -> None:
        """Called once before the first row; `ctx` is a `ProcessFunctionContext`."""

    def process_element(self, row: Row, ctx: ProcessFunctionContext) -> None:
        """Called for each row, a dict; `ctx.emit(...)` or `ctx.output(tag, ...)` what comes of it. `ctx` is a
        `ProcessFunctionContext`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define process_element(row, ctx)")


class KeyedProcessFunction:
    """What a user writes for a keyed stream: all hooks but `process_element` may be left out.

    Each hook gets a `KeyedProcessFunctionContext`: state, timers, output.
    """

    def open(self, ctx: KeyedProcessFunctionContext) -> None:
        """Called once before the first row; `ctx` is a `KeyedProcessFunctionContext`."""

    def process_element(self, row: Row, ctx: KeyedProcessFunctionContext) -> None:
        """Called for each row, a dict; `ctx.emit(...)` what comes of it. `ctx` is a
        `KeyedProcessFunctionContext`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define process_element(row, ctx)")

    def on_timer(self, timestamp_ms: int, ctx: KeyedProcessFunctionContext) -> None:
        """Called when a timer fires, for the key it was registered for.

        `ctx` is a `KeyedProcessFunctionContext`, whose `timestamp_ms` is the timer's.
        """


class CoProcessFunction:
    """What a user writes for two connected streams: a hook for the rows of each.

    Each hook gets a `ProcessFunctionContext`.
    """

    def open(self, ctx: ProcessFunctionContext) -> None:
        """Called once before the first row; `ctx` is a `ProcessFunctionContext`."""

    def process_element1(self, row: Row, ctx: ProcessFunctionContext) -> None:
        """Called for each row of the first stream; `ctx` is a `ProcessFunctionContext`."""
        raise NotImplementedError(f"{type(self).__name__} does not define process_element1(row, ctx)")

    def process_element2(self, row: Row, ctx: ProcessFunctionContext) -> None:
        """Called for each row of the second stream; `ctx` is a `ProcessFunctionContext`."""
        raise NotImplementedError(f"{type(self).__name__} does not define process_element2(row, ctx)")


class KeyedCoProcessFunction:
    """What a user writes for two connected keyed streams: rows of both with one key see one state.

    Each hook gets a `KeyedProcessFunctionContext`.
    """

    def open(self, ctx: KeyedProcessFunctionContext) -> None:
        """Called once before the first row; `ctx` is a `KeyedProcessFunctionContext`."""

    def process_element1(self, row: Row, ctx: KeyedProcessFunctionContext) -> None:
        """Called for each row of the first stream; `ctx` is a `KeyedProcessFunctionContext`."""
        raise NotImplementedError(f"{type(self).__name__} does not define process_element1(row, ctx)")

    def process_element2(self, row: Row, ctx: KeyedProcessFunctionContext) -> None:
        """Called for each row of the second stream; `ctx` is a `KeyedProcessFunctionContext`."""
        raise NotImplementedError(f"{type(self).__name__} does not define process_element2(row, ctx)")

    def on_timer(self, timestamp_ms: int, ctx: KeyedProcessFunctionContext) -> None:
        """Called when a timer fires, for the key it was registered for.

        `ctx` is a `KeyedProcessFunctionContext`, whose `timestamp_ms` is the timer's.
        """


KINDS: tuple[tuple[type, type], ...] = (
    (ProcessFunction, KeyedProcessFunction),
    (CoProcessFunction, KeyedCoProcessFunction),
)
"""What a function without a key is derived from, and what one with a key is."""


def _is_a(function: Callable[[], Any], kind: type) -> bool:
    return isinstance(function, type) and issubclass(function, kind)


@dataclass(frozen=True, eq=False, repr=False)
class FunctionSpec(ResolvedSpec):
    """`function` is the class (or what else makes one function a subtask); its rows have the schema `returns`."""

    inputs: tuple[FunctionInput, ...]
    function: Callable[[], Any]
    returns: pa.Schema

    hooks: ClassVar[tuple[str, ...]] = ("process_element",)
    rows: ClassVar[bool] = True
    """Whether the function is called row by row."""

    def create(self) -> FunctionOperator:
        """One subtask's operator."""
        kind = FunctionOperator if self.key_type is None else KeyedFunctionOperator
        return kind(self.name, self.function(), self.returns, self.inputs, self.hooks)

    def _check_kind(self) -> None:
        """Raise TypeError for a function of a keyed stream where there is no key, and the other way around."""
        keyed = any(given.keys for given in self.inputs)
        for plain, with_key in KINDS:
            if _is_a(self.function, with_key) and not keyed:
                what = f"is a {with_key.__name__}, and the stream has no key: call key_by(...) before process"
            elif _is_a(self.function, plain) and keyed:
                what = f"is a {plain.__name__}: derive it from {with_key.__name__}, since the stream has a key"
            else:
                continue
            raise TypeError(f"{self.name}: {getattr(self.function, '__name__', self.function)} {what}")

    def _resolve(self) -> None:
        if not callable(self.function):
            raise TypeError(f"{self.name}: give the class {type(self.function).__name__} itself, not an object of it")
        self._check_kind()
        key_types = [given.key_type(self.name) for given in self.inputs if given.keys]
        if self.rows:
            check_made_of_rows(self.returns, self.name)
            check_keys_of_rows(self.inputs, self.name)
        parts = [
            [stored_type(given.schema.field(key).type) for key in given.keys] for given in self.inputs if given.keys
        ]
        if any(other != parts[0] for other in parts):
            raise SchemaError(f"{self.name}: the keys have types {key_types[0]} and {key_types[1]}: cast one before")
        schemas = tuple(given.schema for given in self.inputs)
        self._set(input_schemas=schemas, output_schema=self.returns, key_type=key_types[0] if key_types else None)


class Process(FunctionSpec):
    """A `ProcessFunction`."""


class KeyedProcess(FunctionSpec):
    """A `KeyedProcessFunction`; its one input has a key."""


class CoProcess(FunctionSpec):
    """A `CoProcessFunction`, or a `KeyedCoProcessFunction` where both inputs are keyed."""

    hooks: ClassVar[tuple[str, ...]] = ("process_element1", "process_element2")


def check_keys_of_rows(inputs: tuple[FunctionInput, ...], operator: str) -> None:
    """Raise SchemaError for a key that Python cannot hold as it is: its state would be that of another one."""
    for given in inputs:
        for key in given.keys:
            if has_nanosecond_times(given.schema.field(key).type):
                raise SchemaError(
                    f"{operator}: the key {key!r} is {given.schema.field(key).type}, and Python's time has no "
                    "nanoseconds: cast it to time64('us') before, or use process_batches"
                )

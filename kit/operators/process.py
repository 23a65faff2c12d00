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

from kit.operators.function_operator import (
    FunctionContext,
    FunctionInput,
    FunctionOperator,
    KeyedFunctionOperator,
    ProcessContext,
)
from kit.operators.rows import Row
from kit.operators.spec import ResolvedSpec, SchemaError
from kit.state.arrow_types import stored_type


class ProcessFunction:
    """What a user writes for a stream without a key: any number of rows, also to side outputs, for each."""

    def open(self, ctx: FunctionContext) -> None:
        """Called once before the first row."""

    def process_element(self, row: Row, ctx: FunctionContext) -> None:
        """Called for each row, a dict; `ctx.emit(...)` or `ctx.output(tag, ...)` what comes of it."""
        raise NotImplementedError(f"{type(self).__name__} does not define process_element(row, ctx)")


class KeyedProcessFunction:
    """What a user writes for a keyed stream: all hooks but `process_element` may be left out."""

    def open(self, ctx: ProcessContext) -> None:
        """Called once before the first row."""

    def process_element(self, row: Row, ctx: ProcessContext) -> None:
        """Called for each row, a dict; `ctx.emit(...)` what comes of it."""
        raise NotImplementedError(f"{type(self).__name__} does not define process_element(row, ctx)")

    def on_timer(self, timestamp_ms: int, ctx: ProcessContext) -> None:
        """Called when a timer fires, for the key it was registered for."""


class CoProcessFunction:
    """What a user writes for two connected streams: a hook for the rows of each."""

    def open(self, ctx: FunctionContext) -> None:
        """Called once before the first row."""

    def process_element1(self, row: Row, ctx: FunctionContext) -> None:
        """Called for each row of the first stream."""
        raise NotImplementedError(f"{type(self).__name__} does not define process_element1(row, ctx)")

    def process_element2(self, row: Row, ctx: FunctionContext) -> None:
        """Called for each row of the second stream."""
        raise NotImplementedError(f"{type(self).__name__} does not define process_element2(row, ctx)")


class KeyedCoProcessFunction:
    """What a user writes for two connected keyed streams: rows of both with one key see one state."""

    def open(self, ctx: ProcessContext) -> None:
        """Called once before the first row."""

    def process_element1(self, row: Row, ctx: ProcessContext) -> None:
        """Called for each row of the first stream."""
        raise NotImplementedError(f"{type(self).__name__} does not define process_element1(row, ctx)")

    def process_element2(self, row: Row, ctx: ProcessContext) -> None:
        """Called for each row of the second stream."""
        raise NotImplementedError(f"{type(self).__name__} does not define process_element2(row, ctx)")

    def on_timer(self, timestamp_ms: int, ctx: ProcessContext) -> None:
        """Called when a timer fires, for the key it was registered for."""


@dataclass(frozen=True, eq=False, repr=False)
class FunctionSpec(ResolvedSpec):
    """`function` is the class (or what else makes one function a subtask); its rows have the schema `returns`."""

    inputs: tuple[FunctionInput, ...]
    function: Callable[[], Any]
    returns: pa.Schema

    hooks: ClassVar[tuple[str, ...]] = ("process_element",)

    def create(self) -> FunctionOperator:
        """One subtask's operator."""
        kind = FunctionOperator if self.key_type is None else KeyedFunctionOperator
        return kind(self.name, self.function(), self.returns, self.inputs, self.hooks)

    def _resolve(self) -> None:
        if not callable(self.function):
            raise TypeError(f"{self.name}: give the class {type(self.function).__name__} itself, not an object of it")
        key_types = [given.key_type(self.name) for given in self.inputs if given.keys]
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

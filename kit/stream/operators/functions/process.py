"""A function per row, on one stream or on two, for everything that the other operators do not cover.

Write a class derived from one of those here. On a keyed stream the context provides the states and timers of the row's
key; a timer calls `on_timer` with the key it was set for. On two streams there is a hook for each, and both share the
state: that is how one stream is joined to, or controlled by, another.

Follows Flink's `ProcessFunction`, `KeyedProcessFunction`, `CoProcessFunction` and `KeyedCoProcessFunction`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import Parameter, isasyncgenfunction, iscoroutinefunction, isfunction, signature
from typing import Any, ClassVar

import pyarrow as pa

from kit.stream.backend.states.descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor
from kit.stream.backend.states.state_definition import Aspects
from kit.stream.backend.types.arrow_types import has_nanosecond_times, stored_type
from kit.stream.operators.functions.checkpointed import CheckpointedFunction
from kit.stream.operators.functions.function_bases import check_bases
from kit.stream.operators.functions.function_operator import (
    FunctionInput,
    FunctionOperator,
    KeyedFunctionOperator,
    KeyedProcessFunctionContext,
    ProcessFunctionContext,
    check_one_clock,
    key_aspects,
)
from kit.stream.operators.functions.returned import Emitted
from kit.stream.operators.rows import Row
from kit.stream.operators.spec import ResolvedSpec, SchemaError, check_made_of_rows


class ProcessFunction:
    """The base of a user's function for a stream without a key: any number of rows, also to side outputs, for each.

    Each hook gets a `ProcessFunctionContext`: what it may do there.
    """

    def open(self, ctx: ProcessFunctionContext) -> None:
        """Prepare; called once before the first row, with a `ProcessFunctionContext`."""

    def process_element(self, row: Row, ctx: ProcessFunctionContext) -> Emitted:
        """Process a row, a dict, and emit any number: `ctx.emit(row)` or `yield row`.

        For a side output, use `ctx.output(tag, row)` or `yield tag, row`. `ctx` is a `ProcessFunctionContext`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define process_element(row, ctx)")


class KeyedProcessFunction:
    """The base of a user's function for a keyed stream; only `process_element` is required.

    Each hook gets a `KeyedProcessFunctionContext`: state, timers, output.
    """

    def open(self, ctx: KeyedProcessFunctionContext) -> None:
        """Prepare; called once before the first row, with a `KeyedProcessFunctionContext`."""

    def process_element(self, row: Row, ctx: KeyedProcessFunctionContext) -> Emitted:
        """Process a row, a dict, and emit any number: `ctx.emit(row)` or `yield row`.

        `ctx` is a `KeyedProcessFunctionContext`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define process_element(row, ctx)")

    def on_timer(self, timestamp_ms: int, ctx: KeyedProcessFunctionContext) -> Emitted:
        """Handle a timer that fires, for the key it was registered for.

        `ctx` is a `KeyedProcessFunctionContext`, whose `timestamp_ms` is the timer's.
        """


class CoProcessFunction:
    """The base of a user's function for two connected streams: a hook for the rows of each.

    Each hook gets a `ProcessFunctionContext`.
    """

    def open(self, ctx: ProcessFunctionContext) -> None:
        """Prepare; called once before the first row, with a `ProcessFunctionContext`."""

    def process_element1(self, row: Row, ctx: ProcessFunctionContext) -> Emitted:
        """Process a row of the first stream; `ctx` is a `ProcessFunctionContext`."""
        raise NotImplementedError(f"{type(self).__name__} does not define process_element1(row, ctx)")

    def process_element2(self, row: Row, ctx: ProcessFunctionContext) -> Emitted:
        """Process a row of the second stream; `ctx` is a `ProcessFunctionContext`."""
        raise NotImplementedError(f"{type(self).__name__} does not define process_element2(row, ctx)")


class KeyedCoProcessFunction:
    """The base of a user's function for two connected keyed streams: rows of both with one key share its state.

    Each hook gets a `KeyedProcessFunctionContext`.
    """

    def open(self, ctx: KeyedProcessFunctionContext) -> None:
        """Prepare; called once before the first row, with a `KeyedProcessFunctionContext`."""

    def process_element1(self, row: Row, ctx: KeyedProcessFunctionContext) -> Emitted:
        """Process a row of the first stream; `ctx` is a `KeyedProcessFunctionContext`."""
        raise NotImplementedError(f"{type(self).__name__} does not define process_element1(row, ctx)")

    def process_element2(self, row: Row, ctx: KeyedProcessFunctionContext) -> Emitted:
        """Process a row of the second stream; `ctx` is a `KeyedProcessFunctionContext`."""
        raise NotImplementedError(f"{type(self).__name__} does not define process_element2(row, ctx)")

    def on_timer(self, timestamp_ms: int, ctx: KeyedProcessFunctionContext) -> Emitted:
        """Handle a timer that fires, for the key it was registered for.

        `ctx` is a `KeyedProcessFunctionContext`, whose `timestamp_ms` is the timer's.
        """


_OPTIONAL = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


@dataclass(frozen=True, eq=False, repr=False)
class FunctionSpec(ResolvedSpec):
    """A user's function: the class, or another factory called per subtask; `returns` is the output's schema."""

    inputs: tuple[FunctionInput, ...]
    function: Callable[[], Any]
    returns: pa.Schema

    kinds: ClassVar[tuple[type, type]] = (ProcessFunction, KeyedProcessFunction)
    """The base class of a function without a key, and of one with a key."""
    hooks: ClassVar[tuple[str, ...]] = ("process_element",)
    acts: ClassVar[bool] = True
    rows: ClassVar[bool] = True
    """True if the function is called row by row."""

    def create(self) -> FunctionOperator:
        """Create one subtask's operator."""
        kind = FunctionOperator if self.key_type is None else KeyedFunctionOperator
        return kind(self.name, self.function(), self.returns, self.inputs, self.hooks)

    def state_aspects(self) -> Aspects:
        """Return the key; the function alone defines the rest of its state."""
        return key_aspects(self.inputs)

    def _check_functions(self) -> None:
        """Leave the check of the function to `_check_function`, since each subtask creates its own."""

    def declared_states(self) -> list[StateDescriptor]:
        """Return the descriptors that are attributes of the class, but for names that several of them have."""
        return self._descriptors(StateDescriptor) if self.key_type is not None else []

    def declared_operator_states(self) -> Sequence[StateDescriptor]:
        """Return the same of a `CheckpointedFunction`: the descriptors of lists and maps, which have no TTL."""
        if not (isinstance(self.function, type) and issubclass(self.function, CheckpointedFunction)):
            return []
        found = self._descriptors(ListStateDescriptor | MapStateDescriptor)
        return [descriptor for descriptor in found if descriptor.ttl is None]

    def _descriptors(self, kinds: Any) -> list[StateDescriptor]:
        names = dir(self.function) if isinstance(self.function, type) else ()
        found = [value for name in names if isinstance(value := getattr(self.function, name, None), StateDescriptor)]
        named = Counter(descriptor.name for descriptor in {id(each): each for each in found}.values())
        return [each for each in found if named[each.name] == 1 and isinstance(each, kinds)]

    def _check_function(self) -> None:
        """Raise TypeError for anything that does not create a function of the right kind."""
        function = self.function
        keyed = any(given.keys for given in self.inputs)
        wanted, other = self.kinds[::-1] if keyed else self.kinds
        if not callable(function):
            raise TypeError(f"{self.name}: give the class {type(function).__name__} itself, not an object of it")
        name = getattr(function, "__name__", repr(function))
        if isinstance(function, type) and not issubclass(function, wanted):
            what = f"is not derived from {wanted.__name__}"
            if issubclass(function, other) and keyed:
                what = f"is a {other.__name__}: derive it from {wanted.__name__}, since the stream has a key"
            elif issubclass(function, other):
                what = f"is a {other.__name__}, and the stream has no key: call key_by(...) before process"
            raise TypeError(f"{self.name}: {name} {what}")
        if needed := _arguments_needed(function):
            instead = (
                f"lambda: {name}(...)" if isinstance(function, type) else f"a class derived from {wanted.__name__}"
            )
            raise TypeError(f"{self.name}: {name} is called without arguments and needs {needed}: give {instead}")
        if isinstance(function, type):
            check_hooks(self.name, function)
            check_bases(function, self.name)

    def _resolve(self) -> None:
        self._check_function()
        key_types = [given.key_type(self.name) for given in self.inputs if given.keys]
        if len(self.inputs) == 2:
            check_one_clock(*self.inputs, self.name)
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


def check_hooks(operator: str, function: type) -> None:
    """Raise TypeError for a function class with a hook that would never be called, or never run."""
    bases = [kind for kind in function.__mro__ if kind.__module__.startswith(f"{__package__}.")]
    hooks = {name for kind in bases for name, hook in vars(kind).items() if isfunction(hook) and name[0] != "_"}
    plain = {_plain(name): name for name in hooks}
    for name in filter(lambda name: name[0] != "_", dir(function)):
        hook, meant = getattr(function, name), plain.get(_plain(name), name)
        if meant != name:
            raise TypeError(f"{operator}: {function.__name__}.{name} would never be called: the hook is named {meant}")
        if name in hooks and (iscoroutinefunction(hook) or isasyncgenfunction(hook)):
            raise TypeError(f"{operator}: {function.__name__}.{name} is async, and hooks run in turn: use a plain def")


def _arguments_needed(function: Callable[..., Any]) -> str:
    """Return the required arguments of a function, by name; "" if there are none or they are unknown."""
    try:
        parameters = signature(function).parameters.values()
    except (TypeError, ValueError):
        return ""
    needed = [each.name for each in parameters if each.default is each.empty and each.kind not in _OPTIONAL]
    return ", ".join(needed)


def _plain(name: str) -> str:
    """Return the common form of a name such as `processElement` and `process_element`."""
    return name.replace("_", "").lower()


class Process(FunctionSpec):
    """A `ProcessFunction`."""


class KeyedProcess(FunctionSpec):
    """A `KeyedProcessFunction`; its one input has a key."""


class CoProcess(FunctionSpec):
    """A `CoProcessFunction`, or a `KeyedCoProcessFunction` if both inputs are keyed."""

    kinds: ClassVar[tuple[type, type]] = (CoProcessFunction, KeyedCoProcessFunction)
    hooks: ClassVar[tuple[str, ...]] = ("process_element1", "process_element2")


def check_keys_of_rows(inputs: tuple[FunctionInput, ...], operator: str) -> None:
    """Raise SchemaError for a key that Python cannot hold exactly: it would share the state of another one."""
    for given in inputs:
        for key in given.keys:
            if has_nanosecond_times(given.schema.field(key).type):
                raise SchemaError(
                    f"{operator}: the key {key!r} is {given.schema.field(key).type}, and Python's time has no "
                    "nanoseconds: cast it to time64('us') before, or use process_batches"
                )

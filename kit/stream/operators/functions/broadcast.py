"""A stream that every subtask receives, and that controls how a function processes another stream.

The function keeps data of the broadcast stream (rules, rates) in broadcast state. These are maps that every subtask
writes in the same way, because each receives the same rows. Rows of the other stream may only read them. Each subtask
restores one copy, at any parallelism.

Follows Flink's `BroadcastProcessFunction` and `KeyedBroadcastProcessFunction`, with `CoBroadcastWithKeyedOperator` and
`CoBroadcastWithNonKeyedOperator`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from kit.stream.backend.operator_store import BroadcastState
from kit.stream.backend.states.descriptors import MapStateDescriptor, StateDescriptor
from kit.stream.backend.states.keyed_states import KeyedState
from kit.stream.operators.functions.function_operator import (
    FunctionOperator,
    KeyedFunctionOperator,
    KeyedProcessFunctionContext,
    ProcessFunctionContext,
)
from kit.stream.operators.functions.process import FunctionSpec
from kit.stream.operators.functions.returned import Emitted, never_runs
from kit.stream.operators.rows import Row


class BroadcastProcessFunction:
    """The base of a user's function for a stream connected with a broadcast one.

    Rows of the stream come with a `ReadOnlyContext`, those of the broadcast one with a `BroadcastContext`.
    """

    def open(self, ctx: ReadOnlyContext) -> None:
        """Prepare; called once before the first row, with a `ReadOnlyContext`."""

    def process_element(self, row: Row, ctx: ReadOnlyContext) -> Emitted:
        """Process a row of the stream; `ctx.broadcast_state(...)` can be read.

        `ctx` is a `ReadOnlyContext`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define process_element(row, ctx)")

    def process_broadcast_element(self, row: Row, ctx: BroadcastContext) -> Emitted:
        """Process a row of the broadcast stream, in every subtask; `ctx.broadcast_state(...)` can be written.

        `ctx` is a `BroadcastContext`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define process_broadcast_element(row, ctx)")


class KeyedBroadcastProcessFunction:
    """The base of a user's function for a keyed stream connected with a broadcast one.

    Rows and timers of the keyed stream come with a `KeyedReadOnlyContext`, rows of the broadcast one with a
    `KeyedBroadcastContext`.
    """

    def open(self, ctx: KeyedReadOnlyContext) -> None:
        """Prepare; called once before the first row, with a `KeyedReadOnlyContext`."""

    def process_element(self, row: Row, ctx: KeyedReadOnlyContext) -> Emitted:
        """Process a row of the keyed stream, with its key's state and timers; broadcast state can be read.

        `ctx` is a `KeyedReadOnlyContext`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define process_element(row, ctx)")

    def process_broadcast_element(self, row: Row, ctx: KeyedBroadcastContext) -> Emitted:
        """Process a row of the broadcast stream, in every subtask; broadcast state can be written.

        `ctx` is a `KeyedBroadcastContext`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define process_broadcast_element(row, ctx)")

    def on_timer(self, timestamp_ms: int, ctx: KeyedReadOnlyContext) -> Emitted:
        """Handle a timer that fires, for the key it was registered for; `ctx` is a `KeyedReadOnlyContext`."""


class ReadOnlyBroadcastState:
    """Broadcast state as rows of the other stream see it."""

    def __init__(self, state: BroadcastState) -> None:
        self._state = state

    def get(self, key: Any) -> Any:
        """Return the value under `key`, or None."""
        return self._state.get(key)

    def contains(self, key: Any) -> bool:
        """Return True if there is an entry under `key`."""
        return self._state.contains(key)

    def items(self) -> list[tuple[Any, Any]]:
        """Return the entries, by key."""
        return self._state.items()

    def __repr__(self) -> str:
        return f"ReadOnlyBroadcastState({self._state.name!r}, {len(self._state)} entries)"


class BroadcastContext(ProcessFunctionContext):
    """A function's view of a broadcast row."""

    _operator: BroadcastOperator | KeyedBroadcastOperator

    def broadcast_state(self, descriptor: MapStateDescriptor) -> BroadcastState:
        """Return a map to write; every subtask must write the same."""
        return self._operator.broadcast_state(descriptor)


class KeyedBroadcastContext(BroadcastContext):
    """A function's view of a broadcast row beside a keyed stream."""

    _operator: KeyedBroadcastOperator

    def apply_to_keyed_state(self, descriptor: StateDescriptor, function: Callable[[Any, KeyedState], Any]) -> None:
        """Call `function(key, state)` for every key of this subtask that has an entry in the state."""
        self._operator.apply_to_keyed_state(descriptor, function)


class ReadOnlyContext(ProcessFunctionContext):
    """A function's view of a row that is not broadcast."""

    _operator: BroadcastOperator

    def broadcast_state(self, descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState:
        """Return a map to read."""
        return ReadOnlyBroadcastState(self._operator.broadcast_state(descriptor))


class KeyedReadOnlyContext(KeyedProcessFunctionContext):
    """A function's view of a row or timer of the keyed stream."""

    _operator: KeyedBroadcastOperator

    def broadcast_state(self, descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState:
        """Return a map to read."""
        return ReadOnlyBroadcastState(self._operator.broadcast_state(descriptor))


class _WithBroadcastState(FunctionOperator):
    """An operator whose second input is broadcast."""

    states: tuple[MapStateDescriptor, ...] = ()

    def initialize_state(self) -> None:
        """Register the maps."""
        super().initialize_state()
        self._maps = {each.name: self.context.operator_state.broadcast_state(each) for each in self.states}

    def broadcast_state(self, descriptor: MapStateDescriptor) -> BroadcastState:
        """Return the map of a descriptor that was passed to `broadcast(...)`."""
        if descriptor not in self.states:
            given = ", ".join(each.name for each in self.states)
            raise KeyError(f"{descriptor.name!r} is not one of the states passed to broadcast(): {given}")
        return self._maps[descriptor.name]


class BroadcastOperator(_WithBroadcastState):
    """The operator that calls a `BroadcastProcessFunction`."""

    def create_contexts(self) -> list[Any]:
        """Return a context for reading and one for writing."""
        return [ReadOnlyContext(self), BroadcastContext(self)]


class KeyedBroadcastOperator(_WithBroadcastState, KeyedFunctionOperator):
    """The operator that calls a `KeyedBroadcastProcessFunction`."""

    def create_contexts(self) -> list[Any]:
        """Return a context for reading, with state and timers, and one for writing."""
        return [KeyedReadOnlyContext(self), KeyedBroadcastContext(self)]

    def apply_to_keyed_state(self, descriptor: StateDescriptor, function: Callable[[Any, KeyedState], Any]) -> None:
        """Call a function for every key that has an entry in a state."""
        backend = self.context.keyed_state
        table, state = backend.table(descriptor), self.state(descriptor)
        for keys, *_ in backend.keys(table):
            for key in keys.to_pylist():
                backend.set_current_key(key)
                if never_runs(function(key, state)):
                    raise TypeError("apply_to_keyed_state: the function yields or is async, so it runs nothing")
            backend.make_room()


@dataclass(frozen=True, eq=False, repr=False)
class BroadcastProcess(FunctionSpec):
    """A `BroadcastProcessFunction`, or a `KeyedBroadcastProcessFunction` if the first input is keyed.

    The second input is broadcast, and `states` are the maps that the function may keep of it.
    """

    states: tuple[MapStateDescriptor, ...] = ()

    kinds: ClassVar[tuple[type, type]] = (BroadcastProcessFunction, KeyedBroadcastProcessFunction)
    hooks: ClassVar[tuple[str, ...]] = ("process_element", "process_broadcast_element")

    def declared_operator_states(self) -> Sequence[StateDescriptor]:
        """Return the maps that are broadcast, and the states that the function's class declares."""
        return (*self.states, *super().declared_operator_states())

    def create(self) -> FunctionOperator:
        """Create one subtask's operator."""
        kind = BroadcastOperator if self.key_type is None else KeyedBroadcastOperator
        operator = kind(self.name, self.function(), self.returns, self.inputs, self.hooks)
        operator.states = self.states
        return operator

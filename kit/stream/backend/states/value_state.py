"""Value state: one value per key. Follows `ValueState`."""

from __future__ import annotations

from typing import Any, cast

from kit.stream.backend.states.descriptors import StateKind, ValueStateDescriptor
from kit.stream.backend.states.tables import KeyedState, StateTable
from kit.stream.backend.types.value_types import MisfitError


class ValueState(KeyedState):
    """The value of the current key. The code for a run is inlined, because it runs for each row."""

    __slots__ = ()

    def value(self) -> Any:
        """Return the value of the current key, or the descriptor's default."""
        table = self._table
        run = table.context.run
        if run is None or table.nested or not table.in_runs:
            value = self._read()
        else:
            within = table.run
            if within.of is not run:
                within = table.begin(run)
            value = within.entries[run.position]
        return table.default if value is None else value

    def update(self, value: Any) -> None:
        """Set the value; None removes it."""
        table = self._table
        run = table.context.run
        if value is None or run is None or not table.in_runs:
            self._set(None if value is None else table.converted(value, table.convert))
            return
        try:
            value = table.convert(value)
        except MisfitError:
            table.converted(value, table.convert)  # raises with the reason
            raise
        within = table.run
        if within.of is not run:
            within = table.begin(run)
        position = run.position
        within.entries[position] = value
        within.changed[position] = 1


class ValueTable(StateTable):
    """The values of all keys."""

    kind = StateKind.VALUE
    view = ValueState

    @property
    def default(self) -> Any:
        """The descriptor's default."""
        return cast(ValueStateDescriptor, self.descriptor).default

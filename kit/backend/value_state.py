"""Value state: one value for each key. Follows `ValueState`."""

from __future__ import annotations

from typing import Any, cast

from kit.backend.descriptors import StateKind, ValueStateDescriptor
from kit.backend.tables import KeyedState, StateTable


class ValueState(KeyedState):
    """One value for each key."""

    __slots__ = ()

    def value(self) -> Any:
        """The value of the current key, or the descriptor's default."""
        value = self._read()
        return self._table.default if value is None else value

    def update(self, value: Any) -> None:
        """Set the value; None removes it."""
        if value is None:
            self.clear()
        else:
            self._write(value)


class ValueTable(StateTable):
    """The values of all keys."""

    kind = StateKind.VALUE
    view = ValueState

    @property
    def default(self) -> Any:
        """What the descriptor says."""
        return cast(ValueStateDescriptor, self.descriptor).default

"""A user-defined operator state repartitioner, and its contract.

Follows Flink's `OperatorStateRepartitioner`; the default implementation is `kit.machines.restore.repartition`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from kit.core.state.handles import OperatorStreamStateHandle
from kit.machines.restore.repartition import Handles, repartition_state
from kit.stream.settings.parts import Factory, PartError, UserDefinedPart, made

Repartition = Callable[[Sequence[Handles], int, int], Sequence[Handles]]


@runtime_checkable
class OperatorStateRepartitioner(Protocol):
    """A part that redistributes operator state to the new subtasks (`kit.stream.settings.parts.Parts`).

    Follows Flink's `OperatorStateRepartitioner`.
    """

    def repartition_state(
        self, previous: Sequence[Handles], old_parallelism: int, new_parallelism: int
    ) -> Sequence[Handles]:
        """Return the handles of each new subtask.

        `previous` has the handles of each old subtask, none for one without state. A handle is a stream with the
        offsets of each name's entries; a handle with fewer offsets has fewer entries.
        """


class OwnRepartitioner(UserDefinedPart):
    """The checks and messages of a user-defined repartitioner."""

    RETURNS = {"repartition_state": (list, tuple)}
    __slots__ = ()


def repartition_with(own: Factory | None) -> Repartition:
    """Return the function that redistributes operator state; `own` creates a user-defined repartitioner.

    A repartitioner that breaks its contract raises PartError, now or when it is called.
    """
    if own is None:
        return repartition_state
    name = "operator_state_repartitioner"
    part = made(name, own, OperatorStateRepartitioner, OwnRepartitioner)  # type: ignore[type-abstract]

    def repartition(previous: Sequence[Handles], old_parallelism: int, new_parallelism: int) -> Sequence[Handles]:
        dealt = part.repartition_state(previous, old_parallelism, new_parallelism)
        if len(dealt) != new_parallelism:
            raise PartError(
                f"{name} of your own, {part!r}, distributed state to {len(dealt)} of {new_parallelism} subtasks"
            )
        for handle in (handle for handles in dealt for handle in handles):
            if not isinstance(handle, OperatorStreamStateHandle):
                raise PartError(
                    f"{name} of your own, {part!r}, returned {handle!r}: expected an OperatorStreamStateHandle"
                )
        return dealt

    return repartition

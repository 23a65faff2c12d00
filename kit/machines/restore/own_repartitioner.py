"""An operator state repartitioner of the user's own, and what it is held to.

Follows Flink's `OperatorStateRepartitioner`; the kit's own is `kit.machines.restore.repartition`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from kit.core.state.handles import OperatorStreamStateHandle
from kit.machines.restore.repartition import Handles, repartition_state
from kit.stream.settings.parts import Factory, OwnPart, PartError, made

Repartition = Callable[[Sequence[Handles], int, int], Sequence[Handles]]


@runtime_checkable
class OperatorStateRepartitioner(Protocol):
    """Deals operator state out to the new subtasks (`kit.stream.settings.parts.Parts`).

    Follows Flink's `OperatorStateRepartitioner`.
    """

    def repartition_state(
        self, previous: Sequence[Handles], old_parallelism: int, new_parallelism: int
    ) -> Sequence[Handles]:
        """What each new subtask gets: `previous` has the handles of each old subtask, none for one without state. A
        handle is a stream with the places of the entries of each name in it; one with fewer places has fewer entries.
        """


class OwnRepartitioner(OwnPart):
    """A repartitioner of the user's own."""

    RETURNS = {"repartition_state": (list, tuple)}
    __slots__ = ()


def repartition_with(own: Factory | None) -> Repartition:
    """The function that deals operator state out; `own` makes the user's repartitioner.

    Raises PartError, then and when it is called, for what does not keep the contract.
    """
    if own is None:
        return repartition_state
    name = "operator_state_repartitioner"
    part = made(name, own, OperatorStateRepartitioner, OwnRepartitioner)  # type: ignore[type-abstract]

    def repartition(previous: Sequence[Handles], old_parallelism: int, new_parallelism: int) -> Sequence[Handles]:
        dealt = part.repartition_state(previous, old_parallelism, new_parallelism)
        if len(dealt) != new_parallelism:
            raise PartError(f"{name} of your own, {part!r}, dealt out to {len(dealt)} of {new_parallelism} subtasks")
        for handle in (handle for handles in dealt for handle in handles):
            if not isinstance(handle, OperatorStreamStateHandle):
                raise PartError(
                    f"{name} of your own, {part!r}, dealt out {handle!r}: expected an OperatorStreamStateHandle"
                )
        return dealt

    return repartition

"""Which copy of a subtask's state to restore from first, where a machine still has some of it.

With task-local recovery a task finds, besides the state that the JobMaster assigned to it (the truth), copies on its
own disk. A copy may stand in for the truth only if it is of the same thing: operator state with the same entries at
the same offsets, keyed state of the same key groups. Keyed state is mixed: every handle of the truth is replaced by the
first copy of its key groups. Operator and channel state is taken whole, and only where the truth is a single handle:
several mean a rescale, which no copy knows of. The truth comes last, in case a copy turns out to be damaged.

Follows `PrioritizedOperatorSubtaskState`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeVar

from kit.core.state.channel_handles import InputStateHandle, OutputStateHandle
from kit.core.state.handles import KeyedStateHandle, OperatorStreamStateHandle
from kit.core.state.operator_state import EMPTY_SUBTASK_STATE, OperatorSubtaskState

T = TypeVar("T")
Handles = Sequence[T]
Alternatives = tuple[Handles[T], ...]
"""What to try, best first."""


@dataclass(frozen=True, slots=True)
class PrioritizedOperatorSubtaskState:
    """What one subtask of one operator may be restored from: for each kind the alternatives, the truth last.

    `restored_checkpoint_id` is None for an operator that does not come from a checkpoint.
    """

    managed_operator_state: Alternatives[OperatorStreamStateHandle]
    raw_operator_state: Alternatives[OperatorStreamStateHandle]
    managed_keyed_state: Alternatives[KeyedStateHandle]
    raw_keyed_state: Alternatives[KeyedStateHandle]
    input_channel_state: Alternatives[InputStateHandle]
    result_subpartition_state: Alternatives[OutputStateHandle]
    restored_checkpoint_id: int | None = None

    @classmethod
    def of(
        cls,
        truth: OperatorSubtaskState,
        copies: Sequence[OperatorSubtaskState | None] = (),
        restored_checkpoint_id: int | None = None,
    ) -> PrioritizedOperatorSubtaskState:
        """`truth` as the JobMaster assigned it, and the `copies` in order of preference, None for one that is gone."""
        found = [copy for copy in copies if copy is not None]
        kinds = {
            kind: order(getattr(truth, kind), [getattr(copy, kind) for copy in found], identity)
            for kind, (order, identity) in _ORDERS.items()
        }
        return cls(**kinds, restored_checkpoint_id=restored_checkpoint_id)

    @property
    def is_restored(self) -> bool:
        """Whether the operator took part in the checkpoint, even if it stored nothing there."""
        return self.restored_checkpoint_id is not None


def mixed_alternative(
    truth: Handles[T], copies: Sequence[Handles[T]], identity: Callable[[T], Hashable]
) -> Handles[T] | None:
    """The truth with every handle replaced by the first copy of the same identity; None where there is no copy."""
    wanted = {identity(handle): handle for handle in truth}
    replaced: dict[Hashable, T] = {}
    for copy in copies:
        for handle in copy:
            name = identity(handle)
            if name in wanted:
                replaced.setdefault(name, handle)
    return tuple((wanted | replaced).values()) if replaced else None


def _mixed(truth: Handles[T], copies: Sequence[Handles[T]], identity: Callable[[T], Hashable]) -> Alternatives[T]:
    best = mixed_alternative(truth, copies, identity)
    return (truth,) if best is None else (best, truth)


def _whole(truth: Handles[T], copies: Sequence[Handles[T]], identity: Callable[[T], Any]) -> Alternatives[T]:
    if len(truth) != 1:
        return (truth,)
    wanted = identity(truth[0])
    return (*(copy for copy in copies if len(copy) == 1 and identity(copy[0]) == wanted), truth)


def _channels(handle: Any) -> Any:
    """The channel whose buffers these are; of a merged handle, all of them."""
    return getattr(handle, "info", None) or tuple(part.info for part in handle.contents)


_ORDERS: dict[str, tuple[Callable[..., Alternatives[Any]], Callable[[Any], Any]]] = {
    "managed_operator_state": (_whole, attrgetter("state_name_to_partition_offsets")),
    "raw_operator_state": (_whole, attrgetter("state_name_to_partition_offsets")),
    "managed_keyed_state": (_mixed, attrgetter("key_group_range")),
    "raw_keyed_state": (_mixed, attrgetter("key_group_range")),
    "input_channel_state": (_whole, _channels),
    "result_subpartition_state": (_whole, _channels),
}
"""How each kind is put in order, and what makes a copy one of the same thing."""

NOT_RESTORED = PrioritizedOperatorSubtaskState.of(EMPTY_SUBTASK_STATE)
"""Of an operator that begins from nothing (`emptyNotRestored`)."""

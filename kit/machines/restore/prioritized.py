"""The order in which copies of a subtask's state are tried, if its machine still has some of it.

With task-local recovery a task finds copies on its own disk, besides the state that the JobMaster assigned to it (the
truth). A copy may replace the truth only if it is of the same state: operator state with the same entries at the same
offsets, or keyed state of the same key groups. Keyed state is mixed: every handle of the truth is replaced by the first
copy of its key groups. Operator and channel state is replaced as a whole, and only if the truth is a single handle,
because several handles mean a rescale, which no copy reflects. The truth comes last, in case a copy is damaged.

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
from kit.core.state.subtask_state_kind import SubtaskStateKind

T = TypeVar("T")
Handles = Sequence[T]
Alternatives = tuple[Handles[T], ...]
"""The alternatives to try, best first."""


@dataclass(frozen=True, slots=True)
class PrioritizedOperatorSubtaskState:
    """The alternatives that one subtask of one operator may be restored from, by kind, with the truth last.

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
        """Create it from the assigned `truth` and the `copies` in order of preference, None for a missing one."""
        found = [copy for copy in copies if copy is not None]
        kinds = {
            kind.field: order(truth.of_kind(kind), [copy.of_kind(kind) for copy in found], identity)
            for kind, (order, identity) in _ORDERS.items()
        }
        return cls(**kinds, restored_checkpoint_id=restored_checkpoint_id)

    def of_kind(self, kind: SubtaskStateKind) -> Alternatives[Any]:
        """Return the alternatives for one kind of state."""
        alternatives: Alternatives[Any] = getattr(self, kind.field)
        return alternatives

    @property
    def is_restored(self) -> bool:
        """True if the operator took part in the checkpoint, even if it stored nothing there."""
        return self.restored_checkpoint_id is not None


def mixed_alternative(
    truth: Handles[T], copies: Sequence[Handles[T]], identity: Callable[[T], Hashable]
) -> Handles[T] | None:
    """Return the truth with every handle replaced by the first copy of the same identity; None without copies."""
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
    """Return the channel of these buffers; for a merged handle, all channels."""
    return getattr(handle, "info", None) or tuple(part.info for part in handle.contents)


_ORDERS: dict[SubtaskStateKind, tuple[Callable[..., Alternatives[Any]], Callable[[Any], Any]]] = {
    SubtaskStateKind.MANAGED_OPERATOR: (_whole, attrgetter("state_name_to_partition_offsets")),
    SubtaskStateKind.RAW_OPERATOR: (_whole, attrgetter("state_name_to_partition_offsets")),
    SubtaskStateKind.MANAGED_KEYED: (_mixed, attrgetter("key_group_range")),
    SubtaskStateKind.RAW_KEYED: (_mixed, attrgetter("key_group_range")),
    SubtaskStateKind.INPUT_CHANNEL: (_whole, _channels),
    SubtaskStateKind.RESULT_SUBPARTITION: (_whole, _channels),
}
"""For each kind, the function that orders the alternatives, and the identity of a handle."""

NOT_RESTORED = PrioritizedOperatorSubtaskState.of(EMPTY_SUBTASK_STATE)
"""The state of an operator that starts empty (`emptyNotRestored`)."""

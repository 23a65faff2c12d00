"""The operator coordinators of a job, and the gate that keeps their events on the right side of a barrier.

A coordinator and its operator are snapshotted at different moments: the coordinator first, the operator when its
barrier passes. An event that the coordinator sends in between would be in neither snapshot, or in both. So from its
snapshot until the sources have been told to send their barriers the coordinator's events are held; then they are let
go, behind the trigger on the same ordered way.

Follows Flink's `OperatorCoordinatorHolder` and `SubtaskGatewayImpl`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kit.graph.job_graph import ChainedOperator, JobVertex
from kit.operators.source import SourceSpec
from kit.operators.source_coordinator import SourceCoordinator

Payload = dict[str, Any]
Deliver = Callable[[str, int, Payload], None]


class OperatorCoordinatorHolder:
    """One coordinator, the splits it began with, and the events that wait behind its gate."""

    def __init__(self, operator: ChainedOperator, vertex: JobVertex, deliver: Deliver) -> None:
        self.operator_id = operator.operator_id
        self.name = operator.name
        self.vertex = vertex.name
        self._deliver = deliver
        self._splits: Sequence[dict[str, Any]] = ()
        self._parallelism = vertex.parallelism
        self._coordinator = SourceCoordinator(self.operator_id, vertex.parallelism)
        self._closed_for: int | None = None
        self._held: list[tuple[int, Payload]] = []

    def start(self, splits: Sequence[dict[str, Any]]) -> None:
        """What there is to read, as the source enumerated it."""
        self._splits = splits
        self._coordinator.start(splits)

    def reset(self, state: bytes | None, parallelism: int) -> None:
        """Go back to a checkpoint's state, or to the beginning when it has none (`resetToCheckpoint`)."""
        self._parallelism = parallelism
        self._coordinator = SourceCoordinator(self.operator_id, parallelism)
        self._coordinator.restore(state, self._splits)
        self._closed_for = None
        self._held = []

    def handle_event(self, subtask: int, payload: Payload) -> None:
        """An operator's subtask said something; answer at once, or hold the answers while the gate is closed."""
        for receiver, answer in self._coordinator.handle_event(subtask, payload):
            if self._closed_for is None:
                self._deliver(self.operator_id, receiver, answer)
            else:
                self._held.append((receiver, answer))

    def checkpoint(self, checkpoint_id: int) -> bytes:
        """Snapshot the coordinator and close the gate behind it."""
        self._closed_for = checkpoint_id
        return self._coordinator.checkpoint()

    def open_gate(self) -> None:
        """The barriers are on their way, or the checkpoint was given up: let the events go."""
        self._closed_for = None
        held, self._held = self._held, []
        for receiver, answer in held:
            self._deliver(self.operator_id, receiver, answer)

    def __repr__(self) -> str:
        gate = "open" if self._closed_for is None else f"closed for chk-{self._closed_for}, {len(self._held)} held"
        return f"OperatorCoordinatorHolder({self.name}, gate {gate})"


def has_coordinator(operator: ChainedOperator) -> bool:
    """Whether an operator has a coordinator: sources do."""
    return isinstance(operator.spec, SourceSpec)

"""The operator coordinators of a job, and the gates that keep their events on the right side of a barrier.

A coordinator and its operator are snapshotted at different moments: the coordinator first, the operator when its
barrier passes. An event that the coordinator sends in between would be in neither snapshot, or in both. So from its
snapshot until a subtask has been told to send its barrier the coordinator's events for that subtask are held; then
they are let go, behind the trigger on the same ordered way.

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
    """One coordinator, the splits it began with, and the events that wait behind its subtasks' gates."""

    def __init__(self, operator: ChainedOperator, vertex: JobVertex, deliver: Deliver) -> None:
        self.operator_id = operator.operator_id
        self.name = operator.name
        self.vertex = vertex.name
        self._deliver = deliver
        self._splits: Sequence[dict[str, Any]] = ()
        self._parallelism = vertex.parallelism
        self._coordinator = SourceCoordinator(self.operator_id, vertex.parallelism)
        self._closed: set[int] = set()
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
        self._closed = set()
        self._held = []

    def handle_event(self, subtask: int, payload: Payload) -> None:
        """A subtask said something; answer at once, or hold an answer while its receiver's gate is closed."""
        for receiver, answer in self._coordinator.handle_event(subtask, payload):
            if receiver in self._closed:
                self._held.append((receiver, answer))
            else:
                self._deliver(self.operator_id, receiver, answer)

    def checkpoint(self) -> bytes:
        """Snapshot the coordinator and close all gates behind it."""
        self._closed = set(range(self._parallelism))
        return self._coordinator.checkpoint()

    def open_gate(self, subtask: int) -> None:
        """The subtask has been told to send its barrier: let its events go."""
        self._closed.discard(subtask)
        self._let_go()

    def open_gates(self) -> None:
        """No subtask will be told any more, for instance because the checkpoint was given up: let all events go."""
        self._closed = set()
        self._let_go()

    def _let_go(self) -> None:
        free = [(receiver, answer) for receiver, answer in self._held if receiver not in self._closed]
        self._held = [(receiver, answer) for receiver, answer in self._held if receiver in self._closed]
        for receiver, answer in free:
            self._deliver(self.operator_id, receiver, answer)

    def __repr__(self) -> str:
        gates = f"closed to {sorted(self._closed)}, {len(self._held)} held" if self._closed else "open"
        return f"OperatorCoordinatorHolder({self.name}, gates {gates})"


def has_coordinator(operator: ChainedOperator) -> bool:
    """Whether an operator has a coordinator: sources do."""
    return isinstance(operator.spec, SourceSpec)

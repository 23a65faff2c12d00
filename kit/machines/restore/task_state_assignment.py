"""One vertex during state assignment: its old state, and the assignment of each new subtask.

Follows `TaskStateAssignment`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kit.core.state.handles import StateObject
from kit.core.state.operator_state import OperatorState
from kit.core.state.subtask_state_kind import SubtaskStateKind
from kit.machines.restore.errors import FinishedOperatorsError
from kit.machines.restore.exchange_end import ExchangeEnd
from kit.machines.restore.operator_id_pair import OperatorIDPair
from kit.machines.restore.topology import AssignmentVertex


class TaskStateAssignment:
    """One vertex, the state of its operators (`states`, by generated id), and both ends of its exchanges.

    Raises FinishedOperatorsError if only some of the operators had finished.
    """

    def __init__(self, vertex: AssignmentVertex, states: dict[str, OperatorState]) -> None:
        head, tail = vertex.input_operator, vertex.output_operator
        self.vertex = vertex
        self.states = states
        self.max_parallelism = vertex.current_max_parallelism
        self.is_fully_finished = _is_fully_finished(vertex, states)
        self.has_non_finished_state = any(state.subtask_states for state in states.values())
        self.inputs = ExchangeEnd(vertex, head, states[head.generated_id], is_input=True)
        self.outputs = ExchangeEnd(vertex, tail, states[tail.generated_id], is_input=False)
        self.assigned: dict[str, Mapping[SubtaskStateKind, Sequence[Sequence[StateObject]]]] = {}
        """The operator and keyed state of each new subtask, by operator and by kind; kinds without any are absent."""

    def operator(self, generated_id: str) -> OperatorIDPair:
        """Return the ids of one of the operators."""
        return next(pair for pair in self.vertex.operators if pair.generated_id == generated_id)

    @property
    def is_rescaled(self) -> bool:
        """True if the vertex runs at another parallelism than in the checkpoint."""
        return any(state.parallelism != self.vertex.parallelism for state in self.states.values())

    @property
    def is_affected(self) -> bool:
        """True if its subtasks need a restore: for state of their own, or because of in-flight data around them."""
        return self.has_non_finished_state or self.inputs.has_state_opposite or self.outputs.has_state_opposite


def _is_fully_finished(vertex: AssignmentVertex, states: dict[str, OperatorState]) -> bool:
    finished = [pair for pair in vertex.operators if states[pair.generated_id].fully_finished]
    if finished and len(finished) < len(vertex.operators):
        running = [pair.label for pair in vertex.operators if pair not in finished]
        raise FinishedOperatorsError(
            "JobVertex could not have mixed finished and unfinished operators",
            f"In '{vertex.name}' these had finished: {', '.join(pair.label for pair in finished)}; these had not: "
            f"{', '.join(running)}. Keep them in different chains, as they were when the checkpoint was taken.",
        )
    return bool(finished)

"""The check that a checkpoint's finished tasks fit the job that is restored from it, before anything is assigned.

Records flow from vertex to vertex, so a vertex cannot have finished before those it reads from. A changed program can
violate that: an operator added before one that had finished would produce records that no operator reads. The check is
made for a savepoint or a first start, where the program may have changed, and not on failover.

Follows Flink's `VertexFinishedStateChecker` (since 1.14).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from kit.core.state.operator_state import OperatorState
from kit.machines.restore.errors import FinishedOperatorsError
from kit.machines.restore.operator_id_pair import OperatorIDPair
from kit.machines.restore.topology import AssignmentVertex
from kit.stream.graph.job_graph import JobEdge


class VertexFinishedState(Enum):
    """The part of a vertex that had finished; the value is the wording of messages."""

    ALL_RUNNING = "all running"
    PARTIALLY_FINISHED = "partially finished"
    FULLY_FINISHED = "fully finished"


def validate_operators_finished_state(
    vertices: Sequence[AssignmentVertex],
    inputs: Mapping[str, Sequence[JobEdge]],
    operator_states: Mapping[str, OperatorState],
) -> None:
    """Check the states, by operator id, against the vertices and the `inputs` of each, by its name.

    Raises FinishedOperatorsError if a chain mixes finished and unfinished operators, or if a vertex had finished more
    than one that it reads from.
    """
    finished = {vertex.name: _state_of_vertex(vertex, operator_states) for vertex in vertices}
    for vertex in vertices:
        if finished[vertex.name] is VertexFinishedState.FULLY_FINISHED:
            for edge in inputs.get(vertex.name, ()):
                if finished[edge.source] is not VertexFinishedState.FULLY_FINISHED:
                    raise _refused(vertex.name, "fully finished", edge, finished[edge.source])
        elif finished[vertex.name] is VertexFinishedState.PARTIALLY_FINISHED:
            _check_inputs_of_partially_finished(vertex.name, inputs.get(vertex.name, ()), finished)


def _check_inputs_of_partially_finished(
    vertex: str, inputs: Sequence[JobEdge], finished: Mapping[str, VertexFinishedState]
) -> None:
    """Check a partially finished vertex: over an all-to-all edge, no subtask finishes before all upstream ones."""
    all_to_all = {edge.source for edge in inputs if not edge.is_pointwise}
    for edge in inputs:
        state = finished[edge.source]
        allowed = state is VertexFinishedState.FULLY_FINISHED or (
            edge.source not in all_to_all and state is VertexFinishedState.PARTIALLY_FINISHED
        )
        if not allowed:
            raise _refused(vertex, "partially finished", edge, state)


def _refused(vertex: str, had: str, edge: JobEdge, state: VertexFinishedState) -> FinishedOperatorsError:
    exchange = "a pointwise edge" if edge.is_pointwise else "an all-to-all edge"
    return FinishedOperatorsError(
        "Illegal JobGraph modification.",
        f"In the checkpoint vertex '{vertex}' is {had}, but '{edge.source}', which it reads from over {exchange}, is "
        f"{state.value}: nobody would read what that sends. Leave the part of the program before a finished operator "
        "as it was, or start without this state.",
    )


def _state_of_vertex(vertex: AssignmentVertex, states: Mapping[str, OperatorState]) -> VertexFinishedState:
    found = {pair.label: _state_of_operator(pair, states) for pair in vertex.operators}
    if len(set(found.values())) > 1:
        listed = ", ".join(f"{label} {state.value}" for label, state in found.items())
        raise FinishedOperatorsError(
            f"Can not restore vertex {vertex.name} which contain mixed operator finished state.",
            f"In the checkpoint its operators are: {listed}. They are one task now, which cannot run in part: keep "
            "those that had finished in a chain of their own.",
        )
    return next(iter(found.values()))


def _state_of_operator(pair: OperatorIDPair, states: Mapping[str, OperatorState]) -> VertexFinishedState:
    by_user = states.get(pair.user_defined_id) if pair.user_defined_id is not None else None
    state = by_user or states.get(pair.generated_id)
    if state is None:
        return VertexFinishedState.ALL_RUNNING
    if state.fully_finished:
        return VertexFinishedState.FULLY_FINISHED
    partly = any(subtask.finished for subtask in state.subtask_states.values())
    return VertexFinishedState.PARTIALLY_FINISHED if partly else VertexFinishedState.ALL_RUNNING

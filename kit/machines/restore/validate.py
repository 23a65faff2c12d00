"""The check that a checkpoint fits the job, after it is loaded and before anything is assigned.

State of operators that the job does not have is rejected unless that is allowed; empty state is ignored. A recorded
maximum parallelism must be the job's, unless the job configures none. `assign_states` checks again, more strictly and
with other messages. Follows `Checkpoints.loadAndValidateCheckpoint`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kit.core.state.operator_state import OperatorState
from kit.machines.restore.errors import CLI_ADVICE, MaxParallelismError, NonRestoredStateError, advice_for, described
from kit.machines.restore.operator_id_pair import OperatorIDPair
from kit.machines.restore.topology import AssignmentVertex


def load_and_validate(
    vertices: Sequence[AssignmentVertex],
    operator_states: Iterable[OperatorState],
    *,
    pointer: str,
    allow_non_restored_state: bool = False,
) -> dict[str, OperatorState]:
    """Return the operator states that the job can restore, by operator id.

    `pointer` is the path of the checkpoint. Raises MaxParallelismError and NonRestoredStateError.

    Flink: `Checkpoints.loadAndValidateCheckpoint`.
    """
    owners = {
        operator_id: (vertex, pair)
        for vertex in vertices
        for pair in vertex.operators
        for operator_id in (pair.generated_id, pair.user_defined_id)
    }
    loaded = {}
    for state in operator_states:
        if state.operator_id in owners:
            _check_max_parallelism(state, *owners[state.operator_id])
            loaded[state.operator_id] = state
        elif not allow_non_restored_state and state.has_state():
            raise _not_in_the_job(state, pointer)
    return loaded


def _check_max_parallelism(state: OperatorState, vertex: AssignmentVertex, pair: OperatorIDPair) -> None:
    expected, found = vertex.current_max_parallelism, state.max_parallelism
    if found == expected or vertex.max_parallelism is None:
        return
    raise MaxParallelismError(
        "Failed to rollback to checkpoint/savepoint Checkpoint Metadata. Max parallelism mismatch between "
        f"checkpoint/savepoint state and new program. Cannot map operator {state.operator_id} with max parallelism "
        f"{found} to new program with max parallelism {expected}. This indicates that the program has been changed in "
        "a non-compatible way after the checkpoint/savepoint.",
        f"The state is that of {described(state, pair)}, now in '{vertex.name}'. Configure a maximum parallelism of "
        f"{found} there, or none: it is then taken from the checkpoint.",
    )


def _not_in_the_job(state: OperatorState, pointer: str) -> NonRestoredStateError:
    return NonRestoredStateError(
        f"Failed to rollback to checkpoint/savepoint {pointer}. Cannot map checkpoint/savepoint state for operator "
        f"{state.operator_id} to the new program, because the operator is not available in the new program."
        f"{CLI_ADVICE}",
        f"The state is that of {described(state)}. {advice_for(state)}",
    )

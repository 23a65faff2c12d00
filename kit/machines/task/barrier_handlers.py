"""Which barrier handler a task uses: a question of the job's checkpoint settings, unless the user has one.

Follows Flink's `InputProcessorUtil.createCheckpointBarrierHandler`.
"""

from __future__ import annotations

from kit.machines.channel.input_gate import InputGates
from kit.machines.task.barrier_handler import BarrierActions, CheckpointBarrierHandler
from kit.machines.task.barrier_tracker import CheckpointBarrierTracker
from kit.machines.task.single_barrier_handler import SingleCheckpointBarrierHandler
from kit.stream.settings.job_settings import CheckpointConfig
from kit.stream.settings.parts import Factory, OwnPart, made


class OwnBarrierHandler(OwnPart):
    """A barrier handler of the user's own. It leads to snapshots; what an operator raises there is not its fault."""

    BEYOND = frozenset({"kit.machines.task.chain"})
    __slots__ = ()


def create_barrier_handler(
    settings: CheckpointConfig, gates: InputGates, actions: BarrierActions, own: Factory | None = None
) -> CheckpointBarrierHandler:
    """At least once counts barriers; exactly once aligns them, or with `unaligned` does as each barrier says: even
    then savepoints are aligned, and checkpoints too while there is time. `own` makes the user's.
    """
    after_finish = settings.checkpoints_after_tasks_finish
    if own is not None:
        return made(
            "barrier_handler",
            own,
            CheckpointBarrierHandler,  # type: ignore[type-abstract]
            OwnBarrierHandler,
            gates,
            actions,
            checkpoints_after_tasks_finish=after_finish,
        )
    if not settings.is_exactly_once:
        return CheckpointBarrierTracker(gates, actions, checkpoints_after_tasks_finish=after_finish)
    if settings.unaligned:
        return SingleCheckpointBarrierHandler.alternating(gates, actions, checkpoints_after_tasks_finish=after_finish)
    return SingleCheckpointBarrierHandler.aligned(gates, actions, checkpoints_after_tasks_finish=after_finish)

"""The choice of a task's barrier handler: from the job's checkpoint settings, or defined by the user.

Follows Flink's `InputProcessorUtil.createCheckpointBarrierHandler`.
"""

from __future__ import annotations

from kit.machines.channel.input_gate import InputGates
from kit.machines.task.barrier_handler import BarrierActions, CheckpointBarrierHandler
from kit.machines.task.barrier_tracker import CheckpointBarrierTracker
from kit.machines.task.single_barrier_handler import SingleCheckpointBarrierHandler
from kit.stream.settings.job_settings import CheckpointConfig
from kit.stream.settings.parts import Factory, UserDefinedPart, made


class OwnBarrierHandler(UserDefinedPart):
    """A user-defined barrier handler. It triggers snapshots, but is not blamed for errors of operators in them."""

    BEYOND = frozenset({"kit.machines.task.chain"})
    __slots__ = ()


def create_barrier_handler(
    settings: CheckpointConfig, gates: InputGates, actions: BarrierActions, own: Factory | None = None
) -> CheckpointBarrierHandler:
    """Create the handler for these settings, or with `own` the user-defined one.

    At least once counts barriers; exactly once aligns them. With `unaligned`, each barrier decides: savepoints are
    aligned even then, and so are checkpoints that have a timeout, until it elapses.
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

"""Advice on slow checkpoints, from a run of the kit or from the answers of Flink's REST API.

`read_flink` reads a running job, or answers that were saved; `figures_of` takes the statistics of a run. `advise` names
the phases and subtasks that take the time, and the documented remedies. `checkpoint_interval` computes an interval from
the cost of a checkpoint and the rate of failures. `plan_parallelism` finds a parallelism and a maximum parallelism that
spread given keys evenly.
"""

from kit.advice.advise import advise
from kit.advice.advised import Advice, Remedy
from kit.advice.figures import CheckpointFigures, figures_of
from kit.advice.flink_rest import read_flink, save_flink
from kit.advice.interval import checkpoint_interval
from kit.advice.plan import ParallelismPlan, plan_key_groups, plan_parallelism

__all__ = [
    "Advice",
    "CheckpointFigures",
    "ParallelismPlan",
    "Remedy",
    "advise",
    "checkpoint_interval",
    "figures_of",
    "plan_key_groups",
    "plan_parallelism",
    "read_flink",
    "save_flink",
]

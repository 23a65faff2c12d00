"""Why are this job's checkpoints slow, and what helps: from a run of the kit, or from what Flink's REST API answers.

`read_flink` reads a running job, or answers that were saved; `figures_of` takes the statistics of a run. `advise` says
which phase of which subtask takes the time, and which documented remedy applies. `checkpoint_interval` computes an
interval from what a checkpoint costs and how often the job fails. `plan_parallelism` says which parallelism, and which
maximum, spread given keys evenly.
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

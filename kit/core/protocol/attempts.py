"""The attempts of a job's tasks: how often each has been deployed.

All tasks are deployed in each epoch of the job, and those of one region whenever that region is restarted. So the
attempt of a task is the epoch, plus the restarts of its region in between. It identifies late messages of an earlier
attempt.

Follows Flink's attempt number of an `Execution`, which counts from 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Attempts:
    """The present attempt of every task: `epoch`, or more for the tasks in `restarted`."""

    epoch: int = 0
    restarted: Mapping[str, int] = field(default_factory=dict)

    def of(self, task: str) -> int:
        """Return the attempt of a task."""
        return self.restarted.get(task, self.epoch)

    def of_next_epoch(self) -> Attempts:
        """Return the attempts after every task has been deployed again."""
        return Attempts(self.epoch + 1, {task: attempt + 1 for task, attempt in self.restarted.items()})

    def after_restart(self, tasks: Iterable[str]) -> Attempts:
        """Return the attempts after these tasks have been deployed again."""
        return Attempts(self.epoch, {**self.restarted, **{task: self.of(task) + 1 for task in tasks}})

    def __repr__(self) -> str:
        others = f", {len(self.restarted)} tasks restarted in between" if self.restarted else ""
        return f"Attempts(epoch {self.epoch}{others})"

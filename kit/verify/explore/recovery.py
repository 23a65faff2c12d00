"""The result of a failure now: the job is restored and runs to its end, in one of the possible orders.

In any order, a job whose checkpoints are consistent publishes each row once. So one order is enough to see that a
checkpoint is not: state from a row that its sources will read again leads to a duplicate. It is computed once for each
newest checkpoint and content of the disks.
"""

from __future__ import annotations

import numpy as np

from kit.machines.job.job_master import JobMaster
from kit.verify.explore.kinds import FAULTS
from kit.verify.explore.space import Space
from kit.verify.explore.steps import Step
from kit.verify.explore.tables import Rows

MOST_STEPS = 20_000
KILL = Step("kill")


class Recovery:
    """The continuation of states of a space after a worker has died."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._steps = [step for step in space.steps if step.kind not in FAULTS and step.kind != "request"]
        self._ends: dict[tuple[int, ...], Rows] = {}

    def end_after_failure(self, row: Rows) -> Rows:
        """Return where the job ends if worker 0 dies in the state of `row` and nothing is requested any more."""
        space = self._space
        master = space.machines[0].machines[row[0, 0]]
        newest = master.checkpoints.store.latest_id if isinstance(master, JobMaster) else -1
        disks = row[0, space.disk + 1 : space.disk + len(space.machine_names)]
        key = (newest, *disks.tolist())
        end = self._ends.get(key)
        if end is None:
            end = self._ends[key] = self._go_on(row)
        return end

    def _go_on(self, row: Rows) -> Rows:
        space = self._space
        row = row.copy()
        row[:, space.failed], row[:, space.asked] = space.faults - 1, space.requests
        _, killed = space.successors(row, KILL)
        row = killed if len(killed) else row
        for _ in range(MOST_STEPS):
            after = next((made for step in self._steps if len(made := space.successors(row, step)[1])), None)
            if after is None or np.array_equal(after, row):
                break
            row = after
        return row

    def __repr__(self) -> str:
        return f"Recovery({len(self._ends)} ends)"

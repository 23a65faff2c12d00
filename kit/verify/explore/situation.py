"""A state of an exploration as properties see it: what they read is recorded, so that it is judged once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kit.core.protocol.words import Machine
from kit.hosts.lab.world.edge import LabEdge
from kit.machines.job.job_master import JobMaster
from kit.verify.explore.machines import Broken
from kit.verify.explore.properties import Property, Row, Situation
from kit.verify.explore.space import Space
from kit.verify.explore.steps import FAULTS, Step
from kit.verify.explore.tables import Keys, Rows, mixed

Verdicts = npt.NDArray[np.bool_]
MOST_STEPS = 20_000
"""The most steps from a failure to the end of the job."""


class Recovery:
    """The result of a failure now: the job is restored and runs to its end, in one of the possible orders.

    In any order, a job whose checkpoints are consistent publishes each row once. So one order is enough to see that a
    checkpoint is not: state from a row that its sources will read again leads to a duplicate. It is computed once for
    each newest checkpoint and content of the disks.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self._steps = [step for step in space.steps if step.kind not in FAULTS and step.kind != "request"]
        self._ends: dict[tuple[int, ...], Rows] = {}

    def end_after_failure(self, row: Rows) -> Rows:
        """Return where the job ends if all workers die in the state of `row` and nothing is requested any more."""
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
        row[:, space.asked] = space.requests
        for slot in space.slots:
            row[:, space.failed] = space.faults - 1
            _, killed = space.successors(row, Step("kill", 0, slot))
            row = killed if len(killed) else row
        row[:, space.failed] = space.faults
        for _ in range(MOST_STEPS):
            after = next((made for step in self._steps if len(made := space.successors(row, step)[1])), None)
            if after is None or np.array_equal(after, row):
                break
            row = after
        return row


class RowSituation(Situation):
    """One row of a space; the columns that are read are added to `seen`."""

    def __init__(
        self,
        space: Space,
        row: npt.NDArray[np.int32],
        seen: set[int],
        *,
        at_rest: bool = False,
        recovery: Recovery | None = None,
    ) -> None:
        self._space = space
        self._row = row
        self._seen = seen
        self.at_rest = at_rest
        self._recovery = recovery

    def machine(self, name: str) -> Machine | None:
        column = self._space.number_of[name]
        self._seen.add(column)
        found = self._space.machines[column].machines[self._row[column]]
        return None if isinstance(found, Broken) else found

    def disks(self) -> Sequence[LabEdge]:
        """Return one disk for each machine."""
        columns = range(self._space.disk, self._space.disk + len(self._space.machine_names))
        self._seen.update(columns)
        return [self._space.disks.edges[self._row[column]] for column in columns]

    def output_after_failure(self) -> list[Row]:
        """Return all rows that are published in the end."""
        self._seen.add(0)
        self.disks()
        recovery = self._recovery or Recovery(self._space)
        end = recovery.end_after_failure(self._row[None, :])
        return RowSituation(self._space, end[0], set()).output()

    def __repr__(self) -> str:
        return f"RowSituation({self._space!r})"


class Judge:
    """A judge of one property in many states: those that look the same to it are judged once."""

    def __init__(self, space: Space, judged: Property) -> None:
        self.property = judged
        self._space = space
        self._columns: list[int] = []
        self._known: dict[int, bool] = {}
        self._recovery = Recovery(space)

    def holds(self, rows: Rows, *, at_rest: bool = False) -> Verdicts:
        """Return whether the property holds in each of the rows."""
        verdicts = np.zeros(len(rows), bool)
        left = np.arange(len(rows))
        while len(left):
            keys = self._keys(rows[left])
            different, first, which = np.unique(keys, return_index=True, return_inverse=True)
            found = np.zeros(len(different), bool)
            for place, key in enumerate(different.tolist()):
                known = self._known.get(key)
                if known is None:
                    seen: set[int] = set()
                    row = rows[left[first[place]]]
                    now = RowSituation(self._space, row, seen, at_rest=at_rest, recovery=self._recovery)
                    known = bool(self.property.holds(now))
                    if not seen <= set(self._columns):
                        self._columns = sorted(seen.union(self._columns))
                        self._known.clear()
                        break
                    self._known[key] = known
                found[place] = known
            else:
                verdicts[left] = found[which.ravel()]
                left = left[:0]
        return verdicts

    def _keys(self, rows: Rows) -> Keys:
        key = np.full(len(rows), np.uint64(0x9E3779B97F4A7C15))
        for column in self._columns:
            key = mixed(key + rows[:, column].astype(np.uint64) + np.uint64(1))
        return key

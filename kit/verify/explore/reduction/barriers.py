"""The positions of barriers, and whether more may come, in rows of a space, for `kit.verify.explore.reduction`."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from kit.core.protocol.elements import CheckpointBarrier
from kit.core.protocol.messages import TriggerTaskCheckpoint
from kit.machines.job.job_master import RESTART_TIMER, JobMaster
from kit.verify.explore.space import EXPIRY, Space
from kit.verify.explore.tables import Rows, of_one

Mask = npt.NDArray[np.bool_]
_BEGIN_SNAPSHOTS = (CheckpointBarrier, TriggerTaskCheckpoint)


class Barriers:
    """The barriers of a space."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._sources = {task: self._sources_of(task) for task in space.tasks}
        self._above = {task: self._channels_above(task) for task in space.tasks}
        self._idle = of_one(self.is_idle)
        self._untimed = of_one(self._are_expiries)
        self._held = of_one(self._holds_one)

    def _sources_of(self, task: int) -> frozenset[int]:
        """Return the source tasks that a task's records come from."""
        inputs = self._space.inputs[task]
        return frozenset({task}) if not inputs else frozenset().union(*(self._sources_of(each) for _, each in inputs))

    def _channels_above(self, task: int) -> frozenset[int]:
        """Return the channels through which elements reach those of a task."""
        senders = [sender for _, sender in self._space.inputs[task]]
        own = {number for sender in senders for number, _ in self._space.inputs[sender]}
        return frozenset(own).union(*(self._channels_above(sender) for sender in senders))

    # --- where they are ---------------------------------------------------------------------------------------------

    def on(self, rows: Rows, channels: Iterable[int]) -> Mask:
        """Return where a barrier is on one of these channels."""
        return self._are_in(rows, (self._space.wires + number for number in channels))

    def may_overtake(self, rows: Rows, task: int) -> Mask:
        """Return where a barrier may still reach the elements on a task's channels; one already there has come."""
        are_triggered = self._are_in(rows, (self._space.mail_to + source for source in self._sources[task]))
        return ~self.cannot_begin(rows) | are_triggered | self.on(rows, self._above[task])

    def _are_in(self, rows: Rows, columns: Iterable[int]) -> Mask:
        found = np.zeros(len(rows), bool)
        for column in columns:
            found |= self._held.holds(rows[:, column])
        return found

    def _holds_one(self, queue: int) -> bool:
        words = (self._space.words[each] for each in self._space.queues.values[queue])
        return any(isinstance(getattr(each, "element", each), _BEGIN_SNAPSHOTS) for each in words)

    # --- whether more may come --------------------------------------------------------------------------------------

    def cannot_begin(self, rows: Rows) -> Mask:
        """Return where no checkpoint will begin before all input has been read."""
        asked_all: Mask = rows[:, self._space.asked] >= self._space.requests
        return asked_all & self._idle.holds(rows[:, 0]) & self.times_nothing(rows)

    def times_nothing(self, rows: Rows) -> Mask:
        """Return where the JobMaster has no timer that may begin something, since timers fire at any moment.

        The timer of a restart does not count: when it is set, the tasks have left or must leave first.
        """
        return self._untimed.holds(rows[:, self._space.timer])

    def _are_expiries(self, timers: int) -> bool:
        space = self._space
        names = [space.words[each].timer for each in space.timers.values[timers]]
        return all(name == RESTART_TIMER or name.startswith(EXPIRY) for name in names)

    def is_idle(self, state: int) -> bool:
        """Return True if no checkpoint is on its way to the tasks, or requested."""
        master = self._space.machines[0].machines[state]
        if not isinstance(master, JobMaster):
            return False
        coordinator = master.checkpoints
        return not (coordinator.decider.queue or coordinator.trigger.is_triggering)

"""How a user looks into a lab's state: `lab.state()` and `lab.queue(channel)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.hosts.lab.live_state import queue_table, state_tables
from kit.hosts.lab.world.world import World
from kit.snapshots.state_tables import StateTables

if TYPE_CHECKING:
    import pandas as pd


class StateDoors:
    """The part of a `Lab` that shows what its tasks hold."""

    _world: World

    @property
    def position(self) -> int:
        raise NotImplementedError

    def state(self, task: str | None = None, *, position: int | None = None) -> StateTables:
        """What the tasks hold now, as tables: keyed state, windows, timers, operator state by its mode, source
        positions, output that is not published, what is in flight. `task` is one task (`sums/1`) or a vertex
        (`sums`); `lab.state()["totals"]` is the DataFrame of one state. With `position` it is what they held after
        so many steps; the lab itself stays where it is.

        Raises LabError for a task or a position that there is not.
        """
        if position is None or position == self.position:
            return state_tables(self._world, task)
        other = self.fork()
        other.goto(position)
        return state_tables(other._world, task)

    def queue(self, channel: int | str) -> pd.DataFrame:
        """What is in a channel now, that first which is taken first, a row for each record: task, source, channel,
        place (where it waits), element (its number in the queue), kind, checkpoint_id and
        timestamp_ms (of a barrier or watermark), bytes, record. A channel is a number, or "left/0 -> sums/0".

        Raises LabError for a channel that there is not.
        """
        return queue_table(self._world, channel).to_pandas()

    def fork(self) -> StateDoors:
        raise NotImplementedError

    def goto(self, position: int) -> StateDoors:
        raise NotImplementedError

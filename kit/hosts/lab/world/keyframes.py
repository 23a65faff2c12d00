"""The moments of a run that the lab keeps a copy of: to go back is to take the last one before, and do the rest again.

Copies are at least `KEYFRAME_EVERY` steps apart, further the larger the job, so copying takes a small share of a run's
time. Going back is mostly going back a little: of more than `MOST_KEYFRAMES` copies those go that are close together
for their age, so the gaps grow in proportion to it, and the newest stay as close as they were taken, however long the
run. What has happened up to a moment is the beginning of what has happened up to now, so the trace is not copied: its
length is enough.
"""

from __future__ import annotations

import copy
from bisect import bisect_left

from kit.core.protocol.trace import Trace
from kit.hosts.lab.interrupts import interrupts_deferred
from kit.hosts.lab.world.world import World
from kit.run.uncollected import uncollected

KEYFRAME_EVERY = 300
"""Two copies are at least this many steps apart."""
STEPS_PER_PART = 6
"""So many steps more for each task and channel that is copied: about ten times what the copy takes."""
MOST_KEYFRAMES = 60


class Keyframes:
    """Copies of one run's worlds, oldest first."""

    def __init__(self) -> None:
        self._frames: list[tuple[int, int, World]] = []
        """Position, length of the trace, world."""
        self._ends: list[int] = []
        """How long the trace was after each step."""
        self._trace = Trace()
        """The trace of the run: it only grows, so what it had at a copy it still has."""

    def take(self, position: int, world: World) -> bool:
        """The run has come to this position: check and copy it, if it is time; returns whether it was.

        Raises AssertionError when an invariant is broken.
        """
        self._trace = world.trace
        self._ends[position - 1 :] = [len(world.trace)]
        since = position - self._frames[-1][0] if self._frames else position
        if self._frames and (since < KEYFRAME_EVERY or since < STEPS_PER_PART * world.size):
            return False
        world.validate()
        self._frames.append((position, len(world.trace), _without_trace(world)))
        if len(self._frames) > MOST_KEYFRAMES:
            del self._frames[self._most_dispensable()]
        return True

    def _most_dispensable(self) -> int:
        """The frame without which the gap between its neighbours is the smallest part of how long ago that is."""
        positions = [position for position, _, _ in self._frames]

        def gap(number: int) -> float:
            before = positions[number - 1]
            return (positions[number + 1] - before) / (positions[-1] - before)

        return min(range(1, len(positions) - 1), key=gap)

    def last_before(self, position: int) -> tuple[int, World]:
        """Return the last copy at or before `position`, to go on from; later ones are dropped."""
        while self._frames[-1][0] > position:
            self._frames.pop()
        at, records, frame = self._frames[-1]
        world = _without_trace(frame)
        world.trace = self._trace.first(records, stages=world.trace.stages)
        return at, world

    def position_of(self, records: int, most: int) -> int:
        """The step, at most `most`, in which the record came that made the trace so long."""
        return min(bisect_left(self._ends, records, hi=min(most, len(self._ends))) + 1, most)

    def copy(self) -> Keyframes:
        """The same copies, for a run with the same past."""
        other = Keyframes()
        other._frames, other._ends, other._trace = list(self._frames), list(self._ends), self._trace
        return other

    def __len__(self) -> int:
        return len(self._frames)

    def __repr__(self) -> str:
        return f"Keyframes({', '.join(str(position) for position, _, _ in self._frames)})"


def _without_trace(world: World) -> World:
    """A copy with an empty trace. All that is made stays, so Python need not look for garbage in it meanwhile, which
    would take as long as the copying.
    """
    trace = world.trace
    with interrupts_deferred(), uncollected():
        return copy.deepcopy(world, {id(trace): Trace(detailed=trace.detailed, stages=trace.stages)})

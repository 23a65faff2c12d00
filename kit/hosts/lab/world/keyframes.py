"""The copies that the lab keeps of its world. To go back, it takes the last copy before the target and repeats the
rest.

Copies are at least `KEYFRAME_EVERY` steps apart, further in a larger job, so copying takes a small part of a run's
time. Most moves go back only a little. So when there are more than `MOST_KEYFRAMES` copies, the lab drops those that
are close together for their age. The gaps grow in proportion to the age, and the newest copies stay close. The trace is
not copied: the trace at an earlier moment is a prefix of the present one, so its length is enough.
"""

from __future__ import annotations

import copy
from bisect import bisect_left

from kit.core.trace.trace import Trace
from kit.hosts.lab.interrupts import interrupts_deferred
from kit.hosts.lab.world.world import World
from kit.run.uncollected import uncollected

KEYFRAME_EVERY = 300
"""The least number of steps between two copies."""
STEPS_PER_PART = 6
"""The additional steps per task and channel that is copied, which take about ten times as long as the copy."""
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
        """Check and copy the world at this position if a copy is due; return True if it was.

        Raises AssertionError if an invariant is broken.
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
        """Return the frame whose removal leaves the smallest gap relative to its age."""
        positions = [position for position, _, _ in self._frames]

        def gap(number: int) -> float:
            before = positions[number - 1]
            return (positions[number + 1] - before) / (positions[-1] - before)

        return min(range(1, len(positions) - 1), key=gap)

    def last_before(self, position: int) -> tuple[int, World]:
        """Return the last copy at or before `position`, and drop later ones."""
        while self._frames[-1][0] > position:
            self._frames.pop()
        at, records, frame = self._frames[-1]
        world = _without_trace(frame)
        world.trace = self._trace.first(records, stages=world.trace.stages)
        return at, world

    def position_of(self, records: int, most: int) -> int:
        """Return the step, at most `most`, in which the trace reached this number of records."""
        return min(bisect_left(self._ends, records, hi=min(most, len(self._ends))) + 1, most)

    def copy(self) -> Keyframes:
        """Return the same copies, for a run with the same past."""
        other = Keyframes()
        other._frames, other._ends, other._trace = list(self._frames), list(self._ends), self._trace
        return other

    def __len__(self) -> int:
        return len(self._frames)


def _without_trace(world: World) -> World:
    """Return a copy with an empty trace. Garbage collection is off meanwhile: all new objects stay, and scanning them
    would take as long as copying.
    """
    trace = world.trace
    with interrupts_deferred(), uncollected():
        return copy.deepcopy(world, {id(trace): Trace(detailed=trace.detailed, stages=trace.stages)})

"""The moments of a run that the lab keeps a copy of: to go back is to take the last one before, and do the rest again.

A copy of a large job takes long, and a long run has many moments. So the larger the job, the further apart copies are,
and when there are too many every second one is dropped, and from then on they are twice as far apart. Copying then
takes at most a fixed share of a run's time, and at most `MOST_KEYFRAMES` worlds are held. What has happened up to a
moment is the beginning of what has happened up to now, so the trace is not copied: its length is enough.
"""

from __future__ import annotations

import copy

from kit.lab.world import World
from kit.protocol.trace import Trace

KEYFRAME_EVERY = 100
"""Two copies are at least this many steps apart."""
STEPS_PER_PART = 3
"""So many steps more for each task and channel that is copied: about ten times what the copy takes."""
MOST_KEYFRAMES = 40


class Keyframes:
    """Copies of one run's worlds, oldest first."""

    def __init__(self) -> None:
        self._frames: list[tuple[int, int, World]] = []
        """Position, length of the trace, world."""
        self._distance = KEYFRAME_EVERY

    def take(self, position: int, world: World) -> None:
        """The run has come to this position: copy it, if it is time."""
        if self._frames and position < self._frames[-1][0] + max(self._distance, STEPS_PER_PART * world.size):
            return
        self._frames.append((position, len(world.trace), _without_trace(world)))
        if len(self._frames) > MOST_KEYFRAMES:
            self._distance *= 2
            del self._frames[1::2]

    def last_before(self, position: int, trace: Trace) -> tuple[int, World]:
        """The last copy at or before `position`, to go on from; later ones are dropped. `trace` is that of the run."""
        while self._frames[-1][0] > position:
            self._frames.pop()
        at, records, frame = self._frames[-1]
        world = _without_trace(frame)
        world.trace = trace.first(records, stages=world.trace.stages)
        return at, world

    def copy(self) -> Keyframes:
        """The same copies, for a run with the same past."""
        other = Keyframes()
        other._frames, other._distance = list(self._frames), self._distance
        return other

    def __len__(self) -> int:
        return len(self._frames)

    def __repr__(self) -> str:
        return f"Keyframes({', '.join(str(position) for position, _, _ in self._frames)})"


def _without_trace(world: World) -> World:
    trace = world.trace
    return copy.deepcopy(world, {id(trace): Trace(detailed=trace.detailed, stages=trace.stages)})

"""The side of each checkpoint's cut on which the buffers of a run are, in the form of the diagram's document.

`Journey.crossing` decides it; this file only writes down what it says, channel by channel. A channel is divided as soon
as both of its tasks have copied their state, because its buffers keep their sides from then on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from kit.draw.space_time.space_time_looks import NAMES
from kit.run.checkpoint_words import Crossed
from kit.run.journeys import Crossing, Cut, Journey, Journeys

NEVER = -1
Side = tuple[int, int]
"""The last of a channel's buffers on a side, as its row of `elements`, and the look of the side. A channel's last side
has no end: its row is -1.
"""
_LOOKS: Mapping[Crossing | None, int] = {
    None: NAMES.index("records"),
    **{crossing: NAMES.index(crossing.name) for crossing in Crossing},
}


def look_in(sides: Sequence[Side], row: int) -> int:
    """Return the look of a channel's buffer in this row of `elements`, as `space_time_run.js` does."""
    return next(look for last, look in sides if last == NEVER or row <= last)


class _Buffer(NamedTuple):
    """A buffer with its row of `elements`, and the record at which it was queued."""

    row: int
    queued_n: int
    journey: Journey


@dataclass(slots=True)
class _Channel:
    """A channel's tasks, and its buffers in the order in which they were queued."""

    sender: str
    receiver: str
    buffers: list[_Buffer] = field(default_factory=list)


@dataclass(slots=True)
class CutSides:
    """The sides of one cut, by channel, and the numbers of buffers and of their records on each side."""

    sides: dict[int, list[Side]] = field(default_factory=dict)
    buffers: Counter[Crossing | None] = field(default_factory=Counter)
    records: Counter[Crossing | None] = field(default_factory=Counter)

    @property
    def crossed(self) -> Crossed:
        """What crosses the cut."""
        ways = (Crossing.IN_FLIGHT, Crossing.AGAINST)
        return Crossed(*(count[way] for way in ways for count in (self.buffers, self.records)))

    def add(self, number: int, channel: _Channel, cut: Cut) -> None:
        """Divide the buffers of a channel whose two tasks have copied their state.

        Those that are queued later are all after the cut, which is the last side.
        """
        copied = max(cut.instants[channel.sender], cut.instants[channel.receiver])
        later = bisect_left(channel.buffers, copied.n, key=lambda each: each.queued_n)
        sides = []
        for crossing, alike in groupby(channel.buffers[:later], key=lambda each: each.journey.crossing(cut)):
            on_it = [*alike]
            self.buffers[crossing] += len(on_it)
            self.records[crossing] += sum(each.journey.rows for each in on_it)
            sides.append((on_it[-1].row, _LOOKS[crossing]))
        self.sides[number] = [*sides, (NEVER, _LOOKS[Crossing.AFTER])]


class Sides:
    """The sides of all cuts of a run that may still be running."""

    def __init__(self) -> None:
        self._seen = 0
        self._channels: dict[int, dict[int, _Channel]] = {}
        """The channels by epoch and number."""
        self._known: dict[int, CutSides] = {}

    def follow(self, found: Journeys) -> None:
        """Note the elements that are new."""
        for row, each in enumerate(found.elements[self._seen :], self._seen):
            channels = self._channels.setdefault(each.epoch, {})
            if each.channel not in channels:
                channels[each.channel] = _Channel(each.sender, each.receiver)
            if each.kind == "buffer" and each.queued is not None:
                channels[each.channel].buffers.append(_Buffer(row, each.queued.n, each))
        self._seen = len(found.elements)

    def of(self, checkpoint: int, cut: Cut) -> CutSides:
        """Return the sides of a checkpoint's cut, of all channels whose two tasks have copied their state."""
        known = self._known.setdefault(checkpoint, CutSides())
        for number, channel in self._channels.get(cut.epoch, {}).items():
            if number not in known.sides and channel.sender in cut.instants and channel.receiver in cut.instants:
                known.add(number, channel, cut)
        return known

"""The scene of a run's present moment, kept up to date part by part.

A part is a task, a cell of a closed vertex, the box of a closed vertex, or a lane. A step redraws only the parts that
it touched. So the cost of a film depends on what happens in it, not on the size of the job. Redrawing everything gives
the same scene; tests compare the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kit.draw.stage.job_master_panel import Words, in_two_lines, panel_sprites, words_of, words_sprites
from kit.draw.stage.layout import Lane, Layout
from kit.draw.stage.scene import (
    Named,
    Scene,
    SceneContext,
    Sprite,
    Tally,
    bundle_sprites,
    cell_sprites,
    crowd_sprites,
    lane_sprites,
    task_sprites,
)
from kit.run.moments.job_state import ChannelMoment, Moment, collect_changed

Changes = dict[str, dict[str, str | float | None] | None]


def scene(layout: Layout, moment: Moment, words: Words | None = None) -> Scene:
    """Return the scene of a still picture of this moment; `words` are the moment's own unless given."""
    words = words_of(layout.stage, moment) if words is None else words
    if moment.job == "FAILED":
        words = in_two_lines(layout, words)
    return {**dict(words_sprites(layout, words)), **dict(panel_sprites(layout, moment)), **graph(layout, moment)}


def graph(layout: Layout, moment: Moment) -> Scene:
    """Return the sprites of this moment's tasks and channels."""
    drawing = Drawing(layout)
    drawing.draw(moment, Touched.all_of(layout, moment))
    return drawing.scene


@dataclass(slots=True)
class Touched:
    """The items that may have changed: tasks, channels, checkpoints, and messages in flight."""

    tasks: set[str]
    channels: set[int]
    checkpoints: set[int]
    messages: set[str]

    @classmethod
    def taken_from(cls, moment: Moment) -> Touched:
        """Return the items that have changed in a watched fold since the last call."""
        tasks, channels = collect_changed(moment.tasks), collect_changed(moment.channels)
        return cls(tasks, channels, collect_changed(moment.checkpoints), collect_changed(moment.messages))

    @classmethod
    def all_of(cls, layout: Layout, moment: Moment) -> Touched:
        """Everything."""
        channels = {number for lane in layout.lanes for number in lane.channels}
        return cls(set(layout.stage.tasks()), channels, set(moment.checkpoints), set(moment.messages))


class Drawing:
    """The scene of one stage, from moment to moment."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.scene: Scene = {}
        self._parts: dict[str, Scene] = {}
        self._tasks = {v.name: [f"{v.name}/{i}" for i in range(v.parallelism)] for v in layout.stage.vertices}
        self._lane_of: dict[int, Lane] = {number: lane for lane in layout.lanes for number in lane.channels}
        self._tallies = {lane.name: Tally() for lane in layout.lanes if len(lane.channels) > 1}
        self._target = {channel.number: channel.target for channel in layout.stage.channels}
        self._sent_to: dict[str, str] = {}
        self._seen = SceneContext(Moment(), frozenset(), "", {})
        self._begun = False

    def draw(self, moment: Moment, touched: Touched) -> Changes:
        """Return the changes that show this moment; only the `touched` items may differ from the moment before."""
        now, before = SceneContext.of(moment), self._seen
        whole = not self._begun or now.pending != before.pending
        acting = {context.acting.partition("@")[0] for context in (now, before)}
        tasks = touched.tasks | acting | {self._target[number] for number in touched.channels if number in self._target}
        for sent in touched.messages:
            message = moment.messages.get(sent)
            if message is not None:
                self._sent_to[sent] = message.task
            tasks.add(self._sent_to[sent] if message else self._sent_to.pop(sent, ""))
        changes: Changes = {}
        for vertex in self.layout.stage.vertices:
            own, closed = self._tasks[vertex.name], vertex.name in self.layout.closed
            mine = own if whole else [task for task in own if task in (touched.tasks if closed else tasks)]
            if not closed:
                for task in mine:
                    self._replace(f"t:{task}", task_sprites(self.layout, task, now), changes)
            elif mine or not acting.isdisjoint(own):
                self._replace(f"t:{vertex.name}", crowd_sprites(self.layout, vertex.name, own, now), changes)
                for task in mine:
                    self._replace(f"t:{task}", cell_sprites(self.layout, task, vertex.parallelism, now), changes)
        self._lanes(moment, touched.channels, whole, changes)
        self._seen, self._begun = now, True
        return changes

    def _lanes(self, moment: Moment, channels: Iterable[int], whole: bool, changes: Changes) -> None:
        """Redraw the lanes of these channels; if `whole`, all lanes of a single channel."""
        lanes: dict[str, Lane] = {}
        for number in sorted(channels):
            lane = self._lane_of.get(number)
            if lane is None:
                continue
            lanes[lane.name] = lane
            if len(lane.channels) > 1:
                self._tallies[lane.name].take(number, moment.channels.get(number, _EMPTY))
        if whole:
            lanes |= {lane.name: lane for lane in self.layout.lanes if len(lane.channels) == 1 or not self._begun}
        for name, lane in lanes.items():
            if len(lane.channels) > 1:
                self._replace(name, bundle_sprites(lane, self._tallies[name]), changes)
            else:
                channel = moment.channels.get(lane.channels[0], _EMPTY)
                self._replace(name, lane_sprites(lane, channel, moment), changes)

    def _replace(self, part: str, sprites: Named, changes: Changes) -> None:
        before, now = self._parts.get(part, {}), dict(sprites)
        changed = difference(before, now)
        if not changed:
            return
        changes |= changed
        self._parts[part] = now
        for name, change in changed.items():
            if change is None:
                del self.scene[name]
            else:
                self.scene[name] = now[name]


_EMPTY = ChannelMoment()


def difference(before: Scene, now: Scene) -> Changes:
    """Return the changes from one scene to the other: the new values per sprite, with None for removed items."""
    changes: Changes = {name: None for name in before if name not in now}
    for name, sprite in now.items():
        old: Sprite = before.get(name, {})
        if old == sprite:
            continue
        changed: dict[str, str | float | None] = {key: None for key in old if key not in sprite}
        changed |= {key: value for key, value in sprite.items() if old.get(key) != value}
        changes[name] = changed
    return changes

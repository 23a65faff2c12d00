"""A run as a film for `stage.js`: what changes from frame to frame, with the words and the facts of each.

A `Reel` makes the film of a run that goes on. It keeps the moment it has come to, and the drawing of it, so new frames
cost what happened in them; when the run went back and another way, it goes on from the last moment marked on the common
way. What it makes is JSON-like, and grows at the end:

- `stages`: one for each shape of the job: the picture's size and fixed parts, where boxes are, what the lanes carry;
- `frames`: each `{"stage", "told", "mark", "at", "n", "by", "about", "words", "set", "facts"}`. `told`: it belongs to
  the story. `words`: what happened, what came of it, because of what. `by` is the task that acted, or "job"; `about`
  names the things that it was about. `set` maps a sprite's name to the attributes that changed, or to None when it is
  gone; the first frame of a stage sets everything. A new sprite refers to what it has in common with others by `look`,
  its number in `looks`. `facts` are those of `kit.draw.facts` that changed;
- `notes`, for the reader: each `[n, text]` is for the frames with more than `n` records.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

from kit.draw import meanings
from kit.draw.drawing import Changes, Drawing, Touched
from kit.draw.facts import facts_of
from kit.draw.frames import Frame, Told, is_minor, story_of
from kit.draw.job_state import Moment, Running, is_of_the_job_master, task_of
from kit.draw.kinds import BULK, DETAIL, MAIN, MILESTONE, kind_of, level_of
from kit.draw.layout import Layout, lay_out
from kit.draw.legend import legend_data
from kit.draw.moment import advance
from kit.draw.run import Run, run_of
from kit.draw.stage import Stage, stage_for
from kit.draw.steps import Step, event_of, in_order, steps
from kit.draw.svg import backdrop
from kit.protocol.trace import TraceRecord, led_by

MOST_FRAMES = 1500
"""A film has at most about this many frames: of a longer run only those that matter more."""
MARK_EVERY = 1_000
"""Moments that are marked are at least so many records apart, and a part of the run."""
MARGIN = 30
Film = dict[str, Any]


def film(run: Any) -> Film:
    """The film of a Lab, a SparkJob or a Trace."""
    reel = Reel()
    reel.take(run_of(run))
    return reel.film


def film_layout(stage: Stage, closed: frozenset[str] | None = None) -> Layout:
    """Where everything is in a film: the graph alone."""
    return lay_out(stage, 8.0, 0.0, closed, MARGIN)


@dataclass(frozen=True, slots=True)
class _Mark:
    """A moment to go on from: the film had so many frames, the last of them this one."""

    frames: int
    moment: Moment


class Reel:
    """The film of one run, as far as it was taken in. `turned` are the vertices that somebody opened or closed."""

    def __init__(self, turned: Sequence[str] = ()) -> None:
        self.turned = tuple(turned)
        self.film: Film = {}
        self._begin()

    def _begin(self) -> None:
        self.film = {"stages": [], "frames": [], "looks": [], "notes": [], "legend": legend_data()}
        self._records: list[TraceRecord] = []
        self._by_id: dict[str, TraceRecord] = {}
        self._told: list[Told] = []
        self._met: dict[int, int] = {}
        self._marks: list[_Mark] = []
        self._shapes: dict[tuple[Any, ...], int] = {}
        self._stages: list[Stage] = []
        self._looks: dict[tuple[tuple[str, str | float | None], ...], int] = {}
        self._least = BULK
        self._alike: set[int | None] = set()
        self._go_on_from(Moment())

    def _go_on_from(self, moment: Moment) -> None:
        self._running = Running.watched(moment)
        self._stage: Stage | None = None
        self._shape = -1
        self._drawing: Drawing | None = None
        self._facts: dict[str, Any] = {}

    # --- taking in ----------------------------------------------------------------------------------------------------

    def take(self, run: Run) -> Film:
        """Take in what the run has done since. Gives what is new: `keep`, the number of frames that stay, what follows
        them under the names of the film, and `told` for those of the frames that stay whose part in the story changed.
        `anew`: nothing of the film stays as it was.
        """
        with _collector_paused():
            return self._take(run)

    def _take(self, run: Run) -> Film:
        known = self.film
        before = {name: len(self.film[name]) for name in ("stages", "looks", "frames")}
        new, keep = self._new_steps(run), len(self.film["frames"])
        levels = [max(map(level_of, group)) for group in new]
        least = self._least_level(levels)
        if not keep:
            self._least = least
            self._alike = _alike(new)
        elif keep + len(new) > 2 * MOST_FRAMES and least > self._least:
            self._begin()
            self._least, keep, new = least, 0, self._new_steps(run)
            levels, self._alike = [max(map(level_of, group)) for group in new], _alike(new)
        if not self.film["frames"]:
            self._show(run, ())
        for number, (group, level) in enumerate(zip(new, levels), 1):
            for record in group:
                advance(self._running, record)
                self._by_id[record.id] = record
            self._records += group
            if number == len(new) or self._matters(group, level):
                self._show(run, group)
        changed = self._tell(keep)
        self.film["notes"] = [list(note) for note in run.notes]
        anew = self.film is not known
        before = dict.fromkeys(before, 0) if anew else before
        added = {name: self.film[name][before[name] :] for name in ("stages", "looks")}
        frames = self.film["frames"][keep:]
        news = {"keep": keep, "frames": frames, **added, "told": changed, "notes": self.film["notes"]}
        return news | ({"anew": True} if anew else {})

    def _new_steps(self, run: Run) -> list[Step]:
        """The steps that are to be shown, after those on the common way."""
        known, trace = len(self._records), run.trace
        if trace.detailed and known <= len(trace):
            records = list(trace)
            goes_on = known == len(records) or known == 0 or event_of(records[known]) != event_of(records[known - 1])
            if goes_on and records[:known] == self._records:
                return in_order(records[known:])
        ordered = steps(trace)
        common = _common(self._records, list(chain.from_iterable(ordered)))
        if common < known:
            self._back_to(common)
        reached, left = 0, 0
        while left < len(ordered) and reached + len(ordered[left]) <= self._running.n:
            reached += len(ordered[left])
            left += 1
        if reached != self._running.n:  # a step that was shown has become longer
            self._back_to(reached)
            return self._new_steps(run)
        return ordered[left:]

    def _back_to(self, n: int) -> None:
        """Forget what came after the last mark within the first `n` records."""
        while self._marks and self._marks[-1].moment.n > n:
            self._marks.pop()
        if not self._marks:
            least, alike = self._least, self._alike
            self._begin()
            self._least, self._alike = least, alike
            return
        mark = self._marks[-1]
        frames = self.film["frames"]
        del frames[mark.frames :], self._told[mark.frames :], self._records[mark.moment.n :]
        self._met = {number: epoch for number, epoch in self._met.items() if number in mark.moment.checkpoints}
        self._go_on_from(mark.moment)
        self._again(frames[-1]["stage"])

    def _again(self, shape: int) -> None:
        """The drawing and the facts as they were at the mark."""
        stage = self._stages[shape]
        self._drawing = Drawing(film_layout(stage, self._closed(stage)))
        everything = Touched.all_of(self._drawing.layout, self._running)
        self._drawing.draw(self._running, everything)
        self._facts = {name: fact for name, fact in facts_of(self._running, everything).items() if fact is not None}
        self._shape = shape

    def _least_level(self, new: Sequence[int]) -> int:
        """The level of the frames that are shown when all are too many."""
        levels = [*(told.level for told in self._told), *new]
        for level in (BULK, DETAIL):
            if sum(each >= level for each in levels) <= MOST_FRAMES:
                return max(level, self._least)
        return MAIN

    def _matters(self, group: Step, level: int) -> bool:
        """Whether it has a frame, when there cannot be one for each step: what comes last always has."""
        if level < self._least or level == MILESTONE:
            return level == MILESTONE
        if self._least < MAIN:
            return True
        return not is_minor(group) and not self._alike.intersection(record.checkpoint_id for record in group)

    def _tell(self, keep: int) -> dict[int, int]:
        """Which frames are the story now; gives those of the first ones for which that has changed."""
        changed: dict[int, int] = {}
        for number, in_story in enumerate(story_of(self._told, self._met, self._running.checkpoints)):
            frame = self.film["frames"][number]
            if frame["told"] != int(in_story):
                frame["told"] = int(in_story)
                if number < keep:
                    changed[number] = int(in_story)
        return changed

    # --- a frame ------------------------------------------------------------------------------------------------------

    def _show(self, run: Run, group: Sequence[TraceRecord]) -> None:
        moment = self._running
        touched = Touched.taken_from(moment)
        stage, drawing = self._stage_now(run)
        if drawing is not self._drawing:
            self._drawing = drawing
            touched = Touched.all_of(drawing.layout, moment)
        for number in moment.checkpoints:
            self._met.setdefault(number, moment.epoch)
        frame = Frame(moment, stage, tuple(group), led_by(group[0].cause, self._by_id.get) if group else None)
        words = frame.words
        failed = [f"The job has failed: {moment.error}"] if moment.job == "FAILED" else []
        packed: dict[str, Any] = {"stage": self._shape, "told": 0, "at": moment.elapsed_ms, "n": moment.n}
        if frame.mark:
            packed["mark"] = frame.mark
        if group:
            packed["by"] = "job" if is_of_the_job_master(group[0]) else task_of(group[0])
            packed["about"] = _about(group)
        packed["words"] = [*failed, words.what, words.then, words.because][:3]
        packed["set"] = self._shortened(drawing.draw(moment, touched))
        packed["facts"] = self._changed_facts(facts_of(moment, touched))
        self.film["frames"].append(packed)
        self._told.append(Told(frame.level, frame.checkpoint_id, is_minor(group)))
        self._mark()

    def _stage_now(self, run: Run) -> tuple[Stage, Drawing]:
        """The stage of the epoch, and its drawing: another one when the shape is another."""
        epoch = self._running.epoch
        stage, drawing = self._stage, self._drawing
        if stage is None or stage.epoch != epoch:
            stage = self._stage = stage_for(run.stages, epoch)
            shape = self._shape_of(stage)
            if shape != self._shape:
                self._shape, drawing = shape, None
        return stage, drawing or Drawing(film_layout(stage, self._closed(stage)))

    def _shape_of(self, stage: Stage) -> int:
        shape = (stage.vertices, stage.channels)
        if shape not in self._shapes:
            self._shapes[shape] = len(self._shapes)
            self._stages.append(stage)
            self.film["stages"].append(self._packed_stage(stage))
        return self._shapes[shape]

    def _closed(self, stage: Stage) -> frozenset[str]:
        closed = stage.closed_at_first()
        names = {vertex.name for vertex in stage.vertices}
        for name in self.turned:
            closed = stage.turned(closed, name) if name in names else closed
        return closed

    def _packed_stage(self, stage: Stage) -> Film:
        layout = film_layout(stage, self._closed(stage))
        tasks = stage.tasks()
        numbers = {task: number for number, task in enumerate(tasks)}
        return {
            "width": layout.width,
            "height": layout.height,
            "svg": backdrop(layout),
            "boxes": {name: [box.x, box.y, box.width, box.height] for name, box in layout.places.items()},
            "lanes": {lane.name: [lane.source, lane.target, list(lane.channels)] for lane in layout.lanes},
            "vertices": [[v.name, list(v.operators), v.parallelism, v.max_parallelism] for v in stage.vertices],
            "closed": sorted(layout.closed),
            "tasks": tasks,
            "channels": [[c.number, numbers[c.source], numbers[c.target]] for c in stage.channels],
        }

    def _shortened(self, changes: Changes) -> Changes:
        """The same changes, with a `look` for every sprite that was not there before: only those have a tag."""
        made: Changes = {}
        for name, sprite in changes.items():
            if sprite is not None and "title" in sprite:  # a page tells more of the whole thing when pointed at it
                sprite = {key: value for key, value in sprite.items() if key != "title"}
                if not sprite:
                    continue
            if sprite is not None and "tag" in sprite:
                own = {"text", "transform"} if "transform" in sprite else {"x", "y", "d", "text"}
                look = tuple((key, value) for key, value in sprite.items() if key not in own)
                number = self._looks.get(look)
                if number is None:
                    number = self._looks[look] = len(self._looks)
                    self.film["looks"].append(dict(look))
                sprite = {"look": number, **{key: value for key, value in sprite.items() if key in own}}
            made[name] = sprite
        return made

    def _changed_facts(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        changed: dict[str, Any] = {}
        for name, fact in facts.items():
            if self._facts.get(name) != fact:
                changed[name] = fact
                if fact is None:
                    del self._facts[name]
                else:
                    self._facts[name] = fact
        return changed

    def _mark(self) -> None:
        """Have a moment to come back to, now and then."""
        moment = self._running
        last = self._marks[-1].moment.n if self._marks else 0
        if moment.n >= last + MARK_EVERY + len(self._records) // 20 + 2 * (len(moment.tasks) + len(moment.channels)):
            self._marks.append(_Mark(len(self.film["frames"]), moment.now()))

    def __repr__(self) -> str:
        return f"Reel({len(self._records)} records in {len(self.film['frames'])} frames)"


@contextmanager
def _collector_paused() -> Iterator[None]:
    """A film is many small values and no circles: to look for those again and again takes a quarter of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _common(known: Sequence[TraceRecord], now: Sequence[TraceRecord]) -> int:
    """How many records both begin with."""
    for number, (a, b) in enumerate(zip(known, now)):
        if a is not b and a != b:
            return number
    return min(len(known), len(now))


def _alike(groups: Sequence[Step]) -> set[int | None]:
    """The checkpoints that completed after another one of the same epoch, so that they need not be told in full."""
    alike: set[int | None] = set()
    told = False
    for record in chain.from_iterable(groups):
        if level_of(record) < MILESTONE:
            continue
        side = kind_of(record).side(record.role)
        means = None if side is None else side.means
        if means is meanings.start_epoch:
            told = False
        elif means is meanings.completed:
            if told:
                alike.add(record.checkpoint_id)
            told = True
    return alike


def _about(group: Sequence[TraceRecord]) -> list[str]:
    """The things that these records are about, each once."""
    names: dict[str, None] = {}
    for record in group:
        if not is_of_the_job_master(record):
            names[f"task:{task_of(record)}"] = None
        for key, kind in (("channel", "channel"), ("task", "task")):
            value = record.data.get(key)
            if isinstance(value, int | str):
                names[f"{kind}:{value}"] = None
        if record.checkpoint_id is not None:
            names[f"checkpoint:{record.checkpoint_id}"] = None
    return list(names)

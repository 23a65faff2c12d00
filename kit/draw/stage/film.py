"""A run as a film for `stage.js`: what changes from frame to frame, with the words and the facts of each.

A `FilmBuilder` makes the film of a running job from its reading. It keeps the drawing of the latest moment, so the cost
of new frames depends on what happened in them. If the run went back and took another course, the film resumes from the
last frame of the common part. The film is JSON-like and grows at the end:

- `stages`: one for each shape of the job: the picture's size and fixed parts, the boxes, the channels of each lane;
- `frames`: each `{"stage", "in_story", "mark", "at", "n", "by", "about", "words", "set", "facts"}`. `in_story`: it
  belongs to the story. `words`: what happened, its results, its cause. `by` is the task that acted, or "job"; `about`
  names the items that it was about. `set` maps a sprite's name to the attributes that changed, or to None if it was
  removed; the first frame of a stage sets everything. `look` of a new sprite is the number, in `looks`, of the
  attributes that it shares with others. `facts` are those of `kit.draw.stage.facts` that changed. `whole`: both are
  complete, not changes. `skipped` is the number of steps before it without a frame;
- `notes`, for the reader: each `[n, text]` is for the frames with more than `n` records.

The film of a long run comes in two parts, so that its first picture appears soon. At first it has all frames with their
words, and the picture of the last frame. `draw_more` returns `set` and `facts` of the others. `insert` makes frames for
steps that have none.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any

import numpy as np

from kit.core.trace.trace import TraceRecord
from kit.draw.stage.drawing import Touched
from kit.draw.stage.frames import Frame, FrameSummary, is_minor, story_of
from kit.draw.stage.layout import Layout, lay_out
from kit.draw.stage.legend import legend_data
from kit.draw.stage.pen import Looks, Pen
from kit.draw.svg import backdrop
from kit.run.kinds import BULK, DETAIL, MAIN, MILESTONE, kind_of, level_of
from kit.run.moments import job_changes
from kit.run.moments.job_state import Moment, Running, is_of_the_job_master, task_of
from kit.run.moments.moment import fold
from kit.run.reading import Reading, reading_of
from kit.run.run import Run, run_of
from kit.run.stage import Stage, stage_for
from kit.run.steps import Step, event_of, in_order
from kit.run.uncollected import uncollected

MOST_FRAMES = 1500
"""The greatest number of frames in a film, about. A longer run has only its more important frames."""
WELL_FILLED = 1000
"""The least number of frames of a longer run, about. They show its turning points in full."""
MOST_INSERTED = 200
"""The most steps that get a frame at one request for those between two frames."""
DEFER_FROM = 8_000
"""With more records than this, pictures are drawn later if they can be requested."""
MARGIN = 30
BESIDE, BESIDE_IN_REGION = "the same subtask of every other vertex", "the same subtask of its region's other vertices"
"""The other tasks on a task's worker, if all vertices share the slots, and if each region has slots of its own."""
Film = dict[str, Any]


def film(run: Any) -> Film:
    """Return the film of a Lab, a SparkJob or a Trace."""
    builder = FilmBuilder()
    builder.take(run_of(run))
    return builder.film


def film_layout(stage: Stage, closed: frozenset[str] | None = None) -> Layout:
    """Return the layout of a film: the graph alone."""
    return lay_out(stage, 8.0, 0.0, closed, MARGIN)


class FilmBuilder:
    """The film of one run, as far as it has been read. `turned` are the vertices that the user opened or closed.

    For a run with more than `defer_from` records, only the last frame is drawn at first.
    """

    def __init__(self, turned: Sequence[str] = (), *, defer_from: int | None = None) -> None:
        self.turned = tuple(turned)
        self.defer_from = defer_from
        self.reading = Reading()
        """The reading of the run as the film shows it."""
        self._step_of: Callable[[int], int] | None = None
        self.film: Film = {}
        self._begin()

    def _begin(self) -> None:
        self._looks = Looks()
        self.film = {"stages": [], "frames": [], "looks": self._looks.attributes, "notes": [], "legend": legend_data()}
        self._summaries: list[FrameSummary] = []
        self._met: dict[int, int] = {}
        self._shapes: dict[tuple[Any, ...], int] = {}
        self._stages: list[Stage] = []
        self._layouts: list[Layout] = []
        self._least = BULK
        self._alike: set[int | None] = set()
        self._owed: Iterator[int] | None = None
        self._go_on_from(self.reading.running_at(0))

    def _go_on_from(self, running: Running) -> None:
        self._running = running
        self._stage: Stage | None = None
        self._shape = -1
        self._pen = Pen(self._looks)

    # --- taking in ----------------------------------------------------------------------------------------------------

    def take(self, run: Run) -> Film:
        """Read what the run has done since, and return what is new.

        `keep` is the number of frames that stay; the names of the film hold what follows them. `in_story` has the kept
        frames that have entered or left the story. With `anew`, the result replaces the whole film.
        """
        try:
            with uncollected():
                return self._take(run)
        except BaseException:  # part of it may have been read
            self._begin()
            raise

    def _take(self, run: Run) -> Film:
        known, self._step_of = self.film, run.step_of
        before = {name: len(self.film[name]) for name in ("stages", "looks", "frames")}
        new, keep = self._new_steps(run), len(self.film["frames"])
        levels = [max(map(level_of, group)) for group in new]
        least = self._least_level(levels)
        if keep and keep + len(new) > 2 * MOST_FRAMES and least > self._least:
            self._begin()
            keep, new = 0, self._new_steps(run)
            levels = [max(map(level_of, group)) for group in new]
        shown: Sequence[bool] = ()
        if not keep:
            self._least, self._alike = least, _alike(new, levels)
            shown = self._chosen(new, levels)
        later = self.defer_from is not None and not keep and sum(map(len, new)) > self.defer_from
        if not self.film["frames"]:
            self._show(run, (), draw=not later)
        skipped, n = 0, self._running.n
        for number, (group, level) in enumerate(zip(new, levels)):
            n += len(group)
            last = number == len(new) - 1
            if last or (shown[number] if shown else self._matters(group, level)):
                self.reading.advance(self._running, n)
                self._show(run, group, skipped, draw=not later, whole=later and last)
                skipped = 0
            else:
                skipped += 1
        if later:
            self._owed = self._drawing_the_first(len(self.film["frames"]) - 1)
        changed = self._choose_story(keep)
        self.film["notes"] = [list(note) for note in run.notes]
        anew = self.film is not known
        before = dict.fromkeys(before, 0) if anew else before
        added = {name: self.film[name][before[name] :] for name in ("stages", "looks")}
        frames = self.film["frames"][keep:]
        news = {"keep": keep, "frames": frames, **added, "in_story": changed, "notes": self.film["notes"]}
        return news | ({"anew": True} if anew else {})

    def _new_steps(self, run: Run) -> list[Step]:
        """Return the steps to show after those that stay."""
        before, self.reading = self.reading, reading_of(run)
        n = self._records
        kept = self.reading.shared_with(before, n)
        if kept < n:
            self._back_to(kept)
            n = self._records
        records = self.reading.records
        if 0 < n < len(records) and event_of(records[n]) == event_of(records[n - 1]):  # a step that was shown has grown
            self._back_to(n - 1)
            n = self._records
        self._running = self.reading.running_at(n, self._running)
        return in_order(records[n:])

    @property
    def _records(self) -> int:
        """The number of records that the film shows."""
        frames = self.film["frames"]
        return int(frames[-1]["n"]) if frames else 0

    def _back_to(self, n: int) -> None:
        """Drop the frames after the first `n` records."""
        frames = self.film["frames"]
        keep = bisect_right(frames, n, key=lambda frame: frame["n"])
        if keep <= 1 or self.is_owed:
            self._begin()
            return
        del frames[keep:], self._summaries[keep:]
        running = self.reading.running_at(frames[-1]["n"])
        self._met = {number: epoch for number, epoch in self._met.items() if number in running.checkpoints}
        self._go_on_from(running)
        self._shape = frames[-1]["stage"]
        self._pen.draw_whole(self._layouts[self._shape], running)

    def _least_level(self, new: Sequence[int]) -> int:
        """Return the least level of frames to show if there are too many."""
        levels = [*(each.level for each in self._summaries), *new]
        for level in (BULK, DETAIL):
            if sum(each >= level for each in levels) <= MOST_FRAMES:
                return max(level, self._least)
        return MAIN

    def _matters(self, group: Step, level: int) -> bool:
        """Return True if the step gets a frame although there are too many steps; the last one always does."""
        if level < self._least or level == MILESTONE:
            return level == MILESTONE
        if self._least < MAIN:
            return True
        return not is_minor(group) and not self._alike.intersection(record.checkpoint_id for record in group)

    def _chosen(self, new: Sequence[Step], levels: Sequence[int]) -> list[bool]:
        """Choose the steps that have a frame: the important ones and, if these are few, the steps nearest to the
        beginning, to the end, and to the first failure or restore of each epoch.
        """
        shown = [self._matters(group, level) for group, level in zip(new, levels)]
        room = WELL_FILLED - sum(shown)
        if room <= 0 or len(new) <= WELL_FILLED:
            return shown
        turns = [0, len(new)]
        for number, group in enumerate(new):
            if levels[number] == MILESTONE and not self._alike.intersection(r.checkpoint_id for r in group):
                turns.append(number)
        turned, left = np.unique(turns), np.flatnonzero(~np.array(shown))
        after = np.searchsorted(turned, left)
        far = np.minimum(turned[after] - left, left - turned[np.maximum(0, after - 1)])
        for number in left[np.argsort(far, kind="stable")[:room]].tolist():
            shown[number] = True
        return shown

    def _choose_story(self, keep: int) -> dict[int, int]:
        """Choose the frames of the story; return those of the first `keep` for which the choice has changed."""
        changed: dict[int, int] = {}
        stories = map(int, story_of(self._summaries, self._met, self._running.checkpoints))
        for number, (frame, in_story) in enumerate(zip(self.film["frames"], stories)):
            if frame["in_story"] != in_story:
                frame["in_story"] = in_story
                if number < keep:
                    changed[number] = in_story
        return changed

    # --- a frame ------------------------------------------------------------------------------------------------------

    def _show(
        self, run: Run, group: Sequence[TraceRecord], skipped: int = 0, *, draw: bool = True, whole: bool = False
    ) -> None:
        moment = self._running
        stage = self._stage_now(run)
        for number in moment.checkpoints:
            self._met.setdefault(number, moment.epoch)
        packed, summary = self._packed_frame(moment, stage, self._shape, group, skipped)
        if whole:
            packed |= self._pen.draw_whole(self._layouts[self._shape], moment)
            Touched.taken_from(moment)
        elif draw:
            packed |= self._pen.draw(self._layouts[self._shape], moment, Touched.taken_from(moment))
        self.film["frames"].append(packed)
        self._summaries.append(summary)

    def _packed_frame(
        self, moment: Moment, stage: Stage, shape: int, group: Sequence[TraceRecord], skipped: int
    ) -> tuple[Film, FrameSummary]:
        """Return a frame without its picture, and the criteria for including it in the story."""
        frame = Frame(moment, stage, tuple(group), self.reading.find(group[0].cause) if group else None)
        packed: dict[str, Any] = {"stage": shape, "in_story": 0, "at": moment.elapsed_ms, "n": moment.n}
        if self._step_of is not None:
            packed["step"] = self._step_of(moment.n) if moment.n else 0
        if frame.mark:
            packed["mark"] = frame.mark
        if skipped:
            packed["skipped"] = skipped
        if group:
            packed["by"] = "job" if is_of_the_job_master(group[0]) else task_of(group[0])
            packed["about"] = _about(group)
        words = frame.words
        packed["words"] = [words.what, words.then, words.because]
        return packed, FrameSummary(frame.level, frame.checkpoint_id, is_minor(group))

    def _stage_now(self, run: Run) -> Stage:
        if self._stage is None or self._stage.epoch != self._running.epoch:
            self._stage = stage_for(run.stages, self._running.epoch)
            self._shape = self._shape_of(self._stage)
        return self._stage

    def _shape_of(self, stage: Stage) -> int:
        shape = (stage.vertices, stage.channels)
        if shape not in self._shapes:
            self._shapes[shape] = len(self._shapes)
            self._stages.append(stage)
            self._layouts.append(film_layout(stage, self._closed(stage)))
            self.film["stages"].append(self._packed_stage(stage, self._layouts[-1]))
        return self._shapes[shape]

    def _closed(self, stage: Stage) -> frozenset[str]:
        closed = stage.closed_at_first()
        names = {vertex.name for vertex in stage.vertices}
        for name in self.turned:
            closed = stage.turned(closed, name) if name in names else closed
        return closed

    def _packed_stage(self, stage: Stage, layout: Layout) -> Film:
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
            "workers": [stage.slot_of(task) for task in tasks],
            "beside": BESIDE_IN_REGION if stage.slots else BESIDE,
            "channels": [[c.number, numbers[c.source], numbers[c.target]] for c in stage.channels],
        }

    # --- what comes later ---------------------------------------------------------------------------------------------

    @property
    def is_owed(self) -> bool:
        """True if some frames have no picture yet."""
        return self._owed is not None

    def draw_more(self, most: int) -> list[tuple[int, Film, Film]]:
        """Draw up to `most` frames that have no picture yet; return their numbers, `set` and `facts`."""
        with uncollected():
            drawn = [] if self._owed is None else list(islice(self._owed, most))
        if len(drawn) < most:
            self._owed = None
        frames = self.film["frames"]
        return [(number, frames[number]["set"], frames[number]["facts"]) for number in drawn]

    def _drawing_the_first(self, count: int) -> Iterator[int]:
        """Draw the first frames one after the other; yield their numbers."""
        moment, pen = Running.watched(Moment()), Pen(self._looks)
        for number in range(count):
            frame = self.film["frames"][number]
            fold(moment, self.reading.records[moment.n : frame["n"]])
            frame |= pen.draw(self._layouts[frame["stage"]], moment, Touched.taken_from(moment))
            yield number

    def insert(self, number: int, n: int) -> Film:
        """Give a frame to the steps that were skipped before frame `number`; if there are many, to those around record
        `n`. Return what is new: `keep` frames stay, and the `replaced` ones after them change.

        Steps before a change of the job's shape are drawn in the shape that they had.
        """
        with uncollected():
            self.draw_more(len(self.film["frames"]))
            return self._insert(number, n)

    def _insert(self, number: int, n: int) -> Film:
        frames, looks = self.film["frames"], len(self._looks.attributes)
        before, after = frames[number - 1], frames[number]
        *groups, own = in_order(self.reading.records[before["n"] : after["n"]])
        first = _window(groups, n - before["n"])
        moment = Running.watched(self.reading.moment_at(before["n"]))
        shape, pen = before["stage"], Pen(self._looks)  # a step that changes it always has a frame: `after`
        stage, layout = replace(self._stages[shape], epoch=moment.epoch), self._layouts[shape]
        pen.draw_whole(layout, moment)
        inserted: list[Film] = []
        summaries: list[FrameSummary] = []
        for position, group in enumerate([*groups, own]):
            fold(moment, group)
            if first <= position < min(len(groups), first + MOST_INSERTED):
                frame, summary = self._packed_frame(moment, stage, shape, group, first if not inserted else 0)
                inserted.append(frame | pen.draw(layout, moment, Touched.taken_from(moment)))
                summaries.append(summary)
        if "whole" not in after:
            after = after | pen.draw(self._layouts[after["stage"]], moment, Touched.taken_from(moment))
        left = len(groups) - first - len(inserted)
        after = {key: value for key, value in after.items() if key != "skipped"} | ({"skipped": left} if left else {})
        frames[number : number + 1] = [*inserted, after]
        self._summaries[number:number] = summaries
        return {
            "keep": number,
            "replaced": 1,
            "frames": [*inserted, after],
            "stages": [],
            "looks": self._looks.attributes[looks:],
            "in_story": {},
            "notes": self.film["notes"],
        }

    def __repr__(self) -> str:
        return f"FilmBuilder({self._records} records in {len(self.film['frames'])} frames)"


def _window(groups: Sequence[Step], n: int) -> int:
    """Return the first of the steps that get a frame if there are too many. They include the one that ends at record
    `n`.
    """
    if len(groups) <= MOST_INSERTED:
        return 0
    reached = at = 0
    while at < len(groups) and reached + len(groups[at]) < n:
        reached += len(groups[at])
        at += 1
    return max(0, min(at - MOST_INSERTED // 2, len(groups) - MOST_INSERTED))


def _alike(groups: Sequence[Step], levels: Sequence[int]) -> set[int | None]:
    """Return the checkpoints that completed after another of the same epoch; the story shortens them."""
    alike: set[int | None] = set()
    has_completed = False
    turns = (group for group, level in zip(groups, levels) if level >= MILESTONE)
    for record in chain.from_iterable(turns):
        if level_of(record) < MILESTONE:
            continue
        side = kind_of(record).side(record.role)
        change = None if side is None else side.change
        if change is job_changes.start_epoch:
            has_completed = False
        elif change is job_changes.completed:
            if has_completed:
                alike.add(record.checkpoint_id)
            has_completed = True
    return alike


def _about(group: Sequence[TraceRecord]) -> list[str]:
    """Return the items that these records are about, each once."""
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

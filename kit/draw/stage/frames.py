"""A run as frames to step through: one frame for each event that a machine handled, with the commands it gave.

Each kind of record has a level, from moving a buffer up to completing a checkpoint (`kit.run.kinds`). The level of a
frame is the highest of its records, and its words describe that record first. The *story* is a bounded number of
important frames. `kit.draw.stage.film` stores the frames as differences between scenes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kit.core.trace.trace import TraceRecord, led_by
from kit.draw.picture import Svg
from kit.draw.stage.drawing import scene
from kit.draw.stage.job_master_panel import Words, words_at_the_end
from kit.draw.stage.scene import Scene
from kit.draw.svg import picture_layout, still
from kit.run.barrier_log import awaits
from kit.run.captions import caption_of, caption_of_moment, lower_first
from kit.run.durations import duration
from kit.run.kinds import DETAIL, MAIN, MILESTONE, kind_of, level_of
from kit.run.moments.job_state import COMPLETED, CheckpointMoment, Moment
from kit.run.moments.moment import advance
from kit.run.reading import Reading, reading_of
from kit.run.run import run_of
from kit.run.stage import Stage, stage_for
from kit.run.steps import event_of, steps

STORY_LENGTH = 300
"""The greatest number of frames in a story, about."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The moment after an event and all its commands: these `records`. `cause` is the record that led to the event."""

    moment: Moment
    stage: Stage
    records: tuple[TraceRecord, ...] = ()
    cause: TraceRecord | None = None

    @property
    def level(self) -> int:
        """The importance of the frame: the highest level of its records."""
        return max(map(level_of, self.records), default=MILESTONE)

    @property
    def checkpoint_id(self) -> int | None:
        """The checkpoint that the frame is about, if any."""
        level = self.level
        return next((record.checkpoint_id for record in self.records if level_of(record) == level), None)

    @property
    def mark(self) -> str:
        """The kind of milestone that the frame is: "checkpoint", "failure" or "restore"; empty for most."""
        return next(filter(None, (kind_of(record).mark for record in self.records)), "")

    @property
    def words(self) -> Words:
        """The most important record, then the other results of the event, then its cause."""
        if not self.records:
            return Words(caption_of_moment(self.moment))
        ends = self.stage.ends()
        first = max(self.records, key=lambda each: (level_of(each), kind_of(each).mark != "", each.role == "event"))
        least = min(DETAIL, level_of(first))
        others: dict[str, list[TraceRecord]] = {}
        for record in self.records:
            if record is not first and level_of(record) >= least:
                others.setdefault(record.kind, []).append(record)
        then = [
            caption_of(records[0], ends) + (f" (and {len(records) - 1} more)" if len(records) > 1 else "")
            for records in others.values()
        ]
        because = "" if self.cause is None else lower_first(caption_of(self.cause, ends))
        words = Words(caption_of(first, ends), "; ".join([*then[:1], *map(lower_first, then[1:])]), because)
        return words_at_the_end(self.moment, words)

    def scene(self) -> Scene:
        """The sprites of the frame."""
        return scene(picture_layout(self.stage), self.moment, self.words)

    def svg(self) -> Svg:
        """The frame as a picture that stands alone."""
        return still(self.stage, self.moment, self.words)

    def _repr_svg_(self) -> str:
        return self.svg()

    def _repr_html_(self) -> str:
        return self.svg()._repr_html_()

    def __repr__(self) -> str:
        return f"Frame({self.moment.n} records, {duration(self.moment.elapsed_ms)}: {self.words.what})"


def frames(run: Any) -> list[Frame]:
    """Return the frames of a Lab, a SparkJob or a Trace. The first is the state before anything happened."""
    run, moment = run_of(run), Moment()
    made = [Frame(moment, stage_for(run.stages, moment.epoch))]
    seen: dict[str, TraceRecord] = {}
    for group in steps(run.trace):
        cause = led_by(group[0].cause, seen.get)
        for record in group:
            moment = advance(moment, record, led_by(record.cause, seen.get))
            seen[record.id] = record
        made.append(Frame(moment, stage_for(run.stages, moment.epoch), tuple(group), cause))
    return made


def frame_at(run: Any, n: int | None = None) -> Frame:
    """Return the last frame of a Lab, a SparkJob or a Trace with at most `n` records; by default the last of all."""
    run = run_of(run)
    reading = reading_of(run)
    records = reading.records
    n = len(records) if n is None else min(n, len(records))
    while 0 < n < len(records) and event_of(records[n]) == event_of(records[n - 1]):  # the event is not complete
        n -= 1
    return frame_of(reading, run.stages, n)


def frame_of(reading: Reading, stages: Sequence[Stage], n: int) -> Frame:
    """Return the frame that ends with the n-th record of a reading; `stages` are the shapes of the run."""
    moment, first = reading.moment_at(n), n
    while first and event_of(reading.records[first - 1]) == event_of(reading.records[n - 1]):
        first -= 1
    group = tuple(reading.records[first:n])
    return Frame(moment, stage_for(stages, moment.epoch), group, reading.find(group[0].cause) if group else None)


def last_frame(run: Any) -> Frame:
    """Return the last frame of a Lab, a SparkJob or a Trace: its present state."""
    return frame_at(run)


def lab_svg(lab: Any) -> Svg:
    """Draw a lab at its present moment."""
    return frame_at(lab).svg()


def moment_svg(run: Any, n: int | None = None) -> Svg:
    """Draw a Lab, a SparkJob or a Trace after its first `n` records, by default after all."""
    return frame_at(run, n).svg()


@dataclass(frozen=True, slots=True)
class FrameSummary:
    """The criteria for including a frame in the story: how much happened in it, and the checkpoint that it is about."""

    level: int
    checkpoint_id: int | None
    minor: bool = False


def is_minor(group: Sequence[TraceRecord]) -> bool:
    """Return True if the frame only shows the arrival of one barrier while others are awaited."""
    return all(awaits(record) for record in group if level_of(record) >= MAIN)


def story(frames: Sequence[Frame], length: int = STORY_LENGTH) -> list[bool]:
    """Return which frames belong to the story: all important ones, if these are at most `length`.

    Otherwise details that a reader can guess are left out. A checkpoint like those before it has only its beginning and
    its end, and in a large job the arrival of single barriers is left out.
    """
    met: dict[int, int] = {}
    for frame in frames:
        for checkpoint_id in frame.moment.checkpoints:
            met.setdefault(checkpoint_id, frame.moment.epoch)
    return story_of(
        [FrameSummary(f.level, f.checkpoint_id, is_minor(f.records)) for f in frames],
        met,
        frames[-1].moment.checkpoints,
        length,
    )


def story_of(
    frames: Sequence[FrameSummary],
    met: Mapping[int, int],
    checkpoints: Mapping[int, CheckpointMoment],
    length: int = STORY_LENGTH,
) -> list[bool]:
    """Return the same as `story`, given the epoch of each checkpoint (`met`) and the outcomes (`checkpoints`)."""
    for level in (DETAIL, MAIN):
        in_story = [frame.level >= level for frame in frames]
        if sum(in_story) <= length:
            return in_story
    alike = _alike(met, checkpoints)
    in_story = [frame.level >= (MILESTONE if frame.checkpoint_id in alike else MAIN) for frame in frames]
    if sum(in_story) <= 2 * length:
        return in_story
    return [is_in and not (frame.minor and frame.level < MILESTONE) for frame, is_in in zip(frames, in_story)]


def _alike(met: Mapping[int, int], checkpoints: Mapping[int, CheckpointMoment]) -> set[int | None]:
    """Return the checkpoints that completed like an earlier one of the same epoch."""
    alike: set[int | None] = set()
    shown: set[int] = set()
    for checkpoint_id, epoch in sorted(met.items()):
        known = checkpoints[checkpoint_id]
        if known.status != COMPLETED or known.savepoint:
            continue
        if epoch in shown:
            alike.add(checkpoint_id)
        shown.add(epoch)
    return alike

"""A run as frames to step through: one frame for each event that a machine handled, with the commands it gave.

Each kind of record has a level, from the turn of a task that moves a buffer up to the completion of a checkpoint
(`kit.draw.kinds`). A frame's level is the highest of its records'; it speaks of that record first. The *story* is the
frames that matter, not too many of them. `film` packs the frames as differences between scenes, for `stage.js`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

from kit.draw.captions import Ends, caption_of, lower_first
from kit.draw.job_state import COMPLETED, Moment, only_last
from kit.draw.kinds import DETAIL, MAIN, MILESTONE, kind_of, level_of
from kit.draw.moment import advance
from kit.draw.picture import Svg
from kit.draw.run import Run, run_of
from kit.draw.scene import Scene, Sprite, Words, scene
from kit.draw.stage import Stage, stage_for
from kit.draw.steps import steps
from kit.draw.svg import LEGEND_HEIGHT, backdrop, picture_layout, still
from kit.protocol.trace import TraceRecord, led_by

STORY_LENGTH, MOST_FRAMES = 300, 1500
"""A story has at most about this many frames, a film at most this many."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The moment after an event and all its commands: these `records`. `cause` is the record that led to the event."""

    moment: Moment
    stage: Stage
    records: tuple[TraceRecord, ...] = ()
    cause: TraceRecord | None = None

    @property
    def level(self) -> int:
        """How much happened: the highest level of a record."""
        return max(map(level_of, self.records), default=MILESTONE)

    @property
    def checkpoint_id(self) -> int | None:
        """The checkpoint that the frame is about, if it is about one."""
        return next((record.checkpoint_id for record in self.records if level_of(record) == self.level), None)

    @property
    def mark(self) -> str:
        """What the frame is a mark of: "checkpoint", "failure" or "restore"; "" for most."""
        return next(filter(None, (kind_of(record).mark for record in self.records)), "")

    @property
    def words(self) -> Words:
        """The most important record, then what else came of the event, then why."""
        if not self.records:
            return Words(self.moment.caption)
        ends = self.stage.ends()
        first = max(self.records, key=_weight)
        least = min(DETAIL, level_of(first))
        told: dict[str, list[TraceRecord]] = {}
        for record in self.records:
            if record is not first and level_of(record) >= least:
                told.setdefault(record.kind, []).append(record)
        then = [_told(records, ends) for records in told.values()]
        because = "" if self.cause is None else lower_first(caption_of(self.cause, ends))
        return Words(caption_of(first, ends), "; ".join([*then[:1], *map(lower_first, then[1:])]), because)

    def scene(self) -> Scene:
        """What is drawn of it."""
        return scene(picture_layout(self.stage), self.moment, self.words)

    def svg(self) -> Svg:
        """The frame as a picture that stands alone."""
        return still(self.stage, self.moment, self.words)

    def _repr_svg_(self) -> str:
        return self.svg()

    def __repr__(self) -> str:
        return f"Frame({self.moment.n} records, {self.moment.elapsed_ms} ms: {self.words.what})"


def _weight(record: TraceRecord) -> tuple[int, bool, bool]:
    return level_of(record), kind_of(record).mark != "", record.role == "event"


def _told(records: Sequence[TraceRecord], ends: Ends) -> str:
    more = "" if len(records) == 1 else f" (and {len(records) - 1} more)"
    return caption_of(records[0], ends) + more


def frames(run: Any) -> list[Frame]:
    """The frames of a run (a Lab, a SparkJob or a Trace), the first before anything happened."""
    return list(_frames_from(Moment(), run_of(run)))


def last_frame(run: Any) -> Frame:
    """The last frame of a Lab, a SparkJob or a Trace: the run as it stands."""
    return deque(_frames_from(only_last(), run_of(run)), maxlen=1).pop()


def _frames_from(moment: Moment, run: Run) -> Iterator[Frame]:
    """The frame before anything happened, and one for each step."""
    yield Frame(moment, stage_for(run.stages, moment.epoch))
    seen: dict[str, TraceRecord] = {}
    for group in steps(run.trace):
        cause = led_by(group[0].cause, seen.get)
        for record in group:
            moment = advance(moment, record, led_by(record.cause, seen.get))
            seen[record.id] = record
        yield Frame(moment, stage_for(run.stages, moment.epoch), tuple(group), cause)


def moment_svg(run: Any, n: int | None = None) -> Svg:
    """The picture of a Lab, a SparkJob or a Trace after its first `n` records, by default of all."""
    return next(frame for frame in reversed(frames(run)) if n is None or frame.moment.n <= n).svg()


def story(made: Sequence[Frame], length: int = STORY_LENGTH) -> list[bool]:
    """Which frames tell the story: all that matter, when these are at most `length`; else of the details only what a
    reader cannot guess. A checkpoint like others before it is then told by its beginning and its end.
    """
    for level in (DETAIL, MAIN):
        told = [frame.level >= level for frame in made]
        if sum(told) <= length:
            return told
    alike = _alike(made)
    return [frame.level >= (MILESTONE if frame.checkpoint_id in alike else MAIN) for frame in made]


def _alike(made: Sequence[Frame]) -> set[int | None]:
    """The checkpoints that completed like an earlier one of the same epoch."""
    last = made[-1].moment.checkpoints
    met: dict[int, int] = {}
    for frame in made:
        for checkpoint_id in frame.moment.checkpoints:
            met.setdefault(checkpoint_id, frame.moment.epoch)
    alike: set[int | None] = set()
    shown: set[int] = set()
    for checkpoint_id, epoch in sorted(met.items()):
        known = last[checkpoint_id]
        if known.status != COMPLETED or known.savepoint:
            continue
        if epoch in shown:
            alike.add(checkpoint_id)
        shown.add(epoch)
    return alike


# --- the film ---------------------------------------------------------------------------------------------------------


def film(run: Any) -> dict[str, Any]:
    """A Lab, a SparkJob or a Trace as JSON-like data for `stage.js`: backdrops, frames as differences, and the notes
    for the reader, each as `[n, text]`: it is for the frames with more than `n` records.

    A frame is `{"stage", "told", "mark", "at", "n", "set"}`: `told` when it belongs to the story; `set` maps a
    sprite's name to the attributes that changed, or to None when it is gone. The first frame of a stage sets
    everything. A new sprite refers to what it has in common with others by `look`, its number in `looks`.
    """
    run = run_of(run)
    made = frames(run)
    told = story(made)
    for level in (DETAIL, MAIN):
        if len(made) > MOST_FRAMES:
            kept = [frame.level >= level or in_story for frame, in_story in zip(made, told)]
            made, told = list(compress(made, kept)), list(compress(told, kept))
    shapes: dict[tuple[Any, ...], int] = {}
    backdrops, packed = [], []
    looks = _Looks()
    before: Scene = {}
    shown = -1
    for frame, in_story in zip(made, told):
        shape = (frame.stage.vertices, frame.stage.channels)
        if shape not in shapes:
            shapes[shape] = len(shapes)
            layout = picture_layout(frame.stage)
            backdrops.append({"width": layout.width, "height": layout.height + LEGEND_HEIGHT, "svg": backdrop(layout)})
        now = frame.scene()
        if shapes[shape] != shown:
            before = {}
        changes = looks.shortened(difference(before, now), before)
        head = {"stage": shapes[shape], "told": int(in_story), "at": frame.moment.elapsed_ms, "n": frame.moment.n}
        packed.append(head | ({"mark": frame.mark} if frame.mark else {}) | {"set": changes})
        before, shown = now, shapes[shape]
    notes = {"notes": [list(note) for note in run.notes]} if run.notes else {}
    return {"stages": backdrops, "frames": packed, "looks": list(looks.all), **notes}


Changes = dict[str, dict[str, str | float | None] | None]


class _Looks:
    """What sprites have in common: all their attributes but the place and the text."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[tuple[str, str | float | None], ...], int] = {}

    @property
    def all(self) -> Iterator[dict[str, str | float | None]]:
        """The looks in order of their numbers."""
        return (dict(look) for look in self._numbers)

    def shortened(self, changes: Changes, before: Scene) -> Changes:
        """The same changes, with a `look` for every sprite that was not there before."""
        return {
            name: sprite if sprite is None or name in before else self._shortened(sprite)
            for name, sprite in changes.items()
        }

    def _shortened(self, sprite: dict[str, str | float | None]) -> dict[str, str | float | None]:
        own = {"text", "transform"} if "transform" in sprite else {"x", "y", "d", "text"}
        look = tuple((key, value) for key, value in sprite.items() if key not in own)
        number = self._numbers.setdefault(look, len(self._numbers))
        return {"look": number} | {key: value for key, value in sprite.items() if key in own}


def difference(before: Scene, now: Scene) -> Changes:
    """What changes one scene into the other: per sprite the new values (None: attribute gone), or None: sprite gone."""
    changes: Changes = {name: None for name in before if name not in now}
    for name, sprite in now.items():
        old: Sprite = before.get(name, {})
        if old == sprite:
            continue
        changed: dict[str, str | float | None] = {key: None for key in old if key not in sprite}
        changed |= {key: value for key, value in sprite.items() if old.get(key) != value}
        changes[name] = changed
    return changes

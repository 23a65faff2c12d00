"""A run as frames to step through: one frame for each event that a machine handled, with the commands it gave.

Each kind of record has a level, from the turn of a task that moves a buffer up to the completion of a checkpoint. A
frame's level is the highest of its records'; it speaks of that record first. The *story* is the frames of a level
high enough that there are not too many of them. `film` packs the frames as differences between scenes, for
`stage.js`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kit.draw.captions import Ends, caption_of, lower_first
from kit.draw.moment import Moment, advance
from kit.draw.scene import Scene, Sprite, Words, scene
from kit.draw.stage import Stage, stage_for
from kit.draw.svg import LEGEND_HEIGHT, backdrop, picture_layout
from kit.protocol.trace import TraceRecord

BULK, PLUMBING, DETAIL, MAIN, MILESTONE = range(5)
STORY_LENGTH, MOST_FRAMES = 300, 1500
"""A story has at most about so many frames, a film at most so many."""

_KINDS = {
    BULK: """
        ProcessInput GrantCredit CreditReceived ElementQueued ReadSplit SplitRead ScheduleTimer CancelTimer
        PeriodicTriggerScheduled OperatorEventToTask OperatorEventToCoordinator
    """,
    PLUMBING: """
        TimerFired ReadState StateRead InitializeLocation LocationInitialized AllocateCheckpointId DiscardState
        CheckpointIdAllocated TaskAcknowledged EnumerateSplits SplitsEnumerated TriggeringStarted DropEffects
        ScheduleCoordinatorCheckpoint CheckpointOperatorCoordinator CoordinatorAcknowledged CheckpointFinalizing
        SetCheckpointIdCounter CheckpointPending TriggerMasterHook MasterHookTriggered MasterHookAcknowledged
        ResolveSnapshot SnapshotResolved RestoreMasterHooks ResetMasterHooks MasterHooksRestored StopEpoch
        CheckpointStored StoreCheckpoint AcknowledgeIgnored BarrierIgnored EpochEnded ReportCheckpointMetrics
    """,
    MAIN: """
        TriggerTaskCheckpoint WriteSnapshot SnapshotFailed SnapshotWritten AcknowledgeCheckpoint DeclineCheckpoint
        BarrierAligned WriteMetadata MetadataWritten MetadataFailed CancelTask RequestSavepoint RequestCheckpoint
        RequestStop RequestCancel AllTasksRunning CheckpointStoreFailed StartJob EffectsCommitted
    """,
    MILESTONE: """
        CheckpointTriggered CheckpointCompleted CheckpointAborted SlotLost TaskKilled StateAssigned CheckpointRestored
        StartEpoch JobStatusChanged TriggeringFailed RequestRefused
    """,
}
LEVELS = {kind: level for level, kinds in _KINDS.items() for kind in kinds.split()}
"""By kind; kinds not named are DETAIL."""

MARKS = {
    "CheckpointTriggered": "checkpoint",
    "CheckpointCompleted": "checkpoint",
    "CheckpointAborted": "checkpoint",
    "SlotLost": "failure",
    "TaskKilled": "failure",
    "StateAssigned": "restore",
    "CheckpointRestored": "restore",
}
"""The frames that a reader jumps to."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The moment after an event and all its commands, with its words, its level, and what it is a mark of."""

    moment: Moment
    stage: Stage
    words: Words
    level: int
    mark: str

    def scene(self) -> Scene:
        """What is drawn of it."""
        return scene(picture_layout(self.stage), self.moment, self.words)


def frames(trace: Iterable[TraceRecord], stages: Sequence[Stage]) -> list[Frame]:
    """The frames of a run, the first before anything happened."""
    moment = Moment()
    made = [Frame(moment, stage_for(stages, 1), Words(moment.caption), MILESTONE, "")]
    seen: dict[str, TraceRecord] = {}
    ends: dict[int, Ends] = {}
    for group in steps(trace):
        causes = [seen.get(record.cause) for record in group]
        for record, cause in zip(group, causes):
            moment = advance(moment, record, seen.get(record.cause, cause))
            seen[record.id] = record
        stage = stage_for(stages, moment.epoch)
        if moment.epoch not in ends:
            ends[moment.epoch] = {c.number: (c.source, c.target) for c in stage.channels}
        words = _words(group, causes[0], ends[moment.epoch])
        level = max(map(level_of, group))
        mark = next((MARKS[record.kind] for record in group if record.kind in MARKS), "")
        made.append(Frame(moment, stage, words, level, mark))
    return made


def steps(trace: Iterable[TraceRecord]) -> Iterator[list[TraceRecord]]:
    """The records in groups: each event with the commands it led its machine to."""
    group: list[TraceRecord] = []
    for record in trace:
        if group and event_of(record) != event_of(group[-1]):
            yield group
            group = []
        group.append(record)
    if group:
        yield group


def event_of(record: TraceRecord) -> str:
    """The id of the event that the record is, or that its machine was handling."""
    machine, _, number = record.id.rpartition("#")
    return f"{machine}#{number.partition('.')[0]}"


def level_of(record: TraceRecord) -> int:
    """How much the record matters; a barrier or another mark in a channel more than a buffer."""
    if record.kind in ("SendElement", "ElementReceived"):
        return BULK if record.checkpoint_id is None else DETAIL
    if record.kind == "TaskStateChanged":
        return {"RUNNING": DETAIL, "FINISHED": DETAIL, "FAILED": MAIN}.get(record.data["state"], PLUMBING)
    return LEVELS.get(record.kind, DETAIL)


def _words(group: Sequence[TraceRecord], cause: TraceRecord | None, ends: Ends) -> Words:
    """The most important record, then what else came of the event, then why."""
    first = max(group, key=lambda record: (level_of(record), record.role == "event"))
    others = [record for record in group if record is not first and level_of(record) >= min(DETAIL, level_of(first))]
    told: dict[str, list[str]] = {}
    for record in others:
        told.setdefault(record.kind, []).append(caption_of(record, ends))
    then = [
        captions[0] if len(captions) == 1 else f"{captions[0]} (and {len(captions) - 1} more)"
        for captions in told.values()
    ]
    because = "" if cause is None else lower_first(caption_of(cause, ends))
    return Words(caption_of(first, ends), "; ".join([then[0], *map(lower_first, then[1:])]) if then else "", because)


def story_level(made: Sequence[Frame], length: int = STORY_LENGTH) -> int:
    """The lowest level, of those a story may have, that leaves at most `length` frames."""
    for level in (DETAIL, MAIN):
        if sum(frame.level >= level for frame in made) <= length:
            return level
    return MILESTONE if sum(frame.level >= MAIN for frame in made) > 3 * length else MAIN


# --- the film ---------------------------------------------------------------------------------------------------------


def film(trace: Iterable[TraceRecord], stages: Sequence[Stage]) -> dict[str, Any]:
    """The run as JSON-like data for `stage.js`: backdrops, and frames as differences.

    A frame is `{"stage", "level", "mark", "at", "n", "set"}`: `set` maps a sprite's name to the attributes that
    changed, or to None when it is gone. The first frame of a stage sets everything. A new sprite refers to what it
    has in common with others by `look`, its number in `looks`.
    """
    made = frames(trace, stages)
    story = story_level(made)
    if len(made) > MOST_FRAMES:
        made = [frame for frame in made if frame.level >= min(story, DETAIL)]
    shapes: dict[tuple[Any, ...], int] = {}
    backdrops, packed = [], []
    looks = _Looks()
    before: Scene = {}
    shown = -1
    for frame in made:
        shape = (frame.stage.vertices, frame.stage.channels)
        if shape not in shapes:
            shapes[shape] = len(shapes)
            layout = picture_layout(frame.stage)
            backdrops.append({"width": layout.width, "height": layout.height + LEGEND_HEIGHT, "svg": backdrop(layout)})
        now = frame.scene()
        if shapes[shape] != shown:
            before = {}
        changes = looks.shortened(difference(before, now), before)
        head = {"stage": shapes[shape], "level": frame.level, "at": frame.moment.at_ms, "n": frame.moment.n}
        packed.append(head | ({"mark": frame.mark} if frame.mark else {}) | {"set": changes})
        before, shown = now, shapes[shape]
    return {"stages": backdrops, "frames": packed, "story": story, "looks": list(looks.all)}


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
        own = ("x", "y", "d", "text", "transform")
        if "transform" in sprite:
            own = ("text", "transform")
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

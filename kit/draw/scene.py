"""A moment as shapes: what is drawn, where, and in which class.

`scene(layout, moment, words)` gives a flat dict of *sprites*, each an SVG element by a name that stays its own through
the whole run. A still picture writes them all out; a page to step through gets the difference between two scenes.
So both are drawn by this one piece of code, and JavaScript only carries out differences.

What a shape looks like is its class, and the classes are in `stage.css`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap

from kit.draw.captions import caption_of, listed, lower_first
from kit.draw.element_kinds import SIGNS
from kit.draw.job_state import (
    ABORTED,
    ACKNOWLEDGED,
    ALIGNING,
    COMPLETED,
    DECLINED,
    WRITING,
    ChannelMoment,
    CheckpointMoment,
    Item,
    MessageMoment,
    Moment,
    TaskMoment,
    is_of_the_job_master,
)
from kit.draw.layout import CELL, IN_LENGTH, OUT_LENGTH, Box, Lane, Layout
from kit.draw.stage import Stage, is_crowd

Sprite = dict[str, str | float]
Scene = dict[str, Sprite]

LAYERS = ("panel", "lanes", "tasks", "elements", "marks")
"""From back to front."""

PANEL_TOP, PANEL_HEIGHT, GRAPH_TOP = 84, 104, 210
PROGRESS_CELLS, CHIP_WIDTH = 24, 166
COLOURS = 4
"""Barriers of successive checkpoints take turns among this many colours (classes cp0, cp1, ...)."""

_TASK_CLASSES = {
    "CREATED": "asleep",
    "DEPLOYING": "asleep",
    "INITIALIZING": "asleep",
    "RUNNING": "running",
    "FINISHED": "finished",
    "CANCELING": "gone",
    "CANCELED": "gone",
    "FAILED": "failed",
}
_PHASE_SIGNS = {ALIGNING: "…", WRITING: "✎", ACKNOWLEDGED: "✓", DECLINED: "✗", ABORTED: "✗"}


@dataclass(frozen=True, slots=True)
class Words:
    """The lines above the picture: what happened, what came of it, and because of what."""

    what: str
    then: str = ""
    because: str = ""


def scene(layout: Layout, moment: Moment, words: Words | None = None) -> Scene:
    """Everything that is drawn of this moment; `words` are the moment's own unless given."""
    sprites: Scene = {}
    if words is None:
        words = words_of(layout.stage, moment)
    if moment.job == "FAILED":
        words = _words_of_failure(layout, moment, words)
    for name, sprite in (
        *_words(layout, words),
        *_panel(layout, moment),
        *_tasks(layout, moment),
        *_lanes(layout, moment),
    ):
        sprites[name] = sprite
    return sprites


def words_of(stage: Stage, moment: Moment) -> Words:
    """What the moment says of its last record, channels called by the tasks they join."""
    if moment.record is None:
        return Words(moment.caption)
    ends = stage.ends()
    because = "" if moment.cause is None else lower_first(caption_of(moment.cause, ends))
    return Words(caption_of(moment.record, ends), because=because)


def _words_of_failure(layout: Layout, moment: Moment, words: Words) -> Words:
    """A job that has failed says so, and why, in two lines if need be, whatever happens after that."""
    what, *rest = wrap(f"The job has failed: {moment.error}", _most(layout.width - 2 * 24, 16, bold=True))
    return Words(what, " ".join(rest) or words.what, words.because)


Named = Iterator[tuple[str, Sprite]]


def fit(text: str, width: float, size: float, *, bold: bool = False) -> str:
    """The text, cut with an ellipsis to what surely fits into `width` at this font size (in px)."""
    most = _most(width, size, bold=bold)
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _most(width: float, size: float, *, bold: bool = False) -> int:
    """How many characters surely fit."""
    return max(1, int(width / (size * (0.58 if bold else 0.53))))


def colour(checkpoint_id: int | None) -> str:
    """The class of a checkpoint's colour."""
    return "" if checkpoint_id is None else f"cp{checkpoint_id % COLOURS}"


def _text(layer: str, x: float, y: float, classes: str, text: str, anchor: str = "") -> Sprite:
    sprite: Sprite = {"tag": "text", "layer": layer, "x": round(x, 1), "y": round(y, 1), "class": classes, "text": text}
    if anchor:
        sprite["text-anchor"] = anchor
    return sprite


def _rect(layer: str, x: float, y: float, width: float, height: float, classes: str, radius: float = 0) -> Sprite:
    sprite: Sprite = {"tag": "rect", "layer": layer, "x": round(x, 1), "y": round(y, 1)}
    sprite |= {"width": round(width, 1), "height": round(height, 1), "class": classes}
    if radius:
        sprite["rx"] = radius
    return sprite


def _words(layout: Layout, words: Words) -> Named:
    width = layout.width - 2 * 24
    yield "what", _text("panel", 24, 28, "what", fit(words.what, width, 16, bold=True))
    yield "then", _text("panel", 24, 49, "then", fit(words.then, width, 12.5))
    because = f"because {words.because}" if words.because else ""
    yield "because", _text("panel", 24, 69, "because", fit(because, width, 12.5))


# --- the coordinator --------------------------------------------------------------------------------------------------


def _panel(layout: Layout, moment: Moment) -> Named:
    """The JobMaster's panel: the job's status, checkpoints under way, checkpoints that ended."""
    right = layout.width - 24
    acting = " acting" if moment.record is not None and is_of_the_job_master(moment.record) else ""
    yield "jm", _rect("panel", 24, PANEL_TOP, right - 24, PANEL_HEIGHT, "jm" + acting, 8)
    yield "jm:title", _text("panel", 38, PANEL_TOP + 20, "jm-title", "JobMaster, checkpoint coordinator")
    status = "not started" if moment.job == "CREATED" else f"job {moment.job.lower()}"
    classes = "jm-status bad" if moment.job in ("RESTARTING", "FAILING", "FAILED") else "jm-status"
    restored = next((restore for restore in reversed(moment.restores) if restore.epoch == moment.epoch), None)
    parts = [status, f"epoch {moment.epoch}"]
    if restored is not None:
        parts.append(f"restored from checkpoint {restored.checkpoint_id}")
    yield "jm:status", _text("panel", right - 96, PANEL_TOP + 20, classes, ", ".join(parts), "end")
    clock = f"{moment.elapsed_ms:,} ms".replace(",", " ")
    yield "jm:clock", _text("panel", right - 14, PANEL_TOP + 20, "jm-status", clock, "end")
    pending = sorted(moment.pending, key=lambda checkpoint: checkpoint.checkpoint_id)
    if moment.error:
        error = fit(moment.error, right - 38 - 14, 12.5)
        yield "jm:error", _text("panel", 38, PANEL_TOP + 45, "jm-status bad", error)
    elif not pending:
        yield "jm:idle", _text("panel", 38, PANEL_TOP + 45, "quiet", "no checkpoint under way")
    for row, checkpoint in enumerate(pending[:2]):
        yield from _progress(layout, checkpoint, row, PANEL_TOP + 34 + row * 19)
    if len(pending) > 2:
        yield "jm:more", _text("panel", right - 14, PANEL_TOP + 64, "quiet", f"and {len(pending) - 2} more", "end")
    yield from _history(layout, moment)


def _progress(layout: Layout, checkpoint: CheckpointMoment, row: int, y: float) -> Named:
    name = f"pending{row}"
    number = checkpoint.checkpoint_id
    yield f"{name}:flag", _rect("panel", 38, y, 24, 14, f"barrier {colour(number)}", 2)
    yield f"{name}:number", _text("panel", 50, y + 10.5, "barrier-number", str(number), "middle")
    kind = "savepoint" if checkpoint.savepoint else "checkpoint"
    yield f"{name}:kind", _text("panel", 69, y + 11, "progress", kind)
    total, acked = len(checkpoint.expected), len(checkpoint.expected) - len(checkpoint.missing)
    x = 142.0
    if 0 < total <= PROGRESS_CELLS:
        for index, task in enumerate(checkpoint.expected):
            done = "done" if task in checkpoint.acked else "todo"
            yield f"{name}:{index}", _rect("panel", x, y + 1, 10, 12, f"cell {done}", 1.5)
            x += 12.5
    elif total:
        width = PROGRESS_CELLS * 8.0
        yield f"{name}:all", _rect("panel", x, y + 1, width, 12, "cell todo", 1.5)
        yield f"{name}:part", _rect("panel", x, y + 1, width * acked / total, 12, "cell done", 1.5)
        x += width
    text = f"{acked} of {total} acknowledged" if total else ""
    if checkpoint.step and checkpoint.step != "waiting for acknowledgements":
        text += f"; {checkpoint.step}"
    elif 0 < len(checkpoint.missing) < total:
        text += f"; still to come: {listed(checkpoint.missing)}"
    yield f"{name}:text", _text("panel", x + 8, y + 11, "progress", fit(text.lstrip("; "), layout.width - x - 60, 11))


def _history(layout: Layout, moment: Moment) -> Named:
    """A chip for each checkpoint that ended, the newest on the right."""
    y = PANEL_TOP + PANEL_HEIGHT - 27
    ended = sorted(
        (checkpoint for checkpoint in moment.checkpoints.values() if checkpoint.status in (COMPLETED, ABORTED)),
        key=lambda checkpoint: checkpoint.checkpoint_id,
    )
    room = int((layout.width - 24 * 2 - 28) // (CHIP_WIDTH + 6))
    for slot, checkpoint in enumerate(ended[-room:]):
        x = 38 + slot * (CHIP_WIDTH + 6)
        completed = checkpoint.status == COMPLETED
        sign, what = ("✓", _size(checkpoint)) if completed else ("✗", checkpoint.reason.replace("_", " ").lower())
        what = what.removeprefix("checkpoint ")
        yield f"chip{slot}", _rect("panel", x, y, CHIP_WIDTH, 18, "chip " + ("completed" if completed else "lost"), 9)
        text = fit(f"{sign} {checkpoint.checkpoint_id}: {what}", CHIP_WIDTH - 12, 10.5)
        yield f"chip{slot}:text", _text("panel", x + 8, y + 12.5, "chip-text", text)


def _size(checkpoint: CheckpointMoment) -> str:
    duration = "" if checkpoint.duration_ms is None else f"{checkpoint.duration_ms} ms"
    if checkpoint.size_bytes is None:
        return duration
    return f"{duration}, {size_text(checkpoint.size_bytes)}"


def size_text(size_bytes: float) -> str:
    """A size with its unit, three digits at most."""
    for unit in ("B", "kB", "MB"):
        if size_bytes < 1000:
            return f"{size_bytes:.3g} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:.3g} GB"


# --- tasks ------------------------------------------------------------------------------------------------------------


def _tasks(layout: Layout, moment: Moment) -> Named:
    acting = moment.record.machine if moment.record is not None else ""
    for vertex in layout.stage.vertices:
        names = [f"{vertex.name}/{subtask}" for subtask in range(vertex.parallelism)]
        if is_crowd(vertex):
            yield from _crowd(vertex.name, layout.places[vertex.name], names, moment, acting in names)
        else:
            for name in names:
                yield from _task(layout, name, moment, name == acting)


def _task(layout: Layout, name: str, moment: Moment, acting: bool) -> Named:
    box, task = layout.places[name], moment.tasks.get(name, TaskMoment())
    sprite = f"t:{name}"
    yield sprite, _rect("tasks", box.x, box.y, box.width, box.height, _task_class(task, moment, acting), 7)
    middle = box.y + box.height / 2
    yield f"{sprite}:name", _text("tasks", box.x + 11, middle - 10, "task-name", fit(name, 104, 12.5, bold=True))
    line, detail = _task_lines(layout, name, task, moment)
    yield f"{sprite}:line", _text("tasks", box.x + 11, middle + 6, "task-line", fit(line, box.width - 20, 11))
    if detail:
        detail = fit(detail, box.width - 20, 10)
        yield f"{sprite}:detail", _text("tasks", box.x + 11, middle + 20, "task-detail", detail)
    met = task.checkpoint
    if met is not None and task.state in ("RUNNING", "FINISHED"):
        number, phase = met
        over = "" if number in (checkpoint.checkpoint_id for checkpoint in moment.pending) else " over"
        yield f"{sprite}:badge", _rect("tasks", box.x + box.width - 49, middle - 22, 40, 16, f"badge {phase}{over}", 8)
        text = f"{number} {_PHASE_SIGNS.get(phase, '')}"
        yield (
            f"{sprite}:sign",
            _text("tasks", box.x + box.width - 29, middle - 10.5, f"badge-text{over}", text, "middle"),
        )
    yield from _mail(name, box, [message for message in moment.messages.values() if message.task == name])


def _task_class(task: TaskMoment, moment: Moment, acting: bool) -> str:
    classes = f"task {_TASK_CLASSES[task.state]}"
    met = task.checkpoint
    if task.state == "RUNNING" and met is not None:
        number, phase = met
        if any(checkpoint.checkpoint_id == number for checkpoint in moment.pending):
            classes += f" {phase}"
    return classes + (" acting" if acting else "")


def _task_lines(layout: Layout, name: str, task: TaskMoment, moment: Moment) -> tuple[str, str]:
    """What the task is doing, and one thing more that explains it."""
    if task.state == "FAILED":
        return ("killed" if task.lost else "failed"), task.error
    if task.state in ("CREATED", "DEPLOYING", "INITIALIZING"):
        return task.state.lower(), "" if task.restored is None else f"with state of checkpoint {task.restored}"
    detail = "" if task.published is None else f"published: checkpoint {task.published}"
    if task.state != "RUNNING":
        return task.state.lower(), detail
    if not detail and task.restored is not None:
        detail = f"restored from checkpoint {task.restored}"
    met = task.checkpoint
    if met is None or all(checkpoint.checkpoint_id != met[0] for checkpoint in moment.pending):
        return "running", detail
    number, phase = met
    if phase in (ALIGNING, WRITING):  # unaligned, barriers may still be to come while it writes
        came, awaited = _aligning(layout, name, number, moment)
        return (came, awaited) if phase == ALIGNING else (f"writing its part of {number}", awaited or detail)
    lines = {
        ACKNOWLEDGED: f"has acknowledged {number}",
        DECLINED: f"has declined {number}",
        ABORTED: f"has dropped its part of {number}",
    }
    return lines.get(phase, "running"), detail


def _aligning(layout: Layout, name: str, number: int, moment: Moment) -> tuple[str, str]:
    channels = [channel for channel in layout.stage.channels if channel.target == name]
    if not channels:
        return f"begins checkpoint {number}", ""
    states = [(channel.source, moment.channels.get(channel.number, ChannelMoment())) for channel in channels]
    waits = [source for source, state in states if not state.ended and state.taken != number]
    here = len(channels) - len(waits)
    return f"barrier {number}: {here} of {len(channels)} came", f"waits for {listed(waits)}" if waits else ""


def _mail(name: str, box: Box, messages: Sequence[MessageMoment]) -> Named:
    """Messages under way, as tabs on the box's upper edge: those to the task left, those from it right."""
    for to_task in (True, False):
        waiting = [message for message in messages if message.to_task == to_task]
        if not waiting:
            continue
        first = waiting[0]
        number = "" if first.checkpoint_id is None else f" {first.checkpoint_id}"
        more = "" if len(waiting) == 1 else f" +{len(waiting) - 1}"
        text = f"{'▾' if to_task else '▴'} {first.mail}{number}{more}"
        width = 12 + 5.6 * len(text)
        x = box.x + 8 if to_task else box.x + box.width - 8 - width
        side = "in" if to_task else "out"
        yield f"m:{name}:{side}", _rect("marks", x, box.y - 7, width, 13, f"mail {side}", 6.5)
        yield (
            f"m:{name}:{side}:text",
            _text("marks", x + width / 2, box.y + 3, "mail-text", text, "middle"),
        )


def _crowd(name: str, box: Box, tasks: Sequence[str], moment: Moment, acting: bool) -> Named:
    """A vertex with too many subtasks: one box, a cell for each."""
    yield f"t:{name}", _rect("tasks", box.x, box.y, box.width, box.height, "crowd" + (" acting" if acting else ""), 7)
    states = [moment.tasks.get(task, TaskMoment()) for task in tasks]
    columns = int((box.width - 12) // CELL)
    for index, (task, state) in enumerate(zip(tasks, states)):
        x, y = box.x + 9 + index % columns * CELL, box.y + 50 + index // columns * CELL
        classes = _task_class(state, moment, acting=False).replace("task", "cell-task", 1)
        yield f"t:{task}", _rect("tasks", x, y, CELL - 3, CELL - 3, classes, 2)
    yield (
        f"t:{name}:name",
        _text("tasks", box.x + 11, box.y + 19, "task-name", fit(f"{name} x {len(tasks)}", 150, 12.5)),
    )
    newest = max((checkpoint.checkpoint_id for checkpoint in moment.pending), default=None)
    running = sum(state.state == "RUNNING" for state in states)
    line = f"{running} of {len(tasks)} running"
    if newest is not None:
        phases = Counter(state.phases.get(newest, "") for state in states)
        line = f"{phases[ACKNOWLEDGED]} of {len(tasks)} acknowledged {newest}"
    yield f"t:{name}:line", _text("tasks", box.x + 11, box.y + 36, "task-line", fit(line, box.width - 20, 11))


# --- channels ---------------------------------------------------------------------------------------------------------


def _lanes(layout: Layout, moment: Moment) -> Named:
    for lane in layout.lanes:
        channels = [moment.channels.get(number, ChannelMoment()) for number in lane.channels]
        blocked, awaited = sum(c.blocked for c in channels), sum(c.awaited is not None for c in channels)
        classes = "lane" + (" blocked" if blocked else " awaited" if awaited else "")
        if len(lane.channels) > 1:
            classes += " bundle"
        yield lane.name, {"tag": "path", "layer": "lanes", "d": lane.path, "class": classes}
        yield from _gate(lane, channels)
        if len(channels) == 1:
            yield from _channel(lane, channels[0], moment)
        else:
            yield from _bundle(lane, channels, moment)


def _gate(lane: Lane, channels: Sequence[ChannelMoment]) -> Named:
    """A lock where the receiver keeps the channel shut, an open ring where it waits for the channel's barrier."""
    held = [channel.held for channel in channels if channel.held is not None]
    awaited = [channel.awaited for channel in channels if channel.awaited is not None]
    x, y = lane.end
    if held:
        sprite: Sprite = {"tag": "use", "layer": "marks", "href": "#kit-lock", "class": "lock"}
        yield f"{lane.name}:gate", sprite | {"x": round(x - 9, 1), "y": round(y, 1)}
        if len(channels) > 1:
            yield f"{lane.name}:asks", _text("marks", x - 9, y - 9, "times", f"×{len(held)}", "middle")
    elif awaited:
        yield f"{lane.name}:gate", _rect("marks", x - 17, y - 6, 16, 12, f"ring {colour(awaited[0])}", 6.5)
        yield f"{lane.name}:asks", _text("marks", x - 9, y + 3.2, "ring-text", f"{awaited[0]}?", "middle")


def _channel(lane: Lane, channel: ChannelMoment, moment: Moment) -> Named:
    """Every element at its place: queues at the straight ends, the wire between."""
    x, y = lane.end
    gate = 20 if channel.blocked or channel.awaited is not None else 3
    yield from _queue(lane, channel.arrived, x - gate, y, IN_LENGTH - gate, "arrived", moment)
    count = len(channel.wire)
    for index, item in enumerate(channel.wire):
        wire_x, wire_y = lane.on_wire(0.86 - index * min(0.16, 0.8 / count))
        yield from _element(lane, item, wire_x, wire_y, moment)
    x, y = lane.start
    yield from _queue(lane, channel.queued, x + OUT_LENGTH, y, OUT_LENGTH - 2, "queued", moment)


def _queue(lane: Lane, items: Sequence[Item], x: float, y: float, room: float, side: str, moment: Moment) -> Named:
    """Items in a row, the oldest at `x`, as many as fit into `room`; the others are counted."""
    for index, item in enumerate(items):
        width = _width(item)
        last = index == len(items) - 1
        if room < width + (0 if last else 18):
            yield f"{lane.name}:{side}", _text("marks", x, y + 3.5, "more", f"+{len(items) - index}", "end")
            return
        yield from _element(lane, item, x - width / 2, y, moment)
        x -= width + 3
        room -= width + 3


def _width(item: Item) -> float:
    return 12.0 if item.kind != "buffer" or item.rows <= 1 else 6.0 + 5.0 * len(short(item.rows))


def _element(lane: Lane, item: Item, x: float, y: float, moment: Moment) -> Named:
    name = f"{lane.name}.{item.serial}"
    width, height = _width(item), min(14.0, lane.pitch - 2)
    place: Sprite = {"transform": f"translate({round(x, 1):g} {round(y, 1):g})"}
    if item.kind == "buffer":
        high = min(10.0, height)
        when = "after" if _is_after(item, moment) else "before"
        yield name, _rect("elements", -width / 2 + 1, -high / 2, width - 2, high, f"buffer {when}", 2) | place
        if item.rows > 1:
            yield f"{name}t", _text("elements", 0, 2.8, f"rows {when}", short(item.rows), "middle") | place
    elif item.kind in ("barrier", "cancel"):
        shade = colour(item.checkpoint_id) if item.kind == "barrier" else ""
        classes = f"{item.kind} {shade}{' unaligned' if item.unaligned else ''}".strip()
        yield name, _rect("elements", -6, -height / 2, 12, height, classes, 1.5) | place
        yield f"{name}t", _text("elements", 0, 3.2, "barrier-number", str(item.checkpoint_id), "middle") | place
    else:
        sign = SIGNS[item.kind]
        yield name, _text("elements", 0, 3.4, f"sign {item.kind}", sign, "middle") | place


def _is_after(item: Item, moment: Moment) -> bool:
    """Whether a barrier of a pending checkpoint is ahead of it: the checkpoint does not contain it."""
    checkpoint = moment.checkpoints.get(-1 if item.after is None else item.after)
    return item.after is not None and (checkpoint is None or checkpoint.status not in (COMPLETED, ABORTED))


def short(count: int) -> str:
    """A count in at most three characters where that can be."""
    return str(count) if count < 1000 else f"{count // 1000}k" if count < 1_000_000 else f"{count // 1_000_000}M"


def _bundle(lane: Lane, channels: Sequence[ChannelMoment], moment: Moment) -> Named:
    """Many channels drawn as one: how many of them have each barrier, and how many buffers there are, in each part."""
    (start_x, start_y), (end_x, end_y) = lane.start, lane.end
    closed = any(channel.blocked or channel.awaited is not None for channel in channels)
    places = {
        "queued": [(start_x + 16, start_y)],
        "wire": [lane.on_wire(0.7), lane.on_wire(0.35), lane.on_wire(0.05)],
        "arrived": [(end_x - (40 if closed else 24), end_y), (end_x - (78 if closed else 64), end_y)],
    }
    for part, points in places.items():
        items = [item for channel in channels for item in getattr(channel, part)]
        barriers = Counter(item.checkpoint_id for item in items if item.kind == "barrier")
        heaps = [(f"b{number}", number, count) for number, count in sorted(barriers.items())]
        buffers = sum(item.kind == "buffer" for item in items)
        if buffers:
            heaps.append(("rows", None, buffers))
        for (key, number, count), (x, y) in zip(heaps, points):
            name = f"{lane.name}.{part}.{key}"
            place: Sprite = {"transform": f"translate({round(x, 1):g} {round(y, 1):g})"}
            classes = f"barrier {colour(number)}" if number is not None else "buffer before"
            yield name, _rect("elements", -6, -7, 12, 14, classes, 1.5) | place
            if number is not None:
                yield f"{name}n", _text("elements", 0, 3.2, "barrier-number", str(number), "middle") | place
            yield f"{name}t", _text("elements", 0, -9, "times", f"×{short(count)}", "middle") | place

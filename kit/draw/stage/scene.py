"""A moment's graph as shapes: the sprites of each task and each channel, with their positions and classes.

A scene is a flat dict of *sprites*: SVG elements by name. A sprite keeps its name for the whole run. The scene is drawn
part by part (`kit.draw.stage.drawing`), so that a step redraws only what it changed. These are the names of sprites:

- `t:<task or vertex>`, with suffixes after a colon, belongs to a task or a vertex;
- `m:<task>:in` and `:out` are messages;
- `<lane>` and `<lane>.<serial>` are a channel and the elements in it;
- `<lane>:gate` and `<lane>:lock` are the receiver's gate.

The look of a sprite is its class; `stage.css` defines the classes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from kit.core.protocol.tasks import vertex_of
from kit.draw.stage.layout import CELL, IN_LENGTH, OUT_LENGTH, Box, Lane, Layout, cells_in_a_row
from kit.run.captions import listed
from kit.run.element_kinds import SIGNS
from kit.run.moments.job_state import (
    ABORTED,
    ACKNOWLEDGED,
    ALIGNING,
    BEGUN,
    CAPTURING,
    COMPLETED,
    DECLINED,
    SENT,
    UNHEARD,
    WRITING,
    ChannelMoment,
    Item,
    MessageMoment,
    Moment,
    TaskMoment,
    lacks_barrier,
)

Sprite = dict[str, str | float]
Scene = dict[str, Sprite]
Named = Iterator[tuple[str, Sprite]]

LAYERS = ("panel", "lanes", "tasks", "elements", "marks")
"""The layers from back to front."""

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
_PHASE_SIGNS = {
    ALIGNING: "…",
    WRITING: "✎",
    CAPTURING: "✎…",
    SENT: "▴",
    ACKNOWLEDGED: "✓",
    UNHEARD: "?",
    DECLINED: "✗",
    ABORTED: "✗",
}


def fit(words: str, width: float, size: float, *, bold: bool = False) -> str:
    """Cut the words, with an ellipsis, to a length that fits into `width` at this font size (in px)."""
    most = most_characters(width, size, bold=bold)
    return words if len(words) <= most else words[: most - 1].rstrip() + "…"


def fit_line(words: str, width: float, size: float, *, bold: bool = False) -> str:
    """Cut a long line, with an ellipsis, by the width of each letter, because file names are wider than sentences."""
    room = width / (size * (BOLDER if bold else 1.0))
    ends = list(accumulate(_em(letter) for letter in words))
    if not ends or ends[-1] <= room:
        return words
    return words[: bisect_right(ends, room - _em("…"))].rstrip() + "…"


BOLDER = 1.1


def _em(letter: str) -> float:
    """Return the greatest width of a letter in the fonts of pictures, as a fraction of the font size."""
    if letter in " iIjlJ.,:;'|!/":
        return 0.33
    if letter in 'frt-()[]"':
        return 0.42
    if letter in "mwMW=#+%…→":
        return 0.95
    return 0.72 if letter.isupper() else 0.63


def fit_name(name: str, end: str, width: float, size: float) -> str:
    """Return a bold name with its end. A long name is cut in the middle, because neighbours differ at the end."""
    room = most_characters(width, size, bold=True) - len(end)
    if len(name) <= room:
        return name + end
    last = max(0, min(5, (room - 1) // 2))
    return f"{name[: max(1, room - 1 - last)].rstrip('-_ ')}…{name[len(name) - last :]}{end}"


def most_characters(width: float, size: float, *, bold: bool) -> int:
    """Return the number of characters that fit for certain."""
    return max(1, int(width / (size * (0.58 if bold else 0.53))))


def colour(checkpoint_id: int | None) -> str:
    """Return the class of a checkpoint's colour."""
    return "" if checkpoint_id is None else f"cp{checkpoint_id % COLOURS}"


def text(layer: str, x: float, y: float, classes: str, words: str, anchor: str = "") -> Sprite:
    """Return a line of text as a sprite."""
    sprite: Sprite = {
        "tag": "text",
        "layer": layer,
        "x": round(x, 1),
        "y": round(y, 1),
        "class": classes,
        "text": words,
    }
    if anchor:
        sprite["text-anchor"] = anchor
    return sprite


def cut(sprite: Sprite, full: str) -> Sprite:
    """Return the line; if it was cut, the full text is shown on hover."""
    return sprite if sprite["text"] == full else sprite | {"title": full}


def rect(layer: str, x: float, y: float, width: float, height: float, classes: str, radius: float = 0) -> Sprite:
    """A rectangle."""
    sprite: Sprite = {"tag": "rect", "layer": layer, "x": round(x, 1), "y": round(y, 1)}
    sprite |= {"width": round(width, 1), "height": round(height, 1), "class": classes}
    if radius:
        sprite["rx"] = radius
    return sprite


@dataclass(frozen=True, slots=True)
class SceneContext:
    """A moment, with the ids of the pending checkpoints, the machine that acts, and each task's messages in flight."""

    moment: Moment
    pending: frozenset[int]
    acting: str
    mail: Mapping[str, Sequence[MessageMoment]]

    @classmethod
    def of(cls, moment: Moment) -> SceneContext:
        """Gather what the scene of this moment needs."""
        acting = moment.record.machine if moment.record is not None else ""
        pending = frozenset(checkpoint.checkpoint_id for checkpoint in moment.pending)
        mail: dict[str, list[MessageMoment]] = {}
        for message in moment.messages.values():
            mail.setdefault(message.task, []).append(message)
        return cls(moment, pending, acting, mail)

    def task(self, name: str) -> TaskMoment:
        """Return the state of a task."""
        return self.moment.tasks.get(name, _NOT_YET)


_NOT_YET = TaskMoment()
_EMPTY = ChannelMoment()


# --- tasks ------------------------------------------------------------------------------------------------------------


def task_sprites(layout: Layout, name: str, context: SceneContext) -> Named:
    """Draw a task's box with its activity, and its messages in flight."""
    box, task = layout.places[name], context.task(name)
    sprite = f"t:{name}"
    classes = _task_class(task, context) + (" acting" if name == context.acting.partition("@")[0] else "")
    yield sprite, rect("tasks", box.x, box.y, box.width, box.height, classes, 7)
    middle = box.y + box.height / 2
    x, room = box.x + 11, box.width - 20
    vertex, slash, subtask = name.rpartition("/")
    short_name = fit_name(vertex, slash + subtask, box.width - 76, 12.5)
    yield f"{sprite}:name", cut(text("tasks", x, middle - 10, "task-name", short_name), name)
    line, detail = _task_lines(layout, name, task, context)
    yield f"{sprite}:line", cut(text("tasks", x, middle + 6, "task-line", fit(line, room, 11)), line)
    if detail:
        yield f"{sprite}:detail", cut(text("tasks", x, middle + 20, "task-detail", fit(detail, room, 10.5)), detail)
    met = task.checkpoint
    if met is not None and task.state in ("RUNNING", "FINISHED"):
        number, phase = met
        over = "" if number in context.pending else " over"
        yield f"{sprite}:badge", rect("tasks", box.x + box.width - 49, middle - 22, 40, 16, f"badge {phase}{over}", 8)
        sign = f"{number} {_PHASE_SIGNS.get(phase, '')}"
        x = box.x + box.width - 29
        yield f"{sprite}:sign", text("tasks", x, middle - 10.5, f"badge-text{over} {phase}", sign, "middle")
    yield from _mail(name, box, context.mail.get(name, ()))


def _task_class(task: TaskMoment, context: SceneContext) -> str:
    classes = f"task {_TASK_CLASSES[task.state]}"
    met = task.checkpoint
    return (
        f"{classes} {met[1]}" if task.state == "RUNNING" and met is not None and met[0] in context.pending else classes
    )


def _task_lines(layout: Layout, name: str, task: TaskMoment, context: SceneContext) -> tuple[str, str]:
    """Return the task's activity, and one line that explains it."""
    if task.state == "FAILED":
        return ("killed" if task.lost else "failed"), task.error
    if task.frozen:
        return "frozen with its worker", f"was {task.state.lower()}"
    if task.state in ("CREATED", "DEPLOYING", "INITIALIZING"):
        return task.state.lower(), "" if task.restored is None else f"with state of checkpoint {task.restored}"
    detail = "" if task.published is None else f"published: checkpoint {task.published}"
    if task.state != "RUNNING":
        return task.state.lower(), detail
    if not detail and task.restored is not None:
        detail = f"restored from checkpoint {task.restored}"
    met = task.checkpoint
    if met is None or met[0] not in context.pending:
        return "running", detail
    number, phase = met
    if phase in BEGUN:  # in an unaligned checkpoint, barriers may still be missing while it writes
        came, awaited = _aligning(layout, name, number, context.moment)
        if phase == ALIGNING:
            return came, awaited
        return f"writing its state for {number}" if phase == WRITING else "captures in-flight data", awaited or detail
    lines = {
        SENT: f"has sent its ack of {number}",
        ACKNOWLEDGED: f"has acknowledged {number}",
        UNHEARD: f"its ack of {number} was lost",
        DECLINED: f"has declined {number}",
        ABORTED: f"has dropped its part of {number}",
    }
    return lines.get(phase, "running"), detail


def _aligning(layout: Layout, name: str, number: int, moment: Moment) -> tuple[str, str]:
    channels = layout.incoming.get(name, ())
    if not channels:
        return f"begins checkpoint {number}", ""
    states = [(channel.source, moment.channels.get(channel.number, _EMPTY)) for channel in channels]
    waits = [source for source, state in states if lacks_barrier(state, number)]
    came = sum((state.taken or 0) >= number for _, state in states)
    return f"barrier {number}: {came} of {came + len(waits)} came", f"waits for {listed(waits)}" if waits else ""


def _mail(name: str, box: Box, messages: Sequence[MessageMoment]) -> Named:
    """Draw messages in flight as tabs on the box's upper edge: those to the task left, those from it right."""
    for to_task in (True, False):
        waiting = [message for message in messages if message.to_task == to_task]
        if not waiting:
            continue
        first = waiting[0]
        number = "" if first.checkpoint_id is None else f" {first.checkpoint_id}"
        more = "" if len(waiting) == 1 else f" +{len(waiting) - 1}"
        words = f"{'▾' if to_task else '▴'} {first.mail}{number}{more}"
        width = 12 + 6.2 * len(words)
        x = box.x + 8 if to_task else box.x + box.width - 8 - width
        side = "in" if to_task else "out"
        tab = f"m:{name}:{side}"
        yield tab, rect("marks", x, box.y - 7, width, 13, f"mail {side}", 6.5)
        yield f"{tab}:text", text("marks", x + width / 2, box.y + 3, "mail-text", words, "middle")


def cell_sprites(layout: Layout, task: str, many: int, context: SceneContext) -> Named:
    """Draw a subtask of a closed vertex as a cell in its box."""
    vertex, _, subtask = task.rpartition("/")
    box = layout.places[vertex]
    row, column = divmod(int(subtask), cells_in_a_row(many))
    classes = _task_class(context.task(task), context).replace("task", "cell-task", 1)
    yield f"t:{task}", rect("tasks", box.x + 9 + column * CELL, box.y + 50 + row * CELL, CELL - 3, CELL - 3, classes, 2)


def crowd_sprites(layout: Layout, vertex: str, tasks: Sequence[str], context: SceneContext) -> Named:
    """Draw a closed vertex as one box with the number of its subtasks in each phase."""
    box = layout.places[vertex]
    acting = " acting" if vertex_of(context.acting.partition("@")[0]) == vertex else ""
    yield f"t:{vertex}", rect("tasks", box.x, box.y, box.width, box.height, f"crowd{acting}", 7)
    name = fit_name(vertex, f" x {len(tasks)}", box.width - 38, 12.5)
    yield f"t:{vertex}:name", text("tasks", box.x + 11, box.y + 19, "task-name", name)
    states = [context.task(task) for task in tasks]
    newest = max(context.pending, default=None)
    if newest is None:
        line = f"{sum(state.state == 'RUNNING' for state in states)} of {len(tasks)} running"
    else:
        acked = sum(state.phases.get(newest) == ACKNOWLEDGED for state in states)
        line = f"{acked} of {len(tasks)} acknowledged {newest}"
    yield f"t:{vertex}:line", text("tasks", box.x + 11, box.y + 36, "task-line", fit(line, box.width - 20, 11))


# --- channels ---------------------------------------------------------------------------------------------------------


def lane_sprites(lane: Lane, channel: ChannelMoment, moment: Moment) -> Named:
    """Draw a lane that is one channel: the line, the receiver's gate, the queues at the straight ends, and the wire
    between them.
    """
    classes = "lane" + (" blocked" if channel.blocked else " awaited" if channel.awaited is not None else "")
    yield lane.name, {"tag": "path", "layer": "lanes", "d": lane.path, "class": classes}
    yield from _gate(lane, channel.blocked, channel.awaited)
    x, y = lane.end
    gate = 22 if channel.blocked or channel.awaited is not None else 3
    yield from _queue(lane, channel.arrived, x - gate, y, IN_LENGTH - gate, "arrived", moment)
    count = len(channel.wire)
    for index, item in enumerate(channel.wire):
        wire_x, wire_y = lane.on_wire(0.86 - index * min(0.16, 0.8 / count))
        yield from _element(lane, item, wire_x, wire_y, moment)
    x, y = lane.start
    yield from _queue(lane, channel.queued, x + OUT_LENGTH, y, OUT_LENGTH - 2, "queued", moment)


def _gate(lane: Lane, blocked: int, awaited: int | None, many: bool = False) -> Named:
    """Draw a lock if the receiver blocks the channel, or an open ring if it waits for the channel's barrier."""
    x, y = lane.end
    if blocked:
        sprite: Sprite = {"tag": "use", "layer": "marks", "href": "#kit-lock", "class": "lock"}
        yield f"{lane.name}:lock", sprite | {"x": round(x - 9, 1), "y": round(y, 1)}
        if many:
            yield f"{lane.name}:asks", text("marks", x - 2, y + 18, "times", f"×{short(blocked)}", "end")
    elif awaited is not None:
        yield f"{lane.name}:gate", rect("marks", x - 19, y - 6.5, 18, 13, f"ring {colour(awaited)}", 6.5)
        yield f"{lane.name}:asks", text("marks", x - 10, y + 3.4, "ring-text", f"{awaited}?", "middle")


def _queue(lane: Lane, items: Sequence[Item], x: float, y: float, room: float, side: str, moment: Moment) -> Named:
    """Draw items in a row, the oldest at `x`, as many as fit into `room`; the others are counted."""
    for index, item in enumerate(items):
        width = _width(item)
        last = index == len(items) - 1
        if room < width + (0 if last else 18):
            yield f"{lane.name}:{side}", text("marks", x, y + 3.5, "more", f"+{len(items) - index}", "end")
            return
        yield from _element(lane, item, x - width / 2, y, moment)
        x -= width + 3
        room -= width + 3


def _width(item: Item) -> float:
    if item.kind == "buffer":
        return 12.0 if item.rows <= 1 else 7.0 + 6.4 * len(short(item.rows))
    return 2 * _half(item.checkpoint_id) if item.kind in ("barrier", "cancel") else 12.0


def _element(lane: Lane, item: Item, x: float, y: float, moment: Moment) -> Named:
    name = f"{lane.name}.{item.serial}"
    width, height = _width(item), min(14.0, lane.pitch - 2)
    place: Sprite = {"transform": f"translate({round(x, 1):g} {round(y, 1):g})"}
    if item.kind == "buffer":
        high = min(12.0, height)
        when = "after" if _is_after(item, moment) else "before"
        yield name, rect("elements", -width / 2 + 1, -high / 2, width - 2, high, f"buffer {when}", 2) | place
        if item.rows > 1:
            yield f"{name}t", text("elements", 0, 3.6, f"rows {when}", short(item.rows), "middle") | place
    elif item.kind in ("barrier", "cancel"):
        shade = colour(item.checkpoint_id) if item.kind == "barrier" else ""
        classes = f"{item.kind} {shade}{' unaligned' if item.unaligned else ''}".strip()
        yield name, rect("elements", -width / 2, -height / 2, width, height, classes, 1.5) | place
        yield f"{name}t", text("elements", 0, 3.6, "barrier-number", str(item.checkpoint_id), "middle") | place
    else:
        yield name, text("elements", 0, 3.4, f"sign {item.kind}", SIGNS[item.kind], "middle") | place


def _is_after(item: Item, moment: Moment) -> bool:
    """Return True if a barrier of a pending checkpoint is ahead of the item, so the checkpoint excludes it."""
    checkpoint = moment.checkpoints.get(-1 if item.after is None else item.after)
    return item.after is not None and (checkpoint is None or checkpoint.status not in (COMPLETED, ABORTED))


def short(count: int) -> str:
    """Format a count in at most three characters where possible."""
    return str(count) if count < 1000 else f"{count // 1000}k" if count < 1_000_000 else f"{count // 1_000_000}M"


Part = tuple[str, int | None]
"""A part of a bundle: queued, wire or arrived, with a barrier's checkpoint or None for buffers; or held or awaited."""


class Tally:
    """Counts of the elements in the channels of a bundle. A channel that changes is removed and added again."""

    def __init__(self) -> None:
        self.counts: Counter[Part] = Counter()
        self._known: dict[int, list[Part]] = {}

    def take(self, number: int, channel: ChannelMoment) -> None:
        """Replace the state of a channel."""
        for part in self._known.get(number, ()):
            self.counts[part] -= 1
        parts = _parts(channel)
        for part in parts:
            self.counts[part] += 1
        self._known[number] = parts

    def of(self, what: str) -> list[tuple[int | None, int]]:
        """Return the count for each checkpoint in this part, in order."""
        found = [(number, count) for (part, number), count in self.counts.items() if part == what and count]
        return sorted(found, key=lambda each: (each[0] is None, each[0] or 0))


def _parts(channel: ChannelMoment) -> list[Part]:
    parts: list[Part] = []
    for place, items in (("queued", channel.queued), ("wire", channel.wire), ("arrived", channel.arrived)):
        for item in items:
            if item.kind == "buffer":
                parts.append((place, None))
            elif item.kind == "barrier":
                parts.append((place, item.checkpoint_id))
    if channel.held is not None:
        parts.append(("held", channel.held))
    if channel.awaited is not None:
        parts.append(("awaited", channel.awaited))
    return parts


def bundle_sprites(lane: Lane, tally: Tally) -> Named:
    """Draw many channels as one: in each part, the number of channels with each barrier, and the number of buffers."""
    held, awaited = tally.of("held"), tally.of("awaited")
    classes = "lane bundle" + (" blocked" if held else " awaited" if awaited else "")
    yield lane.name, {"tag": "path", "layer": "lanes", "d": lane.path, "class": classes}
    yield from _gate(lane, sum(count for _, count in held), awaited[0][0] if awaited else None, many=True)
    (start_x, start_y), (end_x, end_y) = lane.start, lane.end
    closed = bool(held or awaited)
    places = {
        "queued": [(start_x + 16, start_y)],
        "wire": [lane.on_wire(0.7), lane.on_wire(0.35), lane.on_wire(0.05)],
        "arrived": [(end_x - (40 if closed else 24), end_y), (end_x - (78 if closed else 64), end_y)],
    }
    for part, points in places.items():
        for (number, count), (x, y) in zip(tally.of(part), points):
            name = f"{lane.name}.{part}.{'rows' if number is None else f'b{number}'}"
            place: Sprite = {"transform": f"translate({round(x, 1):g} {round(y, 1):g})"}
            classes = f"barrier {colour(number)}" if number is not None else "buffer before"
            yield name, rect("elements", -_half(number), -7, 2 * _half(number), 14, classes, 1.5) | place
            if number is not None:
                yield f"{name}n", text("elements", 0, 3.6, "barrier-number", str(number), "middle") | place
            yield f"{name}t", text("elements", 0, -9, "times", f"×{short(count)}", "middle") | place


def _half(number: int | None) -> float:
    """Return half the width of a barrier, which carries its checkpoint's number."""
    return max(6.0, 2.0 + 3.6 * len(str(number))) if number is not None else 6.0

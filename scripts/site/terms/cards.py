"""Small drawings of what no moment of a run shows, in five forms: a graph, a queue, a time line, tables, key groups.

Each form is a dataclass with `draw`; `pictures` has the data. Things in `marked` carry the ring of the term.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kit.core.markup import Markup
from kit.core.state.key_groups import key_group_partitions
from kit.draw import shapes
from kit.draw.ideas.ideas import arrow
from kit.draw.stage.layout import Box
from scripts.site.terms.frame import WIDTH, framed, mark

EDGE = 8.0
INSIDE = WIDTH - 2 * EDGE
LINE = 16.0


def _card(height: float, parts: Sequence[Markup], says: str) -> str:
    return framed("kit-idea", Box(0, 0, WIDTH, height), "".join(parts), says)


def _filled(x: float, y: float, width: float, look: str, words: str, rx: float) -> list[Markup]:
    """Draw a box with words in the middle, which are light on the dark looks."""
    on = "small on" if look in ("record", "stored", "barrier") else "small"
    return [
        shapes.rect(look, round(x, 1), y, round(width, 1), 22, rx=rx),
        shapes.text(x + width / 2, y + 15, on, words, "middle"),
    ]


# --- a job ------------------------------------------------------------------------------------------------------------

COLUMNS = (("east", "west"), ("accounts/0", "accounts/1"), ("book/0", "book/1"))
"""The tasks of the bank in the order of their operators."""
PLACES = {
    task: Box(16 + column * 95, 26 + row * 54, 78, 26)
    for column, tasks in enumerate(COLUMNS)
    for row, task in enumerate(tasks)
}
EDGES = [(one, other) for one in COLUMNS[0] for other in COLUMNS[1]] + list(zip(COLUMNS[1], COLUMNS[2], strict=True))


@dataclass(frozen=True)
class Graph:
    """The tasks of the bank; a frame around some has a name. `edges` marks the connections instead."""

    marked: tuple[str, ...] = ()
    frames: tuple[tuple[str, tuple[str, ...]], ...] = ()
    edges: bool = False

    def draw(self, term: str, says: str) -> str:
        """Return the picture."""
        parts: list[Markup] = []
        for name, tasks in self.frames:
            box = _around(tasks)
            look = "term-frame" if len(self.frames) > 1 else "term-mark"
            parts.append(shapes.rect(look, box.x - 8, box.y - 6, box.width + 16, box.height + 12, rx=8))
            parts.append(shapes.text(box.x - 6, box.y - 11, "small", name))
        for one, other in EDGES:
            a, b = PLACES[one], PLACES[other]
            look = "term-edge" if self.edges and one in COLUMNS[0] else "task"
            parts.append(shapes.path(look, f"M{a.x + a.width:g} {a.y + 13:g}L{b.x:g} {b.y + 13:g}"))
        for task, box in PLACES.items():
            parts.append(shapes.rect("box", box.x, box.y, box.width, box.height, rx=5))
            parts.append(shapes.text(box.x + box.width / 2, box.y + 17, "small", task, "middle"))
            if task in self.marked:
                parts.append(mark(box.x - 4, box.y - 4, box.width + 8, box.height + 8))
        return _card(118, parts, says)


def _around(tasks: Sequence[str]) -> Box:
    boxes = [PLACES[task] for task in tasks]
    left, top = min(box.x for box in boxes), min(box.y for box in boxes)
    right, bottom = max(box.x + box.width for box in boxes), max(box.y + box.height for box in boxes)
    return Box(left, top, right - left, bottom - top)


# --- a channel --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Queue:
    """A channel into a task. `items` are the elements from the front: the class of each, and the words on it."""

    items: tuple[tuple[str, str], ...]
    marked: tuple[int, ...]
    note: str
    task: str = "accounts"

    def draw(self, term: str, says: str) -> str:
        """Return the picture."""
        y, width = 40.0, 74.0
        parts = [
            shapes.path("task", f"M{EDGE:g} {y:g}H{WIDTH - EDGE - width:g}"),
            shapes.rect("box", WIDTH - EDGE - width, y - 22, width, 44, rx=6),
            shapes.text(WIDTH - EDGE - width / 2, y + 4, "small", self.task, "middle"),
        ]
        x = WIDTH - EDGE - width - 8
        rings = []
        for number, (look, words) in enumerate(self.items):
            size = max(22.0, 10 + 6.4 * len(words))
            x -= size
            parts.append(shapes.rect(look, x, y - 11, size, 22, rx=4))
            hollow = look in ("held", "free", "box")
            parts.append(shapes.text(x + size / 2, y + 4, "small" if hollow else "small on", words, "middle"))
            if number in self.marked:
                rings.append(Box(x, y - 11, size, 22))
            x -= 7
        if rings:
            left, right = min(each.x for each in rings), max(each.x + each.width for each in rings)
            parts.append(mark(left - 5, y - 17, right - left + 10, 34))
        parts.append(shapes.text(EDGE, 82, "small", self.note))
        return _card(94, parts, says)


# --- time -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bar:
    """A stretch of a row of a time line, from `start` to `end` in percent: its class and its words."""

    start: float
    end: float
    look: str
    words: str = ""
    is_marked: bool = False


@dataclass(frozen=True)
class Line:
    """A time line. Each row has a name and bars; `signs` are (percent, row, sign, class)."""

    rows: tuple[tuple[str, tuple[Bar, ...]], ...]
    signs: tuple[tuple[float, int, str, str], ...] = ()
    note: str = ""

    def draw(self, term: str, says: str) -> str:
        """Return the picture."""
        first = 84.0 if any(name for name, _ in self.rows) else EDGE
        scale = (WIDTH - EDGE - first) / 100
        parts: list[Markup] = []
        y = 12.0
        for number, (name, bars) in enumerate(self.rows):
            parts.append(shapes.text(EDGE, y + 15, "small quiet", name))
            parts.append(shapes.path("task", f"M{first:g} {y + 11:g}H{WIDTH - EDGE:g}"))
            for bar in bars:
                x, width = first + bar.start * scale, (bar.end - bar.start) * scale
                parts += _filled(x, y, width, bar.look, bar.words, rx=4)
                if bar.is_marked:
                    parts.append(mark(x - 4, y - 4, width + 8, 30))
            for at, row, sign, look in self.signs:
                if row == number:
                    parts.append(shapes.text(first + at * scale, y + 17, look, sign, "middle"))
            y += 32
        if self.note:
            parts.append(shapes.text(EDGE, y + 10, "small", self.note))
            y += 16
        return _card(y + 6, parts, says)


# --- what is stored ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tables:
    """Boxes side by side, each with a title and lines of text; a line that begins with `*` is marked."""

    boxes: tuple[tuple[str, tuple[str, ...]], ...]
    note: str = ""
    between: str = ""
    """The signs between two boxes, one for each gap."""

    def draw(self, term: str, says: str) -> str:
        """Return the picture."""
        count, gap = len(self.boxes), 20.0 if self.between else 8.0
        width = (INSIDE - gap * (count - 1)) / count
        rows = max(len(lines) for _, lines in self.boxes)
        height = 24 + rows * LINE
        parts: list[Markup] = []
        for number, (title, lines) in enumerate(self.boxes):
            x = EDGE + number * (width + gap)
            parts.append(shapes.rect("box", round(x, 1), 6, round(width, 1), height, rx=6))
            parts.append(shapes.text(x + 8, 22, "small bold", title.removeprefix("*")))
            if title.startswith("*"):
                parts.append(mark(x - 3, 3, width + 6, height + 6))
            for row, line in enumerate(lines):
                y = 40 + row * LINE
                if line.startswith("*"):
                    parts.append(mark(x + 3, y - 12, width - 6, LINE))
                parts.append(shapes.text(x + 8, y, "small", line.removeprefix("*")))
            if number and self.between:
                parts.append(shapes.text(x - gap / 2, 6 + height / 2 + 4, "head", self.between[number - 1], "middle"))
        if self.note:
            parts.append(shapes.text(EDGE, height + 24, "small", self.note))
        return _card(height + (32 if self.note else 14), parts, says)


@dataclass(frozen=True)
class Files:
    """Rows of files: the name of each row, and its files with their words and classes; `*` marks a file."""

    rows: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    note: str = ""

    def draw(self, term: str, says: str) -> str:
        """Return the picture."""
        parts: list[Markup] = []
        first, y = 84.0, 8.0
        for name, files in self.rows:
            x = first
            parts.append(shapes.text(EDGE, y + 15, "small quiet", name))
            for words, look in files:
                text = words.removeprefix("*")
                width = 12 + 6.3 * len(text)
                parts += _filled(x, y, width, look, text, rx=3)
                if words.startswith("*"):
                    parts.append(mark(x - 3, y - 3, width + 6, 28))
                x += width + 8
            y += 32
        if self.note:
            parts.append(shapes.text(EDGE, y + 8, "small", self.note))
            y += 16
        return _card(y + 2, parts, says)


# --- key groups -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ranges:
    """Eight key groups, and the subtasks that own them, for one or more parallelisms; `marked` groups have a ring."""

    parallelisms: tuple[int, ...]
    marked: tuple[int, ...] = ()
    note: str = ""
    count: int = 8

    def draw(self, term: str, says: str) -> str:
        """Return the picture."""
        first = 62.0
        width = (WIDTH - EDGE - first) / self.count
        parts: list[Markup] = []
        for row, parallelism in enumerate(self.parallelisms):
            y = 24.0 + row * 50
            parts.append(shapes.text(EDGE, y + 16, "small quiet", f"{parallelism} tasks"))
            for subtask, owned in enumerate(key_group_partitions(self.count, parallelism)):
                left = first + width * owned.start
                parts.append(shapes.text(left + 3, y - 5, "small quiet", f"subtask {subtask}"))
                for group in range(owned.start, owned.end + 1):
                    x = first + width * group + (3 if group == owned.start else 0)
                    wide = width - (3 if group == owned.start else 0)
                    look = "moved" if row and group in self.marked else "box"
                    parts.append(shapes.rect(look, round(x, 1), y, round(wide, 1), 24))
                    parts.append(shapes.text(x + wide / 2, y + 16, "small", str(group), "middle"))
            if self.marked and len(self.parallelisms) == 1:
                left, right = min(self.marked), max(self.marked) + 1
                parts.append(mark(first + width * left, y - 3, width * (right - left) + 2, 30))
        y = 24.0 + 50 * len(self.parallelisms) - 10
        if self.note:
            parts.append(shapes.text(EDGE, y, "small", self.note))
        return _card(y + 10, parts, says)


# --- cuts -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cut:
    """A source and a task over time, the cut through both, and a record: sent at `sent`, consumed at `taken` (0 to 1).

    The cut is at 0.35 of the source and at 0.7 of the task.
    """

    sent: float
    taken: float
    note: str
    good: bool

    def draw(self, term: str, says: str) -> str:
        """Return the picture."""
        top, low, left, width = 18.0, 66.0, 66.0, WIDTH - 66 - EDGE
        copy, later = left + 0.35 * width, left + 0.7 * width
        parts = [
            shapes.text(EDGE, top + 4, "small quiet", "source"),
            shapes.text(EDGE, low + 4, "small quiet", "accounts"),
            shapes.path("task", f"M{left:g} {top:g}H{WIDTH - EDGE:g}M{left:g} {low:g}H{WIDTH - EDGE:g}"),
            shapes.path("cut", f"M{copy:g} {top:g}L{later:g} {low:g}"),
            arrow(left + self.sent * width, top, left + self.taken * width, low, bad=not self.good),
            shapes.text(EDGE, 90, "small good" if self.good else "small bad", self.note),
        ]
        return _card(98, parts, says)

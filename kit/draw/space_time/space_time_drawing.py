"""The primitives of a space-time diagram: lines, areas, boxes, dots and texts, from a document and an interval of time.

`space_time_drawing.js` does the same in a page, method by method, and a test compares the primitives of both. What is
drawn and what it is called is in the document; its looks are in the document's table. So this file only places it. A
picture has all vertices open, where a page may draw many subtasks as one band.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, repeat
from math import ceil, inf
from typing import Any

from kit.draw.charts.round_numbers import round_step
from kit.draw.space_time.space_time_data import Arrow, Mark
from kit.draw.space_time.space_time_looks import ARROWS, LAYERS, LEGEND, LOOKS, NAMES, SIZES, STYLES, Look
from kit.draw.space_time.space_time_sides import NEVER, Side, look_in
from kit.run.durations import duration
from kit.run.journeys import Crossing


@dataclass(frozen=True, slots=True)
class Primitive:
    """A shape with its style: one of `STYLES`, in the colour of `checkpoint` where the style asks for one.

    `at` are its coordinates: of the points of a "line" or an "area", the corner, the size and the radius of a "box",
    the middle and the radius of a "dot", the anchor of a "text".
    """

    shape: str
    style: str
    at: tuple[float, ...]
    checkpoint: int = NEVER
    opacity: float = 1.0
    widest: float = inf
    """The greatest width of a line."""
    words: str = ""
    anchor: str = ""
    most: float = inf
    """The width to which a text is cut."""
    hint: str = ""


class Drawing:
    """The drawing of a document's interval, in ms since the run began, on a width in px."""

    def __init__(
        self, document: Mapping[str, Any], chosen: int | None, interval: tuple[float, float], width: float
    ) -> None:
        self._document, self._chosen, self.width = document, chosen, width
        self._since, self._until = interval
        self._scale = width / max(self._until - self._since, 1e-9)
        runs = document["clock"]["runs"]
        self._ms = list(chain.from_iterable(repeat(at, many) for many, at in zip(runs[::2], runs[1::2], strict=True)))
        self._ms.insert(0, self._ms[0] if self._ms else 0)
        self._late = list(accumulate(self._ms, max))
        self._checkpoints = {each["id"]: each for each in document["checkpoints"]}
        self._cut: dict[int, int] = {} if chosen not in self._checkpoints else dict(self._checkpoints[chosen]["cut"])
        self._epoch = None if chosen not in self._checkpoints else self._checkpoints[chosen]["epoch"]
        self._sides: Mapping[int | str, Sequence[Side]] = (
            {} if chosen not in self._checkpoints else self._checkpoints[chosen]["sides"]
        )
        self.seen: set[str] = set()
        """The entries of the legend that occur."""
        self.sampled: dict[str, int] = {}
        """Of how many arrows one is drawn, by look, if not all are."""
        self._captions: list[Primitive] = []
        self._free = -inf
        self._lay_out()

    def primitives(self) -> list[Primitive]:
        """Return everything that is drawn, from the ground up."""
        return list(
            chain(
                self._grid(),
                self._layer(0),
                self._region(),
                self._lines(),
                self._cuts(),
                self._layer(1),
                [Primitive("line", "job", (0, self.y[0], self.width, self.y[0]))],
                self._arrows(),
                self._layer(2),
                self._bar_captions(),
                *(self._layer(layer) for layer in range(3, LAYERS)),
            )
        )

    # --- places ---------------------------------------------------------------------------------------------------

    def _lay_out(self) -> None:
        """Place the lanes: one below the other, by vertex. A vertex with many subtasks has a header."""
        groups = [(group["name"], group["lanes"]) for group in self._document["groups"]]
        few = [lanes for _, lanes in groups if len(lanes) <= SIZES["most_lines"]]
        is_crowded = sum(map(len, few)) > SIZES["most_open"]
        lines = sum(len(lanes) for _, lanes in groups)
        self.room = next(height for most, height in SIZES["rows"] if most is None or lines <= most)
        top = SIZES["ruler"] + SIZES["job"]
        self.y: dict[int, float] = {0: top - 8}
        self.headers: dict[str, float] = {}
        at = top + 8.0
        for name, lanes in groups:
            if len(lanes) > (1 if is_crowded else SIZES["most_lines"]):
                self.headers[name] = at + SIZES["header"] / 2
                at += SIZES["header"]
            for lane in lanes:
                self.y[lane] = at + 0.42 * self.room
                at += self.room
            at += SIZES["narrow_gap"] if is_crowded else SIZES["gap"]
        self.height = at

    def _x(self, n: int) -> float:
        return self._x_ms(self._ms[n])

    def _x_ms(self, at_ms: float) -> float:
        return (at_ms - self._since) * self._scale

    def _record_at(self, ms: float) -> int:
        return min(bisect_left(self._late, ms), len(self._late) - 1)

    # --- the ground -----------------------------------------------------------------------------------------------

    def _grid(self) -> Iterator[Primitive]:
        step = round_step((self._until - self._since) / max(2, self.width / SIZES["least_tick"]))
        top = SIZES["ruler"]
        for number in range(ceil(self._since / step), int(self._until // step) + 1):
            x, words = self._x_ms(number * step), duration(number * step)
            half = 3.2 * len(words)
            if number * step < self._ms[0] or number * step > self._late[-1] or not half < x < self.width - half:
                continue
            yield Primitive("line", "grid", (x, top, x, self.height))
            yield Primitive("text", "tick", (x, top - 9), words=words, anchor="middle")

    def _region(self) -> Iterator[Primitive]:
        """Draw the region of the checkpoint: what each task of its epoch did before it copied its state."""
        points = self._points(self._cut)
        if self._chosen is None or not points:
            return
        since = next((each["since"] for each in self._document["epochs"] if each["epoch"] == self._epoch), 0)
        begin = max(-10, self._x(since))
        points = _with_ends(points)
        at = (begin, points[0][1], *chain(*points), begin, points[-1][1])
        yield Primitive("area", "region", at, self._chosen)

    def _points(self, cut: Mapping[int, int]) -> list[tuple[float, float]]:
        """Return the points of a cut from top to bottom."""
        lanes = chain.from_iterable(group["lanes"] for group in self._document["groups"])
        return [(self._x(cut[lane]), self.y[lane]) for lane in lanes if lane in cut]

    def _lines(self) -> Iterator[Primitive]:
        epochs = self._document["epochs"]
        for number, each in enumerate(epochs):
            begin = max(0.0, self._x(each["since"] if number else 0))
            end = min(self.width, self._x(epochs[number + 1]["since"]) if number + 1 < len(epochs) else self.width)
            if end < 0 or begin > self.width:
                continue
            for lane in each["lanes"]:
                yield Primitive("line", "lane", (begin, self.y[lane], end, self.y[lane]))

    # --- checkpoints and incidents --------------------------------------------------------------------------------

    def _cuts(self) -> Iterator[Primitive]:
        for number, each in self._checkpoints.items():
            if self._is_cut_seen(each):
                is_chosen = number == self._chosen
                xs = [self._x(n) for _, n in each["cut"]]
                if max(xs) >= 0 and min(xs) <= self.width:
                    self.seen.add("cut" if is_chosen else "other cuts")
                at = tuple(chain(*_with_ends(self._points(dict(each["cut"])))))
                yield Primitive("line", "cut" if is_chosen else "other cut", at, number)

    def _is_cut_seen(self, each: Mapping[str, Any]) -> bool:
        xs = [self._x(n) for _, n in each["cut"]]
        return bool(xs) and max(xs) > -40 and min(xs) < self.width + 40

    def _layer(self, layer: int) -> Iterator[Primitive]:
        """Draw the marks of a layer: of each checkpoint, and then the run's."""
        for known in (*self._checkpoints.values(), None):
            for mark in (self._document if known is None else known)["marks"]:
                name, number = NAMES[mark.look], NEVER if known is None else known["id"]
                look, is_chosen = LOOKS[name], number == self._chosen
                if look.layer != layer or (look.only_chosen and not is_chosen):
                    continue
                style = f"other {name}" if look.has_other and not is_chosen else name
                drawn = list(_SHAPES[look.shape](self, mark, style))
                if drawn:
                    self.seen.update(look.legend)
                    hint = self._hint(mark, look, known)
                    yield from (replace(each, checkpoint=number, hint=hint) for each in drawn)

    def _hint(self, mark: Mark, look: Look, known: Mapping[str, Any] | None) -> str:
        went = "" if known is None else known["went"]
        return look.hint.format(
            lane=self._document["lanes"][mark.lane],
            when=duration(mark.since_ms),
            length=duration(mark.until_ms - mark.since_ms),
            words=mark.words,
            note=mark.note,
            id=known and known["id"],
            about=known and f"{known['said']}. {went[:1].upper()}{went[1:]}",
        )

    def _is_near(self, x: float, margin: float) -> bool:
        return -margin <= x <= self.width + margin

    def _epoch_line(self, mark: Mark, style: str) -> Iterator[Primitive]:
        x = self._x_ms(mark.since_ms)
        if self._is_near(x, 5):
            yield Primitive("line", style, (x, SIZES["ruler"], x, self.height))
            yield Primitive("text", f"{style} words", (x + 5, self.height - 10), words=mark.words)

    def _bar(self, mark: Mark, style: str) -> Iterator[Primitive]:
        begin, end = self._x_ms(mark.since_ms), self._x_ms(mark.until_ms)
        outset = 1 if style == "slow" else 0
        width = max(end - begin, 2 * outset)
        if self.room < SIZES["room_for_bars"] or end < 0 or begin > self.width or width <= 0:
            return
        high, share = SIZES["bar"]
        y, height = self.y[mark.lane] + SIZES["below"], min(high, self.room * share)
        yield Primitive("box", style, (begin - outset, y - outset, width + 2 * outset, height + 2 * outset, 0))
        if mark.words and self.room >= SIZES["room_for_captions"]:
            is_open = style.endswith(" open")
            x = min(end, self.width - 4) if is_open else max(4, min(begin, self.width - 140))
            most, anchor = (x - 4, "end") if is_open else (inf, "")
            at = (x, y + height + 7)
            self._captions.append(Primitive("text", "caption", at, words=mark.words, anchor=anchor, most=most))

    def _bar_captions(self) -> Iterator[Primitive]:
        """Draw the captions of bars above all arrows."""
        if len(self._captions) <= SIZES["most_captions"]:
            yield from self._captions

    def _square(self, mark: Mark, style: str) -> Iterator[Primitive]:
        x, y = self._x_ms(mark.since_ms), self.y[mark.lane]
        half = min(SIZES["square"][style.startswith("other")], max(1.6, 0.2 * self.room))
        if self._is_near(x, 6):
            yield Primitive("box", style, (x - half, y - half, 2 * half, 2 * half, 0))

    def _words(self, mark: Mark, style: str) -> Iterator[Primitive]:
        x = self._x_ms(mark.since_ms)
        if self._is_near(x, 20):
            yield self._text(x, self.y[mark.lane], f"{style} words", mark.words)

    def _span(self, mark: Mark, style: str) -> Iterator[Primitive]:
        begin, y = self._x_ms(mark.since_ms), self.y[mark.lane]
        end = self.width + 20 if mark.until == NEVER else self._x_ms(mark.until_ms)
        if end >= -70 and begin <= self.width + 20:
            yield Primitive("line", style, (begin, y, end, y))

    def _plate(self, mark: Mark, style: str) -> Iterator[Primitive]:
        x = self._x_ms(mark.since_ms)
        if self._is_near(x, 20):
            yield from _number(mark.words, x, self.y[mark.lane], SIZES["plate"], style)

    def _end(self, mark: Mark, style: str) -> Iterator[Primitive]:
        x, y = self._x_ms(mark.since_ms), self.y[mark.lane]
        if not self._is_near(x, 20):
            return
        half = SIZES["letter"] * STYLES[f"{style} words"].size * len(mark.words) / 2
        if x - half > self._free:
            yield self._text(x, y + SIZES["end_words"], f"{style} words", mark.words)
            self._free = x + half + 12
        yield Primitive("dot", style, (x, y, SIZES["dot"]))

    def _triangle(self, mark: Mark, style: str) -> Iterator[Primitive]:
        place = (self._x_ms(mark.since_ms), self.y[mark.lane])
        if self._is_near(place[0], 6):
            yield Primitive("area", style, tuple(at + place[k % 2] for k, at in enumerate(SIZES["triangle"])))

    def _text(self, x: float, y: float, style: str, words: str) -> Primitive:
        """Draw words around a place, or beside it at the edges."""
        half = SIZES["letter"] * STYLES[style].size * len(words) / 2
        anchor = "end" if x > self.width - half else "" if x < half else "middle"
        return Primitive("text", style, (x, y), words=words, anchor=anchor)

    # --- arrows ---------------------------------------------------------------------------------------------------

    def _arrows(self) -> Iterator[Primitive]:
        """Draw what travels in the interval, look by look."""
        found: dict[tuple[str, int], list[Arrow]] = {}
        begin = self._record_at(max(self._since, self._late[0])) - 1
        end = self._record_at(self._until + 1) + 1
        for name in ("letters", "elements"):
            columns = self._document[name]["columns"]
            for number, over in enumerate(columns["over"][: bisect_right(columns["start"], end)]):
                if NEVER < over < begin:
                    continue
                arrow = Arrow(*(column[number] for column in columns.values()))
                if NEVER in (arrow.source, arrow.target):
                    continue
                look = self._look_of(arrow, number)
                found.setdefault((look, arrow.checkpoint % 4 if look == "barrier" else 0), []).append(arrow)
        for look in ARROWS:
            for hue in range(4):
                if arrows := found.get((look, hue)):
                    yield from self._of_look(look, self._thinned(look, arrows))

    def _look_of(self, arrow: Arrow, row: int) -> str:
        """Return the look of an arrow: of a buffer of records, that of its side of the chosen cut."""
        if NAMES[arrow.look] != "records" or arrow.epoch != self._epoch or arrow.pick not in self._sides:
            return NAMES[arrow.look]
        return NAMES[look_in(self._sides[arrow.pick], row)]

    def _thinned(self, look: str, arrows: list[Arrow]) -> list[Arrow]:
        """Of very many, leave out those that look the same, then every n-th one."""
        if len(arrows) <= SIZES["many"] or LOOKS[look].crosses:
            return arrows
        last: dict[tuple[int, int], float] = {}
        apart = []
        for each in arrows:
            x, way = self._x(each.start if each.sent == NEVER else each.sent), (each.source, each.target)
            if x - last.get(way, -inf) >= SIZES["apart"]:
                last[way] = x
                apart.append(each)
        every = ceil(len(apart) / SIZES["many"])
        if every > 1:
            self.sampled[look] = max(every, self.sampled.get(look, 1))
        return apart[::every]

    def _of_look(self, name: str, arrows: list[Arrow]) -> Iterator[Primitive]:
        look, many = LOOKS[name], len(arrows)
        self.seen.update(look.legend)
        opacity = 1.0 if look.crosses else max(SIZES["faintest"], min(1.0, SIZES["crowd"] / many))
        is_plain = many > SIZES["plain"] and not look.crosses
        most, width = SIZES["thin"]
        widest = width if many > most and not look.crosses else inf
        for arrow in arrows:
            drawn = [*self._way(arrow, name, widest, is_plain=is_plain)]
            if name == "barrier" and many <= SIZES["numbered"] and arrow.sent != NEVER:
                x, y, x2, y2 = drawn[0].at
                place = (x + 0.35 * (x2 - x), y + 0.35 * (y2 - y))
                drawn += _number(str(arrow.checkpoint), *place, SIZES["small_plate"], "barrier flag")
            drawn += self._head(arrow, name) if many <= SIZES["many"] else ()
            hint = self._arrow_hint(arrow, name)
            for each in drawn:
                faint = opacity if each.shape in ("line", "area") else 1.0
                yield replace(each, checkpoint=arrow.checkpoint, opacity=faint, hint=hint)

    def _heights(self, arrow: Arrow, look: Look) -> tuple[float, float, float, float]:
        """Return where an arrow leaves, where it waits before that, how far it came, and where it is taken."""
        above, below = self.y[arrow.source], self.y[arrow.target]
        away = SIZES["wait"] * (1 if below >= above else -1) if look.waits and self.room >= SIZES["close"] else 0
        to = (above + below) / 2 if arrow.received == NEVER else below - away
        return above, above + away, to, below

    def _way(self, arrow: Arrow, name: str, widest: float, *, is_plain: bool) -> Iterator[Primitive]:
        """Draw the way across, and along the lines while it waits there."""
        look = LOOKS[name]
        above, waits, to, _ = self._heights(arrow, look)
        over = self._document["n"] if arrow.over == NEVER else arrow.over
        x_start, x_over = self._x(arrow.start), self._x(over)
        x_sent, x_received = (self._x(over if n == NEVER else n) for n in (arrow.sent, arrow.received))
        if arrow.sent != NEVER:
            style = f"{name} plain" if is_plain else name
            yield Primitive("line", style, (x_sent, above, x_received, to), widest=widest)
        along = [(x_start, waits, x_sent, waits)] if x_sent - x_start > 0.5 else []
        if arrow.received != NEVER and x_over - x_received > 0.5:
            along.append((x_received, to, x_over, to))
        for at in along if look.waits else ():
            self.seen.add("wait")
            yield Primitive("line", f"{name} wait", at, widest=1 if is_plain else max(1, 0.6 * self.room))

    def _head(self, arrow: Arrow, name: str) -> Iterator[Primitive]:
        """Draw the head of an arrow that was taken, or a sign where it was lost."""
        look = LOOKS[name]
        above, waits, to, below = self._heights(arrow, look)
        if arrow.over == NEVER:
            return
        x = self._x(arrow.over)
        if arrow.lost:
            self.seen.add("lost")
            yield Primitive("text", "lost sign", (x, waits if arrow.sent == NEVER else to), words="✗", anchor="middle")
        elif arrow.received != NEVER:
            back = below - look.head * (1 if below >= above else -1)
            yield Primitive("area", f"{name} head", (x, below, x - look.head / 2, back, x + look.head / 2, back))

    def _arrow_hint(self, arrow: Arrow, name: str) -> str:
        """Describe an arrow: what it is, its times, and its side of the cut."""
        look, lanes = LOOKS[name], self._document["lanes"]
        what = self._document["phrases"][arrow.phrase]
        lines = [look.hint.format(what=what, source=lanes[arrow.source], target=lanes[arrow.target])]
        *names, unfinished = look.times
        at = zip(
            (*names[:3], "lost" if arrow.lost else names[3]),
            (arrow.start, arrow.sent, arrow.received, arrow.over),
            strict=True,
        )
        times = [f"{word} {duration(self._ms[n])}" for word, n in at if word and n != NEVER]
        lines.append(" · ".join(times if arrow.over != NEVER else [*times, unfinished]))
        if name in Crossing.__members__:
            lines.append(f"Checkpoint {self._chosen}: {Crossing[name].value}")
        return "\n".join(lines)


_SHAPES: Mapping[str, Callable[[Drawing, Mark, str], Iterator[Primitive]]] = {
    "epoch": Drawing._epoch_line,
    "bar": Drawing._bar,
    "square": Drawing._square,
    "words": Drawing._words,
    "span": Drawing._span,
    "plate": Drawing._plate,
    "end": Drawing._end,
    "triangle": Drawing._triangle,
}


def _number(words: str, x: float, y: float, size: Sequence[float], style: str) -> Iterator[Primitive]:
    """Draw the number of a checkpoint on its colour."""
    height, width, letter, radius = size
    width += letter * len(words)
    yield Primitive("box", style, (x - width / 2, y - height / 2, width, height, radius))
    yield Primitive("text", f"{style} words", (x, y + 0.5), words=words, anchor="middle")


def _with_ends(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    (first, top), (last, low), more = points[0], points[-1], SIZES["cut_end"]
    return [(first, top - more), *points, (last, low + more)]


def legend_of(drawing: Drawing) -> list[tuple[str, str]]:
    """Return the sign and the words of each entry of the legend of what was drawn."""
    kinds = [name for name in LEGEND if name in drawing.seen]
    together = [LEGEND[name].together for name in kinds]
    shown = []
    for name in kinds:
        entry = LEGEND[name]
        if entry.together and together.count(entry.together) > 1:
            entry = LEGEND[entry.together]
        part = f" (1 of {drawing.sampled[name]} is drawn)" if name in drawing.sampled else ""
        shown.append((entry.sign, entry.words + part))
    return list(dict.fromkeys(shown))

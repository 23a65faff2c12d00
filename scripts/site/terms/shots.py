"""A piece of the picture of a run, at natural size, with the item marked that a term means."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from kit.core.markup import Markup
from kit.draw import shapes
from kit.draw.stage.drawing import scene
from kit.draw.stage.job_master_panel import words_of
from kit.draw.stage.layout import IN_LENGTH, OUT_LENGTH, Box, Layout
from kit.draw.stage.scene import Scene, Sprite
from kit.draw.svg import backdrop, picture_layout
from kit.hosts.lab import open_scenario
from scripts.site.terms.frame import WIDTH, framed, mark

LETTERS = {"jm-title": 7.8, "jm-status": 6.9}
LETTER = 6.2
"""The width of a letter in px, for the box of a text, by its class; and that of all other classes."""
ROOM = 12.0
"""The least space around what is marked."""
LEAST_HEIGHT, MOST_HEIGHT = 84.0, 150.0
_OPENER = re.compile(r'<g class="opener".*?</g>', re.DOTALL)
"""A sign to press, which does nothing in a still picture; browsers would give it the focus all the same."""
_PLACE = re.compile(r"translate\(([-\d.]+) ([-\d.]+)\)")


@dataclass(frozen=True)
class Shot:
    """A picture of a term: the moment after a block of a scenario, and the items that it marks.

    An item is the name of a sprite of `kit.draw.stage.scene` (`t:sums/0`, `pending0`, `chip1`), which stands for all
    whose names begin with it; `title:sums` or `facts:sums`, a line above a vertex; or a channel such as
    `left/0 -> sums/0`, with `:sent` or `:arrived` for the queue at one end, or `:barrier` for the first such element.
    """

    scenario: str
    block: int
    marked: tuple[str, ...]
    beside: tuple[str, ...] = ()
    """Items that are in the picture without being marked."""

    def draw(self, term: str, says: str) -> str:
        """Return the picture; `says` is what it shows, for readers who do not see it."""
        layout, sprites, what = _moment(self.scenario, self.block)
        boxes = [_union(_boxes(layout, sprites, item)) for item in self.marked]
        all_ = _union([*boxes, *(_union(_boxes(layout, sprites, item)) for item in self.beside)])
        if all_.width > WIDTH or all_.height > MOST_HEIGHT:
            raise ValueError(f"{term}: {self.marked} need {all_.width:g} x {all_.height:g} px")
        height = min(MOST_HEIGHT, max(LEAST_HEIGHT, all_.height + 2 * ROOM))
        x = all_.x + all_.width / 2 - WIDTH / 2
        x = min(max(x, 0.0), layout.width - WIDTH, all_.x - ROOM / 2)
        y = all_.y + all_.height / 2 - height / 2
        frame = Box(x, y, WIDTH, height)
        drawn = _OPENER.sub("", backdrop(_titled(layout, frame), _within(sprites, frame)))
        rings = "".join(_ring(layout, item, box) for item, box in zip(self.marked, boxes, strict=True))
        drawn = drawn.replace("kit-lock", f"kit-lock-of-{term.replace(' ', '-')}")  # ids are unique in a page
        return framed("kit-stage", frame, drawn + rings, f"{says}: a moment of a run. {what}")


def _ring(layout: Layout, item: str, box: Box) -> Markup:
    """Return the mark of an item: a ring, or for a channel its line."""
    for lane in layout.lanes:
        if f"{lane.source} -> {lane.target}" == item:
            return shapes.path("term-edge", lane.path)
    return mark(box.x - 3, box.y - 3, box.width + 6, box.height + 6)


@cache
def _moment(scenario: str, block: int) -> tuple[Layout, Scene, str]:
    """Return the drawing of a moment, and what happens in it. `block` counts from 1."""
    opened = open_scenario(scenario)
    for _ in range(block):
        opened.next()
    stage, moment = opened.lab.look.stages[-1], opened.lab.moment()
    layout = picture_layout(stage)
    return layout, scene(layout, moment), words_of(stage, moment).what


def _titled(layout: Layout, frame: Box) -> Layout:
    """Return the layout without the titles that the frame would cut."""
    whole = [
        each
        for each in layout.stage.vertices
        if _is_in(next(_boxes(layout, {}, f"facts:{each.name}")), frame)
        and _is_in(next(_boxes(layout, {}, f"title:{each.name}")), frame)
    ]
    return replace(layout, stage=replace(layout.stage, vertices=tuple(whole)))


def _is_in(box: Box, frame: Box) -> bool:
    across = frame.x <= box.x and box.x + box.width <= frame.x + frame.width
    return across and frame.y <= box.y and box.y + box.height <= frame.y + frame.height


def _within(sprites: Scene, frame: Box) -> Scene:
    """Leave out the words and the ended checkpoints that the frame would cut, and the words above the picture."""
    return {
        name: sprite
        for name, sprite in sprites.items()
        if name not in ("what", "then", "because") and (sprite["tag"] != "text" or _is_in(_box(sprite) or frame, frame))
    }


def _boxes(layout: Layout, sprites: Scene, item: str) -> Iterator[Box]:
    """Yield the boxes of an item. Raises KeyError if the moment does not show it."""
    kind, _, vertex = item.partition(":")
    if kind in ("title", "facts"):
        box = layout.vertices[vertex]
        words = " → ".join(next(each.operators for each in layout.stage.vertices if each.name == vertex)) or vertex
        width, top = (len(words) * 7.0, 2) if kind == "title" else (165.0, 19)
        yield Box(box.x + box.width / 2 - width / 2, box.y + top, width, 15)
        return
    ends, _, part = item.partition(":") if " -> " in item else ("", "", "")
    name = next((each.name for each in layout.lanes if f"{each.source} -> {each.target}" == ends), "")
    if ends and part in ("", "sent", "arrived"):
        lane = next(each for each in layout.lanes if each.name == name)
        (x1, y1), (x2, y2) = lane.start, lane.end
        spans = {"": (x1, x2), "sent": (x1, x1 + OUT_LENGTH), "arrived": (x2 - IN_LENGTH, x2)}[part]
        ys = {"": (y1, y2), "sent": (y1, y1), "arrived": (y2, y2)}[part]
        yield Box(spans[0], min(ys) - 8, spans[1] - spans[0], abs(ys[1] - ys[0]) + 16)
        return
    found = [
        sprite
        for key, sprite in sprites.items()
        if (key.startswith(f"{name}.") and part in str(sprite["class"]).split() if ends else _is_of(key, item))
    ]
    boxes = [box for box in map(_box, found[:1] if ends else found) if box is not None]
    if not boxes:
        raise KeyError(f"the moment does not show {item!r}")
    yield from boxes


def _is_of(name: str, item: str) -> bool:
    return name == item or name.startswith(f"{item}:")


def _box(sprite: Sprite) -> Box | None:
    """Return the box of a sprite, about; None for a path."""
    moved = _PLACE.search(str(sprite.get("transform", "")))
    dx, dy = (float(moved[1]), float(moved[2])) if moved else (0.0, 0.0)
    if "width" in sprite:
        return Box(float(sprite["x"]) + dx, float(sprite["y"]) + dy, float(sprite["width"]), float(sprite["height"]))
    if "text" in sprite:
        letter = LETTERS.get(str(sprite["class"]).partition(" ")[0], LETTER)
        width, x = letter * len(str(sprite["text"])), float(sprite["x"]) + dx
        x -= {"middle": width / 2, "end": width}.get(str(sprite.get("text-anchor", "")), 0.0)
        return Box(x, float(sprite["y"]) + dy - 10, width, 13)
    if sprite["tag"] == "use":
        return Box(float(sprite["x"]) - 6, float(sprite["y"]) - 7, 12, 14)
    return None


def _union(boxes: list[Box] | Iterator[Box]) -> Box:
    """Return the box around all."""
    every = list(boxes)
    left, top = min(each.x for each in every), min(each.y for each in every)
    right = max(each.x + each.width for each in every)
    return Box(left, top, right - left, max(each.y + each.height for each in every) - top)

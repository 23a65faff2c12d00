"""Drawing the frames of a film one after another, each as the changes since the one before.

A `Pen` holds the drawing and the facts of one moment. It draws the next moment as differences, or whole if a page
starts with it. Several pens may share `Looks`, the attributes that sprites have in common, which grows at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kit.draw.stage.drawing import Changes, Drawing, Touched
from kit.draw.stage.facts import facts_of
from kit.draw.stage.layout import Layout
from kit.run.moments.job_state import Moment

Packed = dict[str, Any]
_OWN, _PLACED = frozenset({"x", "y", "d", "text"}), frozenset({"text", "transform"})


class Looks:
    """The attributes that new sprites share with others, each set once; `attributes` is the list of them."""

    def __init__(self) -> None:
        self.attributes: list[Packed] = []
        self._numbers: dict[tuple[tuple[str, str | float | None], ...], int] = {}

    def shortened(self, changes: Changes) -> Changes:
        """Return the same changes, with a `look` for every new sprite. Only new sprites have a tag."""
        made: Changes = {}
        for name, sprite in changes.items():
            if sprite is not None and "title" in sprite:  # on hover, a page shows more about the whole item
                sprite = {key: value for key, value in sprite.items() if key != "title"}
                if not sprite:
                    continue
            if sprite is not None and "tag" in sprite:
                own = _PLACED if "transform" in sprite else _OWN
                look = tuple((key, value) for key, value in sprite.items() if key not in own)
                number = self._numbers.get(look)
                if number is None:
                    number = self._numbers[look] = len(self._numbers)
                    self.attributes.append(dict(look))
                sprite = {"look": number, **{key: value for key, value in sprite.items() if key in own}}
            made[name] = sprite
        return made


class Pen:
    """Draws one moment after another of one run."""

    def __init__(self, looks: Looks) -> None:
        self._looks = looks
        self._drawing: Drawing | None = None
        self._facts: dict[str, Any] = {}

    def draw(self, layout: Layout, moment: Moment, touched: Touched) -> Packed:
        """Return the frame of this moment: the changes in the scene and in the facts. Only `touched` items may differ.

        On another layout the whole scene is drawn again, and the page starts with an empty one. Facts about tasks and
        channels that it does not have are removed.
        """
        gone: dict[str, None] = {}
        drawing = self._drawing
        if drawing is None or drawing.layout is not layout:
            drawing = self._drawing = Drawing(layout)
            touched, gone = Touched.all_of(layout, moment), dict.fromkeys(self._facts)
        scene = self._looks.shortened(drawing.draw(moment, touched))
        return {"set": scene, "facts": self._changed_facts({**gone, **facts_of(moment, touched)})}

    def draw_whole(self, layout: Layout, moment: Moment) -> Packed:
        """Return the frame of this moment, independent of those before it."""
        self._drawing, self._facts = None, {}
        whole = self.draw(layout, moment, Touched.all_of(layout, moment))
        return {**whole, "facts": {name: fact for name, fact in whole["facts"].items() if fact is not None}, "whole": 1}

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

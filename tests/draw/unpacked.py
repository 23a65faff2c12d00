"""A film unpacked, as the page's script does it."""

from __future__ import annotations

from typing import Any

from kit.draw.stage.drawing import graph
from kit.draw.stage.film import film_layout
from kit.draw.stage.frames import Frame
from kit.draw.stage.scene import Scene


def unpacked(packed: dict[str, Any]) -> list[Scene]:
    """The scene of each frame."""
    scenes: list[Scene] = []
    for number, frame in enumerate(packed["frames"]):
        fresh = number == 0 or packed["frames"][number - 1]["stage"] != frame["stage"] or "whole" in frame
        now: Scene = {} if fresh else dict(scenes[-1])
        for name, changes in frame["set"].items():
            if changes is None:
                del now[name]
                continue
            rest = {key: value for key, value in changes.items() if key != "look"}
            sprite = {**(packed["looks"][changes["look"]] if "look" in changes else now[name]), **rest}
            now[name] = {key: value for key, value in sprite.items() if value is not None}
        scenes.append(now)
    return scenes


def drawn(frame: Frame) -> Scene:
    """Draw the graph of a frame from scratch, without the tooltips, which a film leaves out."""
    sprites = graph(film_layout(frame.stage), frame.moment)
    return {name: {key: each for key, each in sprite.items() if key != "title"} for name, sprite in sprites.items()}

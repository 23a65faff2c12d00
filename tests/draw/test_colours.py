"""The palette for colour-blind eyes and on a grey print: colours of one picture stay apart, in both themes."""

from __future__ import annotations

import re
from itertools import combinations

import numpy as np
import pytest

from kit.draw.assets import asset

TOGETHER = {
    "checkpoints": ("cp0", "cp1", "cp2", "cp3"),
    "tasks": ("align-solid", "write-solid", "capture", "good-solid", "bad-solid"),
    "phases of a checkpoint": ("line-2", "align-solid", "bad-solid", "accent", "capture", "good-solid"),
    "kinds of state": ("cp0", "cp3", "good", "align-solid", "cp1", "cp2"),
    "subtasks after a rescale": ("cp0", "align-solid", "cp1", "good-solid"),
    "shared and private files": ("write-solid", "buffer"),
    "fills of a task": ("align-fill", "capture-fill", "good-fill", "bad-fill", "paper"),
    "directions of a message": ("accent-fill", "out-fill"),
}
"""Colours that are next to each other in one picture."""
LEAST = 10.0
"""The least distance of two colours (CIE 1976); 2.3 is just noticeable."""
LEAST_OF_FILLS = 3.0
"""The least distance of two pale fills, whose boxes also say in words what they mean."""
LEAST_IN_GREY = {"checkpoints": 5.0, "tasks": 3.5, "phases of a checkpoint": 2.5, "subtasks after a rescale": 3.5}
"""The least difference in lightness (0 to 100), where a picture is printed without colours."""
TO_LMS = np.array([[17.8824, 43.5161, 4.11935], [3.45565, 27.1554, 3.86714], [0.0299566, 0.184309, 1.46709]])
SEEN = {
    "normal": np.eye(3),
    "protanopia": np.array([[0, 2.02344, -2.52581], [0, 1, 0], [0, 0, 1]]),
    "deuteranopia": np.array([[1, 0, 0], [0.494207, 0, 1.24827], [0, 0, 1]]),
    "tritanopia": np.array([[1, 0, 0], [0, 1, 0], [-0.395913, 0.801109, 0]]),
}
"""The responses of the three kinds of cones, for an eye without one kind (Viénot, Brettel, Mollon 1999)."""
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def themes() -> dict[str, dict[str, str]]:
    """Return the colours of both themes by name."""
    light, dark = re.findall(r"\{([^{}]*--kit-paper[^{}]*)\}", asset("theme.css"))
    return {
        name: dict(re.findall(r"--kit-([\w-]+): (#[0-9a-f]{6})", text))
        for name, text in (("light", light), ("dark", dark))
    }


def lab_colour(colour: str, eye: str) -> np.ndarray:
    """Return the colour in CIE L*a*b*, as this eye sees it."""
    coded = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    linear = np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.linalg.inv(TO_LMS) @ SEEN[eye] @ TO_LMS @ linear, 0, 1)
    x, y, z = np.cbrt(np.maximum(TO_XYZ @ seen / TO_XYZ.sum(axis=1), 0.008856))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("eye", SEEN)
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("group", TOGETHER)
def test_colours_of_one_picture_stay_apart(group: str, theme: str, eye: str) -> None:
    seen = {name: lab_colour(themes()[theme][name], eye) for name in TOGETHER[group]}
    least = LEAST_OF_FILLS if any(name.endswith("-fill") for name in seen) else LEAST
    distances = {(a, b): round(float(np.linalg.norm(seen[a] - seen[b])), 1) for a, b in combinations(seen, 2)}
    assert {pair: distance for pair, distance in distances.items() if distance < least} == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("group", LEAST_IN_GREY)
def test_colours_of_one_picture_stay_apart_in_grey(group: str, theme: str) -> None:
    light = {name: float(lab_colour(themes()[theme][name], "normal")[0]) for name in TOGETHER[group]}
    near = {(a, b): round(abs(light[a] - light[b]), 1) for a, b in combinations(light, 2)}
    assert {pair: apart for pair, apart in near.items() if apart < LEAST_IN_GREY[group]} == {}

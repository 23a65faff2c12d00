"""The place of a panel."""

from __future__ import annotations

from enum import Enum


class Place(Enum):
    """The place of a panel: beside the stage, instead of it, or none, so that the stage has all the room."""

    BESIDE = "beside"
    INSTEAD = "instead"
    NONE = "alone"

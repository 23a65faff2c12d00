"""Widgets for notebooks: they show runs and graphs, and decide nothing."""

from __future__ import annotations

from widgets.explorer.explorer import Explorer, show
from widgets.pictures.monitor import Monitor
from widgets.pictures.prediction import Prediction, predict
from widgets.pictures.rescale_planner import RescalePlanner
from widgets.pictures.space_time import SpaceTimeWidget
from widgets.pictures.stepper import Stepper

__all__ = ["Explorer", "Monitor", "Prediction", "RescalePlanner", "SpaceTimeWidget", "Stepper", "predict", "show"]


def __dir__() -> list[str]:
    """Return the names that Tab completion offers: the public ones only."""
    return [*__all__, *(name for name in globals() if name.startswith("__"))]

"""Widgets for notebooks: they show runs and graphs, and decide nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.core.lazily import offer as _offer

if TYPE_CHECKING:
    from widgets.explorer.explorer import Explorer as Explorer
    from widgets.explorer.explorer import show as show
    from widgets.pictures.monitor import Monitor as Monitor
    from widgets.pictures.prediction import Prediction as Prediction
    from widgets.pictures.prediction import predict as predict
    from widgets.pictures.rescale_planner import RescalePlanner as RescalePlanner
    from widgets.pictures.space_time import SpaceTimeWidget as SpaceTimeWidget
    from widgets.pictures.stepper import Stepper as Stepper

_offer(__name__)

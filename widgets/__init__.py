"""Widgets for notebooks: they show runs and graphs, and decide nothing."""

from __future__ import annotations

from widgets.stepper import Stepper

__all__ = ["Stepper"]

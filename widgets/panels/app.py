"""The interface of the explorer to its panels and controls."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

import ipywidgets

from kit.hosts.lab import Lab
from widgets.runs.explored_run import ExploredRun


class Place(Enum):
    """The place of a panel: beside the stage, instead of it, or none, so that the stage has all the room."""

    BESIDE = "beside"
    INSTEAD = "instead"
    NONE = "alone"


class App(Protocol):
    """The interface of the explorer to its parts."""

    @property
    def explored(self) -> ExploredRun:
        """The run that is shown."""

    @property
    def explored_runs(self) -> tuple[ExploredRun, ...]:
        """All runs, the first one first."""

    def do(self, act: Callable[[Lab], object], code: str) -> None:
        """Perform an action on the lab and record it as code; the app shows errors."""

    def begin(self, name: str, lab: Lab, made: str) -> None:
        """Show another run, which has just begun; `made` is the code that makes its lab."""

    @property
    def told(self) -> str:
        """The error of the last action; "" if it succeeded."""

    @property
    def savepoint_directory(self) -> ipywidgets.Text:
        """The field with the directory of the next savepoints."""

    def show_job(self, job: Any) -> None:
        """Show this job on Spark, as a run of its own."""

    def rescale(self) -> None:
        """Show what this run can be rescaled to."""

    def another_run(self, parallelism: int) -> None:
        """Show the settings of a run of the same job at this parallelism, ready to be started."""

    def show_redistribution(self) -> None:
        """Let the tasks of the shown run begin, and show which subtask received which part of the state."""

    def save(self, path: str) -> Path:
        """Write the run to a file."""

    def guarded(self, act: Callable[[], object]) -> None:
        """Perform an action; the app shows errors and removes earlier messages."""

    def until_next(self, take_away: Callable[[], object]) -> None:
        """Call `take_away` when the next action begins."""

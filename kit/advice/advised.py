"""The advice on a job's checkpoints: where the time goes, and what helps, with the numbers that say so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kit.advice.interval import checkpoint_interval
from kit.core.display import display

if TYPE_CHECKING:
    import pandas as pd


LEAST_MS = 1.0
"""Clocks of whole milliseconds see no shorter cost."""


@dataclass(frozen=True, slots=True, repr=False)
class Remedy:
    """One thing that can be done: for which symptom, where, the numbers, what to do, and Flink's page about it."""

    symptom: str
    where: str
    told: str
    do: str
    page: str

    def __repr__(self) -> str:
        return f"Remedy({self.symptom}: {self.told})"


@dataclass(frozen=True, repr=False)
class Advice:
    """The slow phases of checkpoints, and what helps.

    `shares` is the share of each phase, 0 to 1, in the slowest subtasks' time. `cost_ms` is how long rows stand still
    for a checkpoint, on average: the longest alignment and synchronous part of a subtask; None if none was measured.
    """

    name: str
    verdict: str
    shares: Mapping[str, float]
    remedies: tuple[Remedy, ...]
    cost_ms: float | None = None

    def intervals(self, mean_time_between_failures_ms: float, *, restart_ms: float = 0.0) -> pd.DataFrame:
        """Return `checkpoint_interval` for the measured cost of a checkpoint.

        Raises ValueError if no cost was measured, and as `checkpoint_interval` does.
        """
        if self.cost_ms is None:
            raise ValueError(f"no completed checkpoint of {self.name!r} has told how long rows stood still for it")
        return checkpoint_interval(max(self.cost_ms, LEAST_MS), mean_time_between_failures_ms, restart_ms=restart_ms)

    def to_pandas(self) -> pd.DataFrame:
        """Return the remedies: symptom, where, told, do, page."""
        import pandas as pd

        columns = ["symptom", "where", "told", "do", "page"]
        return pd.DataFrame([[getattr(each, name) for name in columns] for each in self.remedies], columns=columns)

    def __repr__(self) -> str:
        return f"Advice({self.name}: {', '.join(each.symptom for each in self.remedies) or 'nothing to do'})"

    def __str__(self) -> str:
        lines = [self.verdict]
        lines += [f"  {each.symptom} ({each.where}): {each.told} {each.do}" for each in self.remedies]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return str(display("advice_html", self))

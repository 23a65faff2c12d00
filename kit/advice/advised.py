"""The advice on a job's checkpoints: where the time goes, and what helps, with the numbers that say so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kit.core.display import display

if TYPE_CHECKING:
    import pandas as pd


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
    """What is slow and what helps. `shares` is the share of each phase, 0 to 1, in the slowest subtasks' time."""

    name: str
    verdict: str
    shares: Mapping[str, float]
    remedies: tuple[Remedy, ...]

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

"""One step of a run in the lab."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kit.core.display import display
from kit.core.protocol.words import ProtocolMessage
from kit.core.trace.trace import Trace, TraceRecord
from kit.hosts.lab.world.actions import Action
from kit.run.run import run_of
from kit.run.stage import Stage
from kit.stream.operators.spec import shorten

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Step:
    """One step: its number, its action, and the `records` that it left in the trace."""

    number: int
    action: Action | ProtocolMessage
    _trace: Trace
    _start: int
    _end: int

    @property
    def records(self) -> tuple[TraceRecord, ...]:
        """The records of this step."""
        return self._trace.since(self._start, self._end)

    def __repr__(self) -> str:
        what = str(self.action) if isinstance(self.action, Action) else type(self.action).__name__
        return f"step {self.number}: {shorten(what)}"

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The shapes of the epochs of the run so far."""
        return run_of(self._trace).known

    def _repr_html_(self) -> str:
        return str(display("step_html", self))

    def to_pandas(self) -> pd.DataFrame:
        """Return the step's records, one row each."""
        return Trace(self.records).to_pandas()

"""One step of a run in the lab."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

import pandas as pd

from kit.lab.actions import Action
from kit.operators.spec import shorten
from kit.protocol.trace import Trace, TraceRecord
from kit.protocol.words import Word


@dataclass(frozen=True, slots=True)
class Step:
    """One step that was taken: its number, what was done, and the `records` that it left in the trace."""

    number: int
    action: Action | Word
    _trace: Trace
    _start: int
    _end: int

    @property
    def records(self) -> tuple[TraceRecord, ...]:
        """What happened in this step."""
        return self._trace.since(self._start, self._end)

    def __repr__(self) -> str:
        what = str(self.action) if isinstance(self.action, Action) else type(self.action).__name__
        return f"step {self.number}: {shorten(what)}"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{Trace(self.records)._repr_html_()}"

    def to_pandas(self) -> pd.DataFrame:
        """The step's records, one row each."""
        return Trace(self.records).to_pandas()

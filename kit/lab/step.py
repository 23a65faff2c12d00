"""One step of a run in the lab."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kit.draw.captions import caption_of
from kit.draw.kinds import BULK, level_of
from kit.draw.run import run_of
from kit.draw.view_html import table, view_html
from kit.lab.actions import Action
from kit.operators.spec import shorten
from kit.protocol.trace import Trace, TraceRecord
from kit.protocol.words import Word

if TYPE_CHECKING:
    import pandas as pd


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
        """What was done, and what came of it in sentences; moved buffers and credits only where that is all."""
        stages = run_of(self._trace).stages
        ends = stages[-1].ends() if stages else {}
        told = [record for record in self.records if level_of(record) > BULK] or self.records
        rows = [[record.machine, caption_of(record, ends), record.kind] for record in told]
        return view_html(f"S{repr(self)[1:]}", table(["who", "what happened", "the word for it"], rows))

    def to_pandas(self) -> pd.DataFrame:
        """The step's records, one row each."""
        return Trace(self.records).to_pandas()

"""The latest moment of a run in progress: each look reads only what is new since the last one.

After the first look, the code that advances the run has new records read meanwhile (`keep_up`). A look then costs the
same however many records came since the last one. If the run went back and took another course, reading resumes from
the last marked moment that still belongs to it.
"""

from __future__ import annotations

from kit.core.trace.trace import Trace, led_by
from kit.run.moments.job_state import Moment, Running, changed
from kit.run.moments.moment import advance

MARK_EVERY = 1_000
"""The least number of records between two marked moments."""
RECORDS_PER_PART = 2
"""The number of records added to that distance for each task and channel."""
MOST_MARKS = 100


class Latest:
    """The last moment of one run, whose records come causes first, as a lab's do."""

    def __init__(self) -> None:
        self._moment = Running()
        self._marks: list[Moment] = []
        self._is_looked_at = False

    def missing(self, trace: Trace) -> int:
        """Return the number of records to read until this is the moment at the end of the trace."""
        if not _is_in(self._moment, trace):
            while self._marks and not _is_in(self._marks[-1], trace):
                self._marks.pop()
            self._moment = Running.of(self._marks[-1] if self._marks else Moment())
        return len(trace) - self._moment.n

    def keep_up(self, trace: Trace) -> None:
        """Read the new records of a run that has advanced, if somebody has looked at it before."""
        if self._is_looked_at:
            self._follow(trace)

    def _follow(self, trace: Trace) -> None:
        self.missing(trace)
        moment: Moment = self._moment
        try:
            for record in trace.since(moment.n):
                moment = advance(moment, record)
        except BaseException:  # an interrupt may have left a record half read
            self._moment, self._marks = Running(), []
            raise
        marked = self._marks[-1].n if self._marks else 0
        if moment.n >= marked + MARK_EVERY + RECORDS_PER_PART * (len(moment.tasks) + len(moment.channels)):
            self._marks.append(self._moment.now())
            if len(self._marks) > MOST_MARKS:
                del self._marks[: MOST_MARKS // 2 : 2]

    def moment(self, trace: Trace) -> Moment:
        """Return the moment at the end of the run."""
        self._is_looked_at = True
        self._follow(trace)
        last = self._moment.record
        return changed(self._moment.now(), cause=None if last is None else led_by(last.cause, trace.find))

    def __repr__(self) -> str:
        return f"Latest({self._moment.n} records)"


def _is_in(moment: Moment, trace: Trace) -> bool:
    """Return True if the moment still belongs to the run."""
    return moment.n == 0 or (moment.n <= len(trace) and trace[moment.n - 1] is moment.record)

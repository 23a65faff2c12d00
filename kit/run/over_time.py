"""The numbers of a run over time: each checkpoint's duration, size and skew, the backlog, and the recoveries.

Only the trace is read. So the same numbers exist for a lab, a job on Spark and a saved trace. The backlog needs the
records of single buffers, which only a lab keeps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from statistics import median
from typing import TYPE_CHECKING, Any

from kit.core.protocol.commands import JobStatusChanged
from kit.core.protocol.notes import AllTasksRunning
from kit.run.checkpoint_words import took_ms
from kit.run.journeys import Journeys, journeys
from kit.run.moments.job_state import INTERRUPTED, CheckpointMoment, Moment

if TYPE_CHECKING:
    import pandas as pd

MOST_SAMPLES = 400
"""The most moments at which the backlog is counted."""


@dataclass(frozen=True)
class OverTime:
    """The numbers of a run over time. All times are in ms since the first record."""

    found: Journeys

    @cached_property
    def checkpoints(self) -> pd.DataFrame:
        """One row per checkpoint.

        Columns: checkpoint_id, kind ("checkpoint", "savepoint"), status ("pending", "completed", "aborted"),
        triggered_ms, duration_ms (until it was complete or aborted; Flink's UI counts until the last acknowledgement,
        which is slowest_ms), size_bytes (Int64; missing if unknown), median_ms and slowest_ms (the times from the
        trigger to the acknowledgement of a subtask; missing before the first), slowest (that subtask).
        """
        import pandas as pd

        rows = [self._checkpoint(known) for known in self.found.last.checkpoints.values()]
        columns = ["checkpoint_id", "kind", "status", "triggered_ms", "duration_ms", "size_bytes"]
        columns += ["median_ms", "slowest_ms", "slowest"]
        return pd.DataFrame(rows, columns=columns).astype(
            {"duration_ms": "Int64", "size_bytes": "Int64", "median_ms": "Float64", "slowest_ms": "Float64"}
        )

    def _checkpoint(self, known: CheckpointMoment) -> tuple[Any, ...]:
        took = took_ms(self.found, known)
        last = max(took, key=lambda task: took[task], default="")
        return (
            known.checkpoint_id,
            "savepoint" if known.savepoint else "checkpoint",
            known.status,
            known.triggered_ms - self.found.last.began_ms,
            known.duration_ms,
            known.size_bytes,
            median(took.values()) if took else None,
            took.get(last),
            last,
        )

    @cached_property
    def backlog(self) -> pd.DataFrame:
        """The records that had been sent and not yet taken, at up to `MOST_SAMPLES` moments: at_ms, records.

        Empty if the trace has no single buffers.
        """
        import pandas as pd

        reading, rows = self.found.reading, []
        if reading.detailed:
            records = reading.records[: self.found.last.n]
            sampled = records[:: max(1, len(records) // MOST_SAMPLES)]
            rows = [self._backlog(moment) for _, moment in reading.with_moments(sampled)]
            rows.append(self._backlog(self.found.last))
        return pd.DataFrame(rows, columns=["at_ms", "records"])

    def _backlog(self, moment: Moment) -> tuple[int, int]:
        waiting = chain.from_iterable((each.queued, each.wire, each.arrived) for each in moment.channels.values())
        return moment.elapsed_ms, sum(item.rows for item in chain.from_iterable(waiting))

    @cached_property
    def recoveries(self) -> pd.DataFrame:
        """One row per interruption of a running job: stopped_ms, running_ms (when all tasks ran again; missing if they
        have not), lasting_ms, epoch (the one that ended), reason (the error, or what is rescaled).
        """
        import pandas as pd

        columns = ["stopped_ms", "running_ms", "lasting_ms", "epoch", "reason"]
        return pd.DataFrame(list(self._recoveries()), columns=columns).astype(
            {"running_ms": "Int64", "lasting_ms": "Int64"}
        )

    def _recoveries(self) -> Iterator[tuple[Any, ...]]:
        reading = self.found.reading
        ended: Moment | None = None
        is_running = False
        for record in reading.of_kinds([JobStatusChanged, AllTasksRunning], self.found.last.n):
            moment = reading.moment_at(reading.position(record) + 1)
            if record.is_a(AllTasksRunning):
                if ended is not None:
                    yield self._recovery(ended, moment.elapsed_ms)
                ended, is_running = None, True
            elif is_running and moment.job in INTERRUPTED:
                ended, is_running = moment, False
        if ended is not None:
            yield self._recovery(ended, None)

    @staticmethod
    def _recovery(ended: Moment, running_ms: int | None) -> tuple[Any, ...]:
        lasting_ms = None if running_ms is None else running_ms - ended.elapsed_ms
        return ended.elapsed_ms, running_ms, lasting_ms, ended.epoch, ended.error

    @property
    def until_ms(self) -> int:
        """The time of the last record."""
        return self.found.last.elapsed_ms


def over_time_of(run: Any) -> OverTime:
    """Return the numbers of a Lab, a SparkJob or a Trace over time. Raises TypeError for anything else."""
    return OverTime(journeys(run))

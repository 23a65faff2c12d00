"""The jobs of this process that run on Spark: `kit.running()`.

A running job is kept alive by its own thread, even if the variable that held it is gone. So it is always listed here
until it has ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast, overload

import pandas as pd

from kit.core.html_tables import notebook_html, rows_html
from kit.hosts.spark.job import SparkJob
from kit.hosts.spark.started_jobs import started

COLUMNS = ("name", "status", "since", "epoch", "slots", "restarts", "checkpoint", "end_with")


def running() -> RunningJobs:
    """Return the jobs of this process that have been started and have not ended, oldest first."""
    return RunningJobs(cast(list[SparkJob], started()))


class RunningJobs(Sequence[SparkJob]):
    """The jobs that were running at the time of the call. Look one up by number or name, or cancel all of them."""

    def __init__(self, jobs: Sequence[SparkJob]) -> None:
        self._jobs = list(jobs)

    @overload
    def __getitem__(self, which: int | str) -> SparkJob: ...
    @overload
    def __getitem__(self, which: slice) -> RunningJobs: ...
    def __getitem__(self, which: int | str | slice) -> SparkJob | RunningJobs:
        """Return a job by number or name, the newest of several with one name. Raises KeyError, listing the jobs."""
        if isinstance(which, slice):
            return RunningJobs(self._jobs[which])
        if isinstance(which, int):
            return self._jobs[which]
        named = [job for job in self._jobs if job.job.name == which]
        if not named:
            raise KeyError(f"no job {which!r} runs; {', '.join(job.job.name for job in self._jobs) or 'none'} does")
        return named[-1]

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[SparkJob]:
        return iter(self._jobs)

    def cancel(self) -> None:
        """End all jobs without savepoints, as `SparkJob.close` does."""
        for job in self._jobs:
            job.close()

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per job: `since` is UTC, `checkpoint` the last complete one, `end_with` what ends it."""
        return pd.DataFrame([_row(number, job) for number, job in enumerate(self._jobs)], columns=list(COLUMNS))

    def __repr__(self) -> str:
        return f"RunningJobs({', '.join(map(repr, self._jobs)) or 'none'})"

    def _repr_html_(self) -> str:
        if not self._jobs:
            return "<i>no job runs on Spark</i>"
        rows = [_row(number, job) for number, job in enumerate(self._jobs)]
        rows = [{**row, "since": f"{row['since']:%H:%M:%S} UTC"} for row in rows]
        head = [column.replace("_", " ") for column in COLUMNS]
        return notebook_html("", rows_html(head, ([row.get(column, "") for column in COLUMNS] for row in rows)))


def _row(number: int, job: SparkJob) -> dict[str, Any]:
    return {
        **job.look.summary(),
        "since": pd.Timestamp(job.started_s, unit="s", tz="UTC").floor("s"),
        "end_with": f"kit.running()[{number}].cancel()",
    }

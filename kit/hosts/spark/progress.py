"""A job's progress, as its driver knows it: as a line, a bar, and a table.

A split is done when its reader has requested another one. Rows are those that the sources have read in this epoch:
after a restart, rows after the checkpoint are read and counted again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kit.core.html_tables import notebook_html, rows_html
from kit.hosts.notebook_output import in_notebook
from kit.hosts.spark.console import changes_lines, say
from kit.machines.job.status import JobStatus
from kit.stream.operators.sources.source_coordinator import SourceCoordinator
from kit.stream.operators.spec import shorten
from kit.stream.operators.windows.late_rows import late_rows_counted

if TYPE_CHECKING:
    from kit.hosts.spark.driver.driver import JobDriver

SHOW_EVERY_S = 0.2
SAY_EVERY_S = 10.0
"""The interval between lines where a line cannot be overwritten."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A job's progress at one time. `slots` counts the slots of its epoch, `joined` those that have joined."""

    name: str
    status: JobStatus
    epoch: int
    slots: int
    joined: int
    splits_done: int
    splits: int
    rows: int
    """The number of rows that the sources have read in this epoch; those of a replay count again."""
    rows_in_all: int
    """The number of rows that the sources have read in all epochs of this driver."""
    checkpoints: int
    latest: int | None
    restored: int | None
    """The checkpoint from which the current epoch was restored."""
    error: str
    late_rows: int
    """The number of rows dropped in this epoch because they came too late."""
    region_restarts: int = 0
    """The number of times that regions were redeployed while others ran."""

    @classmethod
    def of(cls, driver: JobDriver) -> Progress:
        """Return the progress as the driver knows it now."""
        joined = len(driver.slots.workers())
        with driver.lock:
            master = driver.master
            coordinators = [master.coordinators[each].coordinator for each in master.coordinators]
            sources = [each for each in coordinators if isinstance(each, SourceCoordinator)]
            counts = [source.splits_done for source in sources] if master.epoch else []
            statistics = master.checkpoints.statistics.snapshot()
            latest = statistics.latest_completed
            total = sum(of for _, of in counts)
            return cls(
                name=driver.job.name,
                status=driver.status,
                epoch=master.epoch,
                slots=driver.slots.wanted if joined or master.status is not JobStatus.RESTARTING else 0,
                joined=joined,
                splits_done=total if master.status is JobStatus.FINISHED else sum(done for done, _ in counts),
                splits=total,
                rows=sum(rows for (epoch, *_), rows in list(driver.slots.rows_read.items()) if epoch == master.epoch),
                rows_in_all=sum(rows for _, rows in list(driver.slots.rows_read.items())),
                checkpoints=statistics.counts.completed,
                latest=None if latest is None else latest.checkpoint_id,
                restored=None if statistics.restored is None else statistics.restored.checkpoint_id,
                error=str(driver.error or driver.last_failure),
                late_rows=sum(driver.slots.meters.late_rows_dropped.values()),
                region_restarts=master.failover.count,
            )

    @property
    def restarts(self) -> int:
        """The number of times that the whole job was redeployed."""
        return max(0, self.epoch - 1)

    @property
    def starts(self) -> str:
        """A text about what the epoch still waits for; "" if it runs."""
        if self.status is JobStatus.RUNNING and not self.joined:
            return f"starting workers (epoch {self.epoch})"
        return ""

    def line(self, rows_a_second: float | None = None) -> str:
        """Return the progress as one line."""
        parts = [self.status.name]
        if self.starts:
            parts.append(self.starts)
        if self.splits:
            parts.append(f"{self.splits_done} of {self.splits} splits")
        if self.rows:
            in_all = f" in this epoch, {self.rows_in_all:,} in all" if self.restarts else ""
            parts.append(f"{self.rows:,} rows{in_all}")
        if rows_a_second:
            parts.append(f"{rows_a_second:,.0f} rows/s")
        last = "" if self.latest is None else f", the last {self.latest}"
        none = "no checkpoint yet" if self.restored is None else f"restored from checkpoint {self.restored}"
        parts.append(f"{_count(self.checkpoints, 'checkpoint')}{last}" if self.checkpoints else none)
        if self.late_rows:
            parts.append(late_rows_counted(self.late_rows))
        if self.restarts:
            parts.append(_count(self.restarts, "restart"))
        if self.region_restarts:
            regions = "a region" if self.region_restarts == 1 else "regions"
            parts.append(f"{_count(self.region_restarts, 'restart')} of {regions}")
        if self.error and not self.status.is_failure:
            parts.append(f"the last failure: {shorten(self.error.splitlines()[0])}")
        return f"{self.name}: {', '.join(parts)}"

    def summary(self) -> dict[str, Any]:
        """Return the progress as one row of a table."""
        return {
            "name": self.name,
            "status": self.status.name,
            "epoch": self.epoch,
            "slots": self.slots,
            "restarts": self.restarts + self.region_restarts,
            "checkpoint": next((each for each in (self.latest, self.restored) if each is not None), "none yet"),
        }

    def html(self) -> str:
        """Return the progress as HTML for a notebook."""
        rows = {**self.summary(), "splits done": f"{self.splits_done} of {self.splits}"}
        rows["rows read in this epoch" if self.restarts else "rows read"] = f"{self.rows:,}"
        if self.restarts:
            rows["rows read in all, repeated ones too"] = f"{self.rows_in_all:,}"
        rows["checkpoints complete"] = self.checkpoints
        if self.late_rows:
            rows["late rows dropped"] = f"{self.late_rows:,}"
        if self.error:
            rows["error"] = self.error
        return notebook_html("", rows_html(("",), ([str(value)] for value in rows.values()), labels=rows))


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def show_progress(driver: JobDriver, timeout_s: float | None) -> bool:
    """Show the job's progress until it has ended or the time is up; return True if it has ended."""
    bar = _Bar(driver) if changes_lines() else _Lines(driver)
    end_s = None if timeout_s is None else time.monotonic() + timeout_s
    try:
        while not (ended := driver.wait(SHOW_EVERY_S)) and (end_s is None or time.monotonic() < end_s):
            bar.show()
        return ended
    finally:
        bar.close()


class _Lines:
    """Progress shown as one line per interval and one at the end."""

    def __init__(self, driver: JobDriver) -> None:
        self._driver = driver
        self._begun_s = time.monotonic()
        self._said_s = self._begun_s
        self._rate = _Rate()

    def show(self) -> None:
        now_s = time.monotonic()
        if now_s - self._said_s >= SAY_EVERY_S:
            self._said_s = now_s
            self._say(Progress.of(self._driver))

    def close(self) -> None:
        self._say(Progress.of(self._driver))

    def _say(self, progress: Progress) -> None:
        say(f"{progress.line(self._rate.of(progress))} [{time.monotonic() - self._begun_s:.0f} s]")


class _Bar:
    """Progress shown as a bar over the splits with a line beside it."""

    def __init__(self, driver: JobDriver) -> None:
        from tqdm.auto import tqdm

        self._driver = driver
        self._rate = _Rate()
        bar = "{bar}" if in_notebook() else "|{bar:20}|"  # a notebook draws its own
        self._bar = tqdm(total=1, bar_format=f"{{desc}} {bar} [{{elapsed}}]")
        self.show()

    def show(self) -> None:
        progress = Progress.of(self._driver)
        self._bar.total = max(1, progress.splits)
        self._bar.n = progress.splits_done
        self._bar.set_description_str(progress.line(self._rate.of(progress)))

    def close(self) -> None:
        self.show()
        self._bar.close()


class _Rate:
    """The rate in rows per second since the epoch was first seen running."""

    def __init__(self) -> None:
        self._epoch = 0
        self._rows = 0
        self._since_s = 0.0

    def of(self, progress: Progress) -> float | None:
        """Return the rate; None while there is too little data."""
        if progress.epoch != self._epoch or not progress.rows:
            self._epoch, self._rows, self._since_s = progress.epoch, progress.rows, time.monotonic()
            return None
        elapsed_s = time.monotonic() - self._since_s
        return (progress.rows - self._rows) / elapsed_s if elapsed_s > 1 else None

"""Meters of the tasks of a slot, which count records and measure how tasks spend their time.

The slot reports them to the driver periodically. Time is split as in Flink (`TaskIOMetricGroup`). A task is *busy*
while it handles something, *back-pressured* while it cannot run because an output has no credit left, and *idle*
otherwise. Busy time is measured at each event; the rest of an interval counts as the task's state at its end, so
intervals are short. A reading includes one row that the task sent last, or received last if it sends none, as a sample.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa

from kit.core.protocol.tasks import split_task_name, vertex_of
from kit.machines.task.stream_task import StreamTask
from kit.stream.operators.metrics import OUTPUT_WATERMARK, STATE_ENTRIES, with_rates
from kit.stream.operators.windows.late_rows import late_rows_of

SAMPLE_EVERY_S = 0.02
READINGS = 6
"""The number of readings over which rates are taken, a bit more than a second."""
LONGEST_SAMPLE = 160
COLUMNS = [
    "task",
    "records_in",
    "records_out",
    "late_rows_dropped",
    "watermark_ms",
    "behind_ms",
    "state_entries",
    "state_bytes",
    "records_in_per_s",
    "records_out_per_s",
    "busy_ms_per_s",
    "backpressured_ms_per_s",
    "idle_ms_per_s",
    "sample",
]


@dataclass(slots=True)
class TaskMeter:
    """The meter of one task since its epoch began."""

    records_in: int = 0
    records_out: int = 0
    busy_s: float = 0.0
    backpressured_s: float = 0.0
    idle_s: float = 0.0
    sent: pa.RecordBatch | None = None
    """The last batch that it sent."""
    came: pa.RecordBatch | None = None
    """The last batch that it received."""
    accounted_s: float = 0.0
    """The part of `busy_s` that belongs to intervals that have ended."""

    def take(self, batch: pa.RecordBatch) -> None:
        """Count a buffer that has arrived."""
        self.records_in += batch.num_rows
        self.came = batch

    def reading(self) -> dict[str, Any]:
        """Return the meter as JSON-like data."""
        return {
            "records_in": self.records_in,
            "records_out": self.records_out,
            "busy_s": round(self.busy_s, 4),
            "backpressured_s": round(self.backpressured_s, 4),
            "idle_s": round(self.idle_s, 4),
            "sample": _last_row(self.came if self.sent is None else self.sent),
        }


def _last_row(batch: pa.RecordBatch | None) -> str:
    if batch is None or batch.num_rows == 0:
        return ""
    row = batch.slice(batch.num_rows - 1, 1).to_pylist()[0]
    text = ", ".join(f"{name}={value!r}" for name, value in row.items())
    return text if len(text) <= LONGEST_SAMPLE else text[: LONGEST_SAMPLE - 1] + "…"


class Meters:
    """The meters of the tasks of one slot."""

    def __init__(self, tasks: Mapping[str, StreamTask]) -> None:
        self._tasks = tasks
        self.by_task = {name: TaskMeter() for name in tasks}
        self._began_s = self._due_s = time.monotonic()

    def sample(self) -> None:
        """End the interval if it has lasted long enough. Called between two rounds of work."""
        now_s = time.monotonic()
        if now_s >= self._due_s:
            self._end_interval(now_s)

    def _end_interval(self, now_s: float) -> None:
        lasted_s = now_s - self._began_s
        self._began_s, self._due_s = now_s, now_s + SAMPLE_EVERY_S
        for name, meter in self.by_task.items():
            waited_s = max(0.0, lasted_s - (meter.busy_s - meter.accounted_s))
            meter.accounted_s = meter.busy_s
            if self._tasks[name].outputs.writable:
                meter.idle_s += waited_s
            else:
                meter.backpressured_s += waited_s

    @property
    def rows_moved(self) -> int:
        """Return the number of rows that all tasks have received or sent."""
        return sum(meter.records_in + meter.records_out for meter in self.by_task.values())

    @property
    def late_rows(self) -> int:
        """Return the number of late rows that all operators have dropped."""
        return sum(sum(task.chain.late_rows_dropped.values()) for task in self._tasks.values())

    def reading(self) -> dict[str, dict[str, Any]]:
        """Return all meters as JSON-like data, by task."""
        self._end_interval(time.monotonic())
        return {
            name: meter.reading()
            | {
                "late_rows_dropped": self._tasks[name].chain.late_rows_dropped,
                "operators": self._tasks[name].readings(),
            }
            for name, meter in self.by_task.items()
        }


Reading = tuple[float, dict[str, dict[str, Any]]]
"""The arrival time, and the meters by task."""


class MeterReadings:
    """The latest readings of the slots of an epoch, and a few earlier ones: rates compare the first with the last."""

    def __init__(self) -> None:
        self._slots: dict[int, deque[Reading]] = {}

    def take(self, slot: int, meters: dict[str, dict[str, Any]]) -> None:
        """Add a reading of a slot's meters."""
        self._slots.setdefault(slot, deque(maxlen=READINGS)).append((time.monotonic(), meters))

    def forget(self, slots: Iterable[int]) -> None:
        """Remove the readings of slots whose tasks start again and count from 0."""
        for slot in slots:
            self._slots.pop(slot, None)

    @property
    def late_rows(self) -> dict[str, dict[str, int]]:
        """Return the number of late rows dropped, by task and by operator that dropped some."""
        newest = [readings[-1][1] for readings in self._slots.values()]
        return {task: meter["late_rows_dropped"] for meters in newest for task, meter in meters.items()}

    @property
    def late_rows_dropped(self) -> dict[str, int]:
        """Return the number of late rows dropped by each operator that dropped some, over all its subtasks."""
        return late_rows_of(self.late_rows.values())

    def to_pandas(
        self, vertices: Sequence[str], now_ms: int = 0, state_bytes: Mapping[tuple[str, int], int] | None = None
    ) -> pd.DataFrame:
        """Return one row per subtask, with vertices in the order of `vertices`: see `job.meters`.

        `state_bytes` is by operator id and subtask.
        """
        rows = [self._row(slot, task, now_ms, state_bytes or {}) for slot, task in self._ordered(vertices)]
        table = pd.DataFrame(rows, columns=COLUMNS)
        return table.astype(dict.fromkeys(("watermark_ms", "behind_ms"), "Int64"))

    def operators(self, vertices: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield, for each operator, its subtask and latest reading, including the rates of its meters."""
        for slot, task in self._ordered(vertices):
            (since_s, older), (at_s, newest) = self._slots[slot][0], self._slots[slot][-1]
            before = {each["id"]: each["own"] for each in older[task]["operators"]}
            for now in newest[task]["operators"]:  # none in a task that was restored as finished since then
                own = with_rates(before.get(now["id"], {}), now["own"], at_s - since_s)
                yield split_task_name(task)[1], now | {"own": own}

    def _ordered(self, vertices: Sequence[str]) -> list[tuple[int, str]]:
        place = {name: number for number, name in enumerate(vertices)}
        read = ((slot, task) for slot, readings in self._slots.items() for task in readings[-1][1])
        return sorted(read, key=lambda each: (place[vertex_of(each[1])], each[0]))

    def _row(self, slot: int, task: str, now_ms: int, state_bytes: Mapping[tuple[str, int], int]) -> list[Any]:
        (since_s, older), (at_s, newest) = self._slots[slot][0], self._slots[slot][-1]
        now, then, lasted_s = newest[task], older[task], at_s - since_s
        totals = [task, now["records_in"], now["records_out"], sum(now["late_rows_dropped"].values())]
        totals += _event_time(now["operators"], now_ms)
        totals.append(sum(each["values"][STATE_ENTRIES] for each in now["operators"]))
        subtask = split_task_name(task)[1]
        totals.append(sum(state_bytes.get((each["id"], subtask), 0) for each in now["operators"]))
        if lasted_s <= 0:
            return [*totals, *[float("nan")] * 5, now["sample"]]
        rates = [(now[name] - then[name]) / lasted_s for name in ("records_in", "records_out")]
        parts = {name: max(0.0, now[name] - then[name]) for name in ("busy_s", "backpressured_s", "idle_s")}
        whole = sum(parts.values()) or 1.0
        return [*totals, *rates, *(1000 * part / whole for part in parts.values()), now["sample"]]


def _event_time(operators: Sequence[Mapping[str, Any]], now_ms: int) -> list[Any]:
    """Return the watermark that a task has sent, and how far it is behind the clock."""
    watermark_ms = operators[-1]["values"][OUTPUT_WATERMARK] if operators else None
    return [pd.NA, pd.NA] if watermark_ms is None else [watermark_ms, now_ms - watermark_ms]

"""Jobs for the tests of the Spark host, their expected output, and a gang of slots that needs no Spark."""

from __future__ import annotations

import random
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from kit import (
    CheckpointConfig,
    FixedDelay,
    GeneratorSource,
    ParquetSink,
    RescaleConfig,
    StreamEnvironment,
    count,
    sum_,
)
from kit.core.protocol.properties import RetentionPolicy
from kit.hosts.spark.job import SparkJob
from kit.hosts.spark.slot.slot import Slot, SlotTicket
from kit.stream.connectors import RollingPolicy
from kit.stream.operators.sources.source import Source
from kit.stream.settings.job_settings import RestartStrategy

ROWS, KEYS = 60_000, 500
RESTARTS = FixedDelay(attempts=50, delay_ms=10)


def generator(rows: int = ROWS, rows_per_second: float | None = None) -> GeneratorSource:
    """Rows in eight splits and small batches."""
    return GeneratorSource(rows, KEYS, splits=8, batch_rows=1_000, rows_per_second=rows_per_second)


LASTING = generator(rows_per_second=3_000)
"""For jobs that are stopped: on no machine do they end by themselves before."""


ROLLING = RollingPolicy(max_rows=2_000, held_rows=500)
"""Limits at which the copy's sink writes rows before the barrier."""
IN_MEMORY = RollingPolicy()
"""Limits that the copy's rows do not reach between two barriers."""


def totals_job(
    directory: Path | str,
    source: Source | None = None,
    *,
    parallelism: int = 2,
    interval_ms: int | None = 100,
    restart: RestartStrategy = RESTARTS,
    function: Callable[[dict[str, int]], dict[str, int]] | None = None,
    copy_pause_ms: int = 0,
    rolling: RollingPolicy = ROLLING,
    rescaling: RescaleConfig | None = None,
    state_memory_mb: float | None = None,
    **checkpoint: Any,
) -> StreamEnvironment:
    """Totals by key, emitted at the end, beside a copy of every row; both published in two phases below `directory`.

    With `state_memory_mb` the totals are on disk as far as they exceed it.
    With `copy_pause_ms` the copy takes about so long over each buffer, and holds the source back.
    """
    env = StreamEnvironment(
        "totals",
        parallelism=parallelism,
        max_parallelism=128,
        checkpoint=CheckpointConfig(
            interval_ms=interval_ms,
            directory=f"{directory}/checkpoints",
            retention=RetentionPolicy.RETAIN_ON_CANCELLATION,
            **checkpoint,
        ),
        restart=restart,
        rescaling=rescaling,
        state_backend="memory" if state_memory_mb is None else "disk",
        state_memory_mb=state_memory_mb or 1,
    )
    rows = env.from_source(source or generator(), uid="rows")
    if function is not None:
        rows = rows.map(function).uid("mapped")
    copied = rows.rebalance()
    if copy_pause_ms:
        copied = copied.map_batches(partial(_pause, copy_pause_ms)).uid("paused")
    copied.sink_to(ParquetSink(f"{directory}/copy", rolling=rolling), uid="copy")
    totals = rows.key_by("key").aggregate(total=sum_("value"), n=count(), emit="final").uid("totals")
    totals.sink_to(ParquetSink(f"{directory}/totals"), uid="out")
    return env


def _pause(pause_ms: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    time.sleep(pause_ms / 1_000 * random.uniform(0.2, 1.8))  # else the subtasks would fall into step
    return batch


def check_output(directory: Path, rows: int = ROWS, source: GeneratorSource | None = None) -> None:
    """Every row of the source was published once, and the totals are those of all rows."""
    source = source or generator(rows)
    block = source.slice(0, rows)
    parts = [block]
    while sum(part.num_rows for part in parts) < rows:
        at = sum(part.num_rows for part in parts)
        parts.append(source.slice(at, rows - at))
    expected = pd.concat([part.to_pandas() for part in parts])
    order = ["key", "value"]
    copy = read(directory / "copy")
    assert len(copy) == rows
    np.testing.assert_array_equal(
        copy.sort_values(order)[order].to_numpy(), expected.sort_values(order)[order].to_numpy()
    )
    by_key = expected.groupby("key")["value"].agg(["sum", "size"])
    totals = read(directory / "totals").set_index("key").sort_index()
    np.testing.assert_array_equal(totals[["total", "n"]].to_numpy(), by_key.to_numpy())


def read(directory: Path) -> pd.DataFrame:
    """All published rows of a sink."""
    return pd.concat([pq.read_table(part).to_pandas() for part in sorted(directory.glob("part-*.parquet"))])


def staged(directory: Path) -> list[Path]:
    """Files that were staged below `directory` and not published."""
    files = (path for path in directory.rglob(".staging/**/*") if path.is_file())
    return [path for path in files if path.suffix != ".published"]  # which says that it was published


def await_checkpoint(job: SparkJob, checkpoint_id: int, *, in_flight: bool = False) -> None:
    """Wait until this checkpoint or a later one is complete, and holds in-flight data if it is to; fails when the job
    ends before.
    """

    def complete() -> bool:
        taken = job.checkpoints()
        done = (taken["status"] == "COMPLETED") & (taken["id"] >= checkpoint_id)
        return bool((done & (taken["persisted_data"] >= int(in_flight))).any())

    until(complete, job)


def await_rows(job: SparkJob) -> None:
    """Wait until each subtask has received rows: a state that never had a value is in no snapshot."""
    until(lambda: bool(len(job.meters()) and (job.meters()["records_in"] > 0).all()), job)


def until(condition: Callable[[], bool], job: SparkJob) -> None:
    """Wait until the condition holds; fails if the job ends before."""
    while not condition():
        assert job.status in ("CREATED", "RUNNING", "RESTARTING"), f"the job is {job.status}"
        time.sleep(0.01)


class ThreadGang:
    """Slots as threads of this process. `kill` has a slot's connections break, as its death would."""

    current: ThreadGang
    """The gang that was started last."""
    of_slot: ClassVar[dict[int, ThreadGang]] = {}
    """The gang that was started last, by slot."""

    def __init__(self, ticket: SlotTicket, ended: Callable[[str], None]) -> None:
        self.slots = [Slot(ticket, number) for number in ticket.slots]
        self.errors: list[str] = []
        self.cancelled = False
        self._threads = [
            threading.Thread(target=self._run, args=(slot,), name=f"kit-{slot.number}") for slot in self.slots
        ]
        for thread in self._threads:
            thread.start()
        threading.Thread(target=self._wait, args=(ended,), name="kit-gang").start()
        ThreadGang.current = self
        ThreadGang.of_slot |= dict.fromkeys(ticket.slots, self)

    def _run(self, slot: Slot) -> None:
        try:
            slot.run()
        except Exception as error:
            self.errors.append("".join(traceback.format_exception_only(error)).strip())

    def _wait(self, ended: Callable[[str], None]) -> None:
        for thread in self._threads:
            thread.join()
        ended("; ".join(self.errors))

    def cancel(self) -> None:
        self.cancelled = True

    def give_up(self, slot: int) -> bool:
        return False

    def kill(self, number: int) -> None:
        """Break the connections of a slot, once it has them: the driver may have restarted since it was seen to run."""
        (slot,) = (each for each in self.slots if each.number == number)
        while not hasattr(slot, "_driver"):
            if not self._threads[self.slots.index(slot)].is_alive():
                return
            time.sleep(0.001)
        slot._driver._connection._break("killed by the test")
        for peer in slot._plane._all_peers():
            peer.connection._break("killed by the test")

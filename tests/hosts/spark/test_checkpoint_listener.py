"""A user's function on Spark hears of checkpoints: through a killed worker, a failed checkpoint and a stop."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from kit import (
    CheckpointConfig,
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    ListStateDescriptor,
    ParquetSink,
    ProcessFunction,
    SparkJob,
    StreamEnvironment,
)
from kit.stream.operators.sources.source import ReadResult, Source, Split
from tests.hosts.spark.jobs import RESTARTS, await_checkpoint

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("no_thread_left")]

ROWS, SPLITS = 12_000, 8
TIMEOUT_MS = 700
ASLEEP_S = 2.5


@dataclass(frozen=True, kw_only=True, eq=False)
class Numbers(Source):
    """The numbers from 0 on, in splits that take turns."""

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([("number", pa.int64())])

    def enumerate_splits(self) -> list[Split]:
        return [{"id": f"from {first}", "first": first} for first in range(0, ROWS, ROWS // SPLITS)]

    def read_split(self, split: Split, position: int, max_rows: int) -> ReadResult:
        end = min(position + max_rows, ROWS // SPLITS)
        numbers = pa.array(range(split["first"] + position, split["first"] + end), pa.int64())
        return ReadResult(pa.record_batch([numbers], schema=self.schema), end, end == ROWS // SPLITS)


def confirming(directory: Path, slow_row: int = -1) -> type[ProcessFunction]:
    """A function that confirms, in files below `directory`, the rows that a complete checkpoint covers."""

    class Confirming(ProcessFunction, CheckpointedFunction, CheckpointListener):
        PENDING = ListStateDescriptor("pending", pa.struct([("checkpoint_id", pa.int64()), ("n", pa.int64())]))

        def initialize_state(self, context: FunctionInitializationContext) -> None:
            self.state = context.operator_state.list_state(self.PENDING)
            self.pending = self.state.get()
            self.rows: list[int] = []
            restored = context.restored_checkpoint_id or 0
            self.log = directory / f"{context.subtask}-{restored:04d}-{time.time_ns()}.txt"

        def process_element(self, row: dict[str, Any], ctx: Any) -> None:
            if row["number"] == slow_row:
                time.sleep(ASLEEP_S)
            self.rows.append(row["number"])
            ctx.emit(row)

        def snapshot_state(self, context: FunctionSnapshotContext) -> None:
            self.pending += [{"checkpoint_id": context.checkpoint_id, "n": n} for n in self.rows]
            self.rows = []
            self.state.update(self.pending)

        def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
            self.tell("complete", checkpoint_id)
            for each in self.pending:
                if each["checkpoint_id"] <= checkpoint_id:
                    self.tell("row", each["n"])
            self.pending = [each for each in self.pending if each["checkpoint_id"] > checkpoint_id]

        def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
            self.tell("aborted", checkpoint_id)

        def tell(self, what: str, number: int) -> None:
            with self.log.open("a") as log:
                log.write(f"{what} {number}\n")

    return Confirming


def environment(
    directory: Path, slow_row: int = -1, rows_per_second: float = 3_000, **checkpoint: Any
) -> StreamEnvironment:
    settings = {
        "interval_ms": 100,
        "directory": str(directory / "checkpoints"),
        "tolerable_failures": 100,
        **checkpoint,
    }
    env = StreamEnvironment("confirm", parallelism=2, checkpoint=CheckpointConfig(**settings), restart=RESTARTS)
    (directory / "told").mkdir(exist_ok=True)
    source = Numbers(batch_rows=100, rows_per_second=rows_per_second)
    rows = env.from_source(source, uid="rows").process(confirming(directory / "told", slow_row)).uid("confirming")
    rows.sink_to(ParquetSink(str(directory / "out")), uid="out")
    return env


def told(directory: Path) -> list[list[tuple[str, int]]]:
    """Return the notifications that each attempt of each subtask received and acted on, in order."""
    lines = [path.read_text().split("\n") for path in sorted((directory / "told").iterdir())]
    return [
        [(what, int(number)) for what, _, number in (line.partition(" ") for line in each if line)] for each in lines
    ]


def check_order(directory: Path) -> None:
    for each in told(directory):
        completed = [number for what, number in each if what == "complete"]
        assert completed == sorted(set(completed)), "in order, each once"
        aborted = {number for what, number in each if what == "aborted"}
        assert not aborted & set(completed)


def test_every_row_is_confirmed_although_a_worker_is_killed(spark: SparkSession, tmp_path: Path) -> None:
    with SparkJob(environment(tmp_path, rows_per_second=1_000), spark) as job:
        job.start()
        await_checkpoint(job, 3)
        job.faults.kill(1)
        assert job.wait() == "FINISHED"
        restored = {record.checkpoint_id for record in job.trace.story(kind="CheckpointRestored")}
        completed = {record.checkpoint_id for record in job.trace.story(kind="CheckpointCompleted")}
        noted = list(job.trace.story(kind="ListenerNotified"))
    assert restored
    check_order(tmp_path)
    heard = {number for each in told(tmp_path) for what, number in each if what == "complete"}
    assert heard <= completed
    assert max(completed, key=int) in heard, "the last one is announced before the tasks leave"
    assert {record.checkpoint_id for record in noted if record.data["outcome"] == "complete"} == heard
    confirmed = {number for each in told(tmp_path) for what, number in each if what == "row"}
    assert confirmed == set(pd.read_parquet(tmp_path / "out")["number"]) == set(range(ROWS))


def test_a_checkpoint_that_expires_is_announced_as_aborted(spark: SparkSession, tmp_path: Path) -> None:
    with SparkJob(environment(tmp_path, slow_row=ROWS // 4, timeout_ms=TIMEOUT_MS), spark) as job:
        job.start()
        assert job.wait() == "FINISHED"
        expired = {record.checkpoint_id for record in job.trace.story(kind="CheckpointAborted")}
    assert expired
    check_order(tmp_path)
    heard = {number for each in told(tmp_path) for what, number in each if what == "aborted"}
    assert heard
    assert heard <= expired
    confirmed = {number for each in told(tmp_path) for what, number in each if what == "row"}
    assert confirmed == set(range(ROWS)), "the next checkpoint covers what the aborted one would have"


def test_a_savepoint_is_announced_if_the_job_stops_with_it(spark: SparkSession, tmp_path: Path) -> None:
    with SparkJob(environment(tmp_path, interval_ms=None), spark) as job:
        job.start()
        job.savepoint(tmp_path / "savepoints")
        assert not any(told(tmp_path))
        job.stop(tmp_path / "savepoints")
    assert [each[0] for each in told(tmp_path)] == [("complete", 2), ("complete", 2)]

"""Operator state in a student's own function on Spark: through a savepoint, a rescale and a killed worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from kit import (
    CheckpointConfig,
    CheckpointedFunction,
    FunctionInitializationContext,
    GeneratorSource,
    ListStateDescriptor,
    MapStateDescriptor,
    ParquetSink,
    ProcessFunction,
    SparkJob,
    StreamEnvironment,
)
from tests.spark.jobs import RESTARTS, await_checkpoint

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("no_thread_left")]

ENTRIES = [0, 1, 2, 10, 11, 12]
FOUND = {"origin": pa.int64(), "subtask": pa.int64(), "mode": pa.string(), "entry": pa.int64()}


class Remember(ProcessFunction, CheckpointedFunction):
    """Begins with three entries a subtask, and says at its first row what it found after a restore."""

    SPLIT = ListStateDescriptor("split", pa.int64())
    UNION = ListStateDescriptor("union", pa.int64())
    RULES = MapStateDescriptor("rules", pa.string(), pa.int64())

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        states = context.operator_state
        split, union = states.get_list_state(self.SPLIT), states.get_union_list_state(self.UNION)
        rules = states.get_broadcast_state(self.RULES)
        self.found: list[dict[str, Any]] = []
        if context.is_restored:
            modes = [("split", split.get()), ("union", union.get()), ("rules", [value for _, value in rules.items()])]
            who = {"origin": context.restored_checkpoint_id, "subtask": context.subtask}
            self.found = [{**who, "mode": mode, "entry": entry} for mode, entries in modes for entry in entries]
        else:
            split.update([10 * context.subtask + number for number in range(3)])
            rules.put("limit", 17)
        union.update(split.get())

    def process_element(self, row: dict[str, Any], ctx: Any) -> None:
        for found in self.found:
            ctx.emit(found)
        self.found = []


def environment(directory: Path, parallelism: int, rows: int) -> StreamEnvironment:
    env = StreamEnvironment(
        "remember",
        parallelism=parallelism,
        checkpoint=CheckpointConfig(interval_ms=100, directory=str(directory / "checkpoints")),
        restart=RESTARTS,
    )
    source = GeneratorSource(rows, 10, splits=8, batch_rows=100, rows_per_second=3_000)
    rows_of = env.from_source(source, uid="rows").rebalance()
    rows_of.process(Remember, FOUND).uid("remember").sink_to(ParquetSink(str(directory / "out")), uid="out")
    return env


def test_the_three_modes_of_operator_state(spark: SparkSession, tmp_path: Path) -> None:
    with SparkJob(environment(tmp_path, 2, 60_000), spark) as job:
        job.start()
        await_checkpoint(job, 1)
        savepoint = job.stop(tmp_path / "savepoints")
    with SparkJob(environment(tmp_path, 3, 20_000), spark, savepoint) as job:
        job.start()
        taken = int(job.checkpoints()["id"].max() if len(job.checkpoints()) else 0)
        await_checkpoint(job, taken + 3)
        job.kill_worker(1)
        assert job.wait() == "FINISHED"
    found = pd.read_parquet(tmp_path / "out")
    assert found["origin"].nunique() == 2, "one restore from the savepoint, and one after the kill"
    for _, said in found.groupby("origin"):
        split = said[said["mode"] == "split"]
        assert sorted(split["entry"]) == ENTRIES
        union = said[said["mode"] == "union"].groupby("subtask")["entry"].apply(sorted)
        assert union.to_dict() == dict.fromkeys(range(3), ENTRIES)
        assert said[said["mode"] == "rules"].groupby("subtask")["entry"].apply(list).to_dict() == {
            subtask: [17] for subtask in range(3)
        }

"""Operator state in a student's own function on Spark: through a savepoint, a rescale and a killed worker."""

from __future__ import annotations

import struct
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
    FunctionSnapshotContext,
    GeneratorSource,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ParquetSink,
    ProcessFunction,
    SparkJob,
    StreamEnvironment,
)
from kit.stream.backend.keys.key_hashing import key_groups
from tests.hosts.spark.jobs import RESTARTS, await_checkpoint

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("no_thread_left")]

ENTRIES = [0, 1, 2, 10, 11, 12]
COUNTED = {"key": pa.int64(), "rows": pa.int64(), "partitions": pa.int64()}
FOUND = {"origin": pa.int64(), "subtask": pa.int64(), "mode": pa.string(), "entry": pa.int64()}


class Remember(ProcessFunction, CheckpointedFunction):
    """Begins with three entries a subtask, and says at its first row what it found after a restore."""

    SPLIT = ListStateDescriptor("split", pa.int64())
    UNION = ListStateDescriptor("union", pa.int64())
    RULES = MapStateDescriptor("rules", pa.string(), pa.int64())

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        states = context.operator_state
        split, union = states.list_state(self.SPLIT), states.union_list_state(self.UNION)
        rules = states.broadcast_state(self.RULES)
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


class RawCounting(KeyedProcessFunction, CheckpointedFunction):
    """Counts rows by key in raw keyed state, and says how many partitions of raw operator state it has."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.counts: dict[int, int] = {}
        for key_group, stream in context.raw_keyed_state_inputs:
            (entries,) = struct.unpack(">i", stream.read(4))
            for _ in range(entries):
                key, rows = struct.unpack(">qq", stream.read(16))
                assert group_of(key) == key_group
                self.counts[key] = rows
        self.names = [stream.read(1) for stream in context.raw_operator_state_inputs]
        if not context.is_restored:
            self.names = [b"a", b"b", b"c"]

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        out = context.raw_keyed_state_output
        for key_group in out.key_groups:
            mine = sorted(entry for entry in self.counts.items() if group_of(entry[0]) == key_group)
            if mine:
                out.start_new_key_group(key_group)
                out.write(struct.pack(">i", len(mine)) + b"".join(struct.pack(">qq", *entry) for entry in mine))
        for name in self.names:
            context.raw_operator_state_output.start_new_partition()
            context.raw_operator_state_output.write(name)

    def process_element(self, row: dict[str, Any], ctx: Any) -> None:
        key = row["key"]
        self.counts[key] = self.counts.get(key, 0) + 1
        ctx.emit({"key": key, "rows": self.counts[key], "partitions": len(self.names)})


def group_of(key: int) -> int:
    return int(key_groups(pa.array([key]), 128)[0])


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


def test_raw_state(spark: SparkSession, tmp_path: Path) -> None:
    def counting(parallelism: int) -> StreamEnvironment:
        env = StreamEnvironment(
            "raw",
            parallelism=parallelism,
            max_parallelism=128,
            checkpoint=CheckpointConfig(interval_ms=100, directory=str(tmp_path / "checkpoints")),
            restart=RESTARTS,
        )
        source = GeneratorSource(12_000, 10, splits=8, batch_rows=100, rows_per_second=3_000)
        counted = env.from_source(source, uid="rows").key_by("key").process(RawCounting, COUNTED).uid("counting")
        counted.sink_to(ParquetSink(str(tmp_path / "out")), uid="out")
        return env

    with SparkJob(counting(2), spark) as job:
        job.start()
        await_checkpoint(job, 1)
        savepoint = job.stop(tmp_path / "savepoints")
    with SparkJob(counting(3), spark, savepoint) as job:
        job.start()
        taken = int(job.checkpoints()["id"].max() if len(job.checkpoints()) else 0)
        await_checkpoint(job, taken + 2)
        job.faults.kill(1)
        assert job.wait() == "FINISHED"
    counted = pd.read_parquet(tmp_path / "out")
    assert len(counted) == 12_000
    assert not counted.duplicated(["key", "rows"]).any()
    assert counted.groupby("key")["rows"].max().sum() == 12_000
    assert set(counted["partitions"]) == {2, 3}, "six partitions: three each at first, then two each"


def test_the_three_modes_of_operator_state(spark: SparkSession, tmp_path: Path) -> None:
    with SparkJob(environment(tmp_path, 2, 60_000), spark) as job:
        job.start()
        await_checkpoint(job, 1)
        savepoint = job.stop(tmp_path / "savepoints")
    with SparkJob(environment(tmp_path, 3, 20_000), spark, savepoint) as job:
        job.start()
        taken = int(job.checkpoints()["id"].max() if len(job.checkpoints()) else 0)
        await_checkpoint(job, taken + 3)
        job.faults.kill(1)
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

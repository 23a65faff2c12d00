"""The workloads in Spark Structured Streaming: SQL where there is a plan for it, Python where the workload asks for it.

One shuffle partition per core, batches that follow each other without a pause, a second or more of rows each; each is a
checkpoint (offsets, state and commit are on disk before the next). State that fits is kept on the heap, with deltas on
disk, which is faster than RocksDB; that, with changelog checkpoints, has the keys of W1r, and `transformWithState`. For
W7 it has the memory that the slots of the kit have for state.
W5 is `transformWithState` on rows, W6 a Python UDF that Arrow feeds. The result is the state that a query leaves, or
the rows that each batch emits. The time runs from the start of the first batch to the end of the last one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, types
from pyspark.sql import functions as sf

from benchmarks.throughput import workloads
from benchmarks.throughput.measured import Measured, main_of_peer

BATCHES = 8
BATCHES_OF = {"W5": 2}
"""Python asks for the state of a key once a batch: the more rows of a key a batch has, the better."""
ROCKSDB, ON_THE_HEAP = "RocksDBStateStoreProvider", "HDFSBackedStateStoreProvider"
LARGE_STATE = ("W1r", "W5", *workloads.ON_DISK)
_FOLD = workloads.FOLD.astype("int64").item()
_GAMMA, _MIX1, _MIX2 = -0x61C8864680B583EB, -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15


def session(workload: str) -> SparkSession:
    """Two cores on this machine."""
    settings = {
        "spark.sql.ansi.enabled": "false",  # integers wrap around
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.stateStore.providerClass": (
            f"org.apache.spark.sql.execution.streaming.state.{ROCKSDB if workload in LARGE_STATE else ON_THE_HEAP}"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.python.unix.domain.socket.enabled": "true",  # where Python asks for state
        "spark.driver.memory": "6g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    if workload in workloads.ON_DISK:
        settings["spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage"] = "true"
        settings["spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB"] = str(round(2 * workloads.STATE_MEMORY_MB))
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


# --- rows ------------------------------------------------------------------------------------------------------------


def scatter(number: Any) -> Any:
    """`workloads.scatter`, as an expression."""
    mixed = number + sf.lit(_GAMMA)
    mixed = mixed.bitwiseXOR(sf.shiftrightunsigned(mixed, 30)) * sf.lit(_MIX1)
    mixed = mixed.bitwiseXOR(sf.shiftrightunsigned(mixed, 27)) * sf.lit(_MIX2)
    return sf.shiftrightunsigned(mixed.bitwiseXOR(sf.shiftrightunsigned(mixed, 31)), 1)


def fold(*values: Any) -> Any:
    """`workloads.fold`, as an expression."""
    folded: Any = sf.lit(0).cast("bigint")
    for value in values:
        folded = (folded + value.cast("bigint")) * sf.lit(_FOLD)
    return folded.bitwiseXOR(sf.shiftrightunsigned(folded, 32))


def numbers(spark: SparkSession, workload: str, rows: int) -> DataFrame:
    """Row numbers, a batch at a time."""
    source = spark.readStream.format("rate-micro-batch")
    return (
        source.option("rowsPerBatch", rows // BATCHES_OF.get(workload, BATCHES))
        .option("numPartitions", 2)
        .load()
        .select("value")
    )


def made(spark: SparkSession, workload: str, rows: int) -> DataFrame:
    """The columns of a workload's rows; each step is a projection of its own, so that nothing is computed twice."""
    number = sf.col("value").alias("number")
    if workload in ("W4-left", "W4-right"):
        side = int(workload == "W4-right")
        given = numbers(spark, workload, rows // 2).select(number, scatter(sf.col("value") * 2 + side).alias("s"))
        at = sf.timestamp_millis(sf.lit(workloads.START_MS) + sf.expr(f"number div {workloads.JOIN_ROWS_PER_MS}"))
        return given.select((sf.col("s") % workloads.KEYS).alias("key"), _value(), at.alias("at"))
    given = numbers(spark, workload, rows).select(number, scatter(sf.col("value")).alias("s"))
    if workload == "W1r":
        given = given.select("number", scatter(sf.col("s") % workloads.SPREAD_KEYS).alias("s"))
        return given.select((sf.col("s") * 2 - sf.lit(1 << 62)).alias("key"), _value())
    if workload == "W3":
        late = sf.shiftright("s", 32) % workloads.DISORDER_MS
        at = sf.timestamp_millis(
            sf.lit(workloads.START_MS) + sf.expr(f"number div {workloads.WINDOW_ROWS_PER_MS}") - late
        )
        return given.select((sf.col("s") % workloads.WINDOW_KEYS).alias("key"), _value(), at.alias("at"))
    if workload in workloads.ON_DISK:
        drawn = _rank(sf.col("s")) if workload == "W7z" else sf.col("s") % workloads.WIDE_KEYS
        keyed = given.withColumn(
            "drawn", sf.when(sf.col("number") < workloads.WIDE_KEYS, sf.col("number")).otherwise(drawn)
        )
        key = scatter(sf.col("drawn")) * 2 - sf.lit(1 << 62)
        last = [(sf.col("number") + each).alias(f"last_{each}") for each in range(workloads.LAST_VALUES)]
        return keyed.select(key.alias("key"), _value(), *last)
    key = (sf.col("s") % workloads.KEYS).alias("key")
    if workload == "W5":
        return given.select(key).select("key", (sf.col("key") % workloads.VALUES + 1).alias("value"))
    return given.select(key, _value())


def _rank(scattered: Any) -> Any:
    """`workloads.ranks`, as an expression."""
    low = scattered.bitwiseAND(sf.lit((1 << 30) - 1))
    octaves = range(len(workloads.OCTAVES))
    first = sf.coalesce(*(sf.when(low < workloads.OCTAVES[each], sf.lit(1 << each)) for each in octaves))
    first = sf.coalesce(first, sf.lit(1 << octaves[-1])).cast("bigint")
    size = sf.least(first, sf.lit(workloads.WIDE_KEYS + 1) - first)
    return first - 1 + sf.shiftright(scattered, 30) % size


def _value() -> Any:
    return (sf.col("number") % workloads.VALUES).alias("value")


# --- queries ---------------------------------------------------------------------------------------------------------


def _sums(stream: DataFrame) -> DataFrame:
    return stream.groupBy("key").agg(sf.sum("value").alias("total"), sf.count("*").alias("n"))


def _wide_sums(stream: DataFrame) -> DataFrame:
    last = [sf.max(f"last_{each}").alias(f"last_{each}") for each in range(workloads.LAST_VALUES)]
    return stream.groupBy("key").agg(sf.sum("value").alias("total"), sf.count("*").alias("n"), *last)


def _windows(stream: DataFrame) -> DataFrame:
    timed = stream.withWatermark("at", f"{workloads.DISORDER_MS} milliseconds")
    window = sf.window("at", f"{workloads.WINDOW_MS} milliseconds")
    totals = timed.groupBy("key", window).agg(sf.sum("value").alias("total"), sf.count("*").alias("n"))
    return totals.select("key", sf.unix_millis("window.start").alias("start"), "total", "n")


def _pairs(left: DataFrame, right: DataFrame) -> DataFrame:
    left = left.withWatermark("at", "0 seconds")
    right = right.select(sf.col("key").alias("key2"), sf.col("value").alias("other"), sf.col("at").alias("at2"))
    right = right.withWatermark("at2", "0 seconds")
    within = f"interval {workloads.JOIN_WITHIN_MS} milliseconds"
    near = sf.expr(f"key = key2 and at2 >= at - {within} and at2 <= at + {within}")
    return left.join(right, near).select("key", "value", "other")


def _mapped(stream: DataFrame) -> DataFrame:
    function = workloads.function

    def row(key: int, value: int) -> int:
        return function(key, value)[1]

    udf = sf.udf(row, types.LongType(), useArrow=True)
    return stream.select("key", udf("key", "value").alias("result"))


def _running(stream: DataFrame) -> DataFrame:
    from benchmarks.throughput.spark_state import RunningTotal

    columns = types.StructType(
        [types.StructField("key", types.LongType()), types.StructField("total", types.LongType())]
    )
    return stream.groupBy("key").transformWithState(RunningTotal(), columns, "update", "none")


def query(spark: SparkSession, workload: str, rows: int, texts: list[Path]) -> DataFrame:
    """Return the streaming query of a workload."""
    if workload == "W2":
        files = spark.readStream.option("maxFilesPerTrigger", max(len(texts) // BATCHES, 1))
        lines = files.text(str(texts[0].parent) + "/text-{" + ",".join(path.stem[5:] for path in texts) + "}.txt")
        words = lines.select(sf.explode(sf.split("value", " ", -1)).alias("word"))
        return words.groupBy("word").agg(sf.count("*").alias("n"))
    if workload == "W4":
        return _pairs(made(spark, "W4-left", rows), made(spark, "W4-right", rows))
    plans: dict[str, Callable[[DataFrame], DataFrame]] = {
        "W1": _sums, "W1r": _sums, "W3": _windows, "W5": _running, "W6": _mapped,
        "W7": _wide_sums, "W7z": _wide_sums,
    }  # fmt: skip
    return plans[workload](made(spark, workload, rows))


# --- running ---------------------------------------------------------------------------------------------------------


class Checksums:
    """The checksums of the rows that each batch emits."""

    def __init__(self) -> None:
        self.of: dict[int, int] = {}

    def __call__(self, batch: DataFrame, number: int) -> None:
        total = batch.agg(sf.sum(fold(*(sf.col(name) for name in batch.columns)))).collect()[0][0]
        self.of[number] = total or 0


def measure(workload: str, rows: int, directory: Path, texts: list[Path], interval_ms: int = 1_000) -> Measured:
    """One query, stopped behind its last batch."""
    spark = session(workload)
    batches = len(texts) // max(len(texts) // BATCHES, 1) if texts else BATCHES_OF.get(workload, BATCHES)
    rows = rows // (2 * BATCHES) * 2 * BATCHES if not texts else rows
    sums = Checksums()
    state = str(directory / "query")
    stream = (
        query(spark, workload, rows, texts)
        .writeStream.option("checkpointLocation", state)
        .outputMode("append" if workload in ("W3", "W4", "W6") else "update")
    )
    stream = stream.format("noop") if workload in ("W1", "W1r", "W2", *workloads.ON_DISK) else stream.foreachBatch(sums)
    if texts:
        stream = stream.trigger(availableNow=True)
    running = stream.start()
    while running.isActive and not _ended(running, batches):
        time.sleep(0.02)
    running.stop()
    if running.exception() is not None:
        raise RuntimeError(str(running.exception())[:2_000])
    seconds = _seconds(running, batches)
    return Measured(rows, seconds, batches, _checksum(spark, workload, state, batches - 1, sums))


def _ended(running: Any, batches: int) -> bool:
    last = running.lastProgress
    return last is not None and last["batchId"] >= batches - 1


def _seconds(running: Any, batches: int) -> float:
    spent = {}
    for progress in running.recentProgress:
        told = json.loads(progress.json) if hasattr(progress, "json") else progress
        spent[told["batchId"]] = told["durationMs"]["triggerExecution"]
    return sum(spent[number] for number in range(batches)) / 1e3


def _checksum(spark: SparkSession, workload: str, state: str, last: int, sums: Checksums) -> int:
    """Return the checksum of the state after the last batch that counts, or of emitted rows and open windows."""
    handed_on = workloads.added(*(value for number, value in sums.of.items() if number <= last))
    if workload in ("W4", "W5", "W6"):
        return handed_on
    kept = spark.read.format("statestore").option("batchId", last).load(state)
    if workload == "W2":
        counts = kept.select("key.word", "value.count").collect()
        return workloads.word_checksum(dict(map(tuple, counts)))
    if workload == "W3":
        kept = kept.select("key.key", sf.unix_millis("key.window.start").alias("start"), "value.*")
    elif workload in workloads.ON_DISK:
        kept = kept.select("key.key", "value.sum", "value.count")
    else:
        kept = kept.select("key.key", "value.*")
    total = kept.agg(sf.sum(fold(*(sf.col(f"`{name}`") for name in kept.columns)))).collect()[0][0]
    return workloads.added(handed_on, total or 0)


if __name__ == "__main__":
    main_of_peer(measure)

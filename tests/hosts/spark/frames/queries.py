"""A driver of a job whose output two queries follow: `python -m tests.hosts.spark.frames.queries DIRECTORY [recover]`.

One query passes its batches to a function, the other writes a table. The first driver kills itself within a batch, when
the function has written the rows and Spark has not yet recorded that. One that recovers prints the rows of the table
and of the job's output.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from kit import CheckpointConfig, FixedDelay, GeneratorSource, ParquetSink, SparkJob, StreamEnvironment, create_session
from tests.hosts.spark.jobs import until

LAST_BATCH = 3
"""The batch in which the first driver dies."""


def job(directory: Path) -> StreamEnvironment:
    """A copy of numbers."""
    settings = CheckpointConfig(interval_ms=200, directory=str(directory / "checkpoints"), store="filesystem")
    restart = FixedDelay(attempts=20, delay_ms=10)
    env = StreamEnvironment("numbers", parallelism=2, max_parallelism=8, checkpoint=settings, restart=restart)
    source = GeneratorSource(None, 10, batch_rows=500, rows_per_second=3_000)
    env.from_source(source, uid="rows").sink_to(ParquetSink(directory / "copy"), uid="copy")
    return env


def main() -> None:
    """Run the job and the queries as the arguments say."""
    directory, recover = Path(sys.argv[1]), "recover" in sys.argv
    spark = create_session("numbers", slots=2, config={"spark.sql.warehouse.dir": str(directory / "warehouse")})
    batches = directory / "batches"
    batches.mkdir(exist_ok=True)

    def keep(frame: DataFrame, batch: int) -> None:
        values = sorted(row.value for row in frame.collect())
        (batches / f"{batch}-{os.getpid()}.json").write_text(json.dumps(values))
        if batch == LAST_BATCH and not recover:
            os.kill(os.getpid(), signal.SIGKILL)

    with SparkJob(job(directory), spark, recover=recover) as running:
        running.start()
        queries(spark, running, directory, keep, to_the_end=False)
        until(lambda: recover and any(batches.glob(f"{LAST_BATCH + 2}-*")), running)
        running.stop(directory / "savepoints")
        for query in spark.streams.active:
            query.stop()
        queries(spark, running, directory, keep, to_the_end=True)
        output = sorted(running.output("copy")["value"].tolist())
    table = sorted(row.value for row in spark.read.parquet(str(directory / "table")).select("value").collect())
    print(json.dumps({"table": table, "output": output}))


def queries(spark: SparkSession, running: SparkJob, directory: Path, keep: object, *, to_the_end: bool) -> None:
    """Start both queries, or have them read what is left."""
    for name in ("function", "table"):
        writer = running.to_spark("copy", stream=True).writeStream
        writer = writer.option("checkpointLocation", str(directory / f"query-{name}"))
        if to_the_end:
            writer = writer.trigger(availableNow=True)
        if name == "function":
            query = writer.foreachBatch(keep).start()
        else:
            spark.sql("DROP TABLE IF EXISTS numbers")
            query = writer.option("path", str(directory / "table")).toTable("numbers")
        if to_the_end:
            query.awaitTermination()


if __name__ == "__main__":
    main()

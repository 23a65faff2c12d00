"""Files as people have them, read without writing a schema, give what pandas reads, on both hosts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from kit import CheckpointConfig, CsvSource, FixedDelay, Lab, ParquetSink, ParquetSource, StreamEnvironment, count, sum_
from kit.hosts.spark import SparkJob
from kit.stream.operators.sources.source import Source
from tests.hosts.spark.jobs import ThreadGang

FLIGHTS = pd.DataFrame(
    {
        "year": [2013 + n % 2 for n in range(600)],
        "month": [1 + n % 3 for n in range(600)],
        "carrier": [["UA", "AA", "B6"][n * 7 % 3] for n in range(600)],
        "delay": [None if n % 50 == 0 else n % 40 - 5 for n in range(600)],
    }
)


def delays(source: Source, directory: Path) -> StreamEnvironment:
    env = StreamEnvironment(
        "delays",
        parallelism=2,
        max_parallelism=8,
        checkpoint=CheckpointConfig(interval_ms=20, directory=str(directory / "checkpoints")),
        restart=FixedDelay(100, 1),
    )
    stream = env.from_source(source, uid="flights")
    totals = stream.key_by("year", "month", "carrier").aggregate(flights=count(), delay=sum_("delay"), emit="final")
    totals.uid("totals").sink_to(ParquetSink(str(directory / "delays")), uid="out")
    return env


def in_lab(env: StreamEnvironment) -> pd.DataFrame:
    lab = Lab(env, seed=5)
    for worker in (0, 1):
        lab.run_until(checkpoint=lab.look.master.checkpoints.store.latest_id + 1)
        lab.faults.kill(worker)
    lab.run()
    return lab.output()


def on_slots(env: StreamEnvironment) -> pd.DataFrame:
    with SparkJob(env, launch=ThreadGang) as job:
        assert job.start().wait(timeout_s=60) == "FINISHED"
        return job.output()


def csv_files(directory: Path) -> Source:
    for number, part in FLIGHTS.groupby(FLIGHTS.index // 150):
        part.to_csv(directory / f"flights-{number}.csv", index=False)
    return CsvSource(directory / "flights-*.csv", batch_rows=20)


def partitioned(directory: Path) -> Source:
    keys = pa.schema([("year", pa.int32()), ("month", pa.int32())])
    table = pa.Table.from_pandas(FLIGHTS, preserve_index=False)
    ds.write_dataset(table, directory / "f", format="parquet", partitioning=ds.partitioning(keys, flavor="hive"))
    return ParquetSource(directory / "f", batch_rows=20)


@pytest.mark.parametrize("host", [in_lab, on_slots])
@pytest.mark.parametrize("written", [csv_files, partitioned])
def test_what_comes_out_is_what_pandas_says(
    tmp_path: Path, written: Callable[[Path], Source], host: Callable[[StreamEnvironment], pd.DataFrame]
) -> None:
    found = host(delays(written(tmp_path), tmp_path)).sort_values(["year", "month", "carrier"], ignore_index=True)
    expected = FLIGHTS.groupby(["year", "month", "carrier"], as_index=False).agg(
        flights=("carrier", "size"), delay=("delay", "sum")
    )
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)

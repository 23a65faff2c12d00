"""`from_source` takes data frames and Arrow tables, on both hosts and through failures."""

from __future__ import annotations

import pickle
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from kit import CheckpointConfig, CollectionSource, CollectSink, FixedDelay, Lab, SparkJob, StreamEnvironment, sum_
from tests.hosts.spark.jobs import ThreadGang

FRAME = pd.DataFrame({"letter": ["abc"[n % 3] for n in range(300)], "n": range(300)}, index=range(7, 307))
TOTALS = FRAME.groupby("letter")["n"].sum().to_dict()
TABLES = {
    "pandas": FRAME,
    "Table": pa.table({"letter": FRAME["letter"].tolist(), "n": FRAME["n"].tolist()}),
    "RecordBatch": pa.record_batch({"letter": FRAME["letter"].tolist(), "n": FRAME["n"].tolist()}),
    "chunked": pa.concat_tables([pa.table({"letter": [row.letter], "n": [row.n]}) for row in FRAME.itertuples()]),
}


def job(table: Any) -> StreamEnvironment:
    env = StreamEnvironment(
        "tables", parallelism=2, checkpoint=CheckpointConfig(interval_ms=20), restart=FixedDelay(attempts=9, delay_ms=1)
    )
    totals = env.from_source(table, uid="rows").key_by("letter").aggregate(total=sum_("n"), emit="final")
    totals.uid("totals").sink_to(CollectSink("out"), uid="out")
    return env


def totals(job: Any) -> dict[str, int]:
    return dict(job.output("out").set_index("letter")["total"])


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_is_read_again_from_its_positions(kind: str) -> None:
    env = job(CollectionSource(TABLES[kind], batch_rows=5))
    lab = Lab(env)
    lab.run_until(checkpoint=1)
    lab.faults.kill(0)
    lab.run()
    assert lab.look.master.epoch == 2
    assert totals(lab) == TOTALS


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_is_a_source(kind: str) -> None:
    env = job(TABLES[kind])
    (source,) = [each.spec.source for each in env.operators if hasattr(each.spec, "source")]
    assert isinstance(source, CollectionSource)
    assert source.schema.names == ["letter", "n"]
    lab = Lab(env)
    lab.run()
    assert totals(lab) == TOTALS
    with SparkJob(job(TABLES[kind]), launch=ThreadGang) as started:
        assert started.start().wait() == "FINISHED"
        assert totals(started) == TOTALS


def test_the_rows_of_a_table_travel_once() -> None:
    rows = 100_000
    source = CollectionSource(pd.DataFrame({"n": range(rows)}))
    assert len(pickle.dumps(source)) < 8 * rows * 1.5


@pytest.mark.parametrize("take", [lambda frame: StreamEnvironment().from_source(frame), CollectionSource])
def test_a_data_frame_of_spark_is_named_with_the_way(take: Any) -> None:
    frame = type("DataFrame", (), {"__module__": "pyspark.sql.classic.dataframe"})()
    with pytest.raises(TypeError, match=r"a data frame of Spark.*env\.from_spark\(df, uid='rows'\)"):
        take(frame)


@pytest.mark.parametrize("column", [pd.Series([1, 2]), pa.array([1, 2])])
def test_one_column_is_no_table(column: Any) -> None:
    with pytest.raises(TypeError, match="from_source takes a source such as"):
        StreamEnvironment().from_source(column)


def test_from_spark_rejects_what_is_no_data_frame_of_a_session_with_its_own_driver() -> None:
    env = StreamEnvironment()
    with pytest.raises(TypeError, match=r"from_spark takes a DataFrame of Spark.*found a pandas\.DataFrame"):
        env.from_spark(FRAME)
    connect = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()
    with pytest.raises(TypeError, match=r"Spark Connect session.*create_session\(\)"):
        env.from_spark(connect)
    with pytest.raises(TypeError, match=r"from_spark_stream was given a DataFrame of a Spark Connect session"):
        env.from_spark_stream(connect, "directory")

"""A function in PyFlink's own style, which yields its rows, gives the same rows on both hosts, also after a failure."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from kit import (
    CheckpointConfig,
    CollectionSource,
    CollectSink,
    FixedDelay,
    KeyedProcessFunction,
    Lab,
    OutputTag,
    SparkJob,
    StreamEnvironment,
    ValueStateDescriptor,
)
from tests.hosts.spark.jobs import ThreadGang

ROWS = [{"letter": "abc"[i % 3], "n": i} for i in range(60)]
FIRST = OutputTag("first", {"letter": pa.string()})


class Sums(KeyedProcessFunction):
    """Yields the sum so far of each letter, and sets its first row aside."""

    SUM = ValueStateDescriptor("sum", pa.int64())

    def process_element(self, row, ctx):
        before = ctx.state(self.SUM).value()
        if before is None:
            yield FIRST, {"letter": row["letter"]}
        ctx.state(self.SUM).update((before or 0) + row["n"])
        yield {"letter": ctx.current_key, "n": ctx.state(self.SUM).value()}


def environment() -> StreamEnvironment:
    env = StreamEnvironment(
        "sums", parallelism=2, checkpoint=CheckpointConfig(interval_ms=20), restart=FixedDelay(attempts=9, delay_ms=1)
    )
    rows = env.from_source(CollectionSource(ROWS, splits=1, batch_rows=1, rows_per_second=300), uid="rows")
    sums = rows.key_by("letter").process(Sums).uid("sums")
    sums.sink_to(CollectSink("out"), uid="out")
    sums.side_output(FIRST).sink_to(CollectSink("first"), uid="first")
    return env


def expected() -> list[tuple[str, int]]:
    sums: Counter[str] = Counter()
    made = []
    for row in ROWS:
        sums[row["letter"]] += row["n"]
        made.append((row["letter"], sums[row["letter"]]))
    return sorted(made)


def check(job: Any) -> None:
    assert sorted(job.output("out").itertuples(index=False, name=None)) == expected()
    assert sorted(job.output("first")["letter"]) == ["a", "b", "c"]


def test_in_the_lab() -> None:
    lab = Lab(environment())
    lab.run_until(checkpoint=2)
    lab.faults.kill(1)
    lab.run()
    assert lab.look.master.epoch == 2
    check(lab)


def test_on_spark() -> None:
    with SparkJob(environment(), launch=ThreadGang) as job:
        job.start().wait_until_running()
        job.trigger_checkpoint()
        ThreadGang.current.kill(1)
        job.wait_until_running(restarts=1)
        assert job.wait() == "FINISHED"
        check(job)

"""Jobs small enough that all their schedules can be tried."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.operators.aggregates import count
from kit.stream.operators.checkpoint_listener import CheckpointListener
from kit.stream.operators.functions.process import ProcessFunction
from kit.stream.settings.job_settings import CheckpointConfig, FixedDelay


def counts(
    *,
    rows: int = 1,
    sources: int = 1,
    keyed: int = 1,
    sinks: int | None = None,
    failover: str = "region",
    **checkpoint: Any,
) -> Any:
    """Rows with keys a and b in turn, from `sources` subtasks, are counted by `keyed`, and collected by `sinks`."""
    settings: dict[str, Any] = {"interval_ms": None, "memory_threshold_bytes": 0, "max_concurrent": 2} | checkpoint
    env = StreamEnvironment(
        "counts",
        parallelism=sources,
        max_parallelism=2,
        checkpoint=CheckpointConfig(**settings),
        restart=FixedDelay(3, 1_000),
        failover=failover,
    )
    records = [{"n": number, "k": "ab"[number % 2]} for number in range(rows)]
    stream = env.from_source(CollectionSource(records, batch_rows=1), uid="rows")
    counted = stream.key_by("k").aggregate(rows=count()).set_parallelism(keyed)
    counted.sink_to(CollectSink("counts"), uid="out").set_parallelism(sinks or keyed)
    return env


def overtakes(**shape: Any) -> Any:
    """The same with unaligned barriers, and one checkpoint at a time."""
    return counts(**{"unaligned": True, "max_concurrent": 1} | shape)


def timed(**shape: Any) -> Any:
    """The same, where barriers overtake only when their alignment takes too long."""
    return overtakes(**{"aligned_timeout_ms": 100} | shape)


def collects(*, rows: int = 1, **checkpoint: Any) -> Any:
    """Rows are collected by the task that reads them: the smallest job that publishes anything."""
    settings: dict[str, Any] = {"interval_ms": None, "memory_threshold_bytes": 0, "max_concurrent": 2} | checkpoint
    env = StreamEnvironment(
        "collects", max_parallelism=1, checkpoint=CheckpointConfig(**settings), restart=FixedDelay(3, 1_000)
    )
    records = [{"n": number} for number in range(rows)]
    env.from_source(CollectionSource(records, batch_rows=1), uid="rows").sink_to(CollectSink("collects"), uid="out")
    return env


class Hears(ProcessFunction, CheckpointListener):
    """Notes on each row which checkpoint it has heard of last."""

    heard = 0

    def process_element(self, row: dict[str, int], ctx: Any) -> None:
        ctx.emit({"n": row["n"], "heard": 10 * row["heard"] + self.heard})

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.heard = checkpoint_id


def hears(**checkpoint: Any) -> Any:
    """One row passes two listeners in two tasks. Either may hear of a checkpoint before it has the row, or after."""
    settings: dict[str, Any] = {"interval_ms": None, "memory_threshold_bytes": 0} | checkpoint
    env = StreamEnvironment(
        "hears", max_parallelism=1, checkpoint=CheckpointConfig(**settings), restart=FixedDelay(3, 1_000)
    )
    stream: Any = env.from_source(CollectionSource([{"n": 0, "heard": 0}]), uid="rows")
    returns = pa.schema([("n", pa.int64()), ("heard", pa.int64())])
    first = stream.process(Hears, returns=returns).uid("first")
    second = first.rebalance().process(Hears, returns=returns).uid("second")
    second.sink_to(CollectSink("hears"), uid="out")
    return env


def copies(*, rows: int = 2, sources: int = 2, **checkpoint: Any) -> Any:
    """Rows are collected by the subtasks that read them: each is a region, and they share a source coordinator.

    No worker has tasks of two regions.
    """
    settings: dict[str, Any] = {"interval_ms": None, "memory_threshold_bytes": 0} | checkpoint
    env = StreamEnvironment(
        "copies",
        parallelism=sources,
        max_parallelism=2,
        checkpoint=CheckpointConfig(**settings),
        restart=FixedDelay(3, 1_000),
        failover="region",
    )
    records = [{"n": number} for number in range(rows)]
    source = CollectionSource(records, splits=rows, batch_rows=1)
    env.from_source(source, uid="rows").sink_to(CollectSink("copies"), uid="out")
    return env


def pair(*, rows: int = 1, sources: int = 1, **checkpoint: Any) -> Any:
    """Rows are collected by `steady`, one task, and by `shaky`, which has an exchange: two regions.

    Worker 0 has tasks of both; with two `sources` of `shaky`, worker 1 has tasks of that only.
    """
    settings: dict[str, Any] = {"interval_ms": None, "memory_threshold_bytes": 0} | checkpoint
    env = StreamEnvironment(
        "pair",
        max_parallelism=2,
        checkpoint=CheckpointConfig(**settings),
        restart=FixedDelay(3, 1_000),
        failover="region",
    )
    records = [{"n": number} for number in range(rows)]
    for name in ("steady", "shaky"):
        stream: Any = env.from_source(CollectionSource(records, batch_rows=1), uid=name)
        if name == "shaky":
            stream = stream.set_parallelism(sources).rebalance()
        stream.sink_to(CollectSink(name), uid=f"{name}-out")
    return env

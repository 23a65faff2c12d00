"""A small job in the lab, for pictures of real runs."""

from __future__ import annotations

from typing import Any

from kit.api.environment import StreamEnvironment
from kit.connectors.memory_sources import CollectionSource
from kit.connectors.sink import CollectSink
from kit.graph.settings import CheckpointConfig
from kit.lab import Lab
from kit.operators.aggregates import sum_


def letters(rows: int = 40, parallelism: int = 2, **checkpoint: Any) -> StreamEnvironment:
    """Numbers summed per letter, checkpointed every 50 ms, one row per buffer."""
    settings = CheckpointConfig(**{"interval_ms": 50, **checkpoint})
    env = StreamEnvironment("letters", parallelism=parallelism, checkpoint=settings)
    data = [{"letter": "abcdefgh"[i % 8], "n": i} for i in range(rows)]
    stream = env.from_source(CollectionSource(data, batch_rows=1), uid="letters")
    stream.key_by("letter").aggregate(total=sum_("n")).uid("totals").sink_to(CollectSink("out"), uid="out")
    return env


def lab_of(seed: int = 1, rows: int = 40, parallelism: int = 2, **checkpoint: Any) -> Lab:
    """The job at its start."""
    return Lab(letters(rows, parallelism, **checkpoint), seed=seed)

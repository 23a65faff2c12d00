"""A small job in the lab, for pictures of real runs."""

from __future__ import annotations

from typing import Any

from kit.hosts.lab import Lab
from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors.memory_sources import CollectionSource
from kit.stream.connectors.sink import CollectSink
from kit.stream.operators.aggregates import sum_
from kit.stream.settings.job_settings import CheckpointConfig


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

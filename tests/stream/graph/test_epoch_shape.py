"""The shape of an epoch: its channels get names only when they are read."""

from __future__ import annotations

import copy

import pytest

from kit import CollectionSource, CollectSink, StreamEnvironment, sum_
from kit.core.trace.shape import EpochShape
from kit.stream.graph.epoch_shape import epoch_shape
from kit.stream.graph.execution_graph import ExecutionGraph


def graph(parallelism: int) -> ExecutionGraph:
    env = StreamEnvironment("shape", parallelism=parallelism, max_parallelism=32_768)
    rows = env.from_source(CollectionSource([{"key": 1, "n": 1}], splits=1), uid="rows")
    rows.key_by("key").aggregate(total=sum_("n")).uid("totals").sink_to(CollectSink("out"), uid="out")
    return ExecutionGraph(env.job_graph())


def test_a_large_exchange_is_not_named_channel_by_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a channel was named")

    monkeypatch.setattr(ExecutionGraph, "channel", refuse)
    shape = epoch_shape(graph(10_000))
    assert len(shape.channels) == 100_000_000
    assert repr(shape) == "EpochShape(epoch 1: rows x10000 -> totals x10000, 100000000 channels)"


def test_who_looks_finds_them_and_they_are_saved_and_copied() -> None:
    shape = epoch_shape(graph(2))
    ends = [(channel.number, channel.source, channel.target, channel.partitioner) for channel in shape.channels]
    assert ends == [
        (0, "rows/0", "totals/0", "hash"),
        (1, "rows/0", "totals/1", "hash"),
        (2, "rows/1", "totals/0", "hash"),
        (3, "rows/1", "totals/1", "hash"),
    ]
    assert shape.channels[1:3] == tuple(shape.channels)[1:3]
    saved = EpochShape.from_dict(shape.to_dict())
    assert isinstance(saved.channels, tuple)
    assert saved == shape
    assert shape == saved
    assert copy.deepcopy(shape) == shape
    assert epoch_shape(graph(3)) != shape

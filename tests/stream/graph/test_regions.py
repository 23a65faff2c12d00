"""The pipelined regions of a job: connected by exchanges, however they are partitioned."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit import CollectionSource, CollectSink, StreamEnvironment, sum_
from kit.stream.api.datastream import DataStream
from kit.stream.graph.execution_graph import ExecutionGraph
from kit.stream.graph.regions import Regions

ROWS = pa.table({"word": ["a", "b"], "n": [1, 2]})


def copied(row: dict[str, Any]) -> dict[str, Any]:
    return row


def environment(parallelism: int = 2) -> StreamEnvironment:
    return StreamEnvironment("regions", parallelism=parallelism, chaining=False)


def read(env: StreamEnvironment, name: str) -> DataStream:
    return env.from_source(CollectionSource(ROWS), uid=name)


def keyed(env: StreamEnvironment, name: str) -> None:
    totals = read(env, name).key_by("word").aggregate(n=sum_("n")).uid(f"{name}-totals")
    totals.sink_to(CollectSink(name), uid=f"{name}-out")


def regions_of(graph: ExecutionGraph) -> Regions:
    return Regions(graph.job_graph, graph.parallelism)


def tasks_of(graph: ExecutionGraph) -> list[set[str]]:
    return [set(region.tasks) for region in regions_of(graph)]


def test_an_exchange_by_key_connects_all_subtasks() -> None:
    env = environment()
    keyed(env, "orders")
    graph = env.execution_graph()
    assert tasks_of(graph) == [{task.task for task in graph.tasks}]


def test_unconnected_pipelines_are_regions_of_their_own() -> None:
    env = environment()
    keyed(env, "orders")
    keyed(env, "clicks")
    regions = regions_of(env.execution_graph())
    assert [region.number for region in regions] == [1, 2]
    assert [{task.split("-")[0].split("/")[0] for task in region.tasks} for region in regions] == [
        {"orders"},
        {"clicks"},
    ]
    assert regions.of("clicks-totals/1").number == 2
    with pytest.raises(KeyError):
        regions.of("clicks/2")


def test_a_forward_exchange_makes_a_region_of_each_subtask_although_they_share_a_source_coordinator() -> None:
    env = environment(3)
    read(env, "clicks").map(copied).uid("copy").sink_to(CollectSink("clicks"), uid="out")
    assert tasks_of(env.execution_graph()) == [{f"{name}/{i}" for name in ("clicks", "copy", "out")} for i in range(3)]


def test_a_rescaled_forward_exchange_connects_subtasks_with_common_channels() -> None:
    env = environment(4)
    read(env, "clicks").map(copied).uid("copy").sink_to(CollectSink("clicks"), uid="out")
    graph = env.execution_graph({"clicks": 4, "copy": 2, "out": 4})
    assert tasks_of(graph) == [
        {"clicks/0", "clicks/1", "copy/0", "out/0", "out/1"},
        {"clicks/2", "clicks/3", "copy/1", "out/2", "out/3"},
    ]


def test_streams_that_meet_are_one_region() -> None:
    env = environment(1)
    one, other = read(env, "one"), read(env, "other")
    one.union(other).sink_to(CollectSink("both"), uid="both")
    assert len(regions_of(env.execution_graph())) == 1


def neighbours(graph: ExecutionGraph) -> Iterable[tuple[str, str]]:
    return ((channel.source_task, channel.target_task) for channel in graph.channels)


@given(st.lists(st.integers(1, 5), min_size=4, max_size=4), st.sampled_from(["forward", "rescale", "rebalance", "key"]))
def test_regions_are_the_components_that_the_channels_connect(widths: list[int], way: str) -> None:
    env = environment(5)
    stream = read(env, "rows").map(copied).uid("copy")
    stream = {
        "forward": lambda: stream,
        "rescale": stream.rescale,
        "rebalance": stream.rebalance,
        "key": lambda: stream.key_by("word"),
    }[way]()
    stream.sink_to(CollectSink("rows"), uid="out")
    read(env, "more").sink_to(CollectSink("more"), uid="more-out")
    names = ["rows", "copy", "out", "more"]
    graph = env.execution_graph(dict(zip(names, widths, strict=True)))
    found = {task.task: {task.task} for task in graph.tasks}
    for one, other in neighbours(graph):
        joined = found[one] | found[other]
        for task in joined:
            found[task] = joined
    assert set(map(frozenset, tasks_of(graph))) == set(map(frozenset, found.values()))


def test_a_region_names_its_first_tasks() -> None:
    env = environment(3)
    keyed(env, "orders")
    (region,) = regions_of(env.execution_graph())
    assert str(region) == "region 1 (orders/0, orders/1, orders/2, orders-totals/0 and 5 more)"

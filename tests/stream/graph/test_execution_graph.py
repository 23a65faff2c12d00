"""Subtasks and channels: numbers, ends, key groups, and what may be rescaled."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.stream.graph.execution_graph import ExecutionGraph, ParallelismError
from kit.stream.graph.job_graph import create_job_graph
from kit.stream.graph.partitioners import PartitionerKind, RebalancePartitioner
from tests.stream.graph.graphs import edge, node, pipeline, stream_graph, unchained

KINDS = ["hash", "rebalance", "broadcast", "global", "rescale"]


def execution(kind: str = "hash", senders: int = 2, receivers: int = 3, **receiver: object) -> ExecutionGraph:
    return ExecutionGraph(create_job_graph(pipeline(kind, senders, receivers, **receiver)))


def test_all_to_all_channels_are_numbered_by_sender_then_receiver() -> None:
    graph = execution("hash", 2, 3)
    ends = [(c.number, c.source_task, c.subpartition, c.target_task, c.index) for c in graph.channels]
    assert ends == [
        (0, "source/0", 0, "sums/0", 0),
        (1, "source/0", 1, "sums/1", 0),
        (2, "source/0", 2, "sums/2", 0),
        (3, "source/1", 0, "sums/0", 1),
        (4, "source/1", 1, "sums/1", 1),
        (5, "source/1", 2, "sums/2", 1),
    ]


def test_numbers_run_on_from_edge_to_edge() -> None:
    job = create_job_graph(
        stream_graph(
            [node(1, "a", 2), node(2, "b", 1), node(3, "c", 2)],
            [edge(1, 3, "hash", "carrier"), edge(2, 3, "rebalance"), edge(1, 3, "broadcast")],
        )
    )
    graph = ExecutionGraph(job)
    assert [c.number for c in graph.channels] == list(range(graph.channel_count)) == list(range(10))
    gates = graph.task("c/1").gates
    assert [list(gate.channels) for gate in gates] == [[1, 3], [5], [7, 9]]
    assert [list(part.channels) for part in graph.task("a/1").partitions] == [[2, 3], [8, 9]]


@given(st.sampled_from(KINDS), st.integers(1, 17), st.integers(1, 17))
def test_both_ends_see_each_channel_once(kind: str, senders: int, receivers: int) -> None:
    graph = execution(kind, senders, receivers)
    for sees in ("gates", "partitions"):
        seen = Counter(number for task in graph.tasks for end in getattr(task, sees) for number in end.channels)
        assert seen == Counter(range(graph.channel_count))
    for task in graph.tasks:
        for gate in task.gates:
            assert [(c.target_task, c.gate, c.index) for c in map(graph.channel, gate.channels)] == [
                (task.task, gate.index, i) for i in range(len(gate.channels))
            ]
        for partition in task.partitions:
            assert [(c.source_task, c.partition, c.subpartition) for c in map(graph.channel, partition.channels)] == [
                (task.task, partition.index, i) for i in range(len(partition.channels))
            ]
    assert tuple(graph.channel(number) for number in range(graph.channel_count)) == graph.channels


@given(st.integers(1, 17), st.integers(1, 17))
def test_pointwise_deals_evenly(senders: int, receivers: int) -> None:
    graph = execution("rescale", senders, receivers)
    assert graph.channel_count == max(senders, receivers)
    fan = [len(part.channels) for task in graph.vertex_tasks("source") for part in task.partitions]
    assert max(fan) - min(fan) <= 1
    fan = [len(gate.channels) for task in graph.vertex_tasks("sums") for gate in task.gates]
    assert max(fan) - min(fan) <= 1


def test_pointwise_ends_are_flinks() -> None:
    # VertexInputInfoComputationUtils: 2 -> 3 gives the first sender receivers 0 and 1; 3 -> 2 the second receiver two
    assert [(c.source_task, c.target_task) for c in execution("rescale", 2, 3).channels] == [
        ("source/0", "sums/0"),
        ("source/0", "sums/1"),
        ("source/1", "sums/2"),
    ]
    assert [(c.source_task, c.target_task) for c in execution("rescale", 3, 2).channels] == [
        ("source/0", "sums/0"),
        ("source/1", "sums/1"),
        ("source/2", "sums/1"),
    ]


def test_forward_connects_each_with_its_own() -> None:
    graph = ExecutionGraph(create_job_graph(unchained(pipeline("forward", 3, 3))))
    assert [(c.source_task, c.target_task) for c in graph.channels] == [(f"source/{i}", f"sums/{i}") for i in range(3)]


@pytest.mark.flink("StreamTaskTest.testForwardPartitionerIsConvertedToRebalanceOnParallelismChanges")
def test_forward_becomes_rebalance_when_the_ends_are_rescaled_apart() -> None:
    job = create_job_graph(unchained(pipeline("forward", 2, 2)))
    same = ExecutionGraph(job).task("source/0")
    apart = ExecutionGraph(job, {"sums": 5}).task("source/0")
    assert [p.partitioner for p in same.partitions] == [PartitionerKind.FORWARD]
    assert [p.partitioner for p in apart.partitions] == [PartitionerKind.REBALANCE]
    partitioner = apart.partitions[0].create_partitioner()
    assert isinstance(partitioner, RebalancePartitioner)
    assert partitioner.subpartitions == 3  # of the receivers opposite only


@given(st.integers(1, 40), st.integers(1, 300))
def test_key_groups_are_dealt_out_whole(parallelism: int, max_parallelism: int) -> None:
    if parallelism > max_parallelism:
        return
    graph = execution(receivers=parallelism, max_parallelism=max_parallelism)
    groups = [group for task in graph.vertex_tasks("sums") for group in task.key_group_range]
    assert groups == list(range(max_parallelism))


def test_tasks_stand_in_topological_order() -> None:
    assert [task.task for task in execution().tasks] == ["source/0", "source/1", "sums/0", "sums/1", "sums/2"]


@pytest.mark.parametrize("name", ["sums/3", "totals/0", "sums/-1"])
def test_no_task_of_that_name(name: str) -> None:
    with pytest.raises(KeyError, match=rf"no task '{name}'; there are source/0\.\.1, sums/0\.\.2"):
        execution().task(name)


def test_no_channel_of_that_number() -> None:
    with pytest.raises(IndexError, match="no channel 6: there are 6"):
        execution().channel(6)


# ---- rescaling


def test_rescaled() -> None:
    graph = execution().with_parallelism({"sums": 4})
    assert graph.parallelism == {"source": 2, "sums": 4}
    assert graph.channel_count == 8
    assert graph.task("sums/3").parallelism == 4


REFUSED = [
    ({"parallelism": {"sums": 129}}, {}, r"'sums' cannot run with parallelism 129, its max parallelism is 128"),
    ({"parallelism": {"sums": 0}}, {}, r"'sums' cannot run with parallelism 0"),
    ({"max_parallelism": {"sums": 2}}, {}, r"'sums' cannot run with parallelism 3, its max parallelism is 2"),
    ({"max_parallelism": {"sums": 40_000}}, {}, r"cannot have max parallelism 40000: expected 1 to 32768"),
    ({"max_parallelism": {"sums": 64}}, {"max_parallelism": 128}, r"configured max parallelism 128 and cannot take 64"),
]


@pytest.mark.parametrize(("changes", "receiver", "message"), REFUSED, ids=[r[2] for r in REFUSED])
def test_what_cannot_be_rescaled(changes: dict, receiver: dict, message: str) -> None:
    job = create_job_graph(pipeline(**receiver))
    with pytest.raises(ParallelismError, match=message):
        ExecutionGraph(job, **changes)


def test_unknown_vertices_are_refused() -> None:
    with pytest.raises(KeyError, match="no vertex 'totals'"):
        execution().with_parallelism({"totals": 2})


def test_a_checkpoints_max_parallelism_is_adopted_and_kept() -> None:
    graph = execution().with_max_parallelism({"sums": 64}).with_parallelism({"sums": 2})
    task = graph.task("sums/1")
    assert task.max_parallelism == 64
    assert list(task.key_group_range) == list(range(32, 64))
    assert graph.task("source/0").partitions[0].max_parallelism == 64
    assert graph.with_max_parallelism({"sums": 64}).max_parallelism["sums"] == 64

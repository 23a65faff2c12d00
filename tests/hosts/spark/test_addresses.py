"""The addresses that each slot receives: only those of slots that it may have to dial."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kit.core.protocol.tasks import split_task_name
from kit.hosts.spark.wire.addresses import addresses_by_receiver, addresses_of, connect_message
from kit.hosts.spark.wire.stream import Endpoint
from kit.stream.graph.execution_graph import ExecutionGraph
from kit.stream.graph.job_graph import create_job_graph
from tests.stream.graph.graphs import pipeline


def graph(kind: str, senders: int, receivers: int) -> ExecutionGraph:
    return ExecutionGraph(create_job_graph(pipeline(kind, senders, receivers)))


def endpoints(graph: ExecutionGraph) -> dict[int, list[Endpoint]]:
    return {slot: [Endpoint("10.0.0.1", 1 + slot)] for slot in range(len(graph.slots))}


@given(st.sampled_from(["hash", "rebalance", "broadcast", "global", "rescale"]), st.integers(1, 17), st.integers(1, 17))
def test_each_slot_is_told_of_all_whom_it_dials(kind: str, senders: int, receivers: int) -> None:
    job = graph(kind, senders, receivers)
    told = {slot: set(addresses) for slots, addresses in addresses_by_receiver(job, endpoints(job)) for slot in slots}
    assert sorted(told) == list(endpoints(job))
    dialled: dict[int, set[int]] = {slot: set() for slot in told}
    for channel in job.channels:
        ends = {split_task_name(channel.source_task)[1], split_task_name(channel.target_task)[1]}
        if len(ends) == 2:
            dialled[min(ends)].add(max(ends))
    for slot, wanted in dialled.items():
        assert wanted == {each for each in told[slot] if each > slot}


def test_what_all_are_told_is_packed_once() -> None:
    job = graph("hash", 1_000, 1_000)
    [(slots, addresses)] = addresses_by_receiver(job, endpoints(job))
    assert slots == list(range(1_000))
    assert len(b"".join(bytes(each) for each in connect_message(addresses).pack())) < 10_000


def test_few_channels_are_few_addresses() -> None:
    job = graph("rescale", 1_000, 500)
    assert max(len(addresses) for _, addresses in addresses_by_receiver(job, endpoints(job))) <= 3


def test_what_is_told_is_heard() -> None:
    addresses = {3: [Endpoint("", 0, "/tmp/a socket"), Endpoint("10.0.0.1", 7)], 12: [Endpoint("::1", 9)]}
    assert addresses_of(connect_message(addresses)) == addresses

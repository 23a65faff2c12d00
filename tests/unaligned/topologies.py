"""The jobs in Flink's tests of unaligned checkpoints, reduced to their channels.

Upper case: `UnalignedCheckpointRescaleITCase.Topology`; lower case: `UnalignedCheckpointITCase.Topology`, in which the
records of a split keep their order to the sink. Flink's `shuffle()` is `rebalance()` here: nothing in the kit is
random.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kit.stream.api.datastream import DataStream
from kit.stream.api.environment import StreamEnvironment
from tests.unaligned.jobs import Job, Plan

SOURCES = 3
"""Sources of the jobs with several (`NUM_SOURCES`)."""
SINKS = 3
"""Subtasks of the sink behind a partitioner of one's own."""


@dataclass(frozen=True)
class Topology:
    """`sources` are those whose records reach the sink, `counted` the column by which they were counted on the way."""

    build: Callable[[Job], StreamEnvironment]
    sources: range = range(1)
    counted: str | None = "key"


def environment(plan: Plan, **checkpoint: Any) -> StreamEnvironment:
    """The job of a plan."""
    return TOPOLOGIES[plan.topology].build(Job(plan, **checkpoint))


# ---- UnalignedCheckpointRescaleITCase ---------------------------------------------------------------------------


def source_pipeline(job: Job, number: int = 0, parallelism: int | None = None) -> DataStream:
    """Every kind of exchange in a row (`createSourcePipeline`)."""
    p = job.plan.parallelism
    stream = job.source(number, parallelism)
    stream = job.hop(f"global{number}", stream.global_())
    stream = job.hop(f"rebalance{number}", stream.rebalance(), parallelism=p + 1)
    stream = job.hop(f"upscale{number}", stream.rebalance(), parallelism=2 * p)
    stream = job.hop(f"downscale{number}", stream.rebalance(), parallelism=p + 1)
    stream = job.keyed(f"keyby{number}", stream)
    return job.hop(f"rescale{number}", stream.rescale(), parallelism=max(p + 1, p * 3 // 2))


def failing_sink(job: Job, stream: DataStream) -> StreamEnvironment:
    """Two more shuffles, the second into one sink (`addFailingSink`)."""
    stream = job.hop("failing-map", stream.rebalance())
    return job.end(stream.rebalance(), 1)


def pipeline(job: Job) -> StreamEnvironment:
    return failing_sink(job, source_pipeline(job))


def multi_input(job: Job) -> StreamEnvironment:
    combined = source_pipeline(job)
    for number in range(1, SOURCES):
        combined = job.hop(f"min{number}", combined, source_pipeline(job, number))
    return failing_sink(job, combined)


def union(job: Job) -> StreamEnvironment:
    first, *others = [source_pipeline(job, number) for number in range(SOURCES)]
    return failing_sink(job, first.union(*others))


def keyed_different_parallelism(job: Job) -> StreamEnvironment:
    p = job.plan.parallelism
    first = source_pipeline(job, 0, max(1, p // 2))
    second = source_pipeline(job, 1, max(1, p // 3))
    connected = job.hop("connected", first.key_by("key"), second.key_by("key"), parallelism=p, lane="key")
    return failing_sink(job, connected)


def broadcast(job: Job) -> StreamEnvironment:
    p = job.plan.parallelism
    side = job.source(SOURCES)
    stream = job.hop("map", source_pipeline(job))
    joined = job.hop("joined", stream, side.broadcast(), parallelism=2 * p, side=True)
    return failing_sink(job, joined)


def keyed_broadcast(job: Job) -> StreamEnvironment:
    p = job.plan.parallelism
    first, *others = [job.source(SOURCES + number, 1, splits=1) for number in range(3)]
    stream = job.hop("map", source_pipeline(job))
    side = first.union(*others).broadcast()
    joined = job.hop("joined", stream.key_by("key"), side, parallelism=p + 2, lane="key", side=True)
    return failing_sink(job, joined)


def custom_partitioner(job: Job) -> StreamEnvironment:
    stream = job.hop("failing-map", job.hop("long-to-string-map", job.source(0)))
    stream = stream.partition_custom(lambda n, partitions: n % SINKS % partitions, "n")
    return job.end(stream, SINKS)


# ---- UnalignedCheckpointITCase ----------------------------------------------------------------------------------
# Flink 2.3 keeps edges with a user-defined partitioner aligned. In two of these jobs, all edges have one or are
# pointwise. So an exchange by split, which keeps the order of each split, gives barriers something to overtake.


def strict(job: Job, stream: DataStream) -> StreamEnvironment:
    """Two partitioners that keep the order of each split (`addFailingPipeline`)."""
    stream = job.hop("failing-map", stream.partition_custom(lambda n, partitions: (n + 1) % partitions, "split"))
    stream = stream.partition_custom(lambda n, partitions: n // partitions % partitions, "n")
    return job.end(stream, job.plan.parallelism, by_source=True)


def strict_pipeline(job: Job) -> StreamEnvironment:
    stream = job.hop("forward", job.source(0).disable_chaining())
    return strict(job, job.keyed("keyed", stream, "split"))


def strict_multi_input(job: Job) -> StreamEnvironment:
    combined: DataStream = job.source(0).disable_chaining()
    for number in range(1, SOURCES):
        other = job.source(number).disable_chaining()
        combined = job.hop(f"min{number}", combined.key_by("split"), other.key_by("split"))
    return strict(job, combined)


def strict_union(job: Job) -> StreamEnvironment:
    first, *others = [job.source(number).disable_chaining() for number in range(SOURCES)]
    return strict(job, job.hop("min", first.union(*others).key_by("split")))


TOPOLOGIES: dict[str, Topology] = {
    "PIPELINE": Topology(pipeline),
    "MULTI_INPUT": Topology(multi_input, range(SOURCES)),
    "UNION": Topology(union, range(SOURCES)),
    "KEYED_DIFFERENT_PARALLELISM": Topology(keyed_different_parallelism, range(2)),
    "BROADCAST": Topology(broadcast),
    "KEYED_BROADCAST": Topology(keyed_broadcast),
    "CUSTOM_PARTITIONER": Topology(custom_partitioner, counted=None),
    "pipeline": Topology(strict_pipeline, counted="split"),
    "multi_input": Topology(strict_multi_input, range(SOURCES), None),
    "union": Topology(strict_union, range(SOURCES), None),
}

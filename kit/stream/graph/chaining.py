"""The rules that decide which operators share a task, with the reason for those that do not.

Two operators are chained if records can pass from one to the other by a plain call: the second has no other input,
every record stays in its subtask, and chaining is not disabled. `RULES` lists the conditions. The first rule that
rejects an edge gives the reason that pictures and tables show.

Watermarks that are made directly behind a source belong to it, whether or not chaining is allowed there: only in the
source's own task can they follow its splits, and tell a source that is held back from one that has nothing.

Follows `StreamingJobGraphGenerator.isChainable`; in Flink a `WatermarkStrategy` is given to `fromSource`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kit.stream.graph.partitioners import PartitionerKind
from kit.stream.graph.stream_graph import ChainingStrategy, StreamEdge, StreamGraph, StreamNode
from kit.stream.operators.sources.source_spec import SourceSpec
from kit.stream.operators.watermarks import TimestampsAndWatermarks


@dataclass(frozen=True, slots=True)
class Link:
    """An edge with what the rules look at."""

    edge: StreamEdge
    upstream: StreamNode
    downstream: StreamNode
    inputs: int
    enabled: bool

    @property
    def is_of_source(self) -> bool:
        """True if the second operator makes the watermarks of the source that is the first."""
        return isinstance(self.upstream.spec, SourceSpec) and isinstance(self.downstream.spec, TimestampsAndWatermarks)


@dataclass(frozen=True, slots=True)
class ChainingRule:
    """A rule: `refuses` returns True if it forbids the chaining, and `reason` returns the reason as text.

    A rule that is a `choice` of the user does not separate a source from its watermarks.
    """

    name: str
    refuses: Callable[[Link], bool]
    reason: Callable[[Link], str]
    choice: bool = False

    def forbids(self, link: Link) -> bool:
        """Return True if the rule applies to the link and forbids the chaining."""
        return self.refuses(link) and not (self.choice and link.is_of_source)


RULES: tuple[ChainingRule, ...] = (
    ChainingRule(
        "switched off",
        lambda link: not link.enabled,
        lambda link: "chaining is switched off for this job",
        choice=True,
    ),
    ChainingRule(
        "one input",
        lambda link: link.inputs > 1,
        lambda link: f"{link.downstream.name!r} has {link.inputs} inputs, and only one could be a call",
    ),
    ChainingRule(
        "upstream never",
        lambda link: link.upstream.chaining is ChainingStrategy.NEVER,
        lambda link: f"{link.upstream.name!r} forbids chaining (disable_chaining)",
        choice=True,
    ),
    ChainingRule(
        "downstream never",
        lambda link: link.downstream.chaining is ChainingStrategy.NEVER,
        lambda link: f"{link.downstream.name!r} forbids chaining (disable_chaining)",
        choice=True,
    ),
    ChainingRule(
        "downstream head",
        lambda link: link.downstream.chaining is ChainingStrategy.HEAD,
        lambda link: f"{link.downstream.name!r} starts a new chain (start_new_chain)",
        choice=True,
    ),
    ChainingRule(
        "parallelism",
        lambda link: (
            link.edge.partitioner is PartitionerKind.REBALANCE
            and link.upstream.parallelism != link.downstream.parallelism
        ),
        lambda link: (
            f"parallelism differs: {link.upstream.name!r} has {link.upstream.parallelism}, "
            f"{link.downstream.name!r} has {link.downstream.parallelism}"
        ),
    ),
    ChainingRule(
        "partitioning",
        lambda link: link.edge.partitioner is not PartitionerKind.FORWARD,
        lambda link: f"records change subtask: {link.edge.shipping}",
    ),
)


def chaining_reason(edge: StreamEdge, graph: StreamGraph) -> str | None:
    """Return why the two ends of this edge cannot share a task, or None if they do."""
    downstream = graph.node(edge.target)
    link = Link(edge, graph.node(edge.source), downstream, len(graph.inputs(downstream)), graph.chaining)
    return next((rule.reason(link) for rule in RULES if rule.forbids(link)), None)


def is_chainable(edge: StreamEdge, graph: StreamGraph) -> bool:
    """Return True if the two ends of this edge share a task."""
    return chaining_reason(edge, graph) is None

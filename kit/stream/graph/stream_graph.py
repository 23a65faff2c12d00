"""The job as the user wrote it: a node for each operator, an edge for each stream between two.

Unions and partitionings are not nodes: a union is several edges into one node, and a partitioning is a property of the
edge. Nodes are numbered in the order in which the user made them, so a node's inputs always have smaller numbers.

Follows Flink's `StreamGraph`, `StreamNode` and `StreamEdge`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from kit.stream.connectors.sink import SinkSpec
from kit.stream.graph.partitioners import PartitionerKind, PartitionFunction, shipping
from kit.stream.settings.job_settings import JobSettings

if TYPE_CHECKING:
    from kit.stream.operators.base import OperatorSpec


class GraphError(ValueError):
    """The program cannot become a job; the message says what is wrong, at which operator, and what to do."""


class DuplicateUidError(GraphError):
    """Two operators of a job have the same uid, so neither could find its state again."""


class ChainingStrategy(Enum):
    """The neighbours that an operator may share a task with (`ChainingStrategy`)."""

    ALWAYS = "ALWAYS"
    """The operator before it and the one after it, where the rules allow."""
    HEAD = "HEAD"
    """Only the one after it (`start_new_chain`)."""
    NEVER = "NEVER"
    """None (`disable_chaining`)."""


@dataclass(frozen=True, slots=True)
class StreamNode:
    """One operator; `max_parallelism` is None unless the user set one. `named` says that the user chose the name."""

    node_id: int
    spec: OperatorSpec
    name: str
    uid: str | None
    parallelism: int
    max_parallelism: int | None
    chaining: ChainingStrategy = ChainingStrategy.ALWAYS
    named: bool = False

    @property
    def label(self) -> str:
        """The node's name in error messages."""
        return f"{self.name!r} (uid {self.uid!r})" if self.uid and self.uid != self.name else repr(self.name)

    def __repr__(self) -> str:
        return f"StreamNode({self.node_id}, {self.label}, parallelism {self.parallelism})"


@dataclass(frozen=True, slots=True)
class StreamEdge:
    """A stream from node `source` to the input `input_index` of node `target`.

    `key_columns` are given for HASH and CUSTOM, `partition_function` for CUSTOM. `supports_unaligned` is False if
    in-flight data could not be redistributed on this edge, or on another one into the same node. `output_tag` names the
    side output of the source that is carried; None is the main output.
    """

    source: int
    target: int
    partitioner: PartitionerKind
    key_columns: tuple[str, ...] = ()
    input_index: int = 0
    supports_unaligned: bool = True
    partition_function: PartitionFunction | None = None
    output_tag: str | None = None

    @property
    def shipping(self) -> str:
        """The partitioning as text, such as `hash(carrier, day)`."""
        return shipping(self.partitioner, self.key_columns)

    def __repr__(self) -> str:
        return f"StreamEdge({self.source} -> {self.target}, {self.shipping})"


@dataclass(frozen=True)
class StreamGraph:
    """Nodes in order of their numbers, edges in the order in which they were made; checked on creation."""

    name: str
    job_id: str
    nodes: tuple[StreamNode, ...]
    edges: tuple[StreamEdge, ...]
    settings: JobSettings = field(default_factory=JobSettings)
    chaining: bool = True

    def __post_init__(self) -> None:
        check_uids((node.uid, f"{node.name!r} (#{node.node_id})") for node in self.nodes)
        self._check_sinks()
        object.__setattr__(self, "_nodes", {node.node_id: node for node in self.nodes})
        inputs: dict[int, list[StreamEdge]] = {node.node_id: [] for node in self.nodes}
        outputs: dict[int, list[StreamEdge]] = {node.node_id: [] for node in self.nodes}
        for edge in self.edges:
            outputs[edge.source].append(edge)
            inputs[edge.target].append(edge)
            self._check_forward(edge)
            self._check_custom(edge)
        object.__setattr__(self, "_inputs", inputs)
        object.__setattr__(self, "_outputs", outputs)

    def node(self, node_id: int) -> StreamNode:
        """Return the node with this number."""
        return self._nodes[node_id]  # type: ignore[attr-defined]

    def inputs(self, node: StreamNode) -> list[StreamEdge]:
        """Return the edges into a node."""
        return self._inputs[node.node_id]  # type: ignore[attr-defined]

    def outputs(self, node: StreamNode) -> list[StreamEdge]:
        """Return the edges out of a node."""
        return self._outputs[node.node_id]  # type: ignore[attr-defined]

    @property
    def sources(self) -> list[StreamNode]:
        """The nodes without inputs."""
        return [node for node in self.nodes if not self.inputs(node)]

    def _check_sinks(self) -> None:
        """Check that no two sinks have the same path: their files would have the same names."""
        writers: dict[str, StreamNode] = {}
        for node in self.nodes:
            if isinstance(node.spec, SinkSpec):
                path = node.spec.sink.path.rstrip("/")
                other = writers.setdefault(path, node)
                if other is not node:
                    raise GraphError(
                        f"{other.name!r} and {node.name!r} both write to {path}: give each sink a path of its own, or "
                        "make one stream of the two with union(...) and give that one sink"
                    )

    def _check_forward(self, edge: StreamEdge) -> None:
        source, target = self.node(edge.source), self.node(edge.target)
        if edge.partitioner is PartitionerKind.FORWARD and source.parallelism != target.parallelism:
            raise GraphError(
                f"forward from {source.label} to {target.label} needs equal parallelism, found {source.parallelism} "
                f"and {target.parallelism}: use rebalance(), broadcast(), global_() or key_by() between them"
            )

    def _check_custom(self, edge: StreamEdge) -> None:
        """Reject in-flight records behind a user's function: they cannot be rescaled.

        Source: `StreamingJobGraphGenerator.preValidate`.
        """
        checkpoint = self.settings.checkpoint
        if edge.partitioner is PartitionerKind.CUSTOM and checkpoint.unaligned and not checkpoint.force_unaligned:
            raise GraphError(
                f"partition_custom from {self.node(edge.source).label} to {self.node(edge.target).label} does not go "
                "with unaligned checkpoints, because records in flight could not be redistributed on a rescale: set "
                "unaligned=False, or force_unaligned=True to have barriers overtake records on all other exchanges"
            )

    def __repr__(self) -> str:
        return f"StreamGraph({self.name!r}, {len(self.nodes)} operators, {len(self.edges)} edges)"


def check_uids(labelled: Iterable[tuple[str | None, str]]) -> None:
    """Raise DuplicateUidError if two of the (uid, label of operator) pairs have the same uid."""
    pairs = [(uid, label) for uid, label in labelled if uid is not None]
    for uid, times in Counter(uid for uid, _ in pairs).items():
        if times > 1:
            owners = " and ".join(label for other, label in pairs if other == uid)
            raise DuplicateUidError(
                f"uid {uid!r} is given to {owners}: state is found by uid, so each operator needs its own; to "
                "rewrite the job, start with a new StreamEnvironment"
            )

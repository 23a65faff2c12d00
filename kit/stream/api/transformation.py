"""An operator while the user is describing it: its settings may change until the graph is built.

`Transformation` is the draft of a `StreamNode`, `Origin` that of a `StreamEdge`. Follows Flink's `Transformation`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral

from kit.core.state.key_groups import UPPER_BOUND_MAX_PARALLELISM
from kit.stream.api.cells import CellRun
from kit.stream.graph.partitioners import PartitionerKind, PartitionFunction
from kit.stream.graph.stream_graph import ChainingStrategy, GraphError, StreamEdge, StreamNode
from kit.stream.operators.base import OperatorSpec


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of records, and their partitioning; None: forward if that is possible.

    `output_tag` names a side output of the operator; None is its main output.
    """

    transformation: Transformation
    partitioner: PartitionerKind | None = None
    key_columns: tuple[str, ...] = ()
    partition_function: PartitionFunction | None = None
    output_tag: str | None = None


@dataclass(eq=False)
class Defaults:
    """The parallelism of the operators of a job that do not set their own."""

    parallelism: int
    max_parallelism: int | None


@dataclass(eq=False)
class Transformation:
    """One operator. `inputs` has the origins of each input; a union gives one input several."""

    number: int
    spec: OperatorSpec
    inputs: tuple[tuple[Origin, ...], ...]
    defaults: Defaults
    own_parallelism: int | None = None
    """None: it has that of its job."""
    own_max_parallelism: int | None = None
    uid: str | None = None
    name: str | None = None
    chaining: ChainingStrategy = ChainingStrategy.ALWAYS
    cell: CellRun | None = None
    """The cell of a notebook that added it."""

    @property
    def parallelism(self) -> int:
        """The number of subtasks: its own, or that of its job."""
        return self.defaults.parallelism if self.own_parallelism is None else self.own_parallelism

    @property
    def max_parallelism(self) -> int | None:
        """The maximum number of subtasks: its own, or that of its job; None if neither is set."""
        return self.defaults.max_parallelism if self.own_max_parallelism is None else self.own_max_parallelism

    @property
    def label(self) -> str:
        """The operator's name, else its uid, else its kind."""
        return self.name or self.uid or self.spec.name

    def to_node(self) -> StreamNode:
        """Return the operator as a node; its spec gets the name, for errors at run time."""
        spec = self.spec if self.spec.name == self.label else replace(self.spec, name=self.label)
        return StreamNode(
            node_id=self.number,
            spec=spec,
            name=self.label,
            uid=self.uid,
            parallelism=self.parallelism,
            max_parallelism=self.max_parallelism,
            chaining=self.chaining,
            named=self.name is not None,
        )

    def to_edges(self) -> list[StreamEdge]:
        """Return the edges into the operator, with open choices decided (`StreamGraph.createActualEdge`)."""
        origins = [(index, origin) for index, origins in enumerate(self.inputs) for origin in origins]
        kinds = [self._partitioner(origin) for _, origin in origins]
        supports_unaligned = all(kind.supports_unaligned for kind in kinds)
        return [
            StreamEdge(
                origin.transformation.number,
                self.number,
                kind,
                origin.key_columns,
                input_index,
                supports_unaligned,
                origin.partition_function,
                origin.output_tag,
            )
            for (input_index, origin), kind in zip(origins, kinds, strict=True)
        ]

    def _partitioner(self, origin: Origin) -> PartitionerKind:
        if origin.partitioner is not None:
            return origin.partitioner
        same = origin.transformation.parallelism == self.parallelism
        return PartitionerKind.FORWARD if same else PartitionerKind.REBALANCE

    def __repr__(self) -> str:
        return f"Transformation({self.number}, {self.label!r})"


def check_parallelism(label: str, parallelism: int, max_parallelism: int | None) -> None:
    """Raise GraphError, naming the operator, for numbers out of bounds or a parallelism above the maximum."""
    most = UPPER_BOUND_MAX_PARALLELISM
    numbers = {"parallelism": parallelism} | ({} if max_parallelism is None else {"max parallelism": max_parallelism})
    for what, number in numbers.items():
        if not isinstance(number, Integral) or isinstance(number, bool):
            raise GraphError(f"{label!r} cannot have {what} {number!r}: expected a whole number from 1 to {most}")
        if not 1 <= number <= most:
            raise GraphError(f"{label!r} cannot have {what} {number}: expected 1 to {most}")
    if max_parallelism is not None and parallelism > max_parallelism:
        raise GraphError(
            f"{label!r} cannot have parallelism {parallelism} with max parallelism {max_parallelism}: "
            "lower the one or raise the other (the maximum first)"
        )

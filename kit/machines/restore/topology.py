"""The job as state assignment sees it: vertices, their operators, and exchanges."""

from __future__ import annotations

from dataclasses import dataclass

from kit.core.state.key_groups import default_max_parallelism
from kit.machines.restore.operator_id_pair import OperatorIDPair
from kit.machines.restore.subtask_state_mapper import PARTITIONERS, SubtaskStateMapper


@dataclass(frozen=True, slots=True)
class AssignmentVertex:
    """A vertex of the job at its new parallelism. `max_parallelism` is None if the job does not configure one.

    `operators` is the chain from its end to its start: the first writes the outputs, the last reads the inputs, as in
    Flink's `JobVertex.getOperatorIDs`.
    """

    name: str
    parallelism: int
    operators: tuple[OperatorIDPair, ...]
    max_parallelism: int | None = None

    @property
    def current_max_parallelism(self) -> int:
        """The configured maximum parallelism, else the default for the parallelism."""
        return self.max_parallelism or default_max_parallelism(self.parallelism)

    @property
    def output_operator(self) -> OperatorIDPair:
        """The end of the chain, whose state includes the in-flight data of the outputs."""
        return self.operators[0]

    @property
    def input_operator(self) -> OperatorIDPair:
        """The start of the chain, whose state includes the in-flight data of the inputs."""
        return self.operators[-1]


@dataclass(frozen=True, slots=True)
class AssignmentEdge:
    """An exchange between the vertices `source` and `target`, and how both ends recover in-flight data.

    `output_index` numbers the exchanges that leave `source`, `input_index` (the gate) those that enter `target`.
    """

    source: int
    target: int
    upstream_mapper: SubtaskStateMapper
    downstream_mapper: SubtaskStateMapper
    output_index: int = 0
    input_index: int = 0

    @property
    def is_redistributable(self) -> bool:
        """False for a pointwise exchange and for broadcast, whose in-flight data cannot be redistributed."""
        return self.upstream_mapper is not SubtaskStateMapper.UNSUPPORTED

    @classmethod
    def of(
        cls, source: int, target: int, partitioner: str, output_index: int = 0, input_index: int = 0
    ) -> AssignmentEdge:
        """Create the exchange of a partitioner, by its name in `PARTITIONERS`."""
        rules = PARTITIONERS[partitioner]
        return cls(source, target, rules.upstream, rules.downstream, output_index, input_index)

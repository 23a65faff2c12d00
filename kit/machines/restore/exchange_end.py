"""One end of a vertex's exchanges: all its gates, or all its partitions, and their in-flight data.

The two ends of an exchange refer to each other. The mapping from new subtasks to old ones is created at the first
request, and a descriptor is made only if a mapping exists. Flink's order of requests changes from run to run; here it
is the order in which the vertices are given. Follows `TaskStateAssignment`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from kit.core.state.operator_state import OperatorState
from kit.core.state.rescale_mappings import (
    NO_RESCALE,
    NO_STATE,
    GateOrPartitionRescalingDescriptor,
    InflightDataRescalingDescriptor,
    MappingType,
    RescaleMappings,
)
from kit.core.state.subtask_state_kind import SubtaskStateKind
from kit.machines.restore.channels import ChannelsHandle, port_of, redistribute, sort_by_port, unmerged
from kit.machines.restore.errors import PointwiseRescaleError
from kit.machines.restore.operator_id_pair import OperatorIDPair
from kit.machines.restore.per_subtask import PerSubtask
from kit.machines.restore.subtask_state_mapper import SubtaskStateMapper
from kit.machines.restore.topology import AssignmentEdge, AssignmentVertex


@dataclass(frozen=True, slots=True)
class SubtasksRescaleMapping:
    """The old subtasks that each new subtask of one end recovers, and those that several subtasks recover."""

    mapping: RescaleMappings
    ambiguous: frozenset[int]


class ExchangeEnd:
    """The gates of a vertex (`is_input`) or its partitions; either is a *port*, counted from 0.

    `operator` is the one whose `state` holds the in-flight data of this end. `channels` is what `deal_out` assigns to
    each new subtask, or None if no channels are assigned.
    """

    def __init__(
        self, vertex: AssignmentVertex, operator: OperatorIDPair, state: OperatorState, *, is_input: bool
    ) -> None:
        self.vertex = vertex
        self.operator = operator
        self.state = state
        self.is_input = is_input
        self.kind = SubtaskStateKind.INPUT_CHANNEL if is_input else SubtaskStateKind.RESULT_SUBPARTITION
        self.edges: list[AssignmentEdge] = []
        self.opposite: list[ExchangeEnd] = []
        self.far_is_rescaled: list[bool] = []
        """For each gate: True if its senders, or senders pointwise upstream of them, run at another parallelism now."""
        self.channels: Sequence[Sequence[Any]] | None = None
        self._mappings: dict[int, SubtasksRescaleMapping] = {}

    def join(self, edge: AssignmentEdge, opposite: ExchangeEnd) -> None:
        """Make the edge the next port, and set its other end."""
        self.edges.append(edge)
        self.opposite.append(opposite)

    # ---- where there is in-flight data ------------------------------------------------------------------------------

    @cached_property
    def ports_with_state(self) -> frozenset[int]:
        """The ports with in-flight data in the checkpoint, at this end."""
        by_subtask = (state.of_kind(self.kind) for state in self.state.subtask_states.values())
        return frozenset(map(port_of, unmerged(chain.from_iterable(by_subtask))))

    @cached_property
    def has_state_opposite(self) -> bool:
        """True if some vertex at the other ends has in-flight data for this side, from any sender."""
        return any(end.ports_with_state for end in self.opposite)

    @property
    def is_affected(self) -> bool:
        """True if there is in-flight data to recover at this end or at another one."""
        return bool(self.ports_with_state) or self.has_state_opposite

    @property
    def gates_behind_rescaled(self) -> frozenset[int]:
        """The gates with in-flight data whose event time may not hold for the new senders."""
        return frozenset(
            gate for gate, rescaled in enumerate(self.far_is_rescaled) if rescaled and self.has_in_flight_data(gate)
        )

    def has_in_flight_data(self, port: int) -> bool:
        """Return True if either end of this exchange has in-flight data."""
        edge = self.edges[port]
        far_port = edge.output_index if self.is_input else edge.input_index
        return port in self.ports_with_state or far_port in self.opposite[port].ports_with_state

    # ---- redistribution ---------------------------------------------------------------------------------------------

    def deal_out(self) -> None:
        """Assign each new subtask its handles; at unchanged parallelism usually its own, unchanged."""
        new = self.vertex.parallelism
        old = handles_by_subtask(self.state, self.kind)
        if self.state.parallelism == new and not self._is_redistributed_at_same_parallelism:
            self.channels = old
            return
        ports = len(self.edges)
        by_port: Sequence[Sequence[Sequence[ChannelsHandle]]] = [old] if ports == 1 else sort_by_port(old, ports)
        dealt = [
            redistribute(by_port[port], self.mapping(port).mapping, new)
            for port in range(ports)
            if self.has_in_flight_data(port)
        ]
        if dealt:
            self.channels = [sum(of_ports, ()) for of_ports in zip(*dealt, strict=True)]

    @property
    def _is_redistributed_at_same_parallelism(self) -> bool:
        """True if data goes from all to all: records may then move even if only the upstream vertex was rescaled."""
        return (
            self.is_input
            and any(edge.downstream_mapper is SubtaskStateMapper.FULL for edge in self.edges)
            and any(upstream.vertex.parallelism != self.state.parallelism for upstream in self.opposite)
        )

    # ---- mappings from new to old subtasks --------------------------------------------------------------------------

    def mapping(self, port: int) -> SubtasksRescaleMapping:
        """Return the old subtasks that each new subtask takes over, according to this exchange's mapper.

        Raises PointwiseRescaleError if the exchange cannot be redistributed, even at unchanged parallelism.
        """
        if port not in self._mappings:
            edge = self.edges[port]
            mapper = edge.downstream_mapper if self.is_input else edge.upstream_mapper
            try:
                table = mapper.get_new_to_old_subtasks_mapping(self.state.parallelism, self.vertex.parallelism)
            except PointwiseRescaleError as error:
                raise PointwiseRescaleError(error.flink_message, f"{self._exchange(port)}: {error.advice}") from None
            ambiguous = table.ambiguous_targets() if mapper.is_ambiguous else frozenset()
            self._mappings[port] = SubtasksRescaleMapping(table, ambiguous)
        return self._mappings[port]

    def _exchange(self, port: int) -> str:
        ends = [self.vertex.name, self.opposite[port].vertex.name]
        return "From '{}' to '{}'".format(*(reversed(ends) if self.is_input else ends))

    @cached_property
    def descriptors(self) -> Sequence[InflightDataRescalingDescriptor] | None:
        """The recovery of each new subtask's ports; None if nothing is rescaled."""
        # If two exchanges join the same two vertices, Flink finds the first of them for both.
        far = [(end, end.opposite.index(self)) for end in self.opposite]
        known = [end._mappings.get(far_port) for end, far_port in far]
        if not self._mappings and not any(known):
            return None
        makers = []
        for port, (end, far_port) in enumerate(far):
            if self.has_in_flight_data(port):
                channels = known[port] or end.mapping(far_port)
                makers.append(_descriptor_maker(self.mapping(port), channels.mapping))
            else:
                makers.append(lambda _: NO_STATE)
        return PerSubtask(self.vertex.parallelism, lambda i: _descriptor(tuple([make(i) for make in makers])))


def handles_by_subtask(state: OperatorState, kind: SubtaskStateKind) -> list[Any]:
    """Return the handles of one kind of each old subtask, none for one that reported nothing."""
    reported = state.subtask_states
    return [reported[index].of_kind(kind) if index in reported else () for index in range(state.parallelism)]


def _descriptor(ports: tuple[GateOrPartitionRescalingDescriptor, ...]) -> InflightDataRescalingDescriptor:
    moved = any(port.mapping_type is MappingType.RESCALING for port in ports)
    return InflightDataRescalingDescriptor(ports) if moved else NO_RESCALE


def _descriptor_maker(
    own: SubtasksRescaleMapping, channels: RescaleMappings
) -> Callable[[int], GateOrPartitionRescalingDescriptor]:
    nothing_moved = own.mapping.is_identity and channels.is_identity

    def make(subtask: int) -> GateOrPartitionRescalingDescriptor:
        old = own.mapping.mapped_indexes(subtask)
        kind = MappingType.IDENTITY if nothing_moved or not old else MappingType.RESCALING
        return GateOrPartitionRescalingDescriptor(old, channels, own.ambiguous, kind)

    return make

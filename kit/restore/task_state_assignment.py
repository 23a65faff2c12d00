"""One vertex while its state is assigned: what it had, what each new subtask gets, and how in-flight data moves.

Subtask mappings are looked up by both ends of an exchange, lazily, and whether one is there already decides whether a
descriptor is made at all. Flink walks the vertices in an order that changes from run to run; here it is the order in
which they are given. Follows `TaskStateAssignment`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from kit.restore.channels import as_downstream_input, single_inputs, single_outputs
from kit.restore.errors import ChannelRescaleError, FinishedOperatorsError
from kit.restore.java_hashmap_order import capacity_for, operator_instance_hash, put_order
from kit.restore.rescale_mappings import (
    NO_RESCALE,
    NO_STATE,
    GateOrPartitionRescalingDescriptor,
    InflightDataRescalingDescriptor,
    MappingType,
    RescaleMappings,
)
from kit.restore.topology import AssignmentEdge, AssignmentVertex
from kit.state.handles import (
    InputChannelStateHandle,
    InputStateHandle,
    KeyedStateHandle,
    OperatorStreamStateHandle,
    OutputStateHandle,
)
from kit.state.operator_state import OperatorState


@dataclass(frozen=True, slots=True)
class SubtasksRescaleMapping:
    """Which old subtasks each new subtask of one end of an exchange recovers, and which of them others recover too."""

    mapping: RescaleMappings
    ambiguous: frozenset[int]


@dataclass(slots=True)
class AssignedOperator:
    """What each new subtask of one operator gets, by kind; None where no subtask gets any."""

    managed_operator: Sequence[Sequence[OperatorStreamStateHandle]] | None = None
    raw_operator: Sequence[Sequence[OperatorStreamStateHandle]] | None = None
    managed_keyed: Sequence[Sequence[KeyedStateHandle]] | None = None
    raw_keyed: Sequence[Sequence[KeyedStateHandle]] | None = None


class TaskStateAssignment:
    """One vertex and the state of its operators, `states` by generated id.

    Raises FinishedOperatorsError where only some of the operators had finished.
    """

    def __init__(self, vertex: AssignmentVertex, states: dict[str, OperatorState]) -> None:
        self.vertex = vertex
        self.states = states
        self.parallelism = vertex.parallelism
        self.max_parallelism = vertex.current_max_parallelism
        self.is_fully_finished = _is_fully_finished(vertex, states)
        self.has_non_finished_state = any(state.subtask_states for state in states.values())
        self.inputs: list[AssignmentEdge] = []
        self.outputs: list[AssignmentEdge] = []
        self.upstream: list[TaskStateAssignment] = []
        self.downstream: list[TaskStateAssignment] = []
        self.assigned: dict[str, AssignedOperator] = {}
        self.input_channels: Sequence[Sequence[InputStateHandle]] | None = None
        self.output_channels: Sequence[Sequence[OutputStateHandle]] | None = None
        self.upstream_output_buffers: dict[int, list[InputChannelStateHandle]] = {}
        self._input_mappings: dict[int, SubtasksRescaleMapping] = {}
        self._output_mappings: dict[int, SubtasksRescaleMapping] = {}

    def read_from(self, edge: AssignmentEdge, upstream: TaskStateAssignment) -> None:
        """Join the next gate to the vertex it reads from."""
        self.inputs.append(edge)
        self.upstream.append(upstream)

    def write_to(self, edge: AssignmentEdge, downstream: TaskStateAssignment) -> None:
        """Join the next partition to the vertex it writes to."""
        self.outputs.append(edge)
        self.downstream.append(downstream)

    @property
    def input_state(self) -> OperatorState:
        """The state of the operator that reads the inputs."""
        return self.states[self.vertex.input_operator.generated_id]

    @property
    def output_state(self) -> OperatorState:
        """The state of the operator that writes the outputs."""
        return self.states[self.vertex.output_operator.generated_id]

    # ---- where there is in-flight data ------------------------------------------------------------------------------

    @cached_property
    def input_state_gates(self) -> frozenset[int]:
        """The gates with in-flight data in the checkpoint."""
        states = self.input_state.subtask_states.values()
        return frozenset(h.info.gate_idx for state in states for h in single_inputs(state.input_channel_state))

    @cached_property
    def output_state_partitions(self) -> frozenset[int]:
        """The partitions with in-flight data in the checkpoint."""
        states = self.output_state.subtask_states.values()
        return frozenset(
            h.info.partition_idx for state in states for h in single_outputs(state.result_subpartition_state)
        )

    @cached_property
    def has_upstream_output_states(self) -> bool:
        """Whether some upstream vertex has in-flight data in its outputs."""
        return any(upstream.output_state_partitions for upstream in self.upstream)

    @cached_property
    def has_downstream_input_states(self) -> bool:
        """Whether some downstream vertex has in-flight data in its inputs."""
        return any(downstream.input_state_gates for downstream in self.downstream)

    @property
    def is_affected(self) -> bool:
        """Whether its subtasks need to be told anything: of state of their own, or of in-flight data around them."""
        return self.has_non_finished_state or self.has_upstream_output_states or self.has_downstream_input_states

    def has_in_flight_data_for_gate(self, gate: int) -> bool:
        """Whether either end of the exchange into `gate` has in-flight data."""
        partition = self.inputs[gate].output_index
        return gate in self.input_state_gates or partition in self.upstream[gate].output_state_partitions

    def has_in_flight_data_for_partition(self, partition: int) -> bool:
        """Whether either end of the exchange out of `partition` has in-flight data."""
        gate = self.outputs[partition].input_index
        return partition in self.output_state_partitions or gate in self.downstream[partition].input_state_gates

    # ---- which old subtasks a new one takes over --------------------------------------------------------------------

    def input_mapping(self, gate: int) -> SubtasksRescaleMapping:
        """The mapping of this vertex's subtasks as seen from a gate.

        Raises PointwiseRescaleError where the exchange cannot be redistributed, even at unchanged parallelism.
        """
        if gate not in self._input_mappings:
            mapper = self.inputs[gate].downstream_mapper
            mapping = mapper.get_new_to_old_subtasks_mapping(self.input_state.parallelism, self.parallelism)
            ambiguous = mapping.ambiguous_targets() if mapper.is_ambiguous else frozenset()
            self._input_mappings[gate] = SubtasksRescaleMapping(mapping, ambiguous)
        return self._input_mappings[gate]

    def output_mapping(self, partition: int) -> SubtasksRescaleMapping:
        """The mapping of this vertex's subtasks as seen from a partition; raises like `input_mapping`."""
        if partition not in self._output_mappings:
            mapper = self.outputs[partition].upstream_mapper
            mapping = mapper.get_new_to_old_subtasks_mapping(self.output_state.parallelism, self.parallelism)
            ambiguous = mapping.ambiguous_targets() if mapper.is_ambiguous else frozenset()
            self._output_mappings[partition] = SubtasksRescaleMapping(mapping, ambiguous)
        return self._output_mappings[partition]

    # ---- descriptors ------------------------------------------------------------------------------------------------

    @cached_property
    def input_descriptors(self) -> Sequence[InflightDataRescalingDescriptor] | None:
        """For each subtask, how the start of the chain recovers its gates; None where nothing is rescaled."""
        # With two exchanges between the same vertices Flink finds the first for both.
        far = [(up, up.downstream.index(self)) for up in self.upstream]
        known = [up._output_mappings.get(partition) for up, partition in far]
        if not self._input_mappings and not any(known):
            return None
        gates: list[tuple[SubtasksRescaleMapping, SubtasksRescaleMapping] | None] = []
        for gate, (up, partition) in enumerate(far):
            if not self.has_in_flight_data_for_gate(gate):
                gates.append(None)
                continue
            channels = known[gate] or up.output_mapping(partition)
            gates.append((self.input_mapping(gate), channels))
        return _descriptors(gates, self.parallelism)

    @cached_property
    def output_descriptors(self) -> Sequence[InflightDataRescalingDescriptor] | None:
        """For each subtask, how the end of the chain recovers its partitions; None where nothing is rescaled."""
        far = [(down, down.upstream.index(self)) for down in self.downstream]
        known = [down._input_mappings.get(gate) for down, gate in far]
        if not self._output_mappings and not any(known):
            return None
        partitions: list[tuple[SubtasksRescaleMapping, SubtasksRescaleMapping] | None] = []
        for partition, (down, gate) in enumerate(far):
            if not self.has_in_flight_data_for_partition(partition):
                partitions.append(None)
                continue
            channels = known[partition] or down.input_mapping(gate)
            partitions.append((self.output_mapping(partition), channels))
        return _descriptors(partitions, self.parallelism)

    # ---- recovering output downstream -------------------------------------------------------------------------------

    def distribute_output_buffers_to_downstream(self) -> None:
        """Hand the in-flight data of the outputs to the subtasks it was meant for, as input of theirs.

        Raises ChannelRescaleError for a buffer that was meant for a subtask that no new one stands in for.
        """
        if self.output_channels is None:
            return
        descriptors = self.output_descriptors
        inverted: dict[int, RescaleMappings] = {}
        for subtask in self._in_javas_order():
            descriptor = descriptors[subtask] if descriptors else NO_RESCALE
            for handle in single_outputs(self.output_channels[subtask]):
                partition, subpartition = handle.info.partition_idx, handle.info.subpartition_idx
                channels = descriptor.channel_mapping(partition)
                if id(channels) not in inverted:
                    inverted[id(channels)] = channels.invert()
                targets = inverted[id(channels)].mapped_indexes(subpartition)
                if not targets:
                    raise self._no_target(partition, subpartition, channels)
                edge = self.outputs[partition]
                as_input = as_downstream_input(handle, edge.input_index)
                for target in targets:
                    self.downstream[partition].upstream_output_buffers.setdefault(target, []).append(as_input)

    def _in_javas_order(self) -> list[int]:
        """The subtasks as Flink's map of output state walks them; it decides which of several bad buffers is named."""
        hash_code = operator_instance_hash(self.vertex.output_operator.generated_id)
        return put_order(range(self.parallelism), hash_code, capacity_for(self.parallelism * len(self.states)))

    def _no_target(self, partition: int, subpartition: int, channels: RescaleMappings) -> ChannelRescaleError:
        consumer = self.downstream[partition].vertex.name
        return ChannelRescaleError(
            f"Recovered a buffer from old ResultSubpartitionInfo{{partitionIdx={partition}, "
            f"subPartitionIdx={subpartition}}} that has no mapping in {channels.flink_repr}",
            f"Found in-flight data from '{self.vertex.name}' for old subtask {subpartition} of '{consumer}', which no "
            "new subtask takes over; restore it at the old parallelism.",
        )


def _is_fully_finished(vertex: AssignmentVertex, states: dict[str, OperatorState]) -> bool:
    finished = [pair for pair in vertex.operators if states[pair.generated_id].fully_finished]
    if finished and len(finished) < len(vertex.operators):
        running = [pair.label for pair in vertex.operators if pair not in finished]
        raise FinishedOperatorsError(
            "JobVertex could not have mixed finished and unfinished operators",
            f"In '{vertex.name}' these had finished: {', '.join(pair.label for pair in finished)}; these had not: "
            f"{', '.join(running)}. Keep them in different chains, as they were when the checkpoint was taken.",
        )
    return bool(finished)


def _descriptors(
    gates: Sequence[tuple[SubtasksRescaleMapping, SubtasksRescaleMapping] | None], parallelism: int
) -> list[InflightDataRescalingDescriptor]:
    """The descriptor of each subtask from, for each gate, its own mapping and that of the other end."""
    makers = [_gate_descriptor(*gate) if gate else lambda _: NO_STATE for gate in gates]
    made = []
    for subtask in range(parallelism):
        descriptors = tuple([make(subtask) for make in makers])
        moved = any(descriptor.mapping_type is MappingType.RESCALING for descriptor in descriptors)
        made.append(InflightDataRescalingDescriptor(descriptors) if moved else NO_RESCALE)
    return made


def _gate_descriptor(
    own: SubtasksRescaleMapping, far: SubtasksRescaleMapping
) -> Callable[[int], GateOrPartitionRescalingDescriptor]:
    nothing_moved = own.mapping.is_identity and far.mapping.is_identity

    def make(subtask: int) -> GateOrPartitionRescalingDescriptor:
        old = own.mapping.mapped_indexes(subtask)
        kind = MappingType.IDENTITY if nothing_moved or not old else MappingType.RESCALING
        return GateOrPartitionRescalingDescriptor(old, far.mapping, own.ambiguous, kind)

    return make

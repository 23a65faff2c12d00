"""Flink's vectors as our values, and our results as the vectors write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kit.core.state.handles import (
    FileStateHandle,
    IncrementalRemoteKeyedStateHandle,
    InputChannelInfo,
    InputChannelStateHandle,
    KeyedStateHandle,
    KeyGroupRange,
    KeyGroupsStateHandle,
    OperatorStateMode,
    OperatorStreamStateHandle,
    ResultSubpartitionInfo,
    ResultSubpartitionStateHandle,
    StateMetaInfo,
)
from kit.core.state.operator_state import FINISHED_SUBTASK_STATE, OperatorState, OperatorSubtaskState
from kit.core.state.rescale_mappings import InflightDataRescalingDescriptor, MappingType, RescaleMappings
from kit.core.state.restored_state import RestoredSubtaskState
from kit.machines.restore.operator_id_pair import OperatorIDPair
from kit.machines.restore.restored import StateAssignment
from kit.machines.restore.subtask_state_mapper import SubtaskStateMapper
from kit.machines.restore.topology import AssignmentEdge, AssignmentVertex

Row = Mapping[str, Any]


def stream(name: str) -> FileStateHandle:
    return FileStateHandle(name, 1)


# ---- in -------------------------------------------------------------------------------------------------------------


def vertices(row: Row) -> tuple[AssignmentVertex, ...]:
    return tuple(
        AssignmentVertex(
            vertex["name"],
            vertex["parallelism"],
            tuple(OperatorIDPair(pair["id"], pair["user_defined_id"]) for pair in vertex["operators"]),
            None if vertex["max_parallelism"] == -1 else vertex["max_parallelism"],
        )
        for vertex in row["vertices"]
    )


def edges(row: Row) -> tuple[AssignmentEdge, ...]:
    return tuple(
        AssignmentEdge(
            edge["from"],
            edge["to"],
            SubtaskStateMapper[edge["upstream_mapper"]],
            SubtaskStateMapper[edge["downstream_mapper"]],
            edge["output_index"],
            edge["input_index"],
        )
        for edge in row["edges"]
    )


def operator_states(row: Row) -> dict[str, OperatorState]:
    return {
        state["id"]: OperatorState(
            state["id"],
            state["parallelism"],
            state["max_parallelism"],
            {int(index): subtask_state(one) for index, one in state["subtasks"].items()},
            fully_finished=state["fully_finished"],
        )
        for state in row["operator_states"]
    }


def subtask_state(one: Row) -> OperatorSubtaskState:
    if one.get("finished"):
        return FINISHED_SUBTASK_STATE
    return OperatorSubtaskState(
        operator_handles(one.get("managed_operator", ())),
        operator_handles(one.get("raw_operator", ())),
        tuple(keyed_handle(handle) for handle in one.get("managed_keyed", ())),
        tuple(keyed_handle(handle) for handle in one.get("raw_keyed", ())),
        tuple(
            InputChannelStateHandle(
                h["old_subtask"],
                InputChannelInfo(h["gate"], h["channel"]),
                tuple(h["offsets"]),
                h["size"],
                stream(h["handle"]),
            )
            for h in one.get("input_channel", ())
        ),
        tuple(
            ResultSubpartitionStateHandle(
                h["old_subtask"],
                ResultSubpartitionInfo(h["partition"], h["subpartition"]),
                tuple(h["offsets"]),
                h["size"],
                stream(h["handle"]),
            )
            for h in one.get("result_subpartition", ())
        ),
    )


def operator_handles(described: Iterable[Row]) -> tuple[OperatorStreamStateHandle, ...]:
    return tuple(
        OperatorStreamStateHandle(
            {
                name: StateMetaInfo(tuple(info["offsets"]), OperatorStateMode[info["mode"]])
                for name, info in one["states"].items()
            },
            stream(one["handle"]),
        )
        for one in described
    )


def keyed_handle(one: Row) -> KeyedStateHandle:
    covered = KeyGroupRange(*one["kg"])
    if one["type"] == "key_groups":
        return KeyGroupsStateHandle(covered, tuple(one["offsets"]), stream(one["handle"]))
    return IncrementalRemoteKeyedStateHandle(
        one["backend_id"], covered, one["checkpoint_id"], (), (), stream(one["handle"]), 1
    )


# ---- out ------------------------------------------------------------------------------------------------------------

SETS = {"managed_operator", "raw_operator", "managed_keyed", "raw_keyed", "upstream_output_buffer"}


def restore(assignment: StateAssignment, vertex: int, subtask: int) -> Row | None:
    """Our restore of one subtask as the vectors write it."""
    found = assignment.restores[vertex][subtask]
    if found is None:
        return None
    return {
        "checkpoint_id": found.checkpoint_id,
        "deployed_as_finished": found.state.is_task_deployed_as_finished,
        "task_finished": found.state.is_task_finished,
        "operators": {
            operator: restored_state(state)
            for operator, state in found.state.subtask_states.items()
            if isinstance(state, RestoredSubtaskState)
        },
    }


def restored_state(state: RestoredSubtaskState) -> Row:
    shown = {
        "managed_operator": [operator_dump(h) for h in state.managed_operator_state],
        "raw_operator": [operator_dump(h) for h in state.raw_operator_state],
        "managed_keyed": [keyed_dump(h) for h in state.managed_keyed_state],
        "raw_keyed": [keyed_dump(h) for h in state.raw_keyed_state],
        "input_channel": [channel_dump(h) for h in state.input_channel_state],
        "result_subpartition": [channel_dump(h) for h in state.result_subpartition_state],
        "upstream_output_buffer": [channel_dump(h) for h in state.upstream_output_buffer_state],
        "input_rescale": descriptor_dump(state.input_rescale_descriptor),
        "output_rescale": descriptor_dump(state.output_rescale_descriptor),
        "has_state": state.has_state(),
    }
    return {key: value for key, value in shown.items() if value}


def operator_dump(handle: OperatorStreamStateHandle) -> Row:
    states = handle.state_name_to_partition_offsets.items()
    return {
        "handle": handle.delegate.path,
        "states": {name: {"mode": info.mode.name, "offsets": list(info.offsets)} for name, info in states},
    }


def keyed_dump(handle: KeyedStateHandle) -> Row:
    covered = [handle.key_group_range.start, handle.key_group_range.end]
    if isinstance(handle, KeyGroupsStateHandle):
        return {"type": "key_groups", "handle": handle.path, "kg": covered, "offsets": list(handle.offsets)}
    assert isinstance(handle, IncrementalRemoteKeyedStateHandle)
    return {
        "type": "incremental",
        "handle": handle.meta_state.path,
        "kg": covered,
        "backend_id": handle.backend_identifier,
        "checkpoint_id": handle.checkpoint_id,
    }


def channel_dump(handle: Any) -> Row:
    if isinstance(handle, InputChannelStateHandle):
        where = {"gate": handle.info.gate_idx, "channel": handle.info.input_channel_idx}
    else:
        where = {"partition": handle.info.partition_idx, "subpartition": handle.info.subpartition_idx}
    return {
        "handle": handle.delegate.path,
        "old_subtask": handle.subtask_index,
        **where,
        "offsets": list(handle.offsets),
        "size": handle.size,
    }


def mappings_dump(mappings: RescaleMappings) -> Row:
    return {
        "sources": mappings.sources,
        "targets": mappings.targets,
        "identity": mappings.is_identity,
        "mappings": [list(row) for row in mappings.mappings],
    }


def descriptor_dump(descriptor: InflightDataRescalingDescriptor) -> list[Any]:
    return [
        "NO_STATE"
        if gate.mapping_type is MappingType.NO_STATE
        else {
            "type": gate.mapping_type.name,
            "old_subtasks": list(gate.old_subtasks),
            "ambiguous": sorted(gate.ambiguous),
            "channels": mappings_dump(gate.channels),
        }
        for gate in descriptor.gates
    ]


# ---- without the orders that mean nothing ---------------------------------------------------------------------------


def unordered(found: Row | None) -> Any:
    """A restore with its sets sorted: Java's hash order and identity hashes mean nothing there."""
    if found is None:
        return None
    operators = {
        operator: {key: sorted(value, key=repr_sorted) if key in SETS else value for key, value in state.items()}
        for operator, state in found["operators"].items()
        if state is not None
    }
    return {**found, "operators": operators}


def repr_sorted(value: Any) -> str:
    return (
        repr(sorted((key, repr_sorted(inner)) for key, inner in value.items()))
        if isinstance(value, dict)
        else repr(value)
    )


def operator_set(handles: Sequence[OperatorStreamStateHandle]) -> list[Any]:
    return sorted((operator_dump(handle) for handle in handles), key=repr_sorted)


def as_operator_set(described: Iterable[Row]) -> list[Any]:
    return sorted(described, key=repr_sorted)

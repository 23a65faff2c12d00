"""The encoding of messages, events and commands on the sockets: JSON with raw bytes, and no executable content.

Theory of operation. A value of a registered class becomes `{"$": <name>, ...}`: a dataclass with its fields, an enum
with the name of its member. A task's snapshot becomes bytes in Flink's own format (`kit.core.metadata`). All bytes are
sent as blobs of the control message. Everything else must be JSON. Both sides reject classes that `REGISTERED` does not
name: the sender, so that a mistake is found where it is made, and the receiver, because it trusts no sender.

Batches are not encoded here: the data plane sends them as Arrow. The other elements of a channel, including fragments
of records, are (`encode_element`), together with the id of their cause.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any

from kit.core.metadata import MetadataError, decode_task_state_snapshot, encode_task_state_snapshot
from kit.core.protocol import elements, messages
from kit.core.protocol.lineage import CoveredOutput, Lineage
from kit.core.protocol.options import AlignmentType, CheckpointOptions
from kit.core.protocol.properties import (
    CheckpointType,
    PostCheckpointAction,
    SavepointFormatType,
    SavepointType,
    SharingFilesStrategy,
)
from kit.core.protocol.reasons import CheckpointFailureReason
from kit.core.protocol.tasks import ExecutionState, TaskRestore
from kit.core.protocol.words import Envelope, ProtocolMessage
from kit.core.state.operator_state import OperatorSubtaskState, TaskStateSnapshot
from kit.core.state.rescale_mappings import (
    GateOrPartitionRescalingDescriptor,
    InflightDataRescalingDescriptor,
    MappingType,
    RescaleMappings,
)
from kit.core.state.restored_state import RestoredSubtaskState
from kit.core.trace.trace import TraceRecord
from kit.hosts.spark.wire.wire import ControlMessage

REGISTERED: dict[str, type] = {
    klass.__name__: klass
    for klass in (
        messages.DeployTask,
        messages.TriggerTaskCheckpoint,
        messages.NotifyCheckpointComplete,
        messages.NotifyCheckpointAborted,
        messages.OperatorEventToTask,
        messages.CancelTask,
        messages.TaskStateChanged,
        messages.AcknowledgeCheckpoint,
        messages.DeclineCheckpoint,
        messages.ReportCheckpointMetrics,
        messages.OperatorEventToCoordinator,
        messages.CheckpointMetrics,
        messages.InitializationMetrics,
        Lineage,
        CoveredOutput,
        elements.RecordFragment,
        elements.CheckpointBarrier,
        elements.CancelCheckpointMarker,
        elements.Watermark,
        elements.WatermarkStatus,
        elements.EndOfData,
        elements.EndOfPartition,
        elements.SubtaskConnectionDescriptor,
        elements.EndOfChannelState,
        CheckpointOptions,
        CheckpointType,
        SavepointType,
        TaskRestore,
        TaskStateSnapshot,
        AlignmentType,
        CheckpointFailureReason,
        ExecutionState,
        PostCheckpointAction,
        SavepointFormatType,
        SharingFilesStrategy,
    )
}
"""Every class that may cross a socket, by name."""

WORDS = "words"
RECORDS = "records"

_PLAIN = {bool, int, str}
_TAG = "$"
_BYTES = "bytes"
_NUMBER = "number"
_MAPPING = "mapping"
_FIELDS = {
    name: tuple(field.name for field in fields(klass)) for name, klass in REGISTERED.items() if is_dataclass(klass)
}


class CodecError(ValueError):
    """A value that must not be sent over a socket, or JSON that does not encode a registered value."""


# --- values -----------------------------------------------------------------------------------------------------------


def encode(value: Any, blobs: list[bytes]) -> Any:
    """Return the value as JSON and append its bytes to `blobs`. Raises CodecError for an unregistered class."""
    if value is None or type(value) in _PLAIN:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {_TAG: _NUMBER, "text": repr(value)}
    name = type(value).__name__
    if REGISTERED.get(name) is type(value):
        return _encode_registered(name, value, blobs)
    if isinstance(value, Mapping):
        return _encode_mapping(value, blobs)
    if isinstance(value, list | tuple):
        return [encode(item, blobs) for item in value]
    if isinstance(value, bytes):
        return {_TAG: _BYTES, "blob": _add(value, blobs)}
    raise CodecError(f"{type(value).__name__} may not cross a socket: {value!r} is neither JSON nor a registered class")


def _encode_registered(name: str, value: Any, blobs: list[bytes]) -> dict[str, Any]:
    if isinstance(value, Enum):
        return {_TAG: name, "name": value.name}
    if isinstance(value, CoveredOutput):
        return {_TAG: name, "runs": value.encode()}
    if isinstance(value, TaskStateSnapshot):
        encoded = {_TAG: name, "blob": _add(encode_task_state_snapshot(value), blobs)}
        restored = _encode_restored(value)
        return encoded | {"restored": restored} if restored else encoded
    return {_TAG: name} | {field: encode(getattr(value, field), blobs) for field in _FIELDS[name]}


def _encode_restored(snapshot: TaskStateSnapshot) -> dict[str, Any]:
    """Return, for each operator to restore, how its in-flight input and output data was redistributed.

    The metadata format has no field for it. The gates behind rescaled vertices follow where there are any.
    """
    return {
        operator_id: [
            _encode_gates(state.input_rescale_descriptor),
            _encode_gates(state.output_rescale_descriptor),
            *([sorted(state.gates_behind_rescaled)] if state.gates_behind_rescaled else []),
        ]
        for operator_id, state in snapshot.subtask_states.items()
        if isinstance(state, RestoredSubtaskState)
    }


def _encode_gates(descriptor: InflightDataRescalingDescriptor) -> list[Any]:
    return [
        [
            gate.old_subtasks,
            gate.channels.sources,
            gate.channels.targets,
            gate.channels.mappings,
            gate.channels.is_identity,
            sorted(gate.ambiguous),
            gate.mapping_type.name,
        ]
        for gate in descriptor.gates
    ]


def _decode_gates(gates: list[Any]) -> InflightDataRescalingDescriptor:
    return InflightDataRescalingDescriptor(
        tuple(
            GateOrPartitionRescalingDescriptor(
                tuple(old_subtasks),
                RescaleMappings(sources, targets, tuple(map(tuple, mappings)), is_identity),
                frozenset(ambiguous),
                MappingType[mapping_type],
            )
            for old_subtasks, sources, targets, mappings, is_identity, ambiguous, mapping_type in gates
        )
    )


def _decode_snapshot(name: Any, content: dict[str, Any], blobs: Sequence[bytes]) -> TaskStateSnapshot:
    snapshot = decode_task_state_snapshot(blobs[content["blob"]])
    restored = content.get("restored", {})
    states = dict(snapshot.subtask_states)
    for operator_id, (inputs, outputs, *behind_rescaled) in restored.items():
        kinds = {field.name: getattr(states[operator_id], field.name) for field in fields(OperatorSubtaskState)}
        states[operator_id] = RestoredSubtaskState(
            **kinds,
            input_rescale_descriptor=_decode_gates(inputs),
            output_rescale_descriptor=_decode_gates(outputs),
            gates_behind_rescaled=frozenset(*behind_rescaled),
        )
    return replace(snapshot, subtask_states=states) if restored else snapshot


def _encode_mapping(value: Mapping[Any, Any], blobs: list[bytes]) -> dict[str, Any]:
    if not all(isinstance(key, str) for key in value):
        raise CodecError(f"a mapping with keys that are not text may not cross a socket: {value!r}")
    encoded = {key: encode(item, blobs) for key, item in value.items()}
    return {_TAG: _MAPPING, "items": encoded} if _TAG in encoded else encoded


def _add(data: bytes, blobs: list[bytes]) -> int:
    blobs.append(data)
    return len(blobs) - 1


def decode(data: Any, blobs: Sequence[bytes]) -> Any:
    """Return the value that `encode` encoded. Raises CodecError for anything else."""
    if isinstance(data, list):
        return [decode(item, blobs) for item in data]
    if not isinstance(data, dict):
        return data
    if _TAG not in data:
        return {key: decode(item, blobs) for key, item in data.items()}
    name, content = data[_TAG], {key: item for key, item in data.items() if key != _TAG}
    try:
        return _DECODERS.get(name, _decode_registered)(name, content, blobs)
    except (TypeError, ValueError, KeyError, IndexError, MetadataError) as error:
        if isinstance(error, CodecError):
            raise
        raise CodecError(f"{name!r} with {sorted(content)}: {type(error).__name__}: {error}") from None


def _decode_registered(name: Any, content: dict[str, Any], blobs: Sequence[bytes]) -> Any:
    klass = REGISTERED.get(name) if isinstance(name, str) else None
    if klass is None:
        raise CodecError(f"{name!r} is not registered: the peer runs another version of the kit, or is not one of ours")
    if issubclass(klass, Enum):
        return klass[content["name"]]
    unknown = content.keys() - set(_FIELDS[name])
    if unknown:
        raise CodecError(f"{name} has no field {', '.join(sorted(unknown))}; its fields are {', '.join(_FIELDS[name])}")
    return klass(**{field: decode(item, blobs) for field, item in content.items()})


_DECODERS: dict[Any, Callable[[Any, dict[str, Any], Sequence[bytes]], Any]] = {
    _BYTES: lambda name, content, blobs: blobs[content["blob"]],
    _NUMBER: lambda name, content, blobs: float(content["text"]),
    _MAPPING: lambda name, content, blobs: {key: decode(item, blobs) for key, item in content["items"].items()},
    CoveredOutput.__name__: lambda name, content, blobs: CoveredOutput.decode(content["runs"]),
    TaskStateSnapshot.__name__: _decode_snapshot,
}


# --- messages of the control socket -----------------------------------------------------------------------------------


def pack_words(kind: str, words: Iterable[Envelope], records: Iterable[TraceRecord] = ()) -> ControlMessage:
    """Return messages in their envelopes, with the trace records that led to them, as one control message."""
    blobs: list[bytes] = []
    content = {WORDS: [[encode(word, blobs), cause] for word, cause in words]}
    rows = [[encode(getattr(record, field), blobs) for field in _RECORD_FIELDS] for record in records]
    if rows:
        content[RECORDS] = rows
    return ControlMessage(kind, content, blobs)


def unpack_words(message: ControlMessage, base: type[ProtocolMessage]) -> tuple[list[Envelope], list[TraceRecord]]:
    """Return the envelopes and records of a control message. Raises CodecError unless each envelope holds a `base`."""
    words = [_envelope(each, message.blobs, base) for each in message.fields.get(WORDS, [])]
    rows = decode(message.fields.get(RECORDS, []), message.blobs)
    return words, [TraceRecord(*row) for row in rows]


def _envelope(value: Any, blobs: Sequence[bytes], base: type[ProtocolMessage]) -> Envelope:
    match value:
        case [content, str(cause)]:
            word = decode(content, blobs)
            if isinstance(word, base):
                return Envelope(word, cause)
            raise CodecError(f"a {type(word).__name__} where a {base.__name__} is expected")
    raise CodecError(f"expected a {base.__name__} and the id of what led to it, found {str(value)[:60]}")


_RECORD_FIELDS = tuple(field.name for field in fields(TraceRecord))


# --- elements of a channel --------------------------------------------------------------------------------------------


def encode_element(element: elements.Element, cause: str) -> bytes:
    """Return the encoding, for the data plane, of an element other than a buffer and of its cause's id.

    One line of JSON; the raw bytes of an element that has some (`RecordFragment`) follow it.
    """
    blobs: list[bytes] = []
    line = json.dumps([encode(element, blobs), cause], separators=(",", ":")).encode()
    return b"\n".join([line, *blobs])


def decode_element(data: bytes) -> tuple[elements.Element, str]:
    """Return the element and the cause that `encode_element` encoded. Raises CodecError for other bytes."""
    try:
        line, _, blob = data.partition(b"\n")
        body, cause = json.loads(line)
    except (TypeError, ValueError) as error:
        raise CodecError(f"{data[:60]!r} is no element: {error}") from None
    element = decode(body, (blob,))
    if not isinstance(element, elements.Element) or not isinstance(cause, str):
        raise CodecError(f"{type(element).__name__} is no element of a channel")
    return element, cause

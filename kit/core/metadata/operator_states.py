"""Operators and their subtasks in `_metadata`, and subtasks on the sockets between our processes.

In a file each subtask has at most one handle of operator and of keyed state, managed and raw. On the socket it may have
several, as after a rescale. Source: `MetadataV2V3SerializerBase`, `MetadataV3Serializer`, `MetadataV5Serializer`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kit.core.metadata.channel_handles import INPUT, OUTPUT, read_channels, write_channels
from kit.core.metadata.keyed_handles import read_keyed, write_keyed
from kit.core.metadata.operator_handles import read_operator, write_operator
from kit.core.metadata.primitives import NONE, DataInput, DataOutput, MetadataError
from kit.core.metadata.stream_handles import read_optional_stream, write_stream
from kit.core.state.handles import ByteStreamStateHandle, KeyedStateHandle, OperatorStreamStateHandle
from kit.core.state.operator_state import (
    EMPTY_SUBTASK_STATE,
    FINISHED_SUBTASK_STATE,
    OperatorState,
    OperatorSubtaskState,
)

HandleT = TypeVar("HandleT", OperatorStreamStateHandle, KeyedStateHandle)

FULLY_FINISHED = -1
"""Written instead of the number of subtasks if all have finished."""

_NOT_MEASURED = -1
_ID_BYTES = 16


# --- operators --------------------------------------------------------------------------------------------------------


def read_operator_state(source: DataInput) -> OperatorState:
    """Read the next operator with its subtasks."""
    version = source.version
    name = uid = None
    if version.names:
        name = source.utf("the name of an operator") or None
        uid = source.utf("the uid of an operator") or None
    operator_id = read_operator_id(source)
    label = name or uid or operator_id
    parallelism, max_parallelism = source.int_pair("the parallelism of an operator")
    if not 0 <= parallelism <= max_parallelism:
        found = f"{label}: parallelism {parallelism} of at most {max_parallelism}"
        raise source.error(found, "0 <= parallelism <= max parallelism", offset=source.pos - 8)
    coordinator_state = None
    if version.coordinators:
        coordinator_state = _read_coordinator_state(source, label)
    else:
        _expect_int(source, 1, f"the length of the chain of {label}")
    if version.finished_markers and source.next_is_negative():
        source.int32("that all subtasks have finished")
        if coordinator_state is not None:
            raise source.error(f"coordinator state of {label}", "none, as all its subtasks have finished")
        return OperatorState(operator_id, parallelism, max_parallelism, {}, None, name, uid, True)
    subtasks = _read_subtasks(source, label, parallelism)
    return OperatorState(operator_id, parallelism, max_parallelism, subtasks, coordinator_state, name, uid)


def _read_subtasks(source: DataInput, label: str, parallelism: int) -> dict[int, OperatorSubtaskState]:
    subtasks: dict[int, OperatorSubtaskState] = {}
    for _ in range(source.count(4, f"subtasks of {label}")):
        start = source.pos
        index = source.int32("a subtask index")
        finished = index < 0 and source.version.finished_markers
        if finished:
            index = -index - 1
        if not 0 <= index < parallelism or index in subtasks:
            again = " a second time" if index in subtasks else ""
            raise source.error(f"{label}: subtask {index}{again}", f"each of 0 to {parallelism - 1} once", offset=start)
        subtasks[index] = FINISHED_SUBTASK_STATE if finished else read_subtask_state(source, index)
    return subtasks


def _read_coordinator_state(source: DataInput, label: str) -> ByteStreamStateHandle | None:
    start = source.pos
    handle = read_optional_stream(source, f"the coordinator of {label}")
    if handle is not None and not isinstance(handle, ByteStreamStateHandle):
        raise source.error(f"{handle!r} for the coordinator of {label}", "a ByteStreamStateHandle", offset=start)
    return handle


def write_operator_state(out: DataOutput, operator: OperatorState) -> None:
    """Write one operator with its subtasks, in the order of the mapping."""
    version = out.version
    if version.names:
        for text in (operator.name, operator.uid):
            if text == "":
                raise MetadataError(f"{operator!r} with an empty name or uid", "some text or None", "use None for none")
            out.utf(text or "")
    write_operator_id(out, operator.operator_id)
    out.int32(operator.parallelism)
    out.int32(operator.max_parallelism)
    if version.coordinators:
        write_stream(out, operator.coordinator_state)
    else:
        _refuse(out, operator.coordinator_state is not None, f"coordinator state of {operator.label}")
        out.int32(1)
    if operator.fully_finished:
        _refuse(out, not version.finished_markers, f"the finished operator {operator.label}")
        out.int32(FULLY_FINISHED)
        return
    out.int32(len(operator.subtask_states))
    for index, state in operator.subtask_states.items():
        if not 0 <= index < operator.parallelism:
            found = f"{operator.label}: subtask {index}"
            raise MetadataError(found, f"0 to {operator.parallelism - 1}", "leave out subtasks that do not exist")
        if state.finished:
            _refuse(out, not version.finished_markers, f"the finished subtask {index} of {operator.label}")
            out.int32(-index - 1)
        else:
            out.int32(index)
            _write_subtask_of(out, operator, index, state)


def _write_subtask_of(out: DataOutput, operator: OperatorState, index: int, state: OperatorSubtaskState) -> None:
    try:
        write_subtask_state(out, state)
    except MetadataError as error:
        error.add_note(f"in the state of subtask {index} of {operator.label}")
        raise


def read_operator_id(source: DataInput) -> str:
    """Read an operator's id, as 32 hex digits."""
    return source.raw(_ID_BYTES, "an operator id").hex()


def write_operator_id(out: DataOutput, operator_id: str) -> None:
    """Write an operator's id of 32 hex digits."""
    try:
        encoded = bytes.fromhex(operator_id)
    except ValueError:
        encoded = b""
    if len(encoded) != _ID_BYTES or len(operator_id) != 2 * _ID_BYTES:
        raise MetadataError(f"the operator id {operator_id!r}", "32 hex digits", "take the id the job graph gives")
    out += encoded


# --- subtasks ---------------------------------------------------------------------------------------------------------


def read_subtask_state(source: DataInput, subtask_index: int) -> OperatorSubtaskState:
    """Read the state of one subtask that has not finished."""
    if not source.version.coordinators:
        source.int64("the duration of a snapshot")
        _expect_int(source, 0, "the number of legacy states")
    managed_operator = _read_operator_handles(source, "managed operator state")
    raw_operator = _read_operator_handles(source, "raw operator state")
    managed_keyed = _read_keyed_handles(source, "managed keyed state")
    raw_keyed = _read_keyed_handles(source, "raw keyed state")
    inputs = read_channels(source, INPUT, subtask_index)
    outputs = read_channels(source, OUTPUT, subtask_index)
    if not (managed_operator or raw_operator or managed_keyed or raw_keyed or inputs or outputs):
        return EMPTY_SUBTASK_STATE
    return OperatorSubtaskState(managed_operator, raw_operator, managed_keyed, raw_keyed, inputs, outputs)


def write_subtask_state(out: DataOutput, state: OperatorSubtaskState) -> None:
    """Write the state of one subtask that has not finished."""
    if not out.version.coordinators:
        out.int64(_NOT_MEASURED)
        out.int32(0)
    _write_operator_handles(out, state.managed_operator_state, "managed operator state")
    _write_operator_handles(out, state.raw_operator_state, "raw operator state")
    _write_keyed_handles(out, state.managed_keyed_state, "managed keyed state")
    _write_keyed_handles(out, state.raw_keyed_state, "raw keyed state")
    write_channels(out, INPUT, state.input_channel_state)
    write_channels(out, OUTPUT, state.result_subpartition_state)


def _read_operator_handles(source: DataInput, what: str) -> tuple[OperatorStreamStateHandle, ...]:
    if source.version.internal:
        return _read_several(source, what, read_operator)
    if not source.int32(f"whether there is {what}"):
        return ()
    handle = read_operator(source, what)
    return () if handle is None else (handle,)


def _write_operator_handles(out: DataOutput, handles: tuple[OperatorStreamStateHandle, ...], what: str) -> None:
    if not handles:
        out += NONE
        return
    _one_at_most(out, handles, what)
    out.int32(len(handles))
    for handle in handles:
        write_operator(out, handle)


def _read_keyed_handles(source: DataInput, what: str) -> tuple[KeyedStateHandle, ...]:
    if source.version.internal:
        return _read_several(source, what, read_keyed)
    handle = read_keyed(source, what)
    return () if handle is None else (handle,)


def _write_keyed_handles(out: DataOutput, handles: tuple[KeyedStateHandle, ...], what: str) -> None:
    _one_at_most(out, handles, what)
    if not handles and out.version.internal:
        out += NONE
    elif out.version.internal:
        out.int32(len(handles))
        for handle in handles:
            write_keyed(out, handle)
    else:
        write_keyed(out, handles[0] if handles else None)


def _read_several(
    source: DataInput, what: str, read: Callable[[DataInput, str], HandleT | None]
) -> tuple[HandleT, ...]:
    count = source.count(1, f"handles of {what}")
    handles = []
    for _ in range(count):
        handle = read(source, what)
        if handle is None:
            raise source.error(f"no handle of {what}", "as many handles as counted", offset=source.pos - 1)
        handles.append(handle)
    return tuple(handles)


def _one_at_most(out: DataOutput, handles: tuple[object, ...], what: str) -> None:
    if len(handles) > 1 and not out.version.internal:
        raise MetadataError(
            f"{len(handles)} handles of {what}", "one at most in a file", "write each subtask's own state"
        )


def _expect_int(source: DataInput, expected: int, what: str) -> None:
    value = source.int32(what)
    if value != expected:
        raise source.error(f"{value} for {what}", str(expected), offset=source.pos - 4)


def _refuse(out: DataOutput, has: bool, what: str) -> None:
    if has:
        raise MetadataError(what, f"nothing of the kind in {out.version!r}", "write a later version")

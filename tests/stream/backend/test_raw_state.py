"""The bytes of raw state: bytes from Flink are read, and written again unchanged; unreadable state is rejected."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator

import pytest

from kit.core.metadata import read_metadata
from kit.core.state.errors import StateError
from kit.core.state.handles import ByteStreamStateHandle, KeyGroupRange, KeyGroupsStateHandle, OperatorStreamStateHandle
from kit.core.state.key_groups import key_group_range_for_operator_index
from kit.core.state.operator_state import OperatorState
from kit.core.state.subtask_state_kind import SubtaskStateKind
from kit.machines.restore.keyed import redistribute_keyed
from kit.machines.restore.repartition import repartition_state
from kit.stream.backend.raw_state import RawStateInputs, RawStateOutputs
from tests.core.metadata.truth import case_names, load

RAW_STATE = [name for name in case_names() if name.endswith("/raw-state")]


def flinks(name: str) -> OperatorState:
    """The operator of a real checkpoint that has raw state."""
    case = load(name)
    metadata, _ = read_metadata(case.data, case.base)
    (found,) = [each for each in metadata.operator_states if has_raw_keyed_state(each)]
    return found


def has_raw_keyed_state(state: OperatorState) -> bool:
    return any(subtask.raw_keyed_state for subtask in state.subtask_states.values())


def content(name: str, handle: KeyGroupsStateHandle | OperatorStreamStateHandle) -> bytes:
    """The bytes behind a handle of this checkpoint, in its metadata or in a file."""
    stream = handle.delegate
    if isinstance(stream, ByteStreamStateHandle):
        return stream.data
    assert stream.path is not None
    return load(name).locate(stream.path).read_bytes()


def utf(text: str) -> bytes:
    """As Java's `writeUTF` writes it."""
    return struct.pack(">H", len(text)) + text.encode()


def read_utf(stream: io.RawIOBase) -> str:
    (length,) = struct.unpack(">H", stream.read(2) or b"")
    return (stream.read(length) or b"").decode()


def keyed_handles(state: OperatorState) -> Iterator[KeyGroupsStateHandle]:
    for _, subtask in sorted(state.subtask_states.items()):
        for handle in subtask.raw_keyed_state:
            assert isinstance(handle, KeyGroupsStateHandle)
            yield handle


@pytest.mark.parametrize("name", RAW_STATE)
@pytest.mark.parametrize("parallelism", [1, 2, 3, 5])
def test_raw_state_that_flink_wrote_is_read_at_any_parallelism(name: str, parallelism: int) -> None:
    state = flinks(name)
    old = [state.subtask_states[subtask] for subtask in range(state.parallelism)]
    ranges = [key_group_range_for_operator_index(128, parallelism, subtask) for subtask in range(parallelism)]
    keyed = redistribute_keyed([each.raw_keyed_state for each in old], 128, parallelism)
    listed = repartition_state([each.raw_operator_state for each in old], state.parallelism, parallelism)
    groups, partitions = [], []
    for subtask in range(parallelism):
        inputs = RawStateInputs("raw", ranges[subtask])
        inputs.give(SubtaskStateKind.RAW_KEYED, [(handle, content(name, handle)) for handle in keyed[subtask]])
        inputs.give(SubtaskStateKind.RAW_OPERATOR, [(handle, content(name, handle)) for handle in listed[subtask]])
        for key_group, stream in inputs.keyed:
            assert key_group in ranges[subtask]
            assert struct.unpack(">i", stream.read(4) or b"") == (key_group,)
            assert read_utf(stream) == f"raw-kg-{key_group}"
            groups.append(key_group)
        partitions.append([read_utf(stream) for stream in inputs.operator])
        assert inputs.unread == {}
    assert groups == list(range(0, 128, 3))
    written = [h.state_name_to_partition_offsets["_default_"] for each in old for h in each.raw_operator_state]
    assert sum(map(len, partitions)) == sum(len(info.offsets) for info in written)
    assert max(map(len, partitions)) - min(map(len, partitions)) <= 1


@pytest.mark.parametrize("name", RAW_STATE)
def test_the_same_raw_state_makes_the_same_file_and_offsets_as_flinks(name: str) -> None:
    state = flinks(name)
    for handle in keyed_handles(state):
        outputs = RawStateOutputs("raw", handle.key_group_range)
        for key_group in handle.key_group_range:
            if key_group % 3 == 0:
                outputs.keyed.start_new_key_group(key_group)
                outputs.keyed.write(struct.pack(">i", key_group) + utf(f"raw-kg-{key_group}"))
        keyed = outputs.take()[SubtaskStateKind.RAW_KEYED]
        assert keyed.encode() == (content(name, handle), handle.offsets)
    for subtask in state.subtask_states.values():
        for listed in subtask.raw_operator_state:
            inputs = RawStateInputs("raw", None)
            inputs.give(SubtaskStateKind.RAW_OPERATOR, [(listed, content(name, listed))])
            outputs = RawStateOutputs("raw", None)
            for stream in inputs.operator:
                outputs.operator.start_new_partition()
                outputs.operator.write(utf(read_utf(stream)))
            operator = outputs.take()[SubtaskStateKind.RAW_OPERATOR]
            assert operator.encode() == (content(name, listed), dict(listed.state_name_to_partition_offsets))


def test_what_nobody_could_read_again_is_refused() -> None:
    out = RawStateOutputs("raw", KeyGroupRange(4, 7)).keyed
    with pytest.raises(StateError, match=r"call start_new_key_group\(key_group\) first"):
        out.write(b"lost")
    with pytest.raises(StateError, match=r"key group 8 is not this subtask's: write one of KeyGroupRange\(4, 7\)"):
        out.start_new_key_group(8)
    out.start_new_key_group(5)
    out.write(b"found")
    with pytest.raises(StateError, match="key group 5 has been started already"):
        out.start_new_key_group(5)
    assert (out.current_key_group, out.tell(), out.is_key_group_already_started(6)) == (5, 5, False)
    with pytest.raises(StateError, match="raw has no raw keyed state, as it has no key"):
        _ = RawStateOutputs("raw", None).keyed


def test_an_output_is_a_binary_file_and_closing_it_is_left_to_the_checkpoint() -> None:
    outputs = RawStateOutputs("raw", None)
    assert outputs.take() == {}
    with outputs.operator as out:
        out.write(b"first")
    out.start_new_partition()
    out.writelines([b"second\n", b"third"])
    data, where = outputs.take()[SubtaskStateKind.RAW_OPERATOR].encode()
    assert (data, where["_default_"].offsets) == (b"firstsecond\nthird", (0, 5))
    assert outputs.take() == {}


def test_an_input_is_a_binary_file_from_its_part_on() -> None:
    handle = KeyGroupsStateHandle(KeyGroupRange(2, 4), (0, -1, 4), ByteStreamStateHandle("raw", b""))
    inputs = RawStateInputs("raw", KeyGroupRange(3, 9))
    inputs.give(SubtaskStateKind.RAW_KEYED, [(handle, b"none" + b"line\nmore")])
    assert inputs.unread
    ((key_group, stream),) = inputs.keyed
    assert (key_group, stream.readline(), stream.tell(), stream.read()) == (4, b"line\n", 5, b"more")
    assert (stream.seek(-4, io.SEEK_END), stream.read(2), stream.seek(0), stream.read(4)) == (5, b"mo", 0, b"line")
    assert [each.key_group for each in inputs.keyed] == [4], "it can be asked for again"
    assert not inputs.unread

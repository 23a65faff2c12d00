"""A damaged file is one clear error: never another exception, never a hang, never a huge allocation."""

from __future__ import annotations

import random
import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.metadata import CheckpointMetadata, MetadataError, read_metadata, write_metadata
from kit.core.metadata.versions import V2, V3, V4, V6
from kit.core.protocol.properties import CheckpointProperties, RetentionPolicy
from kit.core.state import handles as h
from kit.core.state.operator_state import MasterState, OperatorState, OperatorSubtaskState
from tests.core.metadata import strategies as some
from tests.core.metadata.truth import load_ours, our_names

CASES = [
    our_names("rocksdb-incremental/chk-2")[0],
    our_names("unaligned")[0],
    our_names("raw-state")[2],
    our_names("file-merging/chk-2")[0],
    our_names("rocksdb-full")[-2],
    our_names("unaligned")[-1],
]
"""One of each version."""
FLIPPED = [
    *CASES,
    our_names("changelog-mem")[0],
    our_names("changelog-fs")[1],
    our_names("finished")[-1],
    our_names("savepoint-stop")[-1],
]
FLIPS_EACH = 400

ID = "0123456789abcdef" * 2
STREAM = h.ByteStreamStateHandle("bytes", b"state")


def reads_or_says_why(data: bytes) -> None:
    """Either metadata that can be written again, or a `MetadataError`."""
    try:
        metadata, version = read_metadata(data, some.BASE)
    except MetadataError:
        return
    write_metadata(metadata, version)


@pytest.mark.parametrize("name", CASES)
def test_a_file_cut_off_anywhere_is_refused(name: str) -> None:
    data = load_ours(name).data
    # in the long stretches of state or names, one cut is like the next
    for cut in (*range(min(len(data), 2500)), *range(2500, len(data), 7)):
        with pytest.raises(MetadataError) as raised:
            read_metadata(data[:cut], some.BASE)
        assert raised.value.offset is not None
        assert 0 <= raised.value.offset <= cut


@pytest.mark.parametrize("name", FLIPPED)
def test_flipped_bits_are_refused_or_read_as_something_else(name: str) -> None:
    data = load_ours(name).data
    chance = random.Random(name)
    for _ in range(FLIPS_EACH):
        damaged = bytearray(data)
        for _ in range(chance.choice((1, 1, 2, 8))):
            damaged[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        reads_or_says_why(bytes(damaged))


@pytest.mark.parametrize("name", FLIPPED)
def test_numbers_at_their_limits_are_refused_or_read(name: str) -> None:
    """Counts, lengths and tags as large, and as negative, as they can be."""
    data = load_ours(name).data
    chance = random.Random(name)
    for _ in range(FLIPS_EACH):
        start = chance.randrange(len(data) - 4)
        number = chance.choice((-(2**31), -1, 0, 1, 0x7F, 0xFFFF, 0x7FFFFFFF))
        reads_or_says_why(data[:start] + struct.pack(">i", number) + data[start + 4 :])


@pytest.mark.parametrize("name", CASES)
def test_no_number_in_a_file_makes_us_take_more_memory_than_the_file_warrants(name: str) -> None:
    """A count is taken for true only as far as there are bytes for it."""
    data = load_ours(name).data
    chance = random.Random(name)
    tracemalloc.start()
    try:
        for _ in range(40):
            start = chance.randrange(len(data) - 4)
            number = chance.choice((len(data) // 8, len(data), 2**24, 2**31 - 1))
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            reads_or_says_why(data[:start] + struct.pack(">i", number) + data[start + 4 :])
            assert tracemalloc.get_traced_memory()[1] - before < 100_000 + 40 * len(data)
    finally:
        tracemalloc.stop()


@given(st.sampled_from(some.VERSIONS), st.binary(max_size=200))
def test_noise_after_the_header_is_refused(version: object, noise: bytes) -> None:
    number = version.number  # type: ignore[attr-defined]
    reads_or_says_why(struct.pack(">Ii", 0x4960672D, number) + noise)


@pytest.mark.parametrize("name", CASES)
def test_bytes_after_the_end_are_refused(name: str) -> None:
    with pytest.raises(MetadataError, match="1 more bytes; expected the end of the file"):
        read_metadata(load_ours(name).data + b"\0", some.BASE)


# --- what the errors say ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "byte 0: the data ends after 0 more bytes; expected 4 bytes of the magic number"),
        (b"PAR1PAR1", "byte 0: 0x50415231; expected the magic number 0x4960672d .* give a file named _metadata"),
        (bytes.fromhex("4960672d00000001"), "byte 4: version 1, of Flink 1.1 or 1.2; .* with Flink 1.10 or earlier"),
        (bytes.fromhex("4960672d00000007"), "byte 4: version 7; expected version 2 to 6"),
        (bytes.fromhex("4960672d00000006") + b"\xff" * 8, "byte 8: checkpoint id -1; expected 0 or more"),
    ],
)
def test_a_file_that_is_none_is_refused_at_its_head(data: bytes, message: str) -> None:
    with pytest.raises(MetadataError, match=message):
        read_metadata(data, "")


def test_a_count_is_held_against_the_bytes_that_are_left() -> None:
    data = bytes.fromhex("4960672d00000006") + bytes(8) + struct.pack(">i", 2**31 - 1)
    with pytest.raises(MetadataError, match="byte 16: 2147483647 master states; expected 0 to 0, as 0 bytes are left"):
        read_metadata(data, "")


def operator(state: OperatorSubtaskState) -> CheckpointMetadata:
    return CheckpointMetadata(1, (OperatorState(ID, 2, 128, {0: state}, name="counter"),))


def replaced(metadata: CheckpointMetadata, old: bytes, new: bytes) -> bytes:
    data = write_metadata(metadata)
    assert data.count(old) == 1
    return data.replace(old, new)


KEYED = operator(
    OperatorSubtaskState(managed_keyed_state=(h.KeyGroupsStateHandle(h.KeyGroupRange(9, 9), (5,), STREAM, "id"),))
)
LISTS = operator(
    OperatorSubtaskState(
        managed_operator_state=(
            h.OperatorStreamStateHandle({"items": h.StateMetaInfo((5,), h.OperatorStateMode.UNION)}, STREAM),
        )
    )
)
CHANGELOG = operator(
    OperatorSubtaskState(
        managed_keyed_state=(h.ChangelogStateBackendHandle((), (), h.KeyGroupRange(9, 9), 1, 1, 0, "id"),)
    )
)
CHANGES = operator(
    OperatorSubtaskState(
        raw_keyed_state=(h.InMemoryChangelogStateHandle(h.KeyGroupRange(9, 9), 1 << 40, 1 << 41, (), "id"),)
    )
)
RANGE = struct.pack(">ii", 9, 1)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            replaced(KEYED, b"\x0c" + RANGE, b"\x63" + RANGE),
            "a handle with tag 99; expected a keyed handle for managed",
        ),
        (replaced(KEYED, RANGE, struct.pack(">ii", 32768, 1)), "1 key groups from 32768 on; expected a range within 0"),
        (replaced(KEYED, struct.pack(">ii", 2, 128), struct.pack(">ii", 2, 1)), "counter: parallelism 2 of at most 1"),
        (replaced(KEYED, b"\x01\x00\x05bytes", b"\x03\x00\x05bytes"), "5 more bytes|key groups|bytes"),
        (replaced(LISTS, b"items\x01", b"items\x07"), "an unknown mode of the list state 'items'; expected one of 0"),
        (
            replaced(CHANGES, struct.pack(">q", 1 << 41), struct.pack(">q", -5)),
            "sequence number -5; expected 0 or more",
        ),
        (replaced(CHANGELOG, RANGE, struct.pack(">ii", 9, 0)), "a changelog of no key groups; expected one or more"),
        (
            replaced(LISTS, b"items", b"\xff\xff\xff\xff\xff"),
            "5 bytes that are no modified UTF-8; .* the name of a list",
        ),
    ],
)
def test_an_error_names_what_it_is_about(data: bytes, message: str) -> None:
    with pytest.raises(MetadataError, match=message):
        read_metadata(data, some.BASE)


def test_what_flink_would_refuse_to_read_is_not_written() -> None:
    none = h.ChangelogStateBackendHandle((), (), h.KeyGroupRange.EMPTY, 1, 1, 0, "id")
    before = h.InMemoryChangelogStateHandle(h.KeyGroupRange(9, 9), -1, 0, (), "id")
    for handle, found in ((none, "no key groups"), (before, "sequence numbers -1 to 0")):
        with pytest.raises(MetadataError, match=found):
            write_metadata(operator(OperatorSubtaskState(managed_keyed_state=(handle,))))


def test_an_object_of_another_class_is_not_written_and_all_that_may_be_are_named() -> None:
    operators = ["EmptyFileMergingOperatorStreamStateHandle", "FileMergingOperatorStreamStateHandle"]
    keyed = ["ChangelogStateBackendHandle", "ChangelogStateHandleStreamImpl", "InMemoryChangelogStateHandle"]
    keyed += ["IncrementalRemoteKeyedStateHandle", "KeyGroupsSavepointStateHandle", "KeyGroupsStateHandle"]
    for place, known in (
        ("managed_operator_state", [*operators, "OperatorStreamStateHandle"]),
        ("managed_keyed_state", keyed),
        ("input_channel_state", ["InputChannelStateHandle", "MergedInputChannelStateHandle"]),
        ("result_subpartition_state", ["MergedResultSubpartitionStateHandle", "ResultSubpartitionStateHandle"]),
    ):
        with pytest.raises(MetadataError, match=f"a str; expected .*, one of {', '.join(known)}; pass one"):
            write_metadata(operator(OperatorSubtaskState(**{place: ("state",)})))


def test_a_subtask_beyond_the_parallelism_or_twice_is_refused() -> None:
    states = {0: OperatorSubtaskState(), 1: OperatorSubtaskState()}
    data = write_metadata(CheckpointMetadata(1, (OperatorState(ID, 2, 128, states, name="counter"),)))
    second = data.rindex(struct.pack(">i", 1))
    for index, found in ((0, "subtask 0 a second time"), (2, "subtask 2"), (-3, "subtask 2")):
        damaged = data[:second] + struct.pack(">i", index) + data[second + 4 :]
        with pytest.raises(MetadataError, match=f"counter: {found}; expected each of 0 to 1 once"):
            read_metadata(damaged, "")


def test_handles_nested_without_end_are_refused() -> None:
    """A few bytes a level: without a limit this would exhaust the stack."""
    level = b"\x03" + bytes(8)
    head = write_metadata(CheckpointMetadata(1), V4)[:16]
    data = head + struct.pack(">ii", 0, 1) + bytes(16) + struct.pack(">ii", 1, 1) + level * 100_000
    with pytest.raises(MetadataError, match="17 levels deep"):
        read_metadata(data, "")


@pytest.mark.parametrize("version", [V2, V3, V6])
def test_a_master_state_must_fill_its_length(version: object) -> None:
    data = write_metadata(CheckpointMetadata(1, (), (MasterState("hook", 3, b"12345"),)), version)  # type: ignore[arg-type]
    length = struct.pack(">i", 19)
    assert data.count(length) == 1
    with pytest.raises(MetadataError, match="a master state that ends"):
        read_metadata(data.replace(length, struct.pack(">i", 18)), "")


def test_unknown_properties_are_refused_and_told() -> None:
    properties = CheckpointProperties.for_checkpoint(RetentionPolicy.RETAIN_ON_FAILURE)
    data = write_metadata(CheckpointMetadata(1, properties=properties))
    with pytest.raises(MetadataError, match="another class; expected a CheckpointType or a SavepointType"):
        read_metadata(data.replace(b"checkpoint.CheckpointType", b"checkpoint.CheckpointKind"), "")
    with pytest.raises(MetadataError, match="'FORWARD_BACKWARX'; expected one of FORWARD_BACKWARD, FORWARD"):
        read_metadata(data.replace(b"FORWARD_BACKWARD", b"FORWARD_BACKWARX"), "")

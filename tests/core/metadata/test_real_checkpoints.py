"""Checkpoints that Flink 1.10 to 2.3 wrote: we read in them what Flink does, and write the same bytes again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import pytest

from kit.core.metadata import CheckpointMetadata, read_metadata, write_metadata
from kit.core.state import handles as h
from tests.core.metadata.truth import Case, case_names, describe, differences, file_contents, load, load_ours, our_names

OUTER_KEYS = ("checkpointId", "masterStates", "operatorStates", "checkpointProperties")


@pytest.fixture(params=case_names())
def case(request: pytest.FixtureRequest) -> Case:
    return load(request.param)


def test_we_say_all_that_flink_says(case: Case) -> None:
    metadata, version = read_metadata(case.data, case.base)
    said = {key: case.truth[key] for key in OUTER_KEYS if key in case.truth}
    in_order = version.number >= 4
    assert list(differences(said, describe(metadata), files_in_order=in_order)) == []
    assert version.number == case.truth["metadataVersion"]
    assert [op.operator_id for op in metadata.operator_states] == [op["operatorId"] for op in said["operatorStates"]]


def test_written_again_it_is_the_same_to_the_byte(case: Case) -> None:
    data = case.data
    assert hashlib.sha256(data).hexdigest() == case.truth["metadataSha256"]
    assert write_metadata(*read_metadata(data, case.base)) == data


def test_every_file_it_refers_to_is_found_and_is_the_one_meant(case: Case) -> None:
    metadata, _ = read_metadata(case.data, case.base)
    streams = {(_start(stream), stream.path): stream for stream in _streams(metadata) if stream.path}
    said = {(one.get("startPos", 0), one["path"]): one for one in file_contents(case.truth)}
    assert streams.keys() == said.keys()
    assert {path for _, path in streams} == set(metadata.files())
    for key, stream in streams.items():
        content = case.locate(stream.path).read_bytes()
        if isinstance(stream, h.SegmentFileStateHandle):
            content = content[stream.start_pos : stream.start_pos + stream.size]
        assert hashlib.sha256(content).hexdigest() == said[key]["contentSha256"]
        assert stream.state_size == len(content) - ("/dstl/" in stream.path)


@pytest.mark.parametrize("name", [our_names("unaligned")[-1], our_names("unaligned-inline")[-1]])
def test_merged_channel_offsets_are_written_as_flink_does(name: str) -> None:
    """The nested block of merged handles stands in the file as Flink prints it."""
    case = load_ours(name)
    written = write_metadata(*read_metadata(case.data, case.base))
    blocks = [bytes.fromhex(block) for block in _all_of(case.truth, "serializedChannelOffsets")]
    assert len(blocks) > 1
    for block in blocks:
        assert len(block).to_bytes(4, "big") + block in written


def test_flink_1_11_left_the_subtask_out_of_channel_handles() -> None:
    case = load_ours(our_names("unaligned")[0])
    metadata, version = read_metadata(case.data, case.base)
    assert (version.number, version.written_by) == (3, "Flink 1.11")
    for operator in metadata.operator_states:
        for index, state in operator.subtask_states.items():
            channels = (*state.input_channel_state, *state.result_subpartition_state)
            assert {handle.subtask_index for handle in channels} <= {index}


@pytest.mark.parametrize(
    "name",
    [
        our_names("aligned-hashmap")[0],
        our_names("unaligned")[0],
        our_names("changelog-fs")[0],
        our_names("finished")[-2],
    ],
)
def test_older_metadata_can_be_written_in_the_newest_version(name: str) -> None:
    """As Flink does with whatever it restored from; only the layout changes."""
    case = load_ours(name)
    metadata, _ = read_metadata(case.data, case.base)
    again, version = read_metadata(write_metadata(metadata), case.base)
    assert again == metadata
    assert version.number == 6


def _streams(metadata: CheckpointMetadata) -> Iterator[h.StreamStateHandle]:
    for operator in metadata.operator_states:
        for handle in operator.handles():
            yield from _streams_of(handle)


def _streams_of(handle: Any) -> Iterator[h.StreamStateHandle]:
    match handle:
        case h.IncrementalRemoteKeyedStateHandle():
            yield handle.meta_state
            for part in (*handle.shared_state, *handle.private_state):
                yield part.handle
        case h.ChangelogStateBackendHandle():
            for part in (*handle.materialized, *handle.non_materialized):
                yield from _streams_of(part)
        case h.ChangelogStateHandleStreamImpl():
            for stream, _ in handle.handles_and_offsets:
                yield stream
        case h.InMemoryChangelogStateHandle():
            pass
        case h.ByteStreamStateHandle():
            yield handle
        case _:
            yield handle.delegate


def _start(stream: h.StreamStateHandle) -> int:
    return stream.start_pos if isinstance(stream, h.SegmentFileStateHandle) else 0


def _all_of(truth: Any, key: str) -> Iterator[Any]:
    if isinstance(truth, dict):
        for name, value in truth.items():
            if name == key:
                yield value
            yield from _all_of(value, key)
    elif isinstance(truth, list):
        for value in truth:
            yield from _all_of(value, key)
